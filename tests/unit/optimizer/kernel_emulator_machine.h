/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator as a machine for the suite: the device's memory is the host's.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   NULL when there is no memory.
 * Memory:   exactly as many bytes as asked for.
 */
#ifndef PS_TESTS_OPTIMIZER_KERNEL_EMULATOR_MACHINE_H
#define PS_TESTS_OPTIMIZER_KERNEL_EMULATOR_MACHINE_H

#include "kernel_suite.h"

extern const struct kernel_machine kernel_emulator_machine;

#endif
