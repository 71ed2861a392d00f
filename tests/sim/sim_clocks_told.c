/* SPDX-License-Identifier: Apache-2.0 */
/* A model of its own: the minimum and the rules of reading are computed here from what was said. */
#include "tests/sim/sim_clocks_told.h"

#include "base/assert.h"
#include "server/core/requests/clock_calls.h"
#include "server/core/requests/clock_view.h"
#include "server/core/requests/service_state.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_clocks.h"
#include "tests/sim/sim_history.h"

#include <inttypes.h>
#include <stdlib.h>

/* A worker is so far, or is waited for no more, or the clocks are set, or gone, from this place of
 * the shard's history on. */
struct said {
    uint64_t epoch, position;
    enum { SAYS, EVICTS, SETS, REMOVES } what;
    uint32_t worker; /* of the first two */
    uint64_t clock;  /* of the first */
};

struct shard_told {
    struct said *said; /* owned */
    size_t count, capacity;
    struct {
        uint64_t position, clock;
    } acknowledged[SIM_CLIENTS_MAX];
    uint64_t removed_at;                   /* the last removal that was acknowledged */
    uint64_t heard_epoch[SIM_CLIENTS_MAX]; /* under which owner the worker was heard of last, ... */
    uint64_t heard_ms[SIM_CLIENTS_MAX];    /* ... and when */
    bool was_evicted[SIM_CLIENTS_MAX];     /* as was seen last */
};

struct sim_told {
    struct shard_told shards[SIM_SHARDS_MAX];
};

struct sim_told *sim_told_create(void)
{
    struct sim_told *told = calloc(1, sizeof *told);
    PS_ASSERT(told != NULL);
    return told;
}

void sim_told_destroy(struct sim_told *told)
{
    for (size_t i = 0; i < SIM_SHARDS_MAX; i++)
        free(told->shards[i].said);
    free(told);
}

static bool survives(const struct sim_server *server, const struct ps_status_reply *now,
                     const struct said *said)
{
    return sim_history_survives(sim_checker_history(server->world, now->index), now->epoch,
                                said->epoch, said->position);
}

/* The last of those that set or removed the clocks; NULL: none has. */
static const struct said *last_of(const struct sim_server *server, const struct shard_told *shard,
                                  const struct ps_status_reply *now, bool removes)
{
    const struct said *last = NULL;
    for (size_t i = 0; i < shard->count; i++) {
        const struct said *said = &shard->said[i];
        if ((said->what == REMOVES || (said->what == SETS && !removes)) &&
            (last == NULL || said->position > last->position) && survives(server, now, said))
            last = said;
    }
    return last;
}

/* What was said before that position is of clocks that are gone. */
static uint64_t since(const struct sim_server *server, const struct shard_told *shard,
                      const struct ps_status_reply *now)
{
    const struct said *removal = last_of(server, shard, now, true);
    return removal != NULL ? removal->position : 0;
}

static struct shard_told *shard_of(const struct sim_server *server, struct ps_status_reply *now)
{
    char uuid[37];
    ps_service_status(server->service, now, uuid);
    return &sim_checker_told(server->world)->shards[now->index];
}

uint64_t sim_clocks_since(const struct sim_server *server)
{
    struct ps_status_reply now;
    const struct shard_told *shard = shard_of(server, &now);
    return since(server, shard, &now);
}

/* Clocks only rise, so that the highest that survives is where the worker is. */
static uint64_t clock_of(const struct sim_server *server, const struct shard_told *shard,
                         const struct ps_status_reply *now, uint32_t worker)
{
    uint64_t clock = 0, begin = since(server, shard, now);
    for (size_t i = 0; i < shard->count; i++) {
        const struct said *said = &shard->said[i];
        if (said->what == SAYS && said->worker == worker && said->clock > clock &&
            said->position > begin && survives(server, now, said))
            clock = said->clock;
    }
    return clock;
}

/* What was said last of those that survive says whether the worker is to be evicted. Who is evicted
 * at the time of a crash is so afterwards: others would wait for nobody. */
static bool must_be_evicted(const struct sim_server *server, const struct shard_told *shard,
                            const struct ps_status_reply *now, uint32_t worker)
{
    uint64_t position = since(server, shard, now);
    bool evicted = false;
    for (size_t i = 0; i < shard->count; i++) {
        const struct said *said = &shard->said[i];
        if ((said->what != SAYS && said->what != EVICTS) || said->worker != worker ||
            said->position < position || !survives(server, now, said))
            continue;
        evicted = said->what == EVICTS;
        position = said->position;
    }
    return evicted;
}

