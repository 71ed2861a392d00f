/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that expire. A server lets some of them go in each of its coordinator's turns, as one record
 * at most; so what is missing behind a turn is what went with it, at the position of now. Whether
 * it was old enough, and whether a walk over the table has left nothing, is asked here; whether a
 * replay does the same, by everything else that looks at states. */
#include "base/assert.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_stripes.h"
#include "server/core/tables/row_sweep.h"
#include "server/core/update/parameter_rows.h"
#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_clocks.h"
#include "tests/sim/sim_clocks_told.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_table_copy.h"
#include "tests/sim/sim_table_leases.h"
#include "tests/sim/sim_table_rows.h"

#include <inttypes.h>

#define COMES_BY_PERMILLE 700
#define COME_BY_MAX 4 /* messages, at a look */

/* Whose coordinator has a turn; one at a time. */
static struct sim_server *turning;

bool __real_ps_row_table_look(struct ps_row_table *table, struct ps_row_walk *walk, uint64_t now,
                              struct ps_row_found *found);
bool __wrap_ps_row_table_look(struct ps_row_table *table, struct ps_row_walk *walk, uint64_t now,
                              struct ps_row_found *found);

void sim_rows_turn(struct sim_server *server)
{
    turning = server;
}

/* A lane needs the cut, too, which it shares with the sweep; one thread cannot share it with
 * itself. */
bool __wrap_ps_row_table_look(struct ps_row_table *table, struct ps_row_walk *walk, uint64_t now,
                              struct ps_row_found *found)
{
    bool is_more = __real_ps_row_table_look(table, walk, now, found);
    struct sim_server *server = turning;
    if (server == NULL || found->count == 0 || !sim_chance(server->world, COMES_BY_PERMILLE))
        return is_more;
    struct ps_rwlock *cut = &server->service->cut;
    turning = NULL;
    ps_rwlock_unlock(cut);
    for (int i = 0; i < COME_BY_MAX; i++)
        sim_hurry(server->world, server);
    ps_rwlock_read(cut);
    turning = server;
    return is_more;
}

static bool has_key(const struct ps_row_table *table, uint32_t number)
{
    uint64_t key = sim_table_key(number);
    uint64_t hash = ps_row_table_hash(table, key);
    return ps_row_stripe_find(table, &table->stripes[ps_row_stripe_of(hash)], key, hash) !=
           PS_ROW_NONE;
}

/* Of clocks that nobody has set no worker has ended an iteration. */
uint64_t sim_rows_clock(const struct sim_server *server)
{
    const struct ps_clock_group *group =
        ps_clocks_find(&server->service->clocks, ps_bytes_of_text(SIM_CLOCKS_NAME));
    return group != NULL ? ps_clock_group_minimum(group) : 0;
}

/* Of a row that is missing: nobody has pushed to it for the table's time. */
static void look_at_age(struct sim_server *server, const struct sim_table_copy *copy, uint32_t i,
                        uint64_t before, uint32_t index)
{
    const struct sim_row *row = &copy->rows[i];
    uint64_t now_ms = sim_now(server->world);
    const struct sim_leases *leases = sim_rows_leases(server->world);
    uint64_t served_ms = sim_leases_served_ms(leases, index, now_ms);
    if (row->touched >= before)
        sim_fail(server->world,
                 "rows: %s lets a row of %s go that was pushed to in version %" PRIu64
                 ", not before %" PRIu64,
                 server->name, copy->about->name, row->touched, before);
    if (row->pushed.ms + copy->about->expire_ms > now_ms)
        sim_fail(server->world, "rows: %s lets a row of %s go after %" PRIu64 " ms", server->name,
                 copy->about->name, now_ms - row->pushed.ms);
    /* Nobody can push to a row whose shard has no owner with a lease. */
    uint64_t starts = sim_leases_starts(leases, index) - row->pushed.starts;
    uint64_t known_ms = served_ms - row->pushed.served_ms + starts * (copy->about->expire_ms / 16);
    if (known_ms < copy->about->expire_ms)
        sim_fail(server->world,
                 "rows: %s lets a row of %s go that was there to be pushed to for %" PRIu64
                 " of %" PRIu64 " ms",
                 server->name, copy->about->name, known_ms, now_ms - row->pushed.ms);
    /* The minimum only rises, so that it is no lower now than when the row became due; not so when
     * the clocks went between. */
    uint64_t clock = sim_rows_clock(server);
    if (row->pushed.since != sim_clocks_since(server))
        return;
    if (row->pushed.clock + copy->about->expire_clocks > clock)
        sim_fail(server->world, "rows: %s lets a row of %s go at clock %" PRIu64 ", not %" PRIu64,
                 server->name, copy->about->name, clock, row->pushed.clock);
}

/* The same of what was counted of a key. */
static void look_at_count(struct sim_server *server, const struct sim_table_copy *copy, uint32_t i,
                          uint64_t before)
{
    const struct sim_row *row = &copy->rows[i];
    if (row->counted_at >= before)
        sim_fail(server->world,
                 "rows: %s forgets a count of %s that is of version %" PRIu64
                 ", not before %" PRIu64,
                 server->name, copy->about->name, row->counted_at, before);
}

