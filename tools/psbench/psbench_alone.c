/* SPDX-License-Identifier: Apache-2.0 */
/* memcpy and the optimizer's loop, timed. Two bounds that no server can beat on this machine:
 * copying the bytes once, and running the optimizer's own loop over them without any network. The
 * first is measured twice, with buffers that stay in a cache if they fit, and through so much
 * memory that no cache holds it: content that another process has written comes from memory. */
#include "tools/psbench/psbench_alone.h"

#include "base/alloc.h"
#include "optimizer/optimizer.h"
#include "tools/psbench/psbench_values.h"

#include <string.h>

/* A copy through more memory than a cache holds. */
struct far_copy {
    uint8_t *area; /* owned; source and destination, one behind the other */
    size_t size, offset;
};

/* A function pointer around each copy costs far less than reading the clock behind it. */
static enum ps_status copy_once(void *context, uint64_t number, struct ps_error *error);
static enum ps_status copy_far_once(void *context, uint64_t number, struct ps_error *error);
static enum ps_status update_once(void *context, uint64_t number, struct ps_error *error);

/* Both buffers are written before anything is timed: the first touch of a page is the kernel's
 * work, not memory's. */
enum ps_status ps_bench_alone_open(struct ps_bench_alone *alone, size_t size,
                                   struct ps_error *error)
{
    *alone = (struct ps_bench_alone){.size = size};
    alone->values = ps_plain(ps_allocator_heap(), size);
    alone->gradient = ps_plain(ps_allocator_heap(), size);
    if (alone->values == NULL || alone->gradient == NULL) {
        ps_bench_alone_close(alone);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for twice %zu bytes", size);
    }
    ps_bench_fill_gradient(alone->gradient, size / sizeof(float));
    ps_bench_fill_gradient(alone->values, size / sizeof(float));
    return PS_OK;
}

/* Accepts what a failed open left. */
void ps_bench_alone_close(struct ps_bench_alone *alone)
{
    ps_release(ps_allocator_heap(), alone->values);
    ps_release(ps_allocator_heap(), alone->gradient);
    *alone = (struct ps_bench_alone){0};
}

/* One core copies, as one lane of a server would. */
enum ps_status ps_bench_alone_copy(struct ps_bench_alone *alone, uint64_t time_ms,
                                   struct ps_bench_figures *figures, struct ps_error *error)
{
    return ps_bench_repeat(copy_once, alone, time_ms, figures, error);
}

/* Always the same two buffers, so that small ones stay in the cache. */
static enum ps_status copy_once(void *context, uint64_t number, struct ps_error *error)
{
    struct ps_bench_alone *alone = context;
    (void)number;
    (void)error;
    memcpy(alone->values, alone->gradient, alone->size);
    return PS_OK;
}

/* The area is walked through in steps of the size, so that each byte was last touched 256 MiB ago.
 * A size above the area is copied in part, and the rate is corrected for it. */
enum ps_status ps_bench_alone_copy_far(const struct ps_bench_alone *alone, uint64_t time_ms,
                                       struct ps_bench_figures *figures, struct ps_error *error)
{
    struct far_copy copy = {.area = ps_plain(ps_allocator_heap(), 2 * PS_BENCH_FAR_BYTES),
                            .size = alone->size < PS_BENCH_FAR_BYTES ? alone->size
                                                                     : PS_BENCH_FAR_BYTES};
    if (copy.area == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to copy through");
    memset(copy.area, 1, 2 * PS_BENCH_FAR_BYTES);
    enum ps_status status = ps_bench_repeat(copy_far_once, &copy, time_ms, figures, error);
    ps_release(ps_allocator_heap(), copy.area);
    if (status == PS_OK)
        figures->per_second *= (double)copy.size / (double)alone->size;
    return status;
}

/* The offset begins anew as soon as the next copy would not fit whole. */
static enum ps_status copy_far_once(void *context, uint64_t number, struct ps_error *error)
{
    struct far_copy *copy = context;
    (void)number;
    (void)error;
    memcpy(copy->area + copy->offset, copy->area + PS_BENCH_FAR_BYTES + copy->offset, copy->size);
    copy->offset += copy->size;
    if (copy->offset + copy->size > PS_BENCH_FAR_BYTES)
        copy->offset = 0;
    return PS_OK;
}

/* The thread is prepared as a server's are, so that it rounds as they do. The learning rate and the
 * gradient are those of the load, so that values stay whole numbers here, too. */
enum ps_status ps_bench_alone_update(struct ps_bench_alone *alone, uint64_t time_ms,
                                     struct ps_bench_figures *figures, struct ps_error *error)
{
    ps_optimizer_enter_thread();
    return ps_bench_repeat(update_once, alone, time_ms, figures, error);
}

/* Exactly the calls of a push: scan where the rule asks for it, prepare the step, apply block by
 * block. Blocks matter, because a server's values are never in one piece. */
static enum ps_status update_once(void *context, uint64_t number, struct ps_error *error)
{
    static const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_SGD, .learning_rate = {.rate = PS_BENCH_LEARNING_RATE}};
    struct ps_bench_alone *alone = context;
    size_t count = alone->size / sizeof(float);
    size_t block = PS_BLOCK_BYTES / sizeof(float);
    struct ps_gradient_scan scan = {0};
    if (ps_optimizer_scans(&settings, PS_F32))
        ps_optimizer_scan(&settings, PS_F32, alone->gradient, count, &scan);
    struct ps_optimizer_step step;
    PS_TRY(ps_optimizer_prepare(&settings, PS_F32, number, 0, &scan, &step, error));
    for (size_t first = 0; first < count; first += block) {
        size_t part = count - first < block ? count - first : block;
        void *const states[PS_STATES_MAX] = {NULL, NULL};
        ps_optimizer_apply(&step, first, part, alone->values + first, states,
                           alone->gradient + first);
    }
    return PS_OK;
}
