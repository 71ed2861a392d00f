/* SPDX-License-Identifier: Apache-2.0 */
/* What is found out about a push before anything changes: non-finite elements, the sum of squares
 * in its fixed shape (README.md, "The bit contract", 7), sums that would overflow; and the verdict.
 *
 * A group of PS_SUM_ELEMENTS is looked at by a team of threads, each of which has the lanes of one
 * pack: with 16-byte loads, four float32 lanes or two float64 ones. Lanes are folded in shared
 * memory, in the order of the CPU's. */
#include "optimizer/add.rule.h"
#include "optimizer/cuda/gradient.cuh"
#include "optimizer/judge.rule.h"

/* Threads of a team, teams of a block, packs of a group. */
#define TEAM(T) ((unsigned)(PS_SUM_LANES / PACK(T)))
#define TEAMS(T) (PS_THREADS / TEAM(T))
#define GROUP(T) (PS_SUM_ELEMENTS / PACK(T))

/* What a scan needs to know of the settings. */
struct looking {
    double clip; /* infinity: none */
    bool sums;
    bool judges;
};

/* Adds lane j + 128 to lane j, then j + 64, and so on: ps_sum_fold by `threads` threads. When it
 * returns, all but lane 0 may be written again. */
PS_DEVICE void fold(double *lanes, unsigned thread, unsigned threads)
{
    for (unsigned half = PS_SUM_LANES / 2; half > 0; half /= 2) {
        if (PS_MUTATED(PS_KERNELS_NO_BARRIER, false, true))
            __syncthreads();
        for (unsigned j = thread; j < half; j += threads)
            lanes[j] += lanes[j + half];
    }
    __syncthreads();
}

/* Pulls the lowest index down; whole numbers, so the order cannot be seen in the result. */
PS_DEVICE void lower(uint64_t *index, uint64_t found)
{
    atomicMin((unsigned long long *)index, (unsigned long long)found);
}

/* One thread's lanes of one group. */
#define LANES(suffix, T, f)                                                                    \
    struct lanes_##suffix {                                                                    \
        double lane[PACK(T)];                                                                  \
        uint64_t strange; /* the first element that is not finite, within the run */           \
    };                                                                                         \
    PS_DEVICE void look_##suffix(struct lanes_##suffix *lanes, unsigned k, T clip, T pushed,   \
                                 uint64_t index)                                               \
    {                                                                                          \
        double held = (double)ps_hold_##suffix(clip, pushed);                                  \
        lanes->lane[k] += held * held;                                                         \
        if (pushed - pushed != (T)0 && index < lanes->strange)                                 \
            lanes->strange = index;                                                            \
    }                                                                                          \
    PS_DEVICE void look_pack_##suffix(struct lanes_##suffix *lanes, T clip, uint64_t pack,     \
                                      const struct pack_##suffix &gradient)                    \
    {                                                                                          \
        PS_UNROLL                                                                              \
        for (unsigned k = 0; k < PACK(T); k++)                                                 \
            look_##suffix(lanes, k, clip, gradient.element[k], pack *PACK(T) + k);             \
    }                                                                                          \
    /* Packs that lie in the run as a whole: group after group of them, or the last few. */    \
    PS_DEVICE void look_native_##suffix(const struct ps_cuda_run *run, uint64_t pack, T clip,  \
                                        struct lanes_##suffix *lanes)                          \
    {                                                                                          \
        _Pragma("unroll 4") for (unsigned j = 0; j < GROUP(T) / TEAM(T); j++)                  \
            look_pack_##suffix(lanes, clip, pack + j * TEAM(T),                                \
                               load_##suffix(run->gradient.elements, pack + j * TEAM(T)));     \
    }                                                                                          \
    PS_DEVICE void look_encoded_##suffix(const struct ps_cuda_run *run, uint64_t pack, T clip, \
                                         struct lanes_##suffix *lanes)                         \
    {                                                                                          \
        struct pack_##suffix gradient[AT_ONCE_MAX];                                            \
        for (unsigned j = 0; j < GROUP(T) / TEAM(T); j += AT_ONCE_MAX) {                       \
            gradient_packs_##suffix(run, pack + j * TEAM(T), TEAM(T), AT_ONCE_MAX, gradient);  \
            PS_UNROLL                                                                          \
            for (unsigned i = 0; i < AT_ONCE_MAX; i++)                                         \
                look_pack_##suffix(lanes, clip, pack + (j + i) * TEAM(T), gradient[i]);        \
        }                                                                                      \
    }                                                                                          \
    PS_DEVICE void look_careful_##suffix(const struct ps_cuda_run *run, uint64_t pack, T clip, \
                                         struct lanes_##suffix *lanes)                         \
    {                                                                                          \
        struct pack_##suffix gradient;                                                         \
        for (unsigned j = 0; j < GROUP(T) / TEAM(T); j++) {                                    \
            uint64_t i = (pack + j * TEAM(T)) * PACK(T);                                       \
            if (i + PACK(T) <= run->count) {                                                   \
                gradient_packs_##suffix(run, i / PACK(T), 0, 1, &gradient);                    \
                look_pack_##suffix(lanes, clip, i / PACK(T), gradient);                        \
            } else {                                                                           \
                for (unsigned k = 0; k < PACK(T) && i + k < run->count; k++)                   \
                    look_##suffix(lanes, k, clip, gradient_one_##suffix(run, i + k), i + k);   \
            }                                                                                  \
        }                                                                                      \
    }
