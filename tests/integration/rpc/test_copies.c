/* SPDX-License-Identifier: Apache-2.0 */
/* No byte of a parameter is copied between the network and the blocks, neither way. The linker puts
 * our own memcpy and memmove in the place of the C library's in all code of the server (but not in
 * gRPC's library), and they count. */
#include "rig.h"

#include "proto/bundle_codec.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 18, ROUNDS = 20 };

/* What a message costs besides its content: names, numbers, an element that the network has cut in
 * two. */
enum { BYTES_PER_MESSAGE = 2048 };

static const struct rig_options plain = {0};
static pthread_t main_thread;
static atomic_ullong copied;

void *__real_memcpy(void *to, const void *from, size_t size);
void *__real_memmove(void *to, const void *from, size_t size);
void *__real___memcpy_chk(void *to, const void *from, size_t size, size_t room);
void *__real___memmove_chk(void *to, const void *from, size_t size, size_t room);

static void count(size_t size)
{
    if (!pthread_equal(pthread_self(), main_thread))
        (void)atomic_fetch_add(&copied, size);
}

void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    count(size);
    return __real_memcpy(to, from, size);
}

void *__wrap_memmove(void *to, const void *from, size_t size)
{
    count(size);
    return __real_memmove(to, from, size);
}

void *__wrap___memcpy_chk(void *to, const void *from, size_t size, size_t room)
{
    count(size);
    return __real___memcpy_chk(to, from, size, room);
}

void *__wrap___memmove_chk(void *to, const void *from, size_t size, size_t room)
{
    count(size);
    return __real___memmove_chk(to, from, size, room);
}

static float *gradient;

static struct ps_bytes content(void)
{
    return (struct ps_bytes){(const uint8_t *)gradient, COUNT * sizeof *gradient};
}

static void start(struct rig *rig)
{
    main_thread = pthread_self();
    gradient = calloc(COUNT, sizeof *gradient);
    ck_assert_ptr_nonnull(gradient);
    rig_start(rig, &plain);
    rig_make_ready(rig, COUNT);
}

static void finish(struct rig *rig)
{
    rig_stop(rig);
    free(gradient);
}

static void call(struct rig *rig, enum ps_method method, struct ps_buffer request)
{
    struct raw_answer answer = rig_call(rig, method, request);
    ck_assert_msg(answer.code == 0, "%s", answer.text);
    raw_answer_release(&answer);
}

static void expect_none(size_t messages)
{
    unsigned long long bytes = atomic_load(&copied);
    printf("%llu bytes copied for %zu messages of %zu bytes\n", bytes, messages, content().size);
    ck_assert_uint_le(bytes, messages * BYTES_PER_MESSAGE);
}

START_TEST(a_push_copies_nothing)
{
    struct rig rig;
    start(&rig);
    call(&rig, PS_METHOD_PUSH, rig_push("w", PS_F32, content()));
    atomic_store(&copied, 0);
    for (int i = 0; i < ROUNDS; i++)
        call(&rig, PS_METHOD_PUSH, rig_push("w", PS_F32, content()));
    expect_none(ROUNDS);
    finish(&rig);
}
END_TEST

START_TEST(a_pull_copies_nothing)
{
    struct rig rig;
    start(&rig);
    atomic_store(&copied, 0);
    for (int i = 0; i < ROUNDS; i++)
        call(&rig, PS_METHOD_PULL, rig_pull("w"));
    expect_none(ROUNDS);
    finish(&rig);
}
END_TEST

static struct ps_buffer bundle(size_t pushes, size_t pulls)
{
    const struct ps_request_id nobody = {0};
    struct ps_bytes piece = content();
    const struct ps_push_request push = {
        .name = ps_bytes_of_text("w"), .dtype = PS_F32, .content = ps_view_of(&piece)};
    const struct ps_pull_request pull = {.name = ps_bytes_of_text("w")};
    struct ps_buffer wire;
    ps_buffer_init(&wire, ps_allocator_heap(), (size_t)1 << 28);
    for (size_t i = 0; i < pushes; i++) {
        ps_encode_bundle_push(&push, &nobody, i, &wire);
        ps_buffer_append(&wire, piece);
    }
    for (size_t i = 0; i < pulls; i++)
        ps_encode_bundle_pull(&pull, &wire);
    return wire;
}

START_TEST(batches_copy_nothing)
{
    struct rig rig;
    start(&rig);
    atomic_store(&copied, 0);
    call(&rig, PS_METHOD_PUSHES, bundle(ROUNDS, 0));
    call(&rig, PS_METHOD_PULLS, bundle(0, ROUNDS));
    expect_none(2 * ROUNDS);
    finish(&rig);
}
END_TEST

