/* SPDX-License-Identifier: Apache-2.0 */
/* proto/applied_codec.c: LastApplied there and back, and what is not it. */
#include "proto/applied_codec.h"

#include "base/buffer.h"
#include "proto/wire.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

#define ROWS 3

static char room[4096];
static struct ps_buffer message;
static struct ps_applied_row taken[ROWS];
static char names[ROWS][16];
static size_t taken_count;

static void begin_test(void)
{
    ps_buffer_init_fixed(&message, room, sizeof room);
    taken_count = 0;
}

static struct ps_bytes written(void)
{
    return (struct ps_bytes){(const uint8_t *)message.text, message.size};
}

static enum ps_status take(void *self, const struct ps_applied_row *row, struct ps_error *error)
{
    (void)self;
    if (taken_count == ROWS)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room");
    memcpy(names[taken_count], row->name.data, row->name.size);
    taken[taken_count] = *row;
    taken[taken_count].name.data = (const uint8_t *)names[taken_count];
    taken_count++;
    return PS_OK;
}

START_TEST(a_question_comes_back_as_it_went)
{
    struct ps_applied_texts texts;
    struct ps_applied_request read;
    const uint8_t id[] = {'@', 0, 0xff};
    const struct ps_applied_request request = {.id = {.client_id = {id, sizeof id}},
                                               .begins = true,
                                               .after = ps_bytes_of_text("w"),
                                               .limit = 7,
                                               .shard = 3};
    ps_encode_applied(&request, &message);
    struct ps_bytes bytes = written();

    ck_assert_int_eq(ps_decode_applied(ps_view_of(&bytes), &texts, &read, NULL), PS_OK);

    ck_assert(ps_bytes_equal(read.id.client_id, request.id.client_id));
    ck_assert(read.begins && read.id.present);
    ck_assert(ps_bytes_equal(read.after, request.after));
    ck_assert_uint_eq(read.limit, 7);
    ck_assert_uint_eq(read.shard, 3);
}
END_TEST

START_TEST(an_id_that_is_too_long_is_refused)
{
    struct ps_applied_texts texts;
    struct ps_applied_request read;
    uint8_t id[PS_CLIENT_ID_BYTES_MAX + 1] = {0};
    ps_wire_put_bytes(&message, 1, (struct ps_bytes){id, sizeof id});
    struct ps_bytes bytes = written();

    ck_assert_int_eq(ps_decode_applied(ps_view_of(&bytes), &texts, &read, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(an_answer_comes_back_with_its_rows)
{
    const struct ps_applied_row rows[] = {{ps_bytes_of_text("a"), 1, 2},
                                          {ps_bytes_of_text("b"), UINT64_MAX, 0}};
    const struct ps_applied_reply reply = {.is_known = true,
                                           .is_whole = true,
                                           .session = 5,
                                           .sequence = 6,
                                           .used_us = 7,
                                           .begun = 8,
                                           .rows = rows,
                                           .row_count = 2,
                                           .more = true};
    struct ps_applied_reply read;
    ps_encode_applied_reply(&reply, &message);
    struct ps_bytes bytes = written();

    ck_assert_int_eq(ps_decode_applied_reply(ps_view_of(&bytes), take, NULL, &read, NULL), PS_OK);

    ck_assert(read.is_known && read.is_whole && read.more);
    ck_assert_uint_eq(read.session, 5);
    ck_assert_uint_eq(read.sequence, 6);
    ck_assert_uint_eq(read.used_us, 7);
    ck_assert_uint_eq(read.begun, 8);
    ck_assert_uint_eq(read.row_count, 2);
    ck_assert_uint_eq(taken_count, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(ps_bytes_equal(taken[i].name, rows[i].name));
        ck_assert_uint_eq(taken[i].pushes, rows[i].pushes);
        ck_assert_uint_eq(taken[i].version, rows[i].version);
    }
}
END_TEST

START_TEST(an_answer_that_is_cut_is_refused_or_has_fewer_fields)
{
    const struct ps_applied_row row = {ps_bytes_of_text("name"), 1000, 2000};
    const struct ps_applied_reply reply = {.is_known = true, .rows = &row, .row_count = 1};
    struct ps_applied_reply read;
    ps_encode_applied_reply(&reply, &message);
    for (size_t size = 3; size < message.size; size++) {
        struct ps_bytes bytes = {(const uint8_t *)message.text, size};
        ck_assert_int_eq(ps_decode_applied_reply(ps_view_of(&bytes), take, NULL, &read, NULL),
                         PS_ERR_BAD_INPUT);
    }
}
END_TEST

START_TEST(a_name_that_is_not_text_does_not_reach_a_terminal)
{
    const uint8_t name[] = {'a', 0xff};
    const struct ps_applied_row row = {{name, sizeof name}, 1, 1};
    const struct ps_applied_reply reply = {.rows = &row, .row_count = 1};
    struct ps_applied_reply read;
    ps_encode_applied_reply(&reply, &message);
    struct ps_bytes bytes = written();

    ck_assert_int_eq(ps_decode_applied_reply(ps_view_of(&bytes), take, NULL, &read, NULL),
                     PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(taken_count, 0);
}
END_TEST

START_TEST(a_taker_that_fails_ends_the_reading)
{
    const struct ps_applied_row row = {ps_bytes_of_text("a"), 1, 1};
    const struct ps_applied_reply reply = {.rows = &row, .row_count = 1};
    struct ps_applied_reply read;
    ps_encode_applied_reply(&reply, &message);
    struct ps_bytes bytes = written();
    taken_count = ROWS;

    ck_assert_int_eq(ps_decode_applied_reply(ps_view_of(&bytes), take, NULL, &read, NULL),
                     PS_ERR_NO_MEMORY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("applied_codec");
    TCase *tests = tcase_create("applied_codec");
    tcase_add_checked_fixture(tests, begin_test, NULL);
    tcase_add_test(tests, a_question_comes_back_as_it_went);
    tcase_add_test(tests, an_id_that_is_too_long_is_refused);
    tcase_add_test(tests, an_answer_comes_back_with_its_rows);
    tcase_add_test(tests, an_answer_that_is_cut_is_refused_or_has_fewer_fields);
    tcase_add_test(tests, a_name_that_is_not_text_does_not_reach_a_terminal);
    tcase_add_test(tests, a_taker_that_fails_ends_the_reading);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
