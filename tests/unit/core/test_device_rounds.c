/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter on a device that is trained in rounds: contributions wait on the host, and what is
 * made of them goes the way of any gradient. */
#include "core_device.h"
#include "core_round.h"

static struct core_device device;
static struct core_world resident;
static struct core_world host;

static void begin(const struct ps_round_settings *rounds)
{
    core_device_open(&device, 0, NULL);
    core_device_world(&resident, &device, 1, true, 0);
    core_device_world(&host, NULL, 1, true, 0);
    struct core_world *worlds[] = {&resident, &host};
    for (size_t i = 0; i < 2; i++) {
        ps_service_begin_empty(worlds[i]->service);
        round_begin(worlds[i], rounds);
    }
    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 1);
}

static void end(void)
{
    world_fini(&resident);
    world_fini(&host);
    core_device_close(&device);
}

/* To both; the host has what the device is to have. */
static void push(uint32_t rank, uint64_t round, float value)
{
    struct core_world *worlds[] = {&resident, &host};
    for (size_t i = 0; i < 2; i++) {
        enum ps_status status = round_push(worlds[i], rank, round, value, round);
        ck_assert_msg(status == PS_OK, "%s", worlds[i]->error.text);
        world_write_journal(worlds[i]);
    }
    ck_assert_int_eq(resident.reply.held, host.reply.held);
}

START_TEST(a_round_makes_the_bits_of_the_host)
{
    begin(&(struct ps_round_settings){.workers = 3});
    for (uint64_t round = 1; round <= 3; round++)
        for (uint32_t rank = 3; rank-- > 0;)
            push(rank, round, 0.1f * (float)(rank + round));
    float values[4];
    size_t size;
    uint64_t version;
    ck_assert_int_eq(world_pull(&host, "m", values, sizeof values, &size, &version), PS_OK);
    ck_assert_uint_eq(version, 3);

    round_expect(&resident, values[0], 3);

    end();
}
END_TEST

START_TEST(a_sum_that_overflows_is_skipped_there_as_well)
{
    begin(&(struct ps_round_settings){.workers = 2, .combine = PS_COMBINE_SUM});
    push(0, 1, 3e38f);
    push(1, 1, 3e38f);

    round_expect(&resident, 0, 1);
    round_expect(&host, 0, 1);

    push(0, 2, -1);
    push(1, 2, -1);
    round_expect(&resident, 2, 2);
    end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("device_rounds");
    tcase_add_test(tests, a_round_makes_the_bits_of_the_host);
    tcase_add_test(tests, a_sum_that_overflows_is_skipped_there_as_well);
    return run_tests("device_rounds", tests);
}
