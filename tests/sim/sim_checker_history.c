/* SPDX-License-Identifier: Apache-2.0 */
/* P1 and P2: the pushes of a shard, and which of them survive.
 *
 * An owner begins with a place: a position of an earlier epoch. What survives for it are the pushes
 * of that epoch up to there, of the epoch before up to where that one began, and so on. */
#include "base/assert.h"
#include "optimizer/encoded.h"
#include "server/core/requests/service_state.h"
#include "server/core/sessions/push_counts.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_rounds.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ID_BYTES 16
#define NO_ENTRY SIM_NO_ENTRY

/* One push as it was applied, or one change. */
struct push {
    uint64_t epoch, position, version;
    uint8_t client[ID_BYTES];
    size_t client_size;
    uint64_t session, sequence;
    uint64_t name;         /* of the parameter, as push counts have it */
    enum ps_method method; /* PUSH, or of a change */
};

/* A push of a whole gradient: another one under its id must not be taken for it. */
struct probe {
    struct push push; /* position 0: none */
    char name[PS_NAME_BYTES_MAX];
    size_t name_size, content_size;
    enum ps_dtype dtype;
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
    struct probe probe;
    size_t last; /* the push that was looked at last; NO_ENTRY: none */
};

struct sim_history *sim_history_create(void)
{
    struct sim_history *history = calloc(1, sizeof *history);
    PS_ASSERT(history != NULL);
    history->last = NO_ENTRY;
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

bool sim_history_is_overtaken(const struct sim_history *history, uint64_t epoch)
{
    const struct origin *origin = find_origin(history, epoch);
    return origin != NULL && origin->parent_epoch > epoch;
}

bool sim_history_survives(const struct sim_history *history, uint64_t of, uint64_t epoch,
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
    struct sim_history *history = sim_checker_history(world, server->claim.index);
    uint64_t epoch = server->claim.epoch;
    bool journals = world->options.journals;
    if (find_origin(history, epoch) != NULL)
        sim_fail(world, "P4: %s began twice under epoch %" PRIu64, server->name, epoch);
    history->origins = grown(history->origins, history->origin_count, &history->origin_capacity,
                             sizeof *history->origins);
    history->origins[history->origin_count++] =
        (struct origin){epoch, journals ? recovered->epoch : recovered->place.epoch,
                        recovered->position, recovered->position};
    if (journals && history->acknowledged_epoch <= epoch && history->acknowledged_position > 0 &&
        !sim_history_survives(history, epoch, history->acknowledged_epoch,
                              history->acknowledged_position))
        sim_fail(world,
                 "P1: %s begins shard %u with epoch %" PRIu64 ", position %" PRIu64
                 ", but epoch %" PRIu64 ", position %" PRIu64 " was acknowledged",
                 server->name, server->claim.index, recovered->epoch, recovered->position,
                 history->acknowledged_epoch, history->acknowledged_position);
}

/* ---- Pushes ---- */

static struct push entry_of(const struct ps_request_id *id, struct ps_bytes name, uint64_t epoch,
                            uint64_t position)
{
    struct push push = {.epoch = epoch,
                        .position = position,
                        .client_size = id->client_id.size,
                        .session = id->session,
                        .sequence = id->sequence,
                        .name = ps_push_count_key(name),
                        .method = PS_METHOD_PUSH};
    PS_ASSERT(id->present && id->client_id.size <= ID_BYTES);
    memcpy(push.client, id->client_id.data, id->client_id.size);
    return push;
}

static struct push push_of(const struct ps_push_request *request, uint64_t epoch,
                           const struct ps_push_reply *reply)
{
    struct push push = entry_of(&request->request, request->name, epoch, reply->position);
    push.version = reply->version;
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
        if (same_id(other, push) &&
            sim_history_survives(history, epoch, other->epoch, other->position))
            return i - 1;
    }
    return NO_ENTRY;
}

/* Records that are no push and no change of a parameter. */
static bool has_other_records(const struct sim_world *world)
{
    const struct sim_options *options = &world->options;
    return options->rounds || options->clocks.present || options->rows_expire;
}

