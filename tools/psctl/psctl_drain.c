/* SPDX-License-Identifier: Apache-2.0 */
/* psctl drain: has one server end cleanly. */
#include "tools/psctl/psctl_commands.h"

#include "base/quantity.h"
#include "tools/json_document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

static void say_drained(const struct psctl *control, uint64_t index,
                        const struct psclient_server_status *server);

/* One server at a time: whoever takes down several looks at the job in between. The epoch goes
 * along, so that a server which has taken the shard over meanwhile is not told to end. */
static int drain(const struct psctl *control)
{
    uint64_t index = 0;
    uint32_t count = psclient_shard_count(control->client);
    /* An index that is no shard of this job is wrong usage, not a server that does not answer:
     * the text says which there are. */
    if (!ps_quantity_number(control->argument, &index) || index >= count) {
        (void)fprintf(stderr,
                      "psctl: drain %s: expected the index of a server, 0 to %" PRIu32
                      "; psctl members shows them\n",
                      control->argument, count - 1);
        return EX_USAGE;
    }
    /* The server says its epoch first. Between this answer and the request another may have
     * taken over; it has another epoch and refuses. */
    struct psctl_answer answer = psctl_ask(control, (uint32_t)index);
    /* psctl_ask has said why. A server that does not answer cannot be told anything; its lease
     * ends by itself. */
    if (answer.status != PSCLIENT_OK)
        return EX_UNAVAILABLE;
    struct psclient_error error = {0};
    const struct psclient_server_status *server = &answer.server;
    if (psclient_drain(control->client, (uint32_t)index, server->epoch, control->options.timeout_ms,
                       &error) != PSCLIENT_OK) {
        (void)fprintf(stderr, "psctl: server %" PRIu64 " does not drain: %s\n", index, error.text);
        return EX_UNAVAILABLE;
    }
    say_drained(control, index, server);
    return EXIT_SUCCESS;
}

/* Says that the server was told, not that it has ended: a drain takes as long as the calls in
 * flight and the last checkpoint, and the answer came before both. */
static void say_drained(const struct psctl *control, uint64_t index,
                        const struct psclient_server_status *server)
{
    if (!control->json) {
        (void)printf("server %" PRIu64 " (%s) was told to drain: it finishes what is in flight, "
                     "writes a last checkpoint and ends\n",
                     index, server->address);
        return;
    }
    /* The epoch is in the document, so that a script can wait for another one at this index. */
    struct json_document document;
    json_document_init(&document);
    ps_json_begin_object(&document.json, NULL);
    ps_json_uint(&document.json, "index", index);
    ps_json_text(&document.json, "address", ps_bytes_of_text(server->address));
    ps_json_uint(&document.json, "epoch", server->epoch);
    ps_json_end_object(&document.json);
    json_document_print(&document);
    json_document_fini(&document);
}

const struct psctl_command psctl_drain = {
    .page = {.name = "drain",
             .argument = "INDEX",
             .summary = "have one server end cleanly",
             .text =
                 "The server does what SIGTERM does: calls in flight finish, a last checkpoint\n"
                 "is written, the shard is given back, and the process ends with 0. psctl says\n"
                 "that it was told, and does not wait for the end. A spare takes over at once;\n"
                 "whether the process is started again is its supervisor's business.\n",
             .examples = "  psctl drain 0 --etcd http://127.0.0.1:2379\n"},
    .run = drain,
};
