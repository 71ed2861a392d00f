/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: opening and closing. Batches are in psclient_batch.c. A client is opened
 * in the order: options, members (client_open.c), engine, channel, routes; psclient_close
 * undoes whatever of these is there, so that every failure on the way ends in it. */
#include "client/psclient.h"

#include "client/caller_structs.h"
#include "client/client_state.h"
#include "client/status_map.h"

#include <unistd.h>

static enum ps_status open_client(const struct psclient_options *told,
                                  const struct psclient_sizes *sizes,
                                  const struct ps_allocator *memory, struct psclient **out,
                                  struct ps_error *error);
static enum ps_status open_parts(struct psclient *client, const struct psclient_options *options,
                                 struct ps_error *error);
static void release_own(struct psclient *client);

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
    return ps_client_open_members(client, options, error);
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
    /* Both give up what they have through the engine. */
    ps_client_leave_groups(client);
    ps_initialiser_fini(&client->initialiser);
    ps_client_stop_working(client);
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
