/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/header_tensors.c: tensors that do not fit what the header says of its parameters. */
#include "checkpoint/header_pass.h"

#include "run_suite.h"
#include "sample_header.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

START_TEST(tensors_that_do_not_fit_their_parameter_are_corrupt)
{
    assert_header_corrupt(GOOD_METADATA, "", 0, "missing or out of order");
    assert_header_corrupt(GOOD_METADATA, TENSOR("v", "F32", "[2]", "[0,8]"), 8, "out of order");
    assert_header_corrupt(GOOD_METADATA, GOOD_TENSOR "," TENSOR("x", "F32", "[2]", "[8,16]"), 16,
                          "no parameter owns");
    assert_header_corrupt(GOOD_METADATA, "\"w\":7", 8, "element type");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "BF16", "[2]", "[0,8]"), 8, "element type");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "", "[2]", "[0,8]"), 8, "element type");
    assert_header_corrupt(FACTS LIST(ENTRY("w", ONE_SUM "," ONE_SUM)),
                          GOOD_TENSOR "," TENSOR("ps.state/0/w", "I32", "[2]", "[8,16]"), 16,
                          "another shape");
    assert_header_corrupt(FACTS LIST(ENTRY("w", ONE_SUM "," ONE_SUM)),
                          GOOD_TENSOR "," TENSOR("ps.state/0/w", "F32", "[1]", "[8,12]"), 12,
                          "another shape");
}
END_TEST

#define SESSIONS ",\"ps.sessions_crc32c\":\"89abcdef\""
#define SESSIONS_TENSOR TENSOR("ps.sessions", "U8", "[5]", "[8,13]")

