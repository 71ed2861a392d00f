/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host in the place of a device's. */
#include "kernel_emulator_machine.h"

#include <stdlib.h>
#include <string.h>

static void *acquire(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, PS_CUDA_ALIGNMENT, bytes > 0 ? bytes : 1) != 0)
        return NULL;
    memset(memory, 0xa5, bytes);
    return memory;
}

static void write_memory(void *memory, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(memory, from, bytes);
}

static void read_memory(const void *memory, void *to, size_t bytes)
{
    if (bytes > 0)
        memcpy(to, memory, bytes);
}

const struct kernel_machine kernel_emulator_machine = {.name = "the emulator",
                                                       .acquire = acquire,
                                                       .release = free,
                                                       .write = write_memory,
                                                       .read = read_memory};
