/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a push. Rows lie apart, and the rules' loops want runs: so the arrays of a few
 * rows are brought together, stepped in one call, and taken back. They stay in the nearest cache
 * meanwhile. Rows of many elements are runs themselves and are stepped where they lie.
 *
 * Nothing in here can fail, but a device may be dead, and the server with it. The
 * record of the push is in the journal's order by now: a push that
 * came to nothing from here on would come to something in a replay.
 */
#include "server/core/tables/row_admission.h"
#include "server/core/tables/row_bodies.h"
#include "server/core/tables/row_push_parts.h"
#include "server/core/tables/row_step.h"

#include "base/assert.h"

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_ROW_VERSIONS
static const bool versions_stay = true;
#else
static const bool versions_stay = false;
#endif

/* Rows that are asked for ahead: prepare had them all, but a large push has outgrown the nearer
 * caches since. */
#define AHEAD 8
#define LINE_BYTES 64

static void remove_victims(struct ps_row_push *push);
static void apply_stripe(struct ps_row_push *push, uint32_t number,
                         const struct ps_optimizer_step *step, uint64_t version);
static void make_rows(struct ps_row_push *push, uint32_t number);
static void ask_row(const struct ps_row_push *push, uint32_t at);

/* Lock by lock, so that a reader waits for the rows of eight stripes and not for all of a push.
 * Rows that go are taken out first: what is in the table never passes the row limit. */
void ps_row_push_apply(struct ps_row_push *push, const struct ps_optimizer_step *step,
                       uint64_t version)
{
    struct ps_row_table *table = push->table;
    PS_ASSERT(push->prepared);
    PS_ASSERT(step->dtype == table->shape.layout.dtype);
    push->prepared = false;
    /* Also of a push that steps nothing: a table that was loaded knows its version and not which
     * pushes were skipped, and lets the same rows go. */
    ps_row_table_set_version(table, version);
    if (step->skip)
        return;
    /* From before the first row goes until the device was asked for the step: a pull that comes
     * between would look rows up whose bodies are not there yet, or not any more. */
    if (table->bodies != NULL)
        ps_rwlock_write(&table->bodies->lock);
    ps_row_admission_apply(push, version);
    remove_victims(push);
    /* Always from the first lock on: only readers need take turns (row_pull.c), since there is one
     * push at a time. */
    for (uint32_t lock = 0; lock < PS_ROW_LOCKS; lock++) {
        uint32_t first = lock * PS_ROW_LOCK_STRIPES;
        if (push->begins[first] == push->begins[first + PS_ROW_LOCK_STRIPES])
            continue;
        ps_mutex_lock(&table->locks[lock]);
        for (uint32_t i = first; i < first + PS_ROW_LOCK_STRIPES; i++)
            apply_stripe(push, i, step, version);
        ps_mutex_unlock(&table->locks[lock]);
    }
    atomic_fetch_add(&table->rows, push->made);
    if (table->bodies == NULL)
        return;
    push->failed = ps_row_bodies_step(push, step, &push->failure);
    ps_rwlock_unlock(&table->bodies->lock);
}

/* A push that was skipped has not failed. */
enum ps_status ps_row_push_applied(const struct ps_row_push *push, struct ps_error *error)
{
    PS_ASSERT(!push->prepared);
    return push->failed == PS_OK ? PS_OK : ps_fail(error, push->failed, "%s", push->failure.text);
}

/* One by one under their locks; a reader between two of them sees a table that is in order. */
static void remove_victims(struct ps_row_push *push)
{
    PS_ASSERT(push->victim_count == 0 || push->victims != NULL);
    struct ps_row_table *table = push->table;
    for (uint32_t i = 0; i < push->victim_count; i++) {
        uint32_t number = ps_row_stripe_of(push->victims[i].hash);
        ps_mutex_lock(ps_row_lock_of(table, number));
        ps_row_stripe_remove(table, &table->stripes[number], push->victims[i].hash,
                             push->victims[i].row);
        ps_mutex_unlock(ps_row_lock_of(table, number));
    }
    uint64_t before = atomic_fetch_sub(&table->rows, push->victim_count);
    PS_ASSERT(before >= push->victim_count);
}

/* The version first, row by row, which brings the line of each row into the cache; then the rule,
 * for all of the stripe in one call. */
static void apply_stripe(struct ps_row_push *push, uint32_t number,
                         const struct ps_optimizer_step *step, uint64_t version)
{
    uint32_t begin = push->begins[number];
    uint32_t count = push->begins[number + 1] - begin;
    if (count == 0)
        return;
    make_rows(push, number);
    PS_ASSERT(push->begins[number] + count <= push->unique);
    for (uint32_t i = 0; i < count; i++) {
        ask_row(push, begin + i + AHEAD);
        if (!versions_stay || ps_row_touched(push->rows[begin + i]) == 0)
            ps_row_set_touched(push->rows[begin + i], version);
    }
    if (push->table->bodies != NULL)
        ps_row_bodies_take(push, number, step);
    else
        ps_row_step(&push->table->shape, step, push->rows + begin, count,
                    push->gradients + begin * ps_row_push_row_bytes(push));
}

/* All lines of a row, of the next stripe's, too: a stripe has some forty rows of a push of ten
 * thousand, and its first ones would else be waited for. One that is still to be made has no place
 * yet. */
static void ask_row(const struct ps_row_push *push, uint32_t at)
{
    const uint8_t *row = at < push->unique ? push->rows[at] : NULL;
    PS_ASSERT(push->table->shape.stride > 0);
    for (size_t i = 0; row != NULL && i < push->table->shape.stride; i += LINE_BYTES)
        PS_PREFETCH(row + i);
}

/* Under the lock, though the number was chosen without: from here on readers find the row. It has
 * its first values then, and an instant later, still under the lock, those of this push. */
static void make_rows(struct ps_row_push *push, uint32_t number)
{
    PS_ASSERT(number < PS_ROW_STRIPES);
    struct ps_row_table *table = push->table;
    struct ps_row_stripe *stripe = &table->stripes[number];
    bool made = false;
    for (uint32_t i = push->begins[number]; i < push->begins[number + 1]; i++) {
        if (push->rows[i] != NULL)
            continue;
        push->rows[i] =
            ps_row_stripe_insert(table, stripe, push->keys[i], push->hashes[i], push->numbers[i]);
        made = true;
    }
    /* The bits of rows are a line of memory that a push of old rows has no need of. */
    if (made)
        stripe->free_from = ps_row_stripe_free(table, stripe, stripe->free_from);
}
