/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_reader.c over segments of format 2: what is damaged is named, what is torn is
 * cut, and bytes of the file's former life are nothing. */
#include "base/random.h"
#include "made_segment.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ---- Damage ---- */

/* The record that byte `at` belongs to, with the zeros before it: those behind the last one belong
 * to RECORDS + 1. */
static size_t record_at(const struct made *made, size_t at)
{
    size_t record = 0;
    while (record <= RECORDS && made->ends[record] <= at)
        record++;
    return record;
}

/* A bit of byte `at` is turned over. Whatever is before the last flush and its border is vouched
 * for by a later record. */
static void assert_flip(const struct made *made, size_t at, bool noted)
{
    size_t record = record_at(made, at);
    if (record == 0)
        ck_assert_int_eq(read_all().status, PS_ERR_CORRUPT);
    else if (record > RECORDS)
        assert_end(RECORDS, 0);
    else if (record < RECORDS || noted)
        assert_damage(record);
    else if (at < made->begins[record])
        assert_end(RECORDS - 1, made->ends[record] - made->ends[record - 1]);
    else if (at < made->contents[record])
        assert_end(RECORDS - 1, 0);
    else
        assert_end(RECORDS - 1, made->ends[record] - made->begins[record]);
}

/* Every byte of records, and some of the many zeros between them. */
static size_t step_at(const struct made *made, size_t at)
{
    size_t record = record_at(made, at);
    return record > RECORDS || at < made->begins[record] ? 37 : 1;
}

START_TEST(a_flip_in_any_byte_is_noticed)
{
    struct made made;
    struct ps_random random;
    bool noted = _i == 1;
    ps_random_init(&random, 20261123);
    made_short(&made);
    put(made.maker.bytes, made.maker.size);
    if (noted)
        note(RECORDS);
    for (size_t at = 0; at < made.maker.size; at += step_at(&made, at)) {
        uint64_t bit = 8 * at + ps_random_below(&random, 8);
        memory_files_flip(disk, path, bit);

        assert_flip(&made, at, noted);

        memory_files_flip(disk, path, bit);
    }
    assert_end(RECORDS, 0);
    made_fini(&made);
}
END_TEST

/* The file is shorter than it was: what is there counts, and a torn record is told by its head. */
START_TEST(every_truncation_gives_exactly_the_records_before_it)
{
    struct made made;
    made_short(&made);
    for (size_t size = 0; size < made.maker.size; size += step_at(&made, size)) {
        put(made.maker.bytes, size);
        size_t record = record_at(&made, size);
        struct sample_result result = read_all();

        /* The first record was durable before the file had its name. Of nine bytes on nobody takes
         * it for an older format's. */
        if (record == 0 && size > 8) {
            ck_assert_int_eq(result.status, PS_ERR_CORRUPT);
            continue;
        }
        ck_assert_int_eq(result.status, PS_ERR_NOT_FOUND);
        ck_assert_uint_eq(result.last, record == 0 ? 0 : record - 1);
        if (record == 0 || record > RECORDS || size < made.contents[record])
            ck_assert_uint_eq(result.cut, record == 0 ? size : 0);
        else
            ck_assert_uint_eq(result.cut, size - made.begins[record]);
    }
    made_fini(&made);
}
END_TEST

START_TEST(a_truncation_before_the_last_segment_is_damage)
{
    char first[128];
    struct ps_bytes whole;
    journal(7, 1, 8);
    ck_assert(memory_files_get(disk, sample_segment(7, 1, first), &whole));
    ck_assert_uint_gt(memory_files_file_count(disk), 1);
    size_t size = sample_end(whole);
    uint8_t *bytes = malloc(size);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, whole.data, size);
    for (size_t cut = 1; cut <= size; cut += 7) {
        memory_files_put(disk, first, (struct ps_bytes){bytes, size - cut});
        ck_assert_int_eq(read_all().status, PS_ERR_CORRUPT);
    }
    free(bytes);
}
END_TEST

/* ---- Bytes of a former life behind the end ---- */

/* The worst case: the former life has the same positions at the same offsets, and its records
 * continue those of this one without a gap. */
