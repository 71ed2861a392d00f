/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/saver.c, with increments: what is loaded is the state, whatever was saved how, and
 * wherever the disk or the store stopped. */
#include "base/random.h"
#include "core_change.h"
#include "core_saver.h"
#include "core_table.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_sweep.h"

#include <stdio.h>
#include <string.h>

static struct ps_increments increments;
static struct ps_random dice;
static struct core_world loaded_world;

static uint64_t below(uint64_t end)
{
    return ps_random_below(&dice, end);
}

static struct ps_table_settings limited(void)
{
    return (struct ps_table_settings){
        .init = PS_TABLE_UNIFORM, .high = 1, .rows_max = 1200, .full = PS_TABLE_OLDEST};
}

/* Beside "w": the table "t", which keeps a limit. */
static void begin_test(void)
{
    saver_rig_setup();
    ps_random_init(&dice, 7);
    ps_increments_init(&increments, &world.memory, 3);
    saver.increments = &increments;
    ck_assert_int_eq(table_define(&world, table_config("adam", limited()), 0), PS_OK);
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_int_eq(table_push(&world, 300 * i, 300, 1, 0), PS_OK);
}

static void end_test(void)
{
    ps_increments_fini(&increments);
    saver_rig_teardown();
}

static bool has_table(struct core_world *of)
{
    return ps_parameter_table_find(&of->service->table, text("t")) != NULL;
}

/* The files, as another server has them, are the state of `of`. */
static void expect_loaded(struct core_world *of)
{
    struct ps_recovered loaded;
    disk_world_init(&loaded_world, store.claim.epoch + 1);
    ck_assert_msg(disk_load(&loaded_world, disk, NULL, &loaded) == PS_OK, "%s",
                  loaded_world.error.text);
    ck_assert_uint_eq(loaded.damaged_count, 0);
    ps_service_check(loaded_world.service);
    disk_expect_equal(of, &loaded_world);
    if (has_table(of))
        ck_assert_uint_eq(ps_row_table_digest(table_of(of)->rows),
                          ps_row_table_digest(table_of(&loaded_world)->rows));
    world_fini(&loaded_world);
}

static void sweep(uint64_t before)
{
    struct ps_parameter *table = table_of(&world);
    ps_mutex_lock(&table->lock);
    (void)ps_parameter_rows_sweep(table, before < table->version ? before : table->version);
    ps_mutex_unlock(&table->lock);
}

/* Something that a trainer, or time, does. */
static void do_something(void)
{
    static const float four[] = {1, 2, 3, 4};
    uint64_t what = below(40);
    if (!has_table(&world))
        ck_assert_int_eq(table_define(&world, table_config("adam", limited()), 0), PS_OK);
    else if (what == 0)
        ck_assert_int_eq(change_drop(&world, "t", 0), PS_OK);
    else if (what == 1 && change_drop(&world, "w", 0) == PS_OK)
        ck_assert_int_eq(change_define(&world, "w", four, 4, config_of("sgd", 1), 0), PS_OK);
    else if (what < 4)
        ck_assert_int_eq(change_configure(&world, "w", 0.5 + (double)below(4), 0), PS_OK);
    else if (what < 10)
        sweep(table_of(&world)->version - below(table_of(&world)->version / 2 + 1));
    else if (what < 15)
        push();
    else
        ck_assert_int_eq(table_push(&world, below(1500), 1 + below(what < 35 ? 20 : 300), 1, 0),
                         PS_OK);
}

START_TEST(whatever_was_done_base_and_increment_are_the_state)
{
    int counts[2] = {0};
    ps_random_init(&dice, (uint64_t)_i + 1);
    for (int step = 0; step < 60; step++) {
        for (uint64_t i = below(4); i < 4; i++)
            do_something();
        push();
        ck_assert_msg(save() == PS_OK, "%s", world.error.text);
        counts[strstr(place.path, "-on-") != NULL]++;
        expect_loaded(&world);
    }
    /* Of each kind there were some. */
    ck_assert_int_gt(counts[0], 5);
    ck_assert_int_gt(counts[1], 5);
}
END_TEST

/* Other files stay as long as somebody needs them, and no longer. */
START_TEST(files_do_not_pile_up)
{
    for (int i = 0; i < 30; i++) {
        ck_assert_int_eq(table_push(&world, 0, 5, 1, 0), PS_OK);
        ck_assert_int_eq(save(), PS_OK);
        ck_assert_uint_le(disk_count(disk, ".safetensors"), 2 * PS_SAVER_KEEP);
    }
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2 * PS_SAVER_KEEP);
}
END_TEST