START_TEST(sessions_stand_behind_the_parameters)
{
    sample_header_make(GOOD_METADATA SESSIONS, GOOD_TENSOR "," SESSIONS_TENSOR);

    ck_assert_msg(sample_header_parse(13) == PS_OK, "%s", sample.error.text);

    ck_assert(sample.header.has_sessions);
    ck_assert_uint_eq(sample.header.sessions_crc32c, 0x89abcdef);
    ck_assert_uint_eq(sample.header.sessions_offset, sample.head_size + 8);
    ck_assert_uint_eq(sample.header.sessions_bytes, 5);
    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(sessions_that_are_malformed_are_corrupt)
{
    static const char wrong[] = TENSOR("ps.sessions", "I32", "[2]", "[8,16]");
    assert_header_corrupt(GOOD_METADATA, GOOD_TENSOR "," SESSIONS_TENSOR, 13, "no parameter owns");
    assert_header_corrupt(GOOD_METADATA SESSIONS, GOOD_TENSOR, 8, "ps.sessions is missing");
    assert_header_corrupt(GOOD_METADATA SESSIONS SESSIONS, GOOD_TENSOR "," SESSIONS_TENSOR, 13,
                          "checksum of the sessions");
    assert_header_corrupt(GOOD_METADATA ",\"ps.sessions_crc32c\":\"89\"",
                          GOOD_TENSOR "," SESSIONS_TENSOR, 13, "checksum of the sessions");
    char tensors[256];
    (void)snprintf(tensors, sizeof tensors, "%s,%s", GOOD_TENSOR, wrong);
    assert_header_corrupt(GOOD_METADATA SESSIONS, tensors, 16, "another element type");
    assert_header_corrupt(GOOD_METADATA SESSIONS,
                          GOOD_TENSOR "," TENSOR("ps.session", "U8", "[5]", "[8,13]"), 13,
                          "missing");
    assert_header_corrupt(GOOD_METADATA SESSIONS,
                          GOOD_TENSOR "," TENSOR("ps.sessions", "U8", "[6]", "[8,14]"), 13,
                          "beyond");
    assert_header_corrupt(GOOD_METADATA SESSIONS,
                          GOOD_TENSOR "," TENSOR("ps.sessions", "U8", "[5]", "[9,14]"), 14, "gap");
    assert_header_corrupt(GOOD_METADATA SESSIONS,
                          GOOD_TENSOR "," SESSIONS_TENSOR "," SESSIONS_TENSOR, 18,
                          "no parameter owns");
    assert_header_corrupt(FACTS SESSIONS LIST(ENTRY("ps.sessions", ONE_SUM)), SESSIONS_TENSOR, 5,
                          "name");
}
END_TEST

#define ROUNDS ",\"ps.rounds_crc32c\":\"01234567\""
#define CLOCKS ",\"ps.clocks_crc32c\":\"89abcdef\""
#define ROUNDS_TENSOR TENSOR("ps.rounds", "U8", "[16]", "[8,24]")
#define CLOCKS_TENSOR TENSOR("ps.clocks", "U8", "[8]", "[24,32]")

START_TEST(sections_stand_behind_everything_else)
{
    sample_header_make(GOOD_METADATA ROUNDS CLOCKS,
                       GOOD_TENSOR "," ROUNDS_TENSOR "," CLOCKS_TENSOR);

    ck_assert_msg(sample_header_parse(32) == PS_OK, "%s", sample.error.text);

    const struct ps_header_range *rounds = &sample.header.sections[PS_CHECKPOINT_ROUNDS];
    const struct ps_header_range *clocks = &sample.header.sections[PS_CHECKPOINT_CLOCKS];
    ck_assert_uint_eq(rounds->offset, sample.head_size + 8);
    ck_assert_uint_eq(rounds->bytes, 16);
    ck_assert_uint_eq(rounds->crc32c, 0x01234567);
    ck_assert_uint_eq(clocks->offset, sample.head_size + 24);
    ck_assert_uint_eq(clocks->bytes, 8);
    ck_assert_uint_eq(clocks->crc32c, 0x89abcdef);
    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(sections_that_are_malformed_are_corrupt)
{
    assert_header_corrupt(GOOD_METADATA, GOOD_TENSOR "," ROUNDS_TENSOR, 24, "no parameter owns");
    assert_header_corrupt(GOOD_METADATA ROUNDS, GOOD_TENSOR, 8, "ps.rounds is missing");
    assert_header_corrupt(GOOD_METADATA ROUNDS ROUNDS, GOOD_TENSOR "," ROUNDS_TENSOR, 24,
                          "ps.rounds_crc32c");
    assert_header_corrupt(GOOD_METADATA ",\"ps.clocks_crc32c\":7", GOOD_TENSOR "," ROUNDS_TENSOR,
                          24, "ps.clocks_crc32c");
    assert_header_corrupt(GOOD_METADATA ROUNDS CLOCKS,
                          GOOD_TENSOR "," TENSOR("ps.clocks", "U8", "[8]", "[8,16]") "," TENSOR(
                              "ps.rounds", "U8", "[16]", "[16,32]"),
                          32, "ps.rounds is missing");
    assert_header_corrupt(GOOD_METADATA ROUNDS,
                          GOOD_TENSOR "," TENSOR("ps.rounds", "F32", "[4]", "[8,24]"), 24,
                          "another element type");
    assert_header_corrupt(GOOD_METADATA ROUNDS,
                          GOOD_TENSOR "," TENSOR("ps.rounds", "U8", "[4,4]", "[8,24]"), 24,
                          "one length");
    assert_header_corrupt(GOOD_METADATA ROUNDS,
                          GOOD_TENSOR "," TENSOR("ps.rounds", "U8", "[0]", "[8,8]"), 8, "empty");
    assert_header_corrupt(FACTS ROUNDS LIST(ENTRY("ps.rounds", ONE_SUM)), ROUNDS_TENSOR, 24,
                          "name");
}
END_TEST

START_TEST(bytes_are_no_type_of_a_parameter)
{
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "U8", "[8]", "[0,8]"), 8,
                          "unknown element type");
}
END_TEST

START_TEST(shapes_and_counts_that_overflow_are_corrupt)
{
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "2", "[0,8]"), 8, "shape");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[]", "[0,8]"), 8, "wrong size");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2,2]", "[0,8]"), 8, "beyond the end");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[4294967296,4294967296,2]", "[0,8]"),
                          8, "beyond every file");
    assert_header_corrupt(GOOD_METADATA,
                          TENSOR("w", "F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]"), 8,
                          "too many dimensions");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[-2]", "[0,8]"), 8, "shape");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2.5]", "[0,8]"), 8, "shape");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[3]", "[0,12]"), 8, "beyond the end");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F64", "[2305843009213693953]", "[0,8]"), 8,
                          "");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F64", "[\"2305843009213693953\"]", "[0,8]"),
                          8, "beyond the end");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[\"4611686018427387906\"]", "[0,8]"),
                          8, "beyond the end");
}
END_TEST

/* The shape of the first parameter of what is read. */
static void expect_shape(const char *metadata, const char *tensors, uint64_t data_bytes,
                         const char *shape)
{
    char text[PS_SHAPE_TEXT_BYTES];
    sample_header_make(metadata, tensors);
    ck_assert_msg(sample_header_parse(data_bytes) == PS_OK, "%s", sample.error.text);
    const struct ps_checkpoint_parameter *about = &sample.header.parameters[0].about;
    ck_assert_str_eq(ps_shape_text(&about->shape, about->count, text), shape);
    ps_header_fini(&sample.header);
}

