/* SPDX-License-Identifier: Apache-2.0 */
/* clocks/clock_group.c: who is waited for, who is evicted and comes back, and that a group which is
 * built of records is the one that made them. */
#include "server/core/clocks/clock_group.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <string.h>

enum { TTL = 100 };

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_clock_group *group;
static struct ps_clock_look look;
static struct ps_clock_record becomes;
static struct ps_error error;
static uint64_t now_ms;

static struct ps_clock_group *fresh(void)
{
    struct ps_clock_group *made = NULL;
    ck_assert_int_eq(ps_clock_group_create(&memory, ps_bytes_of_text("c"), &made, &error), PS_OK);
    return made;
}

static void configure(struct ps_clock_group *one, struct ps_clocks_record settings)
{
    ck_assert_int_eq(ps_clock_settings_check(&settings, &error), PS_OK);
    ck_assert_int_eq(ps_clock_group_reserve(one, settings.workers, &error), PS_OK);
    ps_clock_group_configure(one, &settings, now_ms);
    ps_clock_group_check(one);
}

static void begin(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    now_ms = 1000;
    group = fresh();
    configure(group, (struct ps_clocks_record){.workers = 3,
                                               .consistency = PS_CONSISTENCY_SSP,
                                               .straggler = PS_STRAGGLER_EVICT,
                                               .ttl_ms = TTL});
}

static void end(void)
{
    ps_clock_group_check(group);
    ps_clock_group_destroy(group);
    ck_assert_int_eq(heap.live, 0);
}

/* What a request does. */
static bool say(uint32_t rank, uint64_t clock)
{
    bool changes = ps_clock_group_say(group, rank, clock, now_ms, &becomes);
    if (changes)
        ps_clock_group_apply(group, &becomes, now_ms);
    ps_clock_group_check(group);
    return changes;
}

static enum ps_status read_at(uint32_t rank, uint64_t clock)
{
    const struct ps_clock_read read = {.rank = rank, .clock = clock};
    return ps_clock_group_read(group, &read, now_ms, &look, &error);
}

/* What a pull that waits does. */
static int evict_all_overdue(void)
{
    int count = 0;
    while (ps_clock_group_overdue(group, now_ms, &becomes)) {
        ck_assert(becomes.evicted);
        ps_clock_group_apply(group, &becomes, now_ms);
        ps_clock_group_check(group);
        count++;
    }
    return count;
}

START_TEST(a_clock_is_said_as_a_number_and_only_rises)
{
    ck_assert(say(0, 5));
    ck_assert(!say(0, 5));
    ck_assert(!say(0, 2));
    ck_assert_uint_eq(ps_clock_group_clock(group, 0), 5);
    ck_assert_uint_eq(ps_clock_group_minimum(group), 0);
    say(1, 3);
    say(2, 4);
    ck_assert_uint_eq(ps_clock_group_minimum(group), 3);
}
END_TEST

START_TEST(a_read_that_waits_says_for_whom_and_until_when)
{
    say(0, 2);
    say(1, 2);
    now_ms += 30;

    ck_assert_int_eq(read_at(0, 2), PS_ERR_NOT_READY);

    ck_assert_uint_eq(look.needed, 2);
    ck_assert_uint_eq(look.staleness, 2);
    ck_assert_uint_eq(look.again_ms, TTL - 30);
    ck_assert_str_eq(error.text, "clocks c: worker 0 reads at clock 2 and waits until all have "
                                 "ended 2 iterations: worker 2 has ended 0, and is silent for "
                                 "0.0 s");
    say(2, 2);
    ck_assert_int_eq(read_at(0, 2), PS_OK);
}
END_TEST

START_TEST(who_is_silent_too_long_at_the_minimum_is_evicted_and_nobody_else)
{
    say(0, 4);
    now_ms += TTL - 1;
    say(1, 1);
    ck_assert_int_eq(evict_all_overdue(), 0);
    now_ms++;

    ck_assert_int_eq(evict_all_overdue(), 1);

    ck_assert(group->workers[2].is_evicted && !group->workers[0].is_evicted);
    ck_assert_uint_eq(ps_clock_group_minimum(group), 1);
    ck_assert_uint_eq(ps_clock_group_clock(group, 2), 0);
    /* An evicted worker reads at its clock, not beyond, and is nobody that others wait for. */
    ck_assert_int_eq(read_at(2, 0), PS_OK);
    ck_assert_int_eq(read_at(2, 1), PS_ERR_MISMATCH);
    ck_assert_int_eq(read_at(0, 4), PS_ERR_NOT_READY);
}
END_TEST

