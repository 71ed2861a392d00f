/* SPDX-License-Identifier: Apache-2.0 */
/* Random lives of a shard against a model that is too simple to be wrong: whole numbers that are
 * added up. Pulls and snapshots are held while the shard goes on, and looked at when released. */
#include "base/random.h"
#include "server/core/recovery/snapshot.h"
#include "tests/unit/core/core_change.h"
#include "tests/unit/core/core_disk.h"

#include <stdio.h>
#include <string.h>

#define NAMES 4
#define HELD_MAX 6
#define STEPS 400

/* What a parameter should be: `count` numbers (0: it does not exist), all of them `value`. */
struct model_parameter {
    size_t count;
    uint32_t value;
    uint64_t version;
};
struct model {
    bool ready;
    uint64_t position;
    struct model_parameter parameters[NAMES];
};

struct held_pull {
    bool used;
    struct ps_pull pull;
    struct model_parameter expected;
};
struct held_snapshot {
    bool used;
    struct ps_snapshot snapshot;
    struct model expected;
};

static uint64_t seed;
static struct ps_random random_numbers;
static struct core_world world;
static struct memory_files *disk;
static struct ps_increments increments;
static uint64_t epoch;
static struct model model; /* as it should be now */
static struct model saved; /* as it was at the last save; position UINT64_MAX: never */
static struct held_pull pulls[HELD_MAX];
static struct held_snapshot snapshots[HELD_MAX];

#define EXPECT(condition) \
    ck_assert_msg((condition), "seed %llu: %s", (unsigned long long)seed, #condition)

static uint64_t below(uint64_t bound)
{
    return ps_random_below(&random_numbers, bound);
}

static const char *name_of(size_t i)
{
    static const char *const names[NAMES] = {"a", "bb", "a.b", "z"};
    return names[i];
}

/* Up to a bit more than one block, so that some have two. */
static uint32_t numbers[PS_BLOCK_BYTES / 4 + 100];

static size_t fill_numbers(size_t count, uint32_t value)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = value;
    return count * sizeof numbers[0];
}

static void expect_numbers(struct ps_view view, const struct model_parameter *expected)
{
    struct ps_view_cursor cursor = {.view = view};
    EXPECT(view.size == expected->count * sizeof numbers[0]);
    for (;;) {
        struct ps_bytes run = ps_view_next(&cursor, SIZE_MAX);
        if (run.size == 0)
            return;
        for (size_t at = 0; at < run.size; at += sizeof numbers[0]) {
            uint32_t number;
            memcpy(&number, run.data + at, sizeof number);
            EXPECT(number == expected->value);
        }
    }
}

static void try_init(void)
{
    size_t i = below(NAMES);
    size_t count = below(8) == 0 ? PS_ARRAY_COUNT(numbers) - below(10) : 1 + below(50);
    uint32_t value = (uint32_t)below(1000);
    size_t size = fill_numbers(count, value);
    enum ps_status status =
        world_init_param(&world, name_of(i), PS_U32, numbers, size, config_of("add", 1));
    EXPECT(status == (model.ready ? PS_ERR_EXISTS : PS_OK));
    if (status == PS_OK)
        model.parameters[i] = (struct model_parameter){.count = count, .value = value};
}

static void try_finish(void)
{
    EXPECT(world_finish(&world) == (model.ready ? PS_ERR_EXISTS : PS_OK));
    model.ready = true;
}

/* The gradient, cut at two random bytes. */
static void try_push(void)
{
    struct model_parameter *parameter = &model.parameters[below(NAMES)];
    size_t count = parameter->count > 0 && below(10) > 0 ? parameter->count : 1 + below(50);
    uint32_t value = (uint32_t)below(1000);
    size_t size = fill_numbers(count, value);
    size_t first = below(size + 1);
    size_t second = first + below(size - first + 1);
    const uint8_t *bytes = (const uint8_t *)numbers;
    struct ps_bytes pieces[] = {
        {bytes, first}, {bytes + first, second - first}, {bytes + second, size - second}};
    struct ps_push_request request = {.name = text(name_of((size_t)(parameter - model.parameters))),
                                      .dtype = PS_U32,
                                      .content = {pieces, 3, size}};
    struct ps_push_reply reply;
    enum ps_status expected = PS_OK;
    if (!model.ready)
        expected = PS_ERR_NOT_READY;
    else if (parameter->count == 0)
        expected = PS_ERR_NOT_FOUND;
    else if (parameter->count != count)
        expected = PS_ERR_BAD_INPUT;
    EXPECT(ps_service_push(world.service, &request, &reply, NULL, NULL) == expected);
    if (expected != PS_OK)
        return;
    /* add saturates, far below which these sums stay. */
    parameter->value += value;
    parameter->version++;
    model.position++;
    EXPECT(reply.version == parameter->version);
}

/* A parameter while the shard trains: a new one, an equal one, or one that differs. */
static void try_define(void)
{
    size_t i = below(NAMES);
    struct model_parameter *parameter = &model.parameters[i];
    size_t count = parameter->count > 0 && below(2) == 0 ? parameter->count : 1 + below(50);
    uint32_t value = (uint32_t)below(1000);
    struct ps_bytes piece = {(const uint8_t *)numbers, fill_numbers(count, value)};
    const struct ps_init_request request = {.name = text(name_of(i)),
                                            .dtype = PS_U32,
                                            .content = ps_view_of(&piece),
                                            .config = config_of("add", 1)};
    struct ps_init_reply reply;
    enum ps_status status = ps_service_define(world.service, &request, &reply, NULL, NULL);
    if (!model.ready) {
        EXPECT(status == PS_ERR_NOT_READY);
    } else if (parameter->count == 0) {
        EXPECT(status == PS_OK && !reply.existed);
        *parameter = (struct model_parameter){.count = count, .value = value};
        model.position++;
    } else if (parameter->count == count) {
        EXPECT(status == PS_OK && reply.existed);
    } else {
        EXPECT(status == PS_ERR_EXISTS);
    }
}

