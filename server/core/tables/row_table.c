/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning and end of a table, its settings, and its invariants.
 *
 * A table is made without knowing how large it will be, and the number of its stripes never
 * changes: it takes part in what goes when the table is full, and a table that was loaded under
 * another limit must let the same rows go. What is decided once and for all is in the options;
 * what a configuration may change while the job runs is in ps_row_table_configure, and nothing
 * else is.
 */
#include "server/core/tables/row_table.h"

#include "server/core/tables/row_admission.h"
#include "server/core/tables/row_bodies.h"
#include "server/core/tables/row_stripes.h"

#include "base/assert.h"

#include <inttypes.h>

/* A table without rows has 32 KiB for its stripes and locks, and no page: a job may have thousands
 * of tables that are small, and a stripe gets its index and its first page with its first row. */
enum ps_status ps_row_table_create(const struct ps_row_table_options *options,
                                   struct ps_row_table **created, struct ps_error *error)
{
    PS_ASSERT(options->memory != NULL && created != NULL);
    PS_ASSERT(options->settings.width == options->layout.width);
    PS_ASSERT(options->key_end == 0 || options->key_first <= options->key_end);
    struct ps_row_table *table = ps_zeroed(options->memory, sizeof *table);
    if (table == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a table");
    table->memory = options->memory;
    table->removals = ps_row_removals_create(options->memory);
    if (table->removals == NULL) {
        ps_release(options->memory, table);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a table");
    }
    table->settings = options->settings;
    table->repeats = options->repeats;
    table->seed = ps_row_order_seed(options->id);
    table->key_first = options->key_first;
    table->key_end = options->key_end;
    atomic_init(&table->references, 1);
    ps_row_shape_init(&table->shape, &options->layout);
    ps_large_heap_init(&table->lists, table->memory, options->ahead);
    ps_row_pages_init(&table->pages, table->memory, table->shape.page_bytes, options->ahead);
    ps_mutex_init(&table->holds_lock, PS_RANK_HOLDS);
    for (size_t i = 0; i < PS_ROW_LOCKS; i++)
        ps_mutex_init(&table->locks[i], PS_RANK_ROWS);
    for (size_t i = 0; i < PS_ROW_LOCKS; i++)
        ps_mutex_init(&table->loading[i], PS_RANK_LOADING);
    ps_mutex_init(&table->growth, PS_RANK_GROWTH);
    enum ps_status status = ps_row_admission_create(options, &table->candidates, error);
    /* Candidates have no bodies on a device: they are one number each, of which no rule is made. */
    if (status == PS_OK)
        status = ps_row_bodies_create(options, &table->bodies, error);
    if (status == PS_OK)
        *created = table;
    else
        ps_row_table_destroy(table);
    return status;
}

/* The owner's reference is one of several. A checkpoint that is being written reads the pages of a
 * parameter that was dropped meanwhile. */
void ps_row_table_destroy(struct ps_row_table *table)
{
    if (table != NULL)
        ps_row_table_release(table);
}

void ps_row_table_acquire(struct ps_row_table *table)
{
    PS_ASSERT(table != NULL);
    uint32_t before = atomic_fetch_add(&table->references, 1);
    PS_ASSERT(before > 0);
}

/* Its pages are not its own: they go with their slabs. */
static void free_stripe(struct ps_row_table *table, struct ps_row_stripe *stripe)
{
    PS_ASSERT(stripe->page_count <= stripe->page_room);
    ps_row_index_destroy(&stripe->index, &table->lists.allocator);
    ps_release(&table->lists.allocator, stripe->pages);
}

void ps_row_table_release(struct ps_row_table *table)
{
    uint32_t before = atomic_fetch_sub(&table->references, 1);
    PS_ASSERT(before > 0);
    /* Whoever lets go last is alone with it: no lock is needed any more. */
    if (before > 1)
        return;
    PS_ASSERT(table->asides == NULL);
    /* First what lies on the heap, then the slabs, in which the pages of all stripes are. */
    for (size_t i = 0; i < PS_ROW_STRIPES; i++)
        free_stripe(table, &table->stripes[i]);
    for (size_t i = 0; i < PS_ROW_LOCKS; i++)
        ps_mutex_fini(&table->locks[i]);
    for (size_t i = 0; i < PS_ROW_LOCKS; i++)
        ps_mutex_fini(&table->loading[i]);
    ps_mutex_fini(&table->growth);
    ps_large_heap_fini(&table->lists);
    ps_row_bodies_destroy(table->bodies);
    ps_release(table->memory, table->next_hold);
    ps_mutex_fini(&table->holds_lock);
    ps_row_pages_fini(&table->pages);
    ps_row_table_destroy(table->candidates);
    ps_row_removals_release(table->removals);
    ps_release(table->memory, table);
}

/* Both may be asked by anybody at any time, for the metrics: so they are counted and not added up.
 * */
uint64_t ps_row_table_rows(const struct ps_row_table *table)
{
    PS_ASSERT(table != NULL);
    return atomic_load(&table->rows);
}

uint64_t ps_row_table_bytes(const struct ps_row_table *table)
{
    PS_ASSERT(table != NULL);
    uint64_t bytes =
        atomic_load(&table->pages.bytes) + ps_row_removals_bytes(table->removals) + sizeof *table;
    if (table->bodies != NULL)
        bytes += ps_row_bodies_bytes(table->bodies);
    return table->candidates != NULL ? bytes + ps_row_table_bytes(table->candidates) : bytes;
}

/* 0 without a device, and of a table that is small. */
uint64_t ps_row_table_seated(const struct ps_row_table *table)
{
    PS_ASSERT(table != NULL);
    return table->bodies == NULL ? 0 : atomic_load(&table->bodies->seats_taken);
}

/* The newest push stands for all before it: the device works in the order in which it is asked. */
struct ps_device_ticket ps_row_table_due(const struct ps_row_table *table)
{
    PS_ASSERT(table != NULL);
    return table->bodies == NULL ? (struct ps_device_ticket){0} : table->bodies->newest;
}

/* Not const behind a const table, as its pages are not: whoever holds or loads candidates does so
 * in the place of the table's owner. */
struct ps_row_table *ps_row_table_candidates(const struct ps_row_table *table)
{
    PS_ASSERT(table->candidates == NULL || table->settings.admission > 1);
    return table->candidates;
}

/* The seed and the kind of first values decide what a reader of an unknown key sees, the partition
 * whose keys these are: neither may change under a table that has rows. */
enum ps_status ps_row_table_configure(struct ps_row_table *table,
                                      const struct ps_table_settings *settings,
                                      struct ps_error *error)
{
    const struct ps_table_settings *now = &table->settings;
    PS_ASSERT(now->bound_count <= PS_TABLE_BOUNDS_MAX);
    if (settings->width != now->width)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the width of a table cannot change: %u, not %u",
                       now->width, settings->width);
    /* A key that nobody has pushed to would read otherwise than before, and a row that went would
     * come back as another. */
    if (settings->init != now->init || settings->low != now->low || settings->high != now->high ||
        settings->seed != now->seed)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the first values of a table cannot change");
    /* Rows that are here would belong to another shard, which has never heard of them. */
    if (settings->partition != now->partition || settings->keys_max != now->keys_max ||
        settings->chunk != now->chunk || settings->bound_count != now->bound_count ||
        memcmp(settings->bounds, now->bounds, now->bound_count * sizeof now->bounds[0]) != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the partition of a table cannot change");
    /* Keys that were counted under another number may be those of rows under this one. */
    if (settings->admission != now->admission)
        return ps_fail(error, PS_ERR_BAD_INPUT, "the admission of a table cannot change");
    /* One by one: readers look at the first values meanwhile, which stay as they are. */
    table->settings.rows_max = settings->rows_max;
    table->settings.full = settings->full;
    table->settings.expire_ms = settings->expire_ms;
    table->settings.expire_clocks = settings->expire_clocks;
    memcpy(table->settings.clocks, settings->clocks, sizeof table->settings.clocks);
    table->settings.candidates_max = settings->candidates_max;
    return ps_row_admission_configure(table, error);
}

/* A table by hash has all keys: which of them fall to this shard is the clients' affair, and a row
 * that nobody asks for does no harm. */
enum ps_status ps_row_table_check_key(const struct ps_row_table *table, uint64_t key,
                                      struct ps_error *error)
{
    PS_ASSERT(table->key_end == 0 || table->key_first <= table->key_end);
    if (key >= table->key_first && (table->key_end == 0 || key < table->key_end))
        return PS_OK;
    if (table->key_end == 0)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                       "key %" PRIu64 " is not one of this shard's: they begin at %" PRIu64, key,
                       table->key_first);
    return ps_fail(error, PS_ERR_OUT_OF_RANGE,
                   "key %" PRIu64 " is not one of this shard's: they are from %" PRIu64
                   " to before %" PRIu64,
                   key, table->key_first, table->key_end);
}

