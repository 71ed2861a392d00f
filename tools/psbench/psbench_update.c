/* SPDX-License-Identifier: Apache-2.0 */
/* SGD and Adam as fast as memory goes: the loops that the server runs, over blocks as it has them,
 * and beside them the same reads and writes with next to no arithmetic. Optimizers are limited by
 * memory: SGD reads two arrays and writes one, Adam reads four and writes three. The reference has
 * the same reads and writes and an exclusive-or for arithmetic, in as many threads over the same
 * slabs, so a ratio near 1 means that the loop is as fast as memory lets it be. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/slab.h"
#include "base/thread.h"
#include "optimizer/optimizer.h"
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_values.h"

#include <string.h>
#include <unistd.h>

/* More threads than any server has would not be a server's loop. */
#define THREADS_MAX 256
#define SMALL_SIZE ((uint64_t)64 << 20)
#define LARGE_SIZE ((uint64_t)1 << 30)

/* Values, a gradient and two states. */
#define ARRAYS 4

struct update {
    void **slabs[ARRAYS]; /* owned */
    size_t slab_count;    /* of each array */
    uint64_t thread_count;
};

/* What is done to every element. */
enum kind {
    SGD,
    ADAM,
    AS_SGD, /* as SGD reads and writes, without its arithmetic */
    AS_ADAM,
    KIND_COUNT
};

/* One thread's share: the same slabs of each array in every pass. Results are written by its own
 * thread only, and read after the join. */
struct share {
    struct update *update;
    enum kind kind;
    size_t first, count; /* slabs */
    uint64_t until_ns;
    uint64_t passes; /* out */
    uint64_t ended_ns;
    struct ps_thread thread;
    struct ps_error error;
};

static void close_update(struct update *update);
static void run_share(void *argument);
static enum ps_status pass(struct share *share, uint64_t number);
static enum ps_status prepare(const struct share *share, uint64_t number,
                              struct ps_optimizer_step *step, struct ps_error *error);
static void apply_to_slab(const struct share *share, const struct ps_optimizer_step *step,
                          size_t slab);
static void stream_slab(const struct share *share, size_t slab);

/* Slabs are allocated, and touched, as a server's block pool has them. All four arrays are taken
 * for both rules, so that SGD and Adam run in the same memory. Memory of four times the size is
 * needed; a machine without it gets a message and no figures. */
static enum ps_status open_update(struct update *update, uint64_t size, uint64_t thread_count,
                                  struct ps_error *error)
{
    *update = (struct update){.slab_count = (size_t)((size + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES),
                              .thread_count = thread_count};
    if (update->thread_count > THREADS_MAX)
        update->thread_count = THREADS_MAX;
    if (update->thread_count > update->slab_count)
        update->thread_count = update->slab_count;
    for (size_t array = 0; array < ARRAYS; array++) {
        update->slabs[array] =
            ps_zeroed_array(ps_allocator_heap(), update->slab_count, sizeof(void *));
        for (size_t i = 0; update->slabs[array] != NULL && i < update->slab_count; i++) {
            update->slabs[array][i] = ps_slab_take();
            if (update->slabs[array][i] == NULL)
                break;
            /* Values and gradient hold numbers; states begin at zero, as Adam's do. */
            if (array < 2)
                ps_bench_fill_gradient(update->slabs[array][i], PS_SLAB_BYTES / sizeof(float));
            else
                memset(update->slabs[array][i], 0, PS_SLAB_BYTES); /* there before it is timed */
        }
        if (update->slabs[array] == NULL || update->slabs[array][update->slab_count - 1] == NULL) {
            close_update(update);
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %d times %llu bytes", ARRAYS,
                           (unsigned long long)size);
        }
    }
    return PS_OK;
}

/* The lists may be half full after a failure. */
static void close_update(struct update *update)
{
    for (size_t array = 0; array < ARRAYS; array++) {
        void **slabs = update->slabs[array];
        for (size_t i = 0; slabs != NULL && i < update->slab_count && slabs[i] != NULL; i++)
            ps_slab_give(slabs[i]);
        ps_release(ps_allocator_heap(), slabs);
    }
    *update = (struct update){0};
}

