/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/extra_work.c: what a request costs beyond its bytes. */
#include "tests/unit/core/core_world.h"

#include "optimizer/encoded.h"

enum { COUNT = 10000 };

static float values[COUNT];

static void begin_ready(struct core_world *world)
{
    world_init_empty(world);
    ck_assert_int_eq(
        world_init_param(world, "plain", PS_F32, values, sizeof values, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(
        world_init_param(world, "adam", PS_F32, values, sizeof values, config_of("adam", 0.1)),
        PS_OK);
    ck_assert_int_eq(world_finish(world), PS_OK);
}

static uint64_t pull_work(struct core_world *world, const struct ps_pull_request *request,
                          uint64_t *reply_bytes)
{
    return ps_service_extra_pull_work(world->service, request, reply_bytes);
}

START_TEST(values_that_go_out_as_they_lie_cost_nothing)
{
    struct core_world world;
    uint64_t reply_bytes = 1;
    begin_ready(&world);

    ck_assert_uint_eq(
        pull_work(&world, &(struct ps_pull_request){.name = text("plain")}, &reply_bytes), 0);
    ck_assert_uint_eq(reply_bytes, 0);
    const struct ps_pull_request same = {.name = text("plain"), .encoding = PS_ENCODING_FLOAT32};
    ck_assert_uint_eq(pull_work(&world, &same, &reply_bytes), 0);
    world_fini(&world);
}
END_TEST

START_TEST(an_encoding_costs_what_is_read_and_what_is_made)
{
    struct core_world world;
    uint64_t reply_bytes;
    begin_ready(&world);

    struct ps_pull_request request = {.name = text("plain"), .encoding = PS_ENCODING_BFLOAT16};
    ck_assert_uint_eq(pull_work(&world, &request, &reply_bytes), sizeof values * 3 / 2);
    ck_assert_uint_eq(reply_bytes, sizeof values / 2);
    request.range = (struct ps_elements){COUNT - 100, 0};
    ck_assert_uint_eq(pull_work(&world, &request, &reply_bytes), 600);
    request.range = (struct ps_elements){COUNT - 100, UINT64_MAX};
    ck_assert_uint_eq(pull_work(&world, &request, &reply_bytes), 600);
    world_fini(&world);
}
END_TEST

START_TEST(what_is_refused_anyway_costs_nothing)
{
    struct core_world world;
    uint64_t reply_bytes;
    begin_ready(&world);

    struct ps_pull_request request = {.name = text("none"), .encoding = PS_ENCODING_BFLOAT16};
    ck_assert_uint_eq(pull_work(&world, &request, &reply_bytes), 0);
    request = (struct ps_pull_request){
        .name = text("plain"), .encoding = PS_ENCODING_BFLOAT16, .range = {UINT64_MAX, 1}};
    ck_assert_uint_eq(pull_work(&world, &request, &reply_bytes), 0);
    world_fini(&world);
}
END_TEST

START_TEST(a_gradient_of_few_elements_costs_all_where_the_rule_moves_all)
{
    struct core_world world;
    begin_ready(&world);

    struct ps_push_request request = {.name = text("adam"), .encoding = PS_ENCODING_TOP_K};
    ck_assert_uint_eq(ps_service_extra_push_work(world.service, &request), 3 * sizeof values);
    request.name = text("plain");
    ck_assert_uint_eq(ps_service_extra_push_work(world.service, &request), 0);
    request = (struct ps_push_request){.name = text("adam")};
    ck_assert_uint_eq(ps_service_extra_push_work(world.service, &request), 0);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("extra_work");
    tcase_add_test(tests, values_that_go_out_as_they_lie_cost_nothing);
    tcase_add_test(tests, an_encoding_costs_what_is_read_and_what_is_made);
    tcase_add_test(tests, what_is_refused_anyway_costs_nothing);
    tcase_add_test(tests, a_gradient_of_few_elements_costs_all_where_the_rule_moves_all);
    return run_tests("extra_work", tests);
}
