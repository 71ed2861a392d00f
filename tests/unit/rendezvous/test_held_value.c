/* SPDX-License-Identifier: Apache-2.0 */
/* Values keep what is worth keeping, and copy the rest. */
#include "server/core/rendezvous/held_value.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <string.h>

static int kept;
static uint8_t bytes[3 * PS_HELD_COPIED_BYTES];

static void *keep(void *self)
{
    kept++;
    return self;
}

static void drop(void *self)
{
    ck_assert_ptr_eq(self, &kept);
    kept--;
}

static struct ps_held_value *create(const struct ps_allocator *memory, size_t size,
                                    uint64_t message)
{
    const struct ps_value_facts facts = {.dtype = 1, .rank = 1, .extents = {size}};
    const struct ps_bytes pieces[] = {{bytes, size / 2}, {bytes + size / 2, size - size / 2}};
    const struct ps_view view = {pieces, 2, size};
    const struct ps_hold hold = {.keep = keep, .drop = drop, .self = &kept, .bytes = message};
    return ps_held_value_create(memory, &facts, view, &hold);
}

START_TEST(a_large_value_stays_where_it_was_received)
{
    kept = 0;
    struct ps_held_value *value = create(ps_allocator_heap(), sizeof bytes, sizeof bytes + 100);
    ck_assert_int_eq(kept, 1);
    ck_assert_ptr_eq(value->content.pieces[0].data, bytes);
    ck_assert_uint_eq(value->content.size, sizeof bytes);

    ps_held_value_release(ps_held_value_acquire(value));
    ck_assert_int_eq(kept, 1);
    ps_held_value_release(value);
    ck_assert_int_eq(kept, 0);
}
END_TEST

START_TEST(a_small_value_is_copied)
{
    kept = 0;
    memset(bytes, 3, 100);
    struct ps_held_value *value = create(ps_allocator_heap(), 100, 200);
    memset(bytes, 4, 100);

    ck_assert_int_eq(kept, 0);
    ck_assert_uint_eq(value->content.piece_count, 1);
    ck_assert_int_eq(value->content.pieces[0].data[99], 3);
    ps_held_value_release(value);
}
END_TEST

START_TEST(a_message_that_is_much_longer_is_not_kept)
{
    kept = 0;
    struct ps_held_value *value =
        create(ps_allocator_heap(), PS_HELD_COPIED_BYTES, 10 * PS_HELD_COPIED_BYTES);

    ck_assert_int_eq(kept, 0);
    ck_assert_uint_eq(value->content.size, PS_HELD_COPIED_BYTES);
    ps_held_value_release(value);
}
END_TEST

START_TEST(an_empty_value_is_one)
{
    struct ps_held_value *value = create(ps_allocator_heap(), 0, 10);

    ck_assert_uint_eq(value->content.size, 0);
    ck_assert_uint_eq(value->content.piece_count, 0);
    ck_assert_uint_gt(value->bytes, 0);
    ps_held_value_release(value);
    ps_held_value_release(NULL);
}
END_TEST

START_TEST(what_was_kept_is_dropped_when_memory_is_refused)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    kept = 0;

    ck_assert_ptr_null(create(&memory, sizeof bytes, sizeof bytes));
    ck_assert_int_eq(kept, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("held_value");
    TCase *tests = tcase_create("held_value");
    tcase_add_test(tests, a_large_value_stays_where_it_was_received);
    tcase_add_test(tests, a_small_value_is_copied);
    tcase_add_test(tests, a_message_that_is_much_longer_is_not_kept);
    tcase_add_test(tests, an_empty_value_is_one);
    tcase_add_test(tests, what_was_kept_is_dropped_when_memory_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