static void note(struct shard_told *shard, struct said said)
{
    if (shard->count == shard->capacity) {
        shard->capacity = 2 * shard->capacity + 64;
        shard->said = realloc(shard->said, shard->capacity * sizeof *shard->said);
        PS_ASSERT(shard->said != NULL);
    }
    shard->said[shard->count++] = said;
}

/* One that is evicted comes back with its next clock only: to be heard of is not enough. */
static bool is_evicted(struct sim_server *server, uint32_t worker)
{
    const struct ps_progress_request question = {.name = ps_bytes_of_text(SIM_CLOCKS_NAME)};
    struct ps_clock_view view = {0};
    struct ps_pull_wait wait;
    if (ps_service_progress(server->service, &question, false, &view, &wait, NULL) != PS_OK)
        return false;
    bool evicted = worker < view.reply.worker_count && view.reply.workers[worker].is_evicted;
    ps_clock_view_release(server->service, &view);
    return evicted;
}

void sim_clocks_heard(struct sim_server *server, uint32_t worker)
{
    struct ps_status_reply now;
    struct shard_told *shard = shard_of(server, &now);
    PS_ASSERT(worker < SIM_CLIENTS_MAX);
    if (is_evicted(server, worker))
        return;
    shard->heard_epoch[worker] = now.epoch;
    shard->heard_ms[worker] = sim_now(server->world);
}

void sim_clocks_told(struct sim_server *server, uint32_t worker,
                     const struct ps_clocks_reply *reply)
{
    struct ps_status_reply now;
    struct shard_told *shard = shard_of(server, &now);
    uint64_t known = clock_of(server, shard, &now, worker);
    /* A repeat is answered and not looked at. */
    if (!reply->duplicate)
        sim_clocks_heard(server, worker);
    if (reply->clock < known)
        sim_fail(server->world, "clocks: %s has worker %u at %" PRIu64 ", which was at %" PRIu64,
                 server->name, worker, reply->clock, known);
    /* Who comes back may have no higher clock than it had. */
    bool comes_back = !reply->duplicate && must_be_evicted(server, shard, &now, worker);
    if (reply->clock > known || comes_back)
        note(shard, (struct said){now.epoch, reply->position, SAYS, worker, reply->clock});
}

/* Settings that change nothing have the place of those that hold, and a removal of what is not
 * there that of the last one. */
void sim_clocks_begun(struct sim_server *server, bool removed, const struct ps_clocks_reply *reply)
{
    struct ps_status_reply now;
    struct shard_told *shard = shard_of(server, &now);
    const struct said *last = last_of(server, shard, &now, false);
    if (reply->duplicate || (last != NULL && reply->position <= last->position))
        return;
    if (reply->position > 0)
        note(shard, (struct said){now.epoch, reply->position, removed ? REMOVES : SETS, 0, 0});
    for (uint32_t i = 0; removed && i < SIM_CLIENTS_MAX; i++)
        shard->was_evicted[i] = false;
}

/* Of what was there already when it came the server knows no place after a recovery. */
void sim_clocks_removed(struct sim_server *server, const struct ps_clocks_reply *reply)
{
    struct ps_status_reply now;
    struct shard_told *shard = shard_of(server, &now);
    if (server->world->options.journals && reply->position > shard->removed_at)
        shard->removed_at = reply->position;
}

/* Where a crash loses what was not checkpointed nothing is promised. */
void sim_clocks_acknowledged(struct sim_server *server, uint32_t worker,
                             const struct ps_clocks_reply *reply)
{
    struct ps_status_reply now;
    struct shard_told *shard = shard_of(server, &now);
    bool is_newer = reply->clock > shard->acknowledged[worker].clock ||
                    shard->acknowledged[worker].position <= since(server, shard, &now);
    if (!server->world->options.journals || !is_newer)
        return;
    shard->acknowledged[worker].clock = reply->clock;
    shard->acknowledged[worker].position = reply->position;
}

/* ---- Reads ---- */

/* Of the record that says what the worker is. */
static uint64_t position_of(const struct sim_server *server, uint32_t worker)
{
    const struct ps_clock_group *group =
        ps_clocks_find(&server->service->clocks, ps_bytes_of_text(SIM_CLOCKS_NAME));
    PS_ASSERT(group != NULL);
    return group->workers[worker].position;
}

