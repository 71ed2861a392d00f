/* SPDX-License-Identifier: Apache-2.0 */
/* Everything of a push that may fail, before anything has changed: the rows are looked up, the row
 * limit is asked, there is room for the rows that will be made, and what a hold has of all of them
 * is set aside. A larger index, an empty page and a row that lies in two places are the same table
 * to everybody, so nothing needs to be taken back when a later step fails.
 *
 * The pushing thread reads stripes without their locks here: it is the only one that changes them.
 *
 * The other half of the promise is in row_apply.c: what has been prepared can be applied, whatever
 * memory there is by then. So every index has room for the rows to come, every row that will be
 * made has its number, and every row that will be written may be.
 */
#include "server/core/tables/row_admission.h"
#include "server/core/tables/row_aside.h"
#include "server/core/tables/row_bodies.h"
#include "server/core/tables/row_evict.h"
#include "server/core/tables/row_look_up.h"
#include "server/core/tables/row_push_parts.h"

#include "base/assert.h"

#include <inttypes.h>

static enum ps_status refuse(const struct ps_row_push *push, struct ps_error *error);
static void look_up(struct ps_row_push *push);
static bool place_rows(struct ps_row_push *push, uint32_t stripe);
static enum ps_status bring_home(struct ps_row_push *push, struct ps_error *error);

/* Stripe by stripe, in the order of the keys: what is looked at for the one is warm for the other.
 * The victims are chosen before anything is placed, by what the rows are now. */
enum ps_status ps_row_push_prepare(struct ps_row_push *push, uint64_t bytes_left,
                                   struct ps_error *error)
{
    struct ps_row_table *table = push->table;
    PS_ASSERT(!push->prepared);
    PS_ASSERT(push->begins[PS_ROW_STRIPES] == push->unique);
    look_up(push);
    PS_TRY(ps_row_admission_decide(push, &bytes_left, error));
    uint64_t bytes = atomic_load(&table->pages.bytes);
    atomic_store(&table->pages.bytes_limit,
                 bytes_left > UINT64_MAX - bytes ? UINT64_MAX : bytes + bytes_left);
    /* Refused before anything is made ready for it. */
    PS_TRY(ps_row_evict_choose(push, error));
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        if (push->begins[i] == push->begins[i + 1])
            continue;
        if (!place_rows(push, i))
            return refuse(push, error);
    }
    if (table->bodies != NULL) {
        PS_TRY(ps_row_bodies_expect(push, error));
        PS_TRY(bring_home(push, error));
    }
    /* Also at the places of rows that will be made: one that has gone may be a hold's. */
    if (!ps_row_aside_keep(table, push->begins, push->numbers))
        return ps_fail(error, PS_ERR_NO_MEMORY,
                       "no memory to set rows aside for a checkpoint of a table of %" PRIu64
                       " bytes",
                       atomic_load(&table->pages.bytes));
    if (!push->grown)
        ps_row_stripes_grow_ahead(table, push->made);
    push->prepared = true;
    return PS_OK;
}

/* A limit that somebody has set is as rows_max is: the same again is refused again, and a trainer
 * that waited for memory would look like one that hangs. Without one the heap has refused, which
 * may be otherwise a moment later. */
static enum ps_status refuse(const struct ps_row_push *push, struct ps_error *error)
{
    const struct ps_row_table *table = push->table;
    uint64_t bytes = atomic_load(&table->pages.bytes);
    uint64_t rows = ps_row_table_rows(table);
    PS_ASSERT(push->made > 0);
    if (atomic_load(&table->pages.bytes_limit) < UINT64_MAX)
        return ps_fail(error, PS_ERR_TABLE_FULL,
                       "%" PRIu32 " more rows beside %" PRIu64 ", of %" PRIu64
                       " bytes, would take more than --memory-bytes leaves",
                       push->made, rows, bytes);
    return ps_fail(error, PS_ERR_NO_MEMORY,
                   "no memory for %" PRIu32 " more rows beside %" PRIu64 ", of %" PRIu64
                   " bytes (a server can have %" PRIu64 " of a table)",
                   push->made, rows, bytes, (uint64_t)PS_ROW_NUMBERS * PS_ROW_STRIPES);
}

/* All of each row is asked for: apply comes soon, and finds it in the cache. */
static void look_up(struct ps_row_push *push)
{
    ps_row_look_up(push->table, push->hashes, push->keys, push->unique, push->table->shape.stride,
                   push->rows, push->numbers, NULL);
    PS_ASSERT(push->table != NULL);
    push->made = 0;
    for (uint32_t i = 0; i < push->unique; i++)
        push->made += push->numbers[i] == PS_ROW_NONE ? 1 : 0;
}

/* Rows that will be made: each gets a number that is free, of a page that is there. The numbers of
 * rows that go for this push are not free yet: such a row may be read until the push is applied. */
static bool place_rows(struct ps_row_push *push, uint32_t number)
{
    struct ps_row_table *table = push->table;
    struct ps_row_stripe *stripe = &table->stripes[number];
    uint64_t made = 0;
    /* Numbers rise within the push, so that none is given twice: the bits do not know of them yet.
     * */
    uint32_t from = stripe->free_from;
    for (uint32_t i = push->begins[number]; i < push->begins[number + 1]; i++) {
        if (push->rows[i] != NULL)
            continue;
        uint32_t row = ps_row_stripe_free(table, stripe, from);
        /* A number behind the last page makes a page; the next rows of this stripe come into it,
         * too. */
        if (row == PS_ROW_NONE ||
            !ps_row_stripe_extend(table, number, row >> table->shape.page_bits))
            return false;
        PS_ASSERT(row >= from);
        push->numbers[i] = row;
        from = row + 1;
        made++;
    }
    /* The rows that go for this push are counted as well, since they are taken out at the same
     * time as others are made, and the index must be large enough in any order. */
    push->grown = push->grown || stripe->rows + made > stripe->index.rows_max;
    return made == 0 || ps_row_stripe_expect(table, number, stripe->rows + made);
}

/* What a hold has of these rows is copied by the host, and is to be there: of those that the push
 * steps, and of those that go for it. */
static enum ps_status bring_home(struct ps_row_push *push, struct ps_error *error)
{
    struct ps_row_table *table = push->table;
    enum ps_status status = PS_OK;
    PS_ASSERT(table->bodies != NULL);
    if (!ps_row_aside_is_held(table))
        return PS_OK;
    ps_rwlock_write(&table->bodies->lock);
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++)
        for (uint32_t k = push->begins[i]; status == PS_OK && k < push->begins[i + 1]; k++)
            status = ps_row_aside_call(table, i, push->numbers[k], error);
    /* Their bytes on the host are all that a hold will have of them. */
    for (uint32_t i = 0; status == PS_OK && i < push->victim_count; i++)
        status = ps_row_aside_call(table, ps_row_stripe_of(push->victims[i].hash),
                                   push->victims[i].row, error);
    if (status == PS_OK)
        status = ps_row_bodies_fetch(table, error);
    ps_rwlock_unlock(&table->bodies->lock);
    return status;
}
