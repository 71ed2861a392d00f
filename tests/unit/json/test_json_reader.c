/* SPDX-License-Identifier: Apache-2.0 */
/* json/json_reader.c: JSON from outside. */
#include "json/json_reader.h"

#include "base/json_writer.h"
#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT 1000000

static struct ps_error error;

static struct ps_json *parse(const char *text)
{
    struct ps_json *document = NULL;
    enum ps_status status = ps_json_parse(ps_bytes_of_text(text), SIZE_LIMIT, &document, &error);
    ck_assert_msg(status == PS_OK, "%s: %s", text, error.text);
    return document;
}

static enum ps_status status_of(struct ps_bytes text)
{
    struct ps_json *document = NULL;
    enum ps_status status = ps_json_parse(text, SIZE_LIMIT, &document, &error);
    if (status == PS_OK)
        ps_json_destroy(document);
    else
        ck_assert_ptr_null(document);
    return status;
}

START_TEST(members_are_found_by_name)
{
    struct ps_json *document = parse("{\"a\":{\"b\":\"text\"},\"A\":true}");

    ck_assert_str_eq(ps_json_string(ps_json_member(ps_json_member(document, "a"), "b")), "text");
    bool value = false;
    ck_assert(ps_json_bool_of(ps_json_member(document, "A"), &value));
    ck_assert(value);
    ps_json_destroy(document);
}
END_TEST

START_TEST(missing_members_give_nothing_all_the_way_down)
{
    struct ps_json *document = parse("{\"a\":1}");
    const struct ps_json *missing = ps_json_member(ps_json_member(document, "x"), "y");
    uint64_t natural = 5;
    int64_t integer = 5;
    double real = 5;
    bool flag = true;

    ck_assert_ptr_null(missing);
    ck_assert_ptr_null(ps_json_string(missing));
    ck_assert_ptr_null(ps_json_first(missing));
    ck_assert_ptr_null(ps_json_next(missing));
    ck_assert_ptr_null(ps_json_key(missing));
    ck_assert_ptr_null(ps_json_at(missing, 0));
    ck_assert_uint_eq(ps_json_count(missing), 0);
    ck_assert(!ps_json_is_object(missing) && !ps_json_is_array(missing));
    ck_assert(!ps_json_uint_of(missing, &natural) && natural == 5);
    ck_assert(!ps_json_int_of(missing, &integer) && integer == 5);
    ck_assert(!ps_json_real_of(missing, &real) && real == 5);
    ck_assert(!ps_json_bool_of(missing, &flag) && flag);
    ps_json_destroy(document);
}
END_TEST

START_TEST(arrays_are_walked_in_order)
{
    struct ps_json *document = parse(" [10, 20 ,30 ] ");
    uint64_t sum = 0;

    for (const struct ps_json *i = ps_json_first(document); i != NULL; i = ps_json_next(i)) {
        uint64_t value = 0;
        ck_assert(ps_json_uint_of(i, &value));
        sum = sum * 100 + value;
    }

    ck_assert_uint_eq(sum, 102030);
    ck_assert_uint_eq(ps_json_count(document), 3);
    ck_assert(ps_json_uint_of(ps_json_at(document, 2), &sum) && sum == 30);
    ck_assert_ptr_null(ps_json_at(document, 3));
    ps_json_destroy(document);
}
END_TEST

START_TEST(members_are_walked_with_their_keys)
{
    struct ps_json *document = parse("{\"x\":1,\"y\":2}");

    const struct ps_json *first = ps_json_first(document);
    ck_assert_str_eq(ps_json_key(first), "x");
    ck_assert_str_eq(ps_json_key(ps_json_next(first)), "y");
    ck_assert_ptr_null(ps_json_next(ps_json_next(first)));
    ck_assert_ptr_null(ps_json_key(document));
    ck_assert_uint_eq(ps_json_count(document), 0);
    ps_json_destroy(document);
}
END_TEST

