/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/device_gather.c: small gradients that go to the device together. */
#include "tests/unit/core/core_device.h"

#include <stdio.h>
#include <string.h>

#define COUNT 100   /* elements of a small parameter */
#define MANY 100    /* small parameters */
#define LARGE 20000 /* elements of one that is not gathered */

static struct core_device device;
static struct core_world world;
static float ones[LARGE];

static void begin(const char *fail)
{
    for (size_t i = 0; i < LARGE; i++)
        ones[i] = 1;
    core_device_open(&device, 0, fail);
    core_device_world(&world, &device, 1, false, 0);
    ps_service_begin_empty(world.service);
}

static void end(void)
{
    world_fini(&world);
    core_device_close(&device);
}

/* "0", "1" ... all zeros under Adam, and "large". */
static void init(size_t many)
{
    static float zeros[LARGE];
    for (size_t i = 0; i < many; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "%zu", i);
        ck_assert_int_eq(
            world_init_param(&world, name, PS_F32, zeros, COUNT * 4, config_of("adam", 1)), PS_OK);
    }
    ck_assert_int_eq(
        world_init_param(&world, "large", PS_F32, zeros, sizeof zeros, config_of("sgd", 1)), PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
}

/* Pushes ones; what to wait for is joined to `wait`. */
static void push(const char *name, size_t elements, struct ps_push_wait *wait)
{
    const struct ps_bytes piece = {(const uint8_t *)ones, elements * 4};
    const struct ps_push_request request = {
        .name = text(name), .dtype = PS_F32, .content = ps_view_of(&piece)};
    struct ps_push_wait one;
    ck_assert_int_eq(ps_service_push(world.service, &request, &world.reply, &one, &world.error),
                     PS_OK);
    if (wait->generation == 0)
        *wait = one;
    else
        ps_push_wait_join(wait, &one);
}

static void push_number(size_t number, struct ps_push_wait *wait)
{
    char name[24];
    (void)snprintf(name, sizeof name, "%zu", number);
    push(name, COUNT, wait);
}

static enum ps_status acknowledge(const struct ps_push_wait *wait)
{
    return ps_service_acknowledge(world.service, wait, &world.reply, &world.error);
}

/* The ring of these tests is small: 16 parameters are a launch. */
START_TEST(small_gradients_of_many_parameters_share_launches)
{
    struct ps_push_wait wait = {0};
    begin(NULL);
    init(MANY);
    uint64_t launches = core_device_stats(&device).launch_count;

    for (size_t i = 0; i < MANY; i++)
        push_number(i, &wait);
    ck_assert_uint_eq(core_device_stats(&device).launch_count, launches);
    ck_assert_int_eq(acknowledge(&wait), PS_OK);

    launches += (MANY + 15) / 16;
    ck_assert_uint_eq(core_device_stats(&device).launch_count, launches);
    ck_assert_uint_eq(core_device_stats(&device).push_count, MANY + 1);
    ck_assert_int_eq(acknowledge(&wait), PS_OK);
    ck_assert_uint_eq(core_device_stats(&device).launch_count, launches);
    end();
}
END_TEST

/* Small, large, small again: a top-k of one pair is small whatever it is pushed to. Under Adam no
 * two of them may change places. */
static void push_mixed(struct core_world *to)
{
    const uint32_t pair[2] = {3, 0x3f800000};
    const struct ps_bytes piece = {(const uint8_t *)pair, sizeof pair};
    const struct ps_push_request request = {.name = text("order"),
                                            .dtype = PS_F32,
                                            .encoding = PS_ENCODING_TOP_K,
                                            .content = ps_view_of(&piece)};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ps_service_push(to->service, &request, &to->reply, NULL, &to->error),
                         PS_OK);
        ck_assert_int_eq(world_push(to, "order", PS_F32, ones, sizeof ones, NULL), PS_OK);
    }
}

START_TEST(pushes_of_one_parameter_keep_their_order)
{
    static float zeros[LARGE];
    static float expected[LARGE];
    struct core_world host;
    struct core_world *worlds[] = {&world, &host};
    size_t size = 0;
    begin(NULL);
    core_device_world(&host, NULL, 1, false, 0);
    ps_service_begin_empty(host.service);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(
            world_init_param(worlds[i], "order", PS_F32, zeros, sizeof zeros, config_of("adam", 1)),
            PS_OK);
        ck_assert_int_eq(world_finish(worlds[i]), PS_OK);
        push_mixed(worlds[i]);
    }

    ck_assert_int_eq(world_pull(&host, "order", expected, sizeof expected, &size, NULL), PS_OK);
    world_expect_f32(&world, "order", expected, LARGE);
    world_fini(&host);
    end();
}
END_TEST

START_TEST(more_than_has_room_goes_by_itself)
{
    struct ps_push_wait wait = {0};
    begin(NULL);
    init(MANY);

    for (size_t i = 0; i < 3 * PS_GATHER_PUSHES; i++)
        push_number(i % MANY, &wait);

    ck_assert_uint_gt(core_device_stats(&device).push_count, 2 * PS_GATHER_PUSHES);
    ck_assert_int_eq(acknowledge(&wait), PS_OK);
    ck_assert_uint_eq(core_device_stats(&device).push_count, 3 * PS_GATHER_PUSHES + 1);
    end();
}
END_TEST

START_TEST(a_parameter_that_goes_takes_what_is_gathered_along)
{
    struct ps_push_wait wait = {0};
    begin(NULL);
    init(2);
    push_number(0, &wait);
    push_number(1, &wait);

    ps_service_reset(world.service);

    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 0);
    ck_assert_int_eq(acknowledge(&wait), PS_ERR_UNAVAILABLE);
    end();
}
END_TEST

/* The probe launches one kernel, the first flush the second. */
START_TEST(what_a_failed_flush_had_is_never_acknowledged)
{
    struct ps_push_wait first = {0};
    struct ps_push_wait second = {0};
    begin("launch:2:719");
    init(2);
    push_number(0, &first);
    push_number(1, &second);

    ck_assert_int_eq(acknowledge(&second), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(acknowledge(&first), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(acknowledge(&second), PS_ERR_UNAVAILABLE);

    ck_assert_int_eq(device.deaths, 1);
    end();
}
END_TEST

START_TEST(what_is_gathered_for_a_dead_device_is_never_acknowledged)
{
    struct ps_push_wait first = {0};
    struct ps_push_wait second = {0};
    begin("launch:2:719");
    init(2);
    ck_assert_int_eq(world_push(&world, "large", PS_F32, ones, sizeof ones, NULL),
                     PS_ERR_UNAVAILABLE);

    push_number(0, &first);
    push_number(1, &second);

    ck_assert_int_eq(acknowledge(&second), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(acknowledge(&first), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(acknowledge(&second), PS_ERR_UNAVAILABLE);
    end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("device_gather");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, small_gradients_of_many_parameters_share_launches);
    tcase_add_test(tests, pushes_of_one_parameter_keep_their_order);
    tcase_add_test(tests, more_than_has_room_goes_by_itself);
    tcase_add_test(tests, a_parameter_that_goes_takes_what_is_gathered_along);
    tcase_add_test(tests, what_a_failed_flush_had_is_never_acknowledged);
    tcase_add_test(tests, what_is_gathered_for_a_dead_device_is_never_acknowledged);
    return run_tests("device_gather", tests);
}
