/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/row_ages_text.c: what is written is read again, and whatever no server has written is
 * refused. */
#include "server/core/update/row_ages_text.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS (PS_ROW_AGE_STEPS + 2)
#define HOUR_MS UINT64_C(3600000)

static const struct ps_table_settings both = {.expire_ms = 1600, .expire_clocks = 4};
static char text[PS_ROW_AGES_TEXT_BYTES];

static struct ps_bytes bytes_of(const char *from)
{
    return (struct ps_bytes){(const uint8_t *)from, strlen(from)};
}

/* Of version 100, at a time of 5000 milliseconds. */
static bool reads(const char *from, uint64_t passed_ms, struct ps_row_expiry *expiry)
{
    const struct ps_row_ages_read read = {ps_row_ages_time(5000), passed_ms, 100};
    *expiry = (struct ps_row_expiry){0};
    return ps_row_ages_text_read(bytes_of(from), &read, expiry, NULL) == PS_OK;
}

START_TEST(a_text_says_ages_and_versions_in_digits)
{
    struct ps_row_expiry expiry = {
        .by_time = {{{ps_row_ages_time(1000), 3}, {ps_row_ages_time(1500), 7}}, 2},
        .by_clock = {{{6, 5}}, 1},
        .due = 2};

    size_t size = ps_row_ages_text_write(&expiry, &both, ps_row_ages_time(5000), text);

    ck_assert_str_eq(text, "due 2 time 4000 3 3500 7 clocks 6 5");
    ck_assert_uint_eq(size, strlen(text));
}
END_TEST

START_TEST(of_what_does_not_expire_nothing_is_said)
{
    const struct ps_table_settings none = {0}, by_clock = {.expire_clocks = 4};
    struct ps_row_expiry expiry = {.by_time = {{{ps_row_ages_time(1000), 3}}, 1},
                                   .by_clock = {{{6, 5}}, 1},
                                   .due = 2,
                                   .swept = 2};

    ck_assert_uint_eq(ps_row_ages_text_write(&expiry, &none, ps_row_ages_time(5000), text), 0);
    ck_assert_str_eq(text, "");
    (void)ps_row_ages_text_write(&expiry, &by_clock, ps_row_ages_time(5000), text);
    ck_assert_str_eq(text, "clocks 6 5");
}
END_TEST

/* Random tables: what is known comes back, all of it as old as it was, on a machine that began
 * at another time. */
START_TEST(what_is_written_is_read_again)
{
    struct ps_random random;
    ps_random_init(&random, (uint64_t)_i);
    struct ps_row_expiry expiry = {0}, found = {0};
    const uint64_t now = ps_row_ages_time(100 * HOUR_MS), then = ps_row_ages_time(7);
    uint64_t version = 0, time = ps_row_ages_time(0), clock = 0;
    expiry.by_time.count = ps_random_next(&random) % (PAIRS + 1);
    expiry.by_clock.count = ps_random_next(&random) % (PAIRS + 1);
    for (size_t i = 0; i < PAIRS; i++) {
        version += ps_random_next(&random) % 3;
        expiry.by_time.seen[i] =
            (struct ps_row_age){time += ps_random_next(&random) % HOUR_MS, version};
        expiry.by_clock.seen[i] =
            (struct ps_row_age){clock += ps_random_next(&random) % 9, version};
    }
    expiry.due = ps_random_next(&random) % (version + 2);
    size_t size = ps_row_ages_text_write(&expiry, &both, now, text);
    const struct ps_row_ages_read read = {then, 0, version};

    bool is_read = ps_row_ages_text_read(bytes_of(text), &read, &found, NULL) == PS_OK;

    ck_assert_msg(is_read == (size > 0), "seed %d: %s", _i, text);
    ck_assert_uint_eq(found.due, expiry.due);
    ck_assert_uint_eq(found.by_time.count, expiry.by_time.count);
    ck_assert_uint_eq(found.by_clock.count, expiry.by_clock.count);
    for (size_t i = 0; i < found.by_time.count; i++) {
        ck_assert_uint_eq(then - found.by_time.seen[i].at, now - expiry.by_time.seen[i].at);
        ck_assert_uint_eq(found.by_time.seen[i].version, expiry.by_time.seen[i].version);
    }
    for (size_t i = 0; i < found.by_clock.count; i++)
        ck_assert_mem_eq(&found.by_clock.seen[i], &expiry.by_clock.seen[i],
                         sizeof found.by_clock.seen[i]);
}
END_TEST

