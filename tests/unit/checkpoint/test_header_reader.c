/* checkpoint/header_reader.c: headers with a right checksum and anything in them. */
#include "checkpoint/header_reader.h"

#include "checkpoint/header_writer.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACTS                                                                              \
    "\"ps.format\":\"1\",\"ps.uuid\":\"u-1\",\"ps.index\":\"0\",\"ps.shard_count\":\"2\"," \
    "\"ps.epoch\":\"5\",\"ps.position\":\"6\",\"ps.unix_ns\":\"7\",\"ps.job\":\"j\""
#define ENTRY(name, sums)                                                            \
    "{\\\"name\\\":\\\"" name "\\\",\\\"id\\\":\\\"1\\\",\\\"version\\\":\\\"2\\\"," \
    "\\\"step\\\":\\\"3\\\",\\\"config\\\":\\\"Zm9v\\\",\\\"crc32c\\\":[" sums "]}"
#define ONE_SUM "\\\"0123abcd\\\""
#define TENSOR(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define LIST(entries) ",\"ps.parameters\":\"[" entries "]\""

#define GOOD_METADATA FACTS LIST(ENTRY("w", ONE_SUM))
#define GOOD_TENSOR TENSOR("w", "F32", "[2]", "[0,8]")

static struct ps_header header;
static struct ps_error error;
static uint8_t head[65536];
static size_t head_size;

/* Makes a head with right length, checksum and padding around what follows the checksum. */
static void make_head(const char *metadata, const char *tensors)
{
    int size = snprintf((char *)head + 8, sizeof head - 8, "%s00000000\",%s}%s%s}", PS_HEADER_START,
                        metadata, *tensors != '\0' ? "," : "", tensors);
    ck_assert_int_gt(size, 0);
    head_size = 8 + (size_t)size;
    ck_assert_uint_lt(head_size, sizeof head - 64);
    while (head_size % PS_HEADER_ALIGNMENT != 0)
        head[head_size++] = ' ';
    for (size_t i = 0; i < 8; i++)
        head[i] = (uint8_t)((uint64_t)(head_size - 8) >> (8 * i));
    char digits[9];
    struct ps_bytes bytes = {head, head_size};
    (void)snprintf(digits, sizeof digits, "%08" PRIx32, ps_header_checksum(bytes));
    memcpy(head + PS_HEADER_CHECKSUM_AT, digits, 8);
}

static enum ps_status parse(uint64_t data_bytes)
{
    error.text[0] = '\0';
    return ps_header_init(&header, (struct ps_bytes){head, head_size}, head_size + data_bytes,
                          ps_allocator_heap(), &error);
}

static void assert_corrupt(const char *metadata, const char *tensors, uint64_t data_bytes,
                           const char *reason)
{
    make_head(metadata, tensors);

    enum ps_status status = parse(data_bytes);

    ck_assert_msg(status == PS_ERR_CORRUPT, "accepted: %s | %s", metadata, tensors);
    ck_assert_msg(strncmp(error.text, PS_CHECKPOINT_CORRUPT, strlen(PS_CHECKPOINT_CORRUPT)) == 0,
                  "%s", error.text);
    ck_assert_msg(strstr(error.text, reason) != NULL, "\"%s\" is not \"%s\"", error.text, reason);
}

START_TEST(a_whole_header_is_read)
{
    make_head(GOOD_METADATA, GOOD_TENSOR);

    ck_assert_msg(parse(8) == PS_OK, "%s", error.text);

    ck_assert_str_eq(header.facts.uuid, "u-1");
    ck_assert_str_eq(header.facts.job, "j");
    ck_assert_uint_eq(header.facts.epoch, 5);
    ck_assert_uint_eq(header.count, 1);
    ck_assert_uint_eq(header.parameters[0].about.count, 2);
    ck_assert_uint_eq(header.parameters[0].offset, head_size);
    ck_assert_uint_eq(header.parameters[0].crc32c[0], 0x0123abcd);
    ck_assert(ps_bytes_equal(header.parameters[0].about.config, ps_bytes_of_text("foo")));
    ps_header_fini(&header);
}
END_TEST

START_TEST(a_checkpoint_of_nothing_is_whole)
{
    make_head(FACTS LIST(""), "");

    ck_assert_int_eq(parse(0), PS_OK);

    ck_assert_uint_eq(header.count, 0);
    ps_header_fini(&header);
}
END_TEST

