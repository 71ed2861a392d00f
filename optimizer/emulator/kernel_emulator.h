/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the project's kernels on the CPU: the same source as on a GPU, one CUDA thread after the
 * other, under whatever sanitizer the program is built with. For tests; nothing here is fast.
 *
 * The library has all calls of optimizer/cuda/launch.h; each returns when its kernels are done,
 * whatever the stream. Blocks run one after the other. The threads of a block run in turn, each
 * until it is done or waits for the others, in an order that depends on the seed.
 *
 * Threads:  any; kernels run one at a time.
 * Blocking: a launch returns when its kernel is done.
 * Errors:   a barrier that some threads of a block never reach stops the process, with a message.
 * Memory:   stacks for the threads of one block are kept for the life of the process.
 */
#ifndef PS_OPTIMIZER_KERNEL_EMULATOR_H
#define PS_OPTIMIZER_KERNEL_EMULATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In which order the threads of a block start and go on after a barrier: 0 is by number, every
 * other seed a shuffle of its own. */
void ps_kernels_shuffle(uint32_t seed);

/* Which of the errors put in on purpose is switched on; 0: none. In the library that is built with
 * them, for the tests of the tests. */
enum ps_kernels_error {
    PS_KERNELS_NO_ERROR,
    PS_KERNELS_TAIL_LONG,    /* one element too many at the end */
    PS_KERNELS_TAIL_SHORT,   /* one too few */
    PS_KERNELS_LAST_SKIPPED, /* the last whole pack is left out */
    PS_KERNELS_WRONG_STRIDE, /* one too many from pack to pack */
    PS_KERNELS_NO_BARRIER,   /* lanes are folded without waiting */
    PS_KERNELS_ENTRY_EARLY,  /* a table's entry is used before all of it was fetched */
    PS_KERNELS_ENTRY_LATE,   /* ... or fetched while somebody uses the one before */
    PS_KERNELS_CHUNK_EARLY,  /* a chunk's gradient is used before its list was scattered */
    PS_KERNELS_CHUNK_LATE,   /* ... or cleared while somebody uses it */
    PS_KERNELS_NO_VERDICT,   /* an update goes ahead whatever the verdict */
    PS_KERNELS_ERROR_COUNT
};
void ps_kernels_mutate(int number);
int ps_kernels_mutation(void);

#ifdef __cplusplus
}
#endif

#endif