START_TEST(the_time_in_between_makes_rows_older)
{
    struct ps_row_expiry expiry;

    ck_assert(reads("time 4000 3 0 7", 50, &expiry));

    ck_assert_uint_eq(ps_row_ages_time(5000) - expiry.by_time.seen[0].at, 4050);
    ck_assert_uint_eq(ps_row_ages_time(5000) - expiry.by_time.seen[1].at, 50);
}
END_TEST

/* Older than the time that ages are counted in: as old as can be said, and never in the future. */
START_TEST(an_age_beyond_all_time_stays_in_the_past)
{
    struct ps_row_expiry expiry;

    ck_assert(reads("time 18446744073709551615 3 4611686018427392904 3 1 4", 50, &expiry));

    ck_assert_uint_eq(expiry.by_time.seen[0].at, 0);
    ck_assert_uint_eq(expiry.by_time.seen[1].at, 0);
    ck_assert_uint_eq(ps_row_ages_look(&expiry.by_time, 1000, ps_row_ages_time(5000), 100), 4);
}
END_TEST

START_TEST(nothing_counts_of_a_clock_that_was_put_back_and_a_step_at_most_else)
{
    const uint64_t ms = 1000000, day = UINT64_C(86400000) * ms;

    ck_assert_uint_eq(ps_row_ages_passed(HOUR_MS, 5 * day, 5 * day), 0);
    ck_assert_uint_eq(ps_row_ages_passed(HOUR_MS, 5 * day, 4 * day), 0);
    ck_assert_uint_eq(ps_row_ages_passed(HOUR_MS, 5 * day, 0), 0);
    ck_assert_uint_eq(ps_row_ages_passed(HOUR_MS, 5 * day, 5 * day + 70 * ms), 70);
    ck_assert_uint_eq(ps_row_ages_passed(HOUR_MS, 5 * day, 9 * day), HOUR_MS / PS_ROW_AGE_STEPS);
    ck_assert_uint_eq(ps_row_ages_passed(HOUR_MS, 0, UINT64_MAX), HOUR_MS / PS_ROW_AGE_STEPS);
    ck_assert_uint_eq(ps_row_ages_passed(0, 5 * day, 9 * day), 0);
}
END_TEST

static const char *const refused[] = {
    "",
    " ",
    "due",
    "due ",
    "due 0",
    "due 102",
    "due x",
    "due 5 ",
    " due 5",
    "due 5 due 5",
    "due  5",
    "due 5x",
    "due -5",
    "due 18446744073709551616",
    "due 184467440737095516150",
    "time",
    "time 5",
    "time 5 101",
    "time 5 9 4",
    "time 5 9 6 9",
    "time 6 9 5 8",
    "time 5 9 time 4 9",
    "time 5 9 rest",
    "clocks",
    "clocks 5",
    "clocks 5 101",
    "clocks 6 9 5 9",
    "clocks 5 9 6 8",
    "clocks 5 9 time 5 9",
    "time 5 9 due 5",
    "time\t5 9",
    "Time 5 9",
    "{}",
};

START_TEST(what_no_server_writes_is_refused)
{
    struct ps_row_expiry expiry;

    ck_assert_msg(!reads(refused[_i], 0, &expiry), "\"%s\"", refused[_i]);
}
END_TEST

/* In the words of the page of the format, so that whoever looks at the header finds the place. */
static const struct {
    const char *text, *why;
} named[] = {
    {"", "behind 0 of 0 bytes: no word that goes there"},
    {"due 102", "due: no number from 1 to 1 + 100, the table's version"},
    {"time 5 x", "time: pair 1 has no version"},
    {"time", "time: no pair of numbers"},
    {"time 5 9 4 101", "time: pair 2 is of version 101, and the table of version 100"},
    {"time 5 9 6 9", "time: pair 2 is older than the one before it"},
    {"clocks 5 9 6 8", "clocks: pair 2 is older than the one before it"},
    {"due 5 rest", "behind 6 of 10 bytes: no word that goes there"},
};