PS_FLOAT_TABLE(LANES)
#undef LANES

/* One team's part of group number `group` of the run. */
#define LOOK(suffix, T, f)                                                                       \
    PS_DEVICE struct lanes_##suffix look_group_##suffix(const struct ps_cuda_run *run,           \
                                                        uint64_t group, unsigned thread, T clip) \
    {                                                                                            \
        struct lanes_##suffix lanes = {{0}, UINT64_MAX};                                         \
        bool whole = (group + 1) * PS_SUM_ELEMENTS <= run->count;                                \
        if (whole && run->gradient.encoding == PS_ENCODING_NATIVE)                               \
            look_native_##suffix(run, group *GROUP(T) + thread, clip, &lanes);                   \
        else if (whole)                                                                          \
            look_encoded_##suffix(run, group *GROUP(T) + thread, clip, &lanes);                  \
        else                                                                                     \
            look_careful_##suffix(run, group *GROUP(T) + thread, clip, &lanes);                  \
        return lanes;                                                                            \
    }                                                                                            \
    PS_KERNEL scan_##suffix(const struct ps_cuda_run run, const struct looking looking,          \
                            double *sums, struct ps_cuda_verdict *verdict)                       \
    {                                                                                            \
        PS_SHARED double folded[PS_SUM_LANES * TEAMS(T)];                                        \
        const unsigned team = threadIdx.x / TEAM(T);                                             \
        const unsigned thread = threadIdx.x % TEAM(T);                                           \
        const uint64_t groups = (run.count + PS_SUM_ELEMENTS - 1) / PS_SUM_ELEMENTS;             \
        double *mine = &folded[team * PS_SUM_LANES];                                             \
        for (uint64_t base = (uint64_t)blockIdx.x * TEAMS(T); base < groups;                     \
             base += (uint64_t)gridDim.x * TEAMS(T)) {                                           \
            const struct lanes_##suffix lanes =                                                  \
                look_group_##suffix(&run, base + team, thread, (T)looking.clip);                 \
            if (looking.judges && lanes.strange != UINT64_MAX)                                   \
                lower(&verdict->nonfinite_index, run.first + lanes.strange);                     \
            if (!looking.sums)                                                                   \
                continue;                                                                        \
            for (unsigned k = 0; k < PACK(T); k++)                                               \
                mine[thread * PACK(T) + k] = lanes.lane[k];                                      \
            fold(mine, thread, TEAM(T));                                                         \
            if (thread == 0 && base + team < groups)                                             \
                sums[run.first / PS_SUM_ELEMENTS + base + team] = mine[0];                       \
        }                                                                                        \
    }