/* What the state was at each position, by the table's digest and the version of "w". */
struct known {
    uint64_t digest;
    uint64_t version;
};
static struct known known[64];

static void note_state(void)
{
    struct ps_parameter *w = ps_parameter_table_find(&world.service->table, text("w"));
    uint64_t position = 0, durable = 0;
    ps_service_positions(world.service, &position, &durable);
    ck_assert_uint_lt(position, 64);
    known[position] = (struct known){.digest = ps_row_table_digest(table_of(&world)->rows),
                                     .version = w->version};
}

static void push_both(void)
{
    ck_assert_int_eq(table_push(&world, below(1000), 30, 1, 0), PS_OK);
    note_state();
    push();
    note_state();
}

/* The machine stops at the n-th call of the disk, and everything not synced may be lost: what is
 * loaded is a state that there was, not older than what was published. `_i`: what is lost, and
 * which save it is, a whole one or an increment. */
START_TEST(b4_b5_a_crash_at_any_step_leaves_a_state_that_there_was)
{
    bool crashed = true;
    for (int64_t step = 0; crashed; step++) {
        struct ps_checkpoint_place pointer;
        struct ps_recovered loaded;
        struct memory_files_knobs *knobs = memory_files_knobs(disk);
        ck_assert_int_lt(step, 300);
        note_state();
        for (int i = 0; i <= _i / 3; i++) {
            push_both();
            ck_assert_int_eq(save(), PS_OK);
            ck_assert((strstr(place.path, "-on-") != NULL) == (i % 4 != 0));
        }
        push_both();

        knobs->seen = 0;
        knobs->fail_from = step;
        enum ps_status status = save();
        crashed = knobs->seen > step;
        knobs->fail_from = -1;
        memory_files_crash(disk, (enum memory_crash)(_i % 3));

        ck_assert(crashed || status == PS_OK);
        read_pointer(&pointer);
        disk_world_init(&loaded_world, store.claim.epoch + 1);
        ck_assert_msg(disk_load(&loaded_world, disk, NULL, &loaded) == PS_OK, "step %d: %s",
                      (int)step, loaded_world.error.text);
        ck_assert_uint_ge(loaded.place.position, pointer.position);
        ck_assert_uint_eq(loaded.damaged_count, 0);
        ck_assert_uint_eq(ps_row_table_digest(table_of(&loaded_world)->rows),
                          known[loaded.place.position].digest);
        ck_assert_uint_eq(ps_parameter_table_find(&loaded_world.service->table, text("w"))->version,
                          known[loaded.place.position].version);
        world_fini(&loaded_world);
        end_test();
        begin_test();
    }
}
END_TEST

/* A store that never answers in time. */
static enum ps_status no_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                uint64_t deadline_ms, bool *done, int64_t *revision,
                                struct ps_error *error)
{
    (void)kv;
    (void)transaction;
    (void)deadline_ms;
    (void)done;
    (void)revision;
    return ps_fail(error, PS_ERR_TIMEOUT, "nobody answers");
}

static enum ps_status no_read(struct ps_kv *kv, const char *key, bool prefix, uint64_t deadline_ms,
                              struct ps_kv_entries *entries, struct ps_error *error)
{
    (void)kv;
    (void)key;
    (void)prefix;
    (void)deadline_ms;
    (void)entries;
    return ps_fail(error, PS_ERR_TIMEOUT, "nobody answers");
}

/* 0: of a whole one; 1: of an increment. */
START_TEST(behind_an_unclear_publication_the_next_one_is_whole)
{
    static const struct ps_kv_methods methods = {.read = no_read, .commit = no_commit};
    struct ps_kv silent = {&methods};
    struct ps_registry registry = store.registry;
    registry.kv = &silent;
    for (int i = 0; i < _i; i++)
        ck_assert_int_eq(save(), PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 5, 1, 0), PS_OK);
    saver.registry = &registry;
    ck_assert_int_eq(save(), PS_ERR_TIMEOUT);
    sweep(2);
    ck_assert_int_eq(table_push(&world, 0, 5, 1, 0), PS_OK);
    ck_assert_int_eq(save(), PS_ERR_TIMEOUT);
    saver.registry = &store.registry;

    ck_assert_int_eq(save(), PS_OK);

    ck_assert_ptr_null(strstr(place.path, "-on-"));
    expect_loaded(&world);
    sweep(3);
    ck_assert_int_eq(table_push(&world, 0, 5, 1, 0), PS_OK);
    ck_assert_int_eq(save(), PS_OK);
    ck_assert_ptr_nonnull(strstr(place.path, "-on-"));
    expect_loaded(&world);
}
END_TEST

