/* SPDX-License-Identifier: Apache-2.0 */
/* client/programs/program_nodes.c: ps-lite's numbers. */
#include "client/programs/program_nodes.h"

#include "run_suite.h"

#include <check.h>

static struct ps_error error;

START_TEST(numbers_are_those_of_ps_lite)
{
    struct ps_program_node node;

    ck_assert_uint_eq(ps_program_node_id((struct ps_program_node){false, 0}), 8);
    ck_assert_uint_eq(ps_program_node_id((struct ps_program_node){true, 3}), 15);
    ck_assert_int_eq(ps_program_node_of(12, &node, &error), PS_OK);
    ck_assert(!node.is_worker && node.rank == 2);
    ck_assert_int_eq(ps_program_node_of(9, &node, &error), PS_OK);
    ck_assert(node.is_worker && node.rank == 0);
    ck_assert_int_eq(ps_program_node_of(7, &node, &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_program_node_of(UINT32_MAX, &node, &error), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(groups_have_servers_then_workers)
{
    size_t size = 0;

    ck_assert_int_eq(ps_program_group_size(6, 2, 3, &size, &error), PS_OK);
    ck_assert_uint_eq(size, 5);
    for (size_t i = 0; i < size; i++) {
        struct ps_program_node node = ps_program_group_member(6, 2, i);
        ck_assert(node.is_worker == (i >= 2));
        ck_assert_uint_eq(node.rank, i < 2 ? i : i - 2);
    }
    ck_assert_int_eq(ps_program_group_size(7, 2, 3, &size, &error), PS_OK);
    ck_assert_uint_eq(size, 5);
    ck_assert_int_eq(ps_program_group_size(4, 2, 3, &size, &error), PS_OK);
    ck_assert(size == 3 && ps_program_group_member(4, 2, 1).is_worker);
}
END_TEST

START_TEST(what_has_no_members_is_refused)
{
    size_t size = 0;

    ck_assert_int_eq(ps_program_group_size(0, 2, 3, &size, &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_program_group_size(1, 2, 3, &size, &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_program_group_size(4, 2, 0, &size, &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_program_group_size(12, 2, 3, &size, &error), PS_ERR_BAD_INPUT);
    ck_assert_str_eq(error.text, "there is no server 2: the job has 2 of them");
    ck_assert_int_eq(ps_program_group_size(13, 2, 3, &size, &error), PS_OK);
    ck_assert_uint_eq(size, 1);
}
END_TEST

START_TEST(an_app_at_a_worker_has_a_mailbox_of_its_own)
{
    const struct ps_program_node server = {false, 5}, worker = {true, 5}, other = {true, 6};

    ck_assert_uint_eq(ps_program_mailbox(7, server), 7);
    ck_assert_uint_ne(ps_program_mailbox(7, worker), ps_program_mailbox(7, other));
    ck_assert_uint_ne(ps_program_mailbox(7, worker), ps_program_mailbox(8, worker));
    ck_assert_uint_gt(ps_program_mailbox(0, worker), PS_PROGRAM_APP_MAX);
    ck_assert_uint_eq(ps_program_mailbox_shard(worker, 4), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("program nodes");
    TCase *tests = tcase_create("nodes");
    tcase_add_test(tests, numbers_are_those_of_ps_lite);
    tcase_add_test(tests, groups_have_servers_then_workers);
    tcase_add_test(tests, what_has_no_members_is_refused);
    tcase_add_test(tests, an_app_at_a_worker_has_a_mailbox_of_its_own);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
