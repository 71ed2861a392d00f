/* SPDX-License-Identifier: Apache-2.0 */
/* Brings the arrays of some rows together, steps them as one run, and takes them back. Row-wise
 * Adagrad looks at whole rows, and has them one by one. No rule for
 * floats looks at an element's index, and tables of whole numbers have none that does
 * (stochastic rounding), so every run may begin at 0.
 *
 * Sixteen floats at a time go through a rule as fast as memory brings them; one call of a rule for
 * each row of 16 would cost as much as its arithmetic. With a thousand floats together the call is
 * nothing, and what is copied twice never leaves the nearest cache.
 */
#include "server/core/tables/row_step.h"

#include "base/assert.h"
#include "optimizer/row_wise.h"

/* Bytes of one array of the rows that are brought together: with three of them and the gradients,
 * half of the nearest cache. */
#define TOGETHER_BYTES 4096

/* Rows of so many bytes and more are long enough to be runs of their own. */
#define ALONE_BYTES 512

struct together {
    _Alignas(64) uint8_t arrays[PS_ARRAYS_MAX][TOGETHER_BYTES];
};

/* Long rows where they lie: bringing them together would move more bytes than it saves calls. */
static void step_alone(const struct ps_row_shape *shape, const struct ps_optimizer_step *step,
                       uint8_t *row, const uint8_t *gradient)
{
    PS_ASSERT(shape->arrays[0].size >= ALONE_BYTES);
    void *states[PS_STATES_MAX] = {NULL};
    for (uint32_t i = 0; i < shape->layout.state_count; i++)
        states[i] = row + shape->arrays[1 + i].offset;
    ps_optimizer_apply(step, 0, shape->layout.width, row + shape->arrays[0].offset, states,
                       gradient);
}

/* States are as long as values here: a state of one element is stepped by row_wise.h alone. */
static void step_together(const struct ps_row_shape *shape, const struct ps_optimizer_step *step,
                          uint8_t *const *rows, uint32_t count, const uint8_t *gradients)
{
    struct together together;
    uint32_t arrays = 1 + shape->layout.state_count;
    size_t size = shape->arrays[0].size;
    PS_ASSERT(count * size <= TOGETHER_BYTES);
    PS_ASSERT(arrays <= PS_ARRAYS_MAX);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < arrays; k++)
            ps_row_copy(together.arrays[k] + i * size, rows[i] + shape->arrays[k].offset, size);
    void *states[PS_STATES_MAX] = {together.arrays[1], together.arrays[2]};
    ps_optimizer_apply(step, 0, (size_t)count * shape->layout.width, together.arrays[0], states,
                       gradients);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < arrays; k++)
            ps_row_copy(rows[i] + shape->arrays[k].offset, together.arrays[k] + i * size, size);
}

/* Three ways with the same bits; which one is decided by the layout, and so once for a table. */
void ps_row_step(const struct ps_row_shape *shape, const struct ps_optimizer_step *step,
                 uint8_t *const *rows, uint32_t count, const uint8_t *gradients)
{
    size_t size = shape->arrays[0].size;
    PS_ASSERT(shape->layout.state_count == ps_rule_states(step->settings->rule));
    if (shape->layout.state_is_one[0]) {
        for (uint32_t i = 0; i < count; i++)
            ps_optimizer_row_wise(step, shape->layout.width, rows[i] + shape->arrays[0].offset,
                                  rows[i] + shape->arrays[1].offset, gradients + i * size);
        return;
    }
    if (size >= ALONE_BYTES) {
        for (uint32_t i = 0; i < count; i++)
            step_alone(shape, step, rows[i], gradients + i * size);
        return;
    }
    /* Eight rows at least, by the bound above; of single floats a thousand. */
    uint32_t most = (uint32_t)(TOGETHER_BYTES / size);
    for (uint32_t done = 0; done < count; done += most) {
        uint32_t some = count - done < most ? count - done : most;
        step_together(shape, step, rows + done, some, gradients + done * size);
    }
}