/* Each row is found by its key, in the stripe of its hash, and there are no others in the index. */
static void check_stripe(struct ps_row_table *table, uint32_t number)
{
    struct ps_row_stripe *stripe = &table->stripes[number];
    uint32_t rows = 0;
    PS_ASSERT(stripe->page_count <= stripe->page_room);
    for (uint32_t row = 0; row < stripe->page_count << table->shape.page_bits; row++) {
        bool live = ps_row_is_live(stripe, row);
        PS_ASSERT(live || row >= stripe->free_from);
        if (!live)
            continue;
        uint64_t key = ps_row_key(ps_row_at(&table->shape, stripe, row));
        uint64_t hash = ps_row_table_hash(table, key);
        PS_ASSERT(ps_row_stripe_of(hash) == number);
        PS_ASSERT(ps_row_stripe_find(table, stripe, key, hash) == row);
        rows++;
    }
    PS_ASSERT(rows == stripe->rows);
    PS_ASSERT(rows <= stripe->index.rows_max);
    /* And the other way round: the index has no row that is not there. */
    uint32_t indexed = 0;
    for (uint32_t i = 0; i < stripe->index.line_count; i++)
        indexed += PS_ROW_LINE_ROWS -
                   (uint32_t)__builtin_popcount(ps_row_line_match(&stripe->index.lines[i], 0));
    PS_ASSERT(indexed == rows);
}

/* Walks over everything: for tests and the simulator, and never beside a push. */
void ps_row_table_check(struct ps_row_table *table)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        check_stripe(table, i);
        rows += table->stripes[i].rows;
    }
    PS_ASSERT(rows == ps_row_table_rows(table));
    ps_row_admission_check(table);
}