START_TEST(who_comes_back_stands_with_the_slowest)
{
    say(0, 4);
    say(1, 3);
    now_ms += TTL;
    say(0, 4);
    say(1, 3);
    ck_assert_int_eq(evict_all_overdue(), 1);

    ck_assert(say(2, 1));

    ck_assert_uint_eq(ps_clock_group_clock(group, 2), 3);
    ck_assert(!group->workers[2].is_evicted);
    ck_assert(!say(2, 2));
    ck_assert(say(2, 9));
    ck_assert_uint_eq(ps_clock_group_minimum(group), 3);
}
END_TEST

START_TEST(with_everybody_evicted_the_minimum_stays)
{
    say(0, 4);
    say(1, 3);
    say(2, 4);
    now_ms += TTL;

    ck_assert_int_eq(evict_all_overdue(), 3);

    ck_assert_uint_eq(ps_clock_group_minimum(group), 4);
    ck_assert(!ps_clock_group_overdue(group, now_ms, &becomes));
    ck_assert(say(1, 3));
    ck_assert_uint_eq(ps_clock_group_clock(group, 1), 4);
    ck_assert_uint_eq(ps_clock_group_minimum(group), 4);
}
END_TEST

START_TEST(with_everybody_evicted_the_minimum_is_the_highest_of_them)
{
    say(0, 5);
    say(1, 3);
    now_ms += TTL;
    ck_assert_int_eq(evict_all_overdue(), 3);

    ck_assert_uint_eq(ps_clock_group_minimum(group), 5);
    ck_assert(say(0, 5));
    /* A clock of the machine that goes back is no silence. */
    now_ms -= 10;
    ck_assert_uint_eq(ps_clock_group_silent_ms(group, 0, now_ms), 0);
    ck_assert(!ps_clock_group_overdue(group, now_ms, &becomes));
}
END_TEST

START_TEST(nobody_is_evicted_where_the_others_wait)
{
    configure(group, (struct ps_clocks_record){.workers = 3, .consistency = PS_CONSISTENCY_SSP});
    say(0, 4);
    now_ms += 1000 * (uint64_t)TTL;

    ck_assert_int_eq(evict_all_overdue(), 0);
    ck_assert_int_eq(read_at(0, 4), PS_ERR_NOT_READY);
    ck_assert_uint_eq(look.again_ms, 0);
}
END_TEST

START_TEST(ranks_that_come_begin_at_the_minimum_and_those_beyond_go)
{
    struct ps_clocks_record settings = group->settings;
    say(0, 4);
    say(1, 3);
    say(2, 6);

    settings.workers = 5;
    configure(group, settings);
    ck_assert_uint_eq(ps_clock_group_clock(group, 4), 3);
    settings.workers = 1;
    configure(group, settings);
    ck_assert_uint_eq(ps_clock_group_minimum(group), 4);
    ck_assert(!ps_clock_group_has(group, 1));
    ck_assert_int_eq(read_at(1, 0), PS_ERR_NOT_FOUND);
    settings.workers = 3;
    configure(group, settings);
    ck_assert_uint_eq(ps_clock_group_clock(group, 1), 4);
}
END_TEST

