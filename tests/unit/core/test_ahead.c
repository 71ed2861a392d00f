/* Pushes in ranges that are applied as they come: the bits of a push in one piece, all of it or
 * nothing, once, and within the room that is stated. */
#include "server/core/ahead.h"

#include "base/random.h"
#include "core_kinds.h"
#include "server/core/service_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two blocks and a bit of 4 byte elements, four and a bit of 8. */
enum { COUNT = 2 * PS_BLOCK_BYTES / 4 + 12345, RANGES = 5 };

/* Cuts at no block's end, each range but the last of 64 KiB at least. */
static const struct ps_elements ranges[RANGES] = {
    {0, 20001}, {20001, 50000}, {70001, 16384}, {86385, 55001}, {141386, COUNT - 141386}};

static struct core_world world; /* gets ranges */
static struct core_world twin;  /* gets the same in one piece */
static uint8_t *content;        /* COUNT elements, of any type */
static uint8_t *got[2];

static void fill(enum ps_dtype dtype, uint64_t seed)
{
    uint8_t part[ELEMENTS * 8];
    size_t element_size = ps_dtype_size(dtype);
    for (size_t first = 0; first < COUNT; first += ELEMENTS) {
        size_t rest = COUNT - first;
        (void)make_elements(dtype, seed + first, part);
        memcpy(content + first * element_size, part,
               (rest < ELEMENTS ? rest : ELEMENTS) * element_size);
    }
}

static void begin_one(struct core_world *one, struct ps_service_options options,
                      enum ps_dtype dtype, struct ps_bytes config)
{
    world_init_with(one, &options);
    world_own(one, 1);
    ps_service_begin_empty(one->service);
    ck_assert_int_eq(
        world_init_param(one, "w", dtype, content, COUNT * ps_dtype_size(dtype), config), PS_OK);
    ck_assert_int_eq(world_finish(one), PS_OK);
    if (options.journals) {
        const struct ps_checkpoint_place place = {.epoch = 1};
        ps_service_saved(one->service, (struct ps_ticket){0}, &place);
    }
}

/* Both worlds have "w" with the same content. */
static void begin_with(bool journals, uint64_t staging_bytes, enum ps_dtype dtype,
                       struct ps_bytes config)
{
    const struct ps_service_options options = {
        .saves = journals, .journals = journals, .staging_bytes = staging_bytes};
    content = malloc(COUNT * 8);
    got[0] = malloc(COUNT * 8);
    got[1] = malloc(COUNT * 8);
    ck_assert(content != NULL && got[0] != NULL && got[1] != NULL);
    fill(dtype, 1);
    begin_one(&world, options, dtype, config);
    begin_one(&twin, options, dtype, config);
    fill(dtype, 2);
}

static void begin(bool journals)
{
    begin_with(journals, 0, PS_F32, config_of(PS_CONFIG_ADAM, 0.1));
}

static void end(void)
{
    ck_assert_uint_eq(world.service->staging.bytes, 0);
    world_fini(&world);
    world_fini(&twin);
    free(content);
    free(got[0]);
    free(got[1]);
}

static enum ps_status push(struct core_world *to, const char *client, uint64_t sequence,
                           enum ps_dtype dtype, struct ps_elements range)
{
    size_t element_size = ps_dtype_size(dtype);
    struct ps_elements all = {0, COUNT};
    struct ps_elements sent = range.count == 0 ? all : range;
    struct ps_bytes piece = {content + sent.first * element_size, sent.count * element_size};
    struct ps_push_request request = {
        .name = text("w"),
        .dtype = dtype,
        .content = ps_view_of(&piece),
        .range = range,
        .request = {
            .present = true, .client_id = text(client), .session = 1, .sequence = sequence}};
    enum ps_status status =
        ps_service_push(to->service, &request, &to->reply, &to->wait, &to->error);
    ps_service_check(to->service);
    return status;
}

static enum ps_status push_range(uint64_t sequence, size_t i)
{
    return push(&world, "a", sequence, PS_F32, ranges[i]);
}

static void push_ranges(uint64_t sequence, size_t first, size_t end_range)
{
    for (size_t i = first; i < end_range; i++)
        ck_assert_int_eq(push_range(sequence, i), PS_OK);
}

static void push_whole(struct core_world *to, const char *client, uint64_t sequence)
{
    ck_assert_int_eq(push(to, client, sequence, PS_F32, (struct ps_elements){0, 0}), PS_OK);
}

static enum ps_staging_way way_of(const char *client, uint64_t sequence)
{
    const struct ps_request_id id = {
        .present = true, .client_id = text(client), .session = 1, .sequence = sequence};
    return ps_staging_way(&world.service->staging, &id);
}

