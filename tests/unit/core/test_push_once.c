/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/push_once.c: what a whole push changes, and that its repeat changes nothing. */
#include "server/core/recovery/snapshot.h"
#include "tests/unit/core/core_world.h"

#include <math.h>

static const float before[] = {1, 2, 3, 4};
static const float after_one[] = {0, 1, 2, 3};
static const struct ps_bytes no_config = {NULL, 0};

START_TEST(a_repeat_is_answered_as_the_first_was)
{
    struct core_world world;
    struct ps_push_reply first;
    struct ps_push_reply repeat;
    world_init_ready(&world);

    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, &first), PS_OK);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, &repeat), PS_OK);

    ck_assert(!first.duplicate && repeat.duplicate);
    ck_assert_uint_eq(repeat.version, first.version);
    ck_assert_uint_eq(repeat.position, first.position);
    world_expect_f32(&world, "w", after_one, 4);
    world_fini(&world);
}
END_TEST

START_TEST(without_an_id_every_push_is_another)
{
    struct core_world world;
    const float after_two[] = {-1, 0, 1, 2};
    world_init_ready(&world);

    ck_assert_int_eq(world_push_with(&world, PS_ACK_DEFAULT, 0), PS_OK);
    ck_assert_int_eq(world_push_with(&world, PS_ACK_DEFAULT, 0), PS_OK);

    ck_assert(!world.reply.duplicate);
    world_expect_f32(&world, "w", after_two, 4);
    world_fini(&world);
}
END_TEST

START_TEST(the_id_of_a_refused_push_may_come_again)
{
    struct core_world world;
    float content[] = {1, 1, NAN, 1};
    const struct ps_bytes piece = {(const uint8_t *)content, sizeof content};
    const struct ps_push_request request = {
        .name = text("w"),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .request = {.present = true, .client_id = text("client"), .session = 1, .sequence = 1}};
    world_init_ready(&world);

    ck_assert_int_eq(ps_service_push(world.service, &request, &world.reply, NULL, &world.error),
                     PS_ERR_BAD_INPUT);
    content[2] = 1;
    ck_assert_int_eq(ps_service_push(world.service, &request, &world.reply, NULL, &world.error),
                     PS_OK);

    ck_assert(!world.reply.duplicate);
    world_expect_f32(&world, "w", after_one, 4);
    world_fini(&world);
}
END_TEST

START_TEST(a_gradient_with_a_non_finite_element_changes_nothing)
{
    struct core_world world;
    const float poisoned[] = {1, 1, NAN, 1};
    world_init_ready(&world);

    enum ps_status status = world_push(&world, "w", PS_F32, poisoned, sizeof poisoned, NULL);

    ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
    world_expect_f32(&world, "w", before, 4);
    world_fini(&world);
}
END_TEST

START_TEST(a_skipped_gradient_counts_as_a_push_and_not_as_a_step)
{
    struct core_world world;
    const float poisoned[] = {INFINITY, 1, 1, 1};
    struct ps_optimizer_config config;
    struct ps_snapshot snapshot;
    uint64_t version = 0;
    ps_optimizer_config_defaults(&config);
    config.nonfinite = 1;
    world_init_empty(&world);
    ck_assert_int_eq(
        world_init_param(&world, "w", PS_F32, before, sizeof before, config_bytes(&config)), PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);

    ck_assert_int_eq(world_push(&world, "w", PS_F32, poisoned, sizeof poisoned, &version), PS_OK);

    ck_assert_uint_eq(version, 1);
    world_expect_f32(&world, "w", before, 4);
    ck_assert_int_eq(ps_snapshot_take(world.service, &snapshot, NULL), PS_OK);
    ck_assert_uint_eq(snapshot.parameters[0].version, 1);
    ck_assert_uint_eq(snapshot.parameters[0].step, 0);
    ps_snapshot_release(&snapshot);
    world_fini(&world);
}
END_TEST

START_TEST(an_add_that_would_overflow_changes_no_element)
{
    struct core_world world;
    struct ps_optimizer_config config;
    const int32_t start[] = {0, 0, INT32_MAX};
    const int32_t one[] = {1, 1, 1};
    int32_t values[3];
    size_t size;
    ps_optimizer_config_defaults(&config);
    (void)ps_optimizer_config_choose(&config, "add");
    config.add_overflow = 2;
    world_init_empty(&world);
    ck_assert_int_eq(
        world_init_param(&world, "n", PS_I32, start, sizeof start, config_bytes(&config)), PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);

    enum ps_status status = world_push(&world, "n", PS_I32, one, sizeof one, NULL);

    ck_assert_int_eq(status, PS_ERR_OUT_OF_RANGE);
    ck_assert_str_eq(world.error.text, "Name: n, element 2 would overflow; nothing was changed");
    ck_assert_int_eq(world_pull(&world, "n", values, sizeof values, &size, NULL), PS_OK);
    ck_assert_mem_eq(values, start, sizeof start);
    world_fini(&world);
}
END_TEST

START_TEST(unsigned_parameters_under_sgd_take_signed_gradients)
{
    struct core_world world;
    const uint32_t start[] = {10, 10};
    const int32_t gradient[] = {3, -3};
    const uint32_t after[] = {7, 13};
    uint32_t values[2];
    size_t size;
    world_init_empty(&world);
    ck_assert_int_eq(world_init_param(&world, "n", PS_U32, start, sizeof start, no_config), PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);

    ck_assert_int_eq(world_push(&world, "n", PS_U32, gradient, sizeof gradient, NULL),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world_push(&world, "n", PS_I32, gradient, sizeof gradient, NULL), PS_OK);

    ck_assert_int_eq(world_pull(&world, "n", values, sizeof values, &size, NULL), PS_OK);
    ck_assert_mem_eq(values, after, sizeof after);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("push_once");
    tcase_add_test(tests, a_repeat_is_answered_as_the_first_was);
    tcase_add_test(tests, without_an_id_every_push_is_another);
    tcase_add_test(tests, the_id_of_a_refused_push_may_come_again);
    tcase_add_test(tests, a_gradient_with_a_non_finite_element_changes_nothing);
    tcase_add_test(tests, a_skipped_gradient_counts_as_a_push_and_not_as_a_step);
    tcase_add_test(tests, an_add_that_would_overflow_changes_no_element);
    tcase_add_test(tests, unsigned_parameters_under_sgd_take_signed_gradients);
    return run_tests("push_once", tests);
}
