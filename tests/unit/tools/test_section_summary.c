/* SPDX-License-Identifier: Apache-2.0 */
/* What the records of rounds and clocks come to, for people. */
#include "tools/psckpt/section_summary.h"

#include "checkpoint/journal.h"
#include "checkpoint/journal_held.h"
#include "checkpoint/journal_round.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

#define RECORDS_MAX 40

static struct ps_record records[RECORDS_MAX];
static struct ps_bytes pieces[RECORDS_MAX];
static uint8_t contents[RECORDS_MAX][PS_CLOCKS_RECORD_BYTES];
static size_t record_count;
static struct shard_state state;
static struct section_summary summary;
static struct ps_error error;

static void give(void *self, size_t i, struct ps_record *record)
{
    *record = ((const struct ps_record *)self)[i];
}

static void set_up(void)
{
    record_count = 0;
    shard_state_init(&state, ps_allocator_heap());
}

static void tear_down(void)
{
    shard_state_fini(&state);
}

static uint8_t *add(enum ps_record_type type, const char *name, uint64_t version, size_t size)
{
    size_t at = record_count++;
    pieces[at] = (struct ps_bytes){contents[at], size};
    records[at] = (struct ps_record){.type = type,
                                     .name = ps_bytes_of_text(name),
                                     .version = version,
                                     .content = ps_view_of(&pieces[at])};
    return contents[at];
}

static void add_held(uint32_t worker)
{
    ps_held_head_write(&(struct ps_held_head){worker, 1},
                       add(PS_RECORD_HELD, "w", 6, PS_HELD_HEAD_BYTES + 4));
}

static enum ps_status make(enum ps_checkpoint_section section)
{
    state.facts.sections[section] = (struct ps_checkpoint_records){record_count, give, records};
    return section_summary_make(&summary, &state, &error);
}

START_TEST(a_round_says_who_has_contributed)
{
    static const uint8_t nobody[1] = {0};
    static const uint8_t one[1] = {4};
    (void)ps_round_record_write(&(struct ps_round_record){3, nobody, one},
                                add(PS_RECORD_ROUND, "w", 6, 6));
    add_held(0);
    add_held(11);

    ck_assert_int_eq(make(PS_CHECKPOINT_ROUNDS), PS_OK);

    ck_assert_uint_eq(summary.round_count, 1);
    ck_assert_uint_eq(summary.rounds[0].round, 7);
    ck_assert_uint_eq(summary.rounds[0].held, 2);
    ck_assert_uint_eq(summary.rounds[0].held_bytes, 8);
    ck_assert_uint_eq(summary.rounds[0].evicted, 1);
    ck_assert_str_eq(summary.rounds[0].ranks, "0 11");
    ck_assert_uint_eq(summary.clocks_count, 0);
}
END_TEST

START_TEST(more_workers_than_have_room_end_in_dots)
{
    for (uint32_t worker = 1000; worker < 1024; worker++)
        add_held(worker);

    ck_assert_int_eq(make(PS_CHECKPOINT_ROUNDS), PS_OK);

    const char *ranks = summary.rounds[0].ranks;
    ck_assert_uint_eq(summary.rounds[0].held, 24);
    ck_assert_uint_lt(strlen(ranks), SECTION_RANKS_BYTES);
    ck_assert_str_eq(ranks + strlen(ranks) - 9, " 1011 ...");
}
END_TEST

START_TEST(clocks_whose_workers_are_all_evicted_have_no_minimum)
{
    ps_clocks_record_write(&(struct ps_clocks_record){.workers = 1, .consistency = 2},
                           add(PS_RECORD_CLOCKS, "c", 0, PS_CLOCKS_RECORD_BYTES));
    ps_clock_record_write(&(struct ps_clock_record){0, true, 3},
                          add(PS_RECORD_CLOCK, "c", 0, PS_CLOCK_RECORD_BYTES));

    ck_assert_int_eq(make(PS_CHECKPOINT_CLOCKS), PS_OK);

    ck_assert_uint_eq(summary.clocks[0].minimum, UINT64_MAX);
    ck_assert_uint_eq(summary.clocks[0].evicted, 1);
    ck_assert_str_eq(section_consistency_name(summary.clocks[0].settings.consistency), "bsp");
}
END_TEST

START_TEST(a_worker_without_a_record_is_at_zero)
{
    ps_clocks_record_write(&(struct ps_clocks_record){.workers = 3},
                           add(PS_RECORD_CLOCKS, "c", 0, PS_CLOCKS_RECORD_BYTES));
    ps_clock_record_write(&(struct ps_clock_record){0, false, 3},
                          add(PS_RECORD_CLOCK, "c", 0, PS_CLOCK_RECORD_BYTES));
    ps_clock_record_write(&(struct ps_clock_record){2, false, 5},
                          add(PS_RECORD_CLOCK, "c", 0, PS_CLOCK_RECORD_BYTES));

    ck_assert_int_eq(make(PS_CHECKPOINT_CLOCKS), PS_OK);

    ck_assert_uint_eq(summary.clocks[0].minimum, 0);
    ck_assert_uint_eq(summary.clocks[0].slowest, 1);
}
END_TEST

START_TEST(a_record_that_no_server_writes_is_corrupt)
{
    if (_i == 0)
        (void)add(PS_RECORD_HELD, "w", 6, 3);
    else if (_i == 1)
        (void)add(PS_RECORD_ROUND, "w", 6, 0);
    else if (_i == 2)
        ps_clock_record_write(&(struct ps_clock_record){0, true, 3},
                              add(PS_RECORD_CLOCK, "c", 0, PS_CLOCK_RECORD_BYTES));
    else /* a removal, which journals alone have */
        ps_clocks_record_write(&(struct ps_clocks_record){0},
                               add(PS_RECORD_CLOCKS, "c", 0, PS_CLOCKS_RECORD_BYTES));

    ck_assert_int_eq(make(_i >= 2 ? PS_CHECKPOINT_CLOCKS : PS_CHECKPOINT_ROUNDS), PS_ERR_CORRUPT);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("section_summary");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_round_says_who_has_contributed);
    tcase_add_test(tests, more_workers_than_have_room_end_in_dots);
    tcase_add_test(tests, clocks_whose_workers_are_all_evicted_have_no_minimum);
    tcase_add_test(tests, a_worker_without_a_record_is_at_zero);
    tcase_add_loop_test(tests, a_record_that_no_server_writes_is_corrupt, 0, 4);
    Suite *suite = suite_create("section_summary");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
