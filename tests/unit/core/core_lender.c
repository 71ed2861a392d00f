/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of memory that two processes share on a device begin with. */
#include "core_lender.h"

#include "server/core/requests/service_state.h"

#include <check.h>

struct core_device device;
struct core_world resident;
struct core_world host;
struct lender lender;
uint8_t *memory;

void core_lender_begin(const float *values, size_t count, bool journals, struct ps_bytes config)
{
    struct core_world *worlds[] = {&resident, &host};
    lender_begin(&lender, count);
    core_device_open(&device, 0, NULL);
    core_device_world(&resident, &device, 1, journals, 0);
    core_device_world(&host, NULL, 1, journals, 0);
    for (size_t i = 0; i < 2; i++) {
        ps_service_begin_empty(worlds[i]->service);
        ck_assert_int_eq(
            world_init_param(worlds[i], "p", PS_F32, values, count * sizeof *values, config),
            PS_OK);
        ck_assert_int_eq(world_finish(worlds[i]), PS_OK);
    }
    ck_assert_int_eq(device.store.plugin->import(device.store.device, &lender.share, &memory, NULL),
                     PS_OK);
}

void core_lender_end(void)
{
    device.store.plugin->unimport(device.store.device, memory);
    world_fini(&resident);
    world_fini(&host);
    core_device_close(&device);
    lender_end(&lender);
}
