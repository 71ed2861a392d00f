/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that a server does to one table, at the same time: two threads push and sweep, two
 * pull, and one takes holds, reads them and loads what it has read into a table of its own. What
 * was loaded, and in the end the table, has the rows of a plain model.
 *
 * All elements of a row are equal, so that a row which is read by half shows. */
#include "tests/unit/tables/row_model.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define IDS 600
#define WIDTH 5
#define BATCH 90
#define TURNS 300 /* of each pushing thread */
#define HOLDS_MAX 200
#define KEPT 12 /* versions for which a row stays that nobody pushes to */

/* The table's rows, by id. */
struct plain {
    bool is_there[IDS];
    uint64_t touched[IDS];
    int64_t values[IDS];
};

struct shared {
    struct row_model model; /* its table and its keys alone */
    struct ps_mutex cut; /* held to push, to sweep and to take a hold, as a parameter's lock is */
    struct plain plain;  /* under the lock */
    uint64_t version;
    uint64_t swept; /* rows that went */
    atomic_int pushing;
    atomic_int wrong; /* the line that found it */
    atomic_int seeds;
};

static void expect(struct shared *shared, bool holds, int line)
{
    if (!holds)
        atomic_store(&shared->wrong, line);
}

/* ---- Pushing ---- */

static void push_to_plain(struct shared *shared, const uint32_t *ids, const int64_t *gradients)
{
    for (size_t i = 0; i < BATCH; i++) {
        struct plain *plain = &shared->plain;
        plain->values[ids[i]] += gradients[i];
        plain->is_there[ids[i]] = true;
        plain->touched[ids[i]] = shared->version;
    }
}

/* Keys, some of them more than once, then a row for each. */
static void push_once(struct shared *shared, struct ps_random *random)
{
    uint8_t content[BATCH * (1 + WIDTH) * 8];
    uint32_t ids[BATCH];
    int64_t gradients[BATCH];
    uint32_t first = (uint32_t)ps_random_below(random, IDS);
    for (size_t i = 0; i < BATCH; i++) {
        /* A stretch of ids at a time, so that others grow old meanwhile. */
        ids[i] = (first + (uint32_t)ps_random_below(random, IDS / 5)) % IDS;
        gradients[i] = (int64_t)ps_random_below(random, 1000);
        memcpy(content + i * 8, &shared->model.keys[ids[i]], 8);
        for (size_t k = 0; k < WIDTH; k++)
            memcpy(content + (BATCH + i * WIDTH + k) * 8, &gradients[i], 8);
    }
    const struct ps_bytes bytes = {content, sizeof content};
    ps_mutex_lock(&shared->cut);
    shared->version++;
    expect(shared,
           row_table_push(shared->model.table, bytes, &shared->model.settings, shared->version) ==
               PS_OK,
           __LINE__);
    push_to_plain(shared, ids, gradients);
    ps_mutex_unlock(&shared->cut);
}

static void sweep_once(struct shared *shared)
{
    uint64_t gone = 0;
    ps_mutex_lock(&shared->cut);
    uint64_t before = shared->version > KEPT ? shared->version - KEPT : 0;
    for (uint32_t i = 0; i < IDS; i++) {
        if (!shared->plain.is_there[i] || shared->plain.touched[i] >= before)
            continue;
        shared->plain.is_there[i] = false;
        shared->plain.values[i] = 0;
        gone++;
    }
    expect(shared, ps_row_table_sweep(shared->model.table, before, shared->version) == gone,
           __LINE__);
    shared->swept += gone;
    ps_mutex_unlock(&shared->cut);
}

/* What a look has found, as a sweep in pieces takes it out: with the lock of pushes, which may have
 * come between. */
static void remove_found(struct shared *shared, const struct ps_row_found *found, uint64_t before)
{
    const struct ps_row_removal removal = {found->keys, found->count, found->counts, before};
    uint64_t gone = 0;
    ps_mutex_lock(&shared->cut);
    for (uint32_t i = 0; i < IDS; i++)
        for (uint32_t k = 0; k < found->count; k++) {
            if (found->keys[k] != shared->model.keys[i] || !shared->plain.is_there[i] ||
                shared->plain.touched[i] >= before)
                continue;
            shared->plain.is_there[i] = false;
            shared->plain.values[i] = 0;
            gone++;
        }
    expect(shared, ps_row_table_remove(shared->model.table, &removal, shared->version) == gone,
           __LINE__);
    shared->swept += gone;
    ps_mutex_unlock(&shared->cut);
}

/* Looks beside everything else, and behind the last of them nothing is left that was old. */
static void sweep_in_pieces(struct shared *shared)
{
    struct ps_row_found found;
    ps_mutex_lock(&shared->cut);
    uint64_t now = shared->version;
    ps_mutex_unlock(&shared->cut);
    if (now <= KEPT)
        return;
    struct ps_row_walk walk = {.before = now - KEPT};
    for (bool is_more = true; is_more;) {
        is_more = ps_row_table_look(shared->model.table, &walk, now, &found);
        remove_found(shared, &found, now - KEPT);
    }
    ps_mutex_lock(&shared->cut);
    for (uint32_t i = 0; i < IDS; i++)
        expect(shared, !shared->plain.is_there[i] || shared->plain.touched[i] >= now - KEPT,
               __LINE__);
    ps_mutex_unlock(&shared->cut);
}

