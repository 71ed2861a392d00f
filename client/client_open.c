/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a client: finding out how many shards there are, and where. With etcd a follower reads
 * that from the store; a list of servers is asked (members/seeds.h) whether it is the shards
 * themselves or some servers of a cluster, which is then followed through whichever answers. */
#include "client/client_state.h"

#include "base/assert.h"
#include "base/random.h"
#include "client/job_placement.h"
#include "client/members/seeds.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define OPEN_TIMEOUT_MS 30000

static enum ps_status open_followed(struct psclient *client, const struct psclient_options *options,
                                    struct ps_error *error);
static enum ps_status open_seeds(struct psclient *client, const struct psclient_options *options,
                                 struct ps_error *error);

/* The options name one of the two, which was checked when they were copied. A failure leaves what
 * is there to psclient_close. */
enum ps_status ps_client_open_members(struct psclient *client,
                                      const struct psclient_options *options,
                                      struct ps_error *error)
{
    PS_TRY(client->etcd != NULL ? open_followed(client, options, error)
                                : open_seeds(client, options, error));
    /* What is known of the members holds for the first batch already. */
    ps_mutex_lock(&client->mutex);
    ps_client_pump(client);
    ps_mutex_unlock(&client->mutex);
    return PS_OK;
}

/* One deadline for everything that opening waits for. */
static uint64_t open_deadline(const struct psclient *client, const struct psclient_options *options)
{
    uint64_t timeout_ms =
        options->open_timeout_ms != 0 ? options->open_timeout_ms : OPEN_TIMEOUT_MS;
    return ps_deadline_after(client->clock, timeout_ms);
}

/* Client id and session make the request ids of this run its own: a random id, or one that was
 * chosen in a session above every earlier one. */