/* Of rows that went while the file was written the next increment knows. */
static void sweep_once(void *context, enum memory_files_operation operation, const char *path)
{
    (void)operation;
    (void)path;
    uint64_t *before = context;
    if (*before > 0)
        sweep(*before);
    *before = 0;
}

/* 0: while the base is written; 1: while an increment is. */
START_TEST(rows_that_go_while_a_file_is_written_are_gone_in_the_next)
{
    uint64_t before = 2;
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    for (int i = 0; i < _i; i++)
        ck_assert_int_eq(save(), PS_OK);
    ck_assert_int_eq(table_push(&world, 400, 5, 1, 0), PS_OK);
    uint64_t rows = ps_row_table_rows(table_of(&world)->rows);
    knobs->observer = sweep_once;
    knobs->observer_context = &before;
    ck_assert_int_eq(save(), PS_OK);
    knobs->observer = NULL;
    ck_assert_uint_lt(ps_row_table_rows(table_of(&world)->rows), rows);
    ck_assert_int_eq(table_push(&world, 400, 5, 1, 0), PS_OK);

    ck_assert_int_eq(save(), PS_OK);

    ck_assert_ptr_nonnull(strstr(place.path, "-on-"));
    expect_loaded(&world);
}
END_TEST

/* Asked for when nothing is new: an increment on a base that was damaged would be another damaged
 * one. 0: the increment is damaged; 1: its base is. */
START_TEST(a_damaged_file_is_followed_by_a_whole_one)
{
    struct ps_checkpoint_place base;
    ck_assert_int_eq(save(), PS_OK);
    base = place;
    ck_assert_int_eq(table_push(&world, 0, 5, 1, 0), PS_OK);
    ck_assert_int_eq(save(), PS_OK);
    ck_assert_ptr_nonnull(strstr(place.path, base.uuid));
    disk_damage(disk, _i == 0 ? place.path : base.path);
    world.fake.now_ms++; /* names of one position sort by time */

    ck_assert_int_eq(save(), PS_OK);

    ck_assert_ptr_null(strstr(place.path, "-on-"));
    expect_loaded(&world);
}
END_TEST

static void put_back(const char *path)
{
    char aside[sizeof place.path + 16];
    const struct ps_files *files = memory_files_files(disk);
    (void)snprintf(aside, sizeof aside, "%s.damaged", path);
    (void)files->rename(files->self, aside, path, NULL);
}

/* The base has no state of its own that an increment needs but its arrays: damage of any other part
 * is not read, and leaves the newest state; damage of these leads to the state of `older`. Returns
 * whether it was of these. */
static bool load_damaged(struct core_world *older, const struct ps_checkpoint_place *before)
{
    struct ps_recovered loaded;
    disk_world_init(&loaded_world, store.claim.epoch + 1);
    ck_assert_msg(disk_load(&loaded_world, disk, NULL, &loaded) == PS_OK, "%s",
                  loaded_world.error.text);
    ps_service_check(loaded_world.service);
    bool fell_back = loaded.damaged_count > 0;
    struct core_world *expected = fell_back ? older : &world;
    /* The increment, and its base as a checkpoint by itself. */
    ck_assert_uint_eq(loaded.damaged_count, fell_back ? 2 : 0);
    ck_assert_str_eq(loaded.place.uuid, fell_back ? before->uuid : place.uuid);
    disk_expect_equal(expected, &loaded_world);
    ck_assert_uint_eq(ps_row_table_digest(table_of(expected)->rows),
                      ps_row_table_digest(table_of(&loaded_world)->rows));
    world_fini(&loaded_world);
    return fell_back;
}

/* Nothing of a base is compared before its rows are loaded: sums are known when the last part of an
 * array was read. By then most of a shard is there, and all of it is thrown away. */
