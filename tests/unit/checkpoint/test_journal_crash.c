/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal*: after any crash, everything that was called durable is there. */
#include "run_suite.h"
#include "sample_journal.h"
#include "tests/support/fault_files.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 4
#define SEGMENT_BYTES 12288
#define LIFE 30 /* records that a life writes */

static const struct sample_shape any = {.epoch = 0, .content_bytes_max = 150};
static struct ps_journal_setup setup = {.segment_bytes = SEGMENT_BYTES, .buffer_bytes = 4096};

/* Writes up to LIFE records of one epoch in batches of `batch`, behind what can be read. Returns
 * the last one that was durable; 0 when not even opening worked. `*whole`: nothing failed. */
static uint64_t live(const struct ps_files *files, uint64_t epoch, struct sample_result before,
                     size_t batch, bool *whole)
{
    struct sample_shape shape = any;
    shape.epoch = epoch;
    uint64_t position = before.last;
    struct ps_journal_facts facts = {.index = 2,
                                     .shard_count = 5,
                                     .epoch = epoch,
                                     .position = before.durable,
                                     .previous_epoch = before.epoch,
                                     .repeat_to = position};
    struct ps_journal_writer *writer = NULL;
    *whole = false;
    if (ps_journal_writer_open(files, SAMPLE_FOLDER, &facts, &setup, ps_allocator_heap(), &writer,
                               NULL) != PS_OK)
        return 0;
    *whole = sample_append(writer, &shape, position + 1, position + LIFE, batch) == PS_OK;
    position = ps_journal_writer_position(writer);
    ps_journal_writer_close(writer);
    return position;
}

/* Three lives, each ended by a crash at call number `power` of its own, each going on from what
 * reading found. True when no life failed any more. */
static bool three_lives(uint64_t seed, int64_t power, enum memory_crash mode)
{
    struct memory_files *disk = memory_files_create(seed * 100000 + (uint64_t)power);
    memory_files_knobs(disk)->spoils = true;
    const struct ps_files *files = memory_files_files(disk);
    struct sample_result before = {0};
    uint64_t durable = 0;
    bool all_whole = true;
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        bool whole = false;
        memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen + power;
        uint64_t lived = live(files, epoch, before, 1 + (size_t)(seed + epoch) % 7, &whole);
        durable = lived > durable ? lived : durable;
        memory_files_knobs(disk)->fail_from = -1;
        memory_files_crash(disk, mode);
        struct sample_result result = sample_read_on(files, &any, 0, ps_allocator_heap());
        ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "seed %u, power %u, mode %d: %s",
                      (unsigned)seed, (unsigned)power, (int)mode, result.error.text);
        ck_assert_msg(result.last >= durable, "seed %u, power %u, mode %d: %u of %u",
                      (unsigned)seed, (unsigned)power, (int)mode, (unsigned)result.last,
                      (unsigned)durable);
        ck_assert_uint_le(result.last, before.last + LIFE);
        before = result;
        all_whole = all_whole && whole;
    }
    memory_files_destroy(disk);
    return all_whole;
}

/* With blocks made ready ahead, and without. */
static void sweep_power(enum memory_crash mode, bool ahead)
{
    setup.ahead = ahead;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int64_t power = 0;
        while (!three_lives(seed, power, mode))
            power++;
        ck_assert_int_gt(power, 25);
    }
    setup.ahead = false;
}

START_TEST(a_crash_at_any_call_keeps_what_was_durable)
{
    sweep_power(MEMORY_CRASH_SEEDED, _i == 1);
}
END_TEST

START_TEST(the_worst_crash_at_any_call_keeps_what_was_durable)
{
    sweep_power(MEMORY_CRASH_LOSES_ALL, _i == 1);
}
END_TEST

START_TEST(a_killed_process_at_any_call_keeps_what_was_durable)
{
    sweep_power(MEMORY_CRASH_KEEPS_ALL, _i == 1);
}
END_TEST

/* One call fails, half of a failed write is there, everything works again: too late. */
START_TEST(any_single_failure_ends_the_writer_and_loses_nothing_durable)
{
    bool fired = true;
    int64_t fail_at = 0;
    for (; fired; fail_at++) {
        struct memory_files *disk = memory_files_create((uint64_t)fail_at);
        struct fault_files fault = {.under = memory_files_files(disk),
                                    .calls = FAULT_ANY & ~(uint32_t)FAULT_REMOVE,
                                    .fail_at = fail_at,
                                    .tears = true};
        struct ps_files files = fault_files_files(&fault);
        bool whole = false;

        uint64_t durable = live(&files, 1, (struct sample_result){0}, 3, &whole);

        fired = fault.fired;
        ck_assert(whole == !fired);
        ck_assert_int_eq(fault.open, 0);
        struct sample_result result =
            sample_read_on(memory_files_files(disk), &any, 0, ps_allocator_heap());
        ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "call %u: %s", (unsigned)fail_at,
                      result.error.text);
        ck_assert_uint_ge(result.last, durable);
        memory_files_destroy(disk);
    }
    ck_assert_int_gt(fail_at, 20);
}
END_TEST

