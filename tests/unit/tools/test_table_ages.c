/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/table_ages.c: of a table put together of parts no row seems older than it was in its
 * own, and none much younger. */
#include "tools/psckpt/table_ages.h"

#include "base/random.h"
#include "run_suite.h"
#include "server/core/update/row_ages_text.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <string.h>

enum { PARTS_MAX = 5, ROWS = 40, SPAN = 1600, END = 4000 };

static const struct ps_table_settings by_both = {.expire_ms = SPAN, .expire_clocks = SPAN};

/* One shard's part of a table: which version it was at when each of its rows was pushed to last. */
static struct part {
    struct ps_checkpoint_parameter row;
    struct ps_row_expiry expiry;
    char text[PS_ROW_AGES_TEXT_BYTES];
    uint64_t versions[ROWS], times[ROWS];
} made[PARTS_MAX];
static struct table_part parts[PARTS_MAX];
static struct ps_checkpoint_parameter table;
static struct shard_state joined;
static struct ps_error error;

static void set_up(void)
{
    memset(made, 0, sizeof made);
    for (uint32_t i = 0; i < PARTS_MAX; i++) {
        made[i].row.name = ps_bytes_of_text("t");
        made[i].row.rows = 1;
        made[i].row.version = 10;
        parts[i] = (struct table_part){&made[i].row, i};
    }
    table = (struct ps_checkpoint_parameter){.version = 10, .name = ps_bytes_of_text("t")};
    shard_state_init(&joined, ps_allocator_heap());
}

static void tear_down(void)
{
    shard_state_fini(&joined);
}

static void say(uint32_t i, uint64_t version, const char *ages)
{
    made[i].row.version = version;
    made[i].row.ages = ps_bytes_of_text(ages);
}

static void expect(uint32_t count, uint64_t version, const char *ages)
{
    const struct ps_table_settings *settings = &by_both;
    table.version = version;
    ck_assert_int_eq(table_ages_join(&joined, parts, count, settings, &table, &error), PS_OK);
    ck_assert_uint_eq(table.ages.size, strlen(ages));
    ck_assert_msg(memcmp(table.ages.data != NULL ? (const char *)table.ages.data : "", ages,
                         strlen(ages)) == 0,
                  "%s and not %s", (const char *)table.ages.data, ages);
}

START_TEST(one_part_says_what_it_said)
{
    say(0, 10, "due 3 time 900 4 500 7 clocks 5 4 6 7");
    expect(1, 10, "due 3 time 900 4 500 7 clocks 5 4 6 7");
    /* Its versions have moved with its rows. */
    expect(1, 110, "due 103 time 900 104 500 107 clocks 5 104 6 107");
}
END_TEST

START_TEST(of_two_parts_holds_what_holds_of_both)
{
    say(0, 10, "time 900 4 500 7 100 9");
    say(1, 20, "time 850 5 450 12");
    /* 900 ms ago: the second is known to have had nothing, 500: version 5, 100: version 12. */
    expect(2, 20, "time 500 5 100 12");
}
END_TEST

START_TEST(a_part_of_which_nothing_is_known_holds_back_its_own_rows_alone)
{
    say(0, 10, "due 3 time 900 4");
    say(1, 20, "");
    expect(2, 20, "");
    /* All of its rows have moved up above those of the other. */
    say(0, 20, "due 3 time 900 4");
    say(1, 10, "");
    expect(2, 20, "due 3 time 900 4");
    say(0, 20, "due 13 time 900 14");
    expect(2, 20, "due 10 time 900 9");
}
END_TEST

START_TEST(a_part_without_rows_holds_back_nothing)
{
    say(0, 10, "time 900 4");
    say(1, 20, "");
    made[1].row.rows = 0;
    expect(2, 20, "time 900 14");
    made[0].row.rows = 0;
    expect(2, 20, "");
}
END_TEST

START_TEST(rows_that_stay_have_no_ages)
{
    const struct ps_table_settings none = {.expire_ms = 0}, by_clock = {.expire_clocks = 4};
    say(0, 10, "time 900 4 clocks 5 4");
    ck_assert_int_eq(table_ages_join(&joined, parts, 1, &none, &table, &error), PS_OK);
    ck_assert_uint_eq(table.ages.size, 0);
    ck_assert_int_eq(table_ages_join(&joined, parts, 1, &by_clock, &table, &error), PS_OK);
    ck_assert_str_eq((const char *)table.ages.data, "clocks 5 4");
}
END_TEST

