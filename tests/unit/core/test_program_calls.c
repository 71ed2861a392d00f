/* SPDX-License-Identifier: Apache-2.0 */
/* Programs at a service: whom it tells, handlers of this process, what becomes of requests when the
 * shard goes, and how answers are cut out of one message. */
#include "server/core/requests/program_calls.h"

#include "core_world.h"
#include "run_suite.h"
#include "server/core/programs/program_request.h"

#include <check.h>
#include <string.h>

enum { APP = 4 };

static struct core_world world;
static struct ps_ask_wait asks[3];
static struct ps_take_wait takes[2];
static uint64_t turn;
static struct ps_program_request *deferred;
static int handled;

static void begin(void)
{
    world_init(&world, false, 0);
    world_own(&world, 7);
    ps_service_begin_empty(world.service);
    world.topics = 0;
    turn = 0;
    handled = 0;
}

static void end(void)
{
    for (size_t i = 0; i < 3; i++)
        (void)ps_service_leave_ask(world.service, &asks[i]);
    for (size_t i = 0; i < 2; i++)
        ps_service_leave_take(world.service, &takes[i]);
    world_fini(&world);
}

static enum ps_status ask(int number, uint32_t shard, uint64_t wait_ms)
{
    const struct ps_program_room room = {.size = 0};
    const struct ps_ask_request request = {
        .asked = {.app = APP, .worker = (uint32_t)number, .command = number}, .shard = shard};
    return ps_service_ask(world.service, &request, NULL, &room, wait_ms, &asks[number],
                          &world.error);
}

static enum ps_status look(int number)
{
    return ps_service_await_answer(world.service, &asks[number], &world.error);
}

static enum ps_status take(int number, uint32_t max)
{
    const struct ps_take_request request = {
        .app = APP, .taker = (uint64_t)number + 1, .turn = ++turn, .max = max};
    ps_service_leave_take(world.service, &takes[number]);
    return ps_service_take(world.service, &request, 500, 0, &takes[number], &world.error);
}

START_TEST(takers_and_askers_are_told_by_their_topics)
{
    ck_assert_int_eq(take(0, 1), PS_ERR_NOT_READY);
    ck_assert_int_eq(ask(0, 1, 500), PS_ERR_NOT_READY);
    ck_assert_uint_eq(ps_service_programs_again_ms(world.service, asks[0].until_ms), 500);
    ck_assert_uint_eq(world.topics, PS_TOPIC_BIT(takes[0].topic));
    ck_assert_int_eq(ps_service_await_requests(world.service, 0, &takes[0], &world.error), PS_OK);
    world.topics = 0;
    const struct ps_program_answered answered = {.handle = takes[0].taking.rows[0].handle};
    const struct ps_answer_request request = {
        .app = APP, .taker = 1, .token = 9, .answers = &answered, .answer_count = 1};
    enum ps_status status;
    ck_assert_int_eq(ps_service_answer_taken(world.service, &request, NULL, &status, &world.error),
                     PS_OK);
    ck_assert_int_eq(status, PS_OK);
    ck_assert_uint_eq(world.topics, PS_TOPIC_BIT(asks[0].topic));
    ck_assert_int_eq(look(0), PS_OK);
    ps_service_check(world.service);
}
END_TEST

