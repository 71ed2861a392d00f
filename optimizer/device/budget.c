/* SPDX-License-Identifier: Apache-2.0 */
/* Accounting of device memory. */
#include "optimizer/device/budget.h"

#include "base/assert.h"

#include <inttypes.h>

#define GIB (UINT64_C(1) << 30)

static void raise_to(_Atomic uint64_t *most, uint64_t value);

/* A twentieth, and a gibibyte at least, is left to others: the display, a trainer on the same
 * card, and the driver itself, which takes memory without asking. */
uint64_t ps_budget_default(uint64_t free_bytes)
{
    uint64_t share = free_bytes / 20;
    uint64_t spare = share > GIB ? share : GIB;
    return free_bytes > spare ? free_bytes - spare : 0;
}

/* Arrays begin at lines of the device, so that 16-byte accesses never cross from one into
 * another; an empty one has a line, too, and so an address of its own. */
uint64_t ps_budget_array_bytes(uint64_t count, uint64_t element_size)
{
    PS_ASSERT(element_size > 0);
    PS_ASSERT(count <= UINT64_MAX / 16 / element_size);
    uint64_t lines = (count * element_size + PS_DEVICE_ALIGNMENT - 1) / PS_DEVICE_ALIGNMENT;
    return (lines > 0 ? lines : 1) * PS_DEVICE_ALIGNMENT;
}

enum ps_status ps_budget_reserve(struct ps_budget *budget, uint64_t bytes, struct ps_error *error)
{
    /* Without a lock: parameters are created by several lanes at once. The loop ends, because
     * each failure of the exchange means that another reservation has succeeded. */
    uint64_t used = atomic_load(&budget->used);
    do {
        PS_ASSERT(used <= budget->limit);
        if (bytes > budget->limit - used)
            return ps_fail(error, PS_ERR_BUSY,
                           "device memory: %" PRIu64 " bytes needed, %" PRIu64
                           " free, budget %" PRIu64,
                           bytes, budget->limit - used, budget->limit);
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
    raise_to(&budget->used_max, used + bytes);
    return PS_OK;
}

/* The most that was ever used is for people who choose a budget. */
static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t present = atomic_load(most);
    while (present < value && !atomic_compare_exchange_weak(most, &present, value)) {
    }
}

void ps_budget_release(struct ps_budget *budget, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub(&budget->used, bytes);
    /* More given back than was taken would hand out memory that is not there. */
    PS_ASSERT(before >= bytes);
}