START_TEST(members_that_a_later_version_adds_are_passed_over)
{
    make_head("\"ps.new\":\"x\"," GOOD_METADATA, GOOD_TENSOR);

    ck_assert_int_eq(parse(8), PS_OK);

    ps_header_fini(&header);
}
END_TEST

START_TEST(facts_that_are_missing_double_or_malformed_are_corrupt)
{
    assert_corrupt("\"a\":\"b\"", "", 0, "no ps.format");
    assert_corrupt("\"ps.format\":\"2\"", "", 0, "format 2 is unknown");
    assert_corrupt("\"ps.format\":1", "", 0, "no ps.format");
    assert_corrupt("\"ps.format\":\"1\"," FACTS LIST(""), "", 0, "no ps.format");
    assert_corrupt("\"ps.format\":\"1\"", "", 0, "ps.uuid");
    assert_corrupt("\"ps.format\":\"1\",\"ps.uuid\":\"../x\"", "", 0, "ps.uuid");
    assert_corrupt("\"ps.format\":\"1\",\"ps.uuid\":\"u\"", "", 0, "ps.job");
    assert_corrupt("\"ps.format\":\"1\",\"ps.uuid\":\"u\",\"ps.job\":\"\"", "", 0, "number");
    assert_corrupt(FACTS, "", 0, "ps.parameters is missing");
    assert_corrupt(FACTS ",\"ps.parameters\":[]", "", 0, "ps.parameters is missing");
    assert_corrupt(FACTS ",\"ps.parameters\":\"\"", "", 0, "not JSON");
    assert_corrupt(FACTS ",\"ps.parameters\":\"{}\"", "", 0, "not an array");
    assert_corrupt(FACTS ",\"ps.parameters\":\"[7]\"", "", 0, "not an object");
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
        assert_corrupt(metadata, "", 0, "a number of the metadata");
    }
}
END_TEST

START_TEST(malformed_parameters_are_corrupt)
{
    assert_corrupt(FACTS LIST("{}"), GOOD_TENSOR, 8, "name");
    assert_corrupt(FACTS LIST(ENTRY("", ONE_SUM)), GOOD_TENSOR, 8, "name");
    assert_corrupt(FACTS LIST(ENTRY("ps.state/0/w", ONE_SUM)), GOOD_TENSOR, 8, "name");
    assert_corrupt(FACTS LIST(ENTRY("w", "")), GOOD_TENSOR, 8, "checksums");
    assert_corrupt(FACTS LIST(ENTRY("w", "1")), GOOD_TENSOR, 8, "checksum is malformed");
    assert_corrupt(FACTS LIST(ENTRY("w", "\\\"0123abcD\\\"")), GOOD_TENSOR, 8, "malformed");
    assert_corrupt(FACTS LIST(ENTRY("w", "\\\"0123abc\\\"")), GOOD_TENSOR, 8, "malformed");
    assert_corrupt(FACTS LIST(ENTRY("w", ONE_SUM "," ONE_SUM "," ONE_SUM "," ONE_SUM)), GOOD_TENSOR,
                   8, "too many");
    assert_corrupt(FACTS LIST("{\\\"name\\\":\\\"w\\\",\\\"config\\\":\\\"?\\\"}"), GOOD_TENSOR, 8,
                   "configuration");
    assert_corrupt(
        FACTS LIST("{\\\"name\\\":\\\"w\\\",\\\"config\\\":\\\"\\\",\\\"crc32c\\\":[" ONE_SUM
                   "],\\\"id\\\":\\\"1\\\",\\\"version\\\":\\\"x\\\"}"),
        GOOD_TENSOR, 8, "a number of ps.parameters");
}
END_TEST

START_TEST(tensors_that_do_not_fit_their_parameter_are_corrupt)
{
    assert_corrupt(GOOD_METADATA, "", 0, "missing or out of order");
    assert_corrupt(GOOD_METADATA, TENSOR("v", "F32", "[2]", "[0,8]"), 8, "out of order");
    assert_corrupt(GOOD_METADATA, GOOD_TENSOR "," TENSOR("x", "F32", "[2]", "[8,16]"), 16,
                   "no parameter owns");
    assert_corrupt(GOOD_METADATA, "\"w\":7", 8, "element type");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "BF16", "[2]", "[0,8]"), 8, "element type");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "", "[2]", "[0,8]"), 8, "element type");
    assert_corrupt(FACTS LIST(ENTRY("w", ONE_SUM "," ONE_SUM)),
                   GOOD_TENSOR "," TENSOR("ps.state/0/w", "I32", "[2]", "[8,16]"), 16,
                   "another shape");
    assert_corrupt(FACTS LIST(ENTRY("w", ONE_SUM "," ONE_SUM)),
                   GOOD_TENSOR "," TENSOR("ps.state/0/w", "F32", "[1]", "[8,12]"), 12,
                   "another shape");
}
END_TEST

