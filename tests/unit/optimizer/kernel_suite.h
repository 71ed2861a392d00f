/* SPDX-License-Identifier: Apache-2.0 */
/* What every machine's kernels are held to: the bits of the CPU, whatever the grid. The emulator
 * and a GPU run the same suite, through a few calls for memory.
 *
 * Threads:  one.
 * Blocking: until the machine has done what it was given.
 * Errors:   counted in the struct expect.
 * Memory:   what a test acquires it releases.
 */
#ifndef PS_TESTS_OPTIMIZER_KERNEL_SUITE_H
#define PS_TESTS_OPTIMIZER_KERNEL_SUITE_H

#include "expect.h"

#include "optimizer/cuda/launch.h"

/* Where kernels run. Memory is aligned for them; `read` waits for all work. */
struct kernel_machine {
    const char *name;
    void *(*acquire)(size_t bytes);
    void (*release)(void *memory);
    void (*write)(void *memory, const void *from, size_t bytes);
    void (*read)(const void *memory, void *to, size_t bytes);
};

/* How much of it. Lists end with UINT64_MAX and UINT32_MAX. */
struct kernel_suite {
    struct expect *expect;
    const struct kernel_machine *machine;
    const uint64_t *counts;
    const uint32_t *grids;
    /* Elements behind each array that have to stay as they are. 0 where a sanitizer looks out for
     * accesses beyond the end. */
    size_t guard;
    bool quick;    /* leave out what takes long */
    bool quiet;    /* only count failures */
    uint64_t seen; /* values compared so far */
};

/* Each looks at one kind of launch. */
void kernels_apply_as_the_cpu_does(struct kernel_suite *suite);
void kernels_decode_as_the_cpu_does(struct kernel_suite *suite);
void kernels_scatter_lists_as_the_cpu_does(struct kernel_suite *suite);
void kernels_apply_a_table_as_the_cpu_does(struct kernel_suite *suite);
void kernels_fill_as_the_cpu_does(struct kernel_suite *suite);
void kernels_scan_and_judge_as_the_cpu_does(struct kernel_suite *suite);
void kernels_sum_more_groups_than_one_fold_takes(struct kernel_suite *suite);
void kernels_find_the_first_overflow(struct kernel_suite *suite);
void kernels_change_nothing_against_the_verdict(struct kernel_suite *suite);
void kernels_update_rows_as_the_cpu_does(struct kernel_suite *suite);
void kernels_move_bodies(struct kernel_suite *suite);
void kernels_step_different_rows_as_the_cpu_does(struct kernel_suite *suite);

/* All of the above, with a line for each that fails. */
void kernel_suite_run(struct kernel_suite *suite);

/* Runs of `count` elements; counts and grids of the suite are not used. Rules with and without
 * states, an encoding, a scan. */
void kernel_suite_run_large(struct kernel_suite *suite, uint64_t count);

/* ---- For the tests themselves ---- */

#define KERNEL_ARRAYS (1 + PS_STATES_MAX)

/* A parameter twice: as the CPU leaves it, and on the machine. */
struct kernel_twin {
    enum ps_dtype dtype;
    uint64_t count;
    void *host[KERNEL_ARRAYS];   /* values, states */
    void *device[KERNEL_ARRAYS]; /* the same, each with the guard behind it */
};

/* Fills both with the same numbers. */
void kernel_twin_open(struct kernel_suite *suite, enum ps_dtype dtype, uint64_t count,
                      uint64_t seed, struct kernel_twin *twin);

/* Reads the machine's arrays and compares; true when all is equal and the guards are whole. */
bool kernel_twin_equal(struct kernel_suite *suite, const struct kernel_twin *twin);

void kernel_twin_close(struct kernel_suite *suite, struct kernel_twin *twin);

/* The machine's side as a run, with its gradient. */
struct ps_cuda_run kernel_twin_run(const struct kernel_twin *twin,
                                   const struct ps_cuda_gradient *gradient);

/* New memory of the machine with a copy of `bytes` bytes, and room for `more`. */
void *kernel_put(struct kernel_suite *suite, const void *from, size_t bytes, size_t more);

/* Counts a failure, and says what failed unless the suite is quiet. */
void kernel_expect(struct kernel_suite *suite, bool right, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A gradient in some encoding, with what the CPU decodes it to. */
struct kernel_gradient {
    void *elements; /* of the parameter's type, on the host */
    uint8_t *named; /* TOP_K: 1 for each element that is named; NULL for the others */
    struct ps_cuda_gradient device;
};
void kernel_gradient_open(struct kernel_suite *suite, enum ps_dtype dtype,
                          enum ps_encoding encoding, uint64_t count, uint64_t seed,
                          struct kernel_gradient *gradient);
void kernel_gradient_close(struct kernel_suite *suite, struct kernel_gradient *gradient);

/* A verdict of the machine that says: nothing is wrong. */
struct ps_cuda_verdict *kernel_verdict_open(struct kernel_suite *suite);

#endif
