/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/checkpoint_spare.c: checkpoints that are written over, by whom, and what a crash
 * leaves. */
#include "checkpoint/catalog.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/checkpoint_spare.h"
#include "run_suite.h"
#include "sample_checkpoint.h"
#include "tests/support/fault_files.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define EPOCH 9
#define SEEDS 10

static struct memory_files *disk;
static const struct ps_files *files;
static struct sample sample;
static struct ps_checkpoint_place place;

static void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    sample_init(&sample, 7, 40, 4);
    sample.facts.epoch = EPOCH;
}

static void tear_down(void)
{
    sample_fini(&sample);
    memory_files_destroy(disk);
}

/* The uuid is made of the position. Only the first `count` parameters are in it. */
static enum ps_status write_some(const struct ps_files *to, uint64_t position, size_t count)
{
    const struct ps_checkpoint_setup setup = {.over_spare = true};
    sample.facts.position = position;
    (void)snprintf(sample.facts.uuid, sizeof sample.facts.uuid, "u%u", (unsigned)position);
    return ps_checkpoint_write_as(to, "ck", &sample.facts, sample.parameters, count, &setup,
                                  ps_allocator_heap(), &place, NULL);
}

static enum ps_status write_at(const struct ps_files *to, uint64_t position)
{
    return write_some(to, position, sample.count);
}

static enum ps_status sweep(const struct ps_files *in, uint64_t epoch)
{
    size_t removed = 0;
    return ps_catalog_sweep(in, "ck", 2, sample.facts.uuid, epoch, ps_allocator_heap(), &removed,
                            NULL);
}

/* Two that stay, the newest at position 3, and the spare that was the first. */
static void make_spare(void)
{
    for (uint64_t position = 1; position <= 3; position++)
        ck_assert_int_eq(write_at(files, position), PS_OK);
    ck_assert_int_eq(sweep(files, EPOCH), PS_OK);
    ck_assert_uint_eq(memory_files_file_count(disk), 3);
}

static size_t spares(void)
{
    size_t count = 0;
    for (size_t i = 0; i < memory_files_file_count(disk); i++)
        count += strstr(memory_files_path(disk, i), PS_CHECKPOINT_SPARE_SUFFIX) != NULL;
    return count;
}

/* Every file with a checkpoint's name is whole; returns how many there are. */
static size_t assert_all_whole(unsigned seed, unsigned power)
{
    struct ps_catalog catalog;
    ck_assert_int_eq(ps_catalog_init(&catalog, files, "ck", ps_allocator_heap(), NULL), PS_OK);
    for (size_t i = 0; i < catalog.count; i++) {
        char path[256] = "ck/";
        struct ps_error error = {0};
        (void)strcat(path, catalog.entries[i].name);
        ck_assert_msg(ps_checkpoint_verify(files, path, ps_allocator_heap(), &error) == PS_OK,
                      "seed %u, power %u, %s: %s", seed, power, path, error.text);
    }
    size_t count = catalog.count;
    ps_catalog_fini(&catalog);
    return count;
}

START_TEST(a_swept_checkpoint_becomes_the_next_one)
{
    struct ps_bytes over;
    struct ps_bytes fresh;
    make_spare();
    ck_assert_uint_eq(spares(), 1);

    ck_assert_int_eq(write_at(files, 4), PS_OK);

    ck_assert_uint_eq(spares(), 0);
    ck_assert_uint_eq(memory_files_file_count(disk), 3);
    sample_assert_equal(&sample, files, place.path);
    struct memory_files *other = memory_files_create(2);
    ck_assert(memory_files_get(disk, place.path, &over));
    ck_assert_int_eq(write_at(memory_files_files(other), 4), PS_OK);
    ck_assert(memory_files_get(other, place.path, &fresh));
    ck_assert_uint_eq(over.size, fresh.size);
    ck_assert_mem_eq(over.data, fresh.data, fresh.size);
    memory_files_destroy(other);
}
END_TEST

START_TEST(one_that_is_shorter_or_longer_than_the_spare_ends_where_it_ends)
{
    struct ps_bytes content;
    make_spare();
    ck_assert_int_eq(write_some(files, 4, 3), PS_OK);
    ck_assert(memory_files_get(disk, place.path, &content));
    ck_assert_uint_eq(content.size, place.bytes);
    ck_assert_uint_eq(assert_all_whole(0, 0), 3);

    ck_assert_int_eq(write_some(files, 5, 3), PS_OK);
    ck_assert_int_eq(write_some(files, 6, 3), PS_OK);
    ck_assert_int_eq(sweep(files, EPOCH), PS_OK);
    ck_assert_uint_eq(spares(), 1);
    ck_assert_int_eq(write_at(files, 7), PS_OK);
    sample_assert_equal(&sample, files, place.path);
}
END_TEST

