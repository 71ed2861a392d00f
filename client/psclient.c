/* libpsclient: opening and closing. Batches are in psclient_batch.c. A client is opened
 * in the order: options, members (a list, or the store), engine, channel, routes; psclient_close
 * undoes whatever of these is there, so that every failure on the way ends in it. */
#include "client/psclient.h"

#include "base/random.h"
#include "client/caller_structs.h"
#include "client/client_state.h"
#include "client/status_map.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPEN_TIMEOUT_MS 30000

static enum ps_status open_client(const struct psclient_options *told,
                                  const struct psclient_sizes *sizes,
                                  const struct ps_allocator *memory, struct psclient **out,
                                  struct ps_error *error);
static enum ps_status open_parts(struct psclient *client, const struct psclient_options *options,
                                 struct ps_error *error);
static void release_own(struct psclient *client);
static enum ps_status open_fixed(struct psclient *client, const struct psclient_options *options,
                                 struct ps_error *error);
static enum ps_status open_followed(struct psclient *client, const struct psclient_options *options,
                                    struct ps_error *error);
static enum ps_status open_engine(struct psclient *client, const struct psclient_options *options,
                                  struct ps_error *error);

/* The header's psclient_open leads here. */
PS_EXPORT int psclient_open_sized(const struct psclient_options *options,
                                  const struct psclient_sizes *sizes, struct psclient **out,
                                  struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = open_client(options, sizes, ps_allocator_heap(), out, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    return ps_client_succeed(error);
}

/* A program of the first header, or that looks the symbol up by name, says nothing of its structs:
 * they are the first ones, whatever this library has added since. */
int ps_client_open_first(const struct psclient_options *options, struct psclient **out,
                         struct psclient_error *error)
{
    const struct psclient_sizes first = ps_caller_sizes_first();
    return psclient_open_sized(options, &first, out, error);
}

/* Callers are compiled with this tree: their structs are ours. */
enum ps_status ps_client_open(const struct psclient_options *options,
                              const struct ps_allocator *memory, struct psclient **out,
                              struct ps_error *error)
{
    const struct psclient_sizes sizes = psclient_header_sizes();
    return open_client(options, &sizes, memory, out, error);
}

/* The sizes come before the options: they say how many of those there are. */
static enum ps_status open_client(const struct psclient_options *told,
                                  const struct psclient_sizes *sizes,
                                  const struct ps_allocator *memory, struct psclient **out,
                                  struct ps_error *error)
{
    struct psclient_sizes known;
    struct psclient_options options;
    PS_TRY(ps_caller_sizes_take(sizes, &known, error));
    PS_TRY(ps_caller_options(told, known.options, &options, error));
    struct psclient *client = ps_zeroed(memory, sizeof *client);
    if (client == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a client");
    client->memory = memory;
    client->sizes = known;
    client->event_fd = -1;
    ps_process_mark_init(&client->mark);
    enum ps_status status = open_parts(client, &options, error);
    if (status != PS_OK) {
        psclient_close(client);
        return status;
    }
    *out = client;
    return PS_OK;
}

/* Locks are made before the first step that can fail, since psclient_close ends them in any
 * case. */
static enum ps_status open_parts(struct psclient *client, const struct psclient_options *options,
                                 struct ps_error *error)
{
    client->clock = ps_clock_real();
    ps_wake_init(&client->wake);
    ps_mutex_init(&client->mutex, PS_RANK_CLIENT);
    ps_push_encoder_init(&client->encoder, client->memory);
    PS_TRY(ps_client_copy_options(client, options, error));
    return client->etcd == NULL ? open_fixed(client, options, error)
                                : open_followed(client, options, error);
}

/* The threads end first: initialiser and follower use clock, memory and wake until they are joined,
 * and the channel's thread, which ends with the channel, leaves the engine alone from now on. */
PS_EXPORT void psclient_close(struct psclient *client)
{
    if (client == NULL)
        return;
    if (ps_process_mark_is_child(&client->mark)) {
        release_own(client);
        return;
    }
    ps_client_stop_working(client);
    ps_initialiser_fini(&client->initialiser);
    ps_follower_destroy(client->follower);
    ps_engine_destroy(client->engine);
    if (client->channel.destroy != NULL)
        client->channel.destroy(client->channel.self);
    ps_members_release(&client->members);
    ps_push_encoder_fini(&client->encoder);
    ps_mutex_fini(&client->mutex);
    ps_wake_fini(&client->wake);
    release_own(client);
}

/* What no other thread ever changes, and what a child may therefore give back as well. The rest of
 * a child's copy stays: what a thread was doing there at the fork is done half-way for ever. */
static void release_own(struct psclient *client)
{
    ps_release(client->memory, client->init_epochs);
    ps_release(client->memory, client->routes);
    ps_client_release_options(client);
    if (client->event_fd >= 0)
        close(client->event_fd);
    ps_process_mark_fini(&client->mark);
    ps_release(client->memory, client);
}

/* Compiled in: the header of a program may be of another version. */
PS_EXPORT const char *psclient_version(void)
{
    return PSCLIENT_VERSION;
}

/* Fixed when the client was opened: no lock is needed to read it, nor is a fork in the way. */
PS_EXPORT uint32_t psclient_shard_count(const struct psclient *client)
{
    return client->shard_count;
}

/* Under the lock, as all that the engine counts: whoever waits changes it. */
PS_EXPORT uint64_t psclient_retries(const struct psclient *client)
{
    struct psclient *unlocked = (struct psclient *)(uintptr_t)client;
    if (ps_process_mark_is_child(&client->mark))
        return 0;
    ps_mutex_lock(&unlocked->mutex);
    uint64_t retries = ps_engine_counters(client->engine)->retries;
    ps_mutex_unlock(&unlocked->mutex);
    return retries;
}

/* Counted under the lock and cast for that: to read counters changes nothing that a caller sees. */
static struct psclient_counters count(const struct psclient *client)
{
    struct psclient *unlocked = (struct psclient *)(uintptr_t)client;
    ps_mutex_lock(&unlocked->mutex);
    const struct ps_engine_counters *inside = ps_engine_counters(client->engine);
    struct ps_channel_shared shared = ps_channel_grpc_shared(&client->channel);
    struct psclient_counters now = {.retries = inside->retries,
                                    .resends = inside->resends,
                                    .duplicates = inside->duplicates,
                                    .shared_calls = shared.calls,
                                    .shared_bytes = shared.bytes,
                                    .tcp_servers = shared.tcp_servers,
                                    .unix_servers = shared.unix_servers,
                                    .shared_servers = shared.shared_servers};
    ps_mutex_unlock(&unlocked->mutex);
    now.feedback_bytes = ps_push_encoder_bytes(&unlocked->encoder);
    return now;
}

/* A child of a fork has counted nothing. */
PS_EXPORT void psclient_get_counters(const struct psclient *client,
                                     struct psclient_counters *counters)
{
    struct psclient_counters now = {.retries = 0};
    if (!ps_process_mark_is_child(&client->mark))
        now = count(client);
    ps_caller_copy(counters, client->sizes.counters, &now, sizeof now);
}

/* ---- Opening ---- */

/* Client id and session make the request ids of this run its own: random or chosen, and above every
 * earlier session. */
static enum ps_status open_engine(struct psclient *client, const struct psclient_options *options,
                                  struct ps_error *error)
{
    struct ps_engine_options engine = {.memory = client->memory,
                                       .shard_count = client->shard_count,
                                       .split_bytes = options->split_bytes,
                                       .message_calls_max = PS_MESSAGE_CALLS_MAX};
    /* Servers of a fixed list may each be a job of their own: their indices are not the list's. */
    engine.any_shard = client->etcd == NULL;
    ps_random_system(&engine.seed, sizeof engine.seed);
    ps_random_system(&engine.client_id, sizeof engine.client_id);
    engine.client_name = client->client_id;
    engine.session = ps_unix_ns(client->clock) / 1000;
    PS_TRY(ps_engine_create(&engine, &client->engine, error));
    client->routes = ps_zeroed_array(client->memory, client->shard_count, sizeof *client->routes);
    client->init_epochs = ps_zeroed_array(client->memory, client->shard_count, sizeof(uint64_t));
    if (client->routes == NULL || client->init_epochs == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %u shards", client->shard_count);
    PS_TRY(ps_channel_grpc_create(client->shard_count, client->busy_poll, client->clock,
                                  client->memory, &client->channel, error));
    ps_wake_tell(&client->wake, client->channel.interrupt, client->channel.self);
    ps_channel_grpc_share(&client->channel, options->shared_memory != PSCLIENT_SHARED_MEMORY_OFF);
    return ps_channel_grpc_secure(&client->channel, &client->files, error);
}

/* As the kernel has it: sun_path of struct sockaddr_un, with its end. */
enum { UNIX_PATH_BYTES_MAX = 108 };

/* The next of the comma-separated addresses; its size is 0 when it is empty. */
static struct ps_bytes next_address(const char **list)
{
    const char *start = *list;
    size_t size = strcspn(start, ",");
    *list = start[size] == ',' ? start + size + 1 : NULL;
    return (struct ps_bytes){(const uint8_t *)start, size};
}

/* A host, a colon and a port from 1 to 65535; gRPC would cut a larger one down to another port. Or
 * the path of a unix socket. Digits are read from the end, since a host may have colons (IPv6). */
static bool is_address(struct ps_bytes text)
{
    static const char local[] = "unix:";
    size_t path = sizeof local - 1;
    if (text.size > path && memcmp(text.data, local, path) == 0)
        return text.size < PS_ADDRESS_BYTES_MAX && text.size - path < UNIX_PATH_BYTES_MAX;
    size_t digits = 0;
    uint32_t port = 0;
    uint32_t place = 1;
    while (digits < text.size && digits < 5 && isdigit(text.data[text.size - 1 - digits])) {
        port += place * (uint32_t)(text.data[text.size - 1 - digits] - '0');
        place *= 10;
        digits++;
    }
    return text.size < PS_ADDRESS_BYTES_MAX && port >= 1 && port <= 65535 &&
           text.size > digits + 1 && text.data[text.size - 1 - digits] == ':';
}

/* Judged as a whole before anything is made: the number of shards must be known, and a typing error
 * is told with its place. */
static enum ps_status open_fixed(struct psclient *client, const struct psclient_options *options,
                                 struct ps_error *error)
{
    client->shard_count = 0;
    for (const char *list = options->servers; list != NULL; client->shard_count++) {
        struct ps_bytes address = next_address(&list);
        if (!is_address(address))
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "server %u: \"%.*s\" is neither HOST:PORT nor unix:PATH",
                           client->shard_count, (int)(address.size < 100 ? address.size : 100),
                           (const char *)address.data);
    }
    PS_TRY(open_engine(client, options, error));

    const char *list = options->servers;
    for (uint32_t i = 0; i < client->shard_count; i++) {
        struct ps_bytes address = next_address(&list);
        char text[PS_ADDRESS_BYTES_MAX];
        snprintf(text, sizeof text, "%.*s", (int)address.size, (const char *)address.data);
        /* A server of a list has no epoch that we know: any but 0, which would mean that nobody
         * serves. */
        if (!ps_client_route(client, i, text, 1))
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a connection");
    }
    return PS_OK;
}

/* Each user of the store has a connection of its own, which lives as long as that user. */
enum ps_status ps_client_open_store(struct psclient *client, struct ps_kv **kv,
                                    struct ps_error *error)
{
    const struct ps_kv_etcd_options options = {.endpoints = client->etcd,
                                               .access = client->etcd_access,
                                               .clock = client->clock,
                                               .memory = client->memory};
    return ps_kv_etcd_open(&options, kv, error);
}

/* The number of shards must be known before there can be an engine; servers may still be
 * missing. */
static enum ps_status open_followed(struct psclient *client, const struct psclient_options *options,
                                    struct ps_error *error)
{
    uint64_t timeout_ms =
        options->open_timeout_ms != 0 ? options->open_timeout_ms : OPEN_TIMEOUT_MS;
    uint64_t deadline_ms = ps_deadline_after(client->clock, timeout_ms);
    struct ps_kv *kv;
    PS_TRY(ps_client_open_store(client, &kv, error));
    enum ps_status status = ps_follower_create(kv, client->job, &client->wake, client->clock,
                                               client->memory, &client->follower, error);
    if (status != PS_OK) {
        ps_kv_destroy(kv);
        return status;
    }
    for (;;) {
        uint64_t seen = ps_wake_count(&client->wake);
        status = ps_follower_shard_count(client->follower, &client->shard_count, error);
        if (status == PS_OK)
            return open_engine(client, options, error);
        uint64_t left_ms = ps_time_left_ms(client->clock, deadline_ms);
        if (left_ms == 0)
            return PS_ERR_UNAVAILABLE;
        ps_wake_wait(&client->wake, seen, left_ms);
    }
}
