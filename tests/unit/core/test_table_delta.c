/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/table_delta.c: pulls of what has changed in a table, as its followers make them. */
#include "server/core/requests/table_delta.h"

#include "core_table.h"
#include "proto/digest.h"
#include "server/core/requests/change.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_stripes.h"

#include <string.h>

enum { KEYS = 600 };

static struct core_world world;
static struct ps_held held;
static float copy[KEYS]; /* the first element of each row; 0: no row */
static uint64_t rows, gone;
static enum ps_whole whole;

static void define(struct ps_table_settings settings)
{
    ck_assert_int_eq(table_define(&world, table_config("sgd", settings), 0), PS_OK);
}

static void begin(void)
{
    world_init_empty(&world);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    define((struct ps_table_settings){.full = PS_TABLE_OLDEST, .rows_max = 400});
    held = (struct ps_held){.present = true};
    memset(copy, 0, sizeof copy);
}

static void end(void)
{
    world_fini(&world);
}

static enum ps_status ask(const struct ps_held *from, uint64_t bytes_max, struct ps_pull *pull)
{
    const struct ps_pull_request request = {
        .name = text("t"), .held = *from, .bytes_max = bytes_max};
    *pull = (struct ps_pull){0};
    return ps_service_pull(world.service, &request, pull, &world.error);
}

static void put(const struct ps_pull_reply *reply)
{
    static uint8_t content[KEYS * (8 + TABLE_ROW_BYTES)];
    const struct ps_delta *delta = &reply->delta;
    size_t size = reply->content.size;
    ck_assert_uint_le(size, sizeof content);
    ck_assert_uint_eq(size, delta->gone * 8 + delta->rows * TABLE_ROW_BYTES);
    ps_view_copy(reply->content, 0, content, size);
    ck_assert_uint_eq(ps_digest_block((struct ps_bytes){content, size}), delta->digest);
    for (size_t i = 0; i < delta->gone + delta->rows; i++) {
        uint64_t key;
        memcpy(&key, content + 8 * i, sizeof key);
        ck_assert_uint_lt(key, KEYS);
        copy[key] = 0;
        if (i >= delta->gone)
            memcpy(&copy[key],
                   content + 8 * (delta->gone + delta->rows) +
                       (i - delta->gone) * TABLE_WIDTH * sizeof(float),
                   sizeof(float));
    }
}

/* True when this was the last answer. */
static bool take_one(uint64_t bytes_max)
{
    struct ps_pull pull;
    ck_assert_msg(ask(&held, bytes_max, &pull) == PS_OK, "%s", world.error.text);
    const struct ps_delta *delta = &pull.reply.delta;
    ck_assert(delta->present && delta->mark > 0);
    ck_assert_uint_eq(pull.reply.total, TABLE_WIDTH);
    whole = delta->whole;
    if (whole != PS_WHOLE_NOT) {
        held.version = 0;
        if (held.target == 0)
            memset(copy, 0, sizeof copy);
    }
    put(&pull.reply);
    rows += delta->rows;
    gone += delta->gone;
    held.chain = delta->chain;
    held.mark = delta->mark;
    held.target = pull.reply.version + 1;
    held.block = delta->next;
    bool is_last = delta->next == 0;
    if (is_last) {
        held.version = held.target;
        held.target = 0;
    }
    ps_pull_release(&pull);
    return is_last;
}

static void catch_up(uint64_t bytes_max)
{
    rows = gone = 0;
    while (!take_one(bytes_max))
        continue;
    for (uint64_t key = 0; key < KEYS; key++)
        ck_assert(copy[key] == table_value(&world, key));
}

START_TEST(a_follower_gets_what_was_pushed_to_and_what_went)
{
    ck_assert_int_eq(table_push(&world, 0, 300, 1, 0), PS_OK);
    catch_up(0);
    ck_assert_int_eq(whole, PS_WHOLE_NOTHING_HELD);
    ck_assert_uint_eq(rows, 300);
    ck_assert_int_eq(table_push(&world, 295, 5, 1, 0), PS_OK);
    catch_up(0);
    ck_assert_int_eq(whole, PS_WHOLE_NOT);
    ck_assert_uint_eq(rows, 5);
    ck_assert_int_eq(table_push(&world, 300, 200, 1, 0), PS_OK);
    catch_up(0);
    ck_assert_uint_eq(rows, 200);
    ck_assert_uint_ge(gone, 100);
    catch_up(0);
    ck_assert_uint_eq(rows + gone, 0);
}
END_TEST

