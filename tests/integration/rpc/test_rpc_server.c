/* SPDX-License-Identifier: Apache-2.0 */
/* A server's life: made, refused, drained, ended, in every order that main may need. */
#include "rig.h"

#include "base/thread.h"
#include "proto/bundle_codec.h"
#include "proto/codec.h"
#include "proto/status_codes.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ps_service *new_service(void)
{
    const struct ps_service_options options = {
        .memory = ps_allocator_heap(), .clock = ps_clock_real(), .device = "cpu", .job = ""};
    struct ps_service *service;
    ck_assert_int_eq(ps_service_create(&options, &service, NULL), PS_OK);
    return service;
}

static enum ps_status create(struct ps_service *service, const struct ps_allocator *memory,
                             const char *address, struct ps_rpc_server **server,
                             struct ps_error *error)
{
    const struct ps_rpc_server_options options = {.service = service,
                                                  .memory = memory,
                                                  .clock = ps_clock_real(),
                                                  .listen = address,
                                                  .lane_count = 1};
    return ps_rpc_server_create(&options, server, error);
}

START_TEST(a_server_that_never_started_is_destroyed)
{
    struct ps_service *service = new_service();
    struct ps_rpc_server *server;

    ck_assert_int_eq(create(service, ps_allocator_heap(), "127.0.0.1:0", &server, NULL), PS_OK);

    ck_assert_uint_gt(ps_rpc_server_port(server), 0);
    ps_rpc_server_wake(server, PS_TOPIC_BIT(PS_TOPIC_LIFE));
    ps_rpc_server_destroy(server);
    ps_service_destroy(service);
}
END_TEST

START_TEST(a_server_that_nobody_called_is_destroyed)
{
    struct ps_service *service = new_service();
    struct ps_rpc_server *server;
    ck_assert_int_eq(create(service, ps_allocator_heap(), "127.0.0.1:0", &server, NULL), PS_OK);

    ck_assert_int_eq(ps_rpc_server_start(server, NULL), PS_OK);

    ps_rpc_server_destroy(server);
    ps_service_destroy(service);
}
END_TEST

START_TEST(an_address_in_use_is_an_error)
{
    char address[32];
    struct ps_error error = {0};
    struct ps_service *service = new_service();
    struct ps_rpc_server *first;
    struct ps_rpc_server *second;
    ck_assert_int_eq(create(service, ps_allocator_heap(), "127.0.0.1:0", &first, NULL), PS_OK);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ps_rpc_server_port(first));

    ck_assert_int_eq(create(service, ps_allocator_heap(), address, &second, &error), PS_ERR_IO);

    ck_assert_ptr_nonnull(strstr(error.text, address));
    ps_rpc_server_destroy(first);
    ps_service_destroy(service);
}
END_TEST

START_TEST(an_address_that_is_none_is_an_error)
{
    struct ps_service *service = new_service();
    struct ps_rpc_server *server;

    ck_assert_int_eq(create(service, ps_allocator_heap(), "no such host:x", &server, NULL),
                     PS_ERR_IO);

    ps_service_destroy(service);
}
END_TEST

/* Every refused allocation of create, in one test: gRPC's start-up is too slow for one each. */
START_TEST(create_survives_any_refused_allocation)
{
    struct ps_service *service = new_service();
    struct fault_heap heap;
    int64_t refuse_at = 0;
    enum ps_status status;
    do {
        heap = (struct fault_heap){.refuse_at = refuse_at};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct ps_rpc_server *server = NULL;

        status = create(service, &memory, "127.0.0.1:0", &server, NULL);

        if (status == PS_OK)
            ps_rpc_server_destroy(server);
        else
            ck_assert_int_eq(status, PS_ERR_NO_MEMORY);
        ck_assert_int_eq(heap.live, 0);
        refuse_at += refuse_at < 8 ? 1 : 17; /* the slots are alike */
    } while (heap.seen > heap.refuse_at);
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(refuse_at, 100);
    ps_service_destroy(service);
}
END_TEST

/* A heap that refuses everything for a while, from any thread. */
struct stingy_heap {
    atomic_bool refuses;
};

static void *stingy_zeroed(void *self, size_t size)
{
    struct stingy_heap *heap = self;
    return atomic_load(&heap->refuses) ? NULL : calloc(1, size);
}

static void stingy_release(void *self, void *memory)
{
    (void)self;
    free(memory);
}