START_TEST(kinds_are_not_mixed_up)
{
    struct ps_json *document = parse("[\"1.5\",1.5,true,null,{},[]]");
    bool flag;
    double real;

    ck_assert(!ps_json_real_of(ps_json_at(document, 0), &real));
    ck_assert_ptr_null(ps_json_string(ps_json_at(document, 1)));
    ck_assert(!ps_json_bool_of(ps_json_at(document, 1), &flag));
    ck_assert(!ps_json_real_of(ps_json_at(document, 2), &real));
    ck_assert_ptr_null(ps_json_string(ps_json_at(document, 3)));
    ck_assert_ptr_null(ps_json_member(ps_json_at(document, 5), "a"));
    ck_assert_ptr_null(ps_json_at(ps_json_at(document, 4), 0));
    ck_assert_ptr_null(ps_json_first(ps_json_at(document, 0)));
    ps_json_destroy(document);
}
END_TEST

struct whole {
    const char *text;
    bool is_uint;
    uint64_t natural;
    bool is_int;
    int64_t integer;
};

static const struct whole wholes[] = {
    {"0", true, 0, true, 0},
    {"7", true, 7, true, 7},
    {"-7", false, 0, true, -7},
    {"1e3", true, 1000, true, 1000},
    {"9007199254740992", true, 9007199254740992, true, 9007199254740992},
    {"9007199254740994", false, 0, false, 0},
    {"-9007199254740992", false, 0, true, -9007199254740992},
    {"1.5", false, 0, false, 0},
    {"1e999", false, 0, false, 0},
    {"\"18446744073709551615\"", true, UINT64_MAX, false, 0},
    {"\"18446744073709551616\"", false, 0, false, 0},
    {"\"9223372036854775807\"", true, INT64_MAX, true, INT64_MAX},
    {"\"-9223372036854775808\"", false, 0, true, INT64_MIN},
    {"\"-9223372036854775809\"", false, 0, false, 0},
    {"\"\"", false, 0, false, 0},
    {"\"-\"", false, 0, false, 0},
    {"\" 1\"", false, 0, false, 0},
    {"\"1 \"", false, 0, false, 0},
    {"\"+1\"", false, 0, false, 0},
    {"\"0x10\"", false, 0, false, 0},
    {"true", false, 0, false, 0},
    {"null", false, 0, false, 0},
};

START_TEST(whole_numbers_are_exact_or_refused)
{
    const struct whole *whole = &wholes[_i];
    struct ps_json *document = parse(whole->text);
    uint64_t natural = 0;
    int64_t integer = 0;

    ck_assert_int_eq(ps_json_uint_of(document, &natural), whole->is_uint);
    ck_assert_uint_eq(natural, whole->natural);
    ck_assert_int_eq(ps_json_int_of(document, &integer), whole->is_int);
    ck_assert_int_eq(integer, whole->integer);
    ps_json_destroy(document);
}
END_TEST

static const char *const malformed[] = {"",
                                        " ",
                                        "{",
                                        "}",
                                        "[1,]",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{a:1}",
                                        "[1 2]",
                                        "\"open",
                                        "tru",
                                        "nul",
                                        "-",
                                        "1 2",
                                        "{} x",
                                        "[1]]",
                                        "'a'",
                                        "\"\\x\"",
                                        "\"\\u12\"",
                                        "\"\\ud800\"",
                                        "\"\\",
                                        "{\"a\":1,}",
                                        "\"\\udc00\\ud800\"",
                                        "\x01",
                                        "[\"\x01\"]",
                                        "\"\xff\"",
                                        "{\"\xc3\":1}",
                                        "\"a\\u0000b\"",
                                        "{\"\\u0000\":1}"};

START_TEST(malformed_documents_are_refused)
{
    ck_assert_int_eq(status_of(ps_bytes_of_text(malformed[_i])), PS_ERR_BAD_INPUT);
    ck_assert_uint_gt(strlen(error.text), 0);
}
END_TEST

START_TEST(every_beginning_of_a_document_is_refused)
{
    static const char whole[] =
        "{\"kvs\":[{\"key\":\"L3Bz\",\"n\":\"12\",\"x\":-1.5e3}],\"m\":null}";
    for (size_t size = 0; size < sizeof whole - 1; size++) {
        /* A copy of its own, so that a sanitizer sees a step beyond the end. */
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, whole, size);
        ck_assert_int_eq(status_of((struct ps_bytes){copy, size}), PS_ERR_BAD_INPUT);
        free(copy);
    }
    ck_assert_int_eq(status_of(ps_bytes_of_text(whole)), PS_OK);
}
END_TEST