static void check_eviction(struct sim_server *server, struct shard_told *shard,
                           const struct ps_status_reply *now, uint32_t worker, bool is_evicted)
{
    struct sim_world *world = server->world;
    const struct sim_clock_settings *settings = &world->options.clocks;
    bool is_new = is_evicted && !shard->was_evicted[worker];
    if (!is_evicted && must_be_evicted(server, shard, now, worker))
        sim_fail(world, "clocks: %s waits for worker %u, which is evicted", server->name, worker);
    shard->was_evicted[worker] = is_evicted;
    if (is_new)
        note(shard, (struct said){now->epoch, position_of(server, worker), EVICTS, worker, 0});
    if (!is_new || shard->heard_epoch[worker] != now->epoch)
        return;
    if (!settings->evicts || sim_now(world) < shard->heard_ms[worker] + settings->ttl_ms)
        sim_fail(world,
                 "clocks: %s waits no more for worker %u, which it heard %" PRIu64 " of %" PRIu64
                 " ms ago",
                 server->name, worker, sim_now(world) - shard->heard_ms[worker], settings->ttl_ms);
}

/* The lowest clock of those that are waited for; UINT64_MAX when nobody is. */
static uint64_t check_workers(struct sim_server *server, struct shard_told *shard,
                              const struct ps_status_reply *now,
                              const struct ps_progress_reply *progress)
{
    uint64_t minimum = UINT64_MAX, begin = since(server, shard, now);
    for (uint32_t i = 0; i < progress->worker_count; i++) {
        uint64_t clock = clock_of(server, shard, now, i);
        if (clock < shard->acknowledged[i].clock && shard->acknowledged[i].position > begin)
            sim_fail(server->world,
                     "P1: worker %u of shard %u is at %" PRIu64 ", and %" PRIu64
                     " was acknowledged",
                     i, now->index, clock, shard->acknowledged[i].clock);
        if (progress->workers[i].clock != clock)
            sim_fail(server->world, "clocks: %s has worker %u at %" PRIu64 ", it was told %" PRIu64,
                     server->name, i, progress->workers[i].clock, clock);
        check_eviction(server, shard, now, i, progress->workers[i].is_evicted);
        if (!progress->workers[i].is_evicted && clock < minimum)
            minimum = clock;
    }
    return minimum;
}

/* Are they there exactly when they were set and not removed since? */
static void check_presence(struct sim_server *server, const struct shard_told *shard,
                           const struct ps_status_reply *now, bool are_there)
{
    const struct said *last = last_of(server, shard, now, false);
    bool must_be = last != NULL && last->what == SETS;
    if (are_there != must_be)
        sim_fail(server->world, "clocks: %s has %s, which were %s last", server->name,
                 are_there ? "clocks" : "no clocks", must_be ? "set" : "removed");
    if (since(server, shard, now) < shard->removed_at)
        sim_fail(server->world, "P1: clocks of shard %u are not removed, which was acknowledged",
                 now->index);
}

static uint64_t needed_for(const struct sim_clock_settings *settings, uint64_t clock)
{
    uint64_t staleness = settings->consistency == SIM_CLOCKS_SSP ? settings->staleness : 0;
    if (settings->consistency == SIM_CLOCKS_ASP || clock < staleness)
        return 0;
    return clock - staleness;
}

void sim_clocks_judge(struct sim_server *server, const struct ps_pull_request *request)
{
    struct ps_status_reply now;
    struct shard_told *shard = shard_of(server, &now);
    const struct ps_progress_request question = {.name = request->clocks};
    struct ps_clock_view view = {0};
    struct ps_pull_wait wait;
    enum ps_status status =
        ps_service_progress(server->service, &question, false, &view, &wait, NULL);
    if (status == PS_OK || status == PS_ERR_NOT_FOUND)
        check_presence(server, shard, &now, status == PS_OK);
    if (status != PS_OK)
        return;
    uint64_t minimum = check_workers(server, shard, &now, &view.reply);
    if (minimum != UINT64_MAX && view.reply.minimum != minimum)
        sim_fail(server->world, "clocks: %s says %" PRIu64 " for the minimum %" PRIu64,
                 server->name, view.reply.minimum, minimum);
    /* A pull that goes on with a version was let through when it began, maybe by another owner. */
    if (request->version == 0 &&
        minimum < needed_for(&server->world->options.clocks, request->clock))
        sim_fail(server->world,
                 "clocks: %s lets worker %u read at %" PRIu64 " while the slowest is at %" PRIu64,
                 server->name, request->worker - 1, request->clock, minimum);
    ps_clock_view_release(server->service, &view);
}
