/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of whole elements out of pieces cut anywhere. gRPC cuts a message where its buffers end,
 * which may be in the middle of a double. Only such an element is copied, into eight bytes on the
 * stack of whoever asks; all others are used where they lie, so that a gradient of a gigabyte costs
 * no copy. */
#include "server/core/values/element_runs.h"

#include "base/assert.h"

#include <string.h>

static struct ps_element_run finish_carried(struct ps_element_runs *runs);

/* Nothing is carried before the first piece. */
void ps_element_runs_init(struct ps_element_runs *runs, struct ps_view gradient,
                          size_t element_size)
{
    PS_ASSERT(element_size > 0);
    PS_ASSERT(element_size <= sizeof runs->carry);
    *runs = (struct ps_element_runs){.cursor.view = gradient, .element_size = element_size};
}

/* The rest of a piece that is less than an element is carried over and comes as a run of one,
 * completed from the pieces behind it. A run therefore never spans two pieces, and the arithmetic
 * sees the elements in their order. */
struct ps_element_run ps_element_runs_next(struct ps_element_runs *runs, size_t count_max)
{
    PS_ASSERT(count_max > 0);
    PS_ASSERT(runs->element_size > 0 && runs->carried < runs->element_size);
    if (runs->carried > 0)
        return finish_carried(runs);

    struct ps_bytes bytes = ps_view_next(&runs->cursor, count_max * runs->element_size);
    size_t count = bytes.size / runs->element_size;
    /* What is cut off at the end of the piece waits for the next call. */
    size_t rest = bytes.size - count * runs->element_size;
    if (rest > 0)
        memcpy(runs->carry, bytes.data + count * runs->element_size, rest);
    runs->carried = rest;
    if (count > 0)
        return (struct ps_element_run){bytes.data, count};
    if (rest > 0)
        return finish_carried(runs);
    return (struct ps_element_run){NULL, 0};
}

/* A piece may be shorter than what is missing, also empty, so this loops. */
static struct ps_element_run finish_carried(struct ps_element_runs *runs)
{
    PS_ASSERT(runs->carried < runs->element_size);
    uint8_t *carry = (uint8_t *)runs->carry;
    while (runs->carried < runs->element_size) {
        struct ps_bytes bytes = ps_view_next(&runs->cursor, runs->element_size - runs->carried);
        PS_ASSERT(bytes.size > 0); /* the length was checked to be whole elements */
        memcpy(carry + runs->carried, bytes.data, bytes.size);
        runs->carried += bytes.size;
    }
    runs->carried = 0;
    return (struct ps_element_run){carry, 1};
}
