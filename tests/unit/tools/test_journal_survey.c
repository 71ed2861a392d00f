/* SPDX-License-Identifier: Apache-2.0 */
/* What a survey says of every segment of a folder, in both formats. */
#include "tools/psckpt/journal_survey.h"

#include "run_suite.h"
#include "tests/support/checkpoint/journal_maker.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "data/shard-0"
#define RECORDS 6

static struct memory_files *disk;
static const struct ps_files *files;
static struct progress progress;
static struct toolbox box;
static struct journal_survey survey;
static struct ps_error error;
static uint32_t format;

static void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    progress_init(&progress, ps_clock_real(), false);
    box = (struct toolbox){files, ps_allocator_heap(), &progress};
}

static void set_up_format_1(void)
{
    format = PS_JOURNAL_FORMAT_1;
    set_up();
}

static void set_up_format_2(void)
{
    format = PS_JOURNAL_FORMAT;
    set_up();
}

static void tear_down(void)
{
    journal_survey_fini(&survey);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
}

/* Writes first..last as `epoch`, each a flush, in segments of about three. Returns where the last
 * record ends in the last segment. */
static size_t write_journal(uint64_t epoch, uint64_t first, uint64_t last)
{
    static const uint8_t bytes[100] = {1};
    const struct ps_bytes piece = {bytes, sizeof bytes};
    const struct ps_journal_facts facts = {
        .shard_count = 1, .epoch = epoch, .position = first - 1, .previous_epoch = epoch - 1};
    bool reused = format == PS_JOURNAL_FORMAT;
    struct journal_maker maker;
    ck_assert_int_eq(journal_maker_begin(&maker, files, FOLDER, &facts, format,
                                         reused ? 4 * PS_JOURNAL_BLOCK_BYTES : 600, NULL),
                     PS_OK);
    for (uint64_t position = first; position <= last; position++) {
        const struct ps_record record = {.type = PS_RECORD_PUSH,
                                         .position = position,
                                         .epoch = epoch,
                                         .name = ps_bytes_of_text("w"),
                                         .content = ps_view_of(&piece)};
        ck_assert_int_eq(journal_maker_write(&maker, &record, 1, NULL), PS_OK);
    }
    size_t end = maker.end;
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
    return end;
}

static const struct segment_survey *survey_row(size_t i)
{
    journal_survey_fini(&survey);
    ck_assert_msg(journal_survey_init(&survey, &box, FOLDER, &error) == PS_OK, "%s", error.text);
    ck_assert_uint_lt(i, survey.count);
    return &survey.rows[i];
}

static const char *path_of(uint64_t epoch, uint64_t first)
{
    static char path[PS_JOURNAL_PATH_BYTES];
    ck_assert_int_eq(
        ps_journal_path_write(FOLDER, (struct ps_journal_segment){epoch, first}, path, NULL),
        PS_OK);
    return path;
}

/* Puts the first `size` bytes of a file, and `behind` bytes of anything. */
static void put_part(const char *path, size_t size, size_t behind)
{
    struct ps_bytes whole;
    ck_assert(memory_files_get(disk, path, &whole));
    uint8_t *bytes = malloc(size + behind + 1);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, whole.data, size);
    memset(bytes + size, 0x55, behind);
    memory_files_put(disk, path, (struct ps_bytes){bytes, size + behind});
    free(bytes);
}

START_TEST(whole_segments_have_their_positions_and_bytes)
{
    (void)write_journal(7, 1, RECORDS);
    const struct segment_survey *row = survey_row(0);
    struct ps_bytes whole;
    uint64_t position = 1;
    for (; row < survey.rows + survey.count; row++) {
        ck_assert(memory_files_get(disk, path_of(7, row->first), &whole));
        ck_assert_int_eq(row->finding, SEGMENT_WHOLE);
        ck_assert_uint_eq(row->first, position);
        ck_assert_uint_ge(row->last, row->first);
        ck_assert_uint_eq(row->bytes, row->offset);
        ck_assert_uint_le(row->bytes, whole.size);
        ck_assert_uint_gt(row->bytes + PS_JOURNAL_BLOCK_BYTES, whole.size);
        position = row->last + 1;
    }
    ck_assert_uint_gt(survey.count, 1);
    ck_assert_uint_eq(position, RECORDS + 1);
}
END_TEST

