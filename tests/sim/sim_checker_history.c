/* P1 and P2: the pushes of a shard, and which of them survive.
 *
 * An owner begins with a place: a position of an earlier epoch. What survives for it are the pushes
 * of that epoch up to there, of the epoch before up to where that one began, and so on. */
#include "base/assert.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ID_BYTES 16
#define NO_ENTRY SIZE_MAX

/* One push as it was applied. */
struct push {
    uint64_t epoch, position, version;
    uint8_t client[ID_BYTES];
    uint64_t session, sequence;
};

/* How an epoch began; 0, 0: empty. */
struct origin {
    uint64_t epoch;
    uint64_t parent_epoch, parent_position;
    uint64_t position; /* of its last push, or of its beginning */
};

struct sim_history {
    struct push *pushes; /* owned */
    size_t push_count, push_capacity;
    struct origin *origins; /* owned; in the order of their beginning */
    size_t origin_count, origin_capacity;
    uint64_t acknowledged_epoch; /* of the newest push that was, by epoch and position */
    uint64_t acknowledged_position;
};

struct sim_history *sim_history_create(void)
{
    struct sim_history *history = calloc(1, sizeof *history);
    PS_ASSERT(history != NULL);
    return history;
}

void sim_history_destroy(struct sim_history *history)
{
    free(history->pushes);
    free(history->origins);
    free(history);
}

static void *grown(void *rows, size_t count, size_t *capacity, size_t row_size)
{
    if (count < *capacity)
        return rows;
    *capacity = 2 * *capacity + 16;
    rows = realloc(rows, *capacity * row_size);
    PS_ASSERT(rows != NULL);
    return rows;
}

static struct origin *find_origin(const struct sim_history *history, uint64_t epoch)
{
    for (size_t i = history->origin_count; i > 0; i--)
        if (history->origins[i - 1].epoch == epoch)
            return &history->origins[i - 1];
    return NULL;
}

/* Whether what stood at (epoch, position) is part of what the owner `of` has. */
static bool survives(const struct sim_history *history, uint64_t of, uint64_t epoch,
                     uint64_t position)
{
    uint64_t last = UINT64_MAX;
    while (of > epoch) {
        const struct origin *origin = find_origin(history, of);
        if (origin == NULL)
            return false;
        if (origin->parent_position < last)
            last = origin->parent_position;
        of = origin->parent_epoch;
    }
    return of == epoch && position <= last;
}

/* ---- Beginnings ---- */

void sim_checker_began(struct sim_world *world, const struct sim_server *server,
                       const struct ps_recovered *recovered)
{
    if (!world->options.journals)
        return;
    struct sim_history *history = sim_checker_history(world, server->claim.index);
    uint64_t epoch = server->claim.epoch;
    if (find_origin(history, epoch) != NULL)
        sim_fail(world, "P4: %s began twice under epoch %" PRIu64, server->name, epoch);
    history->origins = grown(history->origins, history->origin_count, &history->origin_capacity,
                             sizeof *history->origins);
    history->origins[history->origin_count++] =
        (struct origin){epoch, recovered->epoch, recovered->position, recovered->position};
    if (history->acknowledged_epoch <= epoch && history->acknowledged_position > 0 &&
        !survives(history, epoch, history->acknowledged_epoch, history->acknowledged_position))
        sim_fail(world,
                 "P1: %s begins shard %u with epoch %" PRIu64 ", position %" PRIu64
                 ", but epoch %" PRIu64 ", position %" PRIu64 " was acknowledged",
                 server->name, server->claim.index, recovered->epoch, recovered->position,
                 history->acknowledged_epoch, history->acknowledged_position);
}

/* ---- Pushes ---- */

static struct push push_of(const struct ps_push_request *request, uint64_t epoch,
                           const struct ps_push_reply *reply)
{
    struct push push = {.epoch = epoch,
                        .position = reply->position,
                        .version = reply->version,
                        .session = request->request.session,
                        .sequence = request->request.sequence};
    PS_ASSERT(request->request.present && request->request.client_id.size <= ID_BYTES);
    memcpy(push.client, request->request.client_id.data, request->request.client_id.size);
    return push;
}

static bool same_id(const struct push *a, const struct push *b)
{
    return a->sequence == b->sequence && a->session == b->session &&
           memcmp(a->client, b->client, ID_BYTES) == 0;
}

/* The push of that id among those that the owner `epoch` has. */
static size_t find_push(const struct sim_history *history, uint64_t epoch, const struct push *push)
{
    for (size_t i = history->push_count; i > 0; i--) {
        const struct push *other = &history->pushes[i - 1];
        if (same_id(other, push) && survives(history, epoch, other->epoch, other->position))
            return i - 1;
    }
    return NO_ENTRY;
}

static size_t remember(struct sim_world *world, const struct sim_server *server,
                       struct sim_history *history, const struct push *push)
{
    struct origin *origin = find_origin(history, push->epoch);
    if (origin == NULL || push->position != origin->position + 1)
        sim_fail(world, "P5: %s gives position %" PRIu64 " after %" PRIu64, server->name,
                 push->position, origin != NULL ? origin->position : 0);
    else
        origin->position = push->position;
    history->pushes = grown(history->pushes, history->push_count, &history->push_capacity,
                            sizeof *history->pushes);
    history->pushes[history->push_count] = *push;
    return history->push_count++;
}

size_t sim_checker_pushed(struct sim_world *world, const struct sim_server *server,
                          const struct ps_push_request *request, const struct ps_push_reply *reply)
{
    struct ps_status_reply now;
    char uuid[37];
    if (!world->options.journals || reply->staged)
        return NO_ENTRY;
    ps_service_status(server->service, &now, uuid);
    struct sim_history *history = sim_checker_history(world, now.index);
    const struct push push = push_of(request, now.epoch, reply);
    size_t before = find_push(history, now.epoch, &push);
    if (!reply->duplicate && before == NO_ENTRY)
        return remember(world, server, history, &push);
    if (before == NO_ENTRY)
        sim_fail(world, "P2: %s calls a push repeated that it does not have", server->name);
    else if (!reply->duplicate)
        sim_fail(world, "P2: %s applies a push again: positions %" PRIu64 " and %" PRIu64,
                 server->name, history->pushes[before].position, push.position);
    else if (history->pushes[before].version != push.version)
        sim_fail(world, "P2: %s answers version %" PRIu64 " again, the first was %" PRIu64,
                 server->name, push.version, history->pushes[before].version);
    return before;
}

void sim_checker_acknowledged(struct sim_world *world, const struct sim_server *server,
                              size_t entry)
{
    struct ps_status_reply now;
    char uuid[37];
    if (entry == NO_ENTRY)
        return;
    ps_service_status(server->service, &now, uuid);
    struct sim_history *history = sim_checker_history(world, now.index);
    const struct push *push = &history->pushes[entry];
    if (push->epoch < history->acknowledged_epoch ||
        (push->epoch == history->acknowledged_epoch &&
         push->position <= history->acknowledged_position))
        return;
    history->acknowledged_epoch = push->epoch;
    history->acknowledged_position = push->position;
}