static size_t remember(struct sim_world *world, const struct sim_server *server,
                       struct sim_history *history, const struct push *push)
{
    struct origin *origin = find_origin(history, push->epoch);
    /* The end of a round has a position of its own. */
    bool follows =
        origin != NULL && (has_other_records(world) ? push->position > origin->position
                                                    : push->position == origin->position + 1);
    if (!follows)
        sim_fail(world, "P5: %s gives position %" PRIu64 " after %" PRIu64, server->name,
                 push->position, origin != NULL ? origin->position : 0);
    else
        origin->position = push->position;
    history->pushes = grown(history->pushes, history->push_count, &history->push_capacity,
                            sizeof *history->pushes);
    history->pushes[history->push_count] = *push;
    return history->push_count++;
}

static void keep_probe(struct sim_history *history, const struct ps_push_request *request,
                       const struct push *push)
{
    bool is_native = ps_encoding_is_native(request->encoding, request->dtype);
    /* What is encoded has another size. */
    if (!is_native)
        return;
    struct probe *probe = &history->probe;
    *probe = (struct probe){.push = *push,
                            .name_size = request->name.size,
                            .content_size = request->content.size,
                            .dtype = request->dtype};
    memcpy(probe->name, request->name.data, request->name.size);
}

/* They may have ended by now. */
static bool is_in_rounds(const struct sim_server *server, struct ps_bytes name)
{
    return sim_is_table(name) ? sim_rows_are_in_rounds(server, name)
                              : sim_rounds_are_on(server, name);
}

