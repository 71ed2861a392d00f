/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/header_entry.c: what entries of ps.parameters may say of what a file carries. The rest
 * of an entry is tested with the header that it stands in (test_header_reader.c). */
#include "checkpoint/header_format.h"
#include "run_suite.h"
#include "sample_header.h"

#include <check.h>
#include <string.h>

#define ON_BASE(base)                                                                      \
    "\"ps.format\":\"4\",\"ps.uuid\":\"u-1\",\"ps.index\":\"0\",\"ps.shard_count\":\"2\"," \
    "\"ps.epoch\":\"5\",\"ps.position\":\"6\",\"ps.unix_ns\":\"7\",\"ps.job\":\"j\"," base
#define BASE_FACTS ON_BASE("\"ps.base\":\"u-0\"")
#define BEGIN(members)                                                        \
    "{\\\"name\\\":\\\"t\\\",\\\"id\\\":\\\"1\\\",\\\"version\\\":\\\"2\\\"," \
    "\\\"step\\\":\\\"3\\\",\\\"config\\\":\\\"Zm9v\\\"," members "\\\"crc32c\\\":["
#define MEMBER(name, value) "\\\"" name "\\\":\\\"" value "\\\","
#define TABLE MEMBER("width", "2")
#define AS_BASE MEMBER("carry", "as-base") MEMBER("dtype", "F32") MEMBER("states", "2")
#define CARRY_ROWS TABLE MEMBER("carry", "rows")
#define THREE_SUMS ONE_SUM "," ONE_SUM "," ONE_SUM
#define KEYS TENSOR("ps.keys/t", "U64", "[3]", "[0,24]")
#define GONE TENSOR("ps.removed/t", "U64", "[2]", "[24,40]")
#define ROWS TENSOR("t", "F32", "[3,2]", "[40,64]")
#define CLOCK TENSOR("ps.clock/t", "U32", "[3]", "[64,76]")

static struct ps_checkpoint_parameter *parsed(const char *metadata, const char *tensors,
                                              uint64_t bytes)
{
    sample_header_make(metadata, tensors);
    ck_assert_msg(sample_header_parse(bytes) == PS_OK, "%s", sample.error.text);
    return &sample.header.parameters[0].about;
}

