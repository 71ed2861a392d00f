/* SPDX-License-Identifier: Apache-2.0 */
/* One instant across all parameters. The cut is held alone only while references are counted up: no
 * byte of a parameter is copied, and pushes go on as soon as that is done. What a device needs
 * memory for is reserved before, while pushes go on. So a snapshot of a hundred gigabytes stops
 * pushes for microseconds, and costs memory only for blocks that are written while the file is
 * being made (copy on write, as Redis has it from fork, but counted by us and in blocks of our
 * size). */
#include "server/core/recovery/snapshot.h"

#include "base/assert.h"
#include "base/uuid.h"
#include "server/core/recovery/snapshot_holding.h"
#include "server/core/tables/row_changes.h"
#include "server/core/tables/row_hold.h"

#include <string.h>

static enum ps_status take(struct ps_service *service, bool is_marked, struct ps_snapshot *snapshot,
                           struct ps_error *error);
static enum ps_status take_once(struct ps_service *service, bool alone, bool is_marked,
                                struct ps_snapshot *snapshot, struct ps_error *error);
static enum ps_status reserve(struct ps_service *service, bool is_marked,
                              struct ps_snapshot_holding **out, struct ps_error *error);
static enum ps_status check_ready(const struct ps_service *service, struct ps_error *error);
static uint64_t generation_of(struct ps_service *service);
static enum ps_status reserve_all(struct ps_service *service, struct ps_snapshot_holding *holding,
                                  struct ps_error *error);
static enum ps_status take_instant(struct ps_service *service, struct ps_snapshot_holding *holding,
                                   struct ps_snapshot *snapshot, struct ps_error *error);
static enum ps_status encode_sessions(struct ps_service *service,
                                      struct ps_snapshot_holding *holding, struct ps_error *error);

/* Where parameters come and go all the time: so often what was reserved is given back. */
enum { ATTEMPTS_MAX = 4 };

/* For whoever only looks: no table keeps anything for it. */
enum ps_status ps_snapshot_take(struct ps_service *service, struct ps_snapshot *snapshot,
                                struct ps_error *error)
{
    return take(service, false, snapshot, error);
}

/* For a saver of increments. The marks cost 48 bytes a table until they are taken or let go. */
enum ps_status ps_snapshot_take_marked(struct ps_service *service, struct ps_snapshot *snapshot,
                                       struct ps_error *error)
{
    return take(service, true, snapshot, error);
}

/* Two locks in turn: shared, to reserve what may fail and take long; alone, for the instant. In
 * between the shard may be lost, which the second half sees and refuses, or the table change: then
 * all of it is done once more, in the end with the cut held alone for both halves. */
static enum ps_status take(struct ps_service *service, bool is_marked, struct ps_snapshot *snapshot,
                           struct ps_error *error)
{
    PS_ASSERT(service != NULL && snapshot != NULL);
    /* Ends: with the cut held alone for both halves nothing comes between them. */
    enum ps_status status = PS_ERR_CONFLICT;
    for (int attempt = 1; status == PS_ERR_CONFLICT; attempt++)
        status = take_once(service, attempt == ATTEMPTS_MAX, is_marked, snapshot, error);
    return status;
}

/* The source of blocks is told how much is about to be held before the instant, since every push
 * behind it will ask for fresh blocks. PS_ERR_CONFLICT: the table has changed in between. */
static enum ps_status take_once(struct ps_service *service, bool alone, bool is_marked,
                                struct ps_snapshot *snapshot, struct ps_error *error)
{
    *snapshot = (struct ps_snapshot){0};
    struct ps_snapshot_holding *holding = NULL;
    /* The reservation of the last attempt is made with the cut held alone: pushes wait for devices
     * then, which is better than a checkpoint that never comes. */
    if (alone)
        ps_rwlock_write(&service->cut);
    else
        ps_rwlock_read(&service->cut);
    enum ps_status status = reserve(service, is_marked, &holding, error);
    if (!alone || status != PS_OK)
        ps_rwlock_unlock(&service->cut);
    if (status != PS_OK)
        return status;
    PS_ASSERT(holding != NULL && holding->count == 0);
    if (service->block_source != NULL && service->block_source->expect_copies != NULL)
        service->block_source->expect_copies(service->block_source->self, holding->bytes);
    if (!alone)
        ps_rwlock_write(&service->cut);
    /* All pushes wait from here to the unlock. */
    status = take_instant(service, holding, snapshot, error);
    ps_rwlock_unlock(&service->cut);
    if (status != PS_OK) {
        /* The reservations of devices, too. */
        ps_snapshot_holding_release(holding);
        *snapshot = (struct ps_snapshot){0};
        return status;
    }

