/* SPDX-License-Identifier: Apache-2.0 */
/* base/buffer.c: text that grows up to a bound. */
#include "base/buffer.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(appended_pieces_follow_each_other)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 1000);

    ps_buffer_append_text(&buffer, "one ");
    ps_buffer_append(&buffer, ps_bytes_of_text("two "));
    ps_buffer_append_format(&buffer, "%d", 3);

    ck_assert_str_eq(buffer.text, "one two 3");
    ck_assert_uint_eq(buffer.size, 9);
    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_OK);
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(text_grows_over_many_capacities)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 100000);

    for (int i = 0; i < 10000; i++)
        ps_buffer_append_format(&buffer, "%04d", i);

    ck_assert_uint_eq(buffer.size, 40000);
    ck_assert_mem_eq(buffer.text + 4 * 1234, "1234", 4);
    ck_assert_mem_eq(buffer.text + 4 * 9999, "9999", 5);
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(exactly_the_bound_fits)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 4);

    ps_buffer_append_text(&buffer, "abcd");

    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_OK);
    ck_assert_str_eq(buffer.text, "abcd");
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(beyond_the_bound_is_refused_and_says_so)
{
    struct ps_buffer buffer;
    struct ps_error error;
    ps_buffer_init(&buffer, ps_allocator_heap(), 4);

    ps_buffer_append_text(&buffer, "abc");
    ps_buffer_append_format(&buffer, "%s", "de");
    ps_buffer_append_text(&buffer, "f");

    ck_assert_int_eq(ps_buffer_status(&buffer, &error), PS_ERR_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(error.text, "limit 4"));
    ck_assert_str_eq(buffer.text, "abc");
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(clear_forgets_content_and_failure)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 3);
    ps_buffer_append_text(&buffer, "too long");

    ps_buffer_clear(&buffer);
    ps_buffer_append_text(&buffer, "ok");

    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_OK);
    ck_assert_str_eq(buffer.text, "ok");
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(rewind_keeps_what_came_before)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), 100);
    ps_buffer_append_text(&buffer, "kept");
    ps_buffer_append_text(&buffer, " dropped");

    ps_buffer_rewind(&buffer, 4);

    ck_assert_str_eq(buffer.text, "kept");
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(fixed_buffer_stays_in_the_memory_of_its_caller)
{
    char memory[8];
    struct ps_buffer buffer;
    ps_buffer_init_fixed(&buffer, memory, sizeof memory);

    ps_buffer_append_text(&buffer, "1234567");
    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_OK);
    ps_buffer_append_text(&buffer, "8");

    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_ERR_NO_MEMORY);
    ck_assert_str_eq(memory, "1234567");
    ps_buffer_fini(&buffer);
}
END_TEST

START_TEST(refused_allocation_marks_the_buffer_and_loses_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, &memory, 10000);

    for (int i = 0; i < 500; i++)
        ps_buffer_append_text(&buffer, "ab");

    bool refused = heap.seen > _i;
    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), refused ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert(refused || _i == 3);
    ps_buffer_fini(&buffer);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("buffer");
    TCase *tests = tcase_create("buffer");
    tcase_add_test(tests, appended_pieces_follow_each_other);
    tcase_add_test(tests, text_grows_over_many_capacities);
    tcase_add_test(tests, exactly_the_bound_fits);
    tcase_add_test(tests, beyond_the_bound_is_refused_and_says_so);
    tcase_add_test(tests, clear_forgets_content_and_failure);
    tcase_add_test(tests, rewind_keeps_what_came_before);
    tcase_add_test(tests, fixed_buffer_stays_in_the_memory_of_its_caller);
    tcase_add_loop_test(tests, refused_allocation_marks_the_buffer_and_loses_nothing, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