/* The values, and through a snapshot the states, are the twin's. */
static void expect_same(uint64_t version)
{
    struct core_world *const both[2] = {&world, &twin};
    struct ps_snapshot snapshots[2];
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        uint64_t pulled;
        ck_assert_int_eq(world_pull(both[i], "w", got[i], COUNT * 8, &size, &pulled), PS_OK);
        ck_assert_uint_eq(pulled, version);
        ck_assert_int_eq(ps_service_snapshot(both[i]->service, &snapshots[i], NULL), PS_OK);
    }
    const struct ps_checkpoint_parameter *of[2] = {snapshots[0].parameters,
                                                   snapshots[1].parameters};
    ck_assert_uint_eq(of[0]->step, of[1]->step);
    size_t bytes = COUNT * ps_dtype_size(of[0]->dtype);
    for (uint32_t array = 0; array < 1 + of[0]->state_count; array++) {
        for (size_t i = 0; i < 2; i++)
            ps_view_copy(array == 0 ? of[i]->values : of[i]->states[array - 1], 0, got[i], bytes);
        ck_assert_msg(memcmp(got[0], got[1], bytes) == 0, "array %u differs", array);
    }
    for (size_t i = 0; i < 2; i++)
        ps_snapshot_release(&snapshots[i]);
}

START_TEST(every_rule_gives_the_bits_of_a_push_in_one_piece)
{
    static const size_t order[RANGES] = {3, 0, 4, 2, 1};
    const struct kind *kind = &kinds[_i % KIND_COUNT];
    enum ps_dtype gradient = gradient_of(kind);
    begin_with(_i >= KIND_COUNT, 0, kind->dtype, kind_config(kind));
    fill(gradient, 2);
    for (uint64_t sequence = 1; sequence <= 2; sequence++) {
        for (size_t i = 0; i < RANGES; i++) {
            ck_assert_int_eq(push(&world, "a", sequence, gradient, ranges[order[i]]), PS_OK);
            ck_assert(world.reply.staged == (i + 1 < RANGES));
            ck_assert(i + 1 == RANGES || way_of("a", sequence) == PS_STAGING_AHEAD);
        }
        ck_assert_uint_eq(world.reply.version, sequence);
        ck_assert_int_eq(push(&twin, "a", sequence, gradient, (struct ps_elements){0, 0}), PS_OK);
        fill(gradient, 3);
    }

    expect_same(2);
    (void)world_write_journal(&world);
    (void)world_write_journal(&twin);
    end();
}
END_TEST

START_TEST(what_reads_during_an_attempt_sees_the_version_before)
{
    begin(false);
    push_ranges(1, 0, RANGES - 1);
    ck_assert(world.reply.staged);

    expect_same(0);
    push_ranges(1, RANGES - 1, RANGES);
    push_whole(&twin, "a", 1);
    expect_same(1);
    end();
}
END_TEST

START_TEST(a_reader_of_the_version_before_keeps_it)
{
    begin(false);
    const struct ps_pull_request request = {.name = text("w")};
    struct ps_pull before;
    ck_assert_int_eq(ps_service_pull(world.service, &request, &before, NULL), PS_OK);
    ps_view_copy(before.reply.content, 0, got[0], COUNT * sizeof(float));

    push_ranges(1, 0, RANGES);

    ps_view_copy(before.reply.content, 0, got[1], COUNT * sizeof(float));
    ck_assert(memcmp(got[0], got[1], COUNT * sizeof(float)) == 0);
    ps_pull_release(&before);
    end();
}
END_TEST

START_TEST(ranges_that_come_again_change_nothing)
{
    begin(_i == 1);
    for (size_t i = 0; i < RANGES; i++) {
        ck_assert_int_eq(push_range(1, i), PS_OK);
        ck_assert_int_eq(push_range(1, i), PS_OK);
    }
    ck_assert(world.reply.duplicate);
    push_ranges(1, 0, RANGES);
    ck_assert(world.reply.duplicate);

    push_whole(&twin, "a", 1);
    expect_same(1);
    (void)world_write_journal(&world);
    (void)world_write_journal(&twin);
    end();
}
END_TEST

/* Another's push comes between; nothing of the ranges was kept. */
START_TEST(who_is_overtaken_sends_all_again_and_is_applied_once)
{
    begin(false);
    push_ranges(1, 0, RANGES - 1);
    push_whole(&world, "b", 1);
    push_ranges(1, RANGES - 1, RANGES);
    ck_assert(world.reply.staged);
    ck_assert_int_eq(way_of("a", 1), PS_STAGING_UNKNOWN);

    push_ranges(1, 0, RANGES);
    ck_assert(!world.reply.staged && !world.reply.duplicate);
    ck_assert_uint_eq(world.reply.version, 2);
    push_ranges(1, 0, RANGES);
    ck_assert(world.reply.duplicate);

    push_whole(&twin, "b", 1);
    push_whole(&twin, "a", 1);
    expect_same(2);
    end();
}
END_TEST

