/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator as the device of a shard in a test. */
#include "tests/unit/core/core_device.h"

#include <stdlib.h>

extern ps_device_entry_fn ps_device_entry;

static void count_death(void *self, const char *text)
{
    struct core_device *device = self;
    ck_assert_ptr_nonnull(text);
    device->deaths++;
}

void core_device_open(struct core_device *device, uint64_t budget, const char *fail)
{
    core_device_open_ring(device, budget, fail, 512u << 10);
}

/* Check runs each test in a process of its own, so the environment is the test's. */
void core_device_open_ring(struct core_device *device, uint64_t budget, const char *fail,
                           uint64_t ring_bytes)
{
    struct ps_error error = {0};
    if (fail != NULL)
        (void)setenv("PS_EMULATOR_FAIL", fail, 1);
    const struct ps_device_plugin *plugin = ps_device_entry(PS_DEVICE_ABI);
    struct ps_device *opened = NULL;
    *device = (struct core_device){.deaths = 0};
    const struct ps_device_options options = {.memory_bytes = budget,
                                              .pinned_bytes = ring_bytes,
                                              .memory = ps_allocator_heap(),
                                              .died = count_death,
                                              .self = device};
    enum ps_status status = plugin->open(&options, &opened, &error);
    ck_assert_msg(status == PS_OK, "%s", error.text);
    ck_assert_int_eq(ps_device_store_open(&device->store, plugin, opened, NULL, NULL), PS_OK);
}

void core_device_close(struct core_device *device)
{
    const struct ps_device_plugin *plugin = device->store.plugin;
    struct ps_device *opened = device->store.device;
    ps_device_store_close(&device->store);
    plugin->close(opened);
}

struct ps_device_stats core_device_stats(const struct core_device *device)
{
    struct ps_device_stats stats;
    device->store.plugin->stats(device->store.device, &stats);
    return stats;
}

void core_device_world(struct core_world *world, struct core_device *device, uint64_t epoch,
                       bool journals, uint64_t bytes_max)
{
    struct ps_service_options options = {
        .device_store = device != NULL ? &device->store : NULL,
        .bytes_max = bytes_max,
        .saves = true,
        .journals = journals,
        .ack = journals ? PS_ACK_LOGGED : PS_ACK_MEMORY,
    };
    world_init_with(world, &options);
    world_own(world, epoch);
}
