/* The embedded descriptors, and what the reflection and health services say with them. */
#include "proto/descriptors.h"

#include "proto/health_codec.h"
#include "proto/reflection_codec.h"
#include "proto/wire.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static bool has_symbol(const char *name)
{
    struct ps_bytes file;
    return ps_descriptor_of_symbol(ps_bytes_of_text(name), &file);
}

START_TEST(files_are_found_by_name)
{
    struct ps_bytes file;

    ck_assert(ps_descriptor_of_file(ps_bytes_of_text("pserver/v1/pserver.proto"), &file));
    ck_assert_uint_gt(file.size, 100);
    ck_assert(ps_descriptor_of_file(ps_bytes_of_text("grpc/health/v1/health.proto"), &file));
    ck_assert(!ps_descriptor_of_file(ps_bytes_of_text("pserver/v1/pserver.prot"), &file));
    ck_assert(!ps_descriptor_of_file(ps_bytes_of_text(""), &file));
}
END_TEST

START_TEST(symbols_are_found_at_every_depth)
{
    ck_assert(has_symbol("pserver.v1.ParameterServer"));
    ck_assert(has_symbol("pserver.v1.ParameterServer.SendGrad"));
    ck_assert(has_symbol("pserver.v1.SendGradRequest"));
    ck_assert(has_symbol("pserver.v1.ElementType"));
    ck_assert(has_symbol("paddle.OptimizerConfig.Optimizer"));
    ck_assert(has_symbol("grpc.health.v1.HealthCheckResponse.ServingStatus"));
    ck_assert(has_symbol("grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo"));
}
END_TEST

START_TEST(what_is_no_symbol_is_not_found)
{
    ck_assert(!has_symbol(""));
    ck_assert(!has_symbol("."));
    ck_assert(!has_symbol("pserver.v1"));
    ck_assert(!has_symbol("pserver.v1."));
    ck_assert(!has_symbol("pserver.v1.ParameterServer."));
    ck_assert(!has_symbol("pserver.v1.ParameterServer..SendGrad"));
    ck_assert(!has_symbol("pserver.v1.ParameterServer.SendGrad.x"));
    ck_assert(!has_symbol("pserver.v1.Nobody"));
    ck_assert(!has_symbol("ParameterServer"));
}
END_TEST

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

START_TEST(health_names_its_service)
{
    const uint8_t request[] = {0x0a, 3, 'a', 'b', 'c'};
    const uint8_t no_text[] = {0x0a, 1, 0};
    struct ps_bytes bytes = {request, sizeof request};
    char service[PS_HEALTH_SERVICE_BYTES_MAX + 1];

    ck_assert_int_eq(ps_decode_health(ps_view_of(&bytes), service, NULL), PS_OK);
    ck_assert_str_eq(service, "abc");
    ck_assert_int_eq(ps_decode_health((struct ps_view){0}, service, NULL), PS_OK);
    ck_assert_str_eq(service, "");
    bytes = (struct ps_bytes){no_text, sizeof no_text};
    ck_assert_int_eq(ps_decode_health(ps_view_of(&bytes), service, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptors");
    TCase *tests = tcase_create("descriptors");
    tcase_add_test(tests, files_are_found_by_name);
    tcase_add_test(tests, symbols_are_found_at_every_depth);
    tcase_add_test(tests, what_is_no_symbol_is_not_found);
    tcase_add_test(tests, reflection_answers_each_question);
    tcase_add_test(tests, malformed_questions_are_refused);
    tcase_add_test(tests, health_names_its_service);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
