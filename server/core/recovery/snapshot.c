/* SPDX-License-Identifier: Apache-2.0 */
/* One instant across all parameters. The cut is held alone only while references are counted up: no
 * byte of a parameter is copied, and pushes go on as soon as that is done. What a device needs
 * memory for is reserved before, while pushes go on. So a snapshot of a hundred gigabytes stops
 * pushes for microseconds, and costs memory only for blocks that are written while the file is
 * being made (copy on write, as Redis has it from fork, but counted by us and in blocks of our
 * size). */
#include "server/core/recovery/snapshot.h"

#include "base/assert.h"
#include "base/random.h"
#include "server/core/recovery/clock_rows.h"
#include "server/core/recovery/snapshot_ages.h"
#include "server/core/recovery/snapshot_candidates.h"
#include "server/core/recovery/snapshot_rounds.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_changes.h"
#include "server/core/tables/row_hold.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a snapshot holds on to. */
struct holding {
    const struct ps_allocator *memory;
    uint64_t generation;    /* of the shard, in which the memory was reserved */
    uint64_t table_changes; /* of the service, up to then */
    uint64_t bytes;         /* of the host's memory that will be held */
    size_t capacity;
    size_t count; /* parameters that are held; of the others there may be a reservation */
    struct ps_checkpoint_parameter *parameters;
    struct ps_bytes *removed; /* of each parameter, owned; NULL: the instant is not marked */
    uint8_t *session_bytes;
    size_t session_size;
    struct ps_clock_rows *clocks; /* NULL: there are none */
    struct ps_snapshot_rounds *rounds;
    struct ps_snapshot_candidates *candidates;
    struct ps_snapshot_ages *ages;
    struct ps_parameter_version versions[];
};

static enum ps_status take(struct ps_service *service, bool is_marked, struct ps_snapshot *snapshot,
                           struct ps_error *error);
static enum ps_status take_once(struct ps_service *service, bool alone, bool is_marked,
                                struct ps_snapshot *snapshot, struct ps_error *error);
static enum ps_status reserve(struct ps_service *service, bool is_marked, struct holding **out,
                              struct ps_error *error);
static enum ps_status check_ready(const struct ps_service *service, struct ps_error *error);
static uint64_t generation_of(struct ps_service *service);
static struct holding *create_holding(const struct ps_allocator *memory, size_t capacity,
                                      bool is_marked);
static enum ps_status reserve_all(struct ps_service *service, struct holding *holding,
                                  struct ps_error *error);
static void release_holding(struct holding *holding);
static enum ps_status take_instant(struct ps_service *service, struct holding *holding,
                                   struct ps_snapshot *snapshot, struct ps_error *error);
static enum ps_status encode_sessions(struct ps_service *service, struct holding *holding,
                                      struct ps_error *error);
static void describe(struct holding *holding, size_t i);
static enum ps_status read_snapshot(void *self, uint32_t array, uint64_t offset, void *to,
                                    size_t size, struct ps_error *error);
static enum ps_status read_rows(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error);
static void let_go(void *self, size_t parameter, uint32_t array, uint64_t bytes);
static void let_go_of_device(struct ps_parameter_version *version, uint32_t array, uint64_t bytes);
static void make_uuid(struct ps_random *random, uint64_t unix_ns, char uuid[37]);
static int compare_names(const void *a, const void *b);

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
    struct holding *holding = NULL;
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
        release_holding(holding);
        *snapshot = (struct ps_snapshot){0};
        return status;
    }

    /* Sorted, so that equal states give equal files. */
    /* qsort may not be given NULL. */
    if (holding->count > 0)
        qsort(holding->versions, holding->count, sizeof holding->versions[0], compare_names);
    ps_snapshot_ages_settle(holding->ages);
    for (size_t i = 0; i < holding->count; i++)
        describe(holding, i);
    snapshot->facts.sections[PS_CHECKPOINT_ROUNDS] = ps_snapshot_rounds_records(holding->rounds);
    snapshot->facts.sections[PS_CHECKPOINT_CANDIDATES] =
        ps_snapshot_candidates_records(holding->candidates);
    snapshot->parameters = holding->parameters;
    snapshot->parameter_count = holding->count;
    snapshot->watcher = (struct ps_checkpoint_watcher){let_go, holding};
    snapshot->held = holding;
    return PS_OK;
}

