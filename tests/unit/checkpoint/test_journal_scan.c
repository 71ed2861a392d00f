/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_scan.c: a torn end or damage? In format 1; test_journal_reuse.c has the same
 * for format 2. */
#include "checkpoint/journal_record.h"
#include "checkpoint/journal_scan.h"
#include "checkpoint/journal_window.h"
#include "run_suite.h"
#include "sample_journal.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512

static struct memory_files *disk;
static const struct ps_files *files;
static const struct sample_shape shape = {
    .epoch = 7, .content_bytes_max = 3000, .format = PS_JOURNAL_FORMAT_1};
static const struct ps_journal_life life = {.format = PS_JOURNAL_FORMAT_1};
static char path[128];

static void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    (void)sample_segment(7, 1, path);
}

static void tear_down(void)
{
    memory_files_destroy(disk);
}

/* Three records, each made durable, a batch of `batch`, then `later` more, each durable. */
static void make_journal(uint64_t batch, uint64_t later)
{
    struct journal_maker maker;
    sample_maker(&maker, files, &shape, 6, 0, PS_JOURNAL_SEGMENT_BYTES);
    sample_make(&maker, &shape, 1, 3, 1);
    sample_make(&maker, &shape, 4, 3 + batch, batch);
    sample_make(&maker, &shape, 4 + batch, 3 + batch + later, 1);
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
}

/* Where the record of a position begins. */
static size_t offset_of(uint64_t position)
{
    struct ps_bytes content;
    struct ps_journal_head head = {0};
    size_t offset = 0;
    ck_assert(memory_files_get(disk, path, &content));
    for (uint64_t i = 0; i < position; i++) {
        struct ps_bytes rest = {content.data + offset, content.size - offset};
        ck_assert_int_eq(ps_journal_head_read(rest, &life, &head), PS_JOURNAL_GOOD);
        offset += head.record_bytes;
    }
    return offset;
}

/* The disk never took these bytes. */
static void zero(size_t from, size_t to)
{
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, path, &content));
    uint8_t *copy = malloc(content.size);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, content.data, content.size);
    ck_assert_uint_le(to, content.size);
    memset(copy + from, 0, to - from);
    memory_files_put(disk, path, (struct ps_bytes){copy, content.size});
    free(copy);
}

static struct sample_result read_all(void)
{
    return sample_read_on(files, &shape, 0, ps_allocator_heap());
}

static size_t sector_after(size_t offset)
{
    return (offset + SECTOR - 1) / SECTOR * SECTOR;
}

START_TEST(a_write_in_flight_whose_middle_was_lost_is_torn_there)
{
    make_journal(20, 0);
    for (uint64_t lost = 4; lost < 23; lost++) {
        struct memory_files *whole = disk;
        disk = memory_files_create(1);
        files = memory_files_files(disk);
        make_journal(20, 0);
        size_t from = sector_after(offset_of(lost));
        zero(from, from + SECTOR);
        struct sample_result result = read_all();

        ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "%s", result.error.text);
        ck_assert_uint_ge(result.last, lost - 1);
        ck_assert_uint_gt(result.cut, 0);

        memory_files_destroy(disk);
        disk = whole;
        files = memory_files_files(disk);
    }
}
END_TEST

START_TEST(the_same_loss_in_a_write_that_was_durable_is_damage)
{
    make_journal(20, 1);
    size_t from = sector_after(offset_of(8));
    zero(from, from + SECTOR);

    struct sample_result result = read_all();

    ck_assert_int_eq(result.status, PS_ERR_CORRUPT);
    ck_assert_uint_eq(result.damage.position, result.last + 1);
}
END_TEST

START_TEST(zeros_of_less_than_a_sector_were_no_lost_write)
{
    make_journal(20, 0);
    size_t from = sector_after(offset_of(8));
    zero(from + 8, from + SECTOR);

    ck_assert_int_eq(read_all().status, PS_ERR_CORRUPT);
}
END_TEST