/* Each thread goes over its own share as often as it can and stops after a whole pass; the rate is
 * the sum of what each reached by its own end, so a thread that was late does not count for more
 * than it did. Threads are started anew for each measurement, since a pool would need waking, and
 * that is not what is asked. */
static enum ps_status run_update(struct update *update, enum kind kind, uint64_t time_ms,
                                 struct ps_bench_figures *figures, struct ps_error *error)
{
    struct share *shares =
        ps_zeroed_array(ps_allocator_heap(), (size_t)update->thread_count, sizeof *shares);
    if (shares == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for threads");
    uint64_t started_ns = ps_clock_precise_ns();
    enum ps_status status = PS_OK;
    uint64_t started = 0;
    for (; started < update->thread_count && status == PS_OK; started++) {
        size_t first = update->slab_count * started / update->thread_count;
        size_t after = update->slab_count * (started + 1) / update->thread_count;
        shares[started] = (struct share){.update = update,
                                         .kind = kind,
                                         .first = first,
                                         .count = after - first,
                                         .until_ns = started_ns + time_ms * 1000000};
        status =
            ps_thread_start(&shares[started].thread, "update", run_share, &shares[started], error);
    }
    /* Passes over the whole array: each thread's count is weighted by its share of the slabs. */
    double passes_per_second = 0;
    for (uint64_t i = 0; i < started; i++) {
        ps_thread_join(&shares[i].thread);
        if (status == PS_OK && shares[i].error.status != PS_OK)
            status = ps_fail(error, shares[i].error.status, "%s", shares[i].error.text);
        if (shares[i].ended_ns > started_ns)
            passes_per_second += (double)shares[i].passes * (double)shares[i].count /
                                 (double)update->slab_count /
                                 ((double)(shares[i].ended_ns - started_ns) / 1e9);
    }
    *figures = (struct ps_bench_figures){.per_second = passes_per_second};
    ps_release(ps_allocator_heap(), shares);
    return status;
}

/* Bytes for each byte of a parameter, read and written together. SGD reads values and gradient and
 * writes values: 3. Adam reads and writes two states more: 7. */
static uint64_t traffic_of(enum kind kind)
{
    bool adam = kind == ADAM || kind == AS_ADAM;
    return adam ? 7 : 3;
}

/* Two passes at least: the first finds cold caches. The end is noted after each pass, so the time
 * of a pass that was begun too late still counts for it. */
static void run_share(void *argument)
{
    struct share *share = argument;
    ps_optimizer_enter_thread();
    do {
        share->passes++;
        if (pass(share, share->passes) != PS_OK)
            break;
        share->ended_ns = ps_clock_precise_ns();
    } while (share->ended_ns < share->until_ns || share->passes < 2);
}

/* The step number grows, since Adam's correction depends on it. A rule and its reference differ
 * only inside the loop over slabs: threads, order and memory are the same. */
static enum ps_status pass(struct share *share, uint64_t number)
{
    struct ps_optimizer_step step;
    bool updates = share->kind == SGD || share->kind == ADAM;
    if (updates)
        PS_TRY(prepare(share, number, &step, &share->error));
    for (size_t i = share->first; i < share->first + share->count; i++) {
        if (updates)
            apply_to_slab(share, &step, i);
        else
            stream_slab(share, i);
    }
    return PS_OK;
}

/* Rates so small that values stay finite through any number of passes. The scan is not measured
 * here: it is about the gradient, and only some settings need it. */
static enum ps_status prepare(const struct share *share, uint64_t number,
                              struct ps_optimizer_step *step, struct ps_error *error)
{
    static const struct ps_optimizer_settings settings[] = {
        [SGD] = {.rule = PS_RULE_SGD, .learning_rate = {.rate = 1e-6}},
        [ADAM] = {.rule = PS_RULE_ADAM,
                  .learning_rate = {.rate = 1e-6},
                  .beta_1 = 0.9,
                  .beta_2 = 0.999,
                  .epsilon = 1e-8},
    };
    const struct ps_gradient_scan scan = {0};
    return ps_optimizer_prepare(&settings[share->kind], PS_F32, number, 0, &scan, step, error);
}

/* Block by block, as the server does. Values, states and gradient of one element are at the same
 * place of their slabs, as in a server's blocks. */
static void apply_to_slab(const struct share *share, const struct ps_optimizer_step *step,
                          size_t slab)
{
    void **const *slabs = share->update->slabs;
    size_t block = PS_BLOCK_BYTES / sizeof(float);
    for (size_t first = 0; first < PS_SLAB_BYTES / sizeof(float); first += block) {
        void *const states[PS_STATES_MAX] = {(float *)slabs[2][slab] + first,
                                             (float *)slabs[3][slab] + first};
        ps_optimizer_apply(step, first, block, (float *)slabs[0][slab] + first, states,
                           (const float *)slabs[1][slab] + first);
    }
}

/* The gradient is read once; values, and for Adam both states, are read and written. restrict and
 * whole numbers let the compiler use vectors, which is the point: this must be memory's speed. The
 * file is compiled with -O3 for that, also in a debug build. Eight bytes at a time, which is two
 * elements: the loop is about bytes. */
static void stream_slab(const struct share *share, size_t slab)
{
    void **const *slabs = share->update->slabs;
    uint64_t *restrict values = slabs[0][slab];
    const uint64_t *restrict gradient = slabs[1][slab];
    size_t count = PS_SLAB_BYTES / sizeof(uint64_t);
    if (share->kind == AS_SGD) {
        for (size_t i = 0; i < count; i++)
            values[i] ^= gradient[i];
        return;
    }
    uint64_t *restrict first = slabs[2][slab];
    uint64_t *restrict second = slabs[3][slab];
    for (size_t i = 0; i < count; i++) {
        uint64_t one = gradient[i];
        values[i] ^= one;
        first[i] ^= one;
        second[i] ^= one;
    }
}

/* ---- The benchmark ---- */

/* Rule and reference take turns within a repeat and share its time. The bytes of the row are what
 * the loop moves, so its gigabytes a second are traffic, to be held against the machine's. */
static enum ps_status measure_rule(struct ps_bench *bench, struct update *update, uint64_t size,
                                   enum kind kind, struct ps_error *error)
{
    static const char *const names[KIND_COUNT] = {"update_sgd", "update_adam", "memory_as_sgd",
                                                  "memory_as_adam"};
    struct ps_bench_figures figures[2];
    enum kind kinds[2] = {kind, kind == SGD ? AS_SGD : AS_ADAM};
    uint64_t traffic = size * traffic_of(kind);
    ps_bench_progress(bench, names[kind]);
    for (int i = 0; i < 2; i++)
        PS_TRY(run_update(update, kinds[i], bench->options->time_ms / 2 + 1, &figures[i], error));
    struct ps_bench_row *row =
        ps_bench_report_row(&bench->report, names[kind], traffic, update->thread_count);
    ps_bench_row_add(row, &figures[0]);
    ps_bench_row_detail(row, "parameter_mib", (double)(size >> 20));
    ps_bench_report_beside(&bench->report, row, names[kinds[1]], "memory", update->thread_count,
                           &figures[1]);
    return PS_OK;
}

/* Sizes are rounded up to slabs, and the row says the size that was really used. As many threads as
 * processors: one core alone does not use all of a memory's bandwidth. */
static enum ps_status measure_size(struct ps_bench *bench, uint64_t size, struct ps_error *error)
{
    struct update update;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size = (size + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES * PS_SLAB_BYTES;
    PS_TRY(open_update(&update, size, cores > 0 ? (uint64_t)cores : 1, error));
    enum ps_status status = PS_OK;
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++) {
        status = measure_rule(bench, &update, size, SGD, error);
        if (status == PS_OK)
            status = measure_rule(bench, &update, size, ADAM, error);
    }
    close_update(&update);
    return status;
}

/* Two sizes without --size: one that fits the caches of a large machine in part, and one that fits
 * none. */
enum ps_status ps_bench_update(struct ps_bench *bench, struct ps_error *error)
{
    const uint64_t sizes[] = {SMALL_SIZE, LARGE_SIZE};
    uint64_t asked = bench->options->size;
    bench->steps = bench->options->repeat * (asked != 0 ? 2 : 4);
    if (asked != 0)
        return measure_size(bench, asked, error);
    for (size_t i = 0; i < PS_ARRAY_COUNT(sizes); i++)
        PS_TRY(measure_size(bench, sizes[i], error));
    return PS_OK;
}