START_TEST(who_is_overtaken_is_applied_from_what_the_journal_keeps)
{
    begin(true);
    push_ranges(1, 0, RANGES - 1);
    push_whole(&world, "b", 1);
    push_ranges(1, RANGES - 1, RANGES);
    ck_assert(!world.reply.staged);
    ck_assert_uint_eq(world.reply.version, 2);

    push_whole(&twin, "b", 1);
    push_whole(&twin, "a", 1);
    expect_same(2);
    ck_assert_uint_eq(world_write_journal(&world), 2);
    ck_assert_uint_eq(world_write_journal(&twin), 2);
    end();
}
END_TEST

START_TEST(a_parameter_rests_after_an_attempt_that_came_to_nothing)
{
    begin(false);
    push_ranges(1, 0, 1);
    push_whole(&world, "b", 1);
    push_ranges(1, 1, RANGES);
    ck_assert(world.reply.staged);

    for (uint64_t sequence = 1; sequence <= PS_AHEAD_REST; sequence++) {
        push_ranges(sequence, 0, 1);
        ck_assert_int_eq(way_of("a", sequence), PS_STAGING_PARTS);
        push_ranges(sequence, 1, RANGES);
        ck_assert(!world.reply.staged);
    }
    push_ranges(PS_AHEAD_REST + 1, 0, 1);
    ck_assert_int_eq(way_of("a", PS_AHEAD_REST + 1), PS_STAGING_AHEAD);
    push_ranges(PS_AHEAD_REST + 1, 1, RANGES);
    ck_assert(!world.reply.staged);
    end();
}
END_TEST

START_TEST(only_one_push_of_a_parameter_is_ahead)
{
    begin(false);
    push_ranges(1, 0, 1);
    ck_assert_int_eq(push(&world, "b", 1, PS_F32, ranges[0]), PS_OK);
    ck_assert_int_eq(way_of("a", 1), PS_STAGING_AHEAD);
    ck_assert_int_eq(way_of("b", 1), PS_STAGING_PARTS);

    push_ranges(1, 1, RANGES);
    for (size_t i = 1; i < RANGES; i++)
        ck_assert_int_eq(push(&world, "b", 1, PS_F32, ranges[i]), PS_OK);
    ck_assert_uint_eq(world.reply.version, 2);
    push_whole(&twin, "a", 1);
    push_whole(&twin, "b", 1);
    expect_same(2);
    end();
}
END_TEST

START_TEST(an_element_that_is_not_finite_refuses_all_of_it)
{
    bool journals = _i == 1;
    begin(journals);
    float *elements = (float *)content;
    elements[COUNT - 1] = INFINITY;
    elements[ranges[3].first] = NAN;
    push_ranges(1, 0, RANGES - 1);
    enum ps_status last = push_range(1, RANGES - 1);
    if (!journals) {
        /* The range that showed it forgot the others: they come again. */
        ck_assert_int_eq(last, PS_OK);
        ck_assert(world.reply.staged);
        push_ranges(1, 0, 3);
        last = push_range(1, 3);
    }
    ck_assert_int_eq(last, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(push(&twin, "a", 1, PS_F32, (struct ps_elements){0, 0}), PS_ERR_BAD_INPUT);
    ck_assert_str_eq(world.error.text, twin.error.text);
    expect_same(0);
    end();
}
END_TEST

START_TEST(settings_that_must_see_the_whole_first_have_no_attempt)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    config.learning_rate = 0.5;
    if (_i == 0)
        config.clip_norm = 1;
    else
        config.optimizer = PS_CONFIG_ADD;
    if (_i == 1)
        config.add_overflow = 2;
    enum ps_dtype dtype = _i == 0 ? PS_F32 : PS_I32;
    begin_with(false, 0, dtype, config_bytes(&config));
    ck_assert_int_eq(push(&world, "a", 1, dtype, ranges[0]), PS_OK);
    ck_assert_int_eq(way_of("a", 1), _i == 2 ? PS_STAGING_AHEAD : PS_STAGING_PARTS);
    for (size_t i = 1; i < RANGES; i++)
        ck_assert_int_eq(push(&world, "a", 1, dtype, ranges[i]), PS_OK);
    ck_assert_int_eq(push(&twin, "a", 1, dtype, (struct ps_elements){0, 0}), PS_OK);
    expect_same(1);
    end();
}
END_TEST

