/* SPDX-License-Identifier: Apache-2.0 */
/* tests/support/memory_files.c: the disk that forgets what was not synced. */
#include "run_suite.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_files *disk;
static const struct ps_files *files;

static void set_up(void)
{
    disk = memory_files_create(7);
    files = memory_files_files(disk);
    ck_assert_int_eq(files->make_folder(files->self, "data/deep", NULL), PS_OK);
}

static void tear_down(void)
{
    memory_files_destroy(disk);
}

static struct ps_file opened(const char *path, enum ps_file_mode mode)
{
    struct ps_file file;
    ck_assert_int_eq(files->open(files->self, path, mode, &file, NULL), PS_OK);
    return file;
}

static enum ps_status write_text(struct ps_file file, const char *text)
{
    return files->write(files->self, file, ps_bytes_of_text(text), NULL);
}

/* A file with `synced` made durable and `unsynced` added after it; closed. */
static void make_file(const char *path, const char *synced, const char *unsynced)
{
    struct ps_file file = opened(path, PS_FILE_CREATE_NEW);
    ck_assert_int_eq(write_text(file, synced), PS_OK);
    ck_assert_int_eq(files->sync(files->self, file, NULL), PS_OK);
    ck_assert_int_eq(write_text(file, unsynced), PS_OK);
    files->close(files->self, file);
}

static void assert_content(const char *path, const char *expected)
{
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, path, &content));
    ck_assert_uint_eq(content.size, strlen(expected));
    ck_assert(content.size == 0 || memcmp(content.data, expected, content.size) == 0);
}

static bool exists(const char *path)
{
    struct ps_bytes content;
    return memory_files_get(disk, path, &content);
}

static void sync_folder(const char *path)
{
    ck_assert_int_eq(files->sync_folder(files->self, path, NULL), PS_OK);
}

START_TEST(what_was_written_is_read_back)
{
    make_file("data/a", "abc", "def");
    struct ps_file file = opened("data/a", PS_FILE_READ);
    char text[10];
    size_t got = 0;
    uint64_t size = 0;

    ck_assert_int_eq(files->read(files->self, file, 2, text, sizeof text, &got, NULL), PS_OK);
    ck_assert_int_eq(files->size(files->self, file, &size, NULL), PS_OK);

    ck_assert_uint_eq(got, 4);
    ck_assert_mem_eq(text, "cdef", 4);
    ck_assert_uint_eq(size, 6);
    ck_assert_int_eq(files->read(files->self, file, 99, text, 1, &got, NULL), PS_OK);
    ck_assert_uint_eq(got, 0);
    files->close(files->self, file);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
}
END_TEST