START_TEST(settings_that_cannot_be_are_refused_by_name)
{
    const struct ps_clocks_record good = group->settings;
    struct ps_clocks_record bad[9] = {good, good, good, good, good, good, good, good, good};
    bad[0].workers = 0;
    bad[1].workers = PS_CLOCK_WORKERS_MAX + 1;
    bad[2].consistency = PS_CONSISTENCY_COUNT;
    bad[3].straggler = PS_STRAGGLER_COUNT;
    bad[4].ttl_ms = 0;
    bad[5].speculation = 1;
    bad[6].consistency = PS_CONSISTENCY_SPARSE_SSP;
    bad[6].speculation = PS_CLOCK_SPECULATION_MAX + 1;
    bad[7].has_ranks = true;
    bad[8].has_ranks = true;
    bad[8].ranks[0] = 0x0f; /* of 3 workers */
    static const char *const words[] = {"not 0",          "1 to 4096",    "consistency 4",
                                        "straggler 2",    "ttl_ms",       "is of SPARSE_SSP",
                                        "speculation 65", "at least one", "ranks"};
    for (int i = 0; i < 9; i++) {
        ck_assert_int_eq(ps_clock_settings_check(&bad[i], &error), PS_ERR_BAD_INPUT);
        ck_assert_ptr_nonnull(strstr(error.text, words[i]));
        ck_assert(!ps_clock_settings_equal(&bad[i], &good));
    }
    ck_assert(ps_clock_settings_equal(&good, &group->settings));
}
END_TEST

/* ---- Tasks ---- */

static struct ps_clocks_record task_of(uint64_t task, uint64_t clock, uint8_t ranks)
{
    struct ps_clocks_record asked = group->settings;
    struct ps_clocks_record settings;
    asked.task = task;
    asked.clock = clock;
    asked.has_ranks = ranks != 0;
    memset(asked.ranks, 0, sizeof asked.ranks);
    asked.ranks[0] = ranks;
    ck_assert_int_eq(ps_clock_group_settle(group, &asked, &settings, &error), PS_OK);
    return settings;
}

START_TEST(a_task_begins_with_all_clocks_at_one_and_nobody_evicted)
{
    say(0, 9);
    say(1, 7);
    now_ms += TTL;
    ck_assert_int_eq(evict_all_overdue(), 3);

    struct ps_clocks_record settings = task_of(1, 5, 0);
    ck_assert(settings.begins);
    configure(group, settings);

    for (uint32_t rank = 0; rank < 3; rank++)
        ck_assert_uint_eq(ps_clock_group_clock(group, rank), 5);
    ck_assert_uint_eq(ps_clock_group_minimum(group), 5);
    ck_assert_int_eq(read_at(2, 5), PS_OK);
}
END_TEST

START_TEST(fresh_clocks_begin_where_their_settings_say)
{
    struct ps_clock_group *other = fresh();
    struct ps_clocks_record asked = group->settings;
    struct ps_clocks_record settings;
    asked.clock = 5;
    ck_assert_int_eq(ps_clock_group_settle(other, &asked, &settings, &error), PS_OK);
    ck_assert(settings.begins);
    configure(other, settings);
    ck_assert_uint_eq(ps_clock_group_minimum(other), 5);
    settings.task++;
    ck_assert(!ps_clock_settings_equal(&settings, &other->settings));
    ps_clock_group_destroy(other);
}
END_TEST

/* Whoever asks for a task that is begun finds it there, wherever its workers are by then. */
START_TEST(a_task_begins_once_and_one_that_is_over_is_refused)
{
    struct ps_clocks_record settings;
    configure(group, task_of(2, 5, 0));
    say(0, 6);

    ck_assert(!task_of(2, 5, 0).begins);
    ck_assert(!task_of(0, 0, 0).begins);
    ck_assert_uint_eq(task_of(0, 0, 0).task, 2);
    ck_assert_uint_eq(task_of(2, 99, 0).clock, 5);
    settings = task_of(2, 99, 0);
    ck_assert(ps_clock_settings_equal(&settings, &group->settings));
    ck_assert_uint_eq(ps_clock_group_clock(group, 0), 6);

    struct ps_clocks_record late = group->settings;
    late.task = 1;
    ck_assert_int_eq(ps_clock_group_settle(group, &late, &settings, &error), PS_ERR_MISMATCH);
    ck_assert_str_eq(error.text, "clocks c are in task 2, and task 1 is over");
}
END_TEST

START_TEST(who_takes_no_part_is_not_there_and_not_waited_for)
{
    configure(group, task_of(1, 0, 0x05));

    ck_assert(ps_clock_group_has(group, 0) && ps_clock_group_has(group, 2));
    ck_assert(!ps_clock_group_has(group, 1));
    ck_assert_int_eq(read_at(1, 0), PS_ERR_NOT_FOUND);
    say(0, 3);
    say(2, 4);
    ck_assert_uint_eq(ps_clock_group_minimum(group), 3);

    /* In the same task: who comes begins at the minimum, who goes is not waited for. */
    configure(group, task_of(1, 0, 0x06));
    ck_assert_uint_eq(ps_clock_group_clock(group, 1), 3);
    ck_assert(!ps_clock_group_has(group, 0));
    say(1, 4);
    ck_assert_uint_eq(ps_clock_group_minimum(group), 4);
    configure(group, task_of(1, 0, 0));
    ck_assert_uint_eq(ps_clock_group_clock(group, 0), 4);
}
END_TEST

