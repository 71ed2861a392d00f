/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/device_store.c: what readers get of a parameter that lives on a device. */
#include "tests/unit/core/core_device.h"

#include <string.h>

#define SMALL 1000

static struct core_device device;
static struct core_world resident;

static void begin(const char *fail)
{
    core_device_open(&device, 0, fail);
    core_device_world(&resident, &device, 1, false, 0);
    ps_service_begin_empty(resident.service);
}

static void end(void)
{
    world_fini(&resident);
    core_device_close(&device);
}

static void init_small(void)
{
    static float zeros[SMALL];
    ck_assert_int_eq(
        world_init_param(&resident, "small", PS_F32, zeros, sizeof zeros, config_of("adam", 1)),
        PS_OK);
    ck_assert_int_eq(world_finish(&resident), PS_OK);
}

static void push_small(void)
{
    static float ones[SMALL];
    for (size_t i = 0; i < SMALL; i++)
        ones[i] = 1;
    ck_assert_int_eq(world_push(&resident, "small", PS_F32, ones, sizeof ones, NULL), PS_OK);
}

START_TEST(a_pull_reads_the_device_when_something_changed_and_only_then)
{
    static float values[SMALL];
    size_t size = 0;
    uint64_t version = 0;
    begin(NULL);
    init_small();
    push_small();
    uint64_t before = core_device_stats(&device).bytes_out;

    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(world_pull(&resident, "small", values, sizeof values, &size, &version),
                         PS_OK);

    ck_assert_uint_eq(version, 1);
    ck_assert_uint_eq(core_device_stats(&device).bytes_out - before, sizeof values);
    push_small();
    ck_assert_int_eq(world_pull(&resident, "small", values, sizeof values, &size, &version), PS_OK);
    ck_assert_uint_eq(version, 2);
    ck_assert_uint_eq(core_device_stats(&device).bytes_out - before, 2 * sizeof values);
    end();
}
END_TEST

START_TEST(a_pull_that_is_held_stays_what_it_was)
{
    static float first[SMALL];
    static float held[SMALL];
    static float second[SMALL];
    size_t size = 0;
    struct ps_pull pull = {0};
    const struct ps_pull_request request = {.name = text("small")};
    begin(NULL);
    init_small();
    ck_assert_int_eq(world_pull(&resident, "small", first, sizeof first, &size, NULL), PS_OK);
    ck_assert_int_eq(ps_service_pull(resident.service, &request, &pull, NULL), PS_OK);

    push_small();
    ck_assert_int_eq(world_pull(&resident, "small", second, sizeof second, &size, NULL), PS_OK);

    ps_view_copy(pull.reply.content, 0, held, sizeof held);
    ck_assert_mem_eq(held, first, sizeof first);
    ck_assert_mem_ne(second, first, sizeof first);
    ps_pull_release(&pull);
    end();
}
END_TEST

