/* SPDX-License-Identifier: Apache-2.0 */
/* Two numbers at fixed places before the gradient. A server that replays the record asks no request
 * again, so all that it relies on is held to its bounds here. */
#include "checkpoint/journal_held.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "checkpoint/little_endian.h"

#include <math.h>

enum { WORKER_AT = 0, WEIGHT_AT = 4 };

_Static_assert(sizeof(float) == 4, "a weight has four bytes");

/* A weight that is not a number would make the whole combined gradient one; a negative weight could
 * make the sum of the weights, by which it is divided, zero. */
static bool is_possible(const struct ps_held_head *head)
{
    return head->worker < PS_ROUND_WORKERS_MAX && isfinite(head->weight) && head->weight >= 0;
}

/* The weight's bits are written as they are: the same sum comes out of a replay. */
void ps_held_head_write(const struct ps_held_head *head, uint8_t to[PS_HELD_HEAD_BYTES])
{
    uint32_t bits = 0;
    PS_ASSERT(is_possible(head));
    memcpy(&bits, &head->weight, sizeof bits);
    /* Through an integer, which has the byte order of a float on every machine that we know. */
    ps_little_put(to + WORKER_AT, 4, head->worker);
    ps_little_put(to + WEIGHT_AT, 4, bits);
}

/* Whether the rank is one of the parameter's workers is asked by whoever knows the
 * configuration. */
enum ps_status ps_held_head_read(struct ps_bytes content, struct ps_held_head *head,
                                 struct ps_bytes *gradient, struct ps_error *error)
{
    if (content.size < PS_HELD_HEAD_BYTES)
        return ps_fail(error, PS_ERR_CORRUPT, "a contribution of %zu bytes", content.size);
    struct ps_held_head read = {.worker = (uint32_t)ps_little_take(content.data + WORKER_AT, 4)};
    uint32_t bits = (uint32_t)ps_little_take(content.data + WEIGHT_AT, 4);
    memcpy(&read.weight, &bits, sizeof bits);
    if (!is_possible(&read))
        return ps_fail(error, PS_ERR_CORRUPT, "a contribution of worker %u with weight %g",
                       read.worker, (double)read.weight);
    /* The length is that of a push: whoever applies it holds it to the parameter. */
    *head = read;
    *gradient =
        (struct ps_bytes){content.data + PS_HELD_HEAD_BYTES, content.size - PS_HELD_HEAD_BYTES};
    return PS_OK;
}
