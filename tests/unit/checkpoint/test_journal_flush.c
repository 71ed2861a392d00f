/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_reader.c over segments of format 2: flushes that end and tear anywhere, and
 * files that change under the reader. */
#include "made_segment.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ---- Flushes ---- */

/* Writes over the bytes of a block what stood there before. */
static void lose_block(struct made *made, size_t at, uint8_t before)
{
    size_t begin = at / BLOCK * BLOCK;
    size_t size = made->maker.size - begin < BLOCK ? made->maker.size - begin : BLOCK;
    memset(made->maker.bytes + begin, before, size);
}

/* Where the last record of 20 ends whose head is not in the lost block; from record `bad` on. */
static size_t found_end(const struct made *made, size_t bad, size_t lost)
{
    for (size_t record = 20; record >= bad; record--)
        if (made->contents[record] <= lost || made->begins[record] >= lost + BLOCK)
            return made->ends[record];
    return made->begins[bad];
}

/* Blocks of one write reach the disk in any order. */
START_TEST(a_block_that_the_last_flush_lost_tears_it_there)
{
    for (size_t lost = 0; lost < 6; lost++) {
        struct made made;
        small.content_bytes_max = 3000;
        made_init(&made, 0);
        made_add(&made, 1, 3, 1);
        size_t flush = made.maker.size;
        made_add(&made, 4, 20, 17);
        ck_assert_uint_gt(made.maker.size - flush, 6 * BLOCK);
        lose_block(&made, flush + lost * BLOCK, lost % 2 == 0 ? 0 : 0x55);
        put(made.maker.bytes, made.maker.size);
        uint64_t last = 4;
        while (made.ends[last] <= flush + lost * BLOCK)
            last++;

        assert_end(last - 1, found_end(&made, last, flush + lost * BLOCK) - made.begins[last]);

        note(20);
        assert_damage(last);
        made_fini(&made);
        tear_down();
        set_up_segment();
    }
}
END_TEST

START_TEST(the_same_loss_before_a_later_flush_is_damage)
{
    for (size_t lost = 0; lost < 6; lost++) {
        struct made made;
        small.content_bytes_max = 3000;
        made_init(&made, 0);
        size_t flush = made.maker.size;
        made_add(&made, 1, 20, 20);
        made_add(&made, 21, 21, 1);
        uint64_t bad = 1;
        while (made.ends[bad] <= flush + lost * BLOCK)
            bad++;
        lose_block(&made, flush + lost * BLOCK, 0);
        put(made.maker.bytes, made.maker.size);

        assert_damage(bad);
        made_fini(&made);
    }
}
END_TEST

/* Nothing in a content counts, not even what has the salt of this life. */
START_TEST(a_head_within_a_torn_content_is_no_record)
{
    struct made made;
    uint8_t content[2 * BLOCK] = {0};
    made_init(&made, 0);
    struct ps_record forged = {
        .type = PS_RECORD_PUSH, .position = 2, .epoch = 7, .name = ps_bytes_of_text("w")};
    (void)ps_journal_head_write(&forged, &made.maker.life, 1, 0, content);
    struct ps_bytes piece = {content, sizeof content};
    struct ps_record record = forged;
    record.position = 1;
    record.content = ps_view_of(&piece);
    size_t begin = made.maker.size;
    journal_maker_add(&made.maker, &record, 0);
    made.maker.bytes[made.maker.size - 1] ^= 1;
    size_t size = made.maker.size - begin;
    journal_maker_pad(&made.maker);
    put(made.maker.bytes, made.maker.size);

    assert_end(0, size);
    made_fini(&made);
}
END_TEST

/* Reads the journal of one record of `size` bytes and a small one behind it. */
static void assert_read_with(size_t size)
{
    static uint8_t content[3 * BLOCK];
    struct made made;
    struct ps_journal_reader *reader = NULL;
    struct ps_journal_row row = {0};
    uint64_t cut = 0;
    struct ps_bytes piece = {content, size};
    made_init(&made, 0);
    struct ps_record record = {.type = PS_RECORD_PUSH,
                               .position = 1,
                               .epoch = 7,
                               .name = ps_bytes_of_text("w"),
                               .content = ps_view_of(&piece)};
    journal_maker_add(&made.maker, &record, 0);
    journal_maker_pad(&made.maker);
    record.position = 2;
    journal_maker_add(&made.maker, &record, 1);
    journal_maker_pad(&made.maker);
    put(made.maker.bytes, made.maker.size);
    ck_assert_int_eq(
        ps_journal_reader_open(files, SAMPLE_FOLDER, 0, 7, ps_allocator_heap(), &reader, NULL),
        PS_OK);
    for (uint64_t position = 1; position <= 2; position++) {
        ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_OK);
        ck_assert_uint_eq(row.record.position, position);
        ck_assert_uint_eq(row.piece.size, size);
        ps_journal_row_release(&row);
    }
    ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(cut, 0);
    ps_journal_reader_close(reader);
    made_fini(&made);
}

START_TEST(a_flush_may_end_anywhere_in_a_block)
{
    for (size_t size = 0; size < 2 * BLOCK; size += PS_JOURNAL_ALIGNMENT)
        assert_read_with(size);
}
END_TEST

