/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_pages.c: pages that are used again. */
#include "server/core/tables/row_pages.h"
#include "tests/support/fault_heap.h"
#include "tests/unit/tables/row_model.h"

#include "base/slab.h"

#include <string.h>

#define PAGE 4096
#define PAGES 700

static struct ps_row_pages pages;

START_TEST(pages_do_not_overlap_and_go_with_the_pool)
{
    static struct ps_row_page *taken[PAGES];
    ps_row_pages_init(&pages, ps_allocator_heap(), PAGE, NULL);
    for (int i = 0; i < PAGES; i++) {
        taken[i] = ps_row_pages_take(&pages);
        ck_assert_ptr_nonnull(taken[i]);
        ck_assert_uint_eq((uintptr_t)taken[i] % 16, 0);
        memset(taken[i], i % 251, PAGE);
    }
    for (int i = 0; i < PAGES; i++)
        for (int k = 0; k < PAGE; k += 511)
            ck_assert_int_eq(((uint8_t *)taken[i])[k], i % 251);
    ck_assert_uint_ge(atomic_load(&pages.bytes), PAGES * PAGE);
    ck_assert_uint_le(atomic_load(&pages.bytes), PAGES * PAGE + PS_SLAB_BYTES);
    ps_row_pages_fini(&pages);
    ck_assert_uint_eq(atomic_load(&pages.bytes), 0);
}
END_TEST

START_TEST(pages_that_were_given_are_taken_again)
{
    ps_row_pages_init(&pages, ps_allocator_heap(), PAGE, NULL);
    struct ps_row_page *first = ps_row_pages_take(&pages);
    struct ps_row_page *second = ps_row_pages_take(&pages);
    struct ps_row_page *third = ps_row_pages_take(&pages);
    first->next = second;
    second->next = NULL;
    ps_row_pages_give(&pages, first);
    ps_row_pages_give(&pages, NULL);
    ck_assert_uint_eq(pages.free_count, 2);
    ck_assert_ptr_eq(ps_row_pages_take(&pages), second);
    ck_assert_ptr_eq(ps_row_pages_take(&pages), first);
    ck_assert_uint_eq(pages.free_count, 0);
    ck_assert_ptr_ne(ps_row_pages_take(&pages), third);
    ps_row_pages_fini(&pages);
}
END_TEST

/* Pages that do not fill a slab: what is left of one is lost on the heap, at most seven times, and
 * where a region of address space ends. */
START_TEST(a_page_may_lie_in_two_slabs)
{
    enum { ODD_PAGE = 9008, ODD_PAGES = 20 * (PS_SLAB_BYTES / ODD_PAGE) };
    static struct ps_row_page *taken[ODD_PAGES];
    ps_row_pages_init(&pages, ps_allocator_heap(), ODD_PAGE, NULL);
    for (int i = 0; i < ODD_PAGES; i++) {
        taken[i] = ps_row_pages_take(&pages);
        ck_assert_ptr_nonnull(taken[i]);
        memset(taken[i], i % 251, ODD_PAGE);
    }
    for (int i = 0; i < ODD_PAGES; i++)
        for (int k = 0; k < ODD_PAGE; k += 91)
            ck_assert_int_eq(((uint8_t *)taken[i])[k], i % 251);
    uint64_t lost = atomic_load(&pages.bytes) - pages.uncut_bytes - (uint64_t)ODD_PAGES * ODD_PAGE;
    ck_assert_uint_le(lost, 8 * ODD_PAGE);
    ps_row_pages_fini(&pages);
}
END_TEST

START_TEST(the_limit_holds)
{
    ps_row_pages_init(&pages, ps_allocator_heap(), PAGE, NULL);
    atomic_store(&pages.bytes_limit, 100000);
    int taken = 0;
    while (ps_row_pages_take(&pages) != NULL)
        taken++;
    ck_assert_int_eq(taken, 16);
    ck_assert(ps_row_pages_count(&pages, 1000));
    ck_assert(!ps_row_pages_count(&pages, 100000));
    ps_row_pages_count_back(&pages, 1000);
    ps_row_pages_fini(&pages);
}
END_TEST

START_TEST(pages_that_are_expected_are_there)
{
    ps_row_pages_init(&pages, ps_allocator_heap(), PAGE, NULL);
    ps_row_pages_expect(&pages, 100);
    ck_assert_uint_eq(pages.free_count, 100);
    uint64_t bytes = atomic_load(&pages.bytes);
    ps_row_pages_expect(&pages, 99);
    for (int i = 0; i < 100; i++)
        ck_assert_ptr_nonnull(ps_row_pages_take(&pages));
    ck_assert_uint_eq(atomic_load(&pages.bytes), bytes);
    atomic_store(&pages.bytes_limit, bytes);
    ps_row_pages_expect(&pages, 10000);
    ck_assert_uint_eq(atomic_load(&pages.bytes), bytes);
    ps_row_pages_fini(&pages);
}
END_TEST

