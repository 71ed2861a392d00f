/* SPDX-License-Identifier: Apache-2.0 */
/* base/file_real.c: the machine's file system. */
#include "base/file.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

static struct temp_folder folder;
static char path[600];
static struct ps_error error;
static const struct ps_files *files;

static void begin(void)
{
    temp_folder_init(&folder);
    temp_folder_path(&folder, "file", path, sizeof path);
    files = ps_files_real();
}

static void end(void)
{
    temp_folder_fini(&folder);
}

static struct ps_file open_as(enum ps_file_mode mode)
{
    struct ps_file file = {-1};
    ck_assert_int_eq(files->open(files->self, path, mode, &file, &error), PS_OK);
    return file;
}

static void write_once(enum ps_file_mode mode, const char *text)
{
    struct ps_file file = open_as(mode);
    ck_assert_int_eq(files->write(files->self, file, ps_bytes_of_text(text), &error), PS_OK);
    ck_assert_int_eq(files->sync(files->self, file, &error), PS_OK);
    files->close(files->self, file);
}

START_TEST(appended_bytes_go_to_the_end)
{
    write_once(PS_FILE_APPEND, "abc");
    write_once(PS_FILE_APPEND, "def");
    struct ps_file file = open_as(PS_FILE_READ);
    uint64_t size = 0;
    char text[8] = "";
    size_t got = 0;

    ck_assert_int_eq(files->size(files->self, file, &size, &error), PS_OK);
    ck_assert_uint_eq(size, 6);
    ck_assert_int_eq(files->read(files->self, file, 1, text, 4, &got, &error), PS_OK);
    ck_assert_uint_eq(got, 4);
    ck_assert_str_eq(text, "bcde");
    files->close(files->self, file);
}
END_TEST

START_TEST(reading_beyond_the_end_gets_less)
{
    write_once(PS_FILE_CREATE_NEW, "abc");
    struct ps_file file = open_as(PS_FILE_READ);
    char text[8];
    size_t got = 9;

    ck_assert_int_eq(files->read(files->self, file, 2, text, 8, &got, &error), PS_OK);
    ck_assert_uint_eq(got, 1);
    ck_assert_int_eq(files->read(files->self, file, 7, text, 8, &got, &error), PS_OK);
    ck_assert_uint_eq(got, 0);
    files->close(files->self, file);
}
END_TEST

START_TEST(missing_file_is_not_found_and_named)
{
    struct ps_file file;

    ck_assert_int_eq(files->open(files->self, path, PS_FILE_READ, &file, &error), PS_ERR_NOT_FOUND);

    ck_assert_ptr_nonnull(strstr(error.text, path));
    ck_assert_ptr_nonnull(strstr(error.text, "No such file"));
}
END_TEST

START_TEST(new_file_must_not_exist)
{
    struct ps_file file;
    write_once(PS_FILE_CREATE_NEW, "abc");

    ck_assert_int_eq(files->open(files->self, path, PS_FILE_CREATE_NEW, &file, &error),
                     PS_ERR_EXISTS);
}
END_TEST

static void count_entry(void *context, const char *name)
{
    int *counts = context;
    counts[0]++;
    counts[1] += strcmp(name, "file") == 0;
}

/* Whole blocks, then a rest, then over the beginning: whether the file system can do without its
 * cache or not, the bytes are the same. */
