/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_since.c: who puts every piece on what it had has the table, whatever
 * happens between two pieces. */
#include "server/core/tables/row_since.h"

#include "server/core/tables/row_stripes.h"
#include "tests/unit/tables/row_model.h"

#include <stdlib.h>
#include <string.h>

#define IDS 3000
#define WIDTH 4
#define ROW_BYTES (WIDTH * sizeof(float))
#define EACH (sizeof(uint64_t) + ROW_BYTES)
#define ROOM_MAX (IDS * EACH * 2)

/* A copy of the table, by id. */
struct follower {
    struct row_model *model;
    bool there[IDS];
    uint8_t rows[IDS][ROW_BYTES];
    uint64_t version; /* 1 + what it has all of; 0: nothing */
    uint64_t mark;
    struct ps_row_since coming; /* of the next piece */
    uint64_t told_rows, told_gone, pieces;
};

static struct row_model model;
static struct follower follower;
static uint8_t piece_bytes[ROOM_MAX];

static void begin_with(uint64_t rows_max)
{
    row_model_plan(&model, PS_RULE_SGD, PS_F32, WIDTH, IDS);
    model.options.settings.init = PS_TABLE_ZERO;
    model.options.settings.rows_max = rows_max;
    model.options.settings.full = PS_TABLE_OLDEST;
    row_model_begin(&model);
    memset(&follower, 0, sizeof follower);
    follower.model = &model;
}

static uint32_t id_of(uint64_t key)
{
    uint32_t id = 0;
    while (id < IDS && model.keys[id] != key)
        id++;
    ck_assert_uint_lt(id, IDS);
    return id;
}

static uint64_t next_key(const uint8_t *at)
{
    uint64_t key;
    memcpy(&key, at, sizeof key);
    return key;
}

static void put(const struct ps_row_piece *piece)
{
    const uint8_t *keys = piece_bytes + piece->gone * sizeof(uint64_t);
    const uint8_t *rows = keys + piece->rows * sizeof(uint64_t);
    for (uint64_t i = 0; i < piece->gone; i++)
        follower.there[id_of(next_key(piece_bytes + i * sizeof(uint64_t)))] = false;
    for (uint64_t i = 0; i < piece->rows; i++) {
        uint32_t id = id_of(next_key(keys + i * sizeof(uint64_t)));
        follower.there[id] = true;
        memcpy(follower.rows[id], rows + i * ROW_BYTES, ROW_BYTES);
    }
    follower.told_rows += piece->rows;
    follower.told_gone += piece->gone;
    follower.pieces++;
}

static void ask_first(void)
{
    follower.coming = (struct ps_row_since){.everything = follower.version == 0,
                                            .version = follower.version - 1,
                                            .now = model.version,
                                            .mark = follower.mark};
    if (follower.version == 0)
        follower.coming.version = 0;
}

/* One piece; true when it was the last. */
static bool take_one(size_t room_max)
{
    struct ps_row_piece piece;
    uint64_t room;
    ck_assert_int_eq(ps_row_since_room(model.table, &follower.coming, &room, NULL), PS_OK);
    room = room < room_max ? room : room_max;
    ck_assert_uint_le(room, ROOM_MAX);
    memset(piece_bytes, 0xa5, sizeof piece_bytes);
    ck_assert_int_eq(
        ps_row_table_since(model.table, &follower.coming, piece_bytes, (size_t)room, &piece, NULL),
        PS_OK);
    ck_assert_uint_eq(piece.size, piece.gone * sizeof(uint64_t) + piece.rows * EACH);
    ck_assert_uint_le(piece.size, room);
    put(&piece);
    follower.coming.mark = piece.mark;
    follower.coming.place = piece.next;
    if (piece.next != 0)
        return false;
    follower.version = follower.coming.now + 1;
    follower.mark = piece.mark;
    return true;
}

static void catch_up(size_t room_max)
{
    ask_first();
    while (!take_one(room_max))
        continue;
}

/* By a get of all keys: what is not there reads as zeros. */
static void expect_same(void)
{
    static uint8_t rows[IDS][ROW_BYTES];
    struct ps_bytes keys = {(const uint8_t *)model.keys, IDS * sizeof *model.keys};
    uint64_t count = 0;
    ck_assert_int_eq(ps_row_table_get(model.table, ps_view_of(&keys), rows, NULL), PS_OK);
    for (uint32_t id = 0; id < IDS; id++) {
        static const uint8_t zeros[ROW_BYTES];
        count += follower.there[id] ? 1 : 0;
        ck_assert_mem_eq(rows[id], follower.there[id] ? follower.rows[id] : zeros, ROW_BYTES);
    }
    ck_assert_uint_eq(count, ps_row_table_rows(model.table));
}

static void push_some(uint32_t count)
{
    uint32_t ids[IDS];
    size_t size;
    for (uint32_t i = 0; i < count; i++)
        ids[i] = (uint32_t)ps_random_below(&model.random, IDS - 1);
    uint8_t *content = row_model_content(&model, ids, count, &size);
    struct ps_bytes bytes = {content, size};
    ck_assert_int_eq(row_table_push(model.table, bytes, &model.settings, ++model.version), PS_OK);
    free(content);
}

START_TEST(only_what_was_pushed_to_comes)
{
    begin_with(0);
    push_some(1000);
    catch_up(ROOM_MAX);
    expect_same();
    ck_assert_uint_eq(follower.told_rows, ps_row_table_rows(model.table));
    follower.told_rows = 0;
    push_some(1);
    catch_up(ROOM_MAX);
    expect_same();
    ck_assert_uint_eq(follower.told_rows, 1);
    ck_assert_uint_eq(follower.told_gone, 0);
    row_model_close(&model);
}
END_TEST