START_TEST(new_blocks_count_as_staged_and_are_given_back)
{
    const uint64_t bytes = COUNT * sizeof(float);
    begin(_i == 1);
    push_ranges(1, 0, 1);
    ck_assert_uint_eq(world.service->staging.bytes, bytes * (_i == 1 ? 4 : 3));
    world.fake.now_ms += PS_STAGING_IDLE_MS;
    ck_assert_int_eq(push(&world, "b", 1, PS_F32, ranges[0]), PS_OK);
    ck_assert_uint_eq(world.service->staging.expired_count, 1);
    ck_assert_int_eq(way_of("b", 1), PS_STAGING_AHEAD);
    for (size_t i = 1; i < RANGES; i++)
        ck_assert_int_eq(push(&world, "b", 1, PS_F32, ranges[i]), PS_OK);
    (void)world_write_journal(&world);
    end();
}
END_TEST

START_TEST(what_does_not_fit_is_put_together_first)
{
    begin_with(false, 2 * COUNT * sizeof(float) * 3 - (uint64_t)_i, PS_F32,
               config_of(PS_CONFIG_ADAM, 0.1));
    push_ranges(1, 0, 1);
    ck_assert_int_eq(way_of("a", 1), _i == 0 ? PS_STAGING_AHEAD : PS_STAGING_PARTS);
    push_ranges(1, 1, RANGES);
    push_whole(&twin, "a", 1);
    expect_same(1);
    end();
}
END_TEST

START_TEST(an_attempt_goes_with_its_shard)
{
    begin(false);
    push_ranges(1, 0, RANGES - 1);
    ps_service_reset(world.service);
    ck_assert_uint_eq(world.service->staging.bytes, 0);
    end();
}
END_TEST

START_TEST(a_server_that_cannot_prove_its_lease_makes_no_version)
{
    begin(false);
    push_ranges(1, 0, RANGES - 1);
    ps_service_prove(world.service, 0);
    ck_assert_int_eq(push_range(1, RANGES - 1), PS_ERR_UNAVAILABLE);
    ps_service_prove(world.service, PS_DEADLINE_NEVER);
    push_ranges(1, RANGES - 1, RANGES);
    ck_assert_uint_eq(world.reply.version, 1);

    push_whole(&twin, "a", 1);
    expect_same(1);
    end();
}
END_TEST

START_TEST(pushes_ahead_survive_any_refused_allocation)
{
    begin(_i % 2 == 1);
    world.heap.seen = 0;
    world.heap.refuse_at = _i / 2;
    for (int tries = 0; tries < 3; tries++) {
        for (size_t i = 0; i < RANGES; i++) {
            enum ps_status status = push_range(1, i);
            ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
            if (status != PS_OK)
                ck_assert_int_eq(push_range(1, i), PS_OK);
        }
        if (!world.reply.staged)
            break;
    }
    ck_assert(!world.reply.staged);
    world.heap.refuse_at = -1;
    push_whole(&twin, "a", 1);
    expect_same(1);
    (void)world_write_journal(&world);
    (void)world_write_journal(&twin);
    end();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("ahead");
    tcase_add_loop_test(t, every_rule_gives_the_bits_of_a_push_in_one_piece, 0, 2 * KIND_COUNT);
    tcase_add_test(t, what_reads_during_an_attempt_sees_the_version_before);
    tcase_add_test(t, a_reader_of_the_version_before_keeps_it);
    tcase_add_loop_test(t, ranges_that_come_again_change_nothing, 0, 2);
    tcase_add_test(t, who_is_overtaken_sends_all_again_and_is_applied_once);
    tcase_add_test(t, who_is_overtaken_is_applied_from_what_the_journal_keeps);
    tcase_add_test(t, a_parameter_rests_after_an_attempt_that_came_to_nothing);
    tcase_add_test(t, only_one_push_of_a_parameter_is_ahead);
    tcase_add_loop_test(t, an_element_that_is_not_finite_refuses_all_of_it, 0, 2);
    tcase_add_loop_test(t, settings_that_must_see_the_whole_first_have_no_attempt, 0, 3);
    tcase_add_loop_test(t, new_blocks_count_as_staged_and_are_given_back, 0, 2);
    tcase_add_loop_test(t, what_does_not_fit_is_put_together_first, 0, 2);
    tcase_add_test(t, an_attempt_goes_with_its_shard);
    tcase_add_test(t, a_server_that_cannot_prove_its_lease_makes_no_version);
    tcase_add_loop_test(t, pushes_ahead_survive_any_refused_allocation, 0, 2 * 40);
    return run_tests("ahead", t);
}