START_TEST(a_file_written_past_the_cache_is_like_any)
{
    uint8_t *memory = aligned_alloc(PS_FILE_DIRECT_BYTES, (size_t)3 * PS_FILE_DIRECT_BYTES);
    uint8_t *content = malloc((size_t)3 * PS_FILE_DIRECT_BYTES);
    size_t got = 0;
    uint64_t size = 0;
    for (size_t i = 0; i < (size_t)3 * PS_FILE_DIRECT_BYTES; i++)
        memory[i] = (uint8_t)(i * 7 >> 2);
    struct ps_file file = open_as(PS_FILE_CREATE_DIRECT);
    ck_assert_int_eq(files->write(files->self, file,
                                  (struct ps_bytes){memory, 2 * PS_FILE_DIRECT_BYTES}, &error),
                     PS_OK);
    ck_assert_int_eq(files->write(files->self, file,
                                  (struct ps_bytes){memory + 2 * PS_FILE_DIRECT_BYTES, 100},
                                  &error),
                     PS_OK);
    ck_assert_int_eq(files->write_over(files->self, file, 5, ps_bytes_of_text("over"), &error),
                     PS_OK);
    ck_assert_int_eq(files->write(files->self, file, ps_bytes_of_text("end"), &error), PS_OK);
    ck_assert_int_eq(files->sync(files->self, file, &error), PS_OK);
    files->close(files->self, file);

    file = open_as(PS_FILE_READ);
    ck_assert_int_eq(files->size(files->self, file, &size, &error), PS_OK);
    ck_assert_uint_eq(size, 2 * PS_FILE_DIRECT_BYTES + 103);
    ck_assert_int_eq(files->read(files->self, file, 0, content, size, &got, &error), PS_OK);
    files->close(files->self, file);
    memcpy(memory + 5, "over", 4);
    memcpy(memory + 2 * PS_FILE_DIRECT_BYTES + 100, "end", 3);
    ck_assert_mem_eq(content, memory, size);
    free(content);
    free(memory);
}
END_TEST

static void expect_content(const char *expected)
{
    char content[16] = {0};
    size_t got = 0;
    struct ps_file file = open_as(PS_FILE_READ);
    ck_assert_int_eq(files->read(files->self, file, 0, content, 15, &got, &error), PS_OK);
    files->close(files->self, file);
    ck_assert_str_eq(content, expected);
}

START_TEST(a_file_used_again_is_written_over_from_its_beginning)
{
    const enum ps_file_mode mode = _i == 0 ? PS_FILE_REUSE : PS_FILE_REUSE_DIRECT;
    write_once(PS_FILE_CREATE_NEW, "abcdef");

    write_once(mode, "xy");
    expect_content("xycdef");
    struct ps_file file = open_as(mode);
    ck_assert_int_eq(files->write(files->self, file, ps_bytes_of_text("1234"), &error), PS_OK);
    ck_assert_int_eq(files->write(files->self, file, ps_bytes_of_text("5678"), &error), PS_OK);
    files->close(files->self, file);

    expect_content("12345678");
}
END_TEST

