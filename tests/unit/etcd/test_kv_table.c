/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/kv_table*.c: what the conformance suite cannot reach: history, bounds, refused memory. */
#include "table_fixture.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <stdio.h>
#include <stdlib.h>

START_TEST(forgotten_history_is_a_conflict)
{
    const struct ps_kv_lease none = {0};
    int64_t first = put(&table, "/a", none);
    for (int i = 0; i < PS_KV_TABLE_HISTORY_MAX; i++)
        (void)put(&table, "/b", none);
    bool changed = false;

    ck_assert_int_eq(ps_kv_table_changed(&table, "/a", first, &changed, NULL), PS_ERR_CONFLICT);
    ck_assert_int_eq(ps_kv_table_changed(&table, "/a", first + 1, &changed, NULL), PS_OK);
    ck_assert(!changed);
    ck_assert_int_eq(ps_kv_table_changed(&table, "/b", first + 1, &changed, NULL), PS_OK);
    ck_assert(changed);
}
END_TEST

/* Fills a table with the n-th allocation refused; whatever happened, it is whole. */
START_TEST(any_refused_allocation_leaves_the_table_as_it_was)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_kv_table small;
    ps_kv_table_init(&small, &memory);
    const struct ps_kv_change changes[] = {
        {PS_KV_PUT, "/a", ps_bytes_of_text("1"), {0}},
        {PS_KV_PUT, "/b", ps_bytes_of_text("2"), {0}},
    };
    const struct ps_kv_transaction transaction = {NULL, 0, changes, 2};
    struct ps_kv_lease lease;
    struct ps_kv_entries entries = {0};
    bool done = false;
    int64_t revision = 0;

    enum ps_status granted = ps_kv_table_grant(&small, 10, 0, &lease, NULL);
    enum ps_status committed = ps_kv_table_commit(&small, &transaction, &done, &revision, NULL);
    enum ps_status read = ps_kv_table_read(&small, "/", true, &memory, &entries, NULL);

    int failures = (granted != PS_OK) + (committed != PS_OK) + (read != PS_OK);
    ck_assert_int_eq(failures, heap.seen > _i ? 1 : 0);
    ck_assert_uint_eq(small.entry_count, committed == PS_OK ? 2 : 0);
    ck_assert_int_eq(small.revision, committed == PS_OK ? 2 : 1);
    ck_assert_uint_eq(entries.count, read == PS_OK ? small.entry_count : 0);
    ps_kv_table_check(&small);
    ps_kv_entries_release(&entries);
    ps_kv_table_fini(&small);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_table");
    TCase *tests = tcase_create("kv_table");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, forgotten_history_is_a_conflict);
    tcase_add_loop_test(tests, any_refused_allocation_leaves_the_table_as_it_was, 0, 16);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