/* For who holds nothing: every block, with its digest. */
START_TEST(a_delta_pull_copies_nothing)
{
    struct rig rig;
    const struct ps_pull_request pull = {.name = ps_bytes_of_text("w")};
    start(&rig);
    atomic_store(&copied, 0);
    for (size_t i = 0; i < ROUNDS; i++) {
        struct ps_buffer wire;
        ps_buffer_init(&wire, ps_allocator_heap(), 1 << 16);
        ps_encode_bundle_pull(&pull, &wire);
        call(&rig, PS_METHOD_SINCE, wire);
    }
    expect_none(ROUNDS);
    finish(&rig);
}
END_TEST

/* The counter itself works: an initialisation copies into the blocks, once. */
START_TEST(what_is_copied_is_seen)
{
    struct rig rig;
    start(&rig);
    ck_assert_uint_ge(atomic_load(&copied), COUNT * sizeof *gradient);
    finish(&rig);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("copies");
    TCase *t = tcase_create("copies");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_push_copies_nothing);
    tcase_add_test(t, a_pull_copies_nothing);
    tcase_add_test(t, batches_copy_nothing);
    tcase_add_test(t, a_delta_pull_copies_nothing);
    tcase_add_test(t, what_is_copied_is_seen);
    suite_add_tcase(suite, t);
    return suite;
}

#ifndef PS_COPIES_ARE_ADDED

int main(void)
{
    return run_suite(make_suite());
}

#else

/* The same tests against a server that copies: they must fail where the copy is, and only there.
 * The linker puts a copy before every push, or behind every pull. */
enum place { NOWHERE, IN_PUSHES, IN_PULLS };
static enum place added;

enum ps_status __real_ps_service_push_range(struct ps_service *service,
                                            const struct ps_push_request *request,
                                            struct ps_push_reply *reply, struct ps_push_wait *wait,
                                            struct ps_pull *made, struct ps_error *error);
enum ps_status __real_ps_service_pull_or_wait(struct ps_service *service,
                                              const struct ps_pull_request *request,
                                              struct ps_pull *pull, struct ps_pull_wait *wait,
                                              struct ps_error *error);

static uint8_t *copy_of(struct ps_view view)
{
    uint8_t *copy = malloc(view.size);
    ck_assert_ptr_nonnull(copy);
    size_t at = 0;
    for (size_t i = 0; i < view.piece_count; at += view.pieces[i].size, i++)
        __wrap_memcpy(copy + at, view.pieces[i].data, view.pieces[i].size);
    return copy;
}

enum ps_status __wrap_ps_service_push_range(struct ps_service *service,
                                            const struct ps_push_request *request,
                                            struct ps_push_reply *reply, struct ps_push_wait *wait,
                                            struct ps_pull *made, struct ps_error *error)
{
    if (added != IN_PUSHES)
        return __real_ps_service_push_range(service, request, reply, wait, made, error);
    struct ps_push_request copied_request = *request;
    struct ps_bytes piece = {copy_of(request->content), request->content.size};
    copied_request.content = ps_view_of(&piece);
    copied_request.hold = (struct ps_hold){0};
    enum ps_status status =
        __real_ps_service_push_range(service, &copied_request, reply, wait, made, error);
    free((void *)(uintptr_t)piece.data);
    return status;
}

enum ps_status __wrap_ps_service_push(struct ps_service *service,
                                      const struct ps_push_request *request,
                                      struct ps_push_reply *reply, struct ps_push_wait *wait,
                                      struct ps_error *error)
{
    return __wrap_ps_service_push_range(service, request, reply, wait, NULL, error);
}

enum ps_status __wrap_ps_service_pull_or_wait(struct ps_service *service,
                                              const struct ps_pull_request *request,
                                              struct ps_pull *pull, struct ps_pull_wait *wait,
                                              struct ps_error *error)
{
    enum ps_status status = __real_ps_service_pull_or_wait(service, request, pull, wait, error);
    if (added == IN_PULLS && status == PS_OK)
        free(copy_of(pull->reply.content));
    return status;
}

/* Runs all tests: so many must fail, each by an assertion. */
static bool is_noticed(enum place where, int tests)
{
    added = where;
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    TestResult **results = srunner_failures(runner);
    bool by_assertion = true;
    for (int i = 0; i < failed; i++) {
        printf("copies added in %s: %s\n", where == IN_PUSHES ? "pushes" : "pulls",
               tr_msg(results[i]));
        by_assertion = by_assertion && tr_rtype(results[i]) == CK_FAILURE;
    }
    free(results);
    srunner_free(runner);
    return failed == tests && by_assertion;
}

int main(void)
{
    bool noticed = is_noticed(NOWHERE, 0);
    noticed = is_noticed(IN_PUSHES, 2) && noticed; /* alone and in a batch */
    noticed = is_noticed(IN_PULLS, 3) && noticed;  /* and in a delta pull */
    return noticed ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
