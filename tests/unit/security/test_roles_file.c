/* SPDX-License-Identifier: Apache-2.0 */
/* security/roles_file.c: rules in YAML. */
#include "security/roles_file.h"

#include "base/attributes.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <string.h>

static struct ps_error error;

static enum ps_status read_text(const char *text, const struct ps_allocator *memory,
                                struct ps_roles **roles)
{
    struct memory_files *disk = memory_files_create(1);
    memory_files_put(disk, "/t/roles.yaml", ps_bytes_of_text(text));
    enum ps_status status =
        ps_roles_read("/t/roles.yaml", memory_files_files(disk), memory, roles, &error);
    memory_files_destroy(disk);
    return status;
}

#define TWO_RULES                      \
    "rules:\n"                         \
    "  - identity: \"spiffe://a/*\"\n" \
    "    role: trainer\n"              \
    "    job: demo\n"                  \
    "    prefix: encoder/\n"           \
    "  - {identity: alice, role: admin} # the other\n"

START_TEST(rules_are_read_with_what_is_left_out_filled_in)
{
    struct ps_roles *roles = NULL;

    ck_assert_msg(read_text(TWO_RULES, ps_allocator_heap(), &roles) == PS_OK, "%s", error.text);

    ck_assert_uint_eq(roles->rule_count, 2);
    ck_assert_str_eq(roles->rules[0].identity, "spiffe://a/*");
    ck_assert_str_eq(roles->rules[0].job, "demo");
    ck_assert_str_eq(roles->rules[0].prefix, "encoder/");
    ck_assert_int_eq(roles->rules[0].role, PS_ROLE_TRAINER);
    ck_assert_str_eq(roles->rules[1].identity, "alice");
    ck_assert_str_eq(roles->rules[1].job, "*");
    ck_assert_str_eq(roles->rules[1].prefix, "");
    ck_assert_int_eq(roles->rules[1].role, PS_ROLE_ADMIN);
    ps_roles_release(roles);
}
END_TEST

START_TEST(a_list_without_rules_allows_nothing)
{
    struct ps_roles *roles = NULL;

    ck_assert_msg(read_text("rules: []\n", ps_allocator_heap(), &roles) == PS_OK, "%s", error.text);

    ck_assert_uint_eq(roles->rule_count, 0);
    ps_roles_release(roles);
}
END_TEST

static const struct {
    const char *text;
    const char *words;
} bad_files[] = {
    {"rule: []\n", "rule"},
    {"rules: 7\n", "/t/roles.yaml: "},
    {"- identity: a\n  role: admin\n", "/t/roles.yaml: "},
    {"rules:\n  - identity: a\n", "role"},
    {"rules:\n  - role: admin\n", "identity"},
    {"rules:\n  - identity: ''\n    role: admin\n", "/t/roles.yaml: "},
    {"rules:\n  - identity: a\n    role: god\n", "rule 1: role \"god\": expected reader"},
    {"rules:\n  - identity: a\n    role: admin\n    prefx: b\n", "prefx"},
    {"rules: [\n", "/t/roles.yaml: "},
    {"rules:\n  - &a {identity: a, role: admin}\n  - *a\n", "/t/roles.yaml: "},
};

START_TEST(a_file_with_a_mistake_is_refused_as_a_whole)
{
    struct ps_roles *roles = NULL;

    ck_assert_int_eq(read_text(bad_files[_i].text, ps_allocator_heap(), &roles), PS_ERR_BAD_INPUT);

    ck_assert_ptr_null(roles);
    ck_assert_msg(strstr(error.text, bad_files[_i].words) != NULL, "%s", error.text);
}
END_TEST

START_TEST(an_empty_file_is_refused)
{
    struct ps_roles *roles = NULL;

    ck_assert_int_eq(read_text("", ps_allocator_heap(), &roles), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(read_text("# nothing\n", ps_allocator_heap(), &roles), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_roles *roles = NULL;

    enum ps_status status = read_text(TWO_RULES, &memory, &roles);

    ck_assert_int_eq(status, _i < heap.seen ? PS_ERR_NO_MEMORY : PS_OK);
    ps_roles_release(roles);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("roles_file");
    TCase *tests = tcase_create("roles_file");
    tcase_add_test(tests, rules_are_read_with_what_is_left_out_filled_in);
    tcase_add_test(tests, a_list_without_rules_allows_nothing);
    tcase_add_loop_test(tests, a_file_with_a_mistake_is_refused_as_a_whole, 0,
                        (int)PS_ARRAY_COUNT(bad_files));
    tcase_add_test(tests, an_empty_file_is_refused);
    tcase_add_loop_test(tests, a_refused_allocation_leaves_nothing, 0, 5);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