START_TEST(what_is_wrong_is_named_with_its_place)
{
    const struct ps_row_ages_read read = {ps_row_ages_time(5000), 0, 100};
    struct ps_row_expiry expiry = {0};
    struct ps_error why = {.status = PS_OK};

    ck_assert_int_eq(ps_row_ages_text_read(bytes_of(named[_i].text), &read, &expiry, &why),
                     PS_ERR_CORRUPT);
    ck_assert_str_eq(why.text, named[_i].why);
    ck_assert(expiry.due == 0 && expiry.by_time.count == 0 && expiry.by_clock.count == 0);
}
END_TEST

/* A byte of a right text becomes any other: it is refused, or says what a table may have known. */
START_TEST(no_byte_is_believed)
{
    static const char right[] = "due 7 time 4000 3 3500 17 clocks 6 5 9 99";
    char bent[sizeof right];
    struct ps_row_expiry expiry;
    for (size_t at = 0; at + 1 < sizeof right; at++)
        for (int byte = 1; byte < 256; byte++) {
            memcpy(bent, right, sizeof right);
            bent[at] = (char)byte;
            if (!reads(bent, 0, &expiry))
                continue;
            ck_assert_uint_le(expiry.due, 101);
            ck_assert_uint_le(expiry.by_time.count + expiry.by_clock.count, 4);
            for (size_t i = 0; i < expiry.by_time.count; i++)
                ck_assert_uint_le(expiry.by_time.seen[i].version, 100);
        }
}
END_TEST

START_TEST(more_pairs_than_are_kept_are_refused)
{
    struct ps_row_expiry expiry;
    char long_text[PS_ROW_AGES_TEXT_BYTES] = "clocks";
    for (size_t i = 0; i < PAIRS; i++)
        strcat(long_text, " 5 9");
    ck_assert(reads(long_text, 0, &expiry));
    ck_assert_uint_eq(expiry.by_clock.count, PAIRS);

    strcat(long_text, " 5 9");

    ck_assert(!reads(long_text, 0, &expiry));
}
END_TEST

START_TEST(the_widest_text_is_as_long_as_any_and_fits)
{
    const struct ps_table_settings none = {0}, by_time = {.expire_ms = 1},
                                   by_clock = {.expire_clocks = 1};
    size_t widest = ps_row_ages_text_widest(&both, text);

    ck_assert_uint_le(widest, PS_CHECKPOINT_AGES_MAX);
    ck_assert_uint_ge(widest, (size_t)2 * PAIRS * 2 * 21);
    ck_assert_uint_eq(widest, strlen(text));
    ck_assert_uint_lt(ps_row_ages_text_widest(&by_time, text), widest);
    ck_assert_uint_lt(ps_row_ages_text_widest(&by_clock, text), widest);
    ck_assert_uint_eq(ps_row_ages_text_widest(&none, text), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_ages_text");
    tcase_add_test(tests, a_text_says_ages_and_versions_in_digits);
    tcase_add_test(tests, of_what_does_not_expire_nothing_is_said);
    tcase_add_loop_test(tests, what_is_written_is_read_again, 0, 200);
    tcase_add_test(tests, the_time_in_between_makes_rows_older);
    tcase_add_test(tests, an_age_beyond_all_time_stays_in_the_past);
    tcase_add_test(tests, nothing_counts_of_a_clock_that_was_put_back_and_a_step_at_most_else);
    tcase_add_loop_test(tests, what_no_server_writes_is_refused, 0,
                        (int)(sizeof refused / sizeof refused[0]));
    tcase_add_loop_test(tests, what_is_wrong_is_named_with_its_place, 0,
                        (int)(sizeof named / sizeof named[0]));
    tcase_add_test(tests, no_byte_is_believed);
    tcase_add_test(tests, more_pairs_than_are_kept_are_refused);
    tcase_add_test(tests, the_widest_text_is_as_long_as_any_and_fits);
    Suite *suite = suite_create("row_ages_text");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
