/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/contribute_rows.c: a table that is trained in rounds, through the service, the
 * journal and checkpoints. */
#include "server/core/requests/contribute_rows.h"

#include "core_disk.h"
#include "core_table.h"
#include "server/core/requests/service_state.h"
#include "server/core/rounds/contributions.h"
#include "server/core/tables/row_sweep.h"

#include <math.h>
#include <string.h>

static struct core_world world;
static struct core_world after;
static struct memory_files *disk;
static struct ps_journal_writer *writer, *writer_after;
static struct ps_recovered loaded;

static const struct ps_round_settings two = {.workers = 2, .combine = PS_COMBINE_SUM};

/* A job has a parameter besides. */
static void finish(struct core_world *to)
{
    static const float zero = 0;
    ck_assert_int_eq(world_init_param(to, "w", PS_F32, &zero, sizeof zero, config_of("sgd", 1)),
                     PS_OK);
    ck_assert_int_eq(world_finish(to), PS_OK);
}

static void begin_with(struct ps_table_settings table, const struct ps_round_settings *rounds,
                       uint64_t bytes_max)
{
    world_init(&world, false, bytes_max);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
    finish(&world);
    ck_assert_int_eq(table_define(&world, table_config_of_rounds("sgd", table, rounds), 1), PS_OK);
}

static void begin(const struct ps_round_settings *rounds)
{
    begin_with((struct ps_table_settings){0}, rounds, UINT64_MAX);
}

static enum ps_status bring(uint32_t rank, uint64_t first, size_t count, float value,
                            uint64_t sequence)
{
    return table_contribute(&world, rank, sequence, first, count, value, sequence);
}