#define SESSIONS ",\"ps.sessions_crc32c\":\"89abcdef\""
#define SESSIONS_TENSOR TENSOR("ps.sessions", "U8", "[5]", "[8,13]")

START_TEST(sessions_stand_behind_the_parameters)
{
    make_head(GOOD_METADATA SESSIONS, GOOD_TENSOR "," SESSIONS_TENSOR);

    ck_assert_msg(parse(13) == PS_OK, "%s", error.text);

    ck_assert(header.has_sessions);
    ck_assert_uint_eq(header.sessions_crc32c, 0x89abcdef);
    ck_assert_uint_eq(header.sessions_offset, head_size + 8);
    ck_assert_uint_eq(header.sessions_bytes, 5);
    ps_header_fini(&header);
}
END_TEST

START_TEST(sessions_that_are_malformed_are_corrupt)
{
    static const char wrong[] = TENSOR("ps.sessions", "I32", "[2]", "[8,16]");
    assert_corrupt(GOOD_METADATA, GOOD_TENSOR "," SESSIONS_TENSOR, 13, "no parameter owns");
    assert_corrupt(GOOD_METADATA SESSIONS, GOOD_TENSOR, 8, "sessions are missing");
    assert_corrupt(GOOD_METADATA SESSIONS SESSIONS, GOOD_TENSOR "," SESSIONS_TENSOR, 13,
                   "checksum of the sessions");
    assert_corrupt(GOOD_METADATA ",\"ps.sessions_crc32c\":\"89\"", GOOD_TENSOR "," SESSIONS_TENSOR,
                   13, "checksum of the sessions");
    char tensors[256];
    (void)snprintf(tensors, sizeof tensors, "%s,%s", GOOD_TENSOR, wrong);
    assert_corrupt(GOOD_METADATA SESSIONS, tensors, 16, "another element type");
    assert_corrupt(GOOD_METADATA SESSIONS,
                   GOOD_TENSOR "," TENSOR("ps.session", "U8", "[5]", "[8,13]"), 13, "missing");
    assert_corrupt(GOOD_METADATA SESSIONS,
                   GOOD_TENSOR "," TENSOR("ps.sessions", "U8", "[6]", "[8,14]"), 13, "beyond");
    assert_corrupt(GOOD_METADATA SESSIONS,
                   GOOD_TENSOR "," TENSOR("ps.sessions", "U8", "[5]", "[9,14]"), 14, "gap");
    assert_corrupt(GOOD_METADATA SESSIONS, GOOD_TENSOR "," SESSIONS_TENSOR "," SESSIONS_TENSOR, 18,
                   "no parameter owns");
    assert_corrupt(FACTS SESSIONS LIST(ENTRY("ps.sessions", ONE_SUM)), SESSIONS_TENSOR, 5, "name");
}
END_TEST

START_TEST(bytes_are_no_type_of_a_parameter)
{
    assert_corrupt(GOOD_METADATA, TENSOR("w", "U8", "[8]", "[0,8]"), 8, "unknown element type");
}
END_TEST

START_TEST(shapes_and_counts_that_overflow_are_corrupt)
{
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "2", "[0,8]"), 8, "shape");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[]", "[0,8]"), 8, "shape");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[1,2]", "[0,8]"), 8, "shape");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[-2]", "[0,8]"), 8, "shape");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2.5]", "[0,8]"), 8, "shape");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[3]", "[0,12]"), 8, "beyond the end");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F64", "[2305843009213693953]", "[0,8]"), 8, "");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F64", "[\"2305843009213693953\"]", "[0,8]"), 8,
                   "beyond the end");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[\"4611686018427387906\"]", "[0,8]"), 8,
                   "beyond the end");
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
        assert_corrupt(GOOD_METADATA, tensor, 8, "overlaps another, leaves a gap");
    }
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2]", "[0,-8]"), 8, "malformed");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2]", "[0]"), 8, "malformed");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2]", "[0,8,8]"), 8, "malformed");
    assert_corrupt(GOOD_METADATA, TENSOR("w", "F32", "[2]", "{\"a\":0,\"b\":8}"), 8, "malformed");
}
END_TEST