START_TEST(paths_that_are_not_there_are_not_found)
{
    struct ps_file file;

    ck_assert_int_eq(files->open(files->self, "data/no", PS_FILE_READ, &file, NULL),
                     PS_ERR_NOT_FOUND);
    ck_assert_int_eq(files->open(files->self, "no/a", PS_FILE_CREATE_NEW, &file, NULL),
                     PS_ERR_NOT_FOUND);
    ck_assert_int_eq(files->rename(files->self, "data/no", "data/a", NULL), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(files->remove(files->self, "data/no", NULL), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(files->sync_folder(files->self, "no", NULL), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(files->list(files->self, "no", NULL, NULL, NULL), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_new_file_must_not_exist)
{
    make_file("data/a", "x", "");
    struct ps_file file;

    ck_assert_int_eq(files->open(files->self, "data/a", PS_FILE_CREATE_NEW, &file, NULL),
                     PS_ERR_EXISTS);
}
END_TEST

START_TEST(appending_goes_on_at_the_end)
{
    make_file("data/a", "one", "");
    struct ps_file file = opened("data/a", PS_FILE_APPEND);

    ck_assert_int_eq(write_text(file, " two"), PS_OK);
    files->close(files->self, file);

    assert_content("data/a", "one two");
}
END_TEST

static void count_entry(void *context, const char *name)
{
    ck_assert_ptr_null(strchr(name, '/'));
    ++*(int *)context;
}

START_TEST(listing_gives_the_names_of_one_folder)
{
    make_file("data/a", "", "");
    make_file("data/deep/b", "", "");
    make_file("c", "", "");
    int count = 0;

    ck_assert_int_eq(files->list(files->self, "data/", count_entry, &count, NULL), PS_OK);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(files->list(files->self, ".", count_entry, &count, NULL), PS_OK);
    ck_assert_int_eq(count, 2);
}
END_TEST

START_TEST(crash_loses_bytes_that_were_not_synced)
{
    make_file("data/a", "safe", "lost");
    sync_folder("data");

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    assert_content("data/a", "safe");
}
END_TEST

START_TEST(crash_loses_a_file_whose_folder_was_not_synced)
{
    make_file("data/a", "safe", "");
    make_file("data/deep/b", "safe", "");
    sync_folder("data/deep/");

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    ck_assert(!exists("data/a"));
    ck_assert(exists("data/deep/b"));
}
END_TEST

START_TEST(crash_undoes_a_rename_whose_folder_was_not_synced)
{
    make_file("data/a", "old", "");
    make_file("data/a.tmp", "new", "");
    sync_folder("data");
    ck_assert_int_eq(files->rename(files->self, "data/a.tmp", "data/a", NULL), PS_OK);
    assert_content("data/a", "new");

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    assert_content("data/a", "old");
    assert_content("data/a.tmp", "new");
}
END_TEST

START_TEST(crash_brings_a_removed_file_back)
{
    make_file("data/a", "old", "");
    sync_folder("data");
    ck_assert_int_eq(files->remove(files->self, "data/a", NULL), PS_OK);
    ck_assert(!exists("data/a"));

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    assert_content("data/a", "old");
}
END_TEST

START_TEST(a_killed_process_loses_nothing)
{
    make_file("data/a", "synced", " and not");

    memory_files_crash(disk, MEMORY_CRASH_KEEPS_ALL);

    assert_content("data/a", "synced and not");
}
END_TEST

START_TEST(what_a_killed_process_wrote_can_be_read_and_is_lost_with_the_power)
{
    make_file("data/a", "synced", " and not");
    sync_folder("data");

    memory_files_crash(disk, MEMORY_CRASH_PROCESS);

    assert_content("data/a", "synced and not");
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    assert_content("data/a", "synced");
}
END_TEST

START_TEST(a_rename_without_sync_can_come_back_as_an_empty_file)
{
    struct ps_file file = opened("data/a.tmp", PS_FILE_CREATE_NEW);
    ck_assert_int_eq(write_text(file, "never synced"), PS_OK);
    files->close(files->self, file);
    ck_assert_int_eq(files->rename(files->self, "data/a.tmp", "data/a", NULL), PS_OK);
    sync_folder("data");

    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    assert_content("data/a", "");
}
END_TEST

START_TEST(a_failed_sync_is_not_healed_by_a_later_one)
{
    make_file("data/a", "safe", "");
    sync_folder("data");
    struct ps_file file = opened("data/a", PS_FILE_APPEND);
    ck_assert_int_eq(write_text(file, "doomed"), PS_OK);
    memory_files_knobs(disk)->fail_mask = 1u << MEMORY_SYNC;
    memory_files_knobs(disk)->seen = 0;
    memory_files_knobs(disk)->fail_at = 0;

    ck_assert_int_eq(files->sync(files->self, file, NULL), PS_ERR_IO);
    ck_assert_int_eq(files->sync(files->self, file, NULL), PS_OK);
    files->close(files->self, file);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    assert_content("data/a", "safe");
}
END_TEST

START_TEST(bytes_are_written_over_in_their_place)
{
    struct ps_file file = opened("data/a", PS_FILE_CREATE_DIRECT);
    ck_assert_int_eq(write_text(file, "abcdef"), PS_OK);

    ck_assert_int_eq(files->write_over(files->self, file, 2, ps_bytes_of_text("XY"), NULL), PS_OK);
    ck_assert_int_eq(write_text(file, "g"), PS_OK);

    files->close(files->self, file);
    assert_content("data/a", "abXYefg");
}
END_TEST

START_TEST(handles_do_not_survive_a_crash)
{
    struct ps_file file = opened("data/a", PS_FILE_CREATE_NEW);

    memory_files_crash(disk, MEMORY_CRASH_KEEPS_ALL);

    ck_assert_int_eq(write_text(file, "ghost"), PS_ERR_IO);
    ck_assert_int_eq(files->sync(files->self, file, NULL), PS_ERR_IO);
    files->close(files->self, file);
    assert_content("data/a", "");
}
END_TEST

START_TEST(only_the_chosen_operation_fails)
{
    struct ps_file file = opened("data/a", PS_FILE_CREATE_NEW);
    memory_files_knobs(disk)->fail_mask = 1u << MEMORY_WRITE;
    memory_files_knobs(disk)->seen = 0;
    memory_files_knobs(disk)->fail_at = 1;

    ck_assert_int_eq(write_text(file, "a"), PS_OK);
    ck_assert_int_eq(write_text(file, "b"), PS_ERR_IO);
    ck_assert_int_eq(write_text(file, "c"), PS_OK);
    ck_assert_uint_eq(memory_files_knobs(disk)->count[MEMORY_WRITE], 3);
    files->close(files->self, file);
}
END_TEST

START_TEST(without_power_everything_fails)
{
    struct ps_file file = opened("data/a", PS_FILE_CREATE_NEW);
    memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen;

    ck_assert_int_eq(write_text(file, "a"), PS_ERR_IO);
    ck_assert_int_eq(files->sync(files->self, file, NULL), PS_ERR_IO);
    ck_assert_int_eq(files->remove(files->self, "data/a", NULL), PS_ERR_IO);
    files->close(files->self, file);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
}
END_TEST

START_TEST(a_full_disk_refuses_the_bytes_beyond_its_size)
{
    struct ps_file file = opened("data/a", PS_FILE_CREATE_NEW);
    memory_files_knobs(disk)->bytes_max = 5;
    struct ps_error error = {0};

    ck_assert_int_eq(write_text(file, "abc"), PS_OK);
    ck_assert_int_eq(files->write(files->self, file, ps_bytes_of_text("defg"), &error), PS_ERR_IO);

    ck_assert_ptr_nonnull(strstr(error.text, "No space left"));
    ck_assert_uint_eq(memory_files_bytes(disk), 5);
    files->close(files->self, file);
    ck_assert_int_eq(files->remove(files->self, "data/a", NULL), PS_OK);
    ck_assert_uint_eq(memory_files_bytes(disk), 0);
}
END_TEST

START_TEST(a_flipped_bit_is_silent)
{
    memory_files_put(disk, "data/a", ps_bytes_of_text("AB"));

    memory_files_flip(disk, "data/a", 8);

    assert_content("data/a", "AC");
}
END_TEST

/* What a seeded crash leaves of 20 files, as one text. */
static void crash_and_describe(uint64_t seed, char *text, size_t size)
{
    struct memory_files *other = memory_files_create(seed);
    const struct ps_files *other_files = memory_files_files(other);
    for (int i = 0; i < 20; i++) {
        char path[16];
        struct ps_file file;
        (void)snprintf(path, sizeof path, "f%d", i);
        ck_assert_int_eq(
            other_files->open(other_files->self, path, PS_FILE_CREATE_NEW, &file, NULL), PS_OK);
        ck_assert_int_eq(
            other_files->write(other_files->self, file, ps_bytes_of_text("0123456789"), NULL),
            PS_OK);
        other_files->close(other_files->self, file);
    }
    memory_files_crash(other, MEMORY_CRASH_SEEDED);
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < memory_files_file_count(other); i++) {
        struct ps_bytes content;
        const char *path = memory_files_path(other, i);
        ck_assert(memory_files_get(other, path, &content));
        used += (size_t)snprintf(text + used, size - used, "%s:%zu ", path, content.size);
    }
    memory_files_destroy(other);
}

START_TEST(equal_seeds_crash_equally)
{
    char first[512];
    char second[512];
    char third[512];

    crash_and_describe(1, first, sizeof first);
    crash_and_describe(1, second, sizeof second);
    crash_and_describe(2, third, sizeof third);

    ck_assert_str_eq(first, second);
    ck_assert_str_ne(first, third);
}
END_TEST

START_TEST(a_replaced_file_is_old_or_new_after_any_crash)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        for (int64_t power = 0; power < 6; power++) {
            struct memory_files *other = memory_files_create(seed);
            memory_files_put(other, "d/a", ps_bytes_of_text("old"));
            memory_files_knobs(other)->fail_from = power;
            enum ps_status status = ps_file_replace(memory_files_files(other), "d", "d/a",
                                                    ps_bytes_of_text("newer"), NULL);

            memory_files_crash(other, MEMORY_CRASH_SEEDED);

            struct ps_bytes content;
            ck_assert(memory_files_get(other, "d/a", &content));
            bool newer = ps_bytes_equal(content, ps_bytes_of_text("newer"));
            bool old = ps_bytes_equal(content, ps_bytes_of_text("old"));
            ck_assert_msg(newer || (old && status != PS_OK), "seed %u, power %d", (unsigned)seed,
                          (int)power);
            memory_files_destroy(other);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_files");
    TCase *tests = tcase_create("memory_files");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_was_written_is_read_back);
    tcase_add_test(tests, paths_that_are_not_there_are_not_found);
    tcase_add_test(tests, a_new_file_must_not_exist);
    tcase_add_test(tests, appending_goes_on_at_the_end);
    tcase_add_test(tests, listing_gives_the_names_of_one_folder);
    tcase_add_test(tests, crash_loses_bytes_that_were_not_synced);
    tcase_add_test(tests, crash_loses_a_file_whose_folder_was_not_synced);
    tcase_add_test(tests, crash_undoes_a_rename_whose_folder_was_not_synced);
    tcase_add_test(tests, crash_brings_a_removed_file_back);
    tcase_add_test(tests, a_killed_process_loses_nothing);
    tcase_add_test(tests, what_a_killed_process_wrote_can_be_read_and_is_lost_with_the_power);
    tcase_add_test(tests, a_rename_without_sync_can_come_back_as_an_empty_file);
    tcase_add_test(tests, a_failed_sync_is_not_healed_by_a_later_one);
    tcase_add_test(tests, bytes_are_written_over_in_their_place);
    tcase_add_test(tests, handles_do_not_survive_a_crash);
    tcase_add_test(tests, only_the_chosen_operation_fails);
    tcase_add_test(tests, without_power_everything_fails);
    tcase_add_test(tests, a_full_disk_refuses_the_bytes_beyond_its_size);
    tcase_add_test(tests, a_flipped_bit_is_silent);
    tcase_add_test(tests, equal_seeds_crash_equally);
    tcase_add_test(tests, a_replaced_file_is_old_or_new_after_any_crash);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
