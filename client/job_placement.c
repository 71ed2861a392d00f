/* SPDX-License-Identifier: Apache-2.0 */
/* The number is decided in the store, by whoever holds the lock, and by all parameters of the first
 * psclient_init: later ones have their places by it, too. A job with a shard that is initialised
 * has its number already, also when nobody has written it down: parameters of older clients lie by
 * the classic rule, and another one would lose them. */
#include "client/job_placement.h"

#include "base/assert.h"
#include "base/hash.h"
#include "client/calls/method_table.h"
#include "client/engine/placement_choice.h"
#include "proto/cluster_codec.h"
#include "proto/wire.h"

#include <string.h>

/* For a question that every server answers at once. */
#define ASK_MS 2000
/* A job that is not initialised yet is looked at again after this long. */
#define PAUSE_MS 100

static enum ps_status find_proposal(struct psclient *client, const struct ps_item *items,
                                    size_t count, uint64_t deadline_ms, uint64_t *proposal,
                                    struct ps_error *error);
static enum ps_status ask_placement(struct psclient *client, uint32_t shard, uint64_t deadline_ms,
                                    uint64_t *placement, struct ps_error *error);

/* Read without the mutex: encoding a gradient needs where it is cut, which never changes. */
struct ps_layout ps_client_layout(const struct psclient *client)
{
    return (struct ps_layout){client->split_bytes, atomic_load(&client->placement),
                              client->shard_count};
}

/* A number stays: a server that has not heard of it says 0, and one that tells another is of a job
 * that was begun anew. */
void ps_client_place(struct psclient *client, uint64_t placement)
{
    if (placement == 0 || placement == atomic_load(&client->placement))
        return;
    atomic_store(&client->placement, placement);
    ps_engine_place(client->engine, placement);
}

/* The same for whoever does not have the mutex. */
static void place(struct psclient *client, uint64_t placement)
{
    ps_mutex_lock(&client->mutex);
    ps_client_place(client, placement);
    ps_mutex_unlock(&client->mutex);
}

/* ---- Deciding ---- */

/* Threads that give parameters at the same time decide one after the other: the first decides for
 * all. Without the lock (servers of a list that have none) nothing is decided. */
enum ps_status ps_client_decide_placement(struct psclient *client, const struct ps_item *items,
                                          size_t count, uint64_t deadline_ms,
                                          struct ps_error *error)
{
    if (client->shard_count == 1 || count == 0 || atomic_load(&client->placement) != 0)
        return PS_OK;
    /* A keeper of the lock is stopped for the question, so that no other thread may use it. */
    PS_TRY(ps_client_enter_initialising(client, deadline_ms, error));
    enum ps_status status = PS_OK;
    uint64_t placement = atomic_load(&client->placement);
    if (placement == 0 && client->initialiser.holding) {
        status = find_proposal(client, items, count, deadline_ms, &placement, error);
        if (status == PS_OK)
            status = ps_initialiser_decide(&client->initialiser, placement, deadline_ms, &placement,
                                           error);
        if (status == PS_OK)
            place(client, placement);
    }
    ps_client_leave_initialising(client);
    return status;
}

/* Those that stay whole: the ranges of a cut parameter are even whatever the number is. Items that
 * are wrong are refused later, each with its reason. */
static size_t collect_whole(const struct psclient *client, const struct ps_item *items,
                            size_t count, struct ps_placed *placed)
{
    const struct ps_layout layout = ps_client_layout(client);
    size_t whole = 0;
    PS_ASSERT(layout.shard_count > 1);
    for (size_t i = 0; i < count; i++) {
        if ((unsigned)items[i].dtype >= PS_DTYPE_COUNT)
            continue;
        size_t element_size = ps_dtype_size(items[i].dtype);
        size_t size = items[i].size - items[i].size % element_size;
        if (ps_placement_of(size, element_size, &layout).range_count == 1)
            placed[whole++] = (struct ps_placed){items[i].name, size};
    }
    return whole;
}