START_TEST(calls_without_memory_are_refused_and_the_server_recovers)
{
    enum { COUNT = 300 * 1000 };
    static float values[COUNT];
    const struct ps_bytes content = {(const uint8_t *)values, sizeof values};
    struct stingy_heap heap = {.refuses = false};
    const struct ps_allocator memory = {stingy_zeroed, stingy_zeroed, stingy_release, &heap};
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.rpc_memory = &memory});
    rig_make_ready(&rig, COUNT);

    atomic_store(&heap.refuses, true);

    struct raw_answer pull = rig_call(&rig, PS_METHOD_PULL, rig_pull("w"));
    struct raw_answer push = rig_call(&rig, PS_METHOD_PUSH, rig_push("w", PS_F32, content));
    ck_assert_int_eq(pull.code, PS_RPC_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(pull.word, "no_memory");
    ck_assert_int_eq(push.code, PS_RPC_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(push.word, "no_memory");
    atomic_store(&heap.refuses, false);
    pull = rig_call(&rig, PS_METHOD_PULL, rig_pull("w"));
    push = rig_call(&rig, PS_METHOD_PUSH, rig_push("w", PS_F32, content));
    ck_assert_int_eq(pull.code, PS_RPC_OK);
    ck_assert_int_eq(push.code, PS_RPC_OK);
    struct ps_bytes bytes = {push.bytes, push.size};
    struct ps_push_reply reply;
    ck_assert_int_eq(ps_decode_push_reply(ps_view_of(&bytes), ps_allocator_heap(), &reply, NULL),
                     PS_OK);
    ck_assert_uint_eq(reply.version, 1);
    raw_answer_release(&pull);
    raw_answer_release(&push);
    rig_stop(&rig);
}
END_TEST

/* A heap that refuses one allocation, by its number from when it is told on; from any thread. */
struct counting_heap {
    atomic_int left; /* allocations until that one; below 0: it was, or none is refused */
};

static void *counting_zeroed(void *self, size_t size)
{
    struct counting_heap *heap = self;
    return atomic_fetch_sub(&heap->left, 1) == 0 ? NULL : calloc(1, size);
}

static uint64_t version_of_w(struct rig *rig)
{
    struct raw_answer answer = rig_call(rig, PS_METHOD_PULL, rig_pull("w"));
    struct ps_bytes bytes = {answer.bytes, answer.size};
    struct ps_pull_reply reply;
    struct ps_decoded decoded;
    ck_assert_int_eq(
        ps_decode_pull_reply(ps_view_of(&bytes), ps_allocator_heap(), &reply, &decoded, NULL),
        PS_OK);
    ps_decoded_release(&decoded);
    raw_answer_release(&answer);
    return reply.version;
}

/* A push to "w", by itself or as the only one of a batch. */
static struct ps_buffer push_request(enum ps_method method)
{
    static const float one = 1;
    const struct ps_bytes content = {(const uint8_t *)&one, sizeof one};
    const struct ps_request_id base = {.present = false};
    const struct ps_push_request push = {
        .name = ps_bytes_of_text("w"), .dtype = PS_F32, .content = ps_view_of(&content)};
    struct ps_buffer request;
    if (method == PS_METHOD_PUSH)
        return rig_push("w", PS_F32, content);
    ps_buffer_init(&request, ps_allocator_heap(), 1024);
    ps_encode_bundle_push(&push, &base, 0, &request);
    ps_buffer_append(&request, content);
    return request;
}

/* Every allocation of a push is refused once. What says that nothing was applied is held to it. */
START_TEST(what_was_applied_is_never_refused_for_want_of_memory)
{
    enum ps_method method = _i == 0 ? PS_METHOD_PUSH : PS_METHOD_PUSHES;
    struct counting_heap heap = {.left = -1};
    const struct ps_allocator memory = {counting_zeroed, counting_zeroed, stingy_release, &heap};
    int failures = 0;
    bool is_over = false;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.rpc_memory = &memory});
    rig_make_ready(&rig, 1);

    for (int refuse_at = 0; !is_over; refuse_at++) {
        uint64_t before = version_of_w(&rig);
        atomic_store(&heap.left, refuse_at);
        struct raw_answer answer = rig_call(&rig, method, push_request(method));
        is_over = atomic_exchange(&heap.left, -1) >= 0;
        failures += answer.code != PS_RPC_OK;
        if (answer.code != PS_RPC_OK && strcmp(answer.word, "timeout") != 0)
            ck_assert_uint_eq(version_of_w(&rig), before);
        raw_answer_release(&answer);
    }

    ck_assert_int_ge(failures, 1);
    rig_stop(&rig);
}
END_TEST

