/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/header_entry_writer.c: what a header says of one parameter, to the letter. */
#include "checkpoint/header_entry_writer.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_buffer text;
static const uint8_t config[] = {'f', 'o', 'o'};
static const uint8_t other[] = {'b', 'a', 'r'};
static struct ps_checkpoint_parameter parameter;

static void set_up(void)
{
    ps_buffer_init(&text, ps_allocator_heap(), 4096);
    parameter = (struct ps_checkpoint_parameter){.name = ps_bytes_of_text("w"),
                                                 .id = 1,
                                                 .version = 2,
                                                 .step = 3,
                                                 .dtype = PS_F32,
                                                 .count = 6,
                                                 .state_count = 1,
                                                 .config = {config, sizeof config}};
}

static void tear_down(void)
{
    ps_buffer_fini(&text);
}

static const char *listed(void)
{
    const struct ps_header_slot slot = {.parameter = &parameter, .crc32c = {0x1, 0xabcdef01}};
    ps_buffer_clear(&text);
    ps_header_write_parameters(&slot, 1, ps_allocator_heap(), &text);
    ck_assert_int_eq(ps_buffer_status(&text, NULL), PS_OK);
    return text.text;
}

/* The file of a program of any year has these bytes. */
START_TEST(a_plain_parameter_has_no_member_more)
{
    ck_assert_str_eq(listed(), "[{\"name\":\"w\",\"id\":\"1\",\"version\":\"2\",\"step\":\"3\","
                               "\"config\":\"Zm9v\",\"crc32c\":[\"00000001\",\"abcdef01\"]}]");
}
END_TEST

START_TEST(what_came_while_training_is_said)
{
    parameter.birth = 7;
    parameter.defined = (struct ps_bytes){other, sizeof other};

    ck_assert_ptr_nonnull(strstr(listed(), ",\"birth\":\"7\",\"defined\":\"YmFy\"}"));
}
END_TEST

START_TEST(a_configuration_that_is_the_first_is_said_once)
{
    parameter.birth = 7;
    parameter.defined = parameter.config;

    ck_assert_ptr_nonnull(strstr(listed(), ",\"birth\":\"7\"}"));
}
END_TEST

/* It has no tensors, which would say its type and its states. */
START_TEST(one_that_is_as_in_the_base_says_what_tensors_would)
{
    parameter.carry = PS_CARRY_AS_BASE;

    ck_assert_ptr_nonnull(
        strstr(listed(), "\"carry\":\"as-base\",\"dtype\":\"F32\",\"states\":\"1\",\"crc32c\":[]"));
}
END_TEST

START_TEST(tensors_begin_where_the_one_before_ends)
{
    struct ps_json_writer json;
    uint64_t offset = 8;
    ps_json_writer_init(&json, &text);
    ps_json_begin_object(&json, NULL);
    ps_header_write_tensor(&json, &parameter, 0, &offset);
    ck_assert_uint_eq(offset, 8 + 24);
    ps_header_write_tensor(&json, &parameter, 1, &offset);
    ps_json_end_object(&json);

    ck_assert_uint_eq(offset, 8 + 48);
    ck_assert_ptr_nonnull(
        strstr(text.text, "{\"w\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[8,32]},"));
    ck_assert_ptr_nonnull(strstr(text.text, "\"data_offsets\":[32,56]}}"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header_entry_writer");
    TCase *tests = tcase_create("header_entry_writer");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_plain_parameter_has_no_member_more);
    tcase_add_test(tests, what_came_while_training_is_said);
    tcase_add_test(tests, a_configuration_that_is_the_first_is_said_once);
    tcase_add_test(tests, one_that_is_as_in_the_base_says_what_tensors_would);
    tcase_add_test(tests, tensors_begin_where_the_one_before_ends);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