START_TEST(a_file_used_again_must_exist)
{
    const enum ps_file_mode mode = _i == 0 ? PS_FILE_REUSE : PS_FILE_REUSE_DIRECT;
    struct ps_file file;

    ck_assert_int_eq(files->open(files->self, path, mode, &file, &error), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(files->open(files->self, path, PS_FILE_READ, &file, &error), PS_ERR_NOT_FOUND);
}
END_TEST

/* A disk that is nearly full may cut a write behind any sector, so that the rest begins at an odd
 * address and offset: `cut` is where. The bytes of before go on behind what was written. */
static void write_over_in_two_parts(const uint8_t *content, size_t size, size_t cut)
{
    struct ps_file file = open_as(PS_FILE_REUSE_DIRECT);
    ck_assert_int_eq(files->write(files->self, file, (struct ps_bytes){content, cut}, &error),
                     PS_OK);
    ck_assert_int_eq(
        files->write(files->self, file, (struct ps_bytes){content + cut, size - cut}, &error),
        PS_OK);
    ck_assert_int_eq(files->sync(files->self, file, &error), PS_OK);
    files->close(files->self, file);
}

/* Read in whole blocks, then a rest at an odd place, then whole blocks again. */
START_TEST(a_file_is_the_same_past_the_cache_and_through_the_cache)
{
    enum { BLOCK = PS_FILE_DIRECT_BYTES };
    static const size_t cuts[] = {BLOCK, 512, 1536, 100, 2 * BLOCK};
    uint8_t *content = aligned_alloc(BLOCK, (size_t)4 * BLOCK);
    uint8_t *read = aligned_alloc(BLOCK, (size_t)4 * BLOCK);
    size_t got = 0;
    for (size_t i = 0; i < (size_t)4 * BLOCK; i++)
        content[i] = (uint8_t)(i * 7 >> 2);
    struct ps_file file = open_as(PS_FILE_CREATE_NEW);
    ck_assert_int_eq(
        files->write(files->self, file, (struct ps_bytes){content, 3 * BLOCK + 9}, &error), PS_OK);
    files->close(files->self, file);
    for (size_t i = 0; i < (size_t)2 * BLOCK; i++)
        content[i] = (uint8_t)(content[i] + 1 + _i);

    write_over_in_two_parts(content, 2 * BLOCK, cuts[_i]);

    file = open_as(PS_FILE_READ);
    ck_assert_int_eq(files->read(files->self, file, BLOCK, read + BLOCK, 3 * BLOCK, &got, &error),
                     PS_OK);
    ck_assert_uint_eq(got, 2 * BLOCK + 9);
    ck_assert_int_eq(files->read(files->self, file, 0, read, 77, &got, &error), PS_OK);
    ck_assert_int_eq(files->read(files->self, file, 77, read + 77, BLOCK, &got, &error), PS_OK);
    ck_assert_uint_eq(got, BLOCK);
    files->close(files->self, file);
    ck_assert_mem_eq(read, content, 3 * BLOCK + 9);
    free(read);
    free(content);
}
END_TEST

START_TEST(a_file_that_was_cut_ends_there)
{
    struct ps_file file = open_as(PS_FILE_CREATE_NEW);
    uint64_t size = 0;
    ck_assert_int_eq(files->write(files->self, file, ps_bytes_of_text("abcdef"), &error), PS_OK);

    ck_assert_int_eq(files->cut(files->self, file, 4, &error), PS_OK);

    ck_assert_int_eq(files->size(files->self, file, &size, &error), PS_OK);
    ck_assert_uint_eq(size, 4);
    files->close(files->self, file);
    file = open_as(PS_FILE_READ);
    ck_assert_int_eq(files->cut(files->self, file, 1, &error), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, path));
    files->close(files->self, file);
}
END_TEST

/* Some file systems give no leases, and a file there is never alone. */
START_TEST(who_else_has_a_file_is_known)
{
    char second_name[600];
    temp_folder_path(&folder, "second", second_name, sizeof second_name);
    write_once(PS_FILE_CREATE_NEW, "abcdef");
    struct ps_file file = open_as(PS_FILE_REUSE_DIRECT);
    bool leases = fcntl((int)file.handle, F_SETLEASE, F_WRLCK) == 0 &&
                  fcntl((int)file.handle, F_SETLEASE, F_UNLCK) == 0;
    ck_assert(files->is_alone(files->self, file) == leases);

    struct ps_file reader = open_as(PS_FILE_READ);
    ck_assert(!files->is_alone(files->self, file));
    void *mapped = mmap(NULL, 6, PROT_READ, MAP_SHARED, (int)reader.handle, 0);
    ck_assert_ptr_ne(mapped, MAP_FAILED);
    files->close(files->self, reader);
    ck_assert(!files->is_alone(files->self, file));
    ck_assert_int_eq(munmap(mapped, 6), 0);
    ck_assert(files->is_alone(files->self, file) == leases);

    ck_assert_int_eq(link(path, second_name), 0);
    ck_assert(!files->is_alone(files->self, file));
    ck_assert_int_eq(unlink(second_name), 0);
    ck_assert(files->is_alone(files->self, file) == leases);
    files->close(files->self, file);
}
END_TEST

START_TEST(whether_a_folder_can_go_direct_leaves_nothing_behind)
{
    int counts[2] = {0, 0};

    (void)files->can_go_direct(files->self, folder.path);

    ck_assert_int_eq(files->list(files->self, folder.path, count_entry, counts, &error), PS_OK);
    ck_assert_int_eq(counts[0], 0);
}
END_TEST

