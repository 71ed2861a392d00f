/* SPDX-License-Identifier: Apache-2.0 */
/* What one option alone cannot say: ranges, and what options mean together. Each rule that is
 * broken has a sentence of its own, which names the option as it is typed. */
#include "server/pserver_rules.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "etcd/registry_sets.h"
#include "server/address.h"
#include "server/device_choice.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static enum ps_status check_addresses(const struct ps_pserver_options *options,
                                      struct ps_error *error);
static enum ps_status check_ranges(struct ps_pserver_options *options, struct ps_error *error);
static enum ps_status check_access(struct ps_pserver_options *options, struct ps_error *error);
static enum ps_status check_local_users(struct ps_pserver_options *options, struct ps_error *error);
static enum ps_status check_journal(struct ps_pserver_options *options, struct ps_error *error);
static enum ps_status parse_index(struct ps_pserver_options *options, struct ps_error *error);
static enum ps_status parse_update_threads(struct ps_pserver_options *options,
                                           struct ps_error *error);

enum ps_status ps_pserver_rules_check(struct ps_pserver_options *options, struct ps_error *error)
{
    PS_TRY(check_addresses(options, error));
    PS_TRY(check_ranges(options, error));
    PS_TRY(check_access(options, error));
    PS_TRY(check_local_users(options, error));
    /* Without etcd, servers on different machines do not see each other, and each would take the
     * lowest shard. */
    if (options->etcd == NULL && options->num_pservers > 1 && options->index_text == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--num-pservers %llu without --etcd needs --index, so that each server "
                       "knows its shard",
                       (unsigned long long)options->num_pservers);
    PS_TRY(check_journal(options, error));
    /* The name is parsed again when the device is opened; here it is only judged. */
    struct ps_device_name unused;
    PS_TRY(ps_device_name_parse(options->device, &unused, error));
    return parse_index(options, error);
}

/* A path has a slash, so that no misspelt word becomes a file. The kernel's limit is a hundred
 * bytes or so, and it would cut the path silently. */
static enum ps_status check_listen_unix(const char *text, struct ps_error *error)
{
    PS_ASSERT(text != NULL);
    size_t size_max = sizeof((struct sockaddr_un){0}.sun_path) - 1;
    if (strchr(text, '/') == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--listen-unix \"%.100s\": expected a path with a \"/\"", text);
    if (strlen(text) > size_max)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--listen-unix: a socket's path has at most %zu bytes", size_max);
    return PS_OK;
}

/* All of them before anything is bound: a misspelt --http must not end a server that has already
 * claimed its shard. */
static enum ps_status check_addresses(const struct ps_pserver_options *options,
                                      struct ps_error *error)
{
    PS_ASSERT(options->listen != NULL);
    /* Only the form is judged here. Whether a host resolves is found out by binding, and the host
     * of --advertise may be one that only clients can resolve. */
    PS_TRY(ps_address_check("--listen", options->listen, error));
    if (options->listen_unix != NULL)
        PS_TRY(check_listen_unix(options->listen_unix, error));
    if (options->advertise != NULL)
        PS_TRY(ps_address_check("--advertise", options->advertise, error));
    /* ":PORT" is every interface there. */
    if (options->http != NULL && options->http[0] != ':')
        PS_TRY(ps_address_check("--http", options->http, error));
    return PS_OK;
}

/* Bounds that are beyond any use rather than beyond taste: below them something stops working (a
 * lease of less than a second cannot be kept), above them a number does not fit where it goes. */
