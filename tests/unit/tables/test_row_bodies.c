/* SPDX-License-Identifier: Apache-2.0 */
/* A table with rows on the emulated device beside one on the host: whatever is done to both, they
 * answer alike. The emulator runs work late and in random order, and fills memory with garbage. */
#include "optimizer/emulator/emulator.h"
#include "server/core/tables/row_bodies.h"
#include "server/core/tables/row_since.h"
#include "tests/unit/tables/row_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDS 2
#define IDS 3000

extern ps_device_entry_fn ps_device_entry;

static const struct ps_device_plugin *plugin;
static struct ps_device *device;

static void open_device(uint64_t budget, uint64_t seed, const char *fail)
{
    const struct ps_device_options options = {
        .memory_bytes = budget, .pinned_bytes = 512 << 10, .memory = ps_allocator_heap()};
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)seed + 1);
    (void)setenv("PS_EMULATOR_SEED", text, 1);
    if (fail != NULL)
        (void)setenv("PS_EMULATOR_FAIL", fail, 1);
    plugin = ps_device_entry(PS_DEVICE_ABI);
    ck_assert_int_eq(plugin->open(&options, &device, NULL), PS_OK);
}

static struct ps_device_stats stats(void)
{
    struct ps_device_stats stats;
    plugin->stats(device, &stats);
    return stats;
}

/* Two tables of the same options but for the device. */
struct pair {
    struct row_model model; /* keys, contents and random numbers; its own table is the host's */
    struct ps_row_table_options on_device;
    struct ps_row_table *seated;
    struct ps_row_hold *holds[HOLDS][2];
};

static void plan(struct pair *pair, enum ps_rule rule, enum ps_dtype dtype, uint32_t width)
{
    memset(pair, 0, sizeof *pair);
    row_model_plan(&pair->model, rule, dtype, width, IDS);
}

static void begin(struct pair *pair)
{
    row_model_begin(&pair->model);
    pair->on_device = pair->model.options;
    pair->on_device.device = (struct ps_row_device){
        .plugin = plugin, .device = device, .settings = &pair->model.settings, .name = "pair"};
    ck_assert_int_eq(ps_row_table_create(&pair->on_device, &pair->seated, NULL), PS_OK);
    ck_assert_ptr_nonnull(pair->seated->bodies);
}

static uint32_t below(struct pair *pair, uint32_t count)
{
    return (uint32_t)ps_random_below(&pair->model.random, count);
}

static void push(struct pair *pair, size_t count, uint32_t ids)
{
    size_t size;
    uint32_t *chosen = calloc(count + 1, sizeof *chosen);
    for (size_t i = 0; i < count; i++)
        chosen[i] = below(pair, ids);
    uint8_t *bytes = row_model_content(&pair->model, chosen, count, &size);
    const struct ps_bytes content = {bytes, size};
    uint64_t version = ++pair->model.version;
    enum ps_status status =
        row_table_push(pair->model.table, content, &pair->model.settings, version);
    ck_assert_int_eq(row_table_push(pair->seated, content, &pair->model.settings, version), status);
    free(bytes);
    free(chosen);
}

static void get(struct pair *pair, size_t count)
{
    uint64_t *keys = calloc(count, sizeof *keys);
    for (size_t i = 0; i < count; i++)
        keys[i] = pair->model.keys[below(pair, IDS)];
    const struct ps_bytes asked = {(const uint8_t *)keys, count * sizeof *keys};
    size_t size = count * pair->model.row_bytes;
    uint8_t *rows[2] = {malloc(size), malloc(size)};
    ck_assert_int_eq(ps_row_table_get(pair->model.table, ps_view_of(&asked), rows[0], NULL), PS_OK);
    ck_assert_int_eq(ps_row_table_get(pair->seated, ps_view_of(&asked), rows[1], NULL), PS_OK);
    ck_assert_mem_eq(rows[0], rows[1], size);
    free(rows[0]);
    free(rows[1]);
    free(keys);
}