/* A version that the table never had, and a word of some later program. */
START_TEST(of_a_part_that_says_it_otherwise_nothing_is_known)
{
    say(0, 10, "time 900 4");
    say(1, 10, "time 900 11");
    expect(2, 10, "");
    say(1, 10, "time 900 4 reads 7");
    expect(2, 10, "");
}
END_TEST

START_TEST(a_refused_allocation_is_said)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    enum ps_status status = PS_ERR_NO_MEMORY;
    say(0, 10, "time 900 4");
    for (int refused = 0; status != PS_OK; refused++) {
        struct shard_state state;
        shard_state_init(&state, &memory);
        heap.refuse_at = heap.seen + refused;
        status = table_ages_join(&state, parts, 1, &by_both, &table, &error);
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        ck_assert_int_lt(refused, 10);
        shard_state_fini(&state);
    }
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* Pushes and looks at random times until END, and what a checkpoint says then. */
static void live(struct part *part, struct ps_random *random)
{
    uint64_t pushes = 1 + ps_random_below(random, 4000);
    for (uint64_t now = 0; now < END; now++) {
        if (ps_random_below(random, END) < pushes) {
            uint64_t row = ps_random_below(random, ROWS);
            part->versions[row] = ++part->row.version;
            part->times[row] = now;
        }
        if (ps_random_below(random, 30) == 0) {
            (void)ps_row_ages_look(&part->expiry.by_time, SPAN, ps_row_ages_time(now),
                                   part->row.version);
            (void)ps_row_ages_look(&part->expiry.by_clock, SPAN, now, part->row.version);
        }
    }
    size_t size =
        ps_row_ages_text_write(&part->expiry, &by_both, ps_row_ages_time(END), part->text);
    part->row.ages = (struct ps_bytes){(const uint8_t *)part->text, size};
}

/* Of a list whose times begin at `begin`, for each row of each part. */
static void expect_no_older(const struct ps_row_ages *ages, uint64_t begin, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (size_t row = 0; row < ROWS; row++)
            for (size_t k = 0; k < ages->count; k++) {
                uint64_t moved = made[i].versions[row] + table.version - made[i].row.version;
                if (made[i].versions[row] > 0 && moved <= ages->seen[k].version)
                    ck_assert_uint_le(begin + made[i].times[row], ages->seen[k].at);
            }
}

START_TEST(no_row_of_any_part_seems_older_than_it_is)
{
    struct ps_random random;
    uint32_t count = 1 + (uint32_t)_i % PARTS_MAX;
    struct ps_row_expiry found = {.due = 0};
    ps_random_init(&random, (uint64_t)_i);
    table.version = 0;
    for (uint32_t i = 0; i < count; i++) {
        made[i].row.version = 0;
        live(&made[i], &random);
        if (made[i].row.version > table.version)
            table.version = made[i].row.version;
    }
    ck_assert_int_eq(table_ages_join(&joined, parts, count, &by_both, &table, &error), PS_OK);
    const struct ps_row_ages_read read = {ps_row_ages_time(END), 0, table.version};
    ck_assert_msg(ps_row_ages_text_read(table.ages, &read, &found), "seed %d", _i);
    ck_assert_uint_gt(found.by_time.count, PS_ROW_AGE_STEPS / 2);
    ck_assert_uint_gt(found.by_clock.count, PS_ROW_AGE_STEPS / 2);
    expect_no_older(&found.by_time, ps_row_ages_time(0), count);
    expect_no_older(&found.by_clock, 0, count);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("table_ages");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, one_part_says_what_it_said);
    tcase_add_test(tests, of_two_parts_holds_what_holds_of_both);
    tcase_add_test(tests, a_part_of_which_nothing_is_known_holds_back_its_own_rows_alone);
    tcase_add_test(tests, a_part_without_rows_holds_back_nothing);
    tcase_add_test(tests, rows_that_stay_have_no_ages);
    tcase_add_test(tests, of_a_part_that_says_it_otherwise_nothing_is_known);
    tcase_add_test(tests, a_refused_allocation_is_said);
    tcase_add_loop_test(tests, no_row_of_any_part_seems_older_than_it_is, 0, 100);
    Suite *suite = suite_create("table_ages");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
