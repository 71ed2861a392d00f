/* SPDX-License-Identifier: Apache-2.0 */
/* A pushing thread, pulling ones, and one that holds and reads: every row is seen whole, every
 * hold is one instant. The elements of a row are equal in all versions, and a row only grows. */
#include "tests/unit/tables/row_model.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define IDS 400
#define WIDTH 8
#define PUSHES 1000

struct shared {
    struct row_model model;
    struct ps_mutex cut; /* held to push, and to take a hold */
    _Atomic bool done;
    _Atomic bool torn;
};

static void pull(void *argument)
{
    struct shared *shared = argument;
    struct ps_bytes keys = {(const uint8_t *)shared->model.keys, IDS * sizeof(uint64_t)};
    static _Thread_local int64_t rows[IDS][WIDTH];
    static _Thread_local int64_t before[IDS];
    while (!atomic_load(&shared->done)) {
        if (ps_row_table_get(shared->model.table, ps_view_of(&keys), rows, NULL) != PS_OK)
            atomic_store(&shared->torn, true);
        for (int i = 0; i < IDS; i++) {
            for (int k = 1; k < WIDTH; k++)
                if (rows[i][k] != rows[i][0])
                    atomic_store(&shared->torn, true);
            if (rows[i][0] < before[i])
                atomic_store(&shared->torn, true);
            before[i] = rows[i][0];
        }
    }
}

/* Rows that are read and let go at a time. */
#define SOME_ROWS ((size_t)37)

/* Every id that a push names gets 1: the sum of a hold's rows is a multiple of a push's rows. */
static void hold(void *argument)
{
    struct shared *shared = argument;
    int64_t *values = malloc(sizeof(int64_t) * IDS * WIDTH);
    while (!atomic_load(&shared->done)) {
        struct ps_row_hold *taken;
        ps_mutex_lock(&shared->cut);
        enum ps_status status = ps_row_hold_take(shared->model.table, &taken, NULL);
        ps_mutex_unlock(&shared->cut);
        if (status != PS_OK)
            continue;
        size_t rows = ps_row_hold_rows(taken);
        int64_t sum = 0;
        for (size_t row = 0; row < rows; row += SOME_ROWS) {
            size_t some = rows - row < SOME_ROWS ? rows - row : SOME_ROWS;
            if (ps_row_hold_read(taken, 0, row * WIDTH * 8, values + row * WIDTH, some * WIDTH * 8,
                                 NULL) != PS_OK)
                atomic_store(&shared->torn, true);
            ps_row_hold_let_go(taken, row + some);
        }
        for (size_t i = 0; i < rows * WIDTH; i++)
            sum += values[i];
        if (sum % ((int64_t)WIDTH * IDS / 4) != 0)
            atomic_store(&shared->torn, true);
        ps_row_hold_release(taken);
    }
    free(values);
}

static void push(struct shared *shared)
{
    static uint8_t content[IDS / 4 * (8 + WIDTH * 8)];
    struct row_model *model = &shared->model;
    uint64_t first = ps_random_below(&model->random, IDS);
    for (size_t i = 0; i < IDS / 4; i++) {
        int64_t ones[WIDTH] = {1, 1, 1, 1, 1, 1, 1, 1};
        memcpy(content + i * 8, &model->keys[(first + i * 3) % IDS], 8);
        memcpy(content + IDS / 4 * 8 + i * sizeof ones, ones, sizeof ones);
    }
    struct ps_bytes bytes = {content, sizeof content};
    ps_mutex_lock(&shared->cut);
    /* A configuration, and now and then a hold that is expected, come between pushes. */
    struct ps_table_settings settings = model->options.settings;
    settings.rows_max = IDS + model->version;
    ck_assert_int_eq(ps_row_table_configure(model->table, &settings, NULL), PS_OK);
    if (model->version % 50 == 0)
        ps_row_hold_expect(model->table);
    ck_assert_int_eq(row_table_push(model->table, bytes, &model->settings, ++model->version),
                     PS_OK);
    ps_mutex_unlock(&shared->cut);
}

START_TEST(readers_see_whole_rows_and_holds_one_instant)
{
    static struct shared shared;
    struct ps_thread threads[3];
    row_model_open(&shared.model, PS_RULE_ADD, PS_I64, WIDTH, IDS);
    ps_mutex_init(&shared.cut, PS_RANK_PARAMETER);
    ck_assert_int_eq(ps_thread_start(&threads[0], "pull", pull, &shared, NULL), PS_OK);
    ck_assert_int_eq(ps_thread_start(&threads[1], "pull", pull, &shared, NULL), PS_OK);
    ck_assert_int_eq(ps_thread_start(&threads[2], "hold", hold, &shared, NULL), PS_OK);
    for (int i = 0; i < PUSHES; i++)
        push(&shared);
    atomic_store(&shared.done, true);
    for (int i = 0; i < 3; i++)
        ps_thread_join(&threads[i]);
    ck_assert(!atomic_load(&shared.torn));
    ps_row_table_check(shared.model.table);
    ps_mutex_fini(&shared.cut);
    row_model_close(&shared.model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_threads");
    /* On an emulated device, under a sanitizer, on a busy machine. */
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, readers_see_whole_rows_and_holds_one_instant);
    return run_tests("row_threads", tests);
}
