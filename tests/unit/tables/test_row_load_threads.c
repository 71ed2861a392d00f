/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_load.c, by several threads: whoever comes first, the rows are the same. */
#include "tests/unit/tables/row_model.h"

#include "base/thread.h"
#include "server/core/tables/row_stripes.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { IDS = 60000, WIDTH = 2, THREADS = 4, PIECE = 500 };

/* Version 2^32 comes between: rows of 4,294,967,295 are older than those of 3. */
#define VERSION_FIRST ((uint32_t)0xFFFFFFF0)

struct rows {
    struct ps_row_table *table;
    uint64_t keys[IDS];
    uint32_t touched[IDS];
    float values[IDS][WIDTH];
    _Atomic size_t next; /* piece */
    _Atomic int corrupt; /* pieces that were refused as such */
    _Atomic int other;   /* and as something else */
};

static struct rows rows;

static enum ps_status load(struct ps_row_table *table, size_t first, size_t count)
{
    return ps_row_table_load(table, rows.keys + first, rows.touched + first, rows.values[first],
                             NULL, count, NULL);
}

static void load_pieces(void *argument)
{
    (void)argument;
    for (;;) {
        size_t first = atomic_fetch_add(&rows.next, 1) * PIECE;
        if (first >= IDS)
            return;
        enum ps_status status = load(rows.table, first, PIECE);
        atomic_fetch_add(&rows.corrupt, status == PS_ERR_CORRUPT ? 1 : 0);
        atomic_fetch_add(&rows.other, status == PS_OK || status == PS_ERR_CORRUPT ? 0 : 1);
    }
}

static void load_in_threads(void)
{
    struct ps_thread threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "load", load_pieces, NULL, NULL), PS_OK);
    for (int i = 0; i < THREADS; i++)
        ps_thread_join(&threads[i]);
    ck_assert_int_eq(atomic_load(&rows.other), 0);
}

/* In the order of the keys, which is none of the stripes: each piece has rows of all of them. */
static void draw(struct row_model *model)
{
    row_model_open(model, PS_RULE_SGD, PS_F32, WIDTH, IDS);
    atomic_store(&rows.next, 0);
    atomic_store(&rows.corrupt, 0);
    atomic_store(&rows.other, 0);
    rows.table = model->table;
    for (uint32_t i = 0; i < IDS; i++) {
        rows.keys[i] = model->keys[i];
        rows.touched[i] = VERSION_FIRST + i % 20;
        rows.values[i][0] = (float)i;
        rows.values[i][1] = -(float)i;
    }
}

/* As one thread has them. With and without room that is made before. */
START_TEST(threads_load_what_one_does)
{
    struct row_model model;
    struct ps_row_table *alone;
    draw(&model);
    ck_assert_int_eq(ps_row_table_create(&model.options, &alone, NULL), PS_OK);
    ck_assert_int_eq(load(alone, 0, IDS), PS_OK);
    ck_assert_int_eq(ps_row_table_expect(model.table, _i == 0 ? 0 : IDS, VERSION_FIRST + 19, NULL),
                     PS_OK);

    load_in_threads();

    ck_assert_int_eq(atomic_load(&rows.corrupt), 0);
    ps_row_table_check(model.table);
    ck_assert_uint_eq(ps_row_table_rows(model.table), IDS);
    ck_assert_uint_eq(ps_row_table_digest(model.table), ps_row_table_digest(alone));
    ck_assert_uint_eq((uint32_t)model.table->version, VERSION_FIRST + 19);
    ps_row_table_destroy(alone);
    row_model_close(&model);
}
END_TEST

/* A key of the first piece in the last one as well: one of the two is refused, whichever it is. */
START_TEST(a_key_that_two_threads_have_is_damage)
{
    struct row_model model;
    draw(&model);
    rows.keys[IDS - 1] = rows.keys[0];

    load_in_threads();

    ck_assert_int_eq(atomic_load(&rows.corrupt), 1);
    row_model_close(&model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_load_threads");
    /* On an emulated device, under a sanitizer, on a busy machine. */
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, threads_load_what_one_does, 0, 2);
    tcase_add_test(tests, a_key_that_two_threads_have_is_damage);
    return run_tests("row_load_threads", tests);
}