START_TEST(a_tensor_of_several_dimensions_gives_the_parameter_its_shape)
{
    expect_shape(GOOD_METADATA, GOOD_TENSOR, 8, "[2]");
    expect_shape(GOOD_METADATA, TENSOR("w", "F32", "[1,2]", "[0,8]"), 8, "[1,2]");
    expect_shape(GOOD_METADATA, TENSOR("w", "F32", "[]", "[0,4]"), 4, "[]");
    expect_shape(
        FACTS LIST(ENTRY("w", ONE_SUM "," ONE_SUM)),
        TENSOR("w", "F32", "[1,2]", "[0,8]") "," TENSOR("ps.state/0/w", "F32", "[1,2]", "[8,16]"),
        16, "[1,2]");
    assert_header_corrupt(
        FACTS LIST(ENTRY("w", ONE_SUM "," ONE_SUM)),
        TENSOR("w", "F32", "[1,2]", "[0,8]") "," TENSOR("ps.state/0/w", "F32", "[2]", "[8,16]"), 16,
        "another shape");
}
END_TEST

#define WHOLE_SHAPE(lengths) ONE_SUM "],\\\"whole_shape\\\":[" lengths

START_TEST(a_range_keeps_the_shape_of_the_whole)
{
    expect_shape(FACTS LIST(ENTRY("w", WHOLE_SHAPE("\\\"2\\\",\\\"3\\\""))), GOOD_TENSOR, 8,
                 "[2,3]");
    assert_header_corrupt(FACTS LIST(ENTRY("w", WHOLE_SHAPE("\\\"1\\\",\\\"2\\\""))), GOOD_TENSOR,
                          8, "not that of the whole");
    assert_header_corrupt(FACTS LIST(ENTRY("w", WHOLE_SHAPE("\\\"2\\\",\\\"3\\\""))),
                          TENSOR("w", "F32", "[1,2]", "[0,8]"), 8, "not that of the whole");
    assert_header_corrupt(FACTS LIST(ENTRY("w", WHOLE_SHAPE("true"))), GOOD_TENSOR, 8,
                          "not a number");
}
END_TEST

#define TABLE_ENTRY(name, width)                                                     \
    "{\\\"name\\\":\\\"" name "\\\",\\\"id\\\":\\\"1\\\",\\\"version\\\":\\\"2\\\"," \
    "\\\"step\\\":\\\"3\\\",\\\"config\\\":\\\"Zm9v\\\",\\\"width\\\":" width        \
    ",\\\"crc32c\\\":[" ONE_SUM "," ONE_SUM "," ONE_SUM "]}"
#define TABLE_METADATA FACTS LIST(TABLE_ENTRY("t", "\\\"2\\\""))
#define KEYS TENSOR("ps.keys/t", "U64", "[3]", "[0,24]")
#define ROWS TENSOR("t", "F32", "[3,2]", "[24,48]")
#define CLOCK TENSOR("ps.clock/t", "U32", "[3]", "[48,60]")