static void hold(struct pair *pair, uint32_t i)
{
    ck_assert_int_eq(ps_row_hold_take(pair->model.table, &pair->holds[i][0], NULL), PS_OK);
    ck_assert_int_eq(ps_row_hold_take(pair->seated, &pair->holds[i][1], NULL), PS_OK);
}

/* Rows of both have the same numbers, and so the same order. */
static void read_hold(struct pair *pair, uint32_t i, uint32_t array)
{
    size_t rows = ps_row_hold_rows(pair->holds[i][0]);
    ck_assert_uint_eq(ps_row_hold_rows(pair->holds[i][1]), rows);
    size_t size = rows * ps_row_hold_row_bytes(pair->holds[i][0], array);
    size_t first = size > 0 ? below(pair, (uint32_t)size) : 0;
    uint8_t *bytes[2] = {malloc(size + 1), malloc(size + 1)};
    for (int k = 0; k < 2; k++)
        ck_assert_int_eq(
            ps_row_hold_read(pair->holds[i][k], array, first, bytes[k], size - first, NULL), PS_OK);
    ck_assert_mem_eq(bytes[0], bytes[1], size - first);
    free(bytes[0]);
    free(bytes[1]);
}

static void release(struct pair *pair, uint32_t i)
{
    for (int k = 0; k < 2; k++) {
        ps_row_hold_release(pair->holds[i][k]);
        pair->holds[i][k] = NULL;
    }
}

static void sweep(struct pair *pair)
{
    uint64_t now = pair->model.version + 1;
    uint64_t before = now > 12 ? now - 12 : 0;
    ck_assert_uint_eq(ps_row_table_sweep(pair->model.table, before, now),
                      ps_row_table_sweep(pair->seated, before, now));
}

/* One piece of everything that changed in the last versions. */
static void since(struct pair *pair)
{
    uint64_t now = pair->model.version;
    const struct ps_row_since asked = {.version = now > 5 ? now - 5 : 0, .now = now};
    struct ps_row_piece pieces[2] = {{0}, {0}};
    size_t room = 1 + below(pair, 60000);
    uint8_t *bytes[2] = {malloc(room), malloc(room)};
    struct ps_row_table *tables[2] = {pair->model.table, pair->seated};
    for (int k = 0; k < 2; k++) {
        uint64_t wanted;
        ck_assert_int_eq(ps_row_since_room(tables[k], &asked, &wanted, NULL), PS_OK);
        ck_assert_int_eq(ps_row_table_since(tables[k], &asked, bytes[k], room, &pieces[k], NULL),
                         PS_OK);
    }
    ck_assert_uint_eq(pieces[0].size, pieces[1].size);
    ck_assert_mem_eq(bytes[0], bytes[1], pieces[0].size);
    free(bytes[0]);
    free(bytes[1]);
}

/* Both go on as what a hold has of the other one. */
static void load(struct pair *pair)
{
    struct ps_row_hold *holds[2];
    const struct ps_row_table_options host = pair->model.options;
    struct ps_row_table *tables[2] = {pair->model.table, pair->seated};
    for (int k = 0; k < 2; k++)
        ck_assert_int_eq(ps_row_hold_take(tables[k], &holds[k], NULL), PS_OK);
    pair->model.table = row_model_loaded(&pair->model, holds[1]);
    pair->model.options = pair->on_device;
    pair->seated = row_model_loaded(&pair->model, holds[0]);
    pair->model.options = host;
    for (int k = 0; k < 2; k++) {
        ps_row_hold_release(holds[k]);
        ps_row_table_destroy(tables[k]);
    }
}