START_TEST(memory_and_missing_folders_cannot_go_direct)
{
    struct statfs system;

    ck_assert(!files->can_go_direct(files->self, path));
    if (statfs("/dev/shm", &system) == 0 && system.f_type == TMPFS_MAGIC)
        ck_assert(!files->can_go_direct(files->self, "/dev/shm"));
}
END_TEST

START_TEST(what_was_forgotten_reads_the_same)
{
    char content[9] = {0};
    size_t got = 0;
    write_once(PS_FILE_CREATE_NEW, "contents");
    struct ps_file file = open_as(PS_FILE_READ);

    files->forget(files->self, file, 0, 8);
    files->forget(files->self, file, 4, 0);
    files->forget(files->self, file, 100, 4096);

    ck_assert_int_eq(files->read(files->self, file, 0, content, 8, &got, &error), PS_OK);
    ck_assert_str_eq(content, "contents");
    files->close(files->self, file);
}
END_TEST

START_TEST(a_file_past_the_cache_must_not_exist)
{
    struct ps_file file;
    write_once(PS_FILE_CREATE_NEW, "abc");

    ck_assert_int_eq(files->open(files->self, path, PS_FILE_CREATE_DIRECT, &file, &error),
                     PS_ERR_EXISTS);
}
END_TEST

START_TEST(writing_over_a_file_for_reading_fails)
{
    write_once(PS_FILE_CREATE_NEW, "abc");
    struct ps_file file = open_as(PS_FILE_READ);

    ck_assert_int_eq(files->write_over(files->self, file, 0, ps_bytes_of_text("x"), &error),
                     PS_ERR_IO);

    files->close(files->self, file);
}
END_TEST

START_TEST(full_disk_is_told_with_the_path)
{
    struct ps_file file;
    ck_assert_int_eq(files->open(files->self, "/dev/full", PS_FILE_APPEND, &file, &error), PS_OK);

    ck_assert_int_eq(files->write(files->self, file, ps_bytes_of_text("x"), &error), PS_ERR_IO);

    ck_assert_str_eq(error.text, "write /dev/full: No space left on device");
    files->close(files->self, file);
}
END_TEST

START_TEST(calls_on_a_file_that_is_closed_fail)
{
    struct ps_file file = {1000000};
    char byte;
    size_t got;
    uint64_t size;

    ck_assert_int_eq(files->write(files->self, file, ps_bytes_of_text("x"), &error), PS_ERR_IO);
    ck_assert_int_eq(files->read(files->self, file, 0, &byte, 1, &got, &error), PS_ERR_IO);
    ck_assert_int_eq(files->size(files->self, file, &size, &error), PS_ERR_IO);
    ck_assert_int_eq(files->sync(files->self, file, &error), PS_ERR_IO);
    ck_assert_str_eq(error.text, "sync file: Bad file descriptor");
}
END_TEST