/* The bytes of a former life are nobody's. */
START_TEST(a_file_that_was_a_segment_before_counts_up_to_its_records)
{
    if (format != PS_JOURNAL_FORMAT)
        return;
    (void)write_journal(7, 1, 2);
    struct ps_bytes whole;
    const char *path = path_of(7, 1);
    ck_assert(memory_files_get(disk, path, &whole));
    size_t size = whole.size;
    put_part(path, size, 70000);

    const struct segment_survey *row = survey_row(0);

    ck_assert_int_eq(row->finding, SEGMENT_WHOLE);
    ck_assert_uint_eq(row->last, 2);
    ck_assert_uint_eq(row->bytes, size);
}
END_TEST

/* The former owner's last segment ends where the next epoch begins, or a little behind. */
START_TEST(a_former_owners_end_is_whole)
{
    for (uint64_t last = 2; last <= 3; last++) {
        (void)write_journal(7, 1, last);
        (void)write_journal(8, 3, 4);
        if (format == PS_JOURNAL_FORMAT) {
            struct ps_bytes whole;
            ck_assert(memory_files_get(disk, path_of(7, 1), &whole));
            put_part(path_of(7, 1), whole.size, 70000);
        }
        ck_assert_int_eq(survey_row(0)->finding, SEGMENT_WHOLE);
        ck_assert_uint_eq(survey.rows[0].last, last);
        tear_down();
        set_up();
    }
}
END_TEST

START_TEST(an_end_before_the_next_epoch_is_damage)
{
    (void)write_journal(7, 1, 2);
    (void)write_journal(8, 4, 4);
    ck_assert_int_eq(survey_row(0)->finding, SEGMENT_DAMAGED);
    ck_assert_int_eq(survey.rows[1].finding, SEGMENT_WHOLE);
}
END_TEST

START_TEST(a_torn_end_is_told_from_a_fenced_one)
{
    size_t end = write_journal(7, 1, 2);
    put_part(path_of(7, 1), end - 50, 0);
    const struct segment_survey *row = survey_row(0);
    ck_assert_int_eq(row->finding, SEGMENT_TORN);
    ck_assert_uint_eq(row->last, 1);
    ck_assert_uint_eq(row->bytes, end - 50);
    ck_assert_uint_lt(row->offset, row->bytes);

    (void)write_journal(8, 2, 4);
    ck_assert_int_eq(survey_row(0)->finding, SEGMENT_FENCED);
    ck_assert_int_eq(files->remove(files->self, path_of(8, 2), NULL), PS_OK);
    (void)write_journal(8, 3, 4);
    ck_assert_int_eq(survey_row(0)->finding, SEGMENT_DAMAGED);
}
END_TEST

/* Of the last flush of a file that may have been a segment before, a damaged head cannot be told
 * from what was there then: the notes miss that record. */
START_TEST(a_flipped_bit_up_to_the_last_record_is_found)
{
    const char *path = path_of(7, 1);
    size_t end = write_journal(7, 1, 2);
    for (uint64_t bit = 0; bit < end * 8; bit += format == PS_JOURNAL_FORMAT ? 61 : 3) {
        memory_files_flip(disk, path, bit);

        const struct segment_survey *row = survey_row(0);

        if (format == PS_JOURNAL_FORMAT_1 || row->last != 1)
            ck_assert_int_ne(row->finding, SEGMENT_WHOLE);
        ck_assert_uint_le(row->offset, bit / 8);
        memory_files_flip(disk, path, bit);
    }
}
END_TEST