START_TEST(a_table_is_read_with_its_keys_in_front)
{
    sample_header_make(TABLE_METADATA, KEYS "," ROWS "," CLOCK);

    ck_assert_msg(sample_header_parse(60) == PS_OK, "%s", sample.error.text);

    const struct ps_checkpoint_parameter *about = &sample.header.parameters[0].about;
    ck_assert(about->is_table && !about->shape.is_given);
    ck_assert_uint_eq(about->rows, 3);
    ck_assert_uint_eq(about->width, 2);
    ck_assert_uint_eq(about->count, 6);
    ck_assert_uint_eq(sample.header.parameters[0].offset[0], sample.head_size + 24);
    ck_assert_uint_eq(sample.header.parameters[0].offset[1], sample.head_size);
    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(a_table_that_does_not_fit_its_keys_is_corrupt)
{
    assert_header_corrupt(TABLE_METADATA, ROWS "," CLOCK, 60, "missing or out of order");
    assert_header_corrupt(TABLE_METADATA, KEYS "," ROWS, 48, "missing or out of order");
    assert_header_corrupt(TABLE_METADATA, KEYS "," CLOCK "," ROWS, 60, "missing or out of order");
    assert_header_corrupt(TABLE_METADATA, TENSOR("ps.keys/t", "I64", "[3]", "[0,24]"), 24, "keys");
    assert_header_corrupt(TABLE_METADATA, TENSOR("ps.keys/t", "U64", "[3,1]", "[0,24]"), 24,
                          "another shape");
    assert_header_corrupt(
        TABLE_METADATA,
        TENSOR("ps.keys/t", "U64", "[2]", "[0,16]") "," TENSOR("t", "F32", "[3,2]", "[16,40]"), 40,
        "another shape");
    assert_header_corrupt(TABLE_METADATA, KEYS "," TENSOR("t", "F32", "[6]", "[24,48]"), 48,
                          "another shape");
    assert_header_corrupt(TABLE_METADATA, KEYS "," TENSOR("t", "F32", "[3,4]", "[24,72]"), 72,
                          "another shape");
    assert_header_corrupt(TABLE_METADATA,
                          KEYS "," ROWS "," TENSOR("ps.clock/t", "U32", "[2]", "[48,56]"), 56,
                          "clock");
    assert_header_corrupt(TABLE_METADATA,
                          KEYS "," TENSOR("t", "F64", "[3,2]", "[24,72]") "," TENSOR(
                              "ps.clock/t", "U32", "[3]", "[72,84]"),
                          84, "out of order");
}
END_TEST

START_TEST(a_table_of_a_width_that_is_none_is_corrupt)
{
    assert_header_corrupt(FACTS LIST(TABLE_ENTRY("t", "\\\"0\\\"")), KEYS, 24, "width");
    assert_header_corrupt(FACTS LIST(TABLE_ENTRY("t", "\\\"4294967296\\\"")), KEYS, 24, "width");
    assert_header_corrupt(FACTS LIST(TABLE_ENTRY("t", "[]")), KEYS, 24, "width");
    assert_header_corrupt(FACTS LIST(TABLE_ENTRY("t", "\\\"4294967295\\\"")),
                          TENSOR("ps.keys/t", "U64", "[3]", "[0,24]") "," TENSOR(
                              "t", "F32", "[4503599627370496,4294967295]", "[24,24]"),
                          24, "beyond");
    assert_header_corrupt(FACTS LIST(TABLE_ENTRY("ps.keys/t", "\\\"2\\\"")), KEYS, 24, "name");
    assert_header_corrupt(FACTS LIST(TABLE_ENTRY("ps.clock/t", "\\\"2\\\"")), KEYS, 24, "name");
}
END_TEST

START_TEST(offsets_with_gaps_overlaps_or_other_sizes_are_corrupt)
{
    static const char *const wrong[] = {"[0,7]",  "[0,9]", "[1,9]", "[8,0]",
                                        "[8,16]", "[4,8]", "[0,4]"};
    for (size_t i = 0; i < PS_ARRAY_COUNT(wrong); i++) {
        char tensor[256];
        (void)snprintf(tensor, sizeof tensor,
                       "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":%s}", wrong[i]);
        assert_header_corrupt(GOOD_METADATA, tensor, 8, "overlaps another, leaves a gap");
    }
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2]", "[0,-8]"), 8, "malformed");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2]", "[0]"), 8, "malformed");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2]", "[0,8,8]"), 8, "malformed");
    assert_header_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2]", "{\"a\":0,\"b\":8}"), 8,
                          "malformed");
}
END_TEST

START_TEST(a_file_of_another_length_than_its_arrays_is_corrupt)
{
    assert_header_corrupt(GOOD_METADATA, GOOD_TENSOR, 9, "longer or shorter");
    assert_header_corrupt(GOOD_METADATA, GOOD_TENSOR, 7, "beyond the end");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header_tensors");
    TCase *tests = tcase_create("header_tensors");
    tcase_add_test(tests, tensors_that_do_not_fit_their_parameter_are_corrupt);
    tcase_add_test(tests, sessions_stand_behind_the_parameters);
    tcase_add_test(tests, sessions_that_are_malformed_are_corrupt);
    tcase_add_test(tests, sections_stand_behind_everything_else);
    tcase_add_test(tests, sections_that_are_malformed_are_corrupt);
    tcase_add_test(tests, bytes_are_no_type_of_a_parameter);
    tcase_add_test(tests, shapes_and_counts_that_overflow_are_corrupt);
    tcase_add_test(tests, a_tensor_of_several_dimensions_gives_the_parameter_its_shape);
    tcase_add_test(tests, a_range_keeps_the_shape_of_the_whole);
    tcase_add_test(tests, a_table_is_read_with_its_keys_in_front);
    tcase_add_test(tests, a_table_that_does_not_fit_its_keys_is_corrupt);
    tcase_add_test(tests, a_table_of_a_width_that_is_none_is_corrupt);
    tcase_add_test(tests, offsets_with_gaps_overlaps_or_other_sizes_are_corrupt);
    tcase_add_test(tests, a_file_of_another_length_than_its_arrays_is_corrupt);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