START_TEST(calls_that_outlast_the_drain_are_cancelled)
{
    const float values[] = {1};
    struct raw_pending finish;
    struct raw_answer answer;
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.saves = true});
    answer = rig_call(&rig, PS_METHOD_INIT,
                      rig_init("w", PS_F32, (struct ps_bytes){(const uint8_t *)values, 4},
                               (struct ps_bytes){NULL, 0}));
    ck_assert_int_eq(answer.code, PS_RPC_OK);
    raw_answer_release(&answer);
    raw_start(&rig.client, &finish, ps_method_path(PS_METHOD_FINISH), (struct ps_bytes){NULL, 0},
              60000);
    ck_assert(!raw_wait(&rig.client, &finish, 200, &answer));

    ps_rpc_server_drain(rig.server, ps_deadline_after(ps_clock_real(), 100));

    ck_assert(raw_wait(&rig.client, &finish, 20000, &answer));
    ck_assert(answer.code == PS_RPC_CANCELLED || answer.code == PS_RPC_UNAVAILABLE);
    ck_assert_str_eq(answer.word, "");
    raw_answer_release(&answer);
    ps_rpc_server_drain(rig.server, 0); /* a second one does nothing */
    rig_stop(&rig);
}
END_TEST

static void ring_often(void *argument)
{
    for (int i = 0; i < 20000; i++)
        ps_rpc_server_wake(argument, UINT64_MAX);
}

START_TEST(wakes_from_many_threads_are_safe_up_to_the_end)
{
    struct ps_thread ringers[3] = {0};
    struct rig rig;
    rig_start(&rig, &(struct rig_options){.lane_count = 2});
    for (size_t i = 0; i < PS_ARRAY_COUNT(ringers); i++)
        ck_assert_int_eq(ps_thread_start(&ringers[i], "ringer", ring_often, rig.server, NULL),
                         PS_OK);

    rig_make_ready(&rig, 4);
    ps_rpc_server_drain(rig.server, ps_deadline_after(ps_clock_real(), 5000));

    for (size_t i = 0; i < PS_ARRAY_COUNT(ringers); i++)
        ps_thread_join(&ringers[i]);
    rig_stop(&rig);
}
END_TEST

START_TEST(b19_a_pull_in_flight_keeps_what_it_reads)
{
    enum { COUNT = 2 * 1000 * 1000 };
    struct raw_pending pull;
    struct raw_answer answer;
    struct ps_buffer request = rig_pull("w");
    struct rig rig;
    rig_start(&rig, &(struct rig_options){0});
    rig_make_ready(&rig, COUNT);
    raw_start(&rig.client, &pull, ps_method_path(PS_METHOD_PULL),
              (struct ps_bytes){(const uint8_t *)request.text, request.size}, 20000);
    /* Whether the pull comes before or after this, it is whole. */
    ps_service_reset(rig.service);

    ck_assert(raw_wait(&rig.client, &pull, 20000, &answer));

    ck_assert(answer.code == PS_RPC_UNAVAILABLE || answer.size > COUNT * sizeof(float));
    raw_answer_release(&answer);
    ps_buffer_fini(&request);
    rig_stop(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rpc server");
    TCase *tests = tcase_create("rpc server");
    tcase_add_test(tests, a_server_that_never_started_is_destroyed);
    tcase_add_test(tests, a_server_that_nobody_called_is_destroyed);
    tcase_add_test(tests, an_address_in_use_is_an_error);
    tcase_add_test(tests, an_address_that_is_none_is_an_error);
    tcase_add_test(tests, create_survives_any_refused_allocation);
    tcase_add_test(tests, calls_without_memory_are_refused_and_the_server_recovers);
    tcase_add_loop_test(tests, what_was_applied_is_never_refused_for_want_of_memory, 0, 2);
    tcase_add_test(tests, calls_that_outlast_the_drain_are_cancelled);
    tcase_add_test(tests, wakes_from_many_threads_are_safe_up_to_the_end);
    tcase_add_test(tests, b19_a_pull_in_flight_keeps_what_it_reads);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
