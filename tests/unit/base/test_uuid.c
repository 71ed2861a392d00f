/* SPDX-License-Identifier: Apache-2.0 */
/* base/uuid.c: names of version 7, which sort by age. */
#include "base/uuid.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_uuid_has_the_form_of_version_7)
{
    static const char form[] = "00000000-0001-7xxx-xxxx-xxxxxxxxxxxx";
    char uuid[PS_UUID_BYTES];

    ps_uuid_make(NULL, 1999999, uuid);

    ck_assert_uint_eq(strlen(uuid), PS_UUID_BYTES - 1);
    for (size_t i = 0; i < PS_UUID_BYTES - 1; i++)
        ck_assert_msg(form[i] == 'x' ? strchr("0123456789abcdef", uuid[i]) != NULL
                                     : form[i] == uuid[i],
                      "%s", uuid);
    ck_assert_ptr_nonnull(strchr("89ab", uuid[19]));
}
END_TEST

START_TEST(a_seed_repeats_its_uuids_and_the_system_does_not)
{
    char uuids[4][PS_UUID_BYTES];
    for (size_t i = 0; i < 2; i++) {
        struct ps_random random;
        ps_random_init(&random, 7);
        ps_uuid_make(&random, 1000000, uuids[i]);
        ps_uuid_make(NULL, 1000000, uuids[2 + i]);
    }

    ck_assert_str_eq(uuids[0], uuids[1]);
    ck_assert_str_ne(uuids[2], uuids[3]);
}
END_TEST

START_TEST(b5_uuids_sort_by_age)
{
    char before[PS_UUID_BYTES] = "";

    for (uint64_t now_ms = 1; now_ms < (uint64_t)1 << 43; now_ms = now_ms * 3 + 1) {
        char uuid[PS_UUID_BYTES];
        ps_uuid_make(NULL, now_ms * 1000000, uuid);
        ck_assert_int_lt(strcmp(before, uuid), 0);
        memcpy(before, uuid, sizeof before);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("uuid");
    TCase *tests = tcase_create("uuid");
    tcase_add_test(tests, a_uuid_has_the_form_of_version_7);
    tcase_add_test(tests, a_seed_repeats_its_uuids_and_the_system_does_not);
    tcase_add_test(tests, b5_uuids_sort_by_age);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
