/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/increments.c: what of a snapshot goes into a file that has a base, and when there
 * is none. */
#include "server/core/recovery/increments.h"

#include "base/hash.h"
#include "core_change.h"
#include "core_disk.h"
#include "core_table.h"
#include "server/core/requests/tickets.h"

#include <string.h>

static struct memory_files *disk;
static struct core_world world;
static struct ps_increments increments;
static struct ps_saver saver;
static struct ps_checkpoint_place base;
static struct ps_snapshot snapshot;

static void save_base(void)
{
    ck_assert_msg(ps_saver_save(&saver, PS_DEADLINE_NEVER, &base, &world.error) == PS_OK, "%s",
                  world.error.text);
    ck_assert_ptr_nonnull(increments.base);
    ck_assert_uint_eq(increments.count, 0);
}

/* "w" of 4 elements; "t" with rows of 512 keys, the first half pushed to longer ago. */
static void begin_test(void)
{
    disk = memory_files_create(1);
    world_init_ready(&world);
    ps_increments_init(&increments, &world.memory, 2);
    saver = disk_saver(&world, disk);
    saver.increments = &increments;
    ck_assert_int_eq(table_define(&world, table_config("adam", (struct ps_table_settings){0}), 0),
                     PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 256, 1, 0), PS_OK);
    ck_assert_int_eq(table_push(&world, 256, 256, 1, 0), PS_OK);
    save_base();
}

static void end_test(void)
{
    ps_snapshot_release(&snapshot);
    ps_increments_fini(&increments);
    world_fini(&world);
    memory_files_destroy(disk);
}

/* The snapshot of now, and what becomes of it. */
static bool prepare(void)
{
    ps_snapshot_release(&snapshot);
    ck_assert_int_eq(ps_snapshot_take_marked(world.service, &snapshot, NULL), PS_OK);
    return ps_increments_prepare(&increments, &snapshot, ps_ticket_generation(snapshot.ticket),
                                 true, saver.files);
}

static const struct ps_checkpoint_parameter *row(const char *name)
{
    for (size_t i = 0; i < snapshot.parameter_count; i++)
        if (ps_bytes_equal(snapshot.parameters[i].name, text(name)))
            return &snapshot.parameters[i];
    ck_abort_msg("no %s", name);
    return NULL;
}

static void sweep(uint64_t before)
{
    struct ps_parameter *table = table_of(&world);
    ps_mutex_lock(&table->lock);
    ck_assert_uint_gt(ps_parameter_rows_sweep(table, before), 0);
    ps_mutex_unlock(&table->lock);
}

/* "t" goes into the file with the rows of keys from `first` on, and these went. */
static void expect_rows(uint64_t first, uint64_t rows, uint64_t first_removed, uint64_t removed)
{
    const struct ps_checkpoint_parameter *table = row("t");
    uint64_t keys[512];
    ck_assert_int_eq(table->carry, PS_CARRY_ROWS);
    ck_assert_uint_eq(table->rows, rows);
    ck_assert_uint_eq(table->count, rows * TABLE_WIDTH);
    ck_assert_int_eq(table->source.read(table->source.self, 3, 0, keys, rows * 8, NULL), PS_OK);
    for (uint64_t i = 0; i < rows; i++)
        ck_assert(keys[i] >= first && keys[i] < first + rows);
    ck_assert_uint_eq(table->removed.size, removed * 8);
    ps_view_copy(table->removed, 0, keys, removed * 8);
    for (uint64_t i = 0; i < removed; i++)
        ck_assert_uint_eq(keys[i], first_removed + i);
}

START_TEST(what_has_not_changed_is_left_to_the_base)
{
    ck_assert(prepare());

    ck_assert_str_eq(snapshot.facts.base, base.uuid);
    ck_assert_int_eq(row("w")->carry, PS_CARRY_AS_BASE);
    ck_assert_uint_eq(row("w")->values.size, 0);
    ck_assert_int_eq(row("t")->carry, PS_CARRY_AS_BASE);
    ck_assert_uint_eq(row("t")->rows, 512);
    ck_assert(row("t")->source.read == NULL);
}
END_TEST

START_TEST(a_parameter_that_was_pushed_to_goes_whole)
{
    static const float ones[4] = {1, 1, 1, 1};
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    ck_assert(prepare());

    ck_assert_int_eq(row("w")->carry, PS_CARRY_WHOLE);
    ck_assert_uint_eq(row("w")->values.size, sizeof ones);
    ck_assert_int_eq(row("t")->carry, PS_CARRY_AS_BASE);
}
END_TEST

START_TEST(of_a_table_go_rows_that_were_pushed_to_and_rows_that_are_new)
{
    ck_assert_int_eq(table_push(&world, 462, 100, 1, 0), PS_OK);

    ck_assert(prepare());

    expect_rows(462, 100, 0, 0);
    ck_assert_int_eq(row("w")->carry, PS_CARRY_AS_BASE);
}
END_TEST