START_TEST(a_pull_survives_any_refused_allocation)
{
    static float values[SMALL];
    size_t size = 0;
    begin(NULL);
    init_small();
    resident.heap.refuse_at = resident.heap.seen + _i;

    enum ps_status status = world_pull(&resident, "small", values, sizeof values, &size, NULL);

    resident.heap.refuse_at = -1;
    ck_assert_int_eq(status, _i < 2 ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_int_eq(world_pull(&resident, "small", values, sizeof values, &size, NULL), PS_OK);
    end();
}
END_TEST

/* ---- Shadows of several blocks, which the device fills by itself ---- */

/* Three whole blocks and a rest. */
#define LARGE 200001
static float large_values[LARGE];

static void init_large(void)
{
    for (size_t i = 0; i < LARGE; i++)
        large_values[i] = (float)(i % 977) / 8;
    ck_assert_int_eq(world_init_param(&resident, "large", PS_F32, large_values, sizeof large_values,
                                      config_of("sgd", 1)),
                     PS_OK);
    ck_assert_int_eq(world_finish(&resident), PS_OK);
}

/* Pushes ones, and counts them in `large_values`, too. */
static void push_large(void)
{
    static float ones[LARGE];
    for (size_t i = 0; i < LARGE; i++) {
        ones[i] = 1;
        large_values[i] -= 1;
    }
    ck_assert_int_eq(world_push(&resident, "large", PS_F32, ones, sizeof ones, NULL), PS_OK);
    world_write_journal(&resident);
}

START_TEST(a_large_shadow_lies_in_pinned_memory_and_is_used_again)
{
    begin(NULL);
    init_large();
    uint64_t ring = core_device_stats(&device).pinned_bytes;
    uint64_t bytes_out = core_device_stats(&device).bytes_out;

    for (int i = 0; i < 3; i++) {
        push_large();
        world_expect_f32(&resident, "large", large_values, LARGE);
    }

    ck_assert_uint_eq(core_device_stats(&device).pinned_bytes - ring, 2 << 20);
    ck_assert_uint_eq(core_device_stats(&device).bytes_out - bytes_out, 3 * sizeof large_values);
    end();
}
END_TEST

/* A pull of what large_values are now. */
static float held_values[LARGE];

static void hold_large(struct ps_pull *pull)
{
    const struct ps_pull_request request = {.name = text("large")};
    memcpy(held_values, large_values, sizeof held_values);
    ck_assert_int_eq(ps_service_pull(resident.service, &request, pull, NULL), PS_OK);
}

/* It shows that still. */
static void expect_held(struct ps_pull *pull)
{
    static float shown[LARGE];
    ps_view_copy(pull->reply.content, 0, shown, sizeof shown);
    ck_assert_mem_eq(shown, held_values, sizeof shown);
    ps_pull_release(pull);
}

START_TEST(a_large_shadow_that_is_held_stays_what_it_was)
{
    struct ps_pull pull = {0};
    begin(NULL);
    init_large();
    hold_large(&pull);

    for (int i = 0; i < 3; i++) {
        push_large();
        world_expect_f32(&resident, "large", large_values, LARGE);
    }

    expect_held(&pull);
    end();
}
END_TEST

/* One slab has room for two copies. */
START_TEST(slow_readers_hold_no_more_than_there_may_be_and_others_are_told_to_ask_again)
{
    struct ps_pull first = {0};
    struct ps_pull second = {0};
    struct ps_pull refused = {0};
    const struct ps_pull_request request = {.name = text("large")};
    begin(NULL);
    device.store.readers_bytes = 1;
    init_large();
    uint64_t ring = core_device_stats(&device).pinned_bytes;
    hold_large(&first);
    push_large();
    hold_large(&second);
    push_large();

    ck_assert_int_eq(ps_service_pull(resident.service, &request, &refused, &resident.error),
                     PS_ERR_BUSY);

    ck_assert_str_eq(resident.error.text, "parameter: large, readers of older values hold all of "
                                          "2097152 bytes: ask again (--device-readers-bytes)");
    ck_assert_uint_eq(core_device_stats(&device).pinned_bytes - ring,
                      ps_device_store_pinned_max(&device.store));
    ps_pull_release(&first);
    world_expect_f32(&resident, "large", large_values, LARGE);
    expect_held(&second);
    end();
}
END_TEST

START_TEST(ranges_of_a_version_are_read_from_the_device_once)
{
    static float before[LARGE];
    static float read[LARGE];
    begin(NULL);
    init_large();
    memcpy(before, large_values, sizeof before);
    uint64_t bytes_out = core_device_stats(&device).bytes_out;

    for (uint64_t first = 0; first < LARGE; first += 50000) {
        uint64_t count = LARGE - first < 50000 ? LARGE - first : 50000;
        const struct ps_pull_request request = {
            .name = text("large"), .range = {first, count}, .version = first == 0 ? 0 : 1};
        struct ps_pull pull = {0};
        ck_assert_int_eq(ps_service_pull(resident.service, &request, &pull, NULL), PS_OK);
        ck_assert_uint_eq(pull.reply.version, 0);
        ps_view_copy(pull.reply.content, 0, read + first, (size_t)count * 4);
        ps_pull_release(&pull);
        push_large();
    }

    ck_assert_mem_eq(read, before, sizeof read);
    ck_assert_uint_eq(core_device_stats(&device).bytes_out - bytes_out, sizeof read);
    end();
}
END_TEST

/* A delta pull by one who has version `held` of "large" (1 + it; 0: none). */
static struct ps_delta pull_delta(uint64_t held, struct ps_chain chain)
{
    const struct ps_pull_request request = {
        .name = text("large"),
        .held = {.present = true, .version = held, .chain = chain},
        .bytes_max = 16 << 20};
    struct ps_pull pull = {0};
    enum ps_status status = ps_service_pull(resident.service, &request, &pull, &resident.error);
    ck_assert_msg(status == PS_OK, "%s", resident.error.text);
    struct ps_delta delta = pull.reply.delta;
    delta.runs.data = NULL;
    ps_pull_release(&pull);
    return delta;
}

/* All blocks of a new version count as changed; the digest is that of the content, also when the
 * blocks of the one before were written over. */
START_TEST(a_delta_of_a_version_that_is_held_is_empty_and_of_a_newer_one_whole)
{
    const struct ps_chain none = {0};
    begin(NULL);
    init_large();
    struct ps_delta first = pull_delta(0, none);
    ck_assert_uint_eq(first.runs.size, 8);

    struct ps_delta same = pull_delta(1, first.chain);
    push_large();
    struct ps_delta second = pull_delta(1, first.chain);

    ck_assert_uint_eq(same.runs.size, 0);
    ck_assert_uint_eq(same.digest, first.digest);
    ck_assert_uint_eq(second.runs.size, 8);
    ck_assert_uint_ne(second.digest, first.digest);
    ck_assert_uint_eq(pull_delta(2, first.chain).digest, second.digest);
    end();
}
END_TEST

/* ---- Pushes that name their elements ---- */

#define BLOCK (PS_BLOCK_BYTES / sizeof(float))

/* Pushes a one to two elements of block `block`, and counts it in `large_values`, too. */
static void push_to_block(struct core_world *world, size_t block)
{
    const uint32_t indices[2] = {(uint32_t)(block * BLOCK + 5), (uint32_t)(block * BLOCK + 900)};
    const float ones[2] = {1, 1};
    const struct ps_bytes pieces[] = {{(const uint8_t *)indices, sizeof indices},
                                      {(const uint8_t *)ones, sizeof ones}};
    const struct ps_push_request request = {.name = text("large"),
                                            .dtype = PS_F32,
                                            .encoding = PS_ENCODING_TOP_K,
                                            .content = {pieces, 2, 16}};
    enum ps_status status =
        ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error);
    ck_assert_msg(status == PS_OK, "%s", world->error.text);
    world_write_journal(world);
    for (size_t i = 0; world == &resident && i < 2; i++)
        large_values[indices[i]] -= 1;
}

