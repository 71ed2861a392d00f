/* SPDX-License-Identifier: Apache-2.0 */
/* security/roles.c: what rules allow, and that they allow nothing else. */
#include "security/roles.h"

#include "base/attributes.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

/* A list of rules on the heap, as a file makes it. */
static struct ps_roles *roles_of(const struct ps_role_rule *rules, size_t count)
{
    struct ps_roles *roles =
        ps_zeroed(ps_allocator_heap(), sizeof *roles + count * sizeof roles->rules[0]);
    ck_assert_ptr_nonnull(roles);
    roles->memory = ps_allocator_heap();
    atomic_init(&roles->references, 1);
    roles->rule_count = count;
    memcpy(roles->rules, rules, count * sizeof roles->rules[0]);
    return roles;
}

static const struct ps_role_rule table[] = {
    {"alice", "*", "", PS_ROLE_ADMIN},
    {"spiffe://a/job/demo/*", "demo", "", PS_ROLE_TRAINER},
    {"bob", "*", "encoder/", PS_ROLE_TRAINER},
    {"bob", "*", "", PS_ROLE_READER},
    {"*.eyes", "d*o", "", PS_ROLE_READER},
};

static bool allow_name(const struct ps_roles *roles, const char *identity, enum ps_role role,
                       const char *job, const char *name)
{
    return ps_roles_allow_name(roles, identity, role, job, ps_bytes_of_text(name));
}

START_TEST(without_rules_everybody_may_do_everything)
{
    ck_assert(ps_roles_allow_job(NULL, "x", PS_ROLE_ADMIN, "j"));
    ck_assert(ps_roles_allow_some(NULL, "x", PS_ROLE_ADMIN, "j"));
    ck_assert(allow_name(NULL, "x", PS_ROLE_ADMIN, "j", "w"));
}
END_TEST

START_TEST(an_empty_list_allows_nothing)
{
    struct ps_roles *roles = roles_of(table, 0);

    ck_assert(!ps_roles_allow_job(roles, "alice", PS_ROLE_READER, "j"));
    ck_assert(!ps_roles_allow_some(roles, "alice", PS_ROLE_READER, "j"));
    ck_assert(!allow_name(roles, "alice", PS_ROLE_READER, "j", "w"));
    ps_roles_release(roles);
}
END_TEST

/* One row: who, role, job, and what is allowed for the job, for some of it and for "encoder/w" and
 * "w". */
static const struct {
    const char *identity;
    enum ps_role role;
    const char *job;
    bool job_is, some_is, encoder_is, other_is;
} cases[] = {
    {"alice", PS_ROLE_ADMIN, "any", true, true, true, true},
    {"alice", PS_ROLE_READER, "", true, true, true, true},
    {"Alice", PS_ROLE_READER, "any", false, false, false, false},
    {"alice2", PS_ROLE_READER, "any", false, false, false, false},
    {"spiffe://a/job/demo/7", PS_ROLE_TRAINER, "demo", true, true, true, true},
    {"spiffe://a/job/demo/7", PS_ROLE_READER, "demo", true, true, true, true},
    {"spiffe://a/job/demo/7", PS_ROLE_ADMIN, "demo", false, false, false, false},
    {"spiffe://a/job/demo/7", PS_ROLE_TRAINER, "demo2", false, false, false, false},
    {"spiffe://a/job/other", PS_ROLE_TRAINER, "demo", false, false, false, false},
    {"bob", PS_ROLE_TRAINER, "demo", false, true, true, false},
    {"bob", PS_ROLE_READER, "demo", true, true, true, true},
    {"bob", PS_ROLE_ADMIN, "demo", false, false, false, false},
    {"two.eyes", PS_ROLE_READER, "do", true, true, true, true},
    {"two.eyes", PS_ROLE_READER, "dodo", true, true, true, true},
    {"two.eyes", PS_ROLE_READER, "dod", false, false, false, false},
    {"two.eyes", PS_ROLE_TRAINER, "do", false, false, false, false},
    {"two.eyes.no", PS_ROLE_READER, "do", false, false, false, false},
};