/* The first server that has parameters decides: whoever gave them has placed them. */
static enum ps_status find_proposal(struct psclient *client, const struct ps_item *items,
                                    size_t count, uint64_t deadline_ms, uint64_t *proposal,
                                    struct ps_error *error)
{
    uint32_t shard = 0;
    *proposal = PS_PLACEMENT_CLASSIC;
    PS_TRY(ps_client_find_begun(client, deadline_ms, &shard, error));
    PS_ASSERT(shard <= client->shard_count);
    if (shard < client->shard_count) {
        uint64_t found = 0;
        PS_TRY(ask_placement(client, shard, deadline_ms, &found, error));
        *proposal = found != 0 ? found : PS_PLACEMENT_CLASSIC;
        return PS_OK;
    }
    /* A fleet with older clients wants what those find. */
    if (client->places_classic)
        return PS_OK;
    struct ps_placed *placed = ps_zeroed_array(client->memory, count, sizeof *placed);
    if (placed == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to place %zu parameters", count);
    size_t whole = collect_whole(client, items, count, placed);
    enum ps_status status =
        ps_placement_choose(placed, whole, client->shard_count, client->memory, proposal, error);
    ps_release(client->memory, placed);
    return status;
}

/* ---- Asking ---- */

/* What is wanted of an answer about all members. */
struct asked {
    const struct ps_allocator *memory;
    uint64_t placement;
};

/* Decoded whole, since a number from a message that is broken further on is worth nothing. */
static enum ps_status take(void *self, const struct ps_call_reply *reply, struct ps_error *error)
{
    struct asked *asked = self;
    struct ps_cluster_reply cluster = {0};
    PS_TRY(ps_decode_cluster(reply->ask, asked->memory, &cluster, error));
    asked->placement = cluster.placement;
    ps_cluster_reply_release(&cluster);
    return PS_OK;
}

/* A server that does not know the call knows the classic rule only. */
static enum ps_status ask_placement(struct psclient *client, uint32_t shard, uint64_t deadline_ms,
                                    uint64_t *placement, struct ps_error *error)
{
    /* The job's name goes along: at the address there may be another job's server by now. */
    struct asked asked = {.memory = client->memory};
    char bytes[PS_JOB_BYTES_MAX + 16];
    struct ps_buffer message;
    ps_buffer_init_fixed(&message, bytes, sizeof bytes);
    ps_wire_put_text(&message, 1, client->job);
    uint64_t until_ms = ps_deadline_after(client->clock, ASK_MS);
    struct ps_item item = {
        .shard = shard, .ask = {(const uint8_t *)bytes, message.size}, .answer = {take, &asked}};
    const struct ps_batch_request request = {.method = PS_METHOD_CLUSTER,
                                             .items = &item,
                                             .item_count = 1,
                                             .deadline_ms =
                                                 until_ms < deadline_ms ? until_ms : deadline_ms};
    PS_TRY(ps_client_run(client, &request, error));
    *placement = asked.placement;
    if (item.status == PS_ERR_UNSUPPORTED)
        return PS_OK;
    return item.status == PS_OK ? PS_OK : ps_fail(error, item.status, "%s", item.text);
}

/* ---- Learning ---- */

/* The state is asked first: a server that was initialised by then says the number afterwards, or is
 * too old to have one. */
enum ps_status ps_client_await_placement(struct psclient *client, uint64_t deadline_ms,
                                         struct ps_error *error)
{
    while (client->shard_count > 1 && atomic_load(&client->placement) == 0) {
        bool is_ready = false;
        uint64_t placement = 0;
        uint64_t seen = ps_wake_count(&client->wake);
        PS_TRY(ps_client_ask_ready(client, 0, deadline_ms, &is_ready, error));
        PS_TRY(ask_placement(client, 0, deadline_ms, &placement, error));
        if (is_ready && placement == 0)
            placement = PS_PLACEMENT_CLASSIC;
        place(client, placement);
        uint64_t left_ms = ps_time_left_ms(client->clock, deadline_ms);
        if (placement == 0 && left_ms == 0)
            return ps_fail(error, PS_ERR_UNAVAILABLE, "the job is not initialised yet");
        if (placement == 0)
            ps_wake_wait(&client->wake, seen, left_ms < PAUSE_MS ? left_ms : PAUSE_MS);
    }
    return PS_OK;
}

/* A server says "not found" when it is initialised, and then it knows the number: it is asked and
 * no other. Whoever cannot learn the number leaves the items as they are, which says the truth:
 * nothing was found where this client has looked. */
static void learn(struct psclient *client, const struct ps_item *item, uint64_t deadline_ms)
{
    uint64_t placement = 0;
    uint32_t shard = ps_hash_shard(item->name, client->shard_count);
    if (ask_placement(client, shard, deadline_ms, &placement, NULL) == PS_OK)
        place(client, placement);
}

/* Also a name that the job does not have. Looking for that once more costs one call, in the life of
 * a client that was opened early. */
static bool is_elsewhere(const struct ps_item *item)
{
    return item->status == PS_ERR_NOT_FOUND;
}

/* A push that was not found was applied by nobody, and gets another number. The others of its batch
 * keep what became of them. */
static void run_again(struct psclient *client, const struct ps_batch_request *request, size_t count)
{
    struct ps_item *items = ps_zeroed_array(client->memory, count, sizeof *items);
    struct ps_batch_request again = *request;
    /* Without memory the items stay as they are: not found. */
    if (items == NULL)
        return;
    again.items = items;
    again.item_count = 0;
    for (size_t i = 0; i < request->item_count; i++)
        if (is_elsewhere(&request->items[i]))
            items[again.item_count++] = request->items[i];
    bool is_run = ps_client_run(client, &again, NULL) == PS_OK;
    size_t next = 0;
    /* In the order in which they were taken out. What the encoder keeps for a push goes along. */
    for (size_t i = 0; is_run && i < request->item_count; i++)
        if (is_elsewhere(&request->items[i]))
            request->items[i] = items[next++];
    PS_ASSERT(!is_run || next == again.item_count);
    ps_release(client->memory, items);
}

/* Only a client that was opened before the job was initialised comes further than the first two
 * questions, and once. */
void ps_client_look_elsewhere(struct psclient *client, const struct ps_batch_request *request,
                              uint64_t placed_by)
{
    /* Of those that were not found: one says whom to ask, their number how many are begun anew. */
    const struct ps_item *first = NULL;
    size_t count = 0;
    PS_ASSERT(request->items != NULL || request->item_count == 0);
    if (client->shard_count == 1 || !ps_method_row(request->method)->names_parameter)
        return;
    for (size_t i = 0; i < request->item_count; i++) {
        if (!is_elsewhere(&request->items[i]))
            continue;
        first = first == NULL ? &request->items[i] : first;
        count++;
    }
    if (count == 0)
        return;
    if (placed_by == 0 && atomic_load(&client->placement) == 0)
        learn(client, first, request->deadline_ms);
    uint64_t placement = atomic_load(&client->placement);
    /* 0 and 1 look in the same places. */
    bool is_same_rule = placement <= PS_PLACEMENT_CLASSIC && placed_by <= PS_PLACEMENT_CLASSIC;
    if (placement != placed_by && !is_same_rule)
        run_again(client, request, count);
}
