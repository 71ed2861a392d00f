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
static const struct ps_table_settings by_clock = {.expire_clocks = 4};
static const struct ps_table_settings never = {.expire_ms = 0};

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

static void say(uint32_t i, uint64_t version, uint64_t rows, const char *ages)
{
    made[i].row.version = version;
    made[i].row.rows = rows;
    made[i].row.ages = ps_bytes_of_text(ages);
}

/* What one part or two say, and what is then said of the table that has come to `version`. */
static const struct joint {
    const char *why;
    struct said {
        uint64_t version;
        uint64_t rows;
        const char *ages; /* NULL: there is no such part */
    } said[2];
    uint64_t version;
    const char *ages;
    const struct ps_table_settings *settings; /* NULL: by both */
} joints[] = {
    {.why = "one part says what it said",
     .said = {{10, 1, "due 3 time 900 4 500 7 clocks 5 4 6 7"}},
     .version = 10,
     .ages = "due 3 time 900 4 500 7 clocks 5 4 6 7"},
    {.why = "its versions move with its rows",
     .said = {{10, 1, "due 3 time 900 4 500 7 clocks 5 4 6 7"}},
     .version = 110,
     .ages = "due 103 time 900 104 500 107 clocks 5 104 6 107"},
    {.why = "of two holds what holds of both: 900 ms ago the second is known to have had nothing, "
            "500: version 5, 100: version 12",
     .said = {{10, 1, "time 900 4 500 7 100 9"}, {20, 1, "time 850 5 450 12"}},
     .version = 20,
     .ages = "time 500 5 100 12"},
    {.why = "a part of which nothing is known holds back",
     .said = {{10, 1, "due 3 time 900 4"}, {20, 1, ""}},
     .version = 20,
     .ages = ""},
    {.why = "but its own rows alone: all of them have moved up above those of the other",
     .said = {{20, 1, "due 3 time 900 4"}, {10, 1, ""}},
     .version = 20,
     .ages = "due 3 time 900 4"},
    {.why = "or some of them have",
     .said = {{20, 1, "due 13 time 900 14"}, {10, 1, ""}},
     .version = 20,
     .ages = "due 10 time 900 9"},
    {.why = "a part without rows holds back nothing",
     .said = {{10, 1, "time 900 4"}, {20, 0, ""}},
     .version = 20,
     .ages = "time 900 14"},
    {.why = "without any rows nothing is said",
     .said = {{10, 0, "time 900 4"}, {20, 0, ""}},
     .version = 20,
     .ages = ""},
    {.why = "a version that the table never had",
     .said = {{10, 1, "time 900 4"}, {10, 1, "time 900 11"}},
     .version = 10,
     .ages = ""},
    {.why = "a word of some later program",
     .said = {{10, 1, "time 900 4"}, {10, 1, "time 900 4 reads 7"}},
     .version = 10,
     .ages = ""},
    {.why = "rows that stay have no ages",
     .said = {{10, 1, "time 900 4 clocks 5 4"}},
     .version = 10,
     .ages = "",
     .settings = &never},
    {.why = "nor those that go by clocks one by time",
     .said = {{10, 1, "time 900 4 clocks 5 4"}},
     .version = 10,
     .ages = "clocks 5 4",
     .settings = &by_clock}};

START_TEST(a_table_says_what_holds_of_all_its_parts)
{
    const struct joint *joint = &joints[_i];
    uint32_t count = 0;
    for (; count < 2 && joint->said[count].ages != NULL; count++)
        say(count, joint->said[count].version, joint->said[count].rows, joint->said[count].ages);
    table.version = joint->version;

    ck_assert_int_eq(table_ages_join(&joined, parts, count,
                                     joint->settings != NULL ? joint->settings : &by_both, &table,
                                     &error),
                     PS_OK);

    ck_assert_msg(ps_bytes_equal(table.ages, ps_bytes_of_text(joint->ages)), "%s: %.*s and not %s",
                  joint->why, (int)table.ages.size, (const char *)table.ages.data, joint->ages);
}
END_TEST

START_TEST(a_refused_allocation_is_said)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    enum ps_status status = PS_ERR_NO_MEMORY;
    say(0, 10, 1, "time 900 4");
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
    ck_assert_msg(ps_row_ages_text_read(table.ages, &read, &found, NULL) == PS_OK, "seed %d", _i);
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
    tcase_add_loop_test(tests, a_table_says_what_holds_of_all_its_parts, 0,
                        (int)(sizeof joints / sizeof joints[0]));
    tcase_add_test(tests, a_refused_allocation_is_said);
    tcase_add_loop_test(tests, no_row_of_any_part_seems_older_than_it_is, 0, 100);
    Suite *suite = suite_create("table_ages");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
