/* SPDX-License-Identifier: Apache-2.0 */
/* Answers what tools such as grpcurl ask about our .proto files, from the embedded descriptors
 * (grpc.reflection.v1 and v1alpha, which have the same messages). gRPC's own reflection is C++,
 * which this program does not link. */
#include "proto/reflection_codec.h"

#include "base/assert.h"
#include "proto/descriptors.h"
#include "proto/status_codes.h"
#include "proto/wire.h"

/* Fields of ServerReflectionRequest. */
enum {
    ASK_HOST = 1,
    ASK_FILE = 3,
    ASK_SYMBOL = 4,
    ASK_EXTENSION = 5,
    ASK_EXTENSION_NUMBERS = 6,
    ASK_SERVICES = 7
};

/* What is asked: the field of the oneof that was set last, since a later field of a oneof replaces
 * an earlier one. */
struct question {
    struct ps_bytes host;
    uint32_t kind;
    struct ps_bytes name;
};

static enum ps_status read_question(struct ps_bytes request, struct question *question,
                                    struct ps_error *error);
static void answer_services(struct ps_buffer *reply);
static void answer_file(struct ps_buffer *reply, struct ps_bytes file);
static void answer_error(struct ps_buffer *reply, enum ps_rpc_code code, const char *text);

enum ps_status ps_reflection_answer(struct ps_view request, struct ps_buffer *reply,
                                    struct ps_error *error)
{
    /* A question is a name. In one piece on the stack it can be looked at as text and repeated in
     * the answer, which the protocol demands. */
    uint8_t copy[PS_REFLECTION_REQUEST_BYTES_MAX];
    if (request.size > sizeof copy)
        return ps_fail(error, PS_ERR_BAD_INPUT, "reflection: %zu bytes are too long", request.size);
    ps_view_copy(request, 0, copy, request.size);
    struct ps_bytes bytes = {copy, request.size};
    struct question question = {0};
    PS_TRY(read_question(bytes, &question, error));

    struct ps_bytes file;
    ps_wire_put_bytes(reply, 1, question.host);
    ps_wire_put_head(reply, 2, bytes.size);
    ps_buffer_append(reply, bytes);
    /* A question that has no answer gets an ErrorResponse and not a failed call: the stream goes
     * on, and a tool asks for several names in turn. */
    if (question.kind == ASK_SERVICES)
        answer_services(reply);
    else if (question.kind == ASK_FILE && ps_descriptor_of_file(question.name, &file))
        answer_file(reply, file);
    else if (question.kind == ASK_SYMBOL && ps_descriptor_of_symbol(question.name, &file))
        answer_file(reply, file);
    else if (question.kind == 0)
        answer_error(reply, PS_RPC_INVALID_ARGUMENT, "nothing was asked");
    else
        answer_error(reply, PS_RPC_NOT_FOUND, "not found");
    return ps_buffer_status(reply, error);
}

static enum ps_status read_question(struct ps_bytes request, struct question *question,
                                    struct ps_error *error)
{
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    ps_wire_reader_init(&reader, ps_view_of(&request), error);
    while (ps_wire_next(&reader, &field)) {
        /* Newer questions are unknown fields; only they are left, the answer is "nothing was
         * asked". */
        if (field.number != ASK_HOST && (field.number < ASK_FILE || field.number > ASK_SERVICES))
            continue;
        struct ps_wire_range range = ps_wire_bytes(&reader, &field, request.size, "question");
        struct ps_bytes text;
        bool in_one = ps_wire_range_in_one(&range, &text);
        PS_ASSERT(in_one);
        /* The question about an extension is a nested message; its bytes are not text. */
        if (field.number != ASK_EXTENSION && !ps_wire_is_text(text))
            ps_wire_refuse(&reader, "reflection: not UTF-8 without NUL");
        if (field.number == ASK_HOST) {
            question->host = text;
            continue;
        }
        question->kind = field.number;
        question->name = text;
    }
    return reader.status;
}

/* ListServiceResponse{service{name}...} in field 6. The list is written here and not walked out of
 * the descriptors: it is seven names, which the integration tests ask for. */
static void answer_services(struct ps_buffer *reply)
{
    static const char *const services[] = {
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "pserver.v1.Admin",
        "pserver.v1.ParameterServer",
        "pserver.v1.Programs",
        "pserver.v1.Rendezvous",
    };
    size_t size = 0;
    for (size_t i = 0; i < PS_ARRAY_COUNT(services); i++)
        /* Two tags and two lengths around each name. */
        size += 4 + ps_bytes_of_text(services[i]).size;
    ps_wire_put_head(reply, 6, size);
    for (size_t i = 0; i < PS_ARRAY_COUNT(services); i++) {
        struct ps_bytes name = ps_bytes_of_text(services[i]);
        PS_ASSERT(name.size + 2 < 0x80); /* so that each length takes one byte */
        ps_wire_put_head(reply, 1, name.size + 2);
        ps_wire_put_bytes(reply, 1, name);
    }
}

/* FileDescriptorResponse{file_descriptor_proto} in field 4. Only the file itself: tools ask for its
 * imports one after the other. */
static void answer_file(struct ps_buffer *reply, struct ps_bytes file)
{
    ps_wire_put_head(reply, 4, 1 + ps_wire_varint_size(file.size) + file.size);
    ps_wire_put_bytes(reply, 1, file);
}

/* ErrorResponse{error_code, error_message} in field 7. */
static void answer_error(struct ps_buffer *reply, enum ps_rpc_code code, const char *text)
{
    size_t size = ps_bytes_of_text(text).size;
    PS_ASSERT(size < 0x80 && code < 0x80); /* one byte each */
    ps_wire_put_head(reply, 7, 2 + 2 + size);
    ps_wire_put_uint(reply, 1, (uint64_t)code);
    ps_wire_put_text(reply, 2, text);
}
