/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/section.c: which records stand where, and how many bytes they take. */
#include "checkpoint/section.h"

#include "run_suite.h"
#include "sample_sections.h"

#include <check.h>

START_TEST(each_type_of_a_section_has_one)
{
    for (int type = 0; type <= PS_RECORD_TYPE_LAST + 1; type++) {
        enum ps_record_type of = (enum ps_record_type)type;
        bool rounds = of == PS_RECORD_HELD || of == PS_RECORD_ROUND;
        bool clocks = of == PS_RECORD_CLOCKS || of == PS_RECORD_CLOCK;
        bool candidates = of == PS_RECORD_CANDIDATES;
        ck_assert_int_eq(ps_section_takes(PS_CHECKPOINT_ROUNDS, of), rounds);
        ck_assert_int_eq(ps_section_takes(PS_CHECKPOINT_CLOCKS, of), clocks);
        ck_assert_int_eq(ps_section_takes(PS_CHECKPOINT_CANDIDATES, of), candidates);
    }
}
END_TEST

START_TEST(names_of_sections_are_known_as_such)
{
    ck_assert_str_eq(ps_section_name(PS_CHECKPOINT_ROUNDS), "ps.rounds");
    ck_assert_str_eq(ps_section_name(PS_CHECKPOINT_CLOCKS), "ps.clocks");
    ck_assert_str_eq(ps_section_name(PS_CHECKPOINT_CANDIDATES), "ps.candidates");
    ck_assert(ps_section_is_name(ps_bytes_of_text("ps.candidates")));
    ck_assert(ps_section_is_name(ps_bytes_of_text("ps.rounds")));
    ck_assert(ps_section_is_name(ps_bytes_of_text("ps.clocks")));
    ck_assert(!ps_section_is_name(ps_bytes_of_text("ps.round")));
    ck_assert(!ps_section_is_name(ps_bytes_of_text("ps.rounds/w")));
}
END_TEST

/* The header says the size before a byte is written. */
START_TEST(the_size_is_that_of_heads_and_contents_with_their_zeros)
{
    struct ps_checkpoint_facts facts = {.position = 3, .epoch = 2};
    uint8_t head[PS_JOURNAL_HEAD_BYTES_MAX];
    sample_sections(&facts);
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++) {
        uint64_t bytes = 0;
        for (size_t j = 0; j < facts.sections[i].count; j++) {
            struct ps_record record;
            bytes += ps_section_record(&facts, i, j, &record, head);
            bytes += record.content.size + ps_journal_padding(record.content.size);
            ck_assert_uint_eq(record.position, 3);
            ck_assert_uint_eq(record.epoch, 2);
        }
        ck_assert_uint_eq(ps_section_bytes(&facts.sections[i]), bytes);
    }
    ck_assert_uint_eq(ps_section_bytes(&(struct ps_checkpoint_records){0}), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("section");
    tcase_add_test(tests, each_type_of_a_section_has_one);
    tcase_add_test(tests, names_of_sections_are_known_as_such);
    tcase_add_test(tests, the_size_is_that_of_heads_and_contents_with_their_zeros);
    Suite *suite = suite_create("section");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