/* Each segment has one flush of many blocks, in a file that has more behind. */
START_TEST(segments_of_one_flush_are_read)
{
    struct journal_maker maker;
    uint8_t behind[BLOCK];
    memset(behind, 0x55, sizeof behind);
    small.content_bytes_max = 3000;
    sample_maker(&maker, files, &small, 6, 0, BLOCK + 1);
    sample_make(&maker, &small, 1, 60, 7);
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
    ck_assert_uint_eq(memory_files_file_count(disk), 9);
    assert_end(60, 0);
    for (size_t i = 0; i < 9; i++) {
        struct ps_bytes whole;
        char name[128];
        (void)strcpy(name, memory_files_path(disk, i));
        ck_assert(memory_files_get(disk, name, &whole));
        uint8_t *bytes = malloc(whole.size + sizeof behind);
        ck_assert_ptr_nonnull(bytes);
        memcpy(bytes, whole.data, whole.size);
        memcpy(bytes + whole.size, behind, sizeof behind);
        memory_files_put(disk, name, (struct ps_bytes){bytes, whole.size + sizeof behind});
        free(bytes);
    }
    assert_end(60, 0);
}
END_TEST

/* ---- Beside a server at work ---- */

/* Makes the bytes of the file at `offset` those, under everybody who has it open. */
static void change(const char *file, size_t offset, const uint8_t *bytes, size_t size)
{
    struct ps_bytes present;
    ck_assert(memory_files_get(disk, file, &present));
    ck_assert_uint_le(offset + size, present.size);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        uint8_t wanted = bytes[bit / 8];
        if (((wanted ^ present.data[offset + bit / 8]) >> bit % 8 & 1) != 0)
            memory_files_flip(disk, file, 8 * offset + bit);
    }
}

/* More than a reader reads ahead, so that the rest is read later. */
static struct ps_journal_reader *read_some(struct made *made, uint64_t count)
{
    struct ps_journal_reader *reader = NULL;
    uint64_t cut = 0;
    put(made->maker.bytes, made->maker.size);
    ck_assert_int_eq(
        ps_journal_reader_open(files, SAMPLE_FOLDER, 0, 7, ps_allocator_heap(), &reader, NULL),
        PS_OK);
    for (uint64_t i = 0; i < count; i++) {
        struct ps_journal_row row = {0};
        ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_OK);
        ps_journal_row_release(&row);
    }
    return reader;
}

START_TEST(a_segment_that_became_another_one_under_the_reader_has_gone)
{
    struct made made;
    struct ps_error error = {0};
    struct ps_journal_row row = {0};
    uint64_t cut = 0;
    small.content_bytes_max = 60000;
    made_init(&made, 0);
    made_add(&made, 1, 30, 1);
    struct ps_journal_reader *reader = read_some(&made, 1);
    uint8_t *other = malloc(made.maker.size);
    ck_assert_ptr_nonnull(other);
    memset(other, 0x55, made.maker.size);
    ck_assert_int_eq(files->rename(files->self, path, SAMPLE_FOLDER "/other", NULL), PS_OK);
    change(SAMPLE_FOLDER "/other", 0, other, made.maker.size);

    enum ps_status status = PS_OK;
    while (status == PS_OK) {
        status = ps_journal_next(reader, &row, &cut, NULL, &error);
        ps_journal_row_release(&row);
    }

    ck_assert_int_eq(status, PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "has gone"));
    ps_journal_reader_close(reader);
    free(other);
    made_fini(&made);
}
END_TEST

/* The file that has the name now is another one, whose life is not that of the bytes read. */
START_TEST(a_segment_that_was_replaced_under_the_reader_has_gone)
{
    struct made made;
    struct made former;
    struct ps_journal_row row = {0};
    uint64_t cut = 0;
    made_init(&former, 4711);
    made_add(&former, 1, 4, 1);
    former.maker.bytes[former.begins[4]] ^= 1;
    made_short(&made);
    struct ps_journal_reader *reader = read_some(&former, 3);
    put(made.maker.bytes, made.maker.size);

    ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_ERR_IO);

    ps_journal_reader_close(reader);
    assert_end(RECORDS, 0);
    made_fini(&former);
    made_fini(&made);
}
END_TEST

/* The reader has read ahead what stood there before record 4 was written, and finds record 5, which
 * says that 4 was durable. */
START_TEST(a_record_that_came_since_it_was_read_ahead_is_read_again)
{
    struct made made;
    uint64_t cut = 0;
    made_init(&made, 0);
    made_add(&made, 1, 3, 1);
    size_t begin = made.maker.size;
    small.content_bytes_max = 2000000;
    made_add(&made, 4, 5, 1);
    ck_assert_uint_gt(made.begins[5], (size_t)300 << 10);
    size_t size = made.maker.size - begin;
    uint8_t *later = malloc(size);
    ck_assert_ptr_nonnull(later);
    memcpy(later, made.maker.bytes + begin, size);
    memset(made.maker.bytes + begin, 0x55, size);
    struct ps_journal_reader *reader = read_some(&made, 3);
    change(path, begin, later, size);

    for (uint64_t position = 4; position <= 5; position++) {
        struct ps_journal_row row = {0};
        ck_assert_int_eq(ps_journal_next(reader, &row, &cut, NULL, NULL), PS_OK);
        sample_assert_row(&row, &small, position);
        ps_journal_row_release(&row);
    }
    ps_journal_reader_close(reader);
    free(later);
    made_fini(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_flush");
    TCase *tests = tcase_create("journal_flush");
    tcase_add_checked_fixture(tests, set_up_segment, tear_down);
    tcase_add_test(tests, a_block_that_the_last_flush_lost_tears_it_there);
    tcase_add_test(tests, the_same_loss_before_a_later_flush_is_damage);
    tcase_add_test(tests, a_head_within_a_torn_content_is_no_record);
    tcase_add_test(tests, a_flush_may_end_anywhere_in_a_block);
    tcase_add_test(tests, segments_of_one_flush_are_read);
    tcase_add_test(tests, a_segment_that_became_another_one_under_the_reader_has_gone);
    tcase_add_test(tests, a_segment_that_was_replaced_under_the_reader_has_gone);
    tcase_add_test(tests, a_record_that_came_since_it_was_read_ahead_is_read_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