START_TEST(the_next_slab_is_touched_ahead_and_forgotten_with_the_pages)
{
    struct ps_touch_ahead ahead;
    ps_touch_ahead_init(&ahead, NULL, NULL);
    ps_row_pages_init(&pages, ps_allocator_heap(), PAGE, &ahead);
    /* The first slabs are of the heap. */
    while (ahead.count == 0)
        ck_assert_ptr_nonnull(ps_row_pages_take(&pages));
    ck_assert_ptr_nonnull(pages.next);
    ck_assert_uint_eq(ahead.wishes[0].bytes, PS_SLAB_BYTES);
    const struct ps_row_slab *next = pages.next;
    while (pages.next == next)
        ck_assert_ptr_nonnull(ps_row_pages_take(&pages));
    ck_assert_ptr_eq(pages.slabs, next);
    ck_assert_uint_eq(ahead.count, 2);
    /* What is had ahead is counted, so that a limit is one. */
    ck_assert_uint_ge(atomic_load(&pages.bytes), 3 * (uint64_t)PS_SLAB_BYTES);
    ps_row_pages_fini(&pages);
    ck_assert_uint_eq(ahead.count, 0);
    ck_assert_uint_eq(atomic_load(&pages.bytes), 0);
    ps_touch_ahead_fini(&ahead);
}
END_TEST

/* Takes all pages of so many slabs. */
static void use_slabs(int slabs, struct ps_touch_ahead *ahead, bool in_time)
{
    while (slabs > 0) {
        const struct ps_row_slab *newest = pages.slabs;
        ck_assert_ptr_nonnull(ps_row_pages_take(&pages));
        slabs -= pages.slabs != newest;
        while (in_time && ps_touch_ahead_turn(ahead)) {
        }
    }
}

START_TEST(who_touches_too_late_is_asked_earlier)
{
    struct ps_touch_ahead ahead;
    ps_touch_ahead_init(&ahead, NULL, NULL);
    ps_row_pages_init(&pages, ps_allocator_heap(), PAGE, &ahead);
    while (pages.next == NULL)
        ck_assert_ptr_nonnull(ps_row_pages_take(&pages));

    use_slabs(4, &ahead, true);
    ck_assert_uint_eq(pages.next_count, 1);

    /* Nobody touches any more; nor is anything written to these slabs. A small table has one. */
    use_slabs(4, &ahead, false);
    ck_assert_uint_eq(pages.next_count, 1);
    use_slabs(400, &ahead, false);
    ck_assert_uint_eq(pages.next_count, PS_ROW_SLABS_AHEAD_MAX);
    ck_assert_uint_le(PS_ROW_SLABS_AHEAD_MAX * (uint64_t)PS_SLAB_BYTES,
                      atomic_load(&pages.bytes) / 100);
    ps_row_pages_fini(&pages);
    ck_assert_uint_eq(ahead.count, 0);
    ck_assert_uint_eq(atomic_load(&pages.bytes), 0);
    ps_touch_ahead_fini(&ahead);
}
END_TEST

START_TEST(who_expects_pages_and_touches_them_is_not_late)
{
    struct ps_touch_ahead ahead;
    ps_touch_ahead_init(&ahead, NULL, NULL);
    ps_row_pages_init(&pages, ps_allocator_heap(), PAGE, &ahead);
    ps_row_pages_expect(&pages, 8 * PS_SLAB_BYTES / PAGE);
    ck_assert_uint_eq(pages.next_count, 1);
    ps_row_pages_fini(&pages);
    ps_touch_ahead_fini(&ahead);
}
END_TEST

START_TEST(refused_memory_is_no_page)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    for (int i = 0; i < 2; i++) {
        heap = (struct fault_heap){.refuse_at = i};
        ps_row_pages_init(&pages, &memory, PAGE, NULL);
        ck_assert_ptr_null(ps_row_pages_take(&pages));
        ck_assert_uint_eq(atomic_load(&pages.bytes), 0);
        ck_assert_ptr_nonnull(ps_row_pages_take(&pages));
        ps_row_pages_fini(&pages);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_pages");
    tcase_add_test(tests, pages_do_not_overlap_and_go_with_the_pool);
    tcase_add_test(tests, pages_that_were_given_are_taken_again);
    tcase_add_test(tests, a_page_may_lie_in_two_slabs);
    tcase_add_test(tests, the_limit_holds);
    tcase_add_test(tests, pages_that_are_expected_are_there);
    tcase_add_test(tests, the_next_slab_is_touched_ahead_and_forgotten_with_the_pages);
    tcase_add_test(tests, who_touches_too_late_is_asked_earlier);
    tcase_add_test(tests, who_expects_pages_and_touches_them_is_not_late);
    tcase_add_test(tests, refused_memory_is_no_page);
    return run_tests("row_pages", tests);
}