PS_FLOAT_TABLE(LOOK)
#undef LOOK

/* The sums of groups, one level up: block b folds groups [4096 b, 4096 (b + 1)). */
PS_KERNEL fold_groups(const double *sums, uint64_t groups, double *folded)
{
    PS_SHARED double lanes[PS_SUM_LANES];
    const uint64_t first = (uint64_t)blockIdx.x * PS_SUM_ELEMENTS;
    const uint64_t end = groups < first + PS_SUM_ELEMENTS ? groups : first + PS_SUM_ELEMENTS;
    double sum = 0;
    for (uint64_t i = first + threadIdx.x; i < end; i += PS_SUM_LANES)
        sum += sums[i];
    lanes[threadIdx.x] = sum;
    fold(lanes, threadIdx.x, PS_THREADS);
    if (threadIdx.x == 0)
        folded[blockIdx.x] = lanes[0];
}

/* One thread decides; `folded` has `count` sums, none where there is no clip_norm. */
PS_KERNEL judge(const double *folded, uint64_t count, double clip_norm, uint32_t nonfinite,
                struct ps_cuda_verdict *verdict)
{
    if (blockIdx.x != 0 || threadIdx.x != 0)
        return;
    double total = 0;
    for (uint64_t i = 0; i < count; i++)
        total += folded[i];
    bool overflows = ps_norm_overflows(clip_norm, total);
    bool wrong = overflows || verdict->nonfinite_index != UINT64_MAX;
    verdict->square_sum = total;
    verdict->scale = ps_norm_scale(clip_norm, total);
    verdict->norm_overflows = overflows;
    verdict->skip = wrong && nonfinite != PS_NONFINITE_ALLOW;
}

PS_KERNEL open_verdict(struct ps_cuda_verdict *verdict)
{
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *verdict = {UINT64_MAX, UINT64_MAX, 0, 1, 0, 0};
}

#define OVERFLOWS(TAG, suffix, T, SUM, label)                                                   \
    PS_KERNEL overflows_##suffix(const struct ps_cuda_run run, struct ps_cuda_verdict *verdict) \
    {                                                                                           \
        const struct ps_span span = span_of_run(run.count, PACK(T));                            \
        for (uint64_t i = span.pack; i < span.packs; i += span.stride) {                        \
            const struct pack_##suffix value = load_##suffix(run.values, i);                    \
            const struct pack_##suffix gradient = load_##suffix(run.gradient.elements, i);      \
            for (unsigned k = 0; k < PACK(T); k++)                                              \
                if (ps_add_overflows_##suffix(value.element[k], gradient.element[k]))           \
                    lower(&verdict->overflow_index, run.first + i * PACK(T) + k);               \
        }                                                                                       \
        if (span.tail < span.count &&                                                           \
            ps_add_overflows_##suffix(((const T *)run.values)[span.tail],                       \
                                      ((const T *)run.gradient.elements)[span.tail]))           \
            lower(&verdict->overflow_index, run.first + span.tail);                             \
    }
PS_DTYPE_TABLE(OVERFLOWS)
#undef OVERFLOWS

#define FILL(TAG, suffix, T, SUM, label)                               \
    PS_KERNEL fill_##suffix(void *array, T value, uint64_t count)      \
    {                                                                  \
        const struct ps_span span = span_of_run(count, PACK(T));       \
        struct pack_##suffix pack;                                     \
        for (unsigned k = 0; k < PACK(T); k++)                         \
            pack.element[k] = value;                                   \
        for (uint64_t i = span.pack; i < span.packs; i += span.stride) \
            store_##suffix(array, i, pack);                            \
        if (span.tail < span.count)                                    \
            ((T *)array)[span.tail] = value;                           \
    }
PS_DTYPE_TABLE(FILL)
#undef FILL

int ps_cuda_launch_open(struct ps_cuda_verdict *verdict, void *stream)
{
    return PS_LAUNCH(open_verdict, 1, stream, verdict);
}