/* The record before ends in the middle of a sector, which the disk took in its older version. */
START_TEST(the_rest_of_a_sector_may_be_lost_as_well)
{
    make_journal(20, 0);
    size_t from = offset_of(4);
    ck_assert_uint_ne(from % SECTOR, 0);
    zero(from, sector_after(from));

    struct sample_result result = read_all();

    ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(result.last, 3);
}
END_TEST

START_TEST(a_tail_of_zeros_is_torn)
{
    make_journal(5, 0);
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, path, &content));
    zero(offset_of(6), content.size);

    struct sample_result result = read_all();

    ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(result.last, 5);
}
END_TEST

/* Writes record 1 whose content is `content`; then damages its last byte. */
static void make_torn_content(const uint8_t *content, size_t size)
{
    struct journal_maker maker;
    struct ps_bytes piece = {content, size};
    struct ps_record record = {.type = PS_RECORD_PUSH,
                               .position = 1,
                               .epoch = 7,
                               .name = ps_bytes_of_text("w"),
                               .content = ps_view_of(&piece)};
    sample_maker(&maker, files, &shape, 6, 0, PS_JOURNAL_SEGMENT_BYTES);
    ck_assert_int_eq(journal_maker_write(&maker, &record, 1, NULL), PS_OK);
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
    struct ps_bytes whole;
    ck_assert(memory_files_get(disk, path, &whole));
    memory_files_flip(disk, path, whole.size * 8 - 1);
}

/* A client may send anything, a good record of this very journal too. */
START_TEST(a_record_within_a_torn_content_is_no_record)
{
    uint8_t content[PS_JOURNAL_HEAD_BYTES_MAX] = {0};
    struct ps_record forged = {
        .type = PS_RECORD_PUSH, .position = 2, .epoch = 7, .name = ps_bytes_of_text("w")};
    (void)ps_journal_head_write(&forged, &life, 1, 0, content);
    make_torn_content(content, sizeof content);

    struct sample_result result = read_all();

    ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(result.last, 0);
    ck_assert_uint_gt(result.cut, sizeof content);
}
END_TEST

START_TEST(old_records_behind_a_torn_end_are_no_followers)
{
    make_journal(2, 0);
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, path, &content));
    size_t end = content.size;
    size_t from = offset_of(2);
    size_t to = offset_of(3);
    uint8_t *copy = malloc(end + 64 + to - from);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, content.data, end);
    memset(copy + end, 0x55, 64);
    memcpy(copy + end + 64, content.data + from, to - from);
    memory_files_put(disk, path, (struct ps_bytes){copy, end + 64 + to - from});
    free(copy);

    struct sample_result result = read_all();

    ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(result.last, 5);
    ck_assert_uint_eq(result.cut, 64 + to - from);
}
END_TEST

START_TEST(a_failed_read_while_looking_is_an_error)
{
    make_journal(5, 0);
    struct ps_journal_window window;
    struct ps_journal_hole hole = {.epoch = 7, .position = 1};
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    struct ps_journal_ending ending = {0};
    ck_assert_int_eq(ps_journal_window_init(&window, files, ps_allocator_heap(), NULL), PS_OK);
    ck_assert_int_eq(ps_journal_window_open(&window, path, NULL), PS_OK);
    knobs->fail_at = knobs->seen;

    ck_assert_int_eq(ps_journal_scan(&window, &hole, &ending, NULL), PS_ERR_IO);

    ck_assert_int_eq(ps_journal_scan(&window, &hole, &ending, NULL), PS_OK);
    ck_assert(ending.damaged);
    ps_journal_window_fini(&window);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_scan");
    TCase *tests = tcase_create("journal_scan");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_write_in_flight_whose_middle_was_lost_is_torn_there);
    tcase_add_test(tests, the_same_loss_in_a_write_that_was_durable_is_damage);
    tcase_add_test(tests, zeros_of_less_than_a_sector_were_no_lost_write);
    tcase_add_test(tests, the_rest_of_a_sector_may_be_lost_as_well);
    tcase_add_test(tests, a_tail_of_zeros_is_torn);
    tcase_add_test(tests, a_record_within_a_torn_content_is_no_record);
    tcase_add_test(tests, old_records_behind_a_torn_end_are_no_followers);
    tcase_add_test(tests, a_failed_read_while_looking_is_an_error);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