START_TEST(a_spare_that_nobody_took_goes_with_the_next_sweep)
{
    make_spare();
    ck_assert_int_eq(sweep(files, EPOCH), PS_OK);
    ck_assert_uint_eq(spares(), 0);
    ck_assert_uint_eq(assert_all_whole(0, 0), 2);
}
END_TEST

/* A former owner may go on writing to what it has taken. */
START_TEST(spares_of_other_epochs_are_not_written_over)
{
    make_spare();
    sample.facts.epoch = EPOCH + 1;
    ck_assert_int_eq(write_at(files, 4), PS_OK);
    ck_assert_uint_eq(spares(), 1);

    sample.facts.epoch = EPOCH - 1;
    ck_assert_int_eq(write_at(files, 5), PS_OK);
    ck_assert_int_eq(sweep(files, EPOCH - 1), PS_OK);
    ck_assert_uint_eq(spares(), 1);

    ck_assert_int_eq(sweep(files, EPOCH + 1), PS_OK);
    ck_assert_uint_eq(spares(), 0);
}
END_TEST

/* A trainer has opened it, and reads on after it was swept. */
START_TEST(what_somebody_reads_is_not_written_over)
{
    struct ps_file reader;
    static uint8_t before[64 * 1024];
    static uint8_t after[64 * 1024];
    size_t size = 0;
    size_t got = 0;
    ck_assert_int_eq(write_at(files, 1), PS_OK);
    ck_assert_int_eq(files->open(files->self, place.path, PS_FILE_READ, &reader, NULL), PS_OK);
    ck_assert_int_eq(files->read(files->self, reader, 0, before, sizeof before, &size, NULL),
                     PS_OK);
    make_spare();

    ck_assert_int_eq(write_at(files, 4), PS_OK);

    ck_assert_int_eq(files->read(files->self, reader, 0, after, sizeof after, &got, NULL), PS_OK);
    ck_assert_uint_eq(got, size);
    ck_assert_mem_eq(after, before, size);
    ck_assert_uint_eq(spares(), 0);
    ck_assert_uint_eq(memory_files_file_count(disk), 3);
    files->close(files->self, reader);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
}
END_TEST

/* Of sweep and save, any call is the last one before the power goes. */
START_TEST(a_crash_at_any_call_leaves_whole_checkpoints_only)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        enum ps_status status = PS_ERR_IO;
        for (unsigned power = 0; status != PS_OK; power++) {
            memory_files_destroy(disk);
            disk = memory_files_create(seed * 1000 + power);
            memory_files_knobs(disk)->spoils = true;
            files = memory_files_files(disk);
            for (uint64_t position = 1; position <= 3; position++)
                ck_assert_int_eq(write_at(files, position), PS_OK);
            memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen + power;

            status = sweep(files, EPOCH);
            if (status == PS_OK)
                status = write_at(files, 4);
            memory_files_knobs(disk)->fail_from = -1;
            memory_files_crash(disk, MEMORY_CRASH_SEEDED);

            ck_assert_uint_ge(assert_all_whole(seed, power), status == PS_OK ? 3 : 2);
        }
    }
}
END_TEST

START_TEST(a_failing_call_leaves_no_file)
{
    bool fired = true;
    int64_t fail_at = 0;
    for (; fired; fail_at++) {
        tear_down();
        set_up();
        make_spare();
        struct fault_files fault = {
            .under = files, .calls = FAULT_ANY & ~(uint32_t)FAULT_REMOVE, .fail_at = fail_at};
        struct ps_files faulty = fault_files_files(&fault);

        enum ps_status status = write_at(&faulty, 4);

        fired = fault.fired;
        ck_assert_int_eq(status, fired ? PS_ERR_IO : PS_OK);
        ck_assert_int_eq(fault.open, 0);
        ck_assert_uint_eq(assert_all_whole(0, (unsigned)fail_at), fired ? 2 : 3);
        ck_assert_uint_le(memory_files_file_count(disk), 3);
    }
    ck_assert_int_gt(fail_at, 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_spare");
    TCase *tests = tcase_create("checkpoint_spare");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_swept_checkpoint_becomes_the_next_one);
    tcase_add_test(tests, one_that_is_shorter_or_longer_than_the_spare_ends_where_it_ends);
    tcase_add_test(tests, a_spare_that_nobody_took_goes_with_the_next_sweep);
    tcase_add_test(tests, spares_of_other_epochs_are_not_written_over);
    tcase_add_test(tests, what_somebody_reads_is_not_written_over);
    tcase_add_test(tests, a_crash_at_any_call_leaves_whole_checkpoints_only);
    tcase_add_test(tests, a_failing_call_leaves_no_file);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
