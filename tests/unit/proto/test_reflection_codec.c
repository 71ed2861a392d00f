/* SPDX-License-Identifier: Apache-2.0 */
/* proto/reflection_codec.c: what the reflection services answer. */
#include "proto/reflection_codec.h"

#include "proto/descriptors.h"
#include "proto/wire.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Asks with one text field; the answer's last field and what it holds. */
static struct ps_bytes ask(uint32_t number, const char *text, struct ps_buffer *reply,
                           uint32_t *answered)
{
    char memory[256];
    struct ps_buffer request;
    ps_buffer_init_fixed(&request, memory, sizeof memory);
    ps_wire_put_head(&request, number, strlen(text));
    ps_buffer_append_text(&request, text);
    struct ps_bytes bytes = {(const uint8_t *)request.text, request.size};
    ck_assert_int_eq(ps_reflection_answer(ps_view_of(&bytes), reply, NULL), PS_OK);
    struct ps_bytes answer = {(const uint8_t *)reply->text, reply->size};
    struct ps_bytes last = {NULL, 0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, ps_view_of(&answer), NULL);
    while (ps_wire_next(&reader, &field)) {
        *answered = field.number;
        ck_assert(ps_wire_range_in_one(&field.bytes, &last));
    }
    ck_assert_int_eq(reader.status, PS_OK);
    return last;
}

START_TEST(reflection_answers_each_question)
{
    const struct {
        uint32_t number;
        const char *text;
        uint32_t answered;
    } questions[] = {
        {7, "", 6},
        {3, "pserver/v1/admin.proto", 4},
        {4, "pserver.v1.Admin.GetStatus", 4},
        {3, "no/such.proto", 7},
        {4, "no.such.Symbol", 7},
        {5, "", 7},
        {6, "pserver.v1.Admin", 7},
        {1, "host only", 7},
    };
    for (size_t i = 0; i < PS_ARRAY_COUNT(questions); i++) {
        struct ps_buffer reply;
        ps_buffer_init(&reply, ps_allocator_heap(), PS_REFLECTION_REPLY_BYTES_MAX);
        uint32_t answered = 0;

        struct ps_bytes last = ask(questions[i].number, questions[i].text, &reply, &answered);

        ck_assert_uint_eq(answered, questions[i].answered);
        ck_assert_uint_gt(last.size, 0);
        ps_buffer_fini(&reply);
    }
}
END_TEST

START_TEST(malformed_questions_are_refused)
{
    static const uint8_t too_long[PS_REFLECTION_REQUEST_BYTES_MAX + 1] = {0};
    const uint8_t cut[] = {0x1a, 5, 'x'};
    const uint8_t no_text[] = {0x1a, 1, 0xff};
    const struct ps_bytes requests[] = {
        {too_long, sizeof too_long}, {cut, sizeof cut}, {no_text, sizeof no_text}};
    for (size_t i = 0; i < PS_ARRAY_COUNT(requests); i++) {
        char memory[64];
        struct ps_buffer reply;
        ps_buffer_init_fixed(&reply, memory, sizeof memory);

        ck_assert_int_eq(ps_reflection_answer(ps_view_of(&requests[i]), &reply, NULL),
                         PS_ERR_BAD_INPUT);
    }
}
END_TEST

/* The first field of that number in a message. */
static struct ps_bytes field_of(struct ps_bytes message, uint32_t number)
{
    struct ps_bytes found = {NULL, 0};
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, ps_view_of(&message), NULL);
    while (found.data == NULL && ps_wire_next(&reader, &field))
        if (field.number == number)
            ck_assert(ps_wire_range_in_one(&field.bytes, &found));
    return found;
}

START_TEST(an_answer_repeats_host_and_question)
{
    const uint8_t request[] = {0x0a, 1, 'h', 0x22, 2, 'n', 'o'};
    struct ps_bytes bytes = {request, sizeof request};
    char memory[256];
    struct ps_buffer reply;
    ps_buffer_init_fixed(&reply, memory, sizeof memory);

    ck_assert_int_eq(ps_reflection_answer(ps_view_of(&bytes), &reply, NULL), PS_OK);

    struct ps_bytes answer = {(const uint8_t *)reply.text, reply.size};
    ck_assert(ps_bytes_equal(field_of(answer, 1), ps_bytes_of_text("h")));
    ck_assert(ps_bytes_equal(field_of(answer, 2), bytes));
    ck_assert(ps_bytes_equal(field_of(field_of(answer, 7), 2), ps_bytes_of_text("not found")));
}
END_TEST

START_TEST(a_file_is_answered_with_its_descriptor)
{
    struct ps_buffer reply;
    ps_buffer_init(&reply, ps_allocator_heap(), PS_REFLECTION_REPLY_BYTES_MAX);
    uint32_t answered = 0;
    struct ps_bytes file;

    struct ps_bytes last = ask(3, "pserver/v1/admin.proto", &reply, &answered);

    ck_assert(ps_descriptor_of_file(ps_bytes_of_text("pserver/v1/admin.proto"), &file));
    ck_assert(ps_bytes_equal(field_of(last, 1), file));
    ps_buffer_fini(&reply);
}
END_TEST

START_TEST(every_service_that_is_listed_is_defined_in_a_file)
{
    struct ps_buffer reply;
    ps_buffer_init(&reply, ps_allocator_heap(), PS_REFLECTION_REPLY_BYTES_MAX);
    uint32_t answered = 0;
    size_t count = 0;

    struct ps_bytes list = ask(7, "", &reply, &answered);

    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, ps_view_of(&list), NULL);
    while (ps_wire_next(&reader, &field)) {
        struct ps_bytes service;
        struct ps_bytes file;
        ck_assert(ps_wire_range_in_one(&field.bytes, &service));
        ck_assert(ps_descriptor_of_symbol(field_of(service, 1), &file));
        count++;
    }
    ck_assert_int_eq(reader.status, PS_OK);
    ck_assert_uint_eq(count, 7);
    ps_buffer_fini(&reply);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reflection_codec");
    TCase *tests = tcase_create("reflection_codec");
    tcase_add_test(tests, reflection_answers_each_question);
    tcase_add_test(tests, malformed_questions_are_refused);
    tcase_add_test(tests, an_answer_repeats_host_and_question);
    tcase_add_test(tests, a_file_is_answered_with_its_descriptor);
    tcase_add_test(tests, every_service_that_is_listed_is_defined_in_a_file);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
