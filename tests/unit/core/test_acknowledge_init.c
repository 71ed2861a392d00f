/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/init_param.c and finish.c with a journal: repeats, and refusals that may come
 * again. */
#include "tests/unit/core/core_world.h"

#include <stdio.h>
#include <string.h>

static struct core_world world;

static void begin_test(void)
{
    world_init_journal_empty(&world);
}

static void end_test(void)
{
    world_fini(&world);
}

static enum ps_status init_as(const char *name, uint64_t sequence, float first)
{
    const float values[] = {first, 2};
    struct ps_bytes piece = {(const uint8_t *)values, sizeof values};
    struct ps_init_request request = {
        .name = text(name),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .request = {
            .present = true, .client_id = text("client"), .session = 1, .sequence = sequence}};
    return ps_service_init(world.service, &request, NULL, &world.error);
}

static enum ps_status finish_as(uint64_t sequence, struct ps_ticket *ticket)
{
    const struct ps_finish_request request = {
        .request = {
            .present = true, .client_id = text("client"), .session = 1, .sequence = sequence}};
    return ps_service_finish(world.service, &request, ticket, &world.error);
}

START_TEST(p2_repeats_of_init_and_finish_are_ok_and_change_nothing)
{
    const float first[] = {1, 2};
    struct ps_ticket ticket;
    struct ps_ticket again;
    ck_assert_int_eq(init_as("a", 1, 1), PS_OK);
    ck_assert_int_eq(init_as("a", 1, 1), PS_OK);
    ck_assert_int_eq(init_as("a", 1, 5), PS_ERR_ID_REUSED);
    ck_assert_int_eq(finish_as(2, &ticket), PS_OK);

    ck_assert_int_eq(finish_as(2, &again), PS_OK);
    ck_assert_int_eq(init_as("a", 1, 1), PS_OK);
    ck_assert_int_eq(init_as("a", 2, 1), PS_ERR_ID_REUSED);

    ck_assert_uint_eq(again.number, ticket.number);
    ck_assert_uint_ne(ticket.number, 0);
    ck_assert_int_eq(finish_as(3, &again), PS_ERR_EXISTS);
    ck_assert_int_eq(init_as("a", 3, 7), PS_ERR_EXISTS);
    world_expect_f32(&world, "a", first, 2);
}
END_TEST

START_TEST(a_repeat_of_init_is_not_answered_by_a_fenced_server)
{
    ck_assert_int_eq(init_as("a", 1, 1), PS_OK);
    ps_service_prove(world.service, 0);

    ck_assert_int_eq(init_as("a", 1, 1), PS_ERR_UNAVAILABLE);
}
END_TEST

START_TEST(a_refused_init_may_come_again)
{
    ck_assert_int_eq(init_as("", 1, 1), PS_ERR_BAD_INPUT);
    int64_t live = world.heap.live;
    enum ps_status status = PS_ERR_NO_MEMORY;

    for (int64_t refuse = 0; status != PS_OK; refuse++) {
        ck_assert_int_lt(refuse, 100);
        world.heap.refuse_at = world.heap.seen + refuse;
        status = init_as("a", 1, 1);
        world.heap.refuse_at = -1;
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        ck_assert(status == PS_OK || world.heap.live <= live + 3); /* the client */
        ps_service_check(world.service);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("acknowledge_init");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, p2_repeats_of_init_and_finish_are_ok_and_change_nothing);
    tcase_add_test(tests, a_repeat_of_init_is_not_answered_by_a_fenced_server);
    tcase_add_test(tests, a_refused_init_may_come_again);
    return run_tests("acknowledge_init", tests);
}