START_TEST(a_parameter_of_the_base_has_no_tensors)
{
    const struct ps_checkpoint_parameter *about =
        parsed(BASE_FACTS LIST(BEGIN(AS_BASE) "]}"), "", 0);

    ck_assert_str_eq(sample.header.facts.base, "u-0");
    ck_assert_int_eq(about->carry, PS_CARRY_AS_BASE);
    ck_assert_int_eq(about->dtype, PS_F32);
    ck_assert_uint_eq(about->state_count, 2);
    ck_assert(!about->is_table);
    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(rows_have_the_tensors_of_a_table)
{
    const struct ps_checkpoint_parameter *about =
        parsed(BASE_FACTS LIST(BEGIN(CARRY_ROWS) THREE_SUMS "]}"),
               KEYS "," TENSOR("t", "F32", "[3,2]", "[24,48]") "," TENSOR("ps.clock/t", "U32",
                                                                          "[3]", "[48,60]"),
               60);

    ck_assert_int_eq(about->carry, PS_CARRY_ROWS);
    ck_assert_uint_eq(about->rows, 3);
    ck_assert_uint_eq(about->removed.size, 0);
    ck_assert_uint_eq(about->state_count, 0);
    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(keys_that_went_stand_behind_the_keys)
{
    const struct ps_checkpoint_parameter *about = parsed(
        BASE_FACTS LIST(BEGIN(CARRY_ROWS MEMBER("removed", "2")) THREE_SUMS "," ONE_SUM "]}"),
        KEYS "," GONE "," ROWS "," CLOCK, 76);

    ck_assert_uint_eq(about->removed.size, 16);
    ck_assert_uint_eq(about->state_count, 0);
    ck_assert_uint_eq(sample.header.parameters[0].offset[3], sample.head_size + 24);
    ps_header_fini(&sample.header);
}
END_TEST

START_TEST(the_base_and_the_format_say_the_same)
{
    assert_header_corrupt(ON_BASE("\"a\":\"b\"") LIST(""), "", 0, "ps.base");
    assert_header_corrupt(FACTS ",\"ps.base\":\"u-0\"" LIST(""), "", 0, "ps.base");
    assert_header_corrupt(ON_BASE("\"ps.base\":\"\"") LIST(""), "", 0, "ps.base");
    assert_header_corrupt(ON_BASE("\"ps.base\":\"../u\"") LIST(""), "", 0, "ps.base");
    assert_header_corrupt(ON_BASE("\"ps.base\":7") LIST(""), "", 0, "ps.base");
    assert_header_corrupt(ON_BASE("\"ps.base\":\"u\",\"ps.base\":\"v\"") LIST(""), "", 0,
                          "ps.base");
}
END_TEST

START_TEST(what_is_carried_that_cannot_be_is_corrupt)
{
    assert_header_corrupt(FACTS LIST(BEGIN(AS_BASE) "]}"), "", 0, "carried");
    assert_header_corrupt(FACTS LIST(BEGIN(CARRY_ROWS) THREE_SUMS "]}"), "", 0, "carried");
    assert_header_corrupt(BASE_FACTS LIST(BEGIN(MEMBER("carry", "some")) "]}"), "", 0, "carried");
    assert_header_corrupt(BASE_FACTS LIST(BEGIN("\\\"carry\\\":1,") "]}"), "", 0, "carried");
    assert_header_corrupt(BASE_FACTS LIST(BEGIN(MEMBER("carry", "rows")) ONE_SUM "]}"), "", 0,
                          "carried");
}
END_TEST

START_TEST(what_a_parameter_of_the_base_must_say_is_said)
{
#define CARRIED MEMBER("carry", "as-base")
    assert_header_corrupt(BASE_FACTS LIST(BEGIN(CARRIED MEMBER("states", "2")) "]}"), "", 0,
                          "element type");
    assert_header_corrupt(
        BASE_FACTS LIST(BEGIN(CARRIED MEMBER("states", "2") MEMBER("dtype", "F16")) "]}"), "", 0,
        "element type");
    assert_header_corrupt(BASE_FACTS LIST(BEGIN(CARRIED MEMBER("dtype", "F32")) "]}"), "", 0,
                          "number of states");
    assert_header_corrupt(
        BASE_FACTS LIST(BEGIN(CARRIED MEMBER("dtype", "F32") MEMBER("states", "9")) "]}"), "", 0,
        "number of states");
    assert_header_corrupt(BASE_FACTS LIST(BEGIN(AS_BASE) ONE_SUM "]}"), "", 0, "checksums");
    assert_header_corrupt(BASE_FACTS LIST(BEGIN(AS_BASE) "]}"), TENSOR("t", "F32", "[2]", "[0,8]"),
                          8, "no parameter owns");
}
END_TEST

START_TEST(keys_that_went_are_as_many_as_is_said)
{
#define WENT(count) \
    BASE_FACTS LIST(BEGIN(CARRY_ROWS MEMBER("removed", count)) THREE_SUMS "," ONE_SUM "]}")
    assert_header_corrupt(WENT("0"), KEYS, 24, "keys that went");
    assert_header_corrupt(WENT("-1"), KEYS, 24, "keys that went");
    assert_header_corrupt(WENT("18446744073709551615"), KEYS, 24, "keys that went");
    assert_header_corrupt(WENT("3"), KEYS "," GONE "," ROWS "," CLOCK, 76, "removed keys");
    assert_header_corrupt(WENT("2"), KEYS "," ROWS, 64, "missing or out of order");
    assert_header_corrupt(WENT("2"), KEYS "," TENSOR("ps.removed/t", "I64", "[2]", "[24,40]"), 40,
                          "removed keys");
    assert_header_corrupt(BASE_FACTS LIST(BEGIN(CARRY_ROWS MEMBER("removed", "2")) ONE_SUM "]}"),
                          KEYS, 24, "checksums");
}
END_TEST

START_TEST(a_name_of_keys_that_went_is_nobodys)
{
    assert_header_corrupt(FACTS LIST(ENTRY("ps.removed/t", ONE_SUM)), "", 0, "name");
    ck_assert(ps_header_name_reserved(ps_bytes_of_text("ps.removed/")));
    ck_assert(!ps_header_name_reserved(ps_bytes_of_text("ps.removed")));
}
END_TEST

#define OF_TABLE(members)                                                         \
    BASE_FACTS LIST(BEGIN(TABLE MEMBER("carry", "as-base") MEMBER("dtype", "F32") \
                              MEMBER("states", "0") members) "]}")

START_TEST(ages_of_rows_are_a_text_that_is_kept_as_it_is)
{
    const struct ps_checkpoint_parameter *about =
        parsed(OF_TABLE(MEMBER("ages", "time 5 2 clocks 7 1")), "", 0);

    ck_assert_uint_eq(about->ages.size, strlen("time 5 2 clocks 7 1"));
    ck_assert_str_eq((const char *)about->ages.data, "time 5 2 clocks 7 1");
    ps_header_fini(&sample.header);
    /* As older files have it. */
    about = parsed(OF_TABLE(""), "", 0);
    ck_assert_uint_eq(about->ages.size, 0);
    ps_header_fini(&sample.header);
}
END_TEST

#define TEN(text) text text text text text text text text text text
#define HUNDRED(text) TEN(TEN(text))

START_TEST(ages_of_rows_are_of_tables_and_of_a_bounded_length)
{
    assert_header_corrupt(OF_TABLE(MEMBER("ages", "")), "", 0, "ages");
    assert_header_corrupt(OF_TABLE("\\\"ages\\\":5,"), "", 0, "ages");
    assert_header_corrupt(OF_TABLE("\\\"ages\\\":null,"), "", 0, "ages");
    assert_header_corrupt(OF_TABLE("\\\"ages\\\":[],"), "", 0, "ages");
    assert_header_corrupt(OF_TABLE(MEMBER("ages", HUNDRED("0123456789abcdef") "x")), "", 0, "ages");
    assert_header_corrupt(BASE_FACTS LIST(BEGIN(AS_BASE MEMBER("ages", "time 5 2")) "]}"), "", 0,
                          "ages");
    ck_assert_uint_eq(PS_CHECKPOINT_AGES_MAX, 1600);
    (void)parsed(OF_TABLE(MEMBER("ages", HUNDRED("0123456789abcdef"))), "", 0);
    ps_header_fini(&sample.header);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header_entry");
    TCase *tests = tcase_create("header_entry");
    tcase_add_test(tests, a_parameter_of_the_base_has_no_tensors);
    tcase_add_test(tests, rows_have_the_tensors_of_a_table);
    tcase_add_test(tests, keys_that_went_stand_behind_the_keys);
    tcase_add_test(tests, the_base_and_the_format_say_the_same);
    tcase_add_test(tests, what_is_carried_that_cannot_be_is_corrupt);
    tcase_add_test(tests, what_a_parameter_of_the_base_must_say_is_said);
    tcase_add_test(tests, keys_that_went_are_as_many_as_is_said);
    tcase_add_test(tests, a_name_of_keys_that_went_is_nobodys);
    tcase_add_test(tests, ages_of_rows_are_a_text_that_is_kept_as_it_is);
    tcase_add_test(tests, ages_of_rows_are_of_tables_and_of_a_bounded_length);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