START_TEST(rows_that_went_are_named_also_without_a_push)
{
    sweep(2);

    ck_assert(prepare());

    expect_rows(0, 0, 0, 256);
}
END_TEST

START_TEST(a_row_that_went_and_came_back_is_named_and_goes)
{
    sweep(2);
    ck_assert_int_eq(table_push(&world, 10, 5, 1, 0), PS_OK);

    ck_assert(prepare());

    expect_rows(10, 5, 0, 256);
}
END_TEST

/* Each adds to the base, and not to the one before. */
START_TEST(the_second_increment_has_what_the_first_had)
{
    ck_assert_int_eq(table_push(&world, 0, 10, 1, 0), PS_OK);
    ck_assert(prepare());
    expect_rows(0, 10, 0, 0);
    ps_increments_written(&increments, &base);
    ps_increments_published(&increments, true);
    ck_assert_int_eq(table_push(&world, 10, 10, 1, 0), PS_OK);

    ck_assert(prepare());

    expect_rows(0, 20, 0, 0);
}
END_TEST

START_TEST(after_so_many_increments_comes_a_whole_one)
{
    for (int i = 0; i < 2; i++) {
        ck_assert(prepare());
        ps_increments_written(&increments, &base);
        ps_increments_published(&increments, true);
    }

    ck_assert(!prepare());

    ck_assert_ptr_null(snapshot.facts.base);
    ck_assert_ptr_null(increments.base);
    ps_increments_written(&increments, &base);
    ps_increments_published(&increments, true);
    ck_assert(prepare());
}
END_TEST

START_TEST(one_that_would_have_more_than_half_is_whole)
{
    ck_assert_int_eq(table_push(&world, 0, 260, 1, 0), PS_OK);

    ck_assert(!prepare());

    ck_assert_int_eq(row("t")->carry, PS_CARRY_WHOLE);
    ck_assert_uint_eq(row("t")->rows, 512);
}
END_TEST

START_TEST(a_name_that_was_defined_again_goes_whole)
{
    static const float four[] = {1, 2, 3, 4};
    ck_assert_int_eq(change_drop(&world, "w", 0), PS_OK);
    ck_assert_int_eq(change_define(&world, "w", four, 4, config_of("sgd", 1), 0), PS_OK);

    ck_assert(prepare());

    ck_assert_int_eq(row("w")->carry, PS_CARRY_WHOLE);
}
END_TEST

/* Of a hundred models of ten thousand parameters one has two of one hash. One of these is pushed
 * to until it has the version that the base has of the other. */
START_TEST(names_of_one_hash_are_two_parameters)
{
    static const char *const names[] = {"ctx/bias2924", "geo/cat899", "more"};
    static const float ones[4] = {1, 1, 1, 1};
    const char *pushed = names[_i];
    const char *other = names[1 - _i];
    ck_assert_uint_eq(ps_hash_fnv1a32(text(pushed)), ps_hash_fnv1a32(text(other)));
    end_test();
    disk = memory_files_create(1);
    world_init_empty(&world);
    ps_increments_init(&increments, &world.memory, 2);
    saver = disk_saver(&world, disk);
    saver.increments = &increments;
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(
            world_init_param(&world, names[i], PS_F32, ones, sizeof ones, config_of("sgd", 1)),
            PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    ck_assert_int_eq(world_push(&world, other, PS_F32, ones, sizeof ones, NULL), PS_OK);
    save_base();
    ck_assert_int_eq(world_push(&world, pushed, PS_F32, ones, sizeof ones, NULL), PS_OK);

    ck_assert(prepare());

    ck_assert_int_eq(row(pushed)->carry, PS_CARRY_WHOLE);
    ck_assert_int_eq(row(other)->carry, PS_CARRY_AS_BASE);
}
END_TEST

START_TEST(a_table_that_was_defined_again_goes_whole)
{
    ck_assert_int_eq(change_drop(&world, "t", 0), PS_OK);
    ck_assert_int_eq(table_define(&world, table_config("adam", (struct ps_table_settings){0}), 0),
                     PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 20, 1, 0), PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 20, 1, 0), PS_OK);

    ck_assert(!prepare());

    ck_assert_int_eq(row("t")->carry, PS_CARRY_WHOLE);
    ck_assert_uint_eq(row("t")->rows, 20);
}
END_TEST

START_TEST(another_configuration_carries_no_values)
{
    ck_assert_int_eq(change_configure(&world, "w", 0.5, 0), PS_OK);

    ck_assert(prepare());

    ck_assert_int_eq(row("w")->carry, PS_CARRY_AS_BASE);
}
END_TEST

START_TEST(a_parameter_that_was_dropped_is_not_in_it)
{
    ck_assert_int_eq(change_drop(&world, "w", 0), PS_OK);

    ck_assert(prepare());

    ck_assert_uint_eq(snapshot.parameter_count, 1);
}
END_TEST

