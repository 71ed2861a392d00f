/* SPDX-License-Identifier: Apache-2.0 */
/* server/rpc/shared_mapping.c: memory of a client is registered with a device once, at the first
 * content that gains by it. */
#include "run_suite.h"

#include "server/rpc/shared_mapping.h"

#include <check.h>

#define SIZE (1u << 20)

/* What was asked of the device. */
struct device {
    bool refuses;
    int pins;
    int unpins;
    void *memory;
    size_t size;
};

static bool pin(void *self, void *memory, size_t size)
{
    struct device *device = self;
    device->pins++;
    device->memory = memory;
    device->size = size;
    return !device->refuses;
}

static void unpin(void *self, void *memory)
{
    struct device *device = self;
    device->unpins++;
    ck_assert_ptr_eq(memory, device->memory);
}

static uint8_t bytes[SIZE];

static struct ps_shared_mapping mapping_of(struct device *device)
{
    struct ps_shared_mapping mapping = {.segment = {.bytes = bytes, .size = SIZE}, .references = 1};
    if (device != NULL)
        mapping.pins = (struct ps_shared_pins){.pin = pin, .unpin = unpin, .self = device};
    return mapping;
}

START_TEST(large_content_registers_all_of_the_memory_once)
{
    struct device device = {0};
    struct ps_shared_mapping mapping = mapping_of(&device);

    ps_shared_mapping_pin(&mapping, PS_SHARED_PIN_BYTES_MIN);
    ps_shared_mapping_pin(&mapping, SIZE);
    ck_assert_int_eq(device.pins, 1);
    ck_assert_ptr_eq(device.memory, bytes);
    ck_assert_uint_eq(device.size, SIZE);

    ps_shared_mapping_unpin(&mapping);
    ck_assert_int_eq(device.unpins, 1);
}
END_TEST

START_TEST(small_content_registers_nothing)
{
    struct device device = {0};
    struct ps_shared_mapping mapping = mapping_of(&device);

    ps_shared_mapping_pin(&mapping, PS_SHARED_PIN_BYTES_MIN - 1);
    ps_shared_mapping_unpin(&mapping);

    ck_assert_int_eq(device.pins, 0);
    ck_assert_int_eq(device.unpins, 0);
}
END_TEST

START_TEST(a_refusal_is_for_good_and_leaves_nothing_to_give_back)
{
    struct device device = {.refuses = true};
    struct ps_shared_mapping mapping = mapping_of(&device);

    ps_shared_mapping_pin(&mapping, SIZE);
    ps_shared_mapping_pin(&mapping, SIZE);
    ps_shared_mapping_unpin(&mapping);

    ck_assert_int_eq(device.pins, 1);
    ck_assert_int_eq(device.unpins, 0);
}
END_TEST

START_TEST(without_a_device_nothing_is_asked)
{
    struct ps_shared_mapping mapping = mapping_of(NULL);

    ps_shared_mapping_pin(&mapping, SIZE);
    ps_shared_mapping_unpin(&mapping);

    ck_assert_int_eq(atomic_load(&mapping.pinned), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared_mapping");
    TCase *tests = tcase_create("shared_mapping");
    tcase_add_test(tests, large_content_registers_all_of_the_memory_once);
    tcase_add_test(tests, small_content_registers_nothing);
    tcase_add_test(tests, a_refusal_is_for_good_and_leaves_nothing_to_give_back);
    tcase_add_test(tests, without_a_device_nothing_is_asked);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
