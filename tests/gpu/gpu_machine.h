/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that the kernel suite runs on: a GPU (cuda_machine.c), or the emulator in its place,
 * so that the programs of this folder can be run where there is no GPU (emulated_machine.c).
 *
 * Threads:  one.
 * Blocking: read waits for the device.
 * Errors:   a call of CUDA that fails ends the program with a line.
 * Memory:   acquire gives NULL when there is none left.
 */
#ifndef PS_TESTS_GPU_MACHINE_H
#define PS_TESTS_GPU_MACHINE_H

#include "kernel_suite.h"

/* `exact`: every piece is an allocation of its own, so that compute-sanitizer sees an access beyond
 * its end, and nothing is written into it. NULL, after a line, when there is no device. */
const struct kernel_machine *gpu_machine_open(bool exact);

#endif
