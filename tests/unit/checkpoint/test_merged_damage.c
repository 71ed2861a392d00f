/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/merged_arrays.c: a table out of two files is read once, and no damage of either passes
 * for that. */
#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "run_suite.h"
#include "sample_increment.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 256
#define PARTS_MAX 4096

static struct memory_files *disk;
static const struct ps_files *files;
static uint64_t bytes_read;
static struct sample_row base_list[ROWS_MAX], own_list[ROWS_MAX], merged_list[2 * ROWS_MAX];
static uint64_t removed[ROWS_MAX];
static size_t base_count, own_count, removed_count;
static struct sample_rows base_rows, own_rows, merged_rows;
static char base_path[1024], own_path[1024];

static void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    base_count = own_count = removed_count = 0;
}

static void tear_down(void)
{
    sample_rows_fini(&base_rows);
    sample_rows_fini(&own_rows);
    sample_rows_fini(&merged_rows);
    memory_files_destroy(disk);
}

/* A row that stays, goes or is pushed to again. */
static void add_row(uint64_t key, bool goes, bool changes)
{
    base_list[base_count++] = (struct sample_row){key, 1};
    if (goes)
        removed[removed_count++] = key;
    if (changes)
        own_list[own_count++] = (struct sample_row){key, 2};
}

static enum ps_status count_read(void *self, struct ps_file file, uint64_t offset, void *to,
                                 size_t size, size_t *got, struct ps_error *error)
{
    bytes_read += size;
    return files->read(self, file, offset, to, size, got, error);
}

static struct ps_files counting_files(void)
{
    struct ps_files counting = *files;
    counting.read = count_read;
    return counting;
}

/* Three floats wide; with one row that the base does not have. */
static void write_files(void)
{
    struct ps_checkpoint_facts base_facts = sample_base_facts();
    struct ps_checkpoint_facts own_facts = sample_own_facts();
    size_t count = 0;
    own_list[own_count++] = (struct sample_row){1, 2};
    for (size_t i = 0; i < base_count; i++) {
        bool stays = true;
        for (size_t k = 0; k < removed_count || k < own_count; k++)
            stays = stays && !(k < removed_count && removed[k] == base_list[i].key) &&
                    !(k < own_count && own_list[k].key == base_list[i].key);
        if (stays)
            merged_list[count++] = base_list[i];
    }
    memcpy(merged_list + count, own_list, own_count * sizeof own_list[0]);
    count += own_count;
    sample_rows_init(&base_rows, "t", PS_F32, 3, base_list, base_count);
    sample_rows_init(&own_rows, "t", PS_F32, 3, own_list, own_count);
    sample_rows_remove(&own_rows, removed, removed_count);
    sample_rows_init(&merged_rows, "t", PS_F32, 3, merged_list, count);
    sample_increment_write(files, "ck", &base_facts, &base_rows.parameter, 1, base_path);
    sample_increment_write(files, "ck", &own_facts, &own_rows.parameter, 1, own_path);
}

/* In parts of `part` bytes, in any order; the first `more` of them once more. Whether it was what
 * it must be the sums say. */
static enum ps_status read_shuffled(struct ps_checkpoint_reader *reader, uint32_t array,
                                    size_t part, size_t more, uint64_t seed)
{
    uint64_t bytes = ps_array_bytes(&merged_rows.parameter, array);
    size_t count = (size_t)((bytes + part - 1) / part);
    uint32_t sums[PARTS_MAX], joined = 0;
    size_t order[PARTS_MAX];
    uint8_t *to = malloc(bytes + 1);
    struct ps_random random;
    ps_random_init(&random, seed);
    ck_assert(to != NULL && count + more <= PARTS_MAX);
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)ps_random_below(&random, i);
        size_t swapped = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swapped;
    }
    for (size_t i = 0; i < count + more; i++) {
        size_t k = order[i % count];
        uint64_t at = k * part;
        const struct ps_checkpoint_piece piece = {to + at,
                                                  bytes - at < part ? (size_t)(bytes - at) : part};
        ck_assert_int_eq(
            ps_checkpoint_read_part(reader, 0, (int32_t)array - 1, at, &piece, 1, &sums[k], NULL),
            PS_OK);
    }
    for (size_t k = 0; k < count; k++)
        joined = ps_checksum_crc32c_join(joined, sums[k],
                                         bytes - k * part < part ? bytes - k * part : part);
    enum ps_status status = ps_checkpoint_check_array(reader, 0, (int32_t)array - 1, joined, NULL);
    if (status == PS_OK && bytes > 0)
        ck_assert(memcmp(to, merged_rows.arrays[array], bytes) == 0);
    free(to);
    return status;
}

/* Some go, at the beginning, at the end and in between, one alone and many together. */
static void make_files_of(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool goes = i < 3 || i % 7 == 0 || (i > count / 2 && i < count / 2 + 20) || i + 5 > count;
        add_row(i * 3, goes, i % 11 == 0);
    }
    write_files();
}

