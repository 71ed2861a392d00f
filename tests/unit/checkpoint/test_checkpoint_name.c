/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/checkpoint_name.c: names of checkpoint files. */
#include "checkpoint/checkpoint_name.h"

#include "base/attributes.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define UUID "0f47ac10-58cc-4372-a567-0e02b2c3d479"

START_TEST(a_name_says_epoch_position_and_uuid)
{
    char name[PS_CHECKPOINT_NAME_BYTES];

    ps_checkpoint_name_write(0xabc, UINT64_MAX, UUID, "", PS_CHECKPOINT_SUFFIX, name);

    ck_assert_str_eq(name, "0000000000000abc-ffffffffffffffff-" UUID ".safetensors");
}
END_TEST

START_TEST(a_name_is_taken_apart_again)
{
    char name[PS_CHECKPOINT_NAME_BYTES];
    uint64_t epoch = 0;
    uint64_t position = 0;
    char uuid[37];
    char base[37] = "x";
    ps_checkpoint_name_write(7, 0x1000000000000000, UUID, "", PS_CHECKPOINT_TEMPORARY_SUFFIX, name);

    ck_assert(ps_checkpoint_name_read(name, PS_CHECKPOINT_TEMPORARY_SUFFIX, &epoch, &position, uuid,
                                      base));

    ck_assert_uint_eq(epoch, 7);
    ck_assert_uint_eq(position, 0x1000000000000000);
    ck_assert_str_eq(uuid, UUID);
}
END_TEST

START_TEST(other_files_are_no_checkpoints)
{
    static const char *const others[] = {
        "",
        "-",
        ".safetensors",
        "model.safetensors",
        "0000000000000001-0000000000000002-.safetensors",
        "0000000000000001-0000000000000002-u.safetensors.tmp",
        "0000000000000001-0000000000000002-u.safetensor",
        "000000000000001-00000000000000002-u.safetensors",
        "000000000000000A-0000000000000002-u.safetensors",
        "0000000000000001_0000000000000002-u.safetensors",
        "0000000000000001-0000000000000002_u.safetensors",
        "0000000000000001-0000000000000002-u/v.safetensors",
        "0000000000000001-0000000000000002-u.v.safetensors",
        "0000000000000001-0000000000000002-" UUID "0.safetensors",
        "0000000000000001-.safetensors",
        "0000000000000001-0000000000000002-u-on-.safetensors",
        "0000000000000001-0000000000000002--on-u.safetensors",
        "0000000000000001-0000000000000002-u-on-v-on-w.safetensors",
        "0000000000000001-0000000000000002-u-on-" UUID "0.safetensors",
        "0000000000000001-0000000000000002-u-on-../v.safetensors",
    };
    for (size_t i = 0; i < PS_ARRAY_COUNT(others); i++) {
        uint64_t epoch = 99;
        uint64_t position = 99;
        char uuid[37] = "untouched";
        char base[37] = "untouched";

        ck_assert_msg(!ps_checkpoint_name_read(others[i], PS_CHECKPOINT_SUFFIX, &epoch, &position,
                                               uuid, base),
                      "%s", others[i]);

        ck_assert_uint_eq(epoch + position, 198);
        ck_assert_str_eq(uuid, "untouched");
        ck_assert_str_eq(base, "untouched");
    }
}
END_TEST

START_TEST(a_name_says_what_the_file_adds_to)
{
    char name[PS_CHECKPOINT_NAME_BYTES];
    uint64_t epoch = 0;
    uint64_t position = 0;
    char uuid[37];
    char base[37];

    ps_checkpoint_name_write(UINT64_MAX, 1, UUID, UUID, PS_CHECKPOINT_SPARE_SUFFIX, name);

    ck_assert_str_eq(name,
                     "ffffffffffffffff-0000000000000001-" UUID "-on-" UUID ".safetensors.spare");
    ck_assert(
        ps_checkpoint_name_read(name, PS_CHECKPOINT_SPARE_SUFFIX, &epoch, &position, uuid, base));
    ck_assert_str_eq(uuid, UUID);
    ck_assert_str_eq(base, UUID);
    ck_assert(ps_checkpoint_name_read("0000000000000001-0000000000000002-a-on.safetensors",
                                      PS_CHECKPOINT_SUFFIX, &epoch, &position, uuid, base));
    ck_assert_str_eq(uuid, "a-on");
    ck_assert_str_eq(base, "");
}
END_TEST

START_TEST(only_harmless_characters_make_a_uuid)
{
    ck_assert(ps_checkpoint_uuid_valid(UUID));
    ck_assert(ps_checkpoint_uuid_valid("u1"));
    ck_assert(!ps_checkpoint_uuid_valid(""));
    ck_assert(!ps_checkpoint_uuid_valid("a-on-b"));
    ck_assert(!ps_checkpoint_uuid_valid("../../etc"));
    ck_assert(!ps_checkpoint_uuid_valid("a b"));
    ck_assert(!ps_checkpoint_uuid_valid(UUID "0"));
}
END_TEST

START_TEST(names_sort_by_age)
{
    char older[PS_CHECKPOINT_NAME_BYTES];
    char newer[PS_CHECKPOINT_NAME_BYTES];
    ps_checkpoint_name_write(9, 0xffff, "z", "", PS_CHECKPOINT_SUFFIX, older);
    ps_checkpoint_name_write(16, 2, "a", "", PS_CHECKPOINT_SUFFIX, newer);

    ck_assert_int_lt(strcmp(older, newer), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_name");
    TCase *tests = tcase_create("checkpoint_name");
    tcase_add_test(tests, a_name_says_epoch_position_and_uuid);
    tcase_add_test(tests, a_name_is_taken_apart_again);
    tcase_add_test(tests, other_files_are_no_checkpoints);
    tcase_add_test(tests, a_name_says_what_the_file_adds_to);
    tcase_add_test(tests, only_harmless_characters_make_a_uuid);
    tcase_add_test(tests, names_sort_by_age);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
