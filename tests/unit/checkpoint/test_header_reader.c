/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/header_reader.c: headers with a right checksum and anything in them. */
#include "checkpoint/header_reader.h"

#include "checkpoint/header_format.h"
#include "run_suite.h"
#include "sample_header.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_whole_header_is_read)
{
    sample_header_make(GOOD_METADATA, GOOD_TENSOR);

    ck_assert_msg(sample_header_parse(8) == PS_OK, "%s", sample.error.text);

    ck_assert_str_eq(sample.header.facts.uuid, "u-1");
    ck_assert_str_eq(sample.header.facts.job, "j");
    ck_assert_uint_eq(sample.header.facts.epoch, 5);
    ck_assert_uint_eq(sample.header.count, 1);
    ck_assert_uint_eq(sample.header.parameters[0].about.count, 2);
    ck_assert_uint_eq(sample.header.parameters[0].offset[0], sample.head_size);
    ck_assert_uint_eq(sample.header.parameters[0].crc32c[0], 0x0123abcd);
    ck_assert(ps_bytes_equal(sample.header.parameters[0].about.config, ps_bytes_of_text("foo")));
    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(a_checkpoint_of_nothing_is_whole)
{
    sample_header_make(FACTS LIST(""), "");

    ck_assert_int_eq(sample_header_parse(0), PS_OK);

    ck_assert_uint_eq(sample.header.count, 0);
    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(members_that_a_later_version_adds_are_passed_over)
{
    sample_header_make("\"ps.new\":\"x\"," GOOD_METADATA, GOOD_TENSOR);

    ck_assert_int_eq(sample_header_parse(8), PS_OK);

    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(a_history_is_read_and_a_malformed_one_is_corrupt)
{
    sample_header_make("\"ps.history\":\"01000000-0000-7000-8000-0000000000ff\"," GOOD_METADATA,
                       GOOD_TENSOR);
    ck_assert_int_eq(sample_header_parse(8), PS_OK);
    ck_assert_uint_eq(sample.header.facts.history.bytes[0], 1);
    ck_assert_uint_eq(sample.header.facts.history.bytes[15], 0xff);
    ps_header_fini(&sample.header);
    /* It would fit everything. */
    assert_header_corrupt("\"ps.history\":\"\"," GOOD_METADATA, GOOD_TENSOR, 8, "ps.history");
    assert_header_corrupt("\"ps.history\":7," GOOD_METADATA, GOOD_TENSOR, 8, "ps.history");
}
END_TEST

START_TEST(facts_that_are_missing_double_or_malformed_are_corrupt)
{
    assert_header_corrupt("\"a\":\"b\"", "", 0, "no ps.format");
    assert_header_corrupt("\"ps.format\":\"6\"", "", 0, "format 6 is unknown");
    assert_header_corrupt("\"ps.format\":1", "", 0, "no ps.format");
    assert_header_corrupt("\"ps.format\":\"1\"," FACTS LIST(""), "", 0, "no ps.format");
    assert_header_corrupt("\"ps.format\":\"1\"", "", 0, "ps.uuid");
    assert_header_corrupt("\"ps.format\":\"1\",\"ps.uuid\":\"../x\"", "", 0, "ps.uuid");
    assert_header_corrupt("\"ps.format\":\"1\",\"ps.uuid\":\"u\"", "", 0, "ps.job");
    assert_header_corrupt("\"ps.format\":\"1\",\"ps.uuid\":\"u\",\"ps.job\":\"\"", "", 0, "number");
    assert_header_corrupt(FACTS, "", 0, "ps.parameters is missing");
    assert_header_corrupt(FACTS ",\"ps.parameters\":[]", "", 0, "ps.parameters is missing");
    assert_header_corrupt(FACTS ",\"ps.parameters\":\"\"", "", 0, "not JSON");
    assert_header_corrupt(FACTS ",\"ps.parameters\":\"{}\"", "", 0, "not an array");
    assert_header_corrupt(FACTS ",\"ps.parameters\":\"[7]\"", "", 0, "not an object");
}
END_TEST

START_TEST(numbers_of_the_facts_have_bounds)
{
    static const char *const wrong[] = {"4294967296",          "-1", "", "1e3", "0x1", "1.5",
                                        "99999999999999999999"};
    for (size_t i = 0; i < PS_ARRAY_COUNT(wrong); i++) {
        char metadata[512];
        (void)snprintf(metadata, sizeof metadata,
                       "\"ps.format\":\"1\",\"ps.uuid\":\"u\",\"ps.job\":\"\",\"ps.index\":\"%s\","
                       "\"ps.shard_count\":\"2\",\"ps.epoch\":\"5\",\"ps.position\":\"6\","
                       "\"ps.unix_ns\":\"7\"" LIST(""),
                       wrong[i]);
        assert_header_corrupt(metadata, "", 0, "a number of the metadata");
    }
}
END_TEST

START_TEST(malformed_parameters_are_corrupt)
{
    assert_header_corrupt(FACTS LIST("{}"), GOOD_TENSOR, 8, "name");
    assert_header_corrupt(FACTS LIST(ENTRY("", ONE_SUM)), GOOD_TENSOR, 8, "name");
    assert_header_corrupt(FACTS LIST(ENTRY("ps.state/0/w", ONE_SUM)), GOOD_TENSOR, 8, "name");
    assert_header_corrupt(FACTS LIST(ENTRY("w", "")), GOOD_TENSOR, 8, "checksums");
    assert_header_corrupt(FACTS LIST(ENTRY("w", "1")), GOOD_TENSOR, 8, "checksum is malformed");
    assert_header_corrupt(FACTS LIST(ENTRY("w", "\\\"0123abcD\\\"")), GOOD_TENSOR, 8, "malformed");
    assert_header_corrupt(FACTS LIST(ENTRY("w", "\\\"0123abc\\\"")), GOOD_TENSOR, 8, "malformed");
    assert_header_corrupt(FACTS LIST(ENTRY("w", ONE_SUM "," ONE_SUM "," ONE_SUM "," ONE_SUM)),
                          GOOD_TENSOR, 8, "too many");
    assert_header_corrupt(FACTS LIST("{\\\"name\\\":\\\"w\\\",\\\"config\\\":\\\"?\\\"}"),
                          GOOD_TENSOR, 8, "configuration");
    assert_header_corrupt(
        FACTS LIST("{\\\"name\\\":\\\"w\\\",\\\"config\\\":\\\"\\\",\\\"crc32c\\\":[" ONE_SUM
                   "],\\\"id\\\":\\\"1\\\",\\\"version\\\":\\\"x\\\"}"),
        GOOD_TENSOR, 8, "a number of ps.parameters");
}
END_TEST

START_TEST(names_out_of_order_or_twice_are_corrupt)
{
    assert_header_corrupt(FACTS LIST(ENTRY("b", ONE_SUM) "," ENTRY("a", ONE_SUM)),
                          TENSOR("b", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]"),
                          8, "out of order");
    assert_header_corrupt(FACTS LIST(ENTRY("a", ONE_SUM) "," ENTRY("a", ONE_SUM)),
                          TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]"),
                          8, "out of order");
    assert_header_corrupt(
        FACTS LIST(ENTRY("a", ONE_SUM) "," ENTRY("b", ONE_SUM)),
        TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F64", "[1]", "[4,12]"), 12,
        "out of order");
    assert_header_corrupt(
        FACTS LIST(ENTRY("b", ONE_SUM) "," ENTRY("a", ONE_SUM) "," ENTRY("b", ONE_SUM)),
        TENSOR("b", "F64", "[1]", "[0,8]") "," TENSOR("a", "F32", "[1]", "[8,12]") "," TENSOR(
            "b", "F32", "[1]", "[12,16]"),
        16, "twice");
}
END_TEST

START_TEST(what_is_no_json_is_corrupt)
{
    assert_header_corrupt("\"a\":", "", 0, "not JSON");
    assert_header_corrupt(GOOD_METADATA "}}", "", 0, "");
    assert_header_corrupt(GOOD_METADATA, GOOD_TENSOR ",", 8, "not JSON");
}
END_TEST

START_TEST(every_flipped_bit_of_a_header_is_noticed)
{
    sample_header_make(GOOD_METADATA, GOOD_TENSOR);
    for (size_t bit = 0; bit < sample.head_size * 8; bit++) {
        sample.head[bit / 8] ^= (uint8_t)(1u << (bit % 8));

        ck_assert_msg(sample_header_parse(8) == PS_ERR_CORRUPT, "bit %zu", bit);

        sample.head[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    ck_assert_int_eq(sample_header_parse(8), PS_OK);
    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(a_header_that_is_not_padded_is_corrupt)
{
    sample_header_make(GOOD_METADATA, GOOD_TENSOR);
    sample.head[sample.head_size++] = ' ';
    sample.head[0]++;
    char digits[9];
    struct ps_bytes bytes = {sample.head, sample.head_size};
    (void)snprintf(digits, sizeof digits, "%08" PRIx32, ps_header_checksum(bytes));
    memcpy(sample.head + PS_HEADER_CHECKSUM_AT, digits, 8);

    ck_assert_int_eq(sample_header_parse(8), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(sample.error.text, "padded"));
}
END_TEST

static enum ps_status length_of(uint64_t stated, size_t size, uint64_t file_bytes, size_t *length)
{
    uint8_t first[8];
    for (size_t i = 0; i < 8; i++)
        first[i] = (uint8_t)(stated >> (8 * i));
    return ps_header_length((struct ps_bytes){first, size}, file_bytes, length, NULL);
}

START_TEST(no_length_is_believed_that_the_file_does_not_have)
{
    size_t length = 7;

    ck_assert_int_eq(length_of(100, 8, 107, &length), PS_ERR_CORRUPT);
    ck_assert_int_eq(length_of(UINT64_MAX, 8, UINT64_MAX, &length), PS_ERR_CORRUPT);
    ck_assert_int_eq(length_of(PS_HEADER_BYTES_MAX + 1, 8, UINT64_MAX, &length), PS_ERR_CORRUPT);
    ck_assert_int_eq(length_of(0, 7, 7, &length), PS_ERR_CORRUPT);
    ck_assert_int_eq(length_of(0, 0, 0, &length), PS_ERR_CORRUPT);
    ck_assert_uint_eq(length, 7);
    ck_assert_int_eq(length_of(100, 8, 108, &length), PS_OK);
    ck_assert_uint_eq(length, 100);
}
END_TEST

START_TEST(a_header_too_short_for_its_checksum_is_corrupt)
{
    sample_header_make(GOOD_METADATA, GOOD_TENSOR);
    for (sample.head_size = 8; sample.head_size < 80; sample.head_size++)
        ck_assert_int_eq(sample_header_parse(8), PS_ERR_CORRUPT);
}
END_TEST

/* Refuses the first allocation, then the second, and so on. */
START_TEST(a_refused_allocation_leaves_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    sample_header_make(GOOD_METADATA, GOOD_TENSOR);

    enum ps_status status =
        ps_header_init(&sample.header, (struct ps_bytes){sample.head, sample.head_size},
                       sample.head_size + 8, &memory, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_header_fini(&sample.header);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header_reader");
    TCase *tests = tcase_create("header_reader");
    tcase_add_test(tests, a_whole_header_is_read);
    tcase_add_test(tests, a_checkpoint_of_nothing_is_whole);
    tcase_add_test(tests, members_that_a_later_version_adds_are_passed_over);
    tcase_add_test(tests, a_history_is_read_and_a_malformed_one_is_corrupt);
    tcase_add_test(tests, facts_that_are_missing_double_or_malformed_are_corrupt);
    tcase_add_test(tests, numbers_of_the_facts_have_bounds);
    tcase_add_test(tests, malformed_parameters_are_corrupt);
    tcase_add_test(tests, names_out_of_order_or_twice_are_corrupt);
    tcase_add_test(tests, what_is_no_json_is_corrupt);
    tcase_add_test(tests, every_flipped_bit_of_a_header_is_noticed);
    tcase_add_test(tests, a_header_that_is_not_padded_is_corrupt);
    tcase_add_test(tests, no_length_is_believed_that_the_file_does_not_have);
    tcase_add_test(tests, a_header_too_short_for_its_checksum_is_corrupt);
    tcase_add_loop_test(tests, a_refused_allocation_leaves_nothing, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