/* Makes a durable journal of one batch of `last` records and cuts it to a half, whose rest it then
 * writes on to the whole again without a sync: as a process does that is killed in between. */
static void write_without_sync(struct memory_files *disk, uint64_t last)
{
    const struct ps_files *files = memory_files_files(disk);
    struct sample_shape shape = any;
    struct ps_bytes content;
    struct ps_file file;
    char path[128];
    shape.epoch = 1;
    sample_journal(files, &shape, 1, last, (size_t)last, PS_JOURNAL_SEGMENT_BYTES);
    ck_assert(memory_files_get(disk, sample_segment(1, 1, path), &content));
    uint8_t *copy = malloc(content.size);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, content.data, content.size);
    size_t half = content.size / 2;
    memory_files_put(disk, path, (struct ps_bytes){copy, half});
    struct ps_bytes rest = {copy + half, content.size > half ? content.size - half : 0};
    ck_assert_int_eq(files->open(files->self, path, PS_FILE_APPEND, &file, NULL), PS_OK);
    ck_assert_int_eq(files->write(files->self, file, rest, NULL), PS_OK);
    files->close(files->self, file);
    free(copy);
}

START_TEST(what_a_new_epoch_builds_on_becomes_durable_with_it)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    bool whole = false;
    write_without_sync(disk, 10);
    struct sample_result before = sample_read_on(files, &any, 0, ps_allocator_heap());
    ck_assert_uint_eq(before.last, 10);
    ck_assert_uint_eq(live(files, 2, before, 1, &whole), 10 + LIFE);

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    struct sample_result result = sample_read_on(files, &any, 0, ps_allocator_heap());
    ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "%s", result.error.text);
    ck_assert_uint_eq(result.last, 10 + LIFE);
    memory_files_destroy(disk);
}
END_TEST

/* The writer whose sync failed ends, and nobody but it knew: the next sync of the file is told that
 * all is well. */
START_TEST(what_a_failed_sync_left_is_written_again_by_the_next_epoch)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    struct sample_shape shape = any;
    bool whole = false;
    shape.epoch = 1;
    struct ps_journal_writer *writer = sample_writer(files, 1, 0, SEGMENT_BYTES);
    ck_assert_int_eq(sample_append(writer, &shape, 1, 3, 1), PS_OK);
    memory_files_knobs(disk)->fail_mask = 1u << MEMORY_SYNC;
    memory_files_knobs(disk)->fail_at = memory_files_knobs(disk)->seen;
    ck_assert_int_eq(sample_append(writer, &shape, 4, 6, 3), PS_ERR_IO);
    ps_journal_writer_close(writer);
    struct sample_result before = sample_read_on(files, &any, 0, ps_allocator_heap());
    ck_assert_uint_eq(before.last, 6);
    ck_assert_uint_eq(before.durable, 3);

    ck_assert_uint_eq(live(files, 2, before, 1, &whole), 6 + LIFE);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    struct sample_result result = sample_read_on(files, &any, 0, ps_allocator_heap());
    ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "%s", result.error.text);
    ck_assert_uint_eq(result.last, 6 + LIFE);
    memory_files_destroy(disk);
}
END_TEST

/* Any call of the next epoch's beginning fails: the former records are there all the same, and the
 * same beginning works another time. */
START_TEST(an_epoch_that_repeats_begins_whole_or_not_at_all)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    const struct ps_journal_facts facts = {
        .index = 2, .shard_count = 5, .epoch = 2, .previous_epoch = 1, .repeat_to = 10};
    bool fired = true;
    int64_t fail_at = 0;
    write_without_sync(disk, 10);
    for (; fired; fail_at++) {
        struct fault_files fault = {.under = files,
                                    .calls = FAULT_ANY & ~(uint32_t)FAULT_REMOVE,
                                    .fail_at = fail_at,
                                    .tears = true};
        struct ps_files faulty = fault_files_files(&fault);
        struct ps_journal_writer *writer = NULL;

        enum ps_status status = ps_journal_writer_open(&faulty, SAMPLE_FOLDER, &facts, &setup,
                                                       ps_allocator_heap(), &writer, NULL);

        fired = fault.fired;
        ck_assert_int_eq(status, fired ? PS_ERR_IO : PS_OK);
        ck_assert_int_eq(fault.open, fired ? 0 : 1);
        ck_assert_uint_eq(memory_files_file_count(disk), fired ? 1 : 2);
        ck_assert_uint_eq(sample_read_on(files, &any, 0, ps_allocator_heap()).last, 10);
        ps_journal_writer_close(writer);
    }
    ck_assert_int_gt(fail_at, 8);
    memory_files_destroy(disk);
}
END_TEST