static void act(struct pair *pair)
{
    uint32_t i = below(pair, HOLDS);
    switch (below(pair, 16)) {
    case 0:
        if (pair->holds[i][0] == NULL)
            hold(pair, i);
        return;
    case 1:
    case 2:
        if (pair->holds[i][0] != NULL)
            read_hold(pair, i, below(pair, ps_row_hold_arrays(pair->holds[i][0])));
        return;
    case 3:
        release(pair, i);
        return;
    case 4:
        sweep(pair);
        return;
    case 5:
    case 6:
        since(pair);
        return;
    case 7:
        if (below(pair, 8) == 0)
            load(pair);
        return;
    case 8:
    case 9:
    case 10:
        get(pair, 1 + below(pair, 2000));
        return;
    default:
        push(pair, below(pair, below(pair, 4) == 0 ? 3000 : 200), 1 + below(pair, IDS));
    }
}

static void end(struct pair *pair)
{
    for (uint32_t i = 0; i < HOLDS; i++)
        release(pair, i);
    ps_row_table_check(pair->model.table);
    ps_row_table_check(pair->seated);
    ck_assert_uint_eq(ps_row_table_rows(pair->model.table), ps_row_table_rows(pair->seated));
    ck_assert_uint_eq(ps_row_table_digest(pair->model.table), ps_row_table_digest(pair->seated));
    ps_row_table_destroy(pair->seated);
    row_model_close(&pair->model);
    ck_assert_uint_eq(stats().used_bytes, 0);
}

static const enum ps_rule rules[] = {PS_RULE_SGD, PS_RULE_ADAM, PS_RULE_ADAGRAD, PS_RULE_FTRL,
                                     PS_RULE_ADAGRAD};

/* Of the seed: rule and width, row-wise or not, a row limit, an admission, and how much room the
 * device has: for all rows, for some, for none. */
START_TEST(whatever_is_done_the_answers_are_the_hosts)
{
    static const uint32_t widths[] = {1, 3, 4, 16, 17, 64};
    static const uint64_t budgets[] = {64u << 20, 320u << 10, 64u << 20, 160u << 10};
    struct pair pair;
    uint64_t seed = (uint64_t)_i;
    printf("seed %d\n", _i);
    open_device(budgets[seed % 4], seed, NULL);
    plan(&pair, rules[seed % 5], seed % 7 == 3 ? PS_F64 : PS_F32, widths[seed % 6]);
    ps_random_init(&pair.model.random, seed);
    if (seed % 5 == 4) {
        pair.model.settings.adagrad_row_wise = true;
        pair.model.options.layout.state_is_one[0] = true;
    }
    if (seed % 3 == 1) {
        pair.model.options.settings.rows_max = 1200;
        pair.model.options.settings.full = PS_TABLE_OLDEST;
    }
    if (seed % 11 == 5)
        pair.model.options.settings.admission = 2;
    begin(&pair);
    for (int i = 0; i < 150; i++)
        act(&pair);
    push(&pair, 300, IDS);
    push(&pair, 300, 100);
    if (budgets[seed % 4] > 1u << 20)
        ck_assert_uint_gt(ps_row_table_seated(pair.seated), 0);
    end(&pair);
    plugin->close(device);
}
END_TEST

START_TEST(a_row_limit_reserves_all_of_its_seats_at_once)
{
    struct pair pair;
    open_device(64u << 20, 1, NULL);
    plan(&pair, PS_RULE_SGD, PS_F32, 16);
    pair.model.options.settings.rows_max = 5000;
    begin(&pair);
    ck_assert_uint_eq(stats().used_bytes, 0);
    push(&pair, 10, IDS);
    ck_assert_uint_eq(stats().used_bytes, 5000 * 64);
    push(&pair, 3000, IDS);
    ck_assert_uint_eq(stats().used_bytes, 5000 * 64);
    ck_assert_uint_eq(ps_row_table_seated(pair.seated), ps_row_table_rows(pair.seated));
    end(&pair);
    plugin->close(device);
}
END_TEST

