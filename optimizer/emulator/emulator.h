/* SPDX-License-Identifier: Apache-2.0 */
/* A device that is not there: memory of the host, and streams whose work runs as late as it may and
 * in a random order among all that is legal, so that a wait that was forgotten shows. What runs is
 * the kernels themselves (optimizer/cuda/, compiled for the CPU).
 *
 * Work only ever runs while somebody waits for an event, and then streams take turns by lot.
 * Memory of the device is full of garbage when it is given out. For tests; a server takes it as
 * --device emu, and then hears these variables:
 *
 *   PS_EMULATOR_SEED    which random order; 1 without it
 *   PS_EMULATOR_MEMORY  bytes that the device has; 2 GiB without it
 *   PS_EMULATOR_FAIL    "memory:N" refuses the n-th piece of memory (1 is the first) with error 2;
 *                       "launch:N:CODE" lets the n-th kernel end the device with that error
 *                       "hang:N" lets the n-th kernel never end
 *   PS_EMULATOR_DEVICES how many there are; 1 without it
 *
 * Threads:  any.
 * Blocking: while work runs.
 * Errors:   numbers as CUDA's; one that ends the device is the answer to every call from then on.
 * Memory:   from the allocator that the device is opened with.
 */
#ifndef PS_OPTIMIZER_EMULATOR_EMULATOR_H
#define PS_OPTIMIZER_EMULATOR_EMULATOR_H

#include <stdint.h>

/* What is to go wrong. Counted from the call on; 0: nothing. */
struct ps_emulator_fault {
    uint64_t memory_at; /* which piece of memory from now on is refused: 1 is the next */
    uint64_t launch_at; /* which kernel from now on ends the device */
    int launch_code;
    uint64_t hang_at; /* which kernel from now on never ends */
};

/* What the environment says (PS_EMULATOR_FAIL): "memory:N", "hang:N" or "launch:N[:CODE]", the N-th
 * of its kind. Without it `fault` stays as it is. */
void ps_emulator_fault_read(struct ps_emulator_fault *fault);

/* `self` is the driver's. */
void ps_emulator_arm(void *self, const struct ps_emulator_fault *fault);

/* Pieces of memory asked for so far, refused ones as well. */
uint64_t ps_emulator_memory_count(void *self);

/* Copies asked for so far. */
uint64_t ps_emulator_copy_count(void *self);

/* Bytes of the device that are given out. */
uint64_t ps_emulator_memory_used(void *self);

#endif