/* ---- Rows of tables ---- */

static enum ps_status read_rows_at(uint32_t rank, uint64_t clock, uint64_t key)
{
    const struct ps_bytes keys = {(const uint8_t *)&key, sizeof key};
    const struct ps_clock_read read = {
        .rank = rank, .clock = clock, .is_sparse = true, .keys = ps_view_of(&keys), .room = 100};
    return ps_clock_group_read(group, &read, now_ms, &look, &error);
}

static void be_sparse(uint32_t workers)
{
    configure(group, (struct ps_clocks_record){.workers = workers,
                                               .consistency = PS_CONSISTENCY_SPARSE_SSP,
                                               .speculation = 1,
                                               .straggler = PS_STRAGGLER_EVICT,
                                               .ttl_ms = TTL});
}

START_TEST(rows_are_read_ahead_when_nobody_slower_has_announced_them)
{
    be_sparse(2);
    ck_assert_int_eq(read_rows_at(0, 0, 7), PS_OK);
    ck_assert(look.announces);
    ck_assert_int_eq(read_rows_at(0, 1, 7), PS_ERR_NOT_READY);
    ck_assert(look.announces && look.needed == 0 && look.again_ms == 0);
    say(0, 1);
    ck_assert_int_eq(read_rows_at(0, 1, 7), PS_ERR_NOT_READY);
    ck_assert(!look.announces && look.needed == 1 && look.again_ms > 0);

    ck_assert_int_eq(read_rows_at(1, 0, 8), PS_OK);

    ck_assert_int_eq(read_rows_at(0, 1, 7), PS_OK);
    ck_assert_int_eq(read_at(0, 1), PS_ERR_NOT_READY); /* a whole parameter */
}
END_TEST

/* A read that waits for its own worker is asked again and again, also when that worker is dead. */
START_TEST(an_announcement_that_waits_is_no_sign_of_life)
{
    be_sparse(2);
    ck_assert_int_eq(read_rows_at(1, 1, 8), PS_ERR_NOT_READY);
    say(0, 1);
    now_ms += TTL;
    ck_assert_int_eq(read_rows_at(1, 1, 8), PS_ERR_NOT_READY);
    ck_assert_int_eq(read_rows_at(0, 1, 8), PS_ERR_NOT_READY);

    ck_assert_int_eq(evict_all_overdue(), 1);

    ck_assert_int_eq(read_rows_at(0, 1, 8), PS_OK);
    ck_assert_int_eq(read_rows_at(1, 1, 8), PS_ERR_NOT_READY);
    ck_assert_str_eq(error.text, "clocks c: worker 1 is evicted, and reads at clock 1");
    say(1, 1);
    ck_assert_int_eq(read_rows_at(1, 1, 8), PS_OK);
}
END_TEST

START_TEST(a_task_forgets_what_was_announced)
{
    be_sparse(2);
    ck_assert_int_eq(read_rows_at(1, 0, 7), PS_OK);
    ck_assert_int_eq(read_rows_at(0, 1, 7), PS_ERR_NOT_READY);
    ck_assert_uint_eq(group->sparse.key_count, 2);

    configure(group, task_of(1, 0, 0));

    ck_assert_uint_eq(group->sparse.key_count, 0);
    ck_assert_int_eq(read_rows_at(1, 0, 9), PS_OK);
}
END_TEST

/* 20,000 events of 12 workers: a group that is built of the records alone is the same at every
 * moment, the minimum never falls, and no read that goes misses more than it may. */