/* 0: not written; 1: not published; 2: its publication is unclear, which is the same. */
START_TEST(a_step_that_came_to_nothing_makes_the_next_one_whole)
{
    ck_assert(prepare());
    ps_increments_written(&increments, _i == 0 ? NULL : &base);
    if (_i > 0)
        ps_increments_published(&increments, false);

    ck_assert(!prepare());

    /* So it is with a whole one: it is no base then. */
    ps_increments_written(&increments, _i == 0 ? NULL : &base);
    if (_i > 0)
        ps_increments_published(&increments, false);
    ck_assert(!prepare());
}
END_TEST

START_TEST(a_base_whose_file_is_gone_is_none)
{
    ck_assert_int_eq(saver.files->remove(saver.files->self, base.path, NULL), PS_OK);

    ck_assert(!prepare());
}
END_TEST

START_TEST(a_base_of_another_life_of_the_shard_is_none)
{
    ck_assert_int_eq(ps_snapshot_take_marked(world.service, &snapshot, NULL), PS_OK);
    uint64_t generation = ps_ticket_generation(snapshot.ticket);

    ck_assert(!ps_increments_prepare(&increments, &snapshot, generation + 1, true, saver.files));
}
END_TEST

START_TEST(a_set_is_whole_and_may_be_a_base)
{
    ck_assert_int_eq(ps_snapshot_take_marked(world.service, &snapshot, NULL), PS_OK);
    uint64_t generation = ps_ticket_generation(snapshot.ticket);
    ck_assert(!ps_increments_prepare(&increments, &snapshot, generation, false, saver.files));
    ps_increments_written(&increments, &base);
    ps_increments_published(&increments, true);

    ck_assert(prepare());
}
END_TEST

START_TEST(without_increments_nothing_is_remembered)
{
    ps_increments_fini(&increments);
    ps_increments_init(&increments, &world.memory, 0);

    ck_assert(!prepare());

    ck_assert_ptr_null(increments.candidate);
}
END_TEST

/* Either is right: all of a whole one, or all of an increment. */
START_TEST(without_memory_it_is_whole)
{
    bool refused = true;
    for (int64_t refuse = 0; refused; refuse++) {
        ck_assert_int_lt(refuse, 20);
        save_base();
        ck_assert_int_eq(table_push(&world, 0, 10, 1, 0), PS_OK);
        ps_snapshot_release(&snapshot);
        ck_assert_int_eq(ps_snapshot_take_marked(world.service, &snapshot, NULL), PS_OK);
        world.heap.refuse_at = world.heap.seen + refuse;
        bool is_increment = ps_increments_prepare(
            &increments, &snapshot, ps_ticket_generation(snapshot.ticket), true, saver.files);
        refused = world.heap.seen > world.heap.refuse_at;
        world.heap.refuse_at = -1;

        ck_assert(refused || is_increment);
        ck_assert_uint_eq(row("t")->rows, is_increment ? 10 : 512);
        ck_assert_int_eq(row("w")->carry, is_increment ? PS_CARRY_AS_BASE : PS_CARRY_WHOLE);
        /* The next base is whole again. */
        ps_increments_written(&increments, NULL);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("increments");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, what_has_not_changed_is_left_to_the_base);
    tcase_add_test(tests, a_parameter_that_was_pushed_to_goes_whole);
    tcase_add_test(tests, of_a_table_go_rows_that_were_pushed_to_and_rows_that_are_new);
    tcase_add_test(tests, rows_that_went_are_named_also_without_a_push);
    tcase_add_test(tests, a_row_that_went_and_came_back_is_named_and_goes);
    tcase_add_test(tests, the_second_increment_has_what_the_first_had);
    tcase_add_test(tests, after_so_many_increments_comes_a_whole_one);
    tcase_add_test(tests, one_that_would_have_more_than_half_is_whole);
    tcase_add_test(tests, a_name_that_was_defined_again_goes_whole);
    tcase_add_loop_test(tests, names_of_one_hash_are_two_parameters, 0, 2);
    tcase_add_test(tests, a_table_that_was_defined_again_goes_whole);
    tcase_add_test(tests, another_configuration_carries_no_values);
    tcase_add_test(tests, a_parameter_that_was_dropped_is_not_in_it);
    tcase_add_loop_test(tests, a_step_that_came_to_nothing_makes_the_next_one_whole, 0, 2);
    tcase_add_test(tests, a_base_whose_file_is_gone_is_none);
    tcase_add_test(tests, a_base_of_another_life_of_the_shard_is_none);
    tcase_add_test(tests, a_set_is_whole_and_may_be_a_base);
    tcase_add_test(tests, without_increments_nothing_is_remembered);
    tcase_add_test(tests, without_memory_it_is_whole);
    return run_tests("increments", tests);
}
