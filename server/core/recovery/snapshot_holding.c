/* SPDX-License-Identifier: Apache-2.0 */
/* The writer reads a parameter where it lies: blocks of the host as a view, rows and copies of a
 * device through a source, piece by piece. What it has written is let go at once: blocks that are
 * held cost a copy when a push comes to them, and a copy on a device is as large as its parameter.
 */
#include "server/core/recovery/snapshot_holding.h"

#include "base/assert.h"
#include "server/core/tables/row_hold.h"

#include <stdlib.h>

static int compare_names(const void *a, const void *b);
static void describe(struct ps_snapshot_holding *holding, size_t i);
static enum ps_status read_snapshot(void *self, uint32_t array, uint64_t offset, void *to,
                                    size_t size, struct ps_error *error);
static enum ps_status read_rows(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error);
static void let_go_of_device(struct ps_parameter_version *version, uint32_t array, uint64_t bytes);
static void let_go_of_rows(struct ps_parameter_version *version, uint32_t array, uint64_t bytes);

struct ps_snapshot_holding *ps_snapshot_holding_create(const struct ps_allocator *memory,
                                                       size_t capacity, bool is_marked)
{
    PS_ASSERT(memory != NULL);
    /* One allocation with the versions behind it, and one for the rows that the writer sees. */
    struct ps_snapshot_holding *holding =
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

void ps_snapshot_holding_release(struct ps_snapshot_holding *holding)
{
    PS_ASSERT(holding->count <= holding->capacity);
    /* All versions up to the capacity: those that are not held may have a reservation. */
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

void ps_snapshot_holding_describe(struct ps_snapshot_holding *holding)
{
    /* Sorted, so that equal states give equal files; qsort may not be given NULL. */
    if (holding->count > 0)
        qsort(holding->versions, holding->count, sizeof holding->versions[0], compare_names);
    ps_snapshot_ages_settle(holding->ages);
    for (size_t i = 0; i < holding->count; i++)
        describe(holding, i);
}

/* By bytes, as the checkpoint's header has them. */
static int compare_names(const void *a, const void *b)
{
    PS_ASSERT(a != NULL && b != NULL);
    const struct ps_parameter_version *left = a;
    const struct ps_parameter_version *right = b;
    return ps_bytes_compare(left->spec->name, right->spec->name);
}

/* What lives on a device is read through a source, piece by piece, when the writer comes to it;
 * what lives on the host is a view of the blocks that are held. */
static void describe(struct ps_snapshot_holding *holding, size_t i)
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
 * beside it, and set a row that is held aside before they write to it. */
static enum ps_status read_rows(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error)
{
    const struct ps_parameter_version *version = self;
    PS_ASSERT(version->rows != NULL);
    return ps_row_hold_read(version->rows, array, offset, to, size, error);
}

/* What is written is the parameter's own again, also the blocks of an array that is half written:
 * one array may be the whole shard. */
void ps_snapshot_holding_let_go(void *self, size_t parameter, uint32_t array, uint64_t bytes)
{
    struct ps_snapshot_holding *holding = self;
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

/* A row has something of every array: it goes when the last of them is written, which are the
 * versions of the last pushes. */
static void let_go_of_rows(struct ps_parameter_version *version, uint32_t array, uint64_t bytes)
{
    uint32_t last = ps_rule_states(version->spec->settings.rule) + 2;
    PS_ASSERT(array <= last);
    if (array < last)
        return;
    uint64_t rows = bytes / sizeof(uint32_t);
    if (rows < ps_row_hold_rows(version->rows)) {
        ps_row_hold_let_go(version->rows, rows);
        return;
    }
    ps_row_hold_release(version->rows);
    version->rows = NULL;
}