START_TEST(each_question_is_answered_by_the_rules)
{
    struct ps_roles *roles = roles_of(table, PS_ARRAY_COUNT(table));

    ck_assert_int_eq(ps_roles_allow_job(roles, cases[_i].identity, cases[_i].role, cases[_i].job),
                     cases[_i].job_is);
    ck_assert_int_eq(ps_roles_allow_some(roles, cases[_i].identity, cases[_i].role, cases[_i].job),
                     cases[_i].some_is);
    ck_assert_int_eq(
        allow_name(roles, cases[_i].identity, cases[_i].role, cases[_i].job, "encoder/w"),
        cases[_i].encoder_is);
    ck_assert_int_eq(allow_name(roles, cases[_i].identity, cases[_i].role, cases[_i].job, "w"),
                     cases[_i].other_is);
    ps_roles_release(roles);
}
END_TEST

START_TEST(a_name_shorter_than_the_prefix_is_not_below_it)
{
    struct ps_roles *roles = roles_of(table, PS_ARRAY_COUNT(table));

    ck_assert(!allow_name(roles, "bob", PS_ROLE_TRAINER, "demo", "encoder"));
    ck_assert(!allow_name(roles, "bob", PS_ROLE_TRAINER, "demo", ""));
    ck_assert(allow_name(roles, "bob", PS_ROLE_TRAINER, "demo", "encoder/"));
    ps_roles_release(roles);
}
END_TEST

START_TEST(words_of_roles_are_exact)
{
    ck_assert_int_eq(ps_role_of_text("reader"), PS_ROLE_READER);
    ck_assert_int_eq(ps_role_of_text("trainer"), PS_ROLE_TRAINER);
    ck_assert_int_eq(ps_role_of_text("admin"), PS_ROLE_ADMIN);
    ck_assert_int_eq(ps_role_of_text("Admin"), PS_ROLE_NONE);
    ck_assert_int_eq(ps_role_of_text("none"), PS_ROLE_NONE);
    ck_assert_str_eq(ps_role_text(PS_ROLE_TRAINER), "trainer");
}
END_TEST

START_TEST(many_stars_take_no_longer_than_the_lengths_allow)
{
    static char text[4096];
    static const struct ps_role_rule stars = {"*a*a*a*a*a*a*a*a*a*a*a*a*b", "*", "", PS_ROLE_ADMIN};
    struct ps_roles *roles = roles_of(&stars, 1);
    memset(text, 'a', sizeof text - 1);

    ck_assert(!ps_roles_allow_job(roles, text, PS_ROLE_READER, "j"));
    ps_roles_release(roles);
}
END_TEST

START_TEST(lists_are_equal_when_every_rule_is)
{
    struct ps_roles *first = roles_of(table, 3);
    struct ps_roles *same = roles_of(table, 3);
    struct ps_roles *shorter = roles_of(table, 2);
    struct ps_roles *other = roles_of(table + 1, 3);

    ck_assert(ps_roles_equal(first, same));
    ck_assert(!ps_roles_equal(first, shorter));
    ck_assert(!ps_roles_equal(first, other));
    ck_assert_ptr_eq(ps_roles_acquire(first), first);
    ck_assert_ptr_null(ps_roles_acquire(NULL));
    ps_roles_release(first);
    ps_roles_release(first);
    ps_roles_release(same);
    ps_roles_release(shorter);
    ps_roles_release(other);
    ps_roles_release(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("roles");
    TCase *tests = tcase_create("roles");
    tcase_add_test(tests, without_rules_everybody_may_do_everything);
    tcase_add_test(tests, an_empty_list_allows_nothing);
    tcase_add_loop_test(tests, each_question_is_answered_by_the_rules, 0,
                        (int)PS_ARRAY_COUNT(cases));
    tcase_add_test(tests, a_name_shorter_than_the_prefix_is_not_below_it);
    tcase_add_test(tests, words_of_roles_are_exact);
    tcase_add_test(tests, many_stars_take_no_longer_than_the_lengths_allow);
    tcase_add_test(tests, lists_are_equal_when_every_rule_is);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