size_t sim_checker_pushed(struct sim_world *world, const struct sim_server *server,
                          const struct ps_push_request *request, const struct ps_push_reply *reply)
{
    struct ps_status_reply now;
    char uuid[37];
    /* A contribution that came too late may be noted nowhere. */
    if (!world->options.journals || reply->staged ||
        !sim_rounds_count(server, request->name, reply))
        return NO_ENTRY;
    ps_service_status(server->service, &now, uuid);
    struct sim_history *history = sim_checker_history(world, now.index);
    struct push push = push_of(request, now.epoch, reply);
    /* The answer to the last contribution of a round is at the place of the round's own record; the
     * id stands in the one before, which may survive alone. */
    if (is_in_rounds(server, request->name) && !reply->held && !reply->duplicate)
        push.position--;
    size_t before = find_push(history, now.epoch, &push);
    if (!reply->duplicate && before == NO_ENTRY) {
        history->last = remember(world, server, history, &push);
        if (request->range.count == 0)
            keep_probe(history, request, &push);
        return history->last;
    }
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

/* A definition does not say that it is a repeat: then it is at a position of before. */
size_t sim_checker_changed(struct sim_world *world, const struct sim_server *server,
                           enum ps_method method, struct ps_bytes name,
                           const struct ps_request_id *id, uint64_t position, bool duplicate)
{
    struct ps_status_reply now;
    char uuid[37];
    if (!world->options.journals)
        return NO_ENTRY;
    ps_service_status(server->service, &now, uuid);
    struct sim_history *history = sim_checker_history(world, now.index);
    struct push change = entry_of(id, name, now.epoch, position);
    change.method = method;
    size_t before = find_push(history, now.epoch, &change);
    const struct origin *origin = find_origin(history, now.epoch);
    bool is_new = !duplicate && (origin == NULL || position > origin->position);
    if (is_new && before == NO_ENTRY)
        return remember(world, server, history, &change);
    if (is_new)
        sim_fail(world, "P2: %s makes a change again: positions %" PRIu64 " and %" PRIu64,
                 server->name, history->pushes[before].position, position);
    else if (before == NO_ENTRY)
        sim_fail(world, "P2: %s calls a change repeated that it does not have", server->name);
    else if (history->pushes[before].position != position)
        sim_fail(world, "P2: %s answers position %" PRIu64 " again, the first was %" PRIu64,
                 server->name, position, history->pushes[before].position);
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

/* ---- What the service remembers of ids ---- */

/* Is a gradient of such bytes taken for the probe's? */
static bool takes_other(const struct sim_server *server, const struct probe *probe, uint8_t byte)
{
    uint8_t *bytes = malloc(probe->content_size);
    PS_ASSERT(bytes != NULL);
    memset(bytes, byte, probe->content_size);
    const struct ps_bytes content = {bytes, probe->content_size};
    const struct ps_push_request request = {
        .name = {(const uint8_t *)probe->name, probe->name_size},
        .dtype = probe->dtype,
        .content = ps_view_of(&content),
        .request = {.present = true,
                    .client_id = {probe->push.client, probe->push.client_size},
                    .session = probe->push.session,
                    .sequence = probe->push.sequence}};
    struct ps_push_reply reply;
    enum ps_status status = ps_service_push(server->service, &request, &reply, NULL, NULL);
    free(bytes);
    return status == PS_OK;
}

/* The probe is of before this push, and maybe of before a recovery. Neither gradient is of the
 * whole numbers that trainers send; two, since one in 65536 has the fingerprint of the probe's. */
static void try_reuse(struct sim_world *world, const struct sim_server *server,
                      const struct sim_history *history, uint64_t epoch)
{
    const struct probe *probe = &history->probe;
    if (probe->push.position == 0 ||
        !sim_history_survives(history, epoch, probe->push.epoch, probe->push.position))
        return;
    if (takes_other(server, probe, 0x40) && takes_other(server, probe, 0x41))
        sim_fail(world, "P2: %s takes another gradient for the one of position %" PRIu64,
                 server->name, probe->push.position);
}

static const struct ps_session_client *find_client(const struct sim_server *server,
                                                   const struct push *push)
{
    const struct ps_sessions *sessions = &server->service->sessions;
    const struct ps_session_client *client = ps_sessions_next(sessions, NULL);
    while (client != NULL && (client->id_size != push->client_size ||
                              memcmp(client->id, push->client, push->client_size) != 0))
        client = ps_sessions_next(sessions, client);
    return client;
}

/* Of the client and the parameter of the last push. */
static void compare_counts(struct sim_world *world, const struct sim_server *server,
                           const struct sim_history *history, uint64_t epoch)
{
    const struct push *last = &history->pushes[history->last];
    const struct ps_session_client *client = find_client(server, last);
    uint64_t pushes = 0;
    if (client == NULL || client->counts.is_partial)
        return;
    for (size_t i = 0; i < history->push_count; i++) {
        const struct push *push = &history->pushes[i];
        if (push->name != last->name ||
            !sim_history_survives(history, epoch, push->epoch, push->position))
            continue;
        pushes += push->method == PS_METHOD_PUSH && push->client_size == last->client_size &&
                  memcmp(push->client, last->client, ID_BYTES) == 0;
        /* What was pushed to the parameter goes with it. */
        if (push->method == PS_METHOD_DROP)
            pushes = 0;
    }
    const struct ps_push_count *count = ps_push_counts_find(&client->counts, last->name);
    if (count == NULL || count->pushes != pushes)
        sim_fail(world, "P2: %s counts %" PRIu64 " pushes of a client, which has made %" PRIu64,
                 server->name, count != NULL ? count->pushes : 0, pushes);
}

void sim_checker_ids(struct sim_world *world, const struct sim_server *server)
{
    struct ps_status_reply now;
    char uuid[37];
    if (!world->options.journals)
        return;
    ps_service_status(server->service, &now, uuid);
    struct sim_history *history = sim_checker_history(world, now.index);
    if (now.position % 8 == 0)
        try_reuse(world, server, history, now.epoch);
    if (history->last != NO_ENTRY && world->options.named)
        compare_counts(world, server, history, now.epoch);
    history->last = NO_ENTRY;
}

/* The table is looked at as the codec does, and changed behind its back. */
void sim_forget_ids(const struct sim_server *server)
{
    enum sim_mutation mutation = server->world->options.mutation;
    const struct ps_sessions *sessions = &server->service->sessions;
    for (const struct ps_session_client *client = ps_sessions_next(sessions, NULL); client != NULL;
         client = ps_sessions_next(sessions, client)) {
        for (uint32_t i = 0; mutation == SIM_MUTATION_FINGERPRINT_LOST && i < client->slot_places;
             i++)
            client->slots[i].fingerprint = 0;
        for (uint32_t i = 0; mutation == SIM_MUTATION_COUNT_LOST && i < client->counts.place_count;
             i++)
            if (client->counts.places[i].pushes > 1)
                client->counts.places[i].pushes--;
    }
}
