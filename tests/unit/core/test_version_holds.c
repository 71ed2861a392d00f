/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that stay readable while they are read in ranges, and no longer. */
#include "server/core/values/version_holds.h"

#include "core_world.h"
#include "server/core/requests/service_state.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 200 * 1000, HALF = COUNT / 2 };

static struct core_world world;
static float *values;

/* "big": COUNT float32 with value i, under SGD with rate 1. */
static void begin(void)
{
    world_init_empty(&world);
    values = malloc(COUNT * sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)i;
    ck_assert_int_eq(world_init_param(&world, "big", PS_F32, values, COUNT * sizeof *values,
                                      (struct ps_bytes){NULL, 0}),
                     PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
}

static void end(void)
{
    free(values);
    world_fini(&world);
}

/* Subtracts one from every element. */
static void push_ones(void)
{
    float *ones = malloc(COUNT * sizeof *ones);
    ck_assert_ptr_nonnull(ones);
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = 1;
    uint64_t version;
    ck_assert_int_eq(world_push(&world, "big", PS_F32, ones, COUNT * sizeof *ones, &version),
                     PS_OK);
    free(ones);
}

static enum ps_status pull(uint64_t first, uint64_t count, uint64_t version, struct ps_pull *out)
{
    const struct ps_pull_request request = {
        .name = text("big"), .range = {first, count}, .version = version};
    return ps_service_pull(world.service, &request, out, &world.error);
}

/* Checks that the range has the values less `pushed`, and releases it. */
static void expect(struct ps_pull *pulled, uint64_t first, uint64_t count, float pushed)
{
    ck_assert_uint_eq(pulled->reply.content.size, count * sizeof(float));
    ck_assert_uint_eq(pulled->reply.range.first, first);
    ck_assert_uint_eq(pulled->reply.range.count, count);
    ck_assert_uint_eq(pulled->reply.total, COUNT);
    float *copy = malloc(count * sizeof *copy);
    ck_assert_ptr_nonnull(copy);
    ps_view_copy(pulled->reply.content, 0, copy, count * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        ck_assert(copy[i] == values[first + i] - pushed);
    free(copy);
    ps_pull_release(pulled);
}

static size_t hold_count(void)
{
    uint64_t bytes;
    size_t count;
    ps_version_holds_look(&world.service->version_holds, &bytes, &count);
    ck_assert_uint_eq(bytes, count * COUNT * sizeof(float));
    return count;
}

START_TEST(ranges_of_a_version_agree_whatever_is_pushed_meanwhile)
{
    struct ps_pull first, second;
    begin();
    push_ones();
    ck_assert_int_eq(pull(0, HALF, 0, &first), PS_OK);
    ck_assert_uint_eq(first.reply.version, 1);
    push_ones();
    push_ones();

    ck_assert_int_eq(pull(HALF, 0, 1 + 1, &second), PS_OK);

    ck_assert_uint_eq(second.reply.version, 1);
    expect(&first, 0, HALF, 1);
    expect(&second, HALF, COUNT - HALF, 1);
    ck_assert_uint_eq(hold_count(), 0); /* everything was given out */
    end();
}
END_TEST

START_TEST(a_version_that_is_gone_says_so)
{
    struct ps_pull pulled;
    begin();
    push_ones();
    ck_assert_int_eq(pull(0, HALF, 1, &pulled), PS_ERR_CONFLICT);
    ck_assert_str_eq(world.error.text, "parameter: big has no version 0 any more: begin again");
    ck_assert_int_eq(pull(0, 0, 9, &pulled), PS_ERR_CONFLICT);
    end();
}
END_TEST

START_TEST(a_reader_who_stops_is_forgotten_in_time)
{
    struct ps_pull pulled;
    begin();
    ck_assert_int_eq(pull(0, HALF, 0, &pulled), PS_OK);
    ps_pull_release(&pulled);
    push_ones();
    world.fake.now_ms += PS_VERSION_HOLDS_IDLE_MS - 1;
    ck_assert_int_eq(pull(10, 10, 1, &pulled), PS_OK);
    expect(&pulled, 10, 10, 0);
    world.fake.now_ms += PS_VERSION_HOLDS_IDLE_MS;
    ck_assert_int_eq(pull(0, 10, 0, &pulled), PS_OK);
    ps_pull_release(&pulled);
    ck_assert_int_eq(pull(10, 10, 1, &pulled), PS_ERR_CONFLICT);
    ck_assert_uint_eq(hold_count(), 1);
    end();
}
END_TEST

START_TEST(holds_are_bounded_and_the_idlest_goes)
{
    struct ps_pull pulled;
    begin();
    for (uint64_t i = 0; i <= PS_VERSION_HOLDS_MAX; i++) {
        ck_assert_int_eq(pull(0, HALF, 0, &pulled), PS_OK);
        ps_pull_release(&pulled);
        push_ones();
        world.fake.now_ms++;
    }
    ck_assert_uint_eq(hold_count(), PS_VERSION_HOLDS_MAX);
    ck_assert_int_eq(pull(0, HALF, 1 + 0, &pulled), PS_ERR_CONFLICT);
    ck_assert_int_eq(pull(HALF, 10, 1 + 1, &pulled), PS_OK);
    expect(&pulled, HALF, 10, 1);
    end();
}
END_TEST

START_TEST(two_readers_of_a_version_do_not_end_each_others_hold)
{
    struct ps_pull pulled;
    begin();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pull(0, HALF, 0, &pulled), PS_OK);
        ps_pull_release(&pulled);
    }
    push_ones();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pull(HALF, 0, 1, &pulled), PS_OK);
        expect(&pulled, HALF, COUNT - HALF, 0);
    }
    ck_assert_uint_eq(hold_count(), 0);
    end();
}
END_TEST

