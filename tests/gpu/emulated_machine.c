/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator where a GPU would be: for trying these programs without one. */
#include "gpu_machine.h"
#include "kernel_emulator_machine.h"

const struct kernel_machine *gpu_machine_open(bool exact)
{
    (void)exact;
    return &kernel_emulator_machine;
}
