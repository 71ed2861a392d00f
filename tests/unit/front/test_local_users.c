/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/local_users.c: a list of users, and what they are called. */
#include "server/front/local_users.h"

#include "base/attributes.h"
#include "run_suite.h"

#include <check.h>

static struct ps_local_users users_of(const char *text)
{
    struct ps_local_users users = {0};
    ck_assert_msg(ps_local_users_parse(&users, text), "%s", text);
    return users;
}

static void expect_name(const char *text, const char *expected)
{
    char name[PS_LOCAL_NAME_MAX];
    struct ps_local_users users = users_of(text);
    ps_local_users_name(&users, name);
    ck_assert_str_eq(name, expected);
}

START_TEST(those_who_are_listed_may_come_in)
{
    struct ps_local_users users = users_of("0,1000,4294967294");

    ck_assert(users.is_restricted);
    ck_assert(ps_local_users_allow(&users, 0) && ps_local_users_allow(&users, 1000));
    ck_assert(ps_local_users_allow(&users, 4294967294u));
    ck_assert(!ps_local_users_allow(&users, 1) && !ps_local_users_allow(&users, 100));
}
END_TEST

START_TEST(none_lets_nobody_in_and_no_list_everybody)
{
    struct ps_local_users users = users_of("none");
    const struct ps_local_users everybody = {0};

    ck_assert(!ps_local_users_allow(&users, 0));
    ck_assert(ps_local_users_allow(&everybody, 7));
}
END_TEST

START_TEST(one_user_has_a_name_of_its_own)
{
    expect_name("1000", "uid:1000");
    expect_name("4294967294", "uid:4294967294");
    expect_name("1000,1001", "local");
    expect_name("none", "local");
}
END_TEST

static const char *const no_lists[] = {"",           ",",
                                       "1,",         ",1",
                                       "1,,2",       " 1",
                                       "+1",         "-1",
                                       "1 ",         "root",
                                       "4294967295", "99999999999999999999",
                                       "0x1",        "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"};

START_TEST(other_texts_are_no_lists)
{
    struct ps_local_users users = {0};

    ck_assert(!ps_local_users_parse(&users, no_lists[_i]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_users");
    TCase *tests = tcase_create("local_users");
    tcase_add_test(tests, those_who_are_listed_may_come_in);
    tcase_add_test(tests, none_lets_nobody_in_and_no_list_everybody);
    tcase_add_test(tests, one_user_has_a_name_of_its_own);
    tcase_add_loop_test(tests, other_texts_are_no_lists, 0, (int)PS_ARRAY_COUNT(no_lists));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