static uint64_t groups_of(uint64_t count, uint64_t size)
{
    return count / size + (count % size != 0);
}

int ps_cuda_launch_scan(const struct ps_cuda_scan *scan, void *stream)
{
    const struct ps_optimizer_settings *settings = scan->settings;
    const struct looking looking = {
        settings->clip_value > 0 ? settings->clip_value : (double)INFINITY, settings->clip_norm > 0,
        settings->nonfinite != PS_NONFINITE_ALLOW};
    if (scan->run.count == 0 || (!looking.sums && !looking.judges))
        return 0;
    PS_ASSERT(scan->run.first % PS_SUM_ELEMENTS == 0);
    PS_ASSERT(aligned(scan->run.gradient.elements));
    PS_ASSERT(scan->sums != NULL || !looking.sums);
    uint64_t groups = groups_of(scan->run.count, PS_SUM_ELEMENTS);
    switch (scan->dtype) {
#define SCAN(TAG, suffix, T)                                                                  \
    case TAG:                                                                                 \
        return PS_LAUNCH_MANY(scan_##suffix, groups_of(groups, TEAMS(T)), scan->grid, stream, \
                              scan->run, looking, scan->sums, scan->verdict);
        SCAN(PS_F32, f32, float)
        SCAN(PS_F64, f64, double)
#undef SCAN
    default:
        break;
    }
    PS_NO_SUCH("whole numbers are not scanned");
}

int ps_cuda_launch_judge(const struct ps_cuda_judge *it, void *stream)
{
    uint64_t groups = groups_of(it->count, PS_SUM_ELEMENTS);
    uint64_t folds = it->settings->clip_norm > 0 ? groups_of(groups, PS_SUM_ELEMENTS) : 0;
    double *folded = folds > 0 ? it->sums + groups : NULL;
    if (folds > 0) {
        int error = PS_LAUNCH(fold_groups, (unsigned)folds, stream, it->sums, groups, folded);
        if (error != 0)
            return error;
    }
    return PS_LAUNCH(judge, 1, stream, folded, folds, it->settings->clip_norm,
                     (uint32_t)it->settings->nonfinite, it->verdict);
}

int ps_cuda_launch_overflows(const struct ps_cuda_apply *apply, struct ps_cuda_verdict *verdict,
                             void *stream)
{
    const struct ps_cuda_run *run = &apply->run;
    const struct ps_optimizer_settings *settings = apply->step->settings;
    bool asked = settings->rule == PS_RULE_ADD && settings->overflow == PS_OVERFLOW_FAIL;
    if (run->count == 0 || !asked || run->gradient.encoding != PS_ENCODING_NATIVE)
        return 0;
    PS_ASSERT(aligned(run->values) && aligned(run->gradient.elements));
    switch (apply->step->dtype) {
#define BY_TYPE(TAG, suffix, T, SUM, label)                                              \
    case TAG:                                                                            \
        return PS_LAUNCH_MANY(overflows_##suffix, run->count / PACK(T) / PS_THREADS + 1, \
                              apply->grid, stream, *run, verdict);
        PS_DTYPE_TABLE(BY_TYPE)
#undef BY_TYPE
    case PS_DTYPE_COUNT:
        break;
    }
    PS_NO_SUCH("unknown element type");
}

int ps_cuda_launch_fill(const struct ps_cuda_fill *fill, void *stream)
{
    if (fill->count == 0)
        return 0;
    PS_ASSERT(aligned(fill->array));
    switch (fill->dtype) {
#define BY_TYPE(TAG, suffix, T, SUM, label)                                                      \
    case TAG:                                                                                    \
        return PS_LAUNCH_MANY(fill_##suffix, fill->count / PACK(T) / PS_THREADS + 1, fill->grid, \
                              stream, fill->array, (T)fill->value, fill->count);
        PS_DTYPE_TABLE(BY_TYPE)
#undef BY_TYPE
    case PS_DTYPE_COUNT:
        break;
    }
    PS_NO_SUCH("unknown element type");
}