    ps_snapshot_holding_describe(holding);
    snapshot->facts.sections[PS_CHECKPOINT_ROUNDS] = ps_snapshot_rounds_records(holding->rounds);
    snapshot->facts.sections[PS_CHECKPOINT_CANDIDATES] =
        ps_snapshot_candidates_records(holding->candidates);
    snapshot->parameters = holding->parameters;
    snapshot->parameter_count = holding->count;
    snapshot->watcher = (struct ps_checkpoint_watcher){ps_snapshot_holding_let_go, holding};
    snapshot->held = holding;
    return PS_OK;
}

/* What is reserved is right for the table as it is: take_instant sees a change. */
static enum ps_status reserve(struct ps_service *service, bool is_marked,
                              struct ps_snapshot_holding **out, struct ps_error *error)
{
    /* Stays what it is until the lock is let go. */
    size_t capacity = service->table.count;
    PS_TRY(check_ready(service, error));
    struct ps_snapshot_holding *holding =
        ps_snapshot_holding_create(service->memory, capacity, is_marked);
    if (holding == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a snapshot of %zu parameters",
                       capacity);
    holding->generation = generation_of(service);
    holding->table_changes = service->table_changes;
    enum ps_status status = reserve_all(service, holding, error);
    if (status != PS_OK) {
        ps_snapshot_holding_release(holding);
        return status;
    }
    *out = holding;
    return PS_OK;
}

/* Also asked under the cut: a shard that is RECOVERING has half of its journal. */
static enum ps_status check_ready(const struct ps_service *service, struct ps_error *error)
{
    if (ps_service_phase(service) == PS_PHASE_READY)
        return PS_OK;
    return ps_fail(error, PS_ERR_NOT_READY, "pserver not fully initialized");
}

/* Of the shard's state in this process: a reset in between shows by it, also one that was followed
 * by another claim of the same shard. */
static uint64_t generation_of(struct ps_service *service)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(state.generation > 0);
    return state.generation;
}

/* For each parameter in the order of the table. A reservation that is not used is given back with
 * the holding. */
static enum ps_status reserve_all(struct ps_service *service, struct ps_snapshot_holding *holding,
                                  struct ps_error *error)
{
    struct ps_parameter_version *version = holding->versions;
    PS_TRY(ps_snapshot_ages_reserve(service, &holding->ages, error));
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(&service->table);
         entry != NULL; entry = ps_parameter_table_next(entry)) {
        struct ps_parameter *parameter = ps_parameter_entry_parameter(entry);
        PS_TRY(ps_parameter_hold_reserve(parameter, version++, error));
        PS_ASSERT(version <= holding->versions + holding->capacity);
        if (!ps_parameter_on_device(parameter))
            holding->bytes += ps_parameter_host_bytes(parameter);
    }
    return PS_OK;
}

/* The order within the instant does not matter, since nobody pushes. Sessions, parameters and the
 * position are of one moment: a request that is remembered is in the values, and one that is in the
 * values is remembered, or a repeat after recovery would be applied twice (P2) or be refused for
 * nothing. */