START_TEST(rename_replaces_and_remove_removes)
{
    char other[600];
    temp_folder_path(&folder, "other", other, sizeof other);
    write_once(PS_FILE_CREATE_NEW, "abc");

    ck_assert_int_eq(files->rename(files->self, path, other, &error), PS_OK);
    ck_assert_int_eq(files->remove(files->self, path, &error), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(files->sync_folder(files->self, folder.path, &error), PS_OK);
    ck_assert_int_eq(files->remove(files->self, other, &error), PS_OK);
    ck_assert_int_eq(files->rename(files->self, path, other, &error), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(folders_are_made_with_their_parents)
{
    char deep[700];
    struct stat facts;
    temp_folder_path(&folder, "a/b//c/", deep, sizeof deep);

    ck_assert_int_eq(files->make_folder(files->self, deep, &error), PS_OK);
    ck_assert_int_eq(files->make_folder(files->self, deep, &error), PS_OK);

    ck_assert_int_eq(stat(deep, &facts), 0);
    ck_assert(S_ISDIR(facts.st_mode));
}
END_TEST

START_TEST(file_in_the_way_of_a_folder_is_told)
{
    char deep[700];
    write_once(PS_FILE_CREATE_NEW, "abc");
    temp_folder_path(&folder, "file/deep", deep, sizeof deep);

    ck_assert_int_eq(files->make_folder(files->self, path, &error), PS_ERR_EXISTS);
    ck_assert_int_eq(files->make_folder(files->self, deep, &error), PS_ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(error.text, "what is there is not a folder"));
}
END_TEST

START_TEST(very_long_folder_is_refused)
{
    char deep[5000];
    memset(deep, 'a', sizeof deep);
    deep[sizeof deep - 1] = '\0';

    ck_assert_int_eq(files->make_folder(files->self, deep, &error), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(list_names_every_entry_once)
{
    int counts[2] = {0, 0};
    char other[700];
    write_once(PS_FILE_CREATE_NEW, "abc");
    temp_folder_path(&folder, ".hidden", other, sizeof other);
    ck_assert_int_eq(files->make_folder(files->self, other, &error), PS_OK);

    ck_assert_int_eq(files->list(files->self, folder.path, count_entry, counts, &error), PS_OK);

    ck_assert_int_eq(counts[0], 2);
    ck_assert_int_eq(counts[1], 1);
}
END_TEST

START_TEST(list_of_no_folder_is_told)
{
    ck_assert_int_eq(files->list(files->self, path, NULL, NULL, &error), PS_ERR_NOT_FOUND);
    write_once(PS_FILE_CREATE_NEW, "abc");
    ck_assert_int_eq(files->list(files->self, path, NULL, NULL, &error), PS_ERR_IO);
    ck_assert_int_eq(files->sync_folder(files->self, path, &error), PS_ERR_IO);
}
END_TEST

/* Without a writer an open for reading would wait for one. */
START_TEST(a_pipe_or_a_device_is_not_read)
{
    struct ps_file file;
    ck_assert_int_eq(mkfifo(path, 0600), 0);

    ck_assert_int_eq(files->open(files->self, path, PS_FILE_READ, &file, &error), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, path));
    ck_assert_int_eq(files->open(files->self, "/dev/zero", PS_FILE_READ, &file, &error),
                     PS_ERR_CORRUPT);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file_real");
    TCase *tests = tcase_create("file_real");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, appended_bytes_go_to_the_end);
    tcase_add_test(tests, reading_beyond_the_end_gets_less);
    tcase_add_test(tests, missing_file_is_not_found_and_named);
    tcase_add_test(tests, new_file_must_not_exist);
    tcase_add_test(tests, a_file_written_past_the_cache_is_like_any);
    tcase_add_loop_test(tests, a_file_used_again_is_written_over_from_its_beginning, 0, 2);
    tcase_add_loop_test(tests, a_file_used_again_must_exist, 0, 2);
    tcase_add_loop_test(tests, a_file_is_the_same_past_the_cache_and_through_the_cache, 0, 5);
    tcase_add_test(tests, a_file_that_was_cut_ends_there);
    tcase_add_test(tests, who_else_has_a_file_is_known);
    tcase_add_test(tests, whether_a_folder_can_go_direct_leaves_nothing_behind);
    tcase_add_test(tests, memory_and_missing_folders_cannot_go_direct);
    tcase_add_test(tests, what_was_forgotten_reads_the_same);
    tcase_add_test(tests, a_file_past_the_cache_must_not_exist);
    tcase_add_test(tests, writing_over_a_file_for_reading_fails);
    tcase_add_test(tests, full_disk_is_told_with_the_path);
    tcase_add_test(tests, a_pipe_or_a_device_is_not_read);
    tcase_add_test(tests, calls_on_a_file_that_is_closed_fail);
    tcase_add_test(tests, rename_replaces_and_remove_removes);
    tcase_add_test(tests, folders_are_made_with_their_parents);
    tcase_add_test(tests, file_in_the_way_of_a_folder_is_told);
    tcase_add_test(tests, very_long_folder_is_refused);
    tcase_add_test(tests, list_names_every_entry_once);
    tcase_add_test(tests, list_of_no_folder_is_told);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
