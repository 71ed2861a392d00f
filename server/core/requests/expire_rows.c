/* SPDX-License-Identifier: Apache-2.0 */
/* Time and clocks decide here, and nowhere else in a table's life. What they decide is a record of
 * the journal before it is done, with the keys of the rows that go. Two servers that read the same
 * journal so have the same rows, whatever their clocks show.
 *
 * A table may have a hundred million rows, and all of them may be old. So a sweep is a walk in
 * pieces, none of which holds up anybody for long: old rows are looked for without the parameter's
 * lock, some are taken out with it, and between two pieces everybody who waits for the lock, or for
 * the cut, goes first. After a turn's work the coordinator has its thread back, to keep its lease
 * alive. A crash between two pieces is one between two records: what is left is found by the next
 * life's walk. */
#include "server/core/requests/expire_rows.h"

#include "base/assert.h"
#include "checkpoint/journal_rows.h"
#include "server/core/requests/rendezvous_calls.h"
#include "server/core/update/parameter_rows.h"

_Static_assert(PS_ROW_FOUND_MAX <= PS_EXPIRE_RECORD_KEYS_MAX, "what a look finds is one record");

/* The work of a turn, and of it what is done before the cut is let go of: some looks that find
 * nothing, or one record. The unit is a row that is looked at, ten nanoseconds of a large table;
 * one that goes takes as long as so many. Smaller in the simulator, so that crashes come in
 * between. */
#ifndef PS_EXPIRE_TURN_WORK
#define PS_EXPIRE_TURN_WORK ((uint64_t)1 << 20)
#endif
#define PIECE_WORK PS_ROW_LOOKED_MAX
#define GONE_WORK 16

/* A push has the lock for milliseconds; one that has it for longer is not waited for any more. */
#define LET_BY_MS 1000

/* What a turn has done. */
struct turn {
    struct ps_service *service;
    uint64_t work;
    bool wakes_writer;
    bool is_stuck; /* the journal has no room */
};

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_EXPIRY_RECORD
static const bool expiry_is_not_told = true;
#else
static const bool expiry_is_not_told = false;
#endif

static bool go_on(struct turn *turn, bool is_first);
static void note_due(struct ps_service *service, struct ps_parameter *parameter);
static uint64_t minimum_of(struct ps_service *service, const struct ps_table_settings *settings);
static bool has_walk(struct ps_row_expiry *expiry);
static void walk_on(struct turn *turn, struct ps_parameter *parameter);
static bool let_go(struct turn *turn, struct ps_parameter *parameter,
                   const struct ps_row_found *found);

/* The coordinator comes by with each turn, so that most looks find that no step of any table's span
 * is over, and a shard without such tables pays one comparison. */
bool ps_service_expire_rows(struct ps_service *service)
{
    struct turn turn = {.service = service};
    bool is_more = true;
    PS_ASSERT(service != NULL);
    for (bool is_first = true; is_more && turn.work < PS_EXPIRE_TURN_WORK; is_first = false) {
        /* A snapshot that waits for the cut has it between two pieces: writers go first there. */
        ps_rwlock_read(&service->cut);
        is_more = go_on(&turn, is_first);
        ps_rwlock_unlock(&service->cut);
    }
    if (turn.wakes_writer)
        ps_service_tell_journal_wanted(service);
    return is_more;
}

/* A piece, of one large table or of several small ones; false when nothing is left, or nothing can
 * be done. What is due is asked once in a turn, of all tables.
 *
 * As a push: only while the shard is ours by the clock, and with the cut held shared, so that a
 * snapshot sees the rows and the position of one moment. */
static bool go_on(struct turn *turn, bool is_first)
{
    struct ps_service *service = turn->service;
    uint64_t until = turn->work + PIECE_WORK;
    if (service->table.expiring_count == 0 || ps_service_phase(service) != PS_PHASE_READY ||
        ps_service_owns(service, NULL) != PS_OK)
        return false;
    struct ps_parameter_entry *entry = ps_parameter_table_first(&service->table);
    for (; entry != NULL; entry = ps_parameter_table_next(entry)) {
        struct ps_parameter *parameter = ps_parameter_entry_parameter(entry);
        if (!ps_parameter_rows_expire(parameter))
            continue;
        if (is_first)
            note_due(service, parameter);
        while (turn->work < until && !turn->is_stuck && has_walk(parameter->expiry))
            walk_on(turn, parameter);
    }
    return turn->work >= until && !turn->is_stuck;
}

/* The version is read before time and clocks: what was pushed meanwhile counts as younger than it
 * is, and never as older. What a record could not be written of stays due. */
static void note_due(struct ps_service *service, struct ps_parameter *parameter)
{
    const struct ps_table_settings *settings = &parameter->spec->settings.table;
    struct ps_row_expiry *expiry = parameter->expiry;
    uint64_t version = ps_parameter_version(parameter);
    uint64_t by_time = 0, by_clock = 0;
    PS_ASSERT(expiry->swept <= version + 1);
    if (settings->expire_ms > 0)
        by_time = ps_row_ages_look(&expiry->by_time, settings->expire_ms,
                                   ps_service_row_time(service), version);
    if (settings->expire_clocks > 0)
        by_clock = ps_row_ages_look(&expiry->by_clock, settings->expire_clocks,
                                    minimum_of(service, settings), version);
    uint64_t before = by_time > by_clock ? by_time : by_clock;
    if (before > expiry->due)
        expiry->due = before;
}