START_TEST(a_table_at_rest_tells_nothing)
{
    struct ps_row_since since;
    uint64_t room;
    begin_with(0);
    push_some(1000);
    catch_up(ROOM_MAX);
    ask_first();
    since = follower.coming;
    ck_assert_int_eq(ps_row_since_room(model.table, &since, &room, NULL), PS_OK);
    ck_assert_uint_eq(room, 0);
    follower.told_rows = 0;
    ck_assert(take_one(0));
    ck_assert_uint_eq(follower.told_rows, 0);
    row_model_close(&model);
}
END_TEST

START_TEST(a_sweep_of_a_table_at_rest_is_told_once)
{
    begin_with(0);
    push_some(1000);
    push_some(10);
    catch_up(ROOM_MAX);
    uint64_t gone = ps_row_table_sweep(model.table, model.version, model.version + 1);
    ck_assert_uint_gt(gone, 500);
    /* No version was made by it, and the keys take more than one piece has room for. */
    catch_up(100 * sizeof(uint64_t));
    expect_same();
    ck_assert_uint_eq(follower.told_gone, gone);
    catch_up(ROOM_MAX);
    ck_assert_uint_eq(follower.told_gone, gone);
    row_model_close(&model);
}
END_TEST

/* What happens between two pieces is there with the next catching up, and nothing is lost by it. */
START_TEST(pushes_evictions_and_sweeps_come_between_pieces)
{
    begin_with(1500);
    for (uint32_t round = 0; round < 200; round++) {
        /* More than goes between two pieces, or it would never end. */
        size_t room = 20 * EACH + ps_random_below(&model.random, 200 * EACH);
        ask_first();
        while (!take_one(room)) {
            uint64_t dice = ps_random_below(&model.random, 10);
            if (dice < 3)
                push_some(1 + (uint32_t)ps_random_below(&model.random, 60));
            else if (dice == 3 && model.version > 30)
                ps_row_table_sweep(model.table, model.version - 30, model.version + 1);
        }
        push_some(1 + (uint32_t)ps_random_below(&model.random, 200));
        catch_up(room);
        expect_same();
    }
    ps_row_table_check(model.table);
    row_model_close(&model);
}
END_TEST

START_TEST(versions_go_on_beyond_32_bits)
{
    begin_with(0);
    model.version = ((uint64_t)1 << 32) - 3;
    for (int i = 0; i < 6; i++) {
        push_some(20);
        catch_up(ROOM_MAX);
        expect_same();
    }
    follower.told_rows = 0;
    push_some(1);
    catch_up(ROOM_MAX);
    ck_assert_uint_eq(follower.told_rows, 1);
    /* So far behind that 32 bits cannot tell: everything comes. */
    follower.told_rows = 0;
    follower.version = 1;
    push_some(1);
    catch_up(ROOM_MAX);
    ck_assert_uint_eq(follower.told_rows, ps_row_table_rows(model.table));
    expect_same();
    row_model_close(&model);
}
END_TEST

START_TEST(who_is_too_far_behind_begins_again)
{
    uint64_t room;
    struct ps_error error;
    begin_with(0);
    push_some(1000);
    catch_up(ROOM_MAX);
    for (uint32_t i = 0; i <= PS_ROW_FOLLOWED_MAX; i++)
        ps_row_removals_add(model.table->removals, i, 0);
    push_some(10);
    ask_first();
    struct ps_row_piece piece;
    ck_assert_int_eq(ps_row_since_room(model.table, &follower.coming, &room, &error),
                     PS_ERR_CONFLICT);
    ck_assert_int_eq(
        ps_row_table_since(model.table, &follower.coming, piece_bytes, ROOM_MAX, &piece, &error),
        PS_ERR_CONFLICT);
    memset(&follower, 0, sizeof follower);
    catch_up(ROOM_MAX);
    expect_same();
    row_model_close(&model);
}
END_TEST

START_TEST(a_place_that_is_none_is_refused)
{
    struct ps_row_piece piece;
    begin_with(0);
    push_some(10);
    struct ps_row_since since = {.everything = true, .place = UINT64_MAX};
    ck_assert_int_eq(ps_row_table_since(model.table, &since, piece_bytes, ROOM_MAX, &piece, NULL),
                     PS_ERR_BAD_INPUT);
    /* Beyond the rows of the last stripe: the end. */
    since.place = ((uint64_t)PS_ROW_STRIPES << 32) - 1;
    ck_assert_int_eq(ps_row_table_since(model.table, &since, piece_bytes, ROOM_MAX, &piece, NULL),
                     PS_OK);
    ck_assert_uint_eq(piece.rows, 0);
    ck_assert_uint_eq(piece.next, 0);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_since");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, only_what_was_pushed_to_comes);
    tcase_add_test(tests, a_table_at_rest_tells_nothing);
    tcase_add_test(tests, a_sweep_of_a_table_at_rest_is_told_once);
    tcase_add_test(tests, pushes_evictions_and_sweeps_come_between_pieces);
    tcase_add_test(tests, versions_go_on_beyond_32_bits);
    tcase_add_test(tests, who_is_too_far_behind_begins_again);
    tcase_add_test(tests, a_place_that_is_none_is_refused);
    return run_tests("row_since", tests);
}