static enum ps_status take_instant(struct ps_service *service, struct ps_snapshot_holding *holding,
                                   struct ps_snapshot *snapshot, struct ps_error *error)
{
    PS_TRY(check_ready(service, error));
    if (generation_of(service) != holding->generation)
        return ps_fail(error, PS_ERR_NOT_READY, "the shard was lost meanwhile");
    PS_ASSERT(service->table_changes >= holding->table_changes);
    if (service->table_changes != holding->table_changes)
        return ps_fail(error, PS_ERR_CONFLICT, "parameters came or went meanwhile");
    PS_ASSERT(service->table.count == holding->capacity);
    /* What can fail comes first: parameters that are held have to be let go again. */
    PS_TRY(encode_sessions(service, holding, error));
    PS_TRY(ps_clock_rows_take(service, &holding->clocks, error));
    PS_TRY(ps_snapshot_rounds_take(service, &holding->rounds, error));
    PS_TRY(ps_snapshot_candidates_take(service, &holding->candidates, error));
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(&service->table);
         entry != NULL; entry = ps_parameter_table_next(entry)) {
        struct ps_parameter_version *version = &holding->versions[holding->count];
        PS_TRY(ps_parameter_hold(ps_parameter_entry_parameter(entry), version, error));
        /* The mark is of the same instant: no push and no sweep comes between, since both hold the
         * cut shared. */
        if (holding->removed != NULL && version->rows != NULL)
            PS_TRY(ps_row_hold_mark(version->rows, error));
        holding->count++;
    }
    PS_ASSERT(holding->count == holding->capacity);
    ps_snapshot_ages_take(service, holding->ages);

    struct ps_journal_state state;
    /* What is written to the journal from here on is behind this snapshot. */
    ps_journal_queue_mark(&service->queue);
    ps_journal_queue_look(&service->queue, &state);
    snapshot->facts = (struct ps_checkpoint_facts){
        .index = service->index,
        .shard_count = service->shard_count,
        .placement = service->placement,
        .epoch = service->epoch,
        .position = state.position,
        .unix_ns = ps_unix_ns(service->clock),
        .history = ps_service_draw_history(service),
        .sessions = {holding->session_bytes, holding->session_size},
        .job = service->job,
        .sections[PS_CHECKPOINT_CLOCKS] = ps_clock_rows_records(holding->clocks),
    };
    PS_ASSERT(service->index < service->shard_count && service->epoch > 0);
    ps_uuid_make(service->random, snapshot->facts.unix_ns, snapshot->facts.uuid);
    /* Whoever has asked for a checkpoint until now is covered by this one. */
    snapshot->ticket = ps_tickets_newest(&service->tickets);
    return PS_OK;
}

/* Encoded under the cut and not copied first: the bytes are no more than a copy would be, and with
 * every client's ring full a copy would cost a hundred megabytes a second time. */
static enum ps_status encode_sessions(struct ps_service *service,
                                      struct ps_snapshot_holding *holding, struct ps_error *error)
{
    PS_ASSERT(holding->session_bytes == NULL);
    return ps_sessions_encode(&service->sessions, holding->memory, &holding->session_bytes,
                              &holding->session_size, error);
}

/* Releases what the watcher has not been told of yet, so also after a write that failed half-way.
 * */
void ps_snapshot_release(struct ps_snapshot *snapshot)
{
    PS_ASSERT(snapshot->held != NULL || snapshot->parameter_count == 0);
    if (snapshot->held != NULL)
        ps_snapshot_holding_release(snapshot->held);
    *snapshot = (struct ps_snapshot){0};
}

/* In the order of the names, as the rows that the writer sees. */
struct ps_parameter_version *ps_snapshot_version(const struct ps_snapshot *snapshot, size_t i)
{
    struct ps_snapshot_holding *holding = snapshot->held;
    PS_ASSERT(i < holding->count);
    return &holding->versions[i];
}

/* Now, and not with the rest: while the file is written, pushes would copy blocks that nobody
 * reads. The number of rows stays, as the parameter's own. */
void ps_snapshot_leave_out(struct ps_snapshot *snapshot, size_t i)
{
    struct ps_parameter_version *version = ps_snapshot_version(snapshot, i);
    struct ps_checkpoint_parameter *row = &snapshot->parameters[i];
    ps_parameter_version_release_arrays(version);
    if (version->store != NULL)
        version->store->plugin->snapshot_release(version->snapshot);
    version->snapshot = NULL;
    row->carry = PS_CARRY_AS_BASE;
    row->source = (struct ps_checkpoint_source){0};
    row->values = (struct ps_view){0};
    memset(row->states, 0, sizeof row->states);
    PS_ASSERT(version->values == NULL);
    PS_ASSERT(version->rows == NULL && version->snapshot == NULL);
}

/* The keys live as long as the snapshot: the writer may come to them when the rows are let go. */
void ps_snapshot_narrow(struct ps_snapshot *snapshot, size_t i, uint64_t *removed, size_t count)
{
    struct ps_snapshot_holding *holding = snapshot->held;
    const struct ps_parameter_version *version = ps_snapshot_version(snapshot, i);
    struct ps_checkpoint_parameter *row = &snapshot->parameters[i];
    PS_ASSERT(holding->removed != NULL && row->is_table);
    PS_ASSERT(version->rows != NULL && holding->removed[i].data == NULL);
    holding->removed[i] = (struct ps_bytes){(const uint8_t *)removed, count * sizeof *removed};
    ps_row_hold_narrow(version->rows);
    /* How many rows there are is what the file has of them, and not what the table has. */
    row->carry = PS_CARRY_ROWS;
    row->removed = ps_view_of(&holding->removed[i]);
    row->rows = ps_row_hold_rows(version->rows);
    row->count = row->rows * row->width;
}
