/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that runs on a GPU, as plain C calls: each puts one or a few kernels into a stream.
 *
 * Two libraries offer these calls: the CUDA one (optimizer/cuda/) and the emulator, which runs
 * the same kernels on the CPU (optimizer/emulator/). A program holds one of the two.
 *
 * A push is worked on in this order, all in one stream, with nothing read back in between:
 *
 *   1. ps_cuda_launch_open      the verdict says: nothing is wrong, the scale is 1
 *   2. ps_cuda_launch_scan      piece by piece as the gradient arrives; where ps_optimizer_scans
 *      ps_cuda_launch_overflows for ADD with overflow == FAIL, once per run
 *   3. ps_cuda_launch_judge     the sum's end, skip or not, the factor of clip_norm
 *   4. ps_cuda_launch_apply     once per contiguous run; or ps_cuda_launch_table for many runs
 *
 * A step is prepared on the host (ps_optimizer_prepare) from an empty scan; a kernel that is given
 * a verdict changes nothing where the verdict says so, and takes its scale from there.
 *
 * Results have the bits that ps_optimizer_apply gives, whatever the grid.
 *
 * "On the device" means memory that the kernels reach; for the emulator that is any memory. Values,
 * states and gradient elements are aligned to PS_CUDA_ALIGNMENT bytes; counts are exact, nothing
 * is read or written past them. A count of 0 launches nothing.
 *
 * Threads:  any; the calls of one stream come from one thread at a time.
 * Blocking: never; the work runs in the stream.
 * Errors:   0, or the cudaError_t of the launch. What goes wrong while a kernel runs is reported by
 *           the stream's next call, as always with CUDA.
 * Memory:   argument structs and what they point to on the host are read during the call; what they
 *           point to on the device is borrowed until the stream has passed the call.
 */
#ifndef PS_OPTIMIZER_CUDA_LAUNCH_H
#define PS_OPTIMIZER_CUDA_LAUNCH_H

#include "base/bounds.h"
#include "base/encoding.h"
#include "optimizer/optimizer.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PS_CUDA_ALIGNMENT 16

/* Elements of one chunk of a table launch; a run in a table is cut at multiples of it. */
#define PS_CUDA_CHUNK 16384

/* The gradient of one run, on the device. */
struct ps_cuda_gradient {
    enum ps_encoding encoding; /* whole numbers: NATIVE */
    bool named_only;           /* the launch sets it: ps_encoding_touches_named_only */
    const void *elements;      /* of the run's first element on; TOP_K: the push's float32 values */
    const float *scales;       /* INT8: of the run's first element on; run.first % 256 is 0 */
    const uint32_t *indices;   /* TOP_K: of the push, strictly rising */
    uint64_t kept;             /* TOP_K: how many */
};

/* One contiguous run of a parameter's elements, on the device. */
struct ps_cuda_run {
    uint64_t first; /* index of values[0] within the parameter and the push; a multiple of 4 */
    uint64_t count;
    void *values;
    void *states[PS_STATES_MAX]; /* as many as ps_rule_states says */
    struct ps_cuda_gradient gradient;
};

/* What became of a push. It lives on the device; copy it back when the push is done. */
struct ps_cuda_verdict {
    uint64_t nonfinite_index; /* the first element that is NaN or infinite, or UINT64_MAX */
    uint64_t overflow_index;  /* the first element that would overflow, or UINT64_MAX */
    double square_sum;        /* of the gradient after clip_value; 0 where there is no clip_norm */
    double scale;             /* what clip_norm multiplies the gradient by */
    uint32_t skip;            /* 1: nothing is applied */
    uint32_t norm_overflows;  /* 1: that is why, or would be if it were not allowed */
};

/* Sets a verdict to "nothing is wrong, scale 1". */
int ps_cuda_launch_open(struct ps_cuda_verdict *verdict, void *stream);

/* Looks at elements [first, first + count) of a push; run.values and run.states are not used.
 * A piece begins at a multiple of PS_SUM_ELEMENTS and ends at one, or at the push's end. */
struct ps_cuda_scan {
    const struct ps_optimizer_settings *settings; /* on the host */
    enum ps_dtype dtype;                          /* of the parameter: a float */
    struct ps_cuda_run run;
    double *sums; /* on the device: ps_cuda_sums(elements of the push) of them, for the whole push;
                   * may be NULL where there is no clip_norm */
    struct ps_cuda_verdict *verdict;
    uint32_t grid; /* most blocks; 0: as many as suit the device */
};
int ps_cuda_launch_scan(const struct ps_cuda_scan *scan, void *stream);

/* How many doubles the sums of a push of `count` elements take: one per group of
 * PS_SUM_ELEMENTS, and for the judge one more per PS_SUM_ELEMENTS groups. */
uint64_t ps_cuda_sums(uint64_t count);

/* Finishes the sums of a push of `count` elements and decides, as ps_optimizer_prepare does. A push
 * that has to be refused is skipped, too: the verdict says why. */
