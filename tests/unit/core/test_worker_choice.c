/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank a worker gets. */
#include "server/core/ownership/worker_choice.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_worker_row taken[8];
static struct ps_worker_memory remembered[8];
static struct ps_worker_group group;
static struct ps_worker_rows rows;

static void setup(void)
{
    memset(taken, 0, sizeof taken);
    memset(remembered, 0, sizeof remembered);
    group = (struct ps_worker_group){.name = "workers"};
    rows = (struct ps_worker_rows){
        .rows = taken, .names = remembered, .groups = &group, .group_count = 1};
}

/* By rank. */
static void put(uint32_t rank, uint64_t client, const char *name)
{
    struct ps_worker_row *row = &taken[rows.row_count++];
    row->rank = rank;
    row->worker.client = client;
    strcpy(row->worker.name, name);
}

static void remember(uint32_t rank, const char *name)
{
    struct ps_worker_memory *memory = &remembered[rows.name_count++];
    memory->rank = rank;
    strcpy(memory->name, name);
}

static struct ps_worker_choice choose(const char *name, uint64_t client, uint32_t size,
                                      uint32_t rank)
{
    const struct ps_worker_wish wish = {name, client, size, rank};
    return ps_worker_choose(&rows, &wish);
}

static void assert_free(struct ps_worker_choice choice, uint32_t rank)
{
    ck_assert_int_eq(choice.verdict, PS_WORKER_FREE);
    ck_assert_uint_eq(choice.rank, rank);
}

START_TEST(the_smallest_free_rank_is_given)
{
    assert_free(choose("", 9, 0, 0), 0);
    put(0, 1, "");
    assert_free(choose("", 9, 0, 0), 1);
    put(2, 2, "");
    assert_free(choose("", 9, 0, 0), 1);
}
END_TEST

START_TEST(a_client_keeps_what_it_has)
{
    put(0, 1, "a");
    put(3, 2, "b");

    struct ps_worker_choice choice = choose("c", 2, 0, 1);

    ck_assert_int_eq(choice.verdict, PS_WORKER_OURS);
    ck_assert_uint_eq(choice.rank, 3);
    ck_assert_ptr_eq(choice.row, &taken[1]);
}
END_TEST

START_TEST(a_name_gets_its_former_rank_while_that_is_free)
{
    put(0, 1, "");
    remember(0, "z");
    remember(5, "a");
    remember(2, "a");
    assert_free(choose("a", 9, 0, 0), 2);
    put(2, 2, "");
    assert_free(choose("a", 9, 0, 0), 5);
    put(5, 3, "");
    assert_free(choose("a", 9, 0, 0), 1);
    /* Nobody has no name. */
    remember(7, "");
    assert_free(choose("", 9, 0, 0), 1);
}
END_TEST

START_TEST(a_rank_that_is_demanded_goes_before_the_former_one)
{
    remember(1, "a");
    assert_free(choose("a", 9, 8, 5), 4);
    put(4, 1, "b");
    ck_assert_int_eq(choose("a", 9, 0, 5).verdict, PS_WORKER_HELD);
    ck_assert_ptr_eq(choose("a", 9, 0, 5).row, &taken[0]);
}
END_TEST

START_TEST(a_name_that_is_there_is_held)
{
    put(0, 1, "");
    put(1, 2, "a");
    ck_assert_int_eq(choose("a", 9, 0, 0).verdict, PS_WORKER_HELD);
    ck_assert_ptr_eq(choose("a", 9, 0, 0).row, &taken[1]);
    /* Also when another rank is demanded. */
    ck_assert_int_eq(choose("a", 9, 0, 8).verdict, PS_WORKER_HELD);
}
END_TEST

START_TEST(a_group_has_one_size_while_somebody_is_in_it)
{
    group.size = 2;
    put(0, 1, "");
    ck_assert_int_eq(choose("", 9, 3, 0).verdict, PS_WORKER_MISMATCH);
    ck_assert_uint_eq(choose("", 9, 3, 0).size, 2);
    assert_free(choose("", 9, 2, 0), 1);
    assert_free(choose("", 9, 0, 0), 1);
    put(1, 2, "");
    ck_assert_int_eq(choose("", 9, 0, 0).verdict, PS_WORKER_FULL);
    ck_assert_int_eq(choose("", 9, 0, 3).verdict, PS_WORKER_FULL);

    rows.row_count = 0;
    remember(1, "a");
    struct ps_worker_choice choice = choose("a", 9, 1, 0);
    assert_free(choice, 0);
    ck_assert_uint_eq(choice.size, 1);
    ck_assert_uint_eq(choose("a", 9, 0, 0).size, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker choice");
    TCase *tests = tcase_create("choice");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, the_smallest_free_rank_is_given);
    tcase_add_test(tests, a_client_keeps_what_it_has);
    tcase_add_test(tests, a_name_gets_its_former_rank_while_that_is_free);
    tcase_add_test(tests, a_rank_that_is_demanded_goes_before_the_former_one);
    tcase_add_test(tests, a_name_that_is_there_is_held);
    tcase_add_test(tests, a_group_has_one_size_while_somebody_is_in_it);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