/* The power goes at any call of it. Until the new segment is there under its name, the old one
 * counts; and what was durable never goes. */
START_TEST(a_power_loss_while_an_epoch_repeats_loses_nothing_durable)
{
    struct sample_shape shape = any;
    enum ps_status status = PS_ERR_IO;
    shape.epoch = 1;
    for (int64_t power = 0; status != PS_OK; power++) {
        struct memory_files *disk = memory_files_create((uint64_t)power);
        const struct ps_files *files = memory_files_files(disk);
        struct ps_journal_writer *writer = sample_writer(files, 1, 0, SEGMENT_BYTES);
        ck_assert_int_eq(sample_append(writer, &shape, 1, 9, 3), PS_OK);
        ps_journal_writer_close(writer);
        const struct ps_journal_facts facts = {.index = 2,
                                               .shard_count = 5,
                                               .epoch = 2,
                                               .position = 6,
                                               .previous_epoch = 1,
                                               .repeat_to = 9};
        memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen + power;

        writer = NULL;
        status = ps_journal_writer_open(files, SAMPLE_FOLDER, &facts, &setup, ps_allocator_heap(),
                                        &writer, NULL);
        ps_journal_writer_close(writer);
        memory_files_knobs(disk)->fail_from = -1;
        memory_files_crash(disk, MEMORY_CRASH_SEEDED);

        struct sample_result result = sample_read_on(files, &any, 0, ps_allocator_heap());
        ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "power %u: %s", (unsigned)power,
                      result.error.text);
        ck_assert_uint_eq(result.last, 9);
        memory_files_destroy(disk);
    }
}
END_TEST

START_TEST(an_epoch_does_not_begin_without_what_it_repeats)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    struct ps_journal_writer *writer = NULL;
    struct ps_error error = {0};
    write_without_sync(disk, 10);
    const struct ps_journal_facts facts = {
        .index = 2, .shard_count = 5, .epoch = 2, .position = 8, .repeat_to = 11};

    ck_assert_int_eq(ps_journal_writer_open(files, SAMPLE_FOLDER, &facts, &setup,
                                            ps_allocator_heap(), &writer, &error),
                     PS_ERR_CORRUPT);

    ck_assert_str_eq(error.text, "journal: position 11 was there and is not any more");
    ck_assert_uint_eq(memory_files_file_count(disk), 1);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
}
END_TEST

START_TEST(an_epoch_that_repeats_is_not_begun_twice)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    struct ps_journal_writer *writer = NULL;
    write_without_sync(disk, 10);
    const struct ps_journal_facts facts = {
        .index = 2, .shard_count = 5, .epoch = 2, .position = 8, .repeat_to = 10};
    ck_assert_int_eq(ps_journal_writer_open(files, SAMPLE_FOLDER, &facts, &setup,
                                            ps_allocator_heap(), &writer, NULL),
                     PS_OK);
    ck_assert_uint_eq(ps_journal_writer_position(writer), 10);
    ps_journal_writer_close(writer);

    ck_assert_int_eq(ps_journal_writer_open(files, SAMPLE_FOLDER, &facts, &setup,
                                            ps_allocator_heap(), &writer, NULL),
                     PS_ERR_EXISTS);

    ck_assert_uint_eq(memory_files_file_count(disk), 2);
    memory_files_destroy(disk);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_crash");
    TCase *tests = tcase_create("journal_crash");
    tcase_add_loop_test(tests, a_crash_at_any_call_keeps_what_was_durable, 0, 2);
    tcase_add_loop_test(tests, the_worst_crash_at_any_call_keeps_what_was_durable, 0, 2);
    tcase_add_loop_test(tests, a_killed_process_at_any_call_keeps_what_was_durable, 0, 2);
    tcase_add_test(tests, any_single_failure_ends_the_writer_and_loses_nothing_durable);
    tcase_add_test(tests, what_a_new_epoch_builds_on_becomes_durable_with_it);
    tcase_add_test(tests, what_a_failed_sync_left_is_written_again_by_the_next_epoch);
    tcase_add_test(tests, an_epoch_that_repeats_begins_whole_or_not_at_all);
    tcase_add_test(tests, a_power_loss_while_an_epoch_repeats_loses_nothing_durable);
    tcase_add_test(tests, an_epoch_does_not_begin_without_what_it_repeats);
    tcase_add_test(tests, an_epoch_that_repeats_is_not_begun_twice);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
