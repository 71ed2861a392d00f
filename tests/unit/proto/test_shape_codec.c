/* SPDX-License-Identifier: Apache-2.0 */
/* proto/shape_codec.c: shapes come back as they went, packed or not, within their bound. */
#include "proto/shape_codec.h"

#include "proto/codec.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_buffer head;
static struct ps_decoded decoded;
static struct ps_init_request read;
static struct ps_error error;

static void set_up(void)
{
    ps_buffer_init(&head, ps_allocator_heap(), 1024);
    error = (struct ps_error){0};
}

static void tear_down(void)
{
    ps_decoded_release(&decoded);
    ps_buffer_fini(&head);
}

static enum ps_status decode(void)
{
    struct ps_bytes bytes = {(const uint8_t *)head.text, head.size};
    ps_decoded_release(&decoded);
    return ps_decode_init(ps_view_of(&bytes), ps_allocator_heap(), &read, &decoded, &error);
}

static void expect_back(struct ps_shape shape)
{
    const struct ps_init_request request = {.shape = shape};
    ps_buffer_clear(&head);
    ps_encode_init(&request, &head);
    ck_assert_int_eq(decode(), PS_OK);
    ck_assert(ps_shape_equal(&read.shape, &shape));
}

START_TEST(shapes_come_back)
{
    struct ps_shape widest = {.is_given = true, .rank = PS_SHAPE_RANK_MAX};
    for (size_t i = 0; i < PS_SHAPE_RANK_MAX; i++)
        widest.lengths[i] = UINT64_MAX - i;
    expect_back((struct ps_shape){0});
    expect_back((struct ps_shape){.is_given = true});
    expect_back((struct ps_shape){.is_given = true, .rank = 3, .lengths = {300, 1, 70000}});
    expect_back(widest);
}
END_TEST

START_TEST(a_row_of_a_list_has_its_shape)
{
    const struct ps_param_info row = {.name = ps_bytes_of_text("w"),
                                      .rule = "sgd",
                                      .shape = {.is_given = true, .rank = 2, .lengths = {2, 3}}};
    const struct ps_list_reply reply = {&row, 1, false};
    struct ps_list_reply back;
    ps_encode_list_reply(&reply, &head);
    struct ps_bytes bytes = {(const uint8_t *)head.text, head.size};

    ck_assert_int_eq(
        ps_decode_list_reply(ps_view_of(&bytes), ps_allocator_heap(), &back, &decoded, &error),
        PS_OK);

    ck_assert(ps_shape_equal(&back.params[0].shape, &row.shape));
}
END_TEST

START_TEST(lengths_that_are_not_packed_are_read_too)
{
    ps_wire_put_uint(&head, 10, 2);
    ps_wire_put_head(&head, 10, 0);
    ps_wire_put_uint(&head, 10, 3);
    ck_assert_int_eq(decode(), PS_OK);
    ck_assert_uint_eq(read.shape.rank, 2);
    ck_assert_uint_eq(read.shape.lengths[0], 2);
    ck_assert_uint_eq(read.shape.lengths[1], 3);
}
END_TEST

static void refuse(const char *text)
{
    ck_assert_int_eq(decode(), PS_ERR_BAD_INPUT);
    ck_assert_msg(strstr(error.text, text) != NULL, "%s", error.text);
}

START_TEST(too_many_dimensions_are_refused)
{
    ps_wire_put_head(&head, 10, PS_SHAPE_RANK_MAX + 1);
    for (size_t i = 0; i <= PS_SHAPE_RANK_MAX; i++)
        ps_wire_put_packed(&head, 1);
    refuse("more than 16 dimensions");
}
END_TEST

START_TEST(a_scalar_with_lengths_is_refused_in_either_order)
{
    ps_wire_put_uint(&head, 11, 1);
    ps_wire_put_uint(&head, 10, 1);
    refuse("a scalar has no dimensions");
    ps_buffer_clear(&head);
    ps_wire_put_uint(&head, 10, 1);
    ps_wire_put_uint(&head, 11, 1);
    refuse("a scalar has no dimensions");
}
END_TEST

START_TEST(lengths_that_end_inside_a_number_are_refused)
{
    ps_wire_put_bytes(&head, 10, (struct ps_bytes){(const uint8_t *)"\x02\x80", 2});
    refuse("ends inside a number");
    ps_buffer_clear(&head);
    ps_wire_put_double(&head, 10, 1.0);
    refuse("shape");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shape_codec");
    TCase *tests = tcase_create("shape_codec");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, shapes_come_back);
    tcase_add_test(tests, a_row_of_a_list_has_its_shape);
    tcase_add_test(tests, lengths_that_are_not_packed_are_read_too);
    tcase_add_test(tests, too_many_dimensions_are_refused);
    tcase_add_test(tests, a_scalar_with_lengths_is_refused_in_either_order);
    tcase_add_test(tests, lengths_that_end_inside_a_number_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