START_TEST(seats_of_rows_that_went_are_given_out_again)
{
    struct pair pair;
    open_device(64u << 20, 2, NULL);
    plan(&pair, PS_RULE_SGD, PS_F32, 16);
    begin(&pair);
    for (int i = 0; i < 30; i++) {
        push(&pair, 600, IDS);
        ck_assert_uint_gt(ps_row_table_seated(pair.seated), 0);
        uint64_t now = pair.model.version + 1;
        ck_assert_uint_eq(ps_row_table_sweep(pair.model.table, now, now),
                          ps_row_table_sweep(pair.seated, now, now));
        ck_assert_uint_eq(ps_row_table_seated(pair.seated), 0);
    }
    /* The first ones were enough. */
    ck_assert_uint_eq(stats().used_bytes, 1024 * 64);
    end(&pair);
    plugin->close(device);
}
END_TEST

START_TEST(a_small_table_asks_no_device)
{
    struct pair pair;
    open_device(64u << 20, 3, NULL);
    plan(&pair, PS_RULE_SGD, PS_F32, 16);
    begin(&pair);
    pair.seated->bodies->at.min_bytes = 500 * 64;
    uint64_t before = stats().bytes_in;
    push(&pair, 300, 400);
    ck_assert_uint_eq(ps_row_table_seated(pair.seated), 0);
    ck_assert_uint_eq(stats().bytes_in, before);
    push(&pair, 2000, IDS);
    ck_assert_uint_gt(ps_row_table_seated(pair.seated), 400);
    end(&pair);
    plugin->close(device);
}
END_TEST

/* The n-th piece of memory is refused, also while a table grows; those rows stay on the host. */
START_TEST(memory_that_the_device_refuses_changes_no_bit)
{
    struct pair pair;
    char fail[32];
    (void)snprintf(fail, sizeof fail, "memory:%d", 5 + _i);
    open_device(64u << 20, 4, fail);
    plan(&pair, PS_RULE_ADAM, PS_F32, 16);
    begin(&pair);
    for (int i = 0; i < 6; i++)
        push(&pair, 1000, IDS);
    get(&pair, 2000);
    end(&pair);
    plugin->close(device);
}
END_TEST

START_TEST(a_device_that_dies_fails_whatever_needs_it)
{
    struct ps_row_hold *hold;
    struct pair pair;
    struct ps_error error = {0};
    uint8_t rows[64 * 100];
    open_device(64u << 20, 5, "launch:40:700");
    plan(&pair, PS_RULE_SGD, PS_F32, 16);
    begin(&pair);
    const struct ps_bytes keys = {(const uint8_t *)pair.model.keys, 100 * sizeof(uint64_t)};
    enum ps_status status = PS_OK;
    for (int i = 0; i < 100 && status == PS_OK; i++) {
        push(&pair, 500, 100);
        status = ps_row_table_get(pair.seated, ps_view_of(&keys), rows, &error);
    }
    ck_assert_int_eq(status, PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.text, "700"));
    ck_assert_int_eq(ps_row_hold_take(pair.seated, &hold, NULL), PS_OK);
    ck_assert_int_eq(ps_row_hold_read(hold, 0, 0, rows, 64 * 50, NULL), PS_ERR_UNAVAILABLE);
    /* Keys are the host's. */
    ck_assert_int_eq(ps_row_hold_read(hold, 1, 0, rows, 8 * 50, NULL), PS_OK);
    ps_row_hold_release(hold);
    ps_row_table_destroy(pair.seated);
    row_model_close(&pair.model);
    plugin->close(device);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_bodies");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, whatever_is_done_the_answers_are_the_hosts, 0, 40);
    tcase_add_test(tests, a_row_limit_reserves_all_of_its_seats_at_once);
    tcase_add_test(tests, seats_of_rows_that_went_are_given_out_again);
    tcase_add_test(tests, a_small_table_asks_no_device);
    tcase_add_loop_test(tests, memory_that_the_device_refuses_changes_no_bit, 0, 4);
    tcase_add_test(tests, a_device_that_dies_fails_whatever_needs_it);
    return run_tests("row_bodies", tests);
}