START_TEST(rows_are_stepped_once_by_the_sum_of_what_the_workers_brought)
{
    begin(&two);

    ck_assert_int_eq(bring(1, 2, 3, -1, 1), PS_OK);
    ck_assert(world.reply.held);
    ck_assert_uint_eq(world.reply.version, 1);
    ck_assert_float_eq(table_value(&world, 2), 0);
    ps_service_check(world.service);
    ck_assert_int_eq(bring(0, 1, 2, -2, 1), PS_OK);

    ck_assert(!world.reply.held);
    ck_assert_float_eq(table_value(&world, 1), 2);
    ck_assert_float_eq(table_value(&world, 2), 3);
    ck_assert_float_eq(table_value(&world, 4), 1);
    ck_assert_uint_eq(table_of(&world)->version, 1);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(the_bits_are_those_of_ranks_whoever_comes_first)
{
    static const float values[3] = {1e8F, 1, -1e8F};
    static const struct ps_round_settings three = {.workers = 3, .combine = PS_COMBINE_SUM};
    static const uint32_t orders[2][3] = {{0, 1, 2}, {2, 0, 1}};
    for (size_t i = 0; i < 2; i++) {
        begin(&three);
        for (size_t k = 0; k < 3; k++)
            ck_assert_int_eq(bring(orders[i][k], 5, 1, values[orders[i][k]], 1), PS_OK);
        ck_assert_float_eq(table_value(&world, 5), 0);
        world_fini(&world);
    }
}
END_TEST

START_TEST(a_worker_without_rows_contributes_all_the_same)
{
    static const struct ps_round_settings average = {.workers = 2};
    begin(&average);
    ck_assert_int_eq(bring(0, 0, 0, 0, 1), PS_OK);
    ck_assert(world.reply.held);
    ck_assert_int_eq(bring(1, 7, 1, -1, 1), PS_OK);
    ck_assert_float_eq(table_value(&world, 7), 0.5F);
    /* A round of nothing is a version. */
    ck_assert_int_eq(bring(0, 0, 0, 0, 2), PS_OK);
    ck_assert_int_eq(bring(1, 0, 0, 0, 2), PS_OK);
    ck_assert_uint_eq(table_of(&world)->version, 2);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(p2_a_repeat_counts_once_and_a_late_one_nowhere)
{
    begin(&two);
    ck_assert_int_eq(bring(0, 1, 1, -1, 1), PS_OK);
    ck_assert_int_eq(bring(0, 1, 1, -1, 1), PS_OK);
    ck_assert(world.reply.duplicate && world.reply.held);
    ck_assert_int_eq(bring(1, 1, 1, -1, 1), PS_OK);
    ck_assert_float_eq(table_value(&world, 1), 2);
    ck_assert_int_eq(table_contribute(&world, 0, 1, 1, 1, -8, 2), PS_OK);
    ck_assert(world.reply.late && world.reply.position == 0);
    ck_assert_float_eq(table_value(&world, 1), 2);
    world_fini(&world);
}
END_TEST

START_TEST(what_a_push_would_be_refused_for_a_contribution_is_refused_for)
{
    begin(&two);
    ck_assert_int_eq(bring(0, 1, 1, NAN, 1), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(table_push(&world, 1, 1, 1, 7), PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(ps_parameter_held_bytes(table_of(&world)), 0);
    ck_assert_int_eq(bring(0, 1, 1, 1, 1), PS_OK);
    ck_assert_uint_eq(ps_parameter_held_bytes(table_of(&world)), TABLE_ROW_BYTES);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(a_sum_that_is_not_finite_is_a_version_without_a_step)
{
    begin(&two);
    ck_assert_int_eq(bring(0, 1, 1, 3e38F, 1), PS_OK);
    ck_assert_int_eq(bring(1, 1, 1, 3e38F, 1), PS_OK);
    ck_assert_uint_eq(table_of(&world)->version, 1);
    ck_assert_uint_eq(table_of(&world)->step, 0);
    ck_assert_float_eq(table_value(&world, 1), 0);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(the_row_limit_is_asked_when_rows_come_and_never_when_a_round_ends)
{
    begin_with((struct ps_table_settings){.rows_max = 5}, &two, UINT64_MAX);

    ck_assert_int_eq(bring(0, 1, 6, -1, 1), PS_ERR_TABLE_FULL);
    ck_assert_int_eq(bring(0, 1, 4, -1, 1), PS_OK);
    ck_assert_int_eq(bring(1, 3, 4, -1, 1), PS_ERR_TABLE_FULL);
    /* Eight keys, five different ones. */
    ck_assert_int_eq(bring(1, 2, 4, -1, 1), PS_OK);

    ck_assert_uint_eq(ps_row_table_rows(table_of(&world)->rows), 5);
    /* A row that expires while the next round is open comes again with it. */
    ck_assert_int_eq(bring(0, 1, 5, -1, 2), PS_OK);
    struct ps_parameter *table = table_of(&world);
    ps_mutex_lock(&table->lock);
    ck_assert_uint_eq(ps_parameter_rows_sweep(table, table->version + 1), 5);
    ps_mutex_unlock(&table->lock);
    ck_assert_int_eq(bring(1, 1, 5, -1, 2), PS_OK);
    ck_assert_uint_eq(ps_row_table_rows(table->rows), 5);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

/* The others wait for it, and it makes no row. */
START_TEST(a_worker_without_rows_is_never_refused_for_a_limit)
{
    begin_with((struct ps_table_settings){.rows_max = 4}, &two, UINT64_MAX);
    ck_assert_int_eq(bring(0, 1, 3, -1, 1), PS_OK);
    ck_assert_int_eq(bring(1, 0, 0, 0, 1), PS_OK);
    ck_assert_int_eq(bring(0, 1, 3, -1, 2), PS_OK);
    ck_assert_int_eq(bring(1, 0, 0, 0, 2), PS_OK);
    ck_assert_float_eq(table_value(&world, 3), 2);
    ps_service_check(world.service);
    world_fini(&world);

    /* Memory has no room for anything. */
    begin_with((struct ps_table_settings){0}, &two, 400000);
    ck_assert_int_eq(bring(0, 1, 3, -1, 1), PS_OK);
    world.service->row_room.bytes_max = 1;
    ck_assert_int_eq(bring(1, 0, 0, 0, 1), PS_OK);
    ck_assert_float_eq(table_value(&world, 3), 1);
    world_fini(&world);
}
END_TEST

START_TEST(what_waits_and_what_it_will_make_count_for_the_limit_of_memory)
{
    enum { BIG = 512, WORKERS = 64 };
    static const struct ps_round_settings many = {.workers = WORKERS, .combine = PS_COMBINE_SUM};
    begin_with((struct ps_table_settings){0}, &many, 400000);
    uint64_t empty = atomic_load(&world.service->row_room.bytes);
    uint32_t held = 0;
    enum ps_status status = PS_OK;
    while (held < WORKERS && status == PS_OK) {
        status = bring(held, 1000 * (uint64_t)held, BIG, -1, 1);
        held += status == PS_OK ? 1 : 0;
    }

    ck_assert_int_eq(status, PS_ERR_NO_MEMORY);
    ck_assert_uint_gt(held, 2);
    ck_assert_uint_lt(held, WORKERS);
    ck_assert_uint_ge(atomic_load(&world.service->row_room.bytes) - empty,
                      held * (uint64_t)BIG * (TABLE_ROW_BYTES + 24));
    /* Nothing of the one that was refused is counted. */
    uint64_t before = atomic_load(&world.service->row_room.bytes);
    ck_assert_int_eq(bring(held, 1000 * (uint64_t)held, BIG, -1, 1), PS_ERR_NO_MEMORY);
    ck_assert_uint_eq(atomic_load(&world.service->row_room.bytes), before);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

/* ---- Through the disk ---- */

static void begin_disk(const struct ps_round_settings *rounds)
{
    disk = memory_files_create(1);
    writer_after = NULL;
    disk_journal_world_init(&world, 1);
    ck_assert_int_eq(disk_recover(&world, disk, 1, &writer, &loaded), PS_OK);
    disk_journal_world_init(&after, 2);
    finish(&world);
    disk_save(&world, disk, NULL);
    const struct ps_bytes config =
        table_config_of_rounds("row_wise", (struct ps_table_settings){0}, rounds);
    ck_assert_int_eq(table_define(&world, config, 1), PS_OK);
}

static void end_disk(void)
{
    ps_journal_writer_close(writer);
    ps_journal_writer_close(writer_after);
    world_fini(&world);
    world_fini(&after);
    memory_files_destroy(disk);
}

static void crash_and_recover(void)
{
    ck_assert_int_eq(disk_write_journal(&world, writer, 3), PS_OK);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    ck_assert_int_eq(disk_recover(&after, disk, 2, &writer_after, &loaded), PS_OK);
    ps_service_check(after.service);
    const struct ps_parameter *was = table_of(&world), *is = table_of(&after);
    ck_assert_uint_eq(is->version, was->version);
    ck_assert_uint_eq(ps_row_table_digest(is->rows), ps_row_table_digest(was->rows));
    ck_assert_uint_eq(ps_parameter_held_bytes(is), ps_parameter_held_bytes(was));
    for (uint32_t i = 0; i < was->rounds->round.workers; i++) {
        const struct ps_contribution *a = &was->rounds->held[i], *b = &is->rounds->held[i];
        ck_assert(ps_contribution_is_held(a) == ps_contribution_is_held(b));
        ck_assert_float_eq(a->weight, b->weight);
        ck_assert(a->rows == NULL || ps_bytes_equal(a->rows->content, b->rows->content));
    }
}

static const struct ps_round_settings graceful = {
    .workers = 3, .grace_ms = 100, .combine = PS_COMBINE_SUM};

/* Rounds that ended, one of them without a worker, and one that is open. */
static void train(void)
{
    ck_assert_int_eq(bring(0, 1, 9, 0.1F, 1), PS_OK);
    ck_assert_int_eq(bring(1, 5, 9, 0.7F, 1), PS_OK);
    ck_assert_int_eq(bring(2, 3, 1, -0.3F, 1), PS_OK);
    ck_assert_int_eq(bring(0, 7, 9, 0.2F, 2), PS_OK);
    ck_assert_int_eq(bring(2, 0, 0, 0, 2), PS_OK);
    world.fake.now_ms += 100;
    ck_assert_int_eq(bring(2, 1, 30, 0.9F, 3), PS_OK);
    ck_assert_uint_eq(table_of(&world)->version, 2);
}

/* The same contribution to both: the open round ends with the same bits. */
static void go_on(void)
{
    ck_assert_int_eq(table_contribute(&after, 2, 3, 1, 30, 0.9F, 3), PS_OK);
    ck_assert(after.reply.duplicate && after.reply.held);
    ck_assert_int_eq(table_contribute(&world, 0, 3, 2, 40, 0.3F, 3), PS_OK);
    ck_assert_int_eq(table_contribute(&after, 0, 3, 2, 40, 0.3F, 3), PS_OK);
    ck_assert(!after.reply.held);
    ck_assert_uint_eq(table_of(&after)->version, 3);
    ck_assert_uint_eq(ps_row_table_digest(table_of(&after)->rows),
                      ps_row_table_digest(table_of(&world)->rows));
}

START_TEST(p5_rounds_of_rows_go_on_out_of_the_journal)
{
    begin_disk(&graceful);
    train();

    crash_and_recover();

    ck_assert_uint_gt(loaded.replayed_count, 0);
    go_on();
    end_disk();
}
END_TEST

START_TEST(p5_rounds_of_rows_go_on_out_of_a_checkpoint)
{
    begin_disk(&graceful);
    train();
    ck_assert_int_eq(disk_write_journal(&world, writer, 3), PS_OK);
    disk_save(&world, disk, NULL);

    crash_and_recover();

    ck_assert_uint_eq(loaded.replayed_count, 0);
    go_on();
    end_disk();
}
END_TEST

START_TEST(the_journal_goes_on_behind_a_checkpoint_in_the_middle_of_a_round)
{
    begin_disk(&graceful);
    ck_assert_int_eq(bring(0, 1, 9, 0.1F, 1), PS_OK);
    ck_assert_int_eq(disk_write_journal(&world, writer, 3), PS_OK);
    disk_save(&world, disk, NULL);
    ck_assert_int_eq(bring(1, 5, 9, 0.7F, 1), PS_OK);
    ck_assert_int_eq(bring(2, 3, 1, -0.3F, 1), PS_OK);

    crash_and_recover();

    ck_assert_uint_eq(loaded.replayed_count, 3);
    ck_assert_uint_eq(table_of(&after)->version, 1);
    end_disk();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("contribute_rows");
    tcase_add_test(tests, rows_are_stepped_once_by_the_sum_of_what_the_workers_brought);
    tcase_add_test(tests, the_bits_are_those_of_ranks_whoever_comes_first);
    tcase_add_test(tests, a_worker_without_rows_contributes_all_the_same);
    tcase_add_test(tests, p2_a_repeat_counts_once_and_a_late_one_nowhere);
    tcase_add_test(tests, what_a_push_would_be_refused_for_a_contribution_is_refused_for);
    tcase_add_test(tests, a_sum_that_is_not_finite_is_a_version_without_a_step);
    tcase_add_test(tests, the_row_limit_is_asked_when_rows_come_and_never_when_a_round_ends);
    tcase_add_test(tests, a_worker_without_rows_is_never_refused_for_a_limit);
    tcase_add_test(tests, what_waits_and_what_it_will_make_count_for_the_limit_of_memory);
    tcase_add_test(tests, p5_rounds_of_rows_go_on_out_of_the_journal);
    tcase_add_test(tests, p5_rounds_of_rows_go_on_out_of_a_checkpoint);
    tcase_add_test(tests, the_journal_goes_on_behind_a_checkpoint_in_the_middle_of_a_round);
    return run_tests("contribute_rows", tests);
}