START_TEST(only_blocks_that_were_written_come_from_the_device)
{
    begin(NULL);
    init_large();
    world_expect_f32(&resident, "large", large_values, LARGE);
    uint64_t bytes_out = core_device_stats(&device).bytes_out;

    push_to_block(&resident, 1);
    push_to_block(&resident, 1);
    world_expect_f32(&resident, "large", large_values, LARGE);
    ck_assert_uint_eq(core_device_stats(&device).bytes_out - bytes_out, PS_BLOCK_BYTES);
    push_to_block(&resident, 0);
    push_to_block(&resident, 3); /* the rest */
    world_expect_f32(&resident, "large", large_values, LARGE);

    ck_assert_uint_eq(core_device_stats(&device).bytes_out - bytes_out,
                      2 * PS_BLOCK_BYTES + sizeof large_values - 3 * PS_BLOCK_BYTES);
    end();
}
END_TEST

START_TEST(a_pull_that_is_held_shares_what_was_not_written)
{
    struct ps_pull pull = {0};
    begin(NULL);
    init_large();
    hold_large(&pull);
    uint64_t bytes_out = core_device_stats(&device).bytes_out;

    for (size_t i = 0; i < 3; i++) {
        push_to_block(&resident, 2);
        world_expect_f32(&resident, "large", large_values, LARGE);
    }

    ck_assert_uint_eq(core_device_stats(&device).bytes_out - bytes_out, 3 * PS_BLOCK_BYTES);
    expect_held(&pull);
    world_expect_f32(&resident, "large", large_values, LARGE);
    end();
}
END_TEST

/* Its first run, and its digest. */
static struct ps_delta pull_runs(struct core_world *world, uint64_t held, struct ps_chain chain,
                                 uint32_t runs[4])
{
    const struct ps_pull_request request = {
        .name = text("large"),
        .held = {.present = true, .version = held, .chain = chain},
        .bytes_max = 16 << 20};
    struct ps_pull pull = {0};
    ck_assert_int_eq(ps_service_pull(world->service, &request, &pull, &world->error), PS_OK);
    struct ps_delta delta = pull.reply.delta;
    ck_assert_uint_le(delta.runs.size, 4 * sizeof runs[0]);
    memcpy(runs, delta.runs.data, delta.runs.size);
    ps_pull_release(&pull);
    return delta;
}

