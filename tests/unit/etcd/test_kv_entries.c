/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/kv_entries.c: results of reads, with every allocation refused once. */
#include "etcd/kv_entries.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>

START_TEST(what_was_added_can_always_be_released)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_kv_entries entries = {0};
    const struct ps_kv_entry facts = {.create_revision = 3, .modify_revision = 4, .lease = {5}};
    size_t added = 0;

    if (ps_kv_entries_make(&entries, &memory, 2, NULL) == PS_OK)
        for (int i = 0; i < 2; i++)
            if (ps_kv_entries_add(&entries, ps_bytes_of_text("/a"), ps_bytes_of_text("1"), facts,
                                  NULL) == PS_OK)
                added++;

    ck_assert_uint_eq(entries.count, added);
    for (size_t i = 0; i < added; i++) {
        ck_assert_str_eq(entries.entries[i].key, "/a");
        ck_assert_int_eq(entries.entries[i].lease.id, 5);
    }
    ck_assert_uint_eq(added, _i == 0 ? 0 : _i < 5 ? 1 : 2);
    ps_kv_entries_release(&entries);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(no_room_is_asked_for_when_nothing_comes)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_kv_entries entries = {0};

    ck_assert_int_eq(ps_kv_entries_make(&entries, &memory, 0, NULL), PS_OK);
    ps_kv_entries_release(&entries);
    ck_assert_int_eq(heap.seen, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_entries");
    TCase *tests = tcase_create("kv_entries");
    tcase_add_loop_test(tests, what_was_added_can_always_be_released, 0, 7);
    tcase_add_test(tests, no_room_is_asked_for_when_nothing_comes);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
