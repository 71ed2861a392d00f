/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/stream_table.c: streams are found as long as they are open, and no longer. */
#include "server/front/stream_table.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

enum { STREAMS = 4000, MODEL = 512 };

static struct ps_stream_table table;

static void begin(void)
{
    ps_stream_table_init(&table, ps_allocator_heap());
}

static void end(void)
{
    ps_stream_table_fini(&table);
}

START_TEST(an_added_stream_is_found_until_it_is_removed)
{
    ck_assert_ptr_null(ps_stream_table_find(&table, 1));

    ck_assert_ptr_nonnull(ps_stream_table_add(&table, 1));
    ck_assert_uint_eq(ps_stream_table_find(&table, 1)->id, 1);
    ck_assert_ptr_null(ps_stream_table_find(&table, 3));

    ps_stream_table_remove(&table, ps_stream_table_find(&table, 1));
    ck_assert_ptr_null(ps_stream_table_find(&table, 1));
    ck_assert_uint_eq(table.count, 0);
}
END_TEST

START_TEST(the_connection_itself_is_no_stream)
{
    ck_assert_ptr_nonnull(ps_stream_table_add(&table, 1));

    ck_assert_ptr_null(ps_stream_table_find(&table, 0));
}
END_TEST

START_TEST(many_streams_are_all_found)
{
    for (uint32_t i = 0; i < STREAMS; i++)
        ps_stream_table_add(&table, 2 * i + 1)->bytes = i;

    for (uint32_t i = 0; i < STREAMS; i++)
        ck_assert_uint_eq(ps_stream_table_find(&table, 2 * i + 1)->bytes, i);
    ck_assert_uint_le(table.capacity, 4 * STREAMS);
}
END_TEST

START_TEST(a_table_that_streams_pass_through_does_not_grow)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        ck_assert_ptr_nonnull(ps_stream_table_add(&table, 2 * i + 1));
        if (i >= 4)
            ps_stream_table_remove(&table, ps_stream_table_find(&table, 2 * (i - 4) + 1));
    }

    ck_assert_uint_eq(table.count, 4);
    ck_assert_uint_le(table.capacity, 16);
}
END_TEST

/* Numbers that meet in the same place, added and removed by dice, beside a plain list. */
START_TEST(removals_lose_no_other_stream)
{
    bool open[MODEL] = {false};
    uint32_t seed = 7;
    for (int turn = 0; turn < 20000; turn++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t at = (seed >> 16) % MODEL;
        uint32_t id = 1 + at * 64 % 8192 + 2 * (at % 3);
        /* Two places of the list with the same number are one stream: the first stands for it. */
        for (uint32_t i = 0; i < at; i++)
            if (1 + i * 64 % 8192 + 2 * (i % 3) == id) {
                at = i;
                break;
            }
        if (open[at])
            ps_stream_table_remove(&table, ps_stream_table_find(&table, id));
        else
            ck_assert_ptr_nonnull(ps_stream_table_add(&table, id));
        open[at] = !open[at];
        for (uint32_t i = 0; turn % 100 == 0 && i < MODEL; i++)
            if (open[i])
                ck_assert_ptr_nonnull(
                    ps_stream_table_find(&table, 1 + i * 64 % 8192 + 2 * (i % 3)));
    }
    uint32_t count = 0;
    for (int i = 0; i < MODEL; i++)
        count += open[i] ? 1 : 0;
    ck_assert_uint_eq(table.count, count);
}
END_TEST

START_TEST(a_refused_allocation_leaves_the_table_as_it_was)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_stream_table small;
    ps_stream_table_init(&small, &memory);
    uint32_t added = 0;

    for (uint32_t i = 0; i < 100; i++)
        added += ps_stream_table_add(&small, 2 * i + 1) != NULL;

    /* The one refusal costs the one stream that asked for it. */
    ck_assert_uint_eq(added, heap.seen > _i ? 99 : 100);
    ck_assert_uint_eq(small.count, added);
    ps_stream_table_fini(&small);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream table");
    TCase *tests = tcase_create("stream table");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, an_added_stream_is_found_until_it_is_removed);
    tcase_add_test(tests, the_connection_itself_is_no_stream);
    tcase_add_test(tests, many_streams_are_all_found);
    tcase_add_test(tests, a_table_that_streams_pass_through_does_not_grow);
    tcase_add_test(tests, removals_lose_no_other_stream);
    tcase_add_loop_test(tests, a_refused_allocation_leaves_the_table_as_it_was, 0, 8);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
