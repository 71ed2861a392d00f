/* SPDX-License-Identifier: Apache-2.0 */
/* core/ownership/set_question.c: any server answers, from the store alone. */
#include "server/core/ownership/set_question.h"

#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <check.h>
#include <stdio.h>

static struct ps_set_question ask(const char *name, bool begins)
{
    struct ps_set_question question = {.begins = begins};
    (void)snprintf(question.name, sizeof question.name, "%s", name);
    ck_assert_int_eq(ps_set_question_ask(&registry, &question, 5, PS_DEADLINE_NEVER, NULL), PS_OK);
    return question;
}

START_TEST(looking_begins_nothing)
{
    put("/ps_desired", "2");

    struct ps_set_question question = ask("s", false);

    ck_assert(!question.is_there && !question.is_whole);
    assert_key("/ps_wanted", NULL);
}
END_TEST

START_TEST(rows_are_told_as_they_come)
{
    put("/ps_desired", "2");
    struct ps_set_question question = ask("s", true);
    ck_assert(question.is_there && !question.is_whole);
    ck_assert_uint_eq(question.shard_count, 2);
    ck_assert_uint_eq(question.rows.count, 0);
    ps_set_question_fini(&question);
    put("/checkpoints/model/s/1", "{}");

    question = ask("s", false);
    ck_assert(question.is_there && !question.is_whole);
    ck_assert_uint_eq(question.rows.count, 1);
    ps_set_question_fini(&question);

    put("/checkpoints/whole/s", "2 5 s");
    question = ask("s", true);
    ck_assert(question.is_there && question.is_whole);
    ps_set_question_fini(&question);
}
END_TEST

START_TEST(another_set_under_way_is_said)
{
    put("/ps_desired", "2");
    struct ps_set_question first = ask("s", true);
    ps_set_question_fini(&first);
    struct ps_error error = {0};
    struct ps_set_question other = {.name = "t", .begins = true};

    ck_assert_int_eq(ps_set_question_ask(&registry, &other, 5, PS_DEADLINE_NEVER, &error),
                     PS_ERR_BUSY);
    ck_assert_str_eq(error.text, "set s is under way: one at a time");
    struct ps_set_question looks = ask("t", false);
    ck_assert(!looks.is_there);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("set_question");
    TCase *tests = tcase_create("set_question");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, looking_begins_nothing);
    tcase_add_test(tests, rows_are_told_as_they_come);
    tcase_add_test(tests, another_set_under_way_is_said);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
