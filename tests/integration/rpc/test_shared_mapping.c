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

/* ---- A device's own memory ---- */

static enum ps_status import(void *self, const struct ps_device_share *share, uint8_t **memory,
                             struct ps_error *error)
{
    struct device *device = self;
    if (device->refuses)
        return ps_fail(error, PS_ERR_BAD_INPUT, "nobody's");
    ck_assert_uint_eq(share->bytes, SIZE);
    device->pins++;
    *memory = bytes;
    return PS_OK;
}

static void unimport(void *self, uint8_t *memory)
{
    struct device *device = self;
    ck_assert_ptr_eq(memory, bytes);
    device->unpins++;
}

static struct ps_shared_mapping_wish wish_of(struct device *device)
{
    return (struct ps_shared_mapping_wish){
        .memory = ps_allocator_heap(),
        .pins = {.pin = pin, .unpin = unpin, .self = device},
        .devices = {.import = import, .unimport = unimport, .self = device}};
}

START_TEST(a_devices_piece_is_opened_and_let_go_of_and_never_registered)
{
    struct device device = {0};
    const struct ps_shared_mapping_wish wish = wish_of(&device);
    const struct ps_device_share share = {.bytes = SIZE};

    struct ps_shared_mapping *mapping = ps_shared_mapping_import(&wish, &share, NULL);

    ck_assert_ptr_nonnull(mapping);
    ck_assert(mapping->on_device);
    ck_assert_uint_ne(mapping->number, 0);
    ck_assert_uint_eq(mapping->segment.size, SIZE);
    ps_shared_mapping_pin(mapping, SIZE);
    ck_assert_int_eq(device.pins, 1); /* the piece, and no pages */
    atomic_store(&mapping->references, 0);
    ps_shared_mapping_end(mapping);
    ck_assert_int_eq(device.unpins, 1);
    ck_assert_ptr_null(mapping->segment.bytes);
    ps_release(wish.memory, mapping);
}
END_TEST

START_TEST(a_piece_that_is_refused_leaves_nothing)
{
    struct device device = {.refuses = true};
    const struct ps_shared_mapping_wish wish = wish_of(&device);
    const struct ps_device_share share = {.bytes = SIZE};
    struct ps_error error = {0};
    ck_assert_ptr_null(ps_shared_mapping_import(&wish, &share, &error));
    ck_assert_str_eq(error.text, "nobody's");
}
END_TEST

START_TEST(a_range_is_within_or_it_is_refused)
{
    static const struct {
        uint64_t offset, size;
        bool is_within;
    } cases[] = {
        {0, SIZE, true},
        {SIZE - 1, 1, true},
        {0, 0, false},
        {0, SIZE + 1, false},
        {1, SIZE, false},
        {SIZE, 1, false},
        {UINT64_MAX, 2, false},
        {2, UINT64_MAX - 1, false},
        {UINT64_MAX, UINT64_MAX, false},
        {SIZE / 2, SIZE / 2, true},
        {SIZE / 2 + 1, SIZE / 2, false},
        {SIZE, 0, false},
    };
    const struct ps_shared_mapping mapping = mapping_of(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct ps_shared_range range = {.offset = cases[i].offset, .size = cases[i].size};
        struct ps_error error = {0};
        ck_assert_int_eq(ps_shared_mapping_has(&mapping, &range, &error), cases[i].is_within);
        ck_assert((error.text[0] == '\0') == cases[i].is_within);
    }
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
    tcase_add_test(tests, a_devices_piece_is_opened_and_let_go_of_and_never_registered);
    tcase_add_test(tests, a_piece_that_is_refused_leaves_nothing);
    tcase_add_test(tests, a_range_is_within_or_it_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