static void push(void *argument)
{
    struct shared *shared = argument;
    struct ps_random random;
    ps_random_init(&random, (uint64_t)atomic_fetch_add(&shared->seeds, 1));
    for (int i = 0; i < TURNS; i++) {
        push_once(shared, &random);
        if (i % 16 == 0)
            sweep_once(shared);
        if (i % 16 == 8)
            sweep_in_pieces(shared);
        if (i % 50 == 0)
            ps_row_hold_expect(shared->model.table);
    }
    atomic_fetch_sub(&shared->pushing, 1);
}

/* ---- Pulling ---- */

static void pull(void *argument)
{
    struct shared *shared = argument;
    static _Thread_local int64_t rows[IDS][WIDTH];
    const struct ps_bytes keys = {(const uint8_t *)shared->model.keys, IDS * sizeof(uint64_t)};
    while (atomic_load(&shared->pushing) > 0) {
        expect(shared,
               ps_row_table_get(shared->model.table, ps_view_of(&keys), rows, NULL) == PS_OK,
               __LINE__);
        for (size_t i = 0; i < IDS; i++)
            for (size_t k = 1; k < WIDTH; k++)
                expect(shared, rows[i][k] == rows[i][0], __LINE__);
    }
}

/* ---- Holding, reading and loading ---- */

struct arrays {
    int64_t values[IDS][WIDTH];
    uint64_t keys[IDS];
    uint32_t touched[IDS];
};

/* As the writer of a checkpoint does: some rows of every array, which are let go then. */
#define SOME_ROWS ((size_t)53)

static void read_hold(struct shared *shared, struct ps_row_hold *hold, struct arrays *arrays)
{
    uint8_t *const to[] = {(uint8_t *)arrays->values, (uint8_t *)arrays->keys,
                           (uint8_t *)arrays->touched};
    size_t rows = ps_row_hold_rows(hold);
    for (size_t row = 0; row < rows; row += SOME_ROWS) {
        size_t some = rows - row < SOME_ROWS ? rows - row : SOME_ROWS;
        for (uint32_t i = 0; i < 3; i++) {
            size_t each = ps_row_hold_row_bytes(hold, i);
            expect(shared,
                   ps_row_hold_read(hold, i, row * each, to[i] + row * each, some * each, NULL) ==
                       PS_OK,
                   __LINE__);
        }
        ps_row_hold_let_go(hold, row + some);
    }
}

/* Values by id, and how many rows there are. */
static void compare(struct shared *shared, struct ps_row_table *table, const struct plain *plain)
{
    static _Thread_local int64_t rows[IDS][WIDTH];
    const struct ps_bytes keys = {(const uint8_t *)shared->model.keys, IDS * sizeof(uint64_t)};
    uint64_t count = 0;
    expect(shared, ps_row_table_get(table, ps_view_of(&keys), rows, NULL) == PS_OK, __LINE__);
    for (size_t i = 0; i < IDS; i++) {
        count += plain->is_there[i] ? 1 : 0;
        for (size_t k = 0; k < WIDTH; k++)
            expect(shared, rows[i][k] == plain->values[i], __LINE__);
    }
    expect(shared, ps_row_table_rows(table) == count, __LINE__);
    ps_row_table_check(table);
}

static void load(struct shared *shared, const struct arrays *arrays, size_t rows,
                 const struct plain *plain)
{
    struct ps_row_table *table;
    expect(shared, ps_row_table_create(&shared->model.options, &table, NULL) == PS_OK, __LINE__);
    expect(shared,
           ps_row_table_load(table, arrays->keys, arrays->touched, arrays->values, NULL, rows,
                             NULL) == PS_OK,
           __LINE__);
    compare(shared, table, plain);
    ps_row_table_destroy(table);
}

/* The hold is read and loaded while pushes go on beside it. */
static void hold(void *argument)
{
    struct shared *shared = argument;
    static struct arrays arrays;
    static struct plain then;
    bool is_last = false;
    for (int i = 0; i < HOLDS_MAX && !is_last; i++) {
        /* The last hold is of a table at rest. */
        is_last = atomic_load(&shared->pushing) == 0;
        struct ps_row_hold *taken;
        ps_mutex_lock(&shared->cut);
        enum ps_status status = ps_row_hold_take(shared->model.table, &taken, NULL);
        then = shared->plain;
        ps_mutex_unlock(&shared->cut);
        expect(shared, status == PS_OK, __LINE__);
        read_hold(shared, taken, &arrays);
        load(shared, &arrays, ps_row_hold_rows(taken), &then);
        ps_row_hold_release(taken);
    }
}

START_TEST(pushes_sweeps_pulls_holds_and_loads_go_on_together)
{
    static struct shared shared;
    static void (*const works[])(void *) = {push, push, pull, pull, hold};
    struct ps_thread threads[5];
    row_model_open(&shared.model, PS_RULE_ADD, PS_I64, WIDTH, IDS);
    ps_mutex_init(&shared.cut, PS_RANK_PARAMETER);
    atomic_store(&shared.pushing, 2);

    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "together", works[i], &shared, NULL), PS_OK);
    for (int i = 0; i < 5; i++)
        ps_thread_join(&threads[i]);

    ck_assert_uint_eq(shared.version, 2 * TURNS);
    ck_assert_uint_gt(shared.swept, 0);
    compare(&shared, shared.model.table, &shared.plain);
    ck_assert_int_eq(atomic_load(&shared.wrong), 0); /* the line */
    ps_mutex_fini(&shared.cut);
    row_model_close(&shared.model);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_together");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, pushes_sweeps_pulls_holds_and_loads_go_on_together);
    return run_tests("row_together", tests);
}