static enum ps_status check_ranges(struct ps_pserver_options *options, struct ps_error *error)
{
    PS_ASSERT(options->busy_poll_text != NULL);
    if (options->num_pservers < 1 || options->num_pservers > PS_SHARDS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--num-pservers must be 1 to %d, not %llu",
                       PS_SHARDS_MAX, (unsigned long long)options->num_pservers);
    /* A lease of etcd counts whole seconds, and one turn of the coordinator may take a third of the
     * lease. */
    if (options->etcd_ttl_ms < 1000 || options->etcd_ttl_ms > 3600000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--etcd-ttl must be 1s to 1h");
    if (options->checkpoint_interval_ms < 100)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--checkpoint-interval must be 100ms or more");
    /* Each of them keeps its base, and the journal behind the base before that. */
    if (options->increments > 1000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--increments must be 0 to 1000");
    /* gRPC takes the largest message as an int. */
    if (options->message_bytes < 64 * 1024 || options->message_bytes > INT_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--message-bytes must be 64KiB to %d", INT_MAX);
    if (options->client_calls < 1 || options->client_calls > 100000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--client-calls must be 1 to 100000");
    if (options->waiting_calls < 1 || options->waiting_calls > 100000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--waiting-calls must be 1 to 100000");
    if (options->rendezvous_steps < 1 || options->rendezvous_steps > 1000000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--rendezvous-steps must be 1 to 1000000");
    if (options->rendezvous_keys < 2 || options->rendezvous_keys > 100000000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--rendezvous-keys must be 2 to 100000000");
    if (options->program_requests < 1 || options->program_requests > 1000000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--program-requests must be 1 to 1000000");
    if (options->open_calls < 1 || options->open_calls > 1000000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--open-calls must be 1 to 1000000");
    if (options->connections > 1000000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--connections must be 0 to 1000000");
    /* A number that is too large is refused rather than lowered: whoever gave the number would
     * measure another one. */
    if (options->lanes > PS_LANES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--lanes must be 0 to %d, not %llu", PS_LANES_MAX,
                       (unsigned long long)options->lanes);
    PS_TRY(parse_update_threads(options, error));
    PS_TRY(ps_busy_poll_parse("--busy-poll", options->busy_poll_text, &options->busy_poll, error));
    /* Zero means "no limit" or "default" for other sizes, so it cannot mean "off" for this one. */
    if (options->shared_memory_bytes < 1 << 20)
        return ps_fail(
            error, PS_ERR_BAD_INPUT,
            "--shared-memory-bytes must be 1MiB or more; --shared-memory off offers none");
    if (options->model_checkpoints_keep < 1 || options->model_checkpoints_keep > PS_SETS_KEPT_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--model-checkpoints-keep must be 1 to %d",
                       PS_SETS_KEPT_MAX);
    if (options->reply_ms < 1000)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--reply-timeout must be 1s or more");
    /* An empty name, which a script makes of an unset variable, would put the files into the root
     * folder. */
    if (options->data_dir != NULL && options->data_dir[0] == '\0')
        return ps_fail(error, PS_ERR_BAD_INPUT, "--data-dir is empty");
    return PS_OK;
}

/* Of files only their names are judged here. A server that was to ask for certificates and could
 * not check them is refused: it would let everybody in. */
static enum ps_status check_access(struct ps_pserver_options *options, struct ps_error *error)
{
    const char *wish = options->tls_client_auth_text;
    if ((options->tls_cert == NULL) != (options->tls_key == NULL))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--tls-cert and --tls-key go together: one is missing");
    if (options->tls_cert == NULL && (options->tls_ca != NULL || wish != NULL))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--tls-ca and --tls-client-auth need --tls-cert and --tls-key");
    if (wish == NULL)
        wish = options->tls_ca != NULL ? "require" : "none";
    options->tls_client_auth = strcmp(wish, "require") == 0   ? PS_CLIENT_AUTH_REQUIRE
                               : strcmp(wish, "request") == 0 ? PS_CLIENT_AUTH_REQUEST
                                                              : PS_CLIENT_AUTH_NONE;
    if (options->tls_client_auth != PS_CLIENT_AUTH_NONE && options->tls_ca == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--tls-client-auth %s needs --tls-ca, to check certificates against", wish);
    return PS_OK;
}

/* The kernel's word for a user is no certificate: with TLS it is taken for the server's own user
 * alone, unless others are named. */
static enum ps_status check_local_users(struct ps_pserver_options *options, struct ps_error *error)
{
    struct ps_local_users *users = &options->local_users;
    const char *text = options->local_uids_text;
    *users = (struct ps_local_users){.is_restricted = text != NULL || options->tls_cert != NULL};
    if (text == NULL && users->is_restricted)
        users->users[users->count++] = geteuid();
    if (text != NULL && !ps_local_users_parse(users, text))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--local-uids \"%.60s\": expected none, or up to %d numbers with commas",
                       text, PS_LOCAL_USERS_MAX);
    if (options->listen_unix != NULL && users->is_restricted && users->count == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--listen-unix and --local-uids none: nobody could come in there");
    /* Memory is shared with processes of the server's own user only: whoever keeps that user out
     * has switched shared memory off, and only who asks for both is contradicted. */
    if (ps_local_users_allow(users, geteuid()))
        return PS_OK;
    if (strcmp(options->shared_memory, "on") == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--shared-memory on needs the server's own user, %u, in --local-uids",
                       (unsigned)geteuid());
    options->shared_memory = "off";
    return PS_OK;
}

/* A server without a data directory has no journal, whatever --journal says by default; asking for
 * an acknowledgement that needs one is a contradiction, and is refused. */
static enum ps_status check_journal(struct ps_pserver_options *options, struct ps_error *error)
{
    options->journal = options->journal && options->data_dir != NULL;
    /* The default is the strongest promise that this server can keep. */
    if (options->ack == NULL)
        options->ack = options->journal ? "logged" : "memory";
    if (strcmp(options->ack, "logged") == 0 && !options->journal)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--ack logged needs the journal: give --data-dir, and no --no-journal");
    /* Smaller segments would make a file for every few pushes, and a smaller queue would refuse
     * pushes that a healthy disk takes. */
    if (options->journal_segment_bytes < 1 << 20 || options->journal_queue_bytes < 1 << 20)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--journal-segment-bytes and --journal-queue-bytes must be 1MiB or more");
    if (options->checkpoint_journal_bytes > 0 && options->checkpoint_journal_bytes < 1 << 20)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--checkpoint-journal-bytes must be 1MiB or more, or 0");
    /* Every remembered client costs memory, and the service takes the number as 32 bits. */
    if (options->clients_max < 1 || options->clients_max > 1u << 24)
        return ps_fail(error, PS_ERR_BAD_INPUT, "--clients-max must be 1 to %u", 1u << 24);
    return PS_OK;
}

/* -1 is what scripts of the system before this one pass for "any". */
static enum ps_status parse_index(struct ps_pserver_options *options, struct ps_error *error)
{
    PS_ASSERT(options->num_pservers > 0);
    options->index = -1;
    if (options->index_text == NULL || strcmp(options->index_text, "-1") == 0)
        return PS_OK;
    size_t digits = strspn(options->index_text, "0123456789");
    bool number = digits > 0 && options->index_text[digits] == '\0';
    /* A number that is too large for strtoul becomes ULONG_MAX, which is refused like every index
     * that is not below the count. */
    unsigned long index = strtoul(options->index_text, NULL, 10);
    if (!number || index >= options->num_pservers)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--index %s: expected a number below --num-pservers (%llu)",
                       options->index_text, (unsigned long long)options->num_pservers);
    options->index = (int64_t)index;
    return PS_OK;
}

/* One digit is enough: more threads than that at one update only wait for memory. */
static enum ps_status parse_update_threads(struct ps_pserver_options *options,
                                           struct ps_error *error)
{
    PS_ASSERT(PS_UPDATE_THREADS_MAX <= 9);
    const char *text = options->update_threads_text;
    /* Zero leaves the number to the RPC server, which knows the machine. */
    options->update_threads = 0;
    if (strcmp(text, "auto") == 0)
        return PS_OK;
    if (text[0] < '1' || text[0] > '0' + PS_UPDATE_THREADS_MAX || text[1] != '\0')
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "--update-threads \"%.40s\": expected auto, or a number from 1 to %d", text,
                       PS_UPDATE_THREADS_MAX);
    options->update_threads = (uint32_t)(text[0] - '0');
    return PS_OK;
}