START_TEST(a_group_built_of_its_records_is_the_same)
{
    enum { WORKERS = 12, EVENTS = 20000 };
    uint32_t staleness = (uint32_t)_i;
    const struct ps_clocks_record settings = {.workers = WORKERS,
                                              .consistency = PS_CONSISTENCY_SSP,
                                              .staleness = staleness,
                                              .straggler = PS_STRAGGLER_EVICT,
                                              .ttl_ms = TTL};
    struct ps_clock_group *other = fresh();
    struct ps_random random;
    ps_random_init(&random, (uint64_t)_i + 1);
    configure(group, settings);
    configure(other, settings);
    uint64_t minimum = 0;
    for (int event = 0; event < EVENTS; event++) {
        uint32_t rank = (uint32_t)ps_random_below(&random, WORKERS);
        uint64_t clock = ps_clock_group_clock(group, rank);
        bool was_evicted = group->workers[rank].is_evicted;
        now_ms += ps_random_below(&random, 2 * TTL / WORKERS);
        enum ps_status status = read_at(rank, clock);
        if (status == PS_OK) {
            ck_assert(was_evicted || clock <= ps_clock_group_minimum(group) + staleness);
            if (ps_clock_group_say(group, rank, clock + 1, now_ms, &becomes)) {
                ps_clock_group_apply(group, &becomes, now_ms);
                ps_clock_group_apply(other, &becomes, 0);
            }
        } else if (ps_clock_group_overdue(group, now_ms, &becomes)) {
            ps_clock_group_apply(group, &becomes, now_ms);
            ps_clock_group_apply(other, &becomes, 0);
        }
        ck_assert_uint_ge(ps_clock_group_minimum(group), minimum);
        minimum = ps_clock_group_minimum(group);
        ck_assert_uint_eq(ps_clock_group_minimum(other), minimum);
        ck_assert_uint_eq(ps_clock_group_clock(other, rank), ps_clock_group_clock(group, rank));
        ck_assert(other->workers[rank].is_evicted == group->workers[rank].is_evicted);
    }
    ck_assert_uint_gt(minimum, 100);
    ps_clock_group_check(other);
    ps_clock_group_destroy(other);
}
END_TEST

START_TEST(making_one_survives_any_refused_allocation)
{
    struct fault_heap small = {.refuse_at = _i};
    const struct ps_allocator refusing = fault_heap_allocator(&small);
    struct ps_clock_group *made = NULL;

    enum ps_status status = ps_clock_group_create(&refusing, ps_bytes_of_text("c"), &made, &error);
    if (status == PS_OK)
        status = ps_clock_group_reserve(made, 20, &error);

    ck_assert_int_eq(status, _i < 4 ? PS_ERR_NO_MEMORY : PS_OK);
    ps_clock_group_destroy(made);
    ck_assert_int_eq(small.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock_group");
    TCase *tests = tcase_create("clock_group");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_clock_is_said_as_a_number_and_only_rises);
    tcase_add_test(tests, a_read_that_waits_says_for_whom_and_until_when);
    tcase_add_test(tests, who_is_silent_too_long_at_the_minimum_is_evicted_and_nobody_else);
    tcase_add_test(tests, who_comes_back_stands_with_the_slowest);
    tcase_add_test(tests, with_everybody_evicted_the_minimum_stays);
    tcase_add_test(tests, with_everybody_evicted_the_minimum_is_the_highest_of_them);
    tcase_add_test(tests, nobody_is_evicted_where_the_others_wait);
    tcase_add_test(tests, ranks_that_come_begin_at_the_minimum_and_those_beyond_go);
    tcase_add_test(tests, settings_that_cannot_be_are_refused_by_name);
    tcase_add_test(tests, a_task_begins_with_all_clocks_at_one_and_nobody_evicted);
    tcase_add_test(tests, fresh_clocks_begin_where_their_settings_say);
    tcase_add_test(tests, a_task_begins_once_and_one_that_is_over_is_refused);
    tcase_add_test(tests, who_takes_no_part_is_not_there_and_not_waited_for);
    tcase_add_test(tests, rows_are_read_ahead_when_nobody_slower_has_announced_them);
    tcase_add_test(tests, an_announcement_that_waits_is_no_sign_of_life);
    tcase_add_test(tests, a_task_forgets_what_was_announced);
    tcase_add_loop_test(tests, a_group_built_of_its_records_is_the_same, 0, 4);
    tcase_add_loop_test(tests, making_one_survives_any_refused_allocation, 0, 5);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
