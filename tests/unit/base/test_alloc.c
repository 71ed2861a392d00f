/* SPDX-License-Identifier: Apache-2.0 */
/* base/alloc.c: the heap behind its interface. */
#include "base/alloc.h"

#include "base/attributes.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

START_TEST(zeroed_memory_is_zero)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    uint8_t *bytes = ps_zeroed(memory, 1000);

    for (int i = 0; i < 1000; i++)
        ck_assert_uint_eq(bytes[i], 0);
    ps_release(memory, bytes);
}
END_TEST

START_TEST(no_bytes_still_give_a_pointer)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    void *a = ps_zeroed(memory, 0);
    void *b = ps_plain(memory, 0);

    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ps_release(memory, a);
    ps_release(memory, b);
    ps_release(memory, NULL);
}
END_TEST

START_TEST(product_that_overflows_is_refused)
{
    const struct ps_allocator *memory = ps_allocator_heap();

    ck_assert_ptr_null(ps_zeroed_array(memory, SIZE_MAX / 8 + 1, 8));
    ck_assert_ptr_null(ps_zeroed_array(memory, 8, SIZE_MAX / 8 + 1));
    ck_assert_ptr_null(ps_zeroed_array(memory, SIZE_MAX, SIZE_MAX));
}
END_TEST

START_TEST(more_than_there_is_gives_null)
{
    const struct ps_allocator *memory = ps_allocator_heap();

    ck_assert_ptr_null(ps_plain(memory, SIZE_MAX / 4));
    ck_assert_ptr_null(ps_zeroed(memory, SIZE_MAX / 4));
}
END_TEST

START_TEST(array_of_nothing_is_a_pointer)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    void *array = ps_zeroed_array(memory, 100, 0);

    ck_assert_ptr_nonnull(array);
    ps_release(memory, array);
}
END_TEST

START_TEST(copied_text_ends_with_nul)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    char *copy = ps_copy_text(memory, "abcdef", 3);
    char *empty = ps_copy_text(memory, NULL, 0);

    ck_assert_str_eq(copy, "abc");
    ck_assert_str_eq(empty, "");
    ps_release(memory, copy);
    ps_release(memory, empty);
}
END_TEST

START_TEST(text_without_room_for_its_nul_is_refused)
{
    ck_assert_ptr_null(ps_copy_text(ps_allocator_heap(), "x", SIZE_MAX));
}
END_TEST

START_TEST(refusing_heap_is_passed_on)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);

    ck_assert_ptr_null(ps_copy_text(&memory, "abc", 3));
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(what_was_freed_is_had_again_without_the_kernel)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    const size_t size = (size_t)8 << 20;
    ps_allocator_keep_freed();
    void *first = ps_plain(memory, size);
    memset(first, 1, size);
    ps_release(memory, first);

    struct rusage before, after;
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &before), 0);
    for (int i = 0; i < 10; i++) {
        void *again = ps_plain(memory, size);
        memset(again, i, size);
        ps_release(memory, again);
    }
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &after), 0);

    /* Mapped anew each time it would be 2,048 pages. */
    ck_assert_int_lt(after.ru_minflt - before.ru_minflt, 2048);
}
END_TEST

/* Pages of this process that are in memory. */
static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld %ld", &size, &resident), 2);
    (void)fclose(file);
    return resident;
}

START_TEST(what_was_freed_is_given_back_when_asked)
{
    enum { COUNT = 256, SIZE = 64 << 10 };
    const struct ps_allocator *memory = ps_allocator_heap();
    void *all[COUNT];
    ps_allocator_keep_freed();
    for (size_t i = 0; i < COUNT; i++) {
        all[i] = ps_plain(memory, SIZE);
        memset(all[i], 1, SIZE);
    }
    for (size_t i = 0; i < COUNT; i++)
        ps_release(memory, all[i]);
    long before = resident_pages();

    ps_allocator_give_back();

    ck_assert_int_lt(resident_pages(), before - COUNT * SIZE / 4096 / 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alloc");
    TCase *tests = tcase_create("alloc");
    tcase_add_test(tests, zeroed_memory_is_zero);
    tcase_add_test(tests, no_bytes_still_give_a_pointer);
    tcase_add_test(tests, product_that_overflows_is_refused);
    tcase_add_test(tests, more_than_there_is_gives_null);
    tcase_add_test(tests, array_of_nothing_is_a_pointer);
    tcase_add_test(tests, copied_text_ends_with_nul);
    tcase_add_test(tests, text_without_room_for_its_nul_is_refused);
    tcase_add_test(tests, refusing_heap_is_passed_on);
    /* A sanitizer has a heap of its own. */
    if (!PS_SANITIZED) {
        tcase_add_test(tests, what_was_freed_is_had_again_without_the_kernel);
        tcase_add_test(tests, what_was_freed_is_given_back_when_asked);
    }
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
