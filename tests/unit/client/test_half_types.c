/* SPDX-License-Identifier: Apache-2.0 */
/* client/half_types.c: halves are told as float32. */
#include "client/half_types.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>

/* 1 and -2 as bfloat16, and as float16. */
static const uint16_t bfloats[2] = {0x3f80, 0xc000}, floats[2] = {0x3c00, 0xc000};

static struct ps_item item_of(const uint16_t *content, size_t size)
{
    return (struct ps_item){.content = (const uint8_t *)content, .size = size, .dtype = PS_I64};
}

START_TEST(other_types_stay_as_they_are)
{
    struct ps_item item = item_of(bfloats, 16);

    ps_half_fit(&item, PSCLIENT_INT64);

    ck_assert(!item.as_is);
    ck_assert_int_eq(item.dtype, PS_I64);
    ck_assert_uint_eq(item.size, 16);
}
END_TEST

START_TEST(halves_count_as_float32)
{
    struct ps_item item = item_of(bfloats, 4);

    ps_half_fit(&item, PSCLIENT_TYPE_BFLOAT16);

    ck_assert(item.as_is && ps_half_is_sound(&item));
    ck_assert_int_eq(item.dtype, PS_F32);
    ck_assert_int_eq(item.encoding, PS_ENCODING_BFLOAT16);
    ck_assert_uint_eq(item.size, 8);
}
END_TEST

START_TEST(an_odd_number_of_bytes_is_not_sound)
{
    struct ps_item odd = item_of(bfloats, 3), none = item_of(NULL, 4), huge = item_of(bfloats, 0);
    huge.size = SIZE_MAX - 1;

    ps_half_fit(&odd, PSCLIENT_TYPE_FLOAT16);
    ps_half_fit(&none, PSCLIENT_TYPE_FLOAT16);
    ps_half_fit(&huge, PSCLIENT_TYPE_FLOAT16);

    ck_assert(!ps_half_is_sound(&odd));
    ck_assert(!ps_half_is_sound(&none));
    ck_assert(!ps_half_is_sound(&huge));
}
END_TEST

START_TEST(halves_are_widened_for_an_initialisation)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_item items[3] = {item_of(bfloats, 4), item_of(bfloats, 16), item_of(floats, 4)};
    const uint8_t *untouched = items[1].content;
    uint8_t *widened;
    ps_half_fit(&items[0], PSCLIENT_TYPE_BFLOAT16);
    ps_half_fit(&items[2], PSCLIENT_TYPE_FLOAT16);

    ck_assert(ps_half_widen(items, 3, &memory, &widened));

    for (int i = 0; i < 3; i += 2) {
        const float *wide = (const float *)(const void *)items[i].content;
        ck_assert(wide[0] == 1 && wide[1] == -2);
    }
    ck_assert_ptr_eq(items[1].content, untouched);
    ps_release(&memory, widened);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(refused_memory_leaves_items_as_they_were)
{
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_item item = item_of(bfloats, 4);
    uint8_t *widened;
    ps_half_fit(&item, PSCLIENT_TYPE_BFLOAT16);

    ck_assert(!ps_half_widen(&item, 1, &memory, &widened));

    ck_assert_ptr_eq(item.content, bfloats);
    ck_assert_ptr_null(widened);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("half_types");
    TCase *cases = tcase_create("half_types");
    tcase_add_test(cases, other_types_stay_as_they_are);
    tcase_add_test(cases, halves_count_as_float32);
    tcase_add_test(cases, an_odd_number_of_bytes_is_not_sound);
    tcase_add_test(cases, halves_are_widened_for_an_initialisation);
    tcase_add_test(cases, refused_memory_leaves_items_as_they_were);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