START_TEST(a_file_of_another_length_than_its_arrays_is_corrupt)
{
    assert_corrupt(GOOD_METADATA, GOOD_TENSOR, 9, "longer or shorter");
    assert_corrupt(GOOD_METADATA, GOOD_TENSOR, 7, "beyond the end");
}
END_TEST

START_TEST(names_out_of_order_or_twice_are_corrupt)
{
    assert_corrupt(FACTS LIST(ENTRY("b", ONE_SUM) "," ENTRY("a", ONE_SUM)),
                   TENSOR("b", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]"), 8,
                   "out of order");
    assert_corrupt(FACTS LIST(ENTRY("a", ONE_SUM) "," ENTRY("a", ONE_SUM)),
                   TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]"), 8,
                   "out of order");
    assert_corrupt(FACTS LIST(ENTRY("a", ONE_SUM) "," ENTRY("b", ONE_SUM)),
                   TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F64", "[1]", "[4,12]"), 12,
                   "out of order");
    assert_corrupt(FACTS LIST(ENTRY("b", ONE_SUM) "," ENTRY("a", ONE_SUM) "," ENTRY("b", ONE_SUM)),
                   TENSOR("b", "F64", "[1]", "[0,8]") "," TENSOR(
                       "a", "F32", "[1]", "[8,12]") "," TENSOR("b", "F32", "[1]", "[12,16]"),
                   16, "twice");
}
END_TEST

START_TEST(what_is_no_json_is_corrupt)
{
    assert_corrupt("\"a\":", "", 0, "not JSON");
    assert_corrupt(GOOD_METADATA "}}", "", 0, "");
    assert_corrupt(GOOD_METADATA, GOOD_TENSOR ",", 8, "not JSON");
}
END_TEST

START_TEST(every_flipped_bit_of_a_header_is_noticed)
{
    make_head(GOOD_METADATA, GOOD_TENSOR);
    for (size_t bit = 0; bit < head_size * 8; bit++) {
        head[bit / 8] ^= (uint8_t)(1u << (bit % 8));

        ck_assert_msg(parse(8) == PS_ERR_CORRUPT, "bit %zu", bit);

        head[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    ck_assert_int_eq(parse(8), PS_OK);
    ps_header_fini(&header);
}
END_TEST

START_TEST(a_header_that_is_not_padded_is_corrupt)
{
    make_head(GOOD_METADATA, GOOD_TENSOR);
    head[head_size++] = ' ';
    head[0]++;
    char digits[9];
    struct ps_bytes bytes = {head, head_size};
    (void)snprintf(digits, sizeof digits, "%08" PRIx32, ps_header_checksum(bytes));
    memcpy(head + PS_HEADER_CHECKSUM_AT, digits, 8);

    ck_assert_int_eq(parse(8), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(error.text, "padded"));
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
    make_head(GOOD_METADATA, GOOD_TENSOR);
    for (head_size = 8; head_size < 80; head_size++)
        ck_assert_int_eq(parse(8), PS_ERR_CORRUPT);
}
END_TEST

/* Refuses the first allocation, then the second, and so on. */
START_TEST(a_refused_allocation_leaves_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    make_head(GOOD_METADATA, GOOD_TENSOR);

    enum ps_status status =
        ps_header_init(&header, (struct ps_bytes){head, head_size}, head_size + 8, &memory, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_header_fini(&header);
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
    tcase_add_test(tests, facts_that_are_missing_double_or_malformed_are_corrupt);
    tcase_add_test(tests, numbers_of_the_facts_have_bounds);
    tcase_add_test(tests, malformed_parameters_are_corrupt);
    tcase_add_test(tests, tensors_that_do_not_fit_their_parameter_are_corrupt);
    tcase_add_test(tests, sessions_stand_behind_the_parameters);
    tcase_add_test(tests, sessions_that_are_malformed_are_corrupt);
    tcase_add_test(tests, bytes_are_no_type_of_a_parameter);
    tcase_add_test(tests, shapes_and_counts_that_overflow_are_corrupt);
    tcase_add_test(tests, offsets_with_gaps_overlaps_or_other_sizes_are_corrupt);
    tcase_add_test(tests, a_file_of_another_length_than_its_arrays_is_corrupt);
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