/* Rows of one tensor, by true offsets: with their own shapes, and none copied twice. */
START_TEST(one_buffer_is_cut_into_answers)
{
    static const uint8_t content[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const struct ps_bytes pieces[] = {{content, 5}, {content + 5, 7}};
    const struct ps_program_tensor tensors[] = {
        {.size = 4},
        {.key = 3, .size = 8, .facts = {.element_size = 1, .rank = 2, .extents = {4, 2}}}};
    const struct ps_answer_part parts[] = {
        {.tensor = 1, .row_begin = 1, .rows = 2, .key = 8}, {.tensor = 0}, {.tensor = 1}};
    struct ps_program_answered answered[2] = {{.parts = parts, .part_count = 2},
                                              {.parts = parts + 2, .part_count = 1}};
    const struct ps_answer_request request = {.app = APP,
                                              .taker = 1,
                                              .token = 9,
                                              .tensors = tensors,
                                              .tensor_count = 2,
                                              .answers = answered,
                                              .answer_count = 2,
                                              .content = {pieces, 2, 12}};
    enum ps_status statuses[2];
    struct ps_ask_reply reply;
    struct ps_parcel *parcel;
    uint8_t got[16];
    ck_assert_int_eq(ask(0, 0, 500), PS_ERR_NOT_READY);
    ck_assert_int_eq(ask(1, 0, 500), PS_ERR_NOT_READY);
    ck_assert_int_eq(take(0, 2), PS_OK);
    for (size_t i = 0; i < 2; i++)
        answered[i].handle = takes[0].taking.rows[i].handle;
    ck_assert_int_eq(ps_service_answer_taken(world.service, &request, NULL, statuses, &world.error),
                     PS_OK);
    ck_assert_int_eq(look(0), PS_OK);
    ps_asking_answer(&asks[0].asking, &reply, &parcel);
    ck_assert_uint_eq(reply.payload.content.size, 8);
    ps_view_copy(reply.payload.content, 0, got, 8);
    ck_assert_mem_eq(got, content + 6, 4);
    ck_assert_mem_eq(got + 4, content, 4);
    ck_assert_uint_eq(reply.payload.tensors[0].key, 8);
    ck_assert_uint_eq(reply.payload.tensors[0].facts.extents[0], 2);
    ck_assert_int_eq(look(1), PS_OK);
    ps_asking_answer(&asks[1].asking, &reply, &parcel);
    ps_view_copy(reply.payload.content, 0, got, 8);
    ck_assert_mem_eq(got, content + 4, 8);
    ck_assert_uint_eq(reply.payload.tensors[0].key, 3);
}
END_TEST

/* The first request is put by, the others are answered at once. */
static void handle(void *self, struct ps_service *service, struct ps_program_request *request)
{
    const struct ps_mailbox_answer answer = {.handle = request->handle};
    ck_assert_ptr_eq(self, &world);
    if (handled++ == 0)
        deferred = ps_program_request_acquire(ps_service_mailbox(service), request);
    else
        ck_assert_int_eq(ps_service_answer(service, &answer), PS_OK);
}

START_TEST(a_handler_answers_within_the_call_or_later)
{
    const struct ps_program_handler handler = {handle, &world};
    ck_assert_int_eq(ps_service_register_program(world.service, APP, &handler, &world.error),
                     PS_OK);
    ck_assert_int_eq(ps_service_register_program(world.service, APP, &handler, &world.error),
                     PS_ERR_EXISTS);
    ck_assert_int_eq(ask(0, 0, 500), PS_ERR_NOT_READY);
    ck_assert_int_eq(ask(1, 0, 500), PS_OK);
    ck_assert_int_eq(handled, 2);
    ck_assert_uint_eq(world.topics, 0);
    const struct ps_mailbox_answer answer = {.handle = deferred->handle};
    ck_assert_int_eq(ps_service_answer(world.service, &answer), PS_OK);
    ck_assert_uint_eq(world.topics, PS_TOPIC_BIT(asks[0].topic));
    ck_assert_int_eq(ps_service_answer(world.service, &answer), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(look(0), PS_OK);
    ps_program_request_release(ps_service_mailbox(world.service), deferred);
    ck_assert_int_eq(take(0, 1), PS_ERR_EXISTS);
    ps_service_check(world.service);
}
END_TEST

START_TEST(another_shard_and_no_shard_are_told)
{
    const struct ps_answer_request nobody = {.app = APP, .token = 1};
    ck_assert_int_eq(ask(0, 99, 500), PS_ERR_NOT_OWNER);
    ck_assert_int_eq(ps_service_answer_taken(world.service, &nobody, NULL, NULL, &world.error),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ask(0, 1, 500), PS_ERR_NOT_READY);
    ps_service_lose_programs(world.service);
    ck_assert_int_eq(look(0), PS_ERR_ABORTED);
    ck_assert_ptr_nonnull(strstr(world.error.text, "is another one"));
    ck_assert_uint_gt(ps_mailbox_epoch(ps_service_mailbox(world.service)), 0);
    ps_service_sweep_programs(world.service);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("program_calls");
    TCase *tests = tcase_create("program_calls");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, takers_and_askers_are_told_by_their_topics);
    tcase_add_test(tests, one_buffer_is_cut_into_answers);
    tcase_add_test(tests, a_handler_answers_within_the_call_or_later);
    tcase_add_test(tests, another_shard_and_no_shard_are_told);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
