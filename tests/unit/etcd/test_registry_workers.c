/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/registry_workers.c: rows of workers as keys, and what is demanded when they are written. */
#include "etcd/registry_workers.h"

#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"
#include "tests/support/fault_heap.h"

#include <stdlib.h>
#include <string.h>

static const struct ps_worker someone = {.client = 0xab,
                                         .ttl_ms = TTL_MS,
                                         .joined_unix_ms = 1700000000000,
                                         .name = "a",
                                         .role = "trainer",
                                         .host = "node-1"};
static struct ps_worker_rows rows;

static void release(void)
{
    ps_worker_rows_release(&rows);
    teardown();
}

static void read_group(const char *group)
{
    ps_worker_rows_release(&rows);
    ck_assert_int_eq(
        ps_registry_read_workers(&registry, group, ps_allocator_heap(), soon(), &rows, NULL),
        PS_OK);
}

static bool put_row(const struct ps_worker_group *group, uint32_t rank,
                    const struct ps_worker *worker)
{
    bool done = false;
    int64_t incarnation = 0;
    ck_assert_int_eq(ps_registry_put_worker(&registry, group, rank, worker, grant(), soon(), &done,
                                            &incarnation, NULL),
                     PS_OK);
    return done;
}

START_TEST(a_row_says_who_it_is_of)
{
    read_group("g");
    ck_assert_uint_eq(rows.group_count, 1);
    ck_assert_int_eq(rows.groups[0].revision, 0);
    ck_assert(put_row(&rows.groups[0], 3, &someone));

    assert_key("/workers/g/ranks/3", "client=00000000000000ab ttl_ms=10000 "
                                     "joined_ms=1700000000000 name=a role=trainer host=node-1");
    assert_key("/workers/g/names/3", "a");
    read_group("g");
    ck_assert_uint_eq(rows.row_count, 1);
    ck_assert_uint_eq(rows.rows[0].rank, 3);
    ck_assert_int_ne(rows.groups[0].revision, 0);
    ck_assert_int_eq(memcmp(&rows.rows[0].worker, &someone, sizeof someone), 0);
    ck_assert_str_eq(rows.names[0].name, "a");
}
END_TEST

START_TEST(two_who_have_read_the_same_are_not_both_let_in)
{
    const struct ps_worker other = {.client = 0xcd, .ttl_ms = TTL_MS};
    read_group("g");
    ck_assert(put_row(&rows.groups[0], 0, &someone));
    ck_assert(!put_row(&rows.groups[0], 1, &other));
    read_group("g");
    ck_assert(!put_row(&rows.groups[0], 0, &other));
    ck_assert(put_row(&rows.groups[0], 1, &other));
    ck_assert_uint_eq(count_keys("/workers/g/ranks/"), 2);
}
END_TEST