static enum ps_status open_engine(struct psclient *client, const struct psclient_options *options,
                                  struct ps_error *error)
{
    struct ps_engine_options engine = {.memory = client->memory,
                                       .shard_count = client->shard_count,
                                       .split_bytes = options->split_bytes,
                                       .message_calls_max = PS_MESSAGE_CALLS_MAX};
    /* Servers of a fixed list may each be a job of their own: their indices are not the list's. */
    engine.any_shard = client->is_list;
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

/* The source is ended here when it does not get a follower. */
static enum ps_status follow(struct psclient *client, const struct ps_member_source *source,
                             struct ps_error *error)
{
    enum ps_status status =
        ps_follower_create(source, &client->wake, client->memory, &client->follower, error);
    if (status != PS_OK)
        source->destroy(source->self);
    return status;
}

/* Judged as a whole before anything is made: a typing error is told with its place. */
static enum ps_status read_list(const struct psclient *client, const char *list,
                                char (**out)[PS_ADDRESS_BYTES_MAX], uint32_t *out_count,
                                struct ps_error *error)
{
    /* Counted before anything is made for them. */
    uint32_t count = 0;
    for (const char *rest = list; rest != NULL; count++) {
        struct ps_bytes address = next_address(&rest);
        if (!is_address(address))
            return ps_fail(
                error, PS_ERR_BAD_INPUT, "server %u: \"%.*s\" is neither HOST:PORT nor unix:PATH",
                count, (int)(address.size < 100 ? address.size : 100), (const char *)address.data);
    }
    if (count > PS_SHARDS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "more than %d servers", PS_SHARDS_MAX);
    char(*addresses)[PS_ADDRESS_BYTES_MAX] =
        ps_zeroed_array(client->memory, count, sizeof *addresses);
    if (addresses == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %u servers", count);
    for (uint32_t i = 0; i < count; i++) {
        struct ps_bytes address = next_address(&list);
        memcpy(addresses[i], address.data, address.size);
    }
    *out = addresses;
    *out_count = count;
    return PS_OK;
}

/* The list is the shards, in its order. Nothing moves there: a server that dies comes back at its
 * address, or not at all. */
static enum ps_status open_fixed(struct psclient *client, const struct psclient_options *options,
                                 char (*addresses)[PS_ADDRESS_BYTES_MAX], uint32_t count,
                                 struct ps_error *error)
{
    /* What the engine does not ask a server by its index, and what begins without the lock. */
    client->is_list = true;
    client->shard_count = count;
    PS_TRY(open_engine(client, options, error));
    for (uint32_t i = 0; i < count; i++)
        /* A server of a list has no epoch that we know: any but 0, which would mean that nobody
         * serves. */
        if (!ps_client_route(client, i, addresses[i], 1))
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a connection");
    return PS_OK;
}

/* A channel of their own: how many shards the client's has to have is what they are asked. It
 * carries a question and an answer, so that neither shared memory nor a thread that looks instead
 * of sleeping would pay. */
static enum ps_status create_seeds(struct psclient *client, char (*addresses)[PS_ADDRESS_BYTES_MAX],
                                   uint32_t count, struct ps_seeds **seeds, struct ps_error *error)
{
    struct ps_channel channel = {0};
    const struct ps_busy_poll_wish never = {0};
    PS_TRY(ps_channel_grpc_create(count + PS_SEEDS_LEARNED, never, client->clock, client->memory,
                                  &channel, error));
    ps_channel_grpc_share(&channel, false);
    /* The files of the client itself: a server tells nobody else where the others are. */
    enum ps_status status = ps_channel_grpc_secure(&channel, &client->files, error);
    if (status == PS_OK)
        status = ps_seeds_create(addresses, count, client->job, &channel, client->clock,
                                 client->memory, seeds, error);
    if (status != PS_OK)
        channel.destroy(channel.self);
    return status;
}

/* What was found is told to the engine with the first pump, as if the follower had told it. */
static enum ps_status open_cluster(struct psclient *client, const struct psclient_options *options,
                                   struct ps_seeds *seeds, struct ps_error *error)
{
    /* Taken by the follower, or ended with it when there is no memory for one. */
    const struct ps_member_source source = ps_seeds_source(seeds);
    /* Before the engine, which is made for so many. */
    client->shard_count = client->members.shard_count;
    client->members_pending = true;
    PS_TRY(follow(client, &source, error));
    return open_engine(client, options, error);
}

/* The seeds of a cluster live on as the follower's source. Those of a list have said all that they
 * know: their connection is closed, and the client has its own. */
static enum ps_status open_seeds(struct psclient *client, const struct psclient_options *options,
                                 struct ps_error *error)
{
    char(*addresses)[PS_ADDRESS_BYTES_MAX] = NULL;
    uint32_t count = 0;
    struct ps_seeds *seeds = NULL;
    enum ps_seeds_verdict verdict = PS_SEEDS_OPEN;
    PS_TRY(read_list(client, options->servers, &addresses, &count, error));
    enum ps_status status = create_seeds(client, addresses, count, &seeds, error);
    if (status == PS_OK)
        status =
            ps_seeds_find(seeds, open_deadline(client, options), &verdict, &client->members, error);
    if (status != PS_OK || verdict == PS_SEEDS_LIST)
        ps_seeds_destroy(seeds);
    if (status == PS_OK && verdict == PS_SEEDS_LIST)
        status = open_fixed(client, options, addresses, count, error);
    /* Servers of a list are followed by nobody: what they say now is what this client hears. */
    if (status == PS_OK && verdict == PS_SEEDS_LIST)
        ps_client_place(client, client->members.placement);
    if (status == PS_OK && verdict != PS_SEEDS_LIST)
        status = open_cluster(client, options, seeds, error);
    ps_release(client->memory, addresses);
    return status;
}

/* Whatever asks the store has a connection of its own: follower and initialiser wait in it at the
 * same time. */
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
    uint64_t deadline_ms = open_deadline(client, options);
    struct ps_kv *kv;
    struct ps_member_source source;
    PS_TRY(ps_client_open_store(client, &kv, error));
    enum ps_status status =
        ps_members_of_store(kv, client->job, client->clock, client->memory, &source, error);
    if (status != PS_OK) {
        ps_kv_destroy(kv);
        return status;
    }
    PS_TRY(follow(client, &source, error));
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