START_TEST(escaped_backslash_before_u0000_is_no_nul)
{
    struct ps_json *document = parse("\"\\\\u0000\"");

    ck_assert_str_eq(ps_json_string(document), "\\u0000");
    ps_json_destroy(document);
}
END_TEST

START_TEST(escapes_become_utf8)
{
    struct ps_json *document = parse("\"\\u20ac \\ud83d\\ude00 \\n\"");

    ck_assert_str_eq(ps_json_string(document), "\xe2\x82\xac \xf0\x9f\x98\x80 \n");
    ps_json_destroy(document);
}
END_TEST

START_TEST(document_larger_than_allowed_is_refused_unread)
{
    struct ps_json *document = NULL;

    ck_assert_int_eq(ps_json_parse(ps_bytes_of_text("[1,2]"), 4, &document, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_str_eq(error.text, "JSON of 5 bytes, more than the limit of 4");
    ck_assert_int_eq(ps_json_parse(ps_bytes_of_text("[1,2]"), 5, &document, &error), PS_OK);
    ps_json_destroy(document);
}
END_TEST

static enum ps_status nested(size_t depth, const char *open, const char *close)
{
    struct ps_buffer text;
    ps_buffer_init(&text, ps_allocator_heap(), SIZE_LIMIT);
    for (size_t i = 0; i < depth; i++)
        ps_buffer_append_text(&text, open);
    ps_buffer_append_text(&text, "1");
    for (size_t i = 0; i < depth; i++)
        ps_buffer_append_text(&text, close);
    enum ps_status status = status_of((struct ps_bytes){(const uint8_t *)text.text, text.size});
    ps_buffer_fini(&text);
    return status;
}

START_TEST(deep_nesting_is_refused_before_the_stack_ends)
{
    ck_assert_int_eq(nested(100, "[", "]"), PS_OK);
    ck_assert_int_eq(nested(100, "{\"a\":", "}"), PS_OK);
    ck_assert_int_eq(nested(100000, "[", "]"), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(nested(100000, "{\"a\":", "}"), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(nested(100000, "[", ""), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(what_we_write_reads_back)
{
    struct ps_buffer text;
    struct ps_json_writer writer;
    ps_buffer_init(&text, ps_allocator_heap(), 1000);
    ps_json_writer_init(&writer, &text);
    ps_json_begin_object(&writer, NULL);
    ps_json_text(&writer, "text", ps_bytes_of_text("a\"\\\n\x7f\xc3\xa9"));
    ps_json_int(&writer, "int", -5);
    ps_json_real(&writer, "real", 0.1);
    ps_json_end_object(&writer);

    struct ps_json *document = parse(text.text);
    int64_t integer = 0;
    double real = 0;
    ck_assert_str_eq(ps_json_string(ps_json_member(document, "text")), "a\"\\\n\x7f\xc3\xa9");
    ck_assert(ps_json_int_of(ps_json_member(document, "int"), &integer) && integer == -5);
    ck_assert(ps_json_real_of(ps_json_member(document, "real"), &real) && real == 0.1);
    ps_json_destroy(document);
    ps_buffer_fini(&text);
}
END_TEST

/* Visits every value by every look-up, so that a sanitizer sees each of them. */
static size_t visit(const struct ps_json *value)
{
    uint64_t natural;
    int64_t integer;
    double real;
    bool flag;
    size_t seen = 1;
    seen += ps_json_uint_of(value, &natural) ? 1 : 0;
    seen += ps_json_int_of(value, &integer) ? 1 : 0;
    seen += ps_json_real_of(value, &real) ? 1 : 0;
    seen += ps_json_bool_of(value, &flag) ? 1 : 0;
    const char *text = ps_json_string(value);
    const char *key = ps_json_key(value);
    seen += text != NULL ? strlen(text) : 0;
    seen += key != NULL ? strlen(key) : 0;
    for (const struct ps_json *i = ps_json_first(value); i != NULL; i = ps_json_next(i))
        seen += visit(i);
    return seen;
}

START_TEST(random_damage_is_refused_or_read_without_harm)
{
    static const char whole[] =
        "{\"header\":{\"revision\":\"12\",\"x\":[1,-2.5e3,true,null]},\"kvs\":[{\"key\":"
        "\"L3Bz\\n\\u20ac\",\"value\":\"\\ud83d\\ude00\",\"lease\":\"7587848943\"}],\"more\":"
        "false}";
    static const char likely[] = "{}[]\",:\\u0123456789eE+-.tfn \x80\xff";
    uint64_t seed = (uint64_t)_i;
    struct ps_random random;
    ps_random_init(&random, seed);
    for (int turn = 0; turn < 200; turn++) {
        size_t size = 1 + ps_random_below(&random, sizeof whole - 1);
        uint8_t *copy = malloc(size);
        memcpy(copy, whole, size);
        for (uint64_t n = 1 + ps_random_below(&random, 4); n > 0; n--)
            copy[ps_random_below(&random, size)] =
                (uint8_t)likely[ps_random_below(&random, sizeof likely - 1)];
        struct ps_json *document = NULL;
        enum ps_status status =
            ps_json_parse((struct ps_bytes){copy, size}, SIZE_LIMIT, &document, &error);
        ck_assert_msg(status == PS_OK || status == PS_ERR_BAD_INPUT, "seed %d", _i);
        if (status == PS_OK)
            ck_assert_uint_gt(visit(document), 0);
        ps_json_destroy(document);
        free(copy);
    }
}
END_TEST

/* cJSON takes its memory by itself; its own hooks refuse the n-th piece. */
static int64_t refuse_at;
static int64_t asked;
static int64_t live;

static void *refusing_malloc(size_t size)
{
    if (asked++ == refuse_at)
        return NULL;
    live++;
    return malloc(size);
}

static void counting_free(void *memory)
{
    live -= memory != NULL;
    free(memory);
}

START_TEST(refused_allocation_leaks_nothing)
{
    cJSON_Hooks hooks = {refusing_malloc, counting_free};
    cJSON_InitHooks(&hooks);
    refuse_at = _i;
    struct ps_json *document = NULL;

    enum ps_status status = ps_json_parse(ps_bytes_of_text("{\"a\":[\"b\",1],\"c\":{}}"),
                                          SIZE_LIMIT, &document, &error);

    ck_assert_int_eq(status, asked > _i ? PS_ERR_BAD_INPUT : PS_OK);
    ck_assert(asked > _i || _i == 9);
    ps_json_destroy(document);
    ck_assert_int_eq(live, 0);
    cJSON_InitHooks(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_reader");
    TCase *tests = tcase_create("json_reader");
    tcase_add_test(tests, members_are_found_by_name);
    tcase_add_test(tests, missing_members_give_nothing_all_the_way_down);
    tcase_add_test(tests, arrays_are_walked_in_order);
    tcase_add_test(tests, members_are_walked_with_their_keys);
    tcase_add_test(tests, kinds_are_not_mixed_up);
    tcase_add_loop_test(tests, whole_numbers_are_exact_or_refused, 0, (int)PS_ARRAY_COUNT(wholes));
    tcase_add_loop_test(tests, malformed_documents_are_refused, 0, (int)PS_ARRAY_COUNT(malformed));
    tcase_add_test(tests, every_beginning_of_a_document_is_refused);
    tcase_add_test(tests, escaped_backslash_before_u0000_is_no_nul);
    tcase_add_test(tests, escapes_become_utf8);
    tcase_add_test(tests, document_larger_than_allowed_is_refused_unread);
    tcase_add_test(tests, deep_nesting_is_refused_before_the_stack_ends);
    tcase_add_test(tests, what_we_write_reads_back);
    tcase_add_loop_test(tests, random_damage_is_refused_or_read_without_harm, 0, 20);
    tcase_add_loop_test(tests, refused_allocation_leaks_nothing, 0, 10);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