/* What is reserved is right for the table as it is: take_instant sees a change. */
static enum ps_status reserve(struct ps_service *service, bool is_marked, struct holding **out,
                              struct ps_error *error)
{
    /* Stays what it is until the lock is let go. */
    size_t capacity = service->table.count;
    PS_TRY(check_ready(service, error));
    struct holding *holding = create_holding(service->memory, capacity, is_marked);
    if (holding == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a snapshot of %zu parameters",
                       capacity);
    holding->generation = generation_of(service);
    holding->table_changes = service->table_changes;
    enum ps_status status = reserve_all(service, holding, error);
    if (status != PS_OK) {
        release_holding(holding);
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

/* Counted for the table as it is now. */
static struct holding *create_holding(const struct ps_allocator *memory, size_t capacity,
                                      bool is_marked)
{
    PS_ASSERT(memory != NULL);
    /* One allocation with the versions behind it, and one for the rows that the writer sees. */
    struct holding *holding =
        ps_zeroed(memory, sizeof *holding + capacity * sizeof(struct ps_parameter_version));
    if (holding == NULL)
        return NULL;
    holding->memory = memory;
    holding->capacity = capacity;
    holding->parameters = ps_zeroed_array(memory, capacity, sizeof(struct ps_checkpoint_parameter));
    /* Room for lists of keys, so that nothing can fail when a snapshot is reduced. */
    if (is_marked)
        holding->removed = ps_zeroed_array(memory, capacity, sizeof holding->removed[0]);
    if (holding->parameters == NULL || (is_marked && holding->removed == NULL)) {
        ps_release(memory, holding->parameters);
        ps_release(memory, holding->removed);
        ps_release(memory, holding);
        return NULL;
    }
    return holding;
}

/* For each parameter in the order of the table. A reservation that is not used is given back with
 * the holding. */
static enum ps_status reserve_all(struct ps_service *service, struct holding *holding,
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
static enum ps_status take_instant(struct ps_service *service, struct holding *holding,
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
        .sessions = {holding->session_bytes, holding->session_size},
        .job = service->job,
        .sections[PS_CHECKPOINT_CLOCKS] = ps_clock_rows_records(holding->clocks),
    };
    PS_ASSERT(service->index < service->shard_count && service->epoch > 0);
    make_uuid(service->random, snapshot->facts.unix_ns, snapshot->facts.uuid);
    /* Whoever has asked for a checkpoint until now is covered by this one. */
    snapshot->ticket = ps_tickets_newest(&service->tickets);
    return PS_OK;
}

/* Encoded under the cut and not copied first: the bytes are no more than a copy would be, and with
 * every client's ring full a copy would cost a hundred megabytes a second time. */
static enum ps_status encode_sessions(struct ps_service *service, struct holding *holding,
                                      struct ps_error *error)
{
    PS_ASSERT(holding->session_bytes == NULL);
    return ps_sessions_encode(&service->sessions, holding->memory, &holding->session_bytes,
                              &holding->session_size, error);
}

/* What lives on a device is read through a source, piece by piece, when the writer comes to it;
 * what lives on the host is a view of the blocks that are held. */
static void describe(struct holding *holding, size_t i)
{
    PS_ASSERT(i < holding->count);
    struct ps_parameter_version *version = &holding->versions[i];
    struct ps_checkpoint_parameter *row = &holding->parameters[i];
    *row = ps_parameter_spec_row(version->spec);
    row->version = version->version;
    row->step = version->step;
    if (version->store != NULL) {
        row->source = (struct ps_checkpoint_source){read_snapshot, version};
        return;
    }
    /* How many rows there are was not known when the header was measured: it grows with digits. */
    if (version->rows != NULL) {
        row->rows = ps_row_hold_rows(version->rows);
        row->count = row->rows * row->width;
        row->source = (struct ps_checkpoint_source){read_rows, version};
        row->ages = ps_snapshot_ages_of(holding->ages, version->spec);
        return;
    }
    row->values = ps_blocks_view(version->values);
    for (uint32_t state = 0; state < row->state_count; state++)
        row->states[state] = ps_blocks_view(version->states[state]);
}

static enum ps_status read_snapshot(void *self, uint32_t array, uint64_t offset, void *to,
                                    size_t size, struct ps_error *error)
{
    PS_ASSERT(((const struct ps_parameter_version *)self)->snapshot != NULL);
    const struct ps_parameter_version *version = self;
    return version->store->plugin->snapshot_read(version->snapshot, array, offset, to, size, error);
}

/* Rows lie in pages in no order: the hold has one, in which every array is read. Pushes go on
 * beside it, and copy a page that is held before they write to it. */
static enum ps_status read_rows(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error)
{
    const struct ps_parameter_version *version = self;
    PS_ASSERT(version->rows != NULL);
    return ps_row_hold_read(version->rows, array, offset, to, size, error);
}

/* A page has what every array is made of: it goes when the last array is written, which are the
 * versions of the last pushes. */
static void let_go_of_rows(struct ps_parameter_version *version, uint32_t array, uint64_t bytes)
{
    uint32_t last = ps_rule_states(version->spec->settings.rule) + 2;
    PS_ASSERT(array <= last);
    if (array < last || bytes < ps_row_hold_rows(version->rows) * sizeof(uint32_t))
        return;
    ps_row_hold_release(version->rows);
    version->rows = NULL;
}

/* What is written is the parameter's own again, also the blocks of an array that is half written:
 * one array may be the whole shard. */
static void let_go(void *self, size_t parameter, uint32_t array, uint64_t bytes)
{
    struct holding *holding = self;
    struct ps_parameter_version *version = &holding->versions[parameter];
    if (version->store != NULL) {
        let_go_of_device(version, array, bytes);
        return;
    }
    if (version->rows != NULL) {
        let_go_of_rows(version, array, bytes);
        return;
    }
    PS_ASSERT(array <= ps_rule_states(version->spec->settings.rule));
    struct ps_blocks **blocks = array == 0 ? &version->values : &version->states[array - 1];
    PS_ASSERT(*blocks != NULL && bytes <= (*blocks)->size);
    /* Only whole blocks go; the writer tells of more with its next piece. */
    if (bytes < (*blocks)->size) {
        ps_blocks_let_go(*blocks, bytes);
        return;
    }
    /* The whole array is on the disk. */
    ps_blocks_release(*blocks);
    *blocks = NULL;
}

/* The copy is one piece: it goes when the last of it is written. */
static void let_go_of_device(struct ps_parameter_version *version, uint32_t array, uint64_t bytes)
{
    PS_ASSERT(version->store != NULL);
    /* The writer reads the values first and the states behind them. */
    bool is_last = array == ps_rule_states(version->spec->settings.rule);
    if (!is_last || bytes < ps_parameter_spec_bytes(version->spec))
        return;
    version->store->plugin->snapshot_release(version->snapshot);
    version->snapshot = NULL;
}

/* Version 7, variant 1: the milliseconds stand first, so that also names of the same position sort
 * by age. RFC 9562, section 5.7. In a simulation the bits come from its seed, so that the same seed
 * gives the same names. */
static void make_uuid(struct ps_random *random, uint64_t unix_ns, char uuid[37])
{
    PS_ASSERT(uuid != NULL);
    uint64_t bits[2];
    if (random != NULL) {
        bits[0] = ps_random_next(random);
        bits[1] = ps_random_next(random);
    } else {
        ps_random_system(bits, sizeof bits);
    }
    /* 48 bits of time, the version, 12 random bits; then the variant and 62 random bits. */
    uint64_t high = unix_ns / 1000000 << 16 | UINT64_C(0x7000) | (bits[0] & 0xfff);
    uint64_t low = bits[1] >> 2 | UINT64_C(1) << 63;
    snprintf(uuid, 37, "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
             high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48,
             low & UINT64_C(0xffffffffffff));
}

/* By bytes, as the checkpoint's header has them. */
static int compare_names(const void *a, const void *b)
{
    PS_ASSERT(a != NULL && b != NULL);
    const struct ps_parameter_version *left = a;
    const struct ps_parameter_version *right = b;
    return ps_bytes_compare(left->spec->name, right->spec->name);
}

/* Releases what the watcher has not been told of yet, so also after a write that failed half-way.
 * */
void ps_snapshot_release(struct ps_snapshot *snapshot)
{
    PS_ASSERT(snapshot->held != NULL || snapshot->parameter_count == 0);
    if (snapshot->held != NULL)
        release_holding(snapshot->held);
    *snapshot = (struct ps_snapshot){0};
}

/* In the order of the names, as the rows that the writer sees. */
struct ps_parameter_version *ps_snapshot_version(const struct ps_snapshot *snapshot, size_t i)
{
    struct holding *holding = snapshot->held;
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
    struct holding *holding = snapshot->held;
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

/* All versions up to the capacity: those that are not held may have a reservation. */
static void release_holding(struct holding *holding)
{
    PS_ASSERT(holding->count <= holding->capacity);
    for (size_t i = 0; i < holding->capacity; i++)
        ps_parameter_version_release(&holding->versions[i]);
    ps_snapshot_rounds_release(holding->rounds);
    ps_snapshot_candidates_release(holding->candidates);
    ps_snapshot_ages_release(holding->ages);
    ps_release(holding->memory, holding->session_bytes);
    ps_clock_rows_release(holding->clocks);
    for (size_t i = 0; holding->removed != NULL && i < holding->capacity; i++)
        ps_release(holding->memory, (void *)(uintptr_t)holding->removed[i].data);
    ps_release(holding->memory, holding->removed);
    ps_release(holding->memory, holding->parameters);
    ps_release(holding->memory, holding);
}
