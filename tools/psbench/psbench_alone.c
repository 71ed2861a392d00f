/* memcpy and the optimizer's loop, timed. */
#include "tools/psbench/psbench_alone.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "optimizer/optimizer.h"
#include "tools/psbench/psbench_values.h"

#include <string.h>

static enum ps_status update_once(struct ps_bench_alone *alone, uint64_t step_number,
                                  struct ps_error *error);

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

void ps_bench_alone_close(struct ps_bench_alone *alone)
{
    ps_release(ps_allocator_heap(), alone->values);
    ps_release(ps_allocator_heap(), alone->gradient);
    *alone = (struct ps_bench_alone){0};
}

struct ps_bench_figures ps_bench_alone_copy(struct ps_bench_alone *alone, uint64_t time_ms)
{
    uint64_t started_ns = ps_clock_precise_ns();
    uint64_t until_ns = started_ns + time_ms * 1000000;
    uint64_t now_ns = started_ns;
    uint64_t count = 0;
    while (now_ns < until_ns || count < PS_BENCH_SIDE_COUNT_MIN) {
        memcpy(alone->values, alone->gradient, alone->size);
        count++;
        now_ns = ps_clock_precise_ns();
    }
    return ps_bench_figures_of(count, now_ns - started_ns, NULL);
}

enum ps_status ps_bench_alone_copy_far(const struct ps_bench_alone *alone, uint64_t time_ms,
                                       struct ps_bench_figures *figures, struct ps_error *error)
{
    size_t size = alone->size < PS_BENCH_FAR_BYTES ? alone->size : PS_BENCH_FAR_BYTES;
    uint8_t *area = ps_plain(ps_allocator_heap(), 2 * PS_BENCH_FAR_BYTES);
    if (area == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to copy through");
    memset(area, 1, 2 * PS_BENCH_FAR_BYTES);
    uint64_t started_ns = ps_clock_precise_ns();
    uint64_t until_ns = started_ns + time_ms * 1000000;
    uint64_t now_ns = started_ns;
    uint64_t count = 0;
    size_t offset = 0;
    while (now_ns < until_ns || count < PS_BENCH_SIDE_COUNT_MIN) {
        memcpy(area + offset, area + PS_BENCH_FAR_BYTES + offset, size);
        offset += size;
        if (offset + size > PS_BENCH_FAR_BYTES)
            offset = 0;
        count++;
        now_ns = ps_clock_precise_ns();
    }
    ps_release(ps_allocator_heap(), area);
    *figures = ps_bench_figures_of(count, now_ns - started_ns, NULL);
    figures->per_second *= (double)size / (double)alone->size;
    return PS_OK;
}

enum ps_status ps_bench_alone_update(struct ps_bench_alone *alone, uint64_t time_ms,
                                     struct ps_bench_figures *figures, struct ps_error *error)
{
    ps_optimizer_enter_thread();
    uint64_t started_ns = ps_clock_precise_ns();
    uint64_t until_ns = started_ns + time_ms * 1000000;
    uint64_t now_ns = started_ns;
    uint64_t count = 0;
    while (now_ns < until_ns || count < PS_BENCH_SIDE_COUNT_MIN) {
        count++;
        PS_TRY(update_once(alone, count, error));
        now_ns = ps_clock_precise_ns();
    }
    *figures = ps_bench_figures_of(count, now_ns - started_ns, NULL);
    return PS_OK;
}

static enum ps_status update_once(struct ps_bench_alone *alone, uint64_t step_number,
                                  struct ps_error *error)
{
    static const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_SGD, .learning_rate = {.rate = PS_BENCH_LEARNING_RATE}};
    size_t count = alone->size / sizeof(float);
    size_t block = PS_BLOCK_BYTES / sizeof(float);
    struct ps_gradient_scan scan = {0};
    if (ps_optimizer_scans(&settings, PS_F32))
        ps_optimizer_scan(&settings, PS_F32, alone->gradient, count, &scan);
    struct ps_optimizer_step step;
    PS_TRY(ps_optimizer_prepare(&settings, PS_F32, step_number, 0, &scan, &step, error));
    for (size_t first = 0; first < count; first += block) {
        size_t part = count - first < block ? count - first : block;
        void *const states[PS_STATES_MAX] = {NULL, NULL};
        ps_optimizer_apply(&step, first, part, alone->values + first, states,
                           alone->gradient + first);
    }
    return PS_OK;
}