struct ps_cuda_judge {
    const struct ps_optimizer_settings *settings; /* on the host */
    uint64_t count;
    double *sums; /* as in the scans */
    struct ps_cuda_verdict *verdict;
};
int ps_cuda_launch_judge(const struct ps_cuda_judge *judge, void *stream);

/* The arithmetic of one run. */
struct ps_cuda_apply {
    const struct ps_optimizer_step *step; /* on the host, with its settings */
    struct ps_cuda_run run;
    const struct ps_cuda_verdict *verdict; /* may be NULL */
    uint32_t grid;                         /* as in a scan */
};
int ps_cuda_launch_apply(const struct ps_cuda_apply *apply, void *stream);

/* Would ADD overflow in this run? Then the verdict's overflow_index becomes the lowest such element
 * of the push, and every kernel with this verdict changes nothing. */
int ps_cuda_launch_overflows(const struct ps_cuda_apply *apply, struct ps_cuda_verdict *verdict,
                             void *stream);

/* One run of a table. The host fills entries and chunks with the two functions below, and copies
 * both to the device. All entries of a table have one rule and one type. */
struct ps_cuda_entry {
    struct ps_cuda_run run;
    const struct ps_cuda_verdict *verdict; /* may be NULL */
    union {
        struct ps_step_f32 f32;
        struct ps_step_f64 f64;
        struct ps_step_whole whole;
    } step;
};

/* Which PS_CUDA_CHUNK elements of which entry: what one block does at a time. */
struct ps_cuda_chunk {
    uint32_t entry;
    uint32_t chunk;
};

/* `step` is prepared; the verdict may be NULL. */
void ps_cuda_entry_fill(const struct ps_optimizer_step *step, const struct ps_cuda_run *run,
                        const struct ps_cuda_verdict *verdict, struct ps_cuda_entry *entry);

/* Lists the chunks of entry number `index`, and returns how many there are. `chunks` may be NULL to
 * learn the number alone. */
uint64_t ps_cuda_chunks_fill(uint32_t index, uint64_t count, struct ps_cuda_chunk *chunks);

/* The arithmetic of many runs, of parameters with different steps, in one launch. */
struct ps_cuda_table {
    enum ps_rule rule;
    enum ps_dtype dtype;
    enum ps_overflow overflow;           /* of ADD: WRAP, or anything else */
    const struct ps_cuda_entry *entries; /* on the device */
    const struct ps_cuda_chunk *chunks;  /* on the device */
    uint64_t chunk_count;
    uint32_t grid; /* as in a scan */
};
int ps_cuda_launch_table(const struct ps_cuda_table *table, void *stream);

/* Fills `count` elements with a start value, rounded to the type. */
struct ps_cuda_fill {
    enum ps_dtype dtype;
    double value;
    void *array;
    uint64_t count;
    uint32_t grid;
};
int ps_cuda_launch_fill(const struct ps_cuda_fill *fill, void *stream);

/* Steps rows of a table, all different, each with its gradient. A row beyond row_count is left out.
 * Float types and their rules; every gradient is of the native type. The bits are those of
 * ps_optimizer_apply to each row by itself. */
struct ps_cuda_rows {
    const struct ps_optimizer_step *step; /* on the host */
    const uint64_t *numbers;              /* of the rows, in any order; on the device */
    uint64_t count;
    uint64_t row_count;
    uint64_t width;       /* elements of a row; below 2^32 */
    uint64_t stride;      /* from one row's values (or states) to the next one's, in elements */
    const void *gradient; /* count * width elements, in the order of the numbers */
    void *values;
    void *states[PS_STATES_MAX];
    const struct ps_cuda_verdict *verdict; /* may be NULL */
    uint32_t grid;                         /* as in a scan */
};
int ps_cuda_launch_rows(const struct ps_cuda_rows *rows, void *stream);

/* The same for Adagrad with one accumulator for a row (settings.adagrad_row_wise): states[0] has
 * one element a row, `stride` apart as the values. The bits are those of ps_optimizer_row_wise. */
int ps_cuda_launch_row_wise(const struct ps_cuda_rows *rows, void *stream);

/* Copies pieces of bodies that lie `stride` bytes apart into a run, one behind the other in the
 * order of `numbers`, or back. */
struct ps_cuda_bodies {
    const uint64_t *numbers; /* on the device; all different where bodies are written */
    uint64_t count;
    void *bodies;
    uint64_t stride; /* a multiple of PS_CUDA_ALIGNMENT */
    uint64_t offset; /* of the piece in its body; this and `size` are multiples of 4 */
    uint64_t size;   /* of a piece; below 2^32 - 256 */
    void *run;
    bool to_run;   /* or back */
    uint32_t grid; /* as in a scan */
};
int ps_cuda_launch_bodies(const struct ps_cuda_bodies *bodies, void *stream);

#ifdef __cplusplus
}
#endif

#endif
