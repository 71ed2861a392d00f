/* SPDX-License-Identifier: Apache-2.0 */
/* Handing memory over, and naming ranges of it. */
#include "sharer.h"

#include "base/local_socket.h"
#include "proto/codec.h"
#include "proto/shared_range.h"
#include "proto/status_codes.h"

#include "expect_each.h"

#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct rig rig;
char name[128];
struct sharer mine;

void call_expect(enum ps_method method, struct ps_buffer request, const char *word)
{
    struct raw_answer answer = rig_call(&rig, method, request);
    ck_assert_msg(strcmp(answer.word, word) == 0, "%d %s: %s", answer.code, answer.word,
                  answer.text);
    raw_answer_release(&answer);
}

void learn_name(void)
{
    rig.client.asks = true;
    struct raw_answer answer = rig_call(&rig, PS_METHOD_PULL, rig_pull("w"));
    rig.client.asks = false;
    snprintf(name, sizeof name, "%s", answer.name);
    raw_answer_release(&answer);
}

int connect_socket(void)
{
    int made;
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), SHARER_WAIT_MS);
    enum ps_status status = PS_ERR_UNAVAILABLE; /* too many wait to be accepted */
    while (status == PS_ERR_UNAVAILABLE && ps_time_left_ms(ps_clock_real(), deadline_ms) > 0)
        status = ps_local_socket_connect(ps_bytes_of_text(name), &made, NULL);
    ck_assert_int_eq(status, PS_OK);
    return made;
}

void say_hello(int socket, uint64_t size, int descriptor)
{
    uint8_t hello[PS_SHARED_HELLO_BYTES];
    ps_shared_hello_write(size, hello);
    ck_assert_int_eq(
        ps_local_socket_send(socket, (struct ps_bytes){hello, sizeof hello}, descriptor, NULL),
        PS_OK);
}

uint64_t await_answer(int socket)
{
    uint8_t message[PS_SHARED_WELCOME_BYTES];
    size_t size = 0;
    int passed;
    uint64_t number = 0;
    struct pollfd readable = {.fd = socket, .events = POLLIN};
    ck_assert_int_eq(poll(&readable, 1, SHARER_WAIT_MS), 1);
    enum ps_status status =
        ps_local_socket_receive(socket, message, sizeof message, &size, &passed, NULL);
    if (status == PS_OK)
        ck_assert(ps_shared_welcome_read((struct ps_bytes){message, size}, &number));
    return number;
}

void share(struct sharer *sharer, size_t size)
{
    int descriptor;
    sharer->socket = connect_socket();
    ck_assert_int_eq(ps_shared_segment_create(size, &sharer->segment, &descriptor, NULL), PS_OK);
    say_hello(sharer->socket, size, descriptor);
    close(descriptor);
    sharer->number = await_answer(sharer->socket);
}

void leave(struct sharer *sharer)
{
    ps_shared_segment_close(&sharer->segment);
    close(sharer->socket);
}

struct ps_buffer push_of(struct ps_shared_range range, uint64_t sequence)
{
    struct ps_buffer request;
    ps_buffer_init(&request, ps_allocator_heap(), 4096);
    const struct ps_push_request fields = {.name = ps_bytes_of_text("w"),
                                           .dtype = PS_F32,
                                           .shared = range,
                                           .request = {.present = sequence > 0,
                                                       .client_id = ps_bytes_of_text("shared"),
                                                       .session = 1,
                                                       .sequence = sequence}};
    ps_encode_push(&fields, &request);
    return request;
}

struct ps_buffer pull_into(struct ps_shared_range range)
{
    struct ps_buffer request;
    ps_buffer_init(&request, ps_allocator_heap(), 4096);
    const struct ps_pull_request fields = {.name = ps_bytes_of_text("w"), .shared = range};
    ps_encode_pull(&fields, &request);
    return request;
}

struct ps_shared_range range_at(uint64_t offset)
{
    return (struct ps_shared_range){mine.number, offset, CONTENT_BYTES};
}

uint64_t pull_values(float *values)
{
    struct ps_pull_reply reply;
    struct ps_decoded decoded;
    struct raw_answer answer = rig_call(&rig, PS_METHOD_PULL, rig_pull("w"));
    ck_assert_int_eq(answer.code, PS_RPC_OK);
    struct ps_bytes bytes = {answer.bytes, answer.size};
    ck_assert_int_eq(
        ps_decode_pull_reply(ps_view_of(&bytes), ps_allocator_heap(), &reply, &decoded, NULL),
        PS_OK);
    ck_assert_uint_eq(reply.content.size, CONTENT_BYTES);
    ps_view_copy(reply.content, 0, values, CONTENT_BYTES);
    uint64_t version = reply.version;
    ps_decoded_release(&decoded);
    raw_answer_release(&answer);
    return version;
}

void fill(uint64_t offset, float value)
{
    float *at = (float *)(void *)(mine.segment.bytes + offset);
    for (size_t i = 0; i < COUNT; i++)
        at[i] = value * (float)i;
}

void expect_values(uint64_t version, float per_index)
{
    static float values[COUNT];
    ck_assert_uint_eq(pull_values(values), version);
    expect_each(i, COUNT, values[i] == per_index * (float)i);
}

void start_with(const struct rig_options *options)
{
    rig_start(&rig, options);
    rig_make_ready(&rig, COUNT);
    learn_name();
}

void set_up(void)
{
    start_with(&(struct rig_options){.shared_memory_bytes = LIMIT_BYTES});
    share(&mine, SEGMENT_BYTES);
    ck_assert_uint_ne(mine.number, 0);
}

void tear_down(void)
{
    leave(&mine);
    rig_stop(&rig);
}