START_TEST(a_reading_follows_what_was_put_and_dropped)
{
    struct ps_worker_row row = {.worker = someone};
    read_group("g");
    for (uint32_t i = 0; i < 40; i++) {
        /* From both ends, so that rows are put between others. */
        row.rank = i % 2 == 0 ? i : 100 - i;
        row.incarnation = 5 + i;
        row.worker.name[0] = i == 3 ? '\0' : 'a';
        ck_assert_int_eq(ps_worker_rows_add(&rows, &row, 100, NULL), PS_OK);
    }
    ck_assert_uint_eq(rows.row_count, 40);
    ck_assert_uint_eq(rows.name_count, 39);
    ck_assert_int_eq(rows.groups[0].revision, 44);
    ck_assert_uint_eq(rows.groups[0].size, 100);
    for (size_t i = 1; i < rows.row_count; i++)
        ck_assert_uint_lt(rows.rows[i - 1].rank, rows.rows[i].rank);

    /* Rank 2, which somebody without a name takes then. */
    ck_assert_uint_eq(rows.rows[1].rank, 2);
    ps_worker_rows_remove(&rows, 1);
    ck_assert_uint_eq(rows.name_count, 39);
    row.rank = 2;
    row.worker.name[0] = '\0';
    ck_assert_int_eq(ps_worker_rows_add(&rows, &row, 100, NULL), PS_OK);
    ck_assert_uint_eq(rows.row_count, 40);
    ck_assert_uint_eq(rows.name_count, 38);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_worker_rows read = {0};
    struct ps_worker_row row = {.worker = someone, .incarnation = 5};
    enum ps_status status = ps_registry_read_workers(&registry, "g", &memory, soon(), &read, NULL);
    for (row.rank = 0; status == PS_OK && row.rank < 3; row.rank++) {
        size_t before = read.row_count;
        status = ps_worker_rows_add(&read, &row, 0, NULL);
        ck_assert_uint_eq(read.row_count, before + (status == PS_OK ? 1 : 0));
    }
    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_worker_rows_release(&read);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(groups_are_apart_and_ranks_are_numbers)
{
    const struct ps_worker_group first = {.name = "g", .size = 16};
    const struct ps_worker_group second = {.name = "g-2"};
    ck_assert(put_row(&second, 0, &someone));
    ck_assert(put_row(&first, 10, &someone));
    read_group("g");
    ck_assert(put_row(&rows.groups[0], 2, &someone));

    read_group(NULL);

    ck_assert_uint_eq(rows.row_count, 3);
    ck_assert_uint_eq(rows.group_count, 2);
    ck_assert_uint_eq(rows.name_count, 0);
    for (size_t i = 1; i < rows.row_count; i++)
        ck_assert(rows.rows[i - 1].group < rows.rows[i].group ||
                  rows.rows[i - 1].rank < rows.rows[i].rank);
    read_group("g-2");
    ck_assert_uint_eq(rows.row_count, 1);
}
END_TEST

START_TEST(what_somebody_wrote_by_hand_is_passed_over)
{
    put("/workers/g/ranks/4096", "client=1");
    put("/workers/g/ranks/x", "client=1");
    put("/workers/g/size", "many");
    put("/workers/g/names/1", "");
    put("/workers/g", "1");
    put("/workers//ranks/0", "client=1");
    put("/workers/g/ranks/7", "nonsense");
    read_group(NULL);
    /* A rank that is taken by nobody knows whom is taken. */
    ck_assert_uint_eq(rows.row_count, 1);
    ck_assert_uint_eq(rows.rows[0].rank, 7);
    ck_assert_uint_eq(rows.rows[0].worker.client, 0);
    ck_assert_uint_eq(rows.groups[0].size, 0);
}
END_TEST

START_TEST(a_place_is_dropped_only_while_it_is_the_same)
{
    const struct ps_worker_group group = {.name = "g"};
    ck_assert(put_row(&group, 0, &someone));
    read_group("g");
    const struct ps_worker_row former = rows.rows[0];
    ck_assert_int_eq(ps_registry_drop_worker(&registry, "g", &former, soon(), NULL), PS_OK);
    read_group("g");
    ck_assert(put_row(&rows.groups[0], 0, &someone));

    ck_assert_int_eq(ps_registry_drop_worker(&registry, "g", &former, soon(), NULL), PS_OK);

    ck_assert_uint_eq(count_keys("/workers/g/ranks/"), 1);
}
END_TEST

START_TEST(a_group_that_somebody_joins_is_not_forgotten)
{
    const struct ps_worker_group group = {.name = "g"};
    ck_assert(put_row(&group, 0, &someone));
    read_group("g");
    const struct ps_worker_group seen = rows.groups[0];
    ck_assert(put_row(&seen, 1, &someone));
    ck_assert_int_eq(ps_registry_forget_group(&registry, &seen, soon(), NULL), PS_OK);
    ck_assert_uint_eq(count_keys("/workers/g/"), 5);

    read_group("g");
    ck_assert_int_eq(ps_registry_forget_group(&registry, &rows.groups[0], soon(), NULL), PS_OK);
    ck_assert_uint_eq(count_keys("/workers/g/"), 2);
}
END_TEST

START_TEST(words_that_cannot_be_keys_are_refused)
{
    static const char *const bad[] = {"", "a/b", "servers", "all", "a b"};
    struct ps_worker worker = someone;
    for (size_t i = 0; i < PS_ARRAY_COUNT(bad); i++)
        ck_assert_int_eq(ps_worker_group_check(bad[i], NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_worker_group_check("Trainers_1.a-b", NULL), PS_OK);
    ck_assert_int_eq(ps_worker_check(&worker, NULL), PS_OK);
    strcpy(worker.host, "a b");
    ck_assert_int_eq(ps_worker_check(&worker, NULL), PS_ERR_BAD_INPUT);
    worker = someone;
    worker.client = 0;
    ck_assert_int_eq(ps_worker_check(&worker, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry workers");
    TCase *tests = tcase_create("workers");
    tcase_add_checked_fixture(tests, setup, release);
    tcase_add_test(tests, a_row_says_who_it_is_of);
    tcase_add_test(tests, two_who_have_read_the_same_are_not_both_let_in);
    tcase_add_test(tests, a_reading_follows_what_was_put_and_dropped);
    tcase_add_loop_test(tests, a_refused_allocation_leaves_nothing, 0, 8);
    tcase_add_test(tests, groups_are_apart_and_ranks_are_numbers);
    tcase_add_test(tests, what_somebody_wrote_by_hand_is_passed_over);
    tcase_add_test(tests, a_place_is_dropped_only_while_it_is_the_same);
    tcase_add_test(tests, a_group_that_somebody_joins_is_not_forgotten);
    tcase_add_test(tests, words_that_cannot_be_keys_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
