/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/header_writer.c: the head of a checkpoint file. */
#include "checkpoint/header_writer.h"

#include "run_suite.h"
#include "sample_checkpoint.h"
#include "tests/support/fault_heap.h"
#include "json/json_reader.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_buffer head;
static struct sample sample;

static struct ps_header_section sections[PS_CHECKPOINT_SECTION_COUNT];

static void set_up(void)
{
    ps_buffer_init(&head, ps_allocator_heap(), PS_HEADER_LENGTH_BYTES + PS_HEADER_BYTES_MAX);
    sample_init(&sample, 2, 5, 1);
}

static void tear_down(void)
{
    ps_buffer_fini(&head);
    sample_fini(&sample);
    memset(sections, 0, sizeof sections);
}

/* The two parameters of the sample, an I32 and a U32, in their order. */
static void write_head(void)
{
    struct ps_header_slot slots[] = {{.parameter = &sample.parameters[1], .crc32c = {0xabc}},
                                     {.parameter = &sample.parameters[0], .crc32c = {0xdef}}};
    ck_assert_int_eq(
        ps_header_write(&sample.facts, sections, slots, 2, ps_allocator_heap(), &head, NULL),
        PS_OK);
}

static struct ps_json *parsed(void)
{
    struct ps_json *document = NULL;
    struct ps_bytes json = {(const uint8_t *)head.text + PS_HEADER_LENGTH_BYTES,
                            head.size - PS_HEADER_LENGTH_BYTES};
    ck_assert_int_eq(ps_json_parse(json, json.size, &document, NULL), PS_OK);
    return document;
}

START_TEST(data_begins_at_a_multiple_of_64)
{
    write_head();

    ck_assert_uint_eq(head.size % 64, 0);
}
END_TEST

START_TEST(the_length_stands_first_in_little_endian)
{
    write_head();

    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | (uint8_t)head.text[i];
    ck_assert_uint_eq(length, head.size - 8);
}
END_TEST

START_TEST(the_header_is_an_object_padded_with_spaces)
{
    write_head();

    ck_assert_int_eq(head.text[8], '{');
    const char *end = strrchr(head.text + 8, '}');
    ck_assert_ptr_nonnull(end);
    ck_assert_uint_eq(strspn(end + 1, " "), strlen(end + 1));
}
END_TEST

START_TEST(metadata_holds_strings_only)
{
    write_head();
    struct ps_json *document = parsed();

    const struct ps_json *member = ps_json_first(ps_json_member(document, "__metadata__"));
    ck_assert_ptr_nonnull(member);
    for (; member != NULL; member = ps_json_next(member))
        ck_assert_msg(ps_json_string(member) != NULL, "%s", ps_json_key(member));
    ps_json_destroy(document);
}
END_TEST

START_TEST(tensors_lie_behind_each_other_without_gaps)
{
    write_head();
    struct ps_json *document = parsed();

    uint64_t expected = 0;
    const struct ps_json *tensor = ps_json_next(ps_json_first(document));
    ck_assert_ptr_nonnull(tensor);
    for (; tensor != NULL; tensor = ps_json_next(tensor)) {
        const struct ps_json *offsets = ps_json_member(tensor, "data_offsets");
        uint64_t begin = 0;
        uint64_t end = 0;
        ck_assert(ps_json_uint_of(ps_json_at(offsets, 0), &begin));
        ck_assert(ps_json_uint_of(ps_json_at(offsets, 1), &end));
        ck_assert_uint_eq(begin, expected);
        expected = end;
    }
    ck_assert_uint_eq(expected, sample.parameters[0].values.size +
                                    sample.parameters[1].values.size + sample.facts.sessions.size);
    ps_json_destroy(document);
}
END_TEST

/* The text of ps.format with one section of some bytes, and on a base or not. */
static void assert_format(enum ps_checkpoint_section section, const char *base, const char *format)
{
    memset(sections, 0, sizeof sections);
    sections[section].bytes = 8;
    sample.facts.base = base;
    ps_buffer_clear(&head);
    write_head();
    struct ps_json *document = parsed();
    const struct ps_json *metadata = ps_json_member(document, "__metadata__");
    ck_assert_str_eq(ps_json_string(ps_json_member(metadata, "ps.format")), format);
    ps_json_destroy(document);
}

/* Programs that know sections and bases, but not these, are to refuse the file by its number. */
START_TEST(candidates_have_a_format_of_their_own_whatever_else_is_there)
{
    static const char base[] = "0f47ac10-58cc-4372-a567-0e02b2c3d479";
    assert_format(PS_CHECKPOINT_ROUNDS, NULL, "3");
    assert_format(PS_CHECKPOINT_ROUNDS, base, "4");
    assert_format(PS_CHECKPOINT_CANDIDATES, NULL, "5");
    assert_format(PS_CHECKPOINT_CANDIDATES, base, "5");
}
END_TEST

/* Refuses the first allocation, then the second, and so on. */
START_TEST(a_refused_allocation_gives_no_header)
{
    struct ps_header_slot slots[] = {{.parameter = &sample.parameters[1]},
                                     {.parameter = &sample.parameters[0]}};
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_buffer other;
    ps_buffer_init(&other, &memory, PS_HEADER_BYTES_MAX);

    enum ps_status status =
        ps_header_write(&sample.facts, sections, slots, 2, &memory, &other, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_buffer_fini(&other);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(a_shape_of_several_dimensions_is_the_tensors_and_another_format)
{
    write_head();
    struct ps_json *document = parsed();
    const struct ps_json *metadata = ps_json_member(document, "__metadata__");
    ck_assert_str_eq(ps_json_string(ps_json_member(metadata, "ps.format")), "1");
    ps_json_destroy(document);
    ps_buffer_clear(&head);

    sample.parameters[0].shape =
        (struct ps_shape){.is_given = true, .rank = 2, .lengths = {1, sample.parameters[0].count}};
    sample.parameters[1].shape =
        (struct ps_shape){.is_given = true, .rank = 2, .lengths = {2, sample.parameters[1].count}};
    write_head();
    document = parsed();
    metadata = ps_json_member(document, "__metadata__");
    ck_assert_str_eq(ps_json_string(ps_json_member(metadata, "ps.format")), "2");
    const struct ps_json *range = ps_json_next(metadata);
    ck_assert_uint_eq(ps_json_count(ps_json_member(range, "shape")), 1);
    ck_assert_uint_eq(ps_json_count(ps_json_member(ps_json_next(range), "shape")), 2);
    ck_assert_ptr_nonnull(
        strstr(head.text + PS_HEADER_LENGTH_BYTES, "\\\"whole_shape\\\":[\\\"2\\\","));
    ps_json_destroy(document);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header_writer");
    TCase *tests = tcase_create("header_writer");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, candidates_have_a_format_of_their_own_whatever_else_is_there);
    tcase_add_test(tests, data_begins_at_a_multiple_of_64);
    tcase_add_test(tests, the_length_stands_first_in_little_endian);
    tcase_add_test(tests, the_header_is_an_object_padded_with_spaces);
    tcase_add_test(tests, metadata_holds_strings_only);
    tcase_add_test(tests, tensors_lie_behind_each_other_without_gaps);
    tcase_add_test(tests, a_shape_of_several_dimensions_is_the_tensors_and_another_format);
    tcase_add_loop_test(tests, a_refused_allocation_gives_no_header, 0, 16);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