START_TEST(records_of_a_former_life_are_no_records)
{
    struct made made;
    struct made former;
    made_short(&made);
    made_init(&former, 4711);
    made_add(&former, 1, 20, 1);
    for (size_t record = 0; record <= RECORDS; record++) {
        size_t size = (made.ends[record] + BLOCK - 1) / BLOCK * BLOCK;
        put_over(&made, size, &former);

        assert_end(record, 0);
    }
    made_fini(&former);
    made_fini(&made);
}
END_TEST

START_TEST(a_torn_record_over_a_former_life_is_cut)
{
    struct made made;
    struct made former;
    made_short(&made);
    made_init(&former, 4711);
    made_add(&former, 1, 20, 1);
    /* All but the checksum of the head is as it was in the former life. */
    put_over(&made, made.begins[RECORDS] + 6, &former);
    assert_end(RECORDS - 1, 0);
    memset(former.maker.bytes, 0x55, former.maker.size);
    put_over(&made, made.contents[RECORDS], &former);
    assert_end(RECORDS - 1, made.ends[RECORDS] - made.begins[RECORDS]);
    made_fini(&former);
    made_fini(&made);
}
END_TEST

/* What anybody may have sent as a content, and what lies behind the end of this life now. */
START_TEST(bytes_that_look_like_heads_end_nothing_and_prove_nothing)
{
    static const uint8_t facts[PS_JOURNAL_SEGMENT_CONTENT_BYTES] = {0};
    const struct ps_journal_life lives[] = {
        {PS_JOURNAL_FORMAT_1, 0}, {PS_JOURNAL_FORMAT, 0}, {PS_JOURNAL_FORMAT, 99}};
    const struct ps_bytes content = {facts, sizeof facts};
    struct made made;
    uint8_t bytes[BLOCK];
    made_short(&made);
    for (size_t i = 0; i < PS_ARRAY_COUNT(lives); i++)
        for (enum ps_record_type type = PS_RECORD_SEGMENT; type <= PS_RECORD_PUSH; type++)
            for (uint64_t position = RECORDS; position < RECORDS + 3; position++) {
                bool opens = type == PS_RECORD_SEGMENT;
                struct ps_record forged = {.type = type,
                                           .position = position,
                                           .epoch = 7,
                                           .name = ps_bytes_of_text(opens ? "" : "w"),
                                           .content = {NULL, 0, 0}};
                if (opens)
                    forged.content = ps_view_of(&content);
                memset(bytes, 0x55, sizeof bytes);
                (void)ps_journal_head_write(&forged, &lives[i], position + 9, 0, bytes);
                (void)ps_journal_head_write(&forged, &lives[i], position + 9, 0, bytes + 2048);
                put_with(&made, bytes, sizeof bytes);

                assert_end(RECORDS, 0);
            }
    made_fini(&made);
}
END_TEST

START_TEST(a_record_of_a_later_version_in_this_life_is_unsupported)
{
    struct made made;
    made_short(&made);
    struct ps_record later = {.type = (enum ps_record_type)(PS_RECORD_TYPE_LAST + 1),
                              .position = RECORDS + 1,
                              .epoch = 7,
                              .name = ps_bytes_of_text("w")};
    journal_maker_add(&made.maker, &later, RECORDS);
    put(made.maker.bytes, made.maker.size);

    struct sample_result result = read_all();

    ck_assert_int_eq(result.status, PS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(result.last, RECORDS);
    made_fini(&made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_reuse");
    TCase *tests = tcase_create("journal_reuse");
    tcase_add_checked_fixture(tests, set_up_segment, tear_down);
    tcase_add_loop_test(tests, a_flip_in_any_byte_is_noticed, 0, 2);
    tcase_add_test(tests, every_truncation_gives_exactly_the_records_before_it);
    tcase_add_test(tests, a_truncation_before_the_last_segment_is_damage);
    tcase_add_test(tests, records_of_a_former_life_are_no_records);
    tcase_add_test(tests, a_torn_record_over_a_former_life_is_cut);
    tcase_add_test(tests, bytes_that_look_like_heads_end_nothing_and_prove_nothing);
    tcase_add_test(tests, a_record_of_a_later_version_in_this_life_is_unsupported);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