/* Of clocks that are not there nobody has ended an iteration. The lock of the clocks is taken
 * alone: it has the rank of a parameter's. */
static uint64_t minimum_of(struct ps_service *service, const struct ps_table_settings *settings)
{
    ps_mutex_lock(&service->clocks.lock);
    const struct ps_clock_group *group =
        ps_clocks_find(&service->clocks, ps_bytes_of_text(settings->clocks));
    uint64_t minimum = group != NULL ? ps_clock_group_minimum(group) : 0;
    ps_mutex_unlock(&service->clocks.lock);
    return minimum;
}

/* Is a walk under way, or does one begin now? What becomes due meanwhile is for the next one. */
static bool has_walk(struct ps_row_expiry *expiry)
{
    PS_ASSERT(expiry->walk.before <= expiry->due);
    if (expiry->walk.before == 0 && expiry->due > expiry->swept)
        expiry->walk = (struct ps_row_walk){.before = expiry->due};
    return expiry->walk.before > 0;
}

/* One look. The walk has gone on when what it has found is gone, and not before. What was swept is
 * remembered, so that a table to which nobody pushes is not walked through again. */
static void walk_on(struct turn *turn, struct ps_parameter *parameter)
{
    struct ps_row_expiry *expiry = parameter->expiry;
    struct ps_row_walk walk = expiry->walk;
    struct ps_row_found found;
    PS_ASSERT(!turn->is_stuck && walk.before > expiry->swept);
    /* Without the lock: a push that is at work makes rows younger, and none older. */
    uint64_t version = atomic_load(&parameter->row_version);
    bool is_more = ps_row_table_look(parameter->rows, &walk, version + 1, &found);
    turn->work += found.looked;
    if (found.count > 0)
        turn->work += PIECE_WORK + (uint64_t)found.count * GONE_WORK;
    turn->is_stuck = found.count > 0 && !let_go(turn, parameter, &found);
    if (turn->is_stuck)
        return;
    expiry->walk = walk;
    if (is_more)
        return;
    expiry->swept = walk.before;
    expiry->walk = (struct ps_row_walk){0};
}

/* The order of a push: the place in the journal under the parameter's lock, then the change. The
 * version of the record is the present one, by which replay sees that state and journal belong
 * together. A record that gets no room is no failure of anybody's request: the rows stay until the
 * next look. */
static bool let_go(struct turn *turn, struct ps_parameter *parameter,
                   const struct ps_row_found *found)
{
    struct ps_service *service = turn->service;
    uint8_t head[PS_EXPIRE_RECORD_HEAD_BYTES];
    uint8_t keys[PS_ROW_FOUND_MAX * sizeof found->keys[0]];
    const struct ps_expire_record record = {parameter->expiry->walk.before, found->counts,
                                            found->count};
    const struct ps_row_removal removal = {found->keys, found->count, found->counts,
                                           record.before_version};
    ps_expire_record_write(&record, head);
    ps_expire_keys_write(found->keys, found->count, keys);
    const struct ps_bytes bytes = {keys, found->count * sizeof found->keys[0]};
    const struct ps_journal_draft draft = {.type = PS_RECORD_EXPIRE,
                                           .name = parameter->spec->name,
                                           .head = {head, sizeof head},
                                           .content = ps_view_of(&bytes)};
    struct ps_journal_place place;
    PS_ASSERT(record.before_version > parameter->expiry->swept);
    if (ps_journal_place_draft(&place, &service->queue, &draft, 0, service->epoch, NULL) != PS_OK)
        return false;
    ps_mutex_lock(&parameter->lock);
    ps_let_by_wait(&parameter->pushes, &parameter->lock, LET_BY_MS);
    bool is_put =
        expiry_is_not_told || ps_journal_queue_put(&place, parameter->version, NULL) == PS_OK;
    uint64_t gone = is_put ? ps_parameter_rows_remove(parameter, &removal) : 0;
    if (is_put && !expiry_is_not_told)
        ps_service_expired(service, gone);
    ps_mutex_unlock(&parameter->lock);
    turn->wakes_writer |= is_put && place.is_first;
    ps_journal_place_release(&place);
    return is_put;
}

/* The record has a position, and makes no version: pulls that wait for one are not told. */
void ps_service_expired(struct ps_service *service, uint64_t gone)
{
    PS_ASSERT(service->table.count > 0);
    service->position_at_begin++;
    atomic_fetch_add(&service->row_room.expired, gone);
}

/* ---- Everything that time ends ---- */

/* The coordinator comes by with each turn, at the latest with the next keepalive. */
bool ps_service_sweep(struct ps_service *service)
{
    bool is_more = ps_service_expire_rows(service);
    ps_service_sweep_rendezvous(service);
    ps_service_sweep_programs(service);
    if (atomic_load(&service->staging.count) == 0)
        return is_more;
    ps_staging_sweep(&service->staging, ps_now_ms(service->clock));
    ps_service_count_ranges(service);
    return is_more;
}