/* Whatever the parts, and rows that went among it. */
START_TEST(every_byte_is_read_once)
{
    static const size_t parts[] = {12, 24, 120, 5, 1200};
    const struct ps_files counting = counting_files();
    struct ps_checkpoint_reader *reader = NULL;
    make_files_of(200);
    ck_assert_int_eq(ps_checkpoint_open(&counting, own_path, ps_allocator_heap(), &reader, NULL),
                     PS_OK);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (uint32_t array = 0; array < ps_array_count(&merged_rows.parameter); array++) {
            bytes_read = 0;
            ck_assert_int_eq(read_shuffled(reader, array, parts[i], 0, i), PS_OK);
            ck_assert_uint_eq(bytes_read, ps_array_bytes(&base_rows.parameter, array) +
                                              ps_array_bytes(&own_rows.parameter, array));
        }
    ps_checkpoint_close(reader);
}
END_TEST

/* Nobody does so; who did would be told the truth. */
START_TEST(a_part_that_is_read_twice_is_no_damage)
{
    const struct ps_files counting = counting_files();
    struct ps_checkpoint_reader *reader = NULL;
    make_files_of(200);
    ck_assert_int_eq(ps_checkpoint_open(&counting, own_path, ps_allocator_heap(), &reader, NULL),
                     PS_OK);
    for (size_t more = 0; more < 4; more++) {
        bytes_read = 0;
        ck_assert_int_eq(read_shuffled(reader, 0, 24, more, more), PS_OK);
        uint64_t once =
            ps_array_bytes(&base_rows.parameter, 0) + ps_array_bytes(&own_rows.parameter, 0);
        ck_assert(more == 0 ? bytes_read == once : bytes_read > once);
    }
    ps_checkpoint_close(reader);
}
END_TEST

/* A part that is missing is not made good by one that was read twice. */
START_TEST(what_was_never_read_is_not_vouched_for)
{
    struct ps_checkpoint_reader *reader = NULL;
    uint8_t bytes[24];
    const struct ps_checkpoint_piece piece = {bytes, sizeof bytes};
    uint32_t joined = 0;
    for (uint64_t key = 0; key < 8; key += 2)
        add_row(key, false, false);
    write_files();
    ck_assert_int_eq(ps_checkpoint_open(files, own_path, ps_allocator_heap(), &reader, NULL),
                     PS_OK);
    /* Five rows of twelve bytes: rows 0 and 1 twice, and then the last one. */
    for (int i = 0; i < 2; i++) {
        uint32_t crc32c = 0;
        ck_assert_int_eq(ps_checkpoint_read_part(reader, 0, -1, 0, &piece, 1, &crc32c, NULL),
                         PS_OK);
        joined = ps_checksum_crc32c_join(joined, crc32c, sizeof bytes);
    }
    const struct ps_checkpoint_piece last = {bytes, 12};
    uint32_t crc32c = 0;
    ck_assert_int_eq(ps_checkpoint_read_part(reader, 0, -1, 48, &last, 1, &crc32c, NULL), PS_OK);
    joined = ps_checksum_crc32c_join(joined, crc32c, 12);

    ck_assert_int_eq(ps_checkpoint_check_array(reader, 0, -1, joined, NULL), PS_ERR_CORRUPT);

    ps_checkpoint_close(reader);
}
END_TEST

/* Opened and read to its end, in parts of two rows. */
static enum ps_status read_all(uint64_t seed)
{
    struct ps_checkpoint_reader *reader = NULL;
    enum ps_status status = ps_checkpoint_open(files, own_path, ps_allocator_heap(), &reader, NULL);
    for (uint32_t array = 0; status == PS_OK && array < ps_array_count(&merged_rows.parameter);
         array++)
        status = read_shuffled(reader, array, 24, 0, seed);
    ps_checkpoint_close(reader);
    return status;
}

/* Rows that went are part of what the base's sum is of: a disk that changes these is not to be
 * relied on for the others. */
START_TEST(no_byte_of_either_file_may_be_damaged)
{
    make_files_of(60);
    ck_assert_int_eq(read_all(0), PS_OK);
    for (int k = 0; k < 2; k++) {
        const char *path = k == 0 ? base_path : own_path;
        struct ps_bytes content;
        ck_assert(memory_files_get(disk, path, &content));
        for (size_t i = 0; i < content.size; i++) {
            memory_files_flip(disk, path, i * 8 + i % 8);
            ck_assert_msg(read_all(i) != PS_OK, "byte %zu of %s", i, path);
            memory_files_flip(disk, path, i * 8 + i % 8);
        }
    }
    ck_assert_int_eq(read_all(0), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merged_damage");
    TCase *tests = tcase_create("merged_damage");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    /* With every byte turned over, under a sanitizer and beside others. */
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_byte_is_read_once);
    tcase_add_test(tests, a_part_that_is_read_twice_is_no_damage);
    tcase_add_test(tests, what_was_never_read_is_not_vouched_for);
    tcase_add_test(tests, no_byte_of_either_file_may_be_damaged);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
