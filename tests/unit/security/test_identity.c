/* SPDX-License-Identifier: Apache-2.0 */
/* security/identity.c: what is a name, and whose is whose. */
#include "security/identity.h"

#include "base/attributes.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct ps_identity identity_of(enum ps_identity_kind kind, const char *name)
{
    struct ps_identity identity;
    ck_assert_int_eq(ps_identity_set(&identity, kind, ps_bytes_of_text(name), NULL), PS_OK);
    return identity;
}

START_TEST(a_name_is_kept_as_it_is)
{
    struct ps_identity identity = identity_of(PS_IDENTITY_CERTIFICATE, "spiffe://a/job/b");

    ck_assert_str_eq(identity.name, "spiffe://a/job/b");
    ck_assert_int_eq(identity.kind, PS_IDENTITY_CERTIFICATE);
}
END_TEST

static const char *const no_names[] = {"", "two words", "line\n", "beep\a", "caf\xc3\xa9", "\x7f"};

START_TEST(what_does_not_print_is_not_a_name)
{
    struct ps_identity identity;

    ck_assert_int_eq(
        ps_identity_set(&identity, PS_IDENTITY_TOKEN, ps_bytes_of_text(no_names[_i]), NULL),
        PS_ERR_UNAUTHENTICATED);
}
END_TEST

START_TEST(the_longest_name_has_255_bytes)
{
    char name[PS_IDENTITY_BYTES_MAX + 2];
    struct ps_identity identity;
    memset(name, 'n', sizeof name);
    struct ps_bytes text = {(const uint8_t *)name, PS_IDENTITY_BYTES_MAX};

    ck_assert_int_eq(ps_identity_set(&identity, PS_IDENTITY_TOKEN, text, NULL), PS_OK);
    text.size++;
    ck_assert_int_eq(ps_identity_set(&identity, PS_IDENTITY_TOKEN, text, NULL),
                     PS_ERR_UNAUTHENTICATED);
}
END_TEST

START_TEST(owners_are_the_same_for_the_same_kind_and_name_only)
{
    uint64_t owner = identity_of(PS_IDENTITY_TOKEN, "a").owner;
    struct ps_identity anybody;
    ps_identity_set_anybody(&anybody);

    ck_assert_uint_ne(owner, 0);
    ck_assert_uint_eq(owner, identity_of(PS_IDENTITY_TOKEN, "a").owner);
    ck_assert_uint_ne(owner, identity_of(PS_IDENTITY_TOKEN, "b").owner);
    ck_assert_uint_ne(owner, identity_of(PS_IDENTITY_CERTIFICATE, "a").owner);
    ck_assert_uint_ne(anybody.owner, 0);
    ck_assert_str_eq(anybody.name, "anybody");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("identity");
    TCase *tests = tcase_create("identity");
    tcase_add_test(tests, a_name_is_kept_as_it_is);
    tcase_add_loop_test(tests, what_does_not_print_is_not_a_name, 0, (int)PS_ARRAY_COUNT(no_names));
    tcase_add_test(tests, the_longest_name_has_255_bytes);
    tcase_add_test(tests, owners_are_the_same_for_the_same_kind_and_name_only);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