START_TEST(an_answer_keeps_to_its_bytes)
{
    ck_assert_int_eq(table_push(&world, 0, 300, 1, 0), PS_OK);
    catch_up(TABLE_ROW_BYTES);
    ck_assert_uint_eq(rows, 300);
    ck_assert_int_eq(table_push(&world, 0, 10, 1, 0), PS_OK);
    catch_up(3 * TABLE_ROW_BYTES + 1);
    ck_assert_uint_eq(rows, 10);
    struct ps_pull pull;
    ck_assert_int_eq(table_push(&world, 0, 10, 1, 0), PS_OK);
    ck_assert_int_eq(ask(&held, TABLE_ROW_BYTES - 1, &pull), PS_ERR_BUSY);
}
END_TEST

START_TEST(pushes_between_answers_are_of_the_next_pull)
{
    ck_assert_int_eq(table_push(&world, 0, 300, 1, 0), PS_OK);
    ck_assert(!take_one(100 * TABLE_ROW_BYTES));
    ck_assert_int_eq(table_push(&world, 250, 250, 1, 0), PS_OK);
    while (!take_one(100 * TABLE_ROW_BYTES))
        continue;
    ck_assert_uint_eq(held.version, 2);
    catch_up(0);
    ck_assert_uint_eq(held.version, 3);
    ck_assert_int_eq(whole, PS_WHOLE_NOT);
}
END_TEST

START_TEST(what_is_of_another_life_comes_whole)
{
    ck_assert_int_eq(table_push(&world, 0, 10, 1, 0), PS_OK);
    catch_up(0);
    held.chain.life++;
    catch_up(0);
    ck_assert_int_eq(whole, PS_WHOLE_OTHER_CHAIN);
    held.version += 5;
    catch_up(0);
    ck_assert_int_eq(whole, PS_WHOLE_NEWER_THAN_HERE);
    held.mark = 0;
    catch_up(0);
    ck_assert_int_eq(whole, PS_WHOLE_FORGOTTEN);
    ck_assert_uint_eq(rows, 10);
}
END_TEST

START_TEST(more_rows_that_went_than_are_remembered_are_told_of_by_a_full_copy)
{
    ck_assert_int_eq(table_push(&world, 0, 10, 1, 0), PS_OK);
    catch_up(0);
    for (uint64_t i = 0; i <= PS_ROW_FOLLOWED_MAX; i++)
        ps_row_removals_add(table_of(&world)->rows->removals, i, 0);
    catch_up(0);
    ck_assert_int_eq(whole, PS_WHOLE_FORGOTTEN);
    ck_assert_int_eq(table_push(&world, 5, 1, 1, 0), PS_OK);
    catch_up(0);
    ck_assert_int_eq(whole, PS_WHOLE_NOT);
    ck_assert_uint_eq(rows, 1);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
    struct ps_pull pull;
    ck_assert_int_eq(table_push(&world, 0, 300, 1, 0), PS_OK);
    ck_assert(!take_one(100 * TABLE_ROW_BYTES));
    struct ps_held other = held;
    other.target++;
    ck_assert_int_eq(ask(&other, 0, &pull), PS_ERR_CONFLICT);
    other = held;
    other.chain.life++;
    ck_assert_int_eq(ask(&other, 0, &pull), PS_ERR_CONFLICT);
    other = held;
    other.mark = 0;
    ck_assert_int_eq(ask(&other, 0, &pull), PS_ERR_BAD_INPUT);
    other = held;
    other.mark = UINT64_MAX;
    ck_assert_int_eq(ask(&other, 0, &pull), PS_ERR_CONFLICT);
    other = held;
    other.block = UINT64_MAX;
    ck_assert_int_eq(ask(&other, 0, &pull), PS_ERR_BAD_INPUT);
    /* Of all rows, and so without keys. */
    const uint64_t key = 7;
    const struct ps_bytes keys = {(const uint8_t *)&key, sizeof key};
    const struct ps_pull_request both = {
        .name = text("t"), .held.present = true, .keys = ps_view_of(&keys)};
    ck_assert_int_eq(ps_service_pull(world.service, &both, &pull, &world.error), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("table_delta");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_follower_gets_what_was_pushed_to_and_what_went);
    tcase_add_test(tests, an_answer_keeps_to_its_bytes);
    tcase_add_test(tests, pushes_between_answers_are_of_the_next_pull);
    tcase_add_test(tests, what_is_of_another_life_comes_whole);
    tcase_add_test(tests, more_rows_that_went_than_are_remembered_are_told_of_by_a_full_copy);
    tcase_add_test(tests, what_makes_no_sense_is_refused);
    return run_tests("table_delta", tests);
}