static void try_drop(void)
{
    size_t i = below(NAMES);
    struct model_parameter *parameter = &model.parameters[i];
    enum ps_status expected = parameter->count > 0 ? PS_OK : PS_ERR_NOT_FOUND;
    EXPECT(change_drop(&world, name_of(i), 0) == (model.ready ? expected : PS_ERR_NOT_READY));
    if (!model.ready || expected != PS_OK)
        return;
    EXPECT(answers.changed.version == parameter->version);
    *parameter = (struct model_parameter){0};
    model.position++;
}

/* The rule adds gradients as they are: a configuration moves the position and nothing else. */
static void try_configure(void)
{
    size_t i = below(NAMES);
    enum ps_status expected = model.parameters[i].count > 0 ? PS_OK : PS_ERR_NOT_FOUND;
    enum ps_status status = change_configure_to(&world, name_of(i), config_of("add", 1), 0);
    EXPECT(status == (model.ready ? expected : PS_ERR_NOT_READY));
    if (model.ready && expected == PS_OK)
        model.position++;
}

static void hold_or_release_pull(void)
{
    struct held_pull *held = &pulls[below(HELD_MAX)];
    if (held->used) {
        expect_numbers(held->pull.reply.content, &held->expected);
        EXPECT(held->pull.reply.version == held->expected.version);
        ps_pull_release(&held->pull);
        held->used = false;
        return;
    }
    size_t i = below(NAMES);
    struct ps_pull_request request = {.name = text(name_of(i))};
    enum ps_status status = ps_service_pull(world.service, &request, &held->pull, NULL);
    held->used = model.ready && model.parameters[i].count > 0;
    EXPECT((status == PS_OK) == held->used);
    held->expected = model.parameters[i];
}

static void expect_snapshot(const struct ps_snapshot *snapshot, const struct model *expected)
{
    size_t count = 0;
    EXPECT(snapshot->facts.position == expected->position);
    for (size_t i = 0; i < NAMES; i++)
        count += expected->parameters[i].count > 0;
    EXPECT(snapshot->parameter_count == count);
    for (size_t row = 0; row < count; row++)
        for (size_t i = 0; i < NAMES; i++)
            if (ps_bytes_equal(snapshot->parameters[row].name, text(name_of(i)))) {
                expect_numbers(snapshot->parameters[row].values, &expected->parameters[i]);
                EXPECT(snapshot->parameters[row].version == expected->parameters[i].version);
            }
}

static void hold_or_release_snapshot(void)
{
    struct held_snapshot *held = &snapshots[below(HELD_MAX)];
    if (held->used) {
        expect_snapshot(&held->snapshot, &held->expected);
        ps_snapshot_release(&held->snapshot);
        held->used = false;
        return;
    }
    enum ps_status status = ps_snapshot_take(world.service, &held->snapshot, NULL);
    EXPECT((status == PS_OK) == model.ready);
    held->used = model.ready;
    held->expected = model;
}

static void try_save(void)
{
    struct ps_checkpoint_place place;
    struct ps_saver saver = disk_saver(&world, disk);
    saver.increments = &increments;
    enum ps_status status = ps_saver_save(&saver, PS_DEADLINE_NEVER, &place, NULL);
    EXPECT(status == (model.ready ? PS_OK : PS_ERR_NOT_READY));
    if (status == PS_OK)
        saved = model;
}

/* The server crashes, and another one recovers what was saved. */
static void lose_and_recover(void)
{
    struct ps_recovered loaded;
    ps_service_reset(world.service);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    world_own(&world, ++epoch);
    enum ps_status status = disk_load(&world, disk, NULL, &loaded);
    if (saved.position == UINT64_MAX) {
        EXPECT(status == PS_ERR_NOT_FOUND);
        ps_service_begin_empty(world.service);
        model = (struct model){0};
        return;
    }
    EXPECT(status == PS_OK);
    EXPECT(loaded.place.position == saved.position);
    model = saved;
}

static void one_step(void)
{
    switch (below(model.ready ? 40 : 10)) {
    case 0:
        hold_or_release_snapshot();
        return;
    case 1:
    case 2:
        try_init();
        return;
    case 3:
        try_finish();
        return;
    case 4:
        try_save();
        return;
    case 5:
        if (below(4) == 0)
            lose_and_recover();
        return;
    case 6:
        try_define();
        return;
    case 7:
        (below(2) == 0 ? try_drop : try_configure)();
        return;
    default:
        break;
    }
    if (below(3) == 0)
        hold_or_release_pull();
    else
        try_push();
}

START_TEST(a_random_life_is_what_the_model_says)
{
    seed = 0xc0de0000 + (uint64_t)_i;
    ps_random_init(&random_numbers, seed);
    disk = memory_files_create(seed);
    epoch = 1;
    saved = (struct model){.position = UINT64_MAX};
    disk_world_init(&world, epoch);
    ps_increments_init(&increments, &world.memory, (uint32_t)_i % 4);
    ps_service_begin_empty(world.service);

    for (int step = 0; step < STEPS; step++) {
        one_step();
        ps_service_check(world.service);
    }

    for (size_t i = 0; i < HELD_MAX; i++) {
        ps_pull_release(&pulls[i].pull);
        ps_snapshot_release(&snapshots[i].snapshot);
    }
    ps_increments_fini(&increments);
    world_fini(&world);
    memory_files_destroy(disk);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("core_random");
    tcase_add_loop_test(tests, a_random_life_is_what_the_model_says, 0, 25);
    return run_tests("core_random", tests);
}