/* What a server knows of ages, wherever it has it from, makes no row older than it is: up to the
 * version that the table had then, all rows were pushed to by then. */
static void look_at_known(struct sim_server *server, const struct sim_table_copy *copy,
                          const struct ps_row_expiry *expiry)
{
    /* On such a server's clock all is later than it is. */
    bool is_late = server->world->options.mutation == SIM_MUTATION_CLOCK_LATE;
    uint64_t now_ms = sim_now(server->world);
    uint64_t time = ps_service_row_time(server->service);
    uint64_t since = sim_clocks_since(server);
    for (uint32_t i = 0; i < SIM_TABLE_KEYS; i++) {
        const struct sim_row *row = &copy->rows[i];
        bool is_older = false;
        for (size_t k = 0; !is_late && k < expiry->by_time.count; k++)
            is_older |= row->touched <= expiry->by_time.seen[k].version &&
                        time - expiry->by_time.seen[k].at > now_ms - row->pushed.ms;
        /* A clock of others, which are gone, says nothing of these. */
        for (size_t k = 0; row->pushed.since == since && k < expiry->by_clock.count; k++)
            is_older |= row->touched <= expiry->by_clock.seen[k].version &&
                        row->pushed.clock > expiry->by_clock.seen[k].at;
        if (row->is_there && is_older)
            sim_fail(server->world,
                     "rows: %s takes a row of %s, pushed to in version %" PRIu64 ", for older",
                     server->name, copy->about->name, row->touched);
    }
}

/* Behind a walk nothing is left that was old when it began: no row gets older. */
static void look_at_rest(struct sim_server *server, const struct sim_table_copy *copy,
                         const uint8_t gone[SIM_TABLE_KEYS], uint64_t swept)
{
    for (uint32_t i = 0; i < SIM_TABLE_KEYS; i++) {
        const struct sim_row *row = &copy->rows[i];
        bool stays = row->is_there && row->touched < swept;
        bool is_counted = row->counted > 0 && row->counted_at < swept;
        if (gone[i] == SIM_GONE_NOTHING && (stays || is_counted))
            sim_fail(server->world,
                     "rows: %s has swept %s before version %" PRIu64 ", and left key %" PRIu64,
                     server->name, copy->about->name, swept, sim_table_key(i));
    }
}

static void look_at_table(struct sim_server *server, const struct sim_table *about)
{
    struct ps_status_reply now;
    char uuid[37];
    uint8_t gone[SIM_TABLE_KEYS] = {SIM_GONE_NOTHING};
    uint32_t count = 0;
    const struct ps_bytes name = ps_bytes_of_text(about->name);
    const struct ps_parameter *parameter = ps_parameter_table_find(&server->service->table, name);
    if (!about->expires || parameter == NULL)
        return;
    ps_service_status(server->service, &now, uuid);
    struct sim_table_copy *copy = sim_rows_copy(server->world, now.index, now.epoch, name);
    if (copy == NULL || !copy->is_there)
        return;
    /* A round that ended has made rows of keys that were counted. */
    sim_rows_reach(server->world, server, copy, parameter->version);
    const struct ps_row_expiry *expiry = parameter->expiry;
    const struct ps_row_table *candidates = ps_row_table_candidates(parameter->rows);
    look_at_known(server, copy, expiry);
    uint64_t before = expiry->walk.before > 0 ? expiry->walk.before : expiry->swept;
    for (uint32_t i = 0; i < SIM_TABLE_KEYS; i++) {
        if (copy->rows[i].is_there && !has_key(parameter->rows, i)) {
            gone[i] = SIM_GONE_ROW;
            look_at_age(server, copy, i, before, now.index);
        } else if (copy->rows[i].counted > 0 && candidates != NULL && !has_key(candidates, i)) {
            gone[i] = SIM_GONE_COUNT;
            look_at_count(server, copy, i, before);
        }
        count += gone[i] != SIM_GONE_NOTHING;
    }
    if (count > PS_ROW_FOUND_MAX)
        sim_fail(server->world, "rows: %s lets %u rows of %s go at once", server->name, count,
                 about->name);
    if (expiry->walk.before == 0)
        look_at_rest(server, copy, gone, expiry->swept);
    if (count > 0)
        sim_rows_expired(server, name, gone);
}

/* At most one of the tables expires, so that each record's state is seen. */
void sim_rows_turned(struct sim_server *server)
{
    struct sim_world *world = server->world;
    turning = NULL;
    if (!world->options.rows_expire || ps_service_phase(server->service) != PS_PHASE_READY)
        return;
    for (uint32_t i = 0; i < world->options.tables; i++)
        look_at_table(server, sim_rows_table(world, i));
    sim_checker_state(world, server);
}

bool sim_rows_sweep(const struct sim_server *server)
{
    const struct sim_world *world = server->world;
    for (uint32_t i = 0; i < world->options.tables && world->options.rows_expire; i++) {
        const struct ps_parameter *parameter = ps_parameter_table_find(
            &server->service->table, ps_bytes_of_text(sim_rows_table(world, i)->name));
        if (parameter != NULL && parameter->expiry != NULL && parameter->expiry->walk.before > 0)
            return true;
    }
    return false;
}
