/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a part are visits of the joined batch, part after part, so that nothing has to be
 * looked up twice. */
#include "tools/row_batches.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdbool.h>
#include <string.h>

/* Of one share the second batch is never used, and takes no memory. */
enum ps_status ps_row_batches_init(struct ps_row_batches *batches, uint32_t count, uint32_t width)
{
    PS_ASSERT(count > 0);
    *batches = (struct ps_row_batches){.count = count};
    batches->parts = ps_zeroed_array(ps_allocator_heap(), count, sizeof *batches->parts);
    if (batches->parts == NULL)
        return PS_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        ps_row_batch_init(&batches->parts[i], width);
    ps_row_batch_init(&batches->own, width);
    batches->joined = count > 1 ? &batches->own : &batches->parts[0];
    return PS_OK;
}

/* Accepts zeros. */
void ps_row_batches_fini(struct ps_row_batches *batches)
{
    for (uint32_t i = 0; batches->parts != NULL && i < batches->count; i++)
        ps_row_batch_fini(&batches->parts[i]);
    ps_row_batch_fini(&batches->own);
    ps_release(ps_allocator_heap(), batches->parts);
    *batches = (struct ps_row_batches){.count = 0};
}

/* A key that several parts have is read once: all of them compute with the rows of one moment, and
 * the servers are asked once for a step. */
enum ps_status ps_row_batches_join(struct ps_row_batches *batches, struct ps_error *error)
{
    size_t keys = 0;
    if (batches->count == 1)
        return PS_OK;
    for (uint32_t i = 0; i < batches->count; i++)
        keys += batches->parts[i].row_count;
    PS_TRY(ps_row_batch_begin(&batches->own, keys, error));
    for (uint32_t i = 0; i < batches->count; i++)
        for (size_t row = 0; row < batches->parts[i].row_count; row++)
            ps_row_batch_visit(&batches->own, batches->parts[i].keys[row]);
    return PS_OK;
}

/* Copies, since models compute with the rows of their own batch; a row is a few numbers. */
void ps_row_batches_spread(struct ps_row_batches *batches)
{
    size_t visit = 0;
    if (batches->count == 1)
        return;
    for (uint32_t i = 0; i < batches->count; i++) {
        struct ps_row_batch *part = &batches->parts[i];
        for (size_t row = 0; row < part->row_count; row++)
            memcpy(part->rows + row * part->width, ps_row_batch_row(&batches->own, visit++),
                   part->width * sizeof *part->rows);
    }
    PS_ASSERT(visit == batches->own.visit_count);
}

/* A part that lacks a row adds nothing to it: the first one that has it is copied, since 0 plus a
 * negative zero is another one. */
static void sum_up(struct ps_row_batches *batches)
{
    struct ps_row_batch *own = &batches->own;
    size_t visit = 0;
    /* How often a row was visited so far; it is of no other use any more. */
    memset(own->visits, 0, own->row_count * sizeof *own->visits);
    for (uint32_t k = 0; k < batches->count; k++) {
        const struct ps_row_batch *part = &batches->parts[k];
        for (size_t row = 0; row < part->row_count; row++, visit++) {
            float *to = ps_row_batch_gradient(own, visit);
            const float *from = part->gradients + row * part->width;
            bool is_first = own->visits[own->places[visit]]++ == 0;
            for (size_t i = 0; i < part->width; i++)
                to[i] = is_first ? from[i] : to[i] + from[i];
        }
    }
}

/* The same operations on the same numbers as at a server, in the same order: the sum is divided,
 * and not the parts, whose quotients would be rounded before they are added. */
void ps_row_batches_average(struct ps_row_batches *batches)
{
    struct ps_row_batch *own = &batches->own;
    if (batches->count == 1)
        return;
    sum_up(batches);
    for (size_t i = 0; i < own->row_count * own->width; i++)
        own->gradients[i] /= (float)batches->count;
}
