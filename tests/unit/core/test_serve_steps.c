/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/serve.c: budgets, steps, what takes long, and content that lies elsewhere. */
#include "tests/unit/core/core_serve.h"

#include "server/core/requests/service_state.h"

#include <stdlib.h>

/* ---- Budgets ---- */

static void init_block(const char *name)
{
    void *values = calloc(1, PS_BLOCK_BYTES);
    ck_assert_ptr_nonnull(values);
    ck_assert_int_eq(
        world_init_param(&world, name, PS_F32, values, PS_BLOCK_BYTES, (struct ps_bytes){NULL, 0}),
        PS_OK);
    free(values);
}

/* What delta pulls may take is for all of them together, and has room for one block at least. */
START_TEST(a_delta_that_has_no_room_is_to_be_asked_for_at_once)
{
    world_init_empty(&world);
    serve_begin();
    init_block("a");
    init_block("b");
    ck_assert_int_eq(world_finish(&world), PS_OK);
    serve_add_pull("a")->held.present = true;
    serve_add_pull("b")->held.present = true;
    serve.request.bytes_max = 1;

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pulls[0].status.status, PS_OK);
    ck_assert_uint_eq(pulls[0].pull.reply.content.size, PS_BLOCK_BYTES);
    ck_assert_int_eq(pulls[1].status.status, PS_ERR_BUSY);
    ck_assert_uint_eq(pulls[1].status.retry_ms, 0);
    serve_end();
}
END_TEST

/* A caller whose bytes nobody vouches for may ask for both: early values are no delta. */
START_TEST(early_values_take_nothing_of_the_budget_of_deltas)
{
    serve_begin_ready();
    struct ps_pull_request *both = serve_add_pull("w");
    both->of_push = true;
    both->held.present = true;
    serve_add_pull("w")->held.present = true;

    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pulls[1].status.status, PS_OK);
    serve_end();
}
END_TEST

START_TEST(a_long_bundle_lets_others_have_their_turn)
{
    serve_begin_ready();
    for (size_t i = 0; i < ITEMS_MAX; i++)
        serve_add_push("w");
    serve_add_pull("w");

    size_t steps = 1;
    while (serve_step(turn) == PS_SERVE_GOES_ON)
        steps++;

    ck_assert_uint_eq(steps, 3);
    ck_assert_uint_eq(pushes[ITEMS_MAX - 1].reply.version, ITEMS_MAX);
    serve_expect_pulled(1 - ITEMS_MAX);
    serve_end();
}
END_TEST

/* P4: a reply speaks for the shard when it leaves, whenever its items were looked at. The machine
 * may stop between two turns, and the lease end meanwhile. */
START_TEST(what_an_earlier_turn_promised_is_taken_back_when_the_lease_ends_before_the_reply)
{
    serve_begin_ready();
    ps_service_prove(world.service, world.fake.now_ms + 1000);
    serve_add_push("w");
    for (size_t i = 0; i < ITEMS_MAX; i++)
        serve_add_pull("w");
    ck_assert_int_eq(serve_step(turn), PS_SERVE_GOES_ON);
    ck_assert_uint_gt(ps_serve_pulled(&serve), 0);
    world.fake.now_ms += 2000;

    while (serve_step(turn) == PS_SERVE_GOES_ON)
        continue;

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_UNAVAILABLE);
    for (size_t i = 0; i < ITEMS_MAX; i++) {
        ck_assert_int_eq(pulls[i].status.status, PS_ERR_UNAVAILABLE);
        ck_assert_ptr_null(pulls[i].pull.held);
    }
    serve_end();
}
END_TEST

/* ---- What takes long ---- */

static void set_updating(uint64_t bytes)
{
    struct ps_parameter *parameter = ps_parameter_table_find(&world.service->table, text("w"));
    atomic_store(&parameter->updating, bytes);
}

START_TEST(a_pull_behind_a_long_update_leaves_where_it_may)
{
    serve_begin_ready();
    serve_add_pull("w");
    set_updating(PS_SERVE_LONG_BYTES);

    ck_assert_int_eq(serve_step(leaving), PS_SERVE_LEAVES);
    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    serve_expect_pulled(1);
    set_updating(0);
    serve_end();
}
END_TEST