/* A name that is there when the folder is listed, and whose file is gone when it is looked at. */
struct vanishing {
    struct ps_files files;
    const struct ps_files *under;
    int times;
};

static enum ps_status open_none(void *self, const char *path, enum ps_file_mode mode,
                                struct ps_file *file, struct ps_error *why)
{
    struct vanishing *vanishing = self;
    if (vanishing->times-- > 0)
        return ps_fail(why, PS_ERR_NOT_FOUND, "%s: gone", path);
    return vanishing->under->open(vanishing->under->self, path, mode, file, why);
}

static enum ps_status read_under(void *self, struct ps_file file, uint64_t offset,
                                 void *destination, size_t size, size_t *got, struct ps_error *why)
{
    const struct ps_files *under = ((struct vanishing *)self)->under;
    return under->read(under->self, file, offset, destination, size, got, why);
}

static enum ps_status size_under(void *self, struct ps_file file, uint64_t *size,
                                 struct ps_error *why)
{
    const struct ps_files *under = ((struct vanishing *)self)->under;
    return under->size(under->self, file, size, why);
}

static void close_under(void *self, struct ps_file file)
{
    const struct ps_files *under = ((struct vanishing *)self)->under;
    under->close(under->self, file);
}

static enum ps_status list_under(void *self, const char *path, ps_file_entry_fn entry,
                                 void *context, struct ps_error *why)
{
    const struct ps_files *under = ((struct vanishing *)self)->under;
    return under->list(under->self, path, entry, context, why);
}

START_TEST(a_segment_that_has_gone_lets_the_survey_begin_again)
{
    struct vanishing vanishing = {.under = files};
    vanishing.files = (struct ps_files){.open = open_none,
                                        .read = read_under,
                                        .size = size_under,
                                        .close = close_under,
                                        .list = list_under,
                                        .self = &vanishing};
    box.files = &vanishing.files;
    (void)write_journal(7, 1, RECORDS);
    vanishing.times = 2;

    ck_assert_int_eq(survey_row(0)->finding, SEGMENT_WHOLE);

    vanishing.times = 1000;
    journal_survey_fini(&survey);
    ck_assert_int_eq(journal_survey_init(&survey, &box, FOLDER, &error), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "has gone"));
    box.files = files;
}
END_TEST

START_TEST(one_file_is_surveyed_by_itself)
{
    (void)write_journal(7, 1, 2);
    ck_assert_int_eq(journal_survey_file(&survey, &box, path_of(7, 1), &error), PS_OK);
    ck_assert_uint_eq(survey.count, 1);
    ck_assert_int_eq(survey.rows[0].finding, SEGMENT_WHOLE);
    journal_survey_fini(&survey);
    ck_assert_int_eq(journal_survey_file(&survey, &box, FOLDER "/a.journal", &error),
                     PS_ERR_BAD_INPUT);
}
END_TEST

static TCase *make_case(const char *name, SFun set_up_format)
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, set_up_format, tear_down);
    tcase_add_test(tests, whole_segments_have_their_positions_and_bytes);
    tcase_add_test(tests, a_file_that_was_a_segment_before_counts_up_to_its_records);
    tcase_add_test(tests, a_former_owners_end_is_whole);
    tcase_add_test(tests, an_end_before_the_next_epoch_is_damage);
    tcase_add_test(tests, a_torn_end_is_told_from_a_fenced_one);
    tcase_add_test(tests, a_flipped_bit_up_to_the_last_record_is_found);
    tcase_add_test(tests, a_segment_that_has_gone_lets_the_survey_begin_again);
    tcase_add_test(tests, one_file_is_surveyed_by_itself);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("journal_survey");
    suite_add_tcase(suite, make_case("format 1", set_up_format_1));
    suite_add_tcase(suite, make_case("format 2", set_up_format_2));
    return run_suite(suite);
}
