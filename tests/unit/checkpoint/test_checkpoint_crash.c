/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/: what a crash at any moment of writing and sweeping leaves. */
#include "checkpoint/catalog.h"
#include "run_suite.h"
#include "sample_checkpoint.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 20

static struct sample sample;

static void set_up(void)
{
    sample_init(&sample, 7, 40, 4);
}

static void tear_down(void)
{
    sample_fini(&sample);
}

static enum ps_status write_at(const struct ps_files *files, uint64_t position, const char *uuid,
                               struct ps_checkpoint_place *place)
{
    sample.facts.position = position;
    (void)strcpy(sample.facts.uuid, uuid);
    return ps_checkpoint_write(files, "ck", &sample.facts, sample.parameters, sample.count,
                               ps_allocator_heap(), place, NULL);
}

/* Every file with a checkpoint's name is whole. Returns how many there are. */
static size_t assert_all_whole(const struct ps_files *files, unsigned seed, unsigned power)
{
    struct ps_catalog catalog;
    ck_assert_int_eq(ps_catalog_init(&catalog, files, "ck", ps_allocator_heap(), NULL), PS_OK);
    for (size_t i = 0; i < catalog.count; i++) {
        char path[256] = "ck/";
        (void)strcat(path, catalog.entries[i].name);
        struct ps_error error = {0};
        ck_assert_msg(ps_checkpoint_verify(files, path, ps_allocator_heap(), &error) == PS_OK,
                      "seed %u, power %u, %s: %s", seed, power, path, error.text);
    }
    size_t count = catalog.count;
    ps_catalog_fini(&catalog);
    return count;
}

/* The old system wrote without a single sync: its files could come back empty. */
START_TEST(b5_a_crash_at_any_call_leaves_whole_checkpoints_only)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        enum ps_status status = PS_ERR_IO;
        for (unsigned power = 0; status != PS_OK; power++) {
            struct memory_files *disk = memory_files_create(seed * 1000 + power);
            const struct ps_files *files = memory_files_files(disk);
            struct ps_checkpoint_place first;
            struct ps_checkpoint_place second;
            ck_assert_int_eq(write_at(files, 1, "first", &first), PS_OK);
            memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen + power;

            status = write_at(files, 2, "second", &second);
            memory_files_knobs(disk)->fail_from = -1;
            memory_files_crash(disk, MEMORY_CRASH_SEEDED);

            size_t whole = assert_all_whole(files, seed, power);
            ck_assert_uint_ge(whole, status == PS_OK ? 2 : 1);
            ck_assert_int_eq(ps_checkpoint_verify(files, first.path, ps_allocator_heap(), NULL),
                             PS_OK);
            memory_files_destroy(disk);
        }
    }
}
END_TEST

START_TEST(a_reported_checkpoint_survives_the_worst_crash)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    struct ps_checkpoint_place place;
    ck_assert_int_eq(write_at(files, 1, "one", &place), PS_OK);

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    sample_assert_equal(&sample, files, place.path);
    memory_files_destroy(disk);
}
END_TEST

/* The old system removed the published file before it published the next one. */
START_TEST(b4_the_published_checkpoint_survives_a_crash_at_any_call_of_a_sweep)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        enum ps_status status = PS_ERR_IO;
        for (unsigned power = 0; status != PS_OK; power++) {
            struct memory_files *disk = memory_files_create(seed * 1000 + power);
            const struct ps_files *files = memory_files_files(disk);
            struct ps_checkpoint_place published;
            struct ps_checkpoint_place place;
            size_t removed = 0;
            ck_assert_int_eq(write_at(files, 1, "published", &published), PS_OK);
            for (uint64_t position = 2; position < 6; position++)
                ck_assert_int_eq(write_at(files, position, "unpublished", &place), PS_OK);
            memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen + power;

            status = ps_catalog_sweep(files, "ck", 2, "published", 0, ps_allocator_heap(), &removed,
                                      NULL);
            memory_files_knobs(disk)->fail_from = -1;
            memory_files_crash(disk, MEMORY_CRASH_SEEDED);

            ck_assert_uint_ge(assert_all_whole(files, seed, power), 3);
            ck_assert_int_eq(ps_checkpoint_verify(files, published.path, ps_allocator_heap(), NULL),
                             PS_OK);
            memory_files_destroy(disk);
        }
    }
}
END_TEST

START_TEST(a_leftover_of_a_crash_is_swept_after_the_next_checkpoint)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    struct ps_checkpoint_place place;
    size_t removed = 0;
    memory_files_knobs(disk)->fail_from = 3;
    ck_assert_int_eq(write_at(files, 1, "lost", &place), PS_ERR_IO);
    memory_files_knobs(disk)->fail_from = -1;
    ck_assert_uint_eq(memory_files_file_count(disk), 1);
    ck_assert_int_eq(write_at(files, 2, "next", &place), PS_OK);

    ck_assert_int_eq(
        ps_catalog_sweep(files, "ck", 2, "next", 0, ps_allocator_heap(), &removed, NULL), PS_OK);

    ck_assert_uint_eq(removed, 1);
    ck_assert_uint_eq(memory_files_file_count(disk), 1);
    sample_assert_equal(&sample, files, place.path);
    memory_files_destroy(disk);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_crash");
    TCase *tests = tcase_create("checkpoint_crash");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, b5_a_crash_at_any_call_leaves_whole_checkpoints_only);
    tcase_add_test(tests, a_reported_checkpoint_survives_the_worst_crash);
    tcase_add_test(tests, b4_the_published_checkpoint_survives_a_crash_at_any_call_of_a_sweep);
    tcase_add_test(tests, a_leftover_of_a_crash_is_swept_after_the_next_checkpoint);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