START_TEST(a_large_push_leaves_before_anything_is_done)
{
    serve_begin_ready();
    void *content = calloc(1, PS_SERVE_LONG_BYTES);
    const struct ps_bytes piece = {content, PS_SERVE_LONG_BYTES};
    ck_assert_ptr_nonnull(content);
    serve_add_push("w")->content = ps_view_of(&piece);

    ck_assert_int_eq(serve_step(leaving), PS_SERVE_LEAVES);
    ck_assert_uint_eq(ps_serve_pushed(&serve), 0);
    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_BAD_INPUT);
    free(content);
    serve_end();
}
END_TEST

/* ---- Content elsewhere ---- */

struct elsewhere {
    enum ps_status open_status, give_status;
    int opened, closed, given;
};

static enum ps_status open_content(void *self, struct ps_push_request *request,
                                   struct ps_error *why)
{
    struct elsewhere *elsewhere = self;
    elsewhere->opened++;
    if (elsewhere->open_status != PS_OK)
        return ps_fail(why, elsewhere->open_status, "no such memory");
    request->content = ps_view_of(&ones);
    return PS_OK;
}

static void close_content(void *self)
{
    ((struct elsewhere *)self)->closed++;
}

static enum ps_status give_content(void *self, const struct ps_shared_range *room,
                                   struct ps_pull_reply *reply, struct ps_error *why)
{
    struct elsewhere *elsewhere = self;
    elsewhere->given++;
    ck_assert_uint_eq(room->segment, 7);
    if (elsewhere->give_status != PS_OK)
        return ps_fail(why, elsewhere->give_status, "no such room");
    reply->shared_size = reply->content.size;
    reply->content = (struct ps_view){0};
    return PS_OK;
}

static void serve_elsewhere(struct elsewhere *elsewhere)
{
    const struct ps_serve_content content = {
        .open = open_content, .close = close_content, .give = give_content, .self = elsewhere};
    serve_begin_ready();
    serve.content = &content;
    serve_add_push("w")->content = (struct ps_view){0};
    serve_add_pull("w")->shared.segment = 7;
    ck_assert_int_eq(serve_step(turn), PS_SERVE_DONE);
    serve.content = NULL;
    ck_assert_int_eq(elsewhere->opened, 1);
    ck_assert_int_eq(elsewhere->closed, 1);
    ck_assert_int_eq(elsewhere->given, 1);
}

START_TEST(content_elsewhere_is_opened_closed_and_given)
{
    struct elsewhere elsewhere = {0};
    serve_elsewhere(&elsewhere);

    ck_assert_int_eq(pushes[0].status.status, PS_OK);
    ck_assert_int_eq(pulls[0].status.status, PS_OK);
    ck_assert_uint_eq(pulls[0].pull.reply.shared_size, ones.size);
    ck_assert_uint_eq(pulls[0].pull.reply.content.size, 0);
    serve_end();
}
END_TEST

START_TEST(content_that_cannot_be_opened_is_not_pushed)
{
    struct elsewhere elsewhere = {.open_status = PS_ERR_UNAVAILABLE};
    serve_elsewhere(&elsewhere);

    ck_assert_int_eq(pushes[0].status.status, PS_ERR_UNAVAILABLE);
    ck_assert_uint_eq(pushes[0].reply.version, 0);
    ck_assert_uint_eq(pulls[0].pull.reply.version, 0);
    serve_end();
}
END_TEST

START_TEST(values_that_cannot_be_given_are_let_go)
{
    struct elsewhere elsewhere = {.give_status = PS_ERR_BAD_INPUT};
    serve_elsewhere(&elsewhere);

    ck_assert_int_eq(pulls[0].status.status, PS_ERR_BAD_INPUT);
    ck_assert_ptr_null(pulls[0].pull.held);
    serve_end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("serve_steps");
    tcase_add_test(tests, a_delta_that_has_no_room_is_to_be_asked_for_at_once);
    tcase_add_test(tests, early_values_take_nothing_of_the_budget_of_deltas);
    tcase_add_test(tests, a_long_bundle_lets_others_have_their_turn);
    tcase_add_test(
        tests, what_an_earlier_turn_promised_is_taken_back_when_the_lease_ends_before_the_reply);
    tcase_add_test(tests, a_pull_behind_a_long_update_leaves_where_it_may);
    tcase_add_test(tests, a_large_push_leaves_before_anything_is_done);
    tcase_add_test(tests, content_elsewhere_is_opened_closed_and_given);
    tcase_add_test(tests, content_that_cannot_be_opened_is_not_pushed);
    tcase_add_test(tests, values_that_cannot_be_given_are_let_go);
    return run_tests("serve_steps", tests);
}