START_TEST(damage_that_shows_when_all_is_loaded_leads_to_the_chain_before)
{
    struct ps_checkpoint_place base, before;
    struct core_world older;
    struct ps_recovered loaded;
    struct ps_bytes content;
    size_t fell_back = 0;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(table_push(&world, 50 * (uint64_t)i, 5, 1, 0), PS_OK);
        ck_assert_int_eq(save(), PS_OK);
    }
    before = place;
    ck_assert_ptr_nonnull(strstr(before.path, "-on-"));
    disk_world_init(&older, store.claim.epoch + 1);
    ck_assert_int_eq(disk_load(&older, disk, NULL, &loaded), PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 200, 1, 0), PS_OK);
    ck_assert_int_eq(save(), PS_OK);
    base = place;
    ck_assert_ptr_null(strstr(base.path, "-on-"));
    /* Some rows of the base are written over, and some have gone. */
    ck_assert_int_eq(table_push(&world, 800, 100, 1, 0), PS_OK);
    sweep(2);
    ck_assert_int_eq(save(), PS_OK);
    ck_assert_ptr_nonnull(strstr(place.path, base.uuid));
    ck_assert(memory_files_get(disk, base.path, &content));
    size_t tries = 0;
    for (uint64_t bit = 0; bit < content.size * 8; bit += 3001, tries++) {
        memory_files_flip(disk, base.path, bit);
        fell_back += load_damaged(&older, &before) ? 1 : 0;
        put_back(base.path);
        put_back(place.path);
        memory_files_flip(disk, base.path, bit);
    }
    ck_assert_uint_gt(fell_back, tries * 9 / 10);
    expect_loaded(&world);
    world_fini(&older);
}
END_TEST

START_TEST(saving_survives_any_refused_allocation)
{
    bool refused = true;
    ck_assert_int_eq(save(), PS_OK);
    for (int64_t refuse = 0; refused; refuse++) {
        ck_assert_int_lt(refuse, 300);
        ck_assert_int_eq(table_push(&world, 7, 5, 1, 0), PS_OK);
        world.heap.refuse_at = world.heap.seen + refuse;
        enum ps_status status = save();
        refused = world.heap.seen > world.heap.refuse_at;
        world.heap.refuse_at = -1;
        ck_assert(status == PS_OK || (refused && status == PS_ERR_NO_MEMORY));
        if (status == PS_OK)
            expect_loaded(&world);
    }
}
END_TEST

/* Nobody pushes to the table, whose rows the increment leaves to its base: what it says of their
 * ages is of its own instant, and so what a server goes on from. */
START_TEST(rows_of_the_base_are_as_old_as_the_increment_says)
{
    struct ps_table_settings settings = limited();
    struct ps_recovered loaded;
    settings.expire_ms = 1600;
    ck_assert_int_eq(change_configure_to(&world, "t", table_config("adam", settings), 1), PS_OK);
    (void)ps_service_sweep(world.service);
    ck_assert_int_eq(save(), PS_OK);
    world.fake.now_ms += 1000;
    (void)ps_service_sweep(world.service);
    push();

    ck_assert_int_eq(save(), PS_OK);

    ck_assert_ptr_nonnull(strstr(place.path, "-on-"));
    disk_world_init(&loaded_world, store.claim.epoch + 1);
    ck_assert_int_eq(disk_load(&loaded_world, disk, NULL, &loaded), PS_OK);
    const struct ps_row_ages *ages = &table_of(&loaded_world)->expiry->by_time;
    ck_assert_uint_eq(ages->count, 2);
    ck_assert_uint_eq(ages->seen[1].at - ages->seen[0].at, 1000);
    ck_assert_uint_eq(ages->seen[1].at, ps_row_ages_time(loaded_world.fake.now_ms));
    ck_assert_uint_eq(ages->seen[1].version, table_of(&world)->version);
    world_fini(&loaded_world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("saver_increments");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, whatever_was_done_base_and_increment_are_the_state, 0, 8);
    tcase_add_test(tests, files_do_not_pile_up);
    tcase_add_loop_test(tests, b4_b5_a_crash_at_any_step_leaves_a_state_that_there_was, 0, 15);
    tcase_add_loop_test(tests, behind_an_unclear_publication_the_next_one_is_whole, 0, 2);
    tcase_add_loop_test(tests, rows_that_go_while_a_file_is_written_are_gone_in_the_next, 0, 2);
    tcase_add_loop_test(tests, a_damaged_file_is_followed_by_a_whole_one, 0, 2);
    tcase_add_test(tests, damage_that_shows_when_all_is_loaded_leads_to_the_chain_before);
    tcase_add_test(tests, saving_survives_any_refused_allocation);
    tcase_add_test(tests, rows_of_the_base_are_as_old_as_the_increment_says);
    return run_tests("saver_increments", tests);
}