START_TEST(a_delta_is_that_of_the_host)
{
    struct core_world host;
    struct core_world *worlds[] = {&resident, &host};
    struct ps_delta deltas[2];
    uint32_t runs[2][4] = {0};
    const struct ps_chain none = {0};
    begin(NULL);
    core_device_world(&host, NULL, 1, false, 0);
    ps_service_begin_empty(host.service);
    init_large();
    ck_assert_int_eq(world_init_param(&host, "large", PS_F32, large_values, sizeof large_values,
                                      config_of("sgd", 1)),
                     PS_OK);
    ck_assert_int_eq(world_finish(&host), PS_OK);
    for (size_t i = 0; i < 2; i++) {
        deltas[i] = pull_runs(worlds[i], 0, none, runs[i]);
        push_to_block(worlds[i], 1);
        push_to_block(worlds[i], 3);
        deltas[i] = pull_runs(worlds[i], 1, deltas[i].chain, runs[i]);
    }

    ck_assert_uint_eq(deltas[0].runs.size, 4 * sizeof runs[0][0]);
    ck_assert_uint_eq(deltas[1].runs.size, deltas[0].runs.size);
    ck_assert_mem_eq(runs[0], runs[1], sizeof runs[0]);
    ck_assert(runs[0][0] == 1 && runs[0][1] == 1 && runs[0][2] == 3 && runs[0][3] == 1);
    ck_assert_uint_eq(deltas[0].digest, deltas[1].digest);
    world_fini(&host);
    end();
}
END_TEST

START_TEST(a_refused_block_leaves_the_shadow_as_it_was)
{
    static float values[LARGE];
    size_t size = 0;
    begin(NULL);
    init_large();
    world_expect_f32(&resident, "large", large_values, LARGE);
    push_to_block(&resident, 1);
    struct ps_pull pull = {0};
    const struct ps_pull_request request = {.name = text("large")};
    ck_assert_int_eq(ps_service_pull(resident.service, &request, &pull, NULL), PS_OK);
    push_to_block(&resident, 1);
    resident.heap.refuse_at = resident.heap.seen + _i;

    enum ps_status status = world_pull(&resident, "large", values, sizeof values, &size, NULL);

    resident.heap.refuse_at = -1;
    ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
    ps_pull_release(&pull);
    world_expect_f32(&resident, "large", large_values, LARGE);
    end();
}
END_TEST

START_TEST(refused_pinned_memory_is_no_memory_for_a_pull)
{
    static float values[LARGE];
    size_t size = 0;
    begin("memory:5"); /* after two for the ring, one for the probe, one for "large" */
    init_large();

    ck_assert_int_eq(world_pull(&resident, "large", values, sizeof values, &size, NULL),
                     PS_ERR_NO_MEMORY);
    ck_assert_int_eq(world_pull(&resident, "large", values, sizeof values, &size, NULL), PS_OK);
    ck_assert_mem_eq(values, large_values, sizeof values);
    end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("device_shadow");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_pull_reads_the_device_when_something_changed_and_only_then);
    tcase_add_test(tests, a_pull_that_is_held_stays_what_it_was);
    tcase_add_loop_test(tests, a_pull_survives_any_refused_allocation, 0, 4);
    tcase_add_test(tests, a_large_shadow_lies_in_pinned_memory_and_is_used_again);
    tcase_add_test(tests, a_large_shadow_that_is_held_stays_what_it_was);
    tcase_add_test(tests,
                   slow_readers_hold_no_more_than_there_may_be_and_others_are_told_to_ask_again);
    tcase_add_test(tests, ranges_of_a_version_are_read_from_the_device_once);
    tcase_add_test(tests, a_delta_of_a_version_that_is_held_is_empty_and_of_a_newer_one_whole);
    tcase_add_test(tests, only_blocks_that_were_written_come_from_the_device);
    tcase_add_test(tests, a_pull_that_is_held_shares_what_was_not_written);
    tcase_add_test(tests, a_delta_is_that_of_the_host);
    tcase_add_loop_test(tests, a_refused_block_leaves_the_shadow_as_it_was, 0, 3);
    tcase_add_test(tests, refused_pinned_memory_is_no_memory_for_a_pull);
    return run_tests("device_shadow", tests);
}
