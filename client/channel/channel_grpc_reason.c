/* SPDX-License-Identifier: Apache-2.0 */
/* Why a connection does not come up. gRPC tells the state of a channel, and not what is behind it;
 * a call that does not wait for the connection fails with the reason. Such a call is made beside
 * those that wait, of TLS connections only: a certificate that is refused once is refused again,
 * and whoever waits should hear of it before the time is up. */
#include "client/channel/channel_grpc.h"

#include "base/assert.h"

#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <stdio.h>
#include <string.h>

/* Should the connection come up meanwhile, the call is a question without a message to the server,
 * which ends by itself. */
#define ASK_MS 1000

/* What is found in the words of gRPC and OpenSSL, in ours. Definite: it is the certificates, and
 * trying again does not help until files change. A server that closes may be full as well as
 * unwilling, so that is told and tried again. */
static const struct {
    const char *found, *text; /* text NULL: as found */
    bool definite;
} meanings[] = {
    {"certificate verify failed",
     "the server's certificate is not vouched for by tls_ca, or not valid at this time", true},
    {"is not in peer certificate", NULL, true},
    {"wrong version number", "the server does not speak TLS", true},
    {"empty address list", "tls_ca cannot be used, or tls_key is not that of tls_cert", true},
    {"Socket closed", "the server closes the connection: it may not take this client's certificate",
     false},
};

/* One question at a time: its tag is in the connection, which stays until the answer is there. */
void ps_reason_ask(struct ps_grpc_side *side, struct ps_connection *connection)
{
    struct ps_reason *reason = &connection->reason;
    if (reason->call != NULL || !connection->is_secure || connection->detached || side->stopping)
        return;
    reason->kind = PS_TAG_REASON;
    reason->connection = connection;
    reason->details = grpc_empty_slice();
    grpc_metadata_array_init(&reason->metadata);
    reason->call = grpc_channel_create_registered_call(
        connection->channel, NULL, GRPC_PROPAGATE_DEFAULTS, side->queue,
        connection->methods[PS_METHOD_STATUS], ps_grpc_after_ms(ASK_MS), NULL);
    grpc_op ops[3];
    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[2].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[2].data.recv_status_on_client.trailing_metadata = &reason->metadata;
    ops[2].data.recv_status_on_client.status = &reason->code;
    ops[2].data.recv_status_on_client.status_details = &reason->details;
    PS_TAG_GIVE(reason);
    grpc_call_error failed =
        grpc_call_start_batch(reason->call, ops, PS_ARRAY_COUNT(ops), reason, NULL);
    PS_ASSERT(failed == GRPC_CALL_OK);
}

/* Of the errors that gRPC strings together the last is the most definite. */
static void note(struct ps_reason *reason)
{
    char *text = grpc_slice_to_c_string(reason->details);
    const char *last = strstr(text, "last error: ");
    const char *shown = last != NULL ? last + strlen("last error: ") : text;
    reason->definite = false;
    for (size_t i = 0; i < PS_ARRAY_COUNT(meanings); i++) {
        if (strstr(text, meanings[i].found) == NULL)
            continue;
        shown = meanings[i].text != NULL ? meanings[i].text : shown;
        reason->definite = meanings[i].definite;
        break;
    }
    (void)snprintf(reason->text, sizeof reason->text, "%s", shown);
    gpr_free(text);
}

/* Under the mutex: a refusal of a flight reads the text. A question that ended in another way,
 * because the connection came up or goes, has learned nothing. */
void ps_reason_ended(struct ps_reason *reason)
{
    PS_ASSERT(reason->call != NULL);
    if (reason->code == GRPC_STATUS_UNAVAILABLE)
        note(reason);
    grpc_slice_unref(reason->details);
    grpc_metadata_array_destroy(&reason->metadata);
    grpc_call_unref(reason->call);
    reason->call = NULL;
}
