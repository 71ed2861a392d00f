/* SPDX-License-Identifier: Apache-2.0 */
/* proto/arena.c: memory that is taken piece by piece and given back at once. */
#include "proto/arena.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

START_TEST(an_arena_gives_up_to_its_cap)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_arena arena;
    ps_arena_init(&arena, &memory, 100);

    ck_assert_ptr_nonnull(ps_arena_take(&arena, 60));
    ck_assert_ptr_nonnull(ps_arena_take(&arena, 40));
    ck_assert(!arena.refused);
    ck_assert_ptr_null(ps_arena_take(&arena, 1));
    ck_assert(arena.refused);
    ck_assert_ptr_null(ps_arena_take(&arena, SIZE_MAX));

    ps_arena_release(&arena);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(what_an_arena_gives_is_aligned_for_anything)
{
    struct ps_arena arena;
    ps_arena_init(&arena, ps_allocator_heap(), 100);
    for (size_t size = 1; size < 10; size++) {
        uintptr_t address = (uintptr_t)ps_arena_take(&arena, size);
        ck_assert_uint_eq(address % _Alignof(max_align_t), 0);
    }
    ps_arena_release(&arena);
}
END_TEST

START_TEST(what_was_taken_stays_while_more_is_taken)
{
    struct ps_arena arena;
    ps_arena_init(&arena, ps_allocator_heap(), 4000);
    uint8_t *blocks[20];
    for (size_t i = 0; i < 20; i++) {
        blocks[i] = ps_arena_take(&arena, 200);
        memset(blocks[i], (int)i, 200);
    }

    for (size_t i = 0; i < 20; i++)
        for (size_t k = 0; k < 200; k++)
            ck_assert_uint_eq(blocks[i][k], i);

    ps_arena_release(&arena);
}
END_TEST

START_TEST(detached_blocks_outlive_their_arena)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_arena arena;
    ps_arena_init(&arena, &memory, 100);
    ck_assert_ptr_nonnull(ps_arena_take(&arena, 10));
    ck_assert_ptr_nonnull(ps_arena_take(&arena, 0));

    void *blocks = ps_arena_detach(&arena);
    ps_arena_release(&arena);
    ck_assert_int_eq(heap.live, 2);
    ps_arena_release_blocks(&memory, blocks);

    ck_assert_int_eq(heap.live, 0);
    ps_arena_release_blocks(&memory, NULL);
}
END_TEST

START_TEST(a_refusal_of_the_heap_is_remembered_and_takes_nothing_from_the_cap)
{
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_arena arena;
    ps_arena_init(&arena, &memory, 100);

    ck_assert_ptr_null(ps_arena_take(&arena, 100));
    ck_assert(arena.refused);
    ck_assert_ptr_nonnull(ps_arena_take(&arena, 100));
    ck_assert(arena.refused);

    ps_arena_release(&arena);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tests = tcase_create("arena");
    tcase_add_test(tests, an_arena_gives_up_to_its_cap);
    tcase_add_test(tests, what_an_arena_gives_is_aligned_for_anything);
    tcase_add_test(tests, what_was_taken_stays_while_more_is_taken);
    tcase_add_test(tests, detached_blocks_outlive_their_arena);
    tcase_add_test(tests, a_refusal_of_the_heap_is_remembered_and_takes_nothing_from_the_cap);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