START_TEST(a_whole_pull_holds_nothing)
{
    struct ps_pull pulled;
    begin();
    ck_assert_int_eq(pull(0, 0, 0, &pulled), PS_OK);
    ck_assert_uint_eq(pulled.reply.range.count, 0);
    ck_assert_uint_eq(pulled.reply.content.size, COUNT * sizeof(float));
    ps_pull_release(&pulled);
    ck_assert_int_eq(pull(0, COUNT, 1, &pulled), PS_OK);
    ps_pull_release(&pulled);
    ck_assert_uint_eq(hold_count(), 0);
    end();
}
END_TEST

START_TEST(ranges_beyond_the_end_are_refused)
{
    struct ps_pull pulled;
    begin();
    ck_assert_int_eq(pull(COUNT + 1, 0, 0, &pulled), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(pull(1, COUNT, 0, &pulled), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(pull(UINT64_MAX, 2, 0, &pulled), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(pull(2, UINT64_MAX, 0, &pulled), PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(hold_count(), 0);
    end();
}
END_TEST

/* What the former life had pushed is lost; another push makes the same version again. */
static void come_to_version_1_again(void)
{
    ps_service_reset(world.service);
    world_own(&world, 8);
    ps_service_begin_empty(world.service);
    values[COUNT - 1] = -5;
    ck_assert_int_eq(world_init_param(&world, "big", PS_F32, values, COUNT * sizeof *values,
                                      (struct ps_bytes){NULL, 0}),
                     PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    push_ones();
}

START_TEST(a_version_of_another_life_is_none_of_this_one)
{
    struct ps_pull pulled;
    struct ps_pull_request rest = {.name = text("big"), .range = {HALF, 0}, .version = 1 + 1};
    begin();
    push_ones();
    ck_assert_int_eq(pull(0, HALF, 0, &pulled), PS_OK);
    rest.life = pulled.reply.life;
    ck_assert_uint_ne(rest.life, 0);
    ps_pull_release(&pulled);
    come_to_version_1_again();

    ck_assert_int_eq(ps_service_pull(world.service, &rest, &pulled, &world.error), PS_ERR_CONFLICT);

    ck_assert_str_eq(world.error.text,
                     "parameter: big was begun in another life of the shard: begin again");
    ck_assert_int_eq(pull(0, HALF, 0, &pulled), PS_OK);
    rest.life = pulled.reply.life;
    expect(&pulled, 0, HALF, 1);
    ck_assert_int_eq(ps_service_pull(world.service, &rest, &pulled, &world.error), PS_OK);
    expect(&pulled, HALF, COUNT - HALF, 1);
    end();
}
END_TEST

START_TEST(a_reader_who_says_no_life_is_not_asked_for_one)
{
    struct ps_pull pulled;
    begin();
    push_ones();
    come_to_version_1_again();

    ck_assert_int_eq(pull(HALF, 0, 1 + 1, &pulled), PS_OK);

    expect(&pulled, HALF, COUNT - HALF, 1);
    end();
}
END_TEST

START_TEST(a_lost_shard_keeps_no_holds)
{
    struct ps_pull pulled;
    begin();
    ck_assert_int_eq(pull(0, HALF, 0, &pulled), PS_OK);
    ps_service_reset(world.service);
    ck_assert_uint_eq(hold_count(), 0);
    expect(&pulled, 0, HALF, 0); /* what is held stays */
    end();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("version_holds");
    tcase_add_test(t, ranges_of_a_version_agree_whatever_is_pushed_meanwhile);
    tcase_add_test(t, a_version_that_is_gone_says_so);
    tcase_add_test(t, a_reader_who_stops_is_forgotten_in_time);
    tcase_add_test(t, holds_are_bounded_and_the_idlest_goes);
    tcase_add_test(t, two_readers_of_a_version_do_not_end_each_others_hold);
    tcase_add_test(t, a_whole_pull_holds_nothing);
    tcase_add_test(t, ranges_beyond_the_end_are_refused);
    tcase_add_test(t, a_version_of_another_life_is_none_of_this_one);
    tcase_add_test(t, a_reader_who_says_no_life_is_not_asked_for_one);
    tcase_add_test(t, a_lost_shard_keeps_no_holds);
    return run_tests("version_holds", t);
}
