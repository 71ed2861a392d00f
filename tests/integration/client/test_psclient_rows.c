/* SPDX-License-Identifier: Apache-2.0 */
/* Tables on real servers that are killed, against a plain array of the same rows. */
#include "client/psclient.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000
#define SERVERS 3
#define WIDTH 4
#define FIRST_VALUE 0.5F
/* Rows of the model, and keys of one call: most keys come more than once in all, and many twice in
 * one call. */
#define ROWS 60000
#define KEYS 20000

static struct temp_folder folder;
static struct pserver_process servers[SERVERS];
static struct psclient *client;
static struct psclient_error error;
static struct psclient_table *table;
static struct ps_random chance;
static float model[ROWS][WIDTH];
static uint32_t picks[KEYS];
static uint64_t keys[KEYS];
static float gradients[KEYS][WIDTH], rows[KEYS][WIDTH];

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

/* Keys have no pattern that a partition could like. */
static uint64_t key_of(uint32_t row)
{
    return row * 0x9E3779B97F4A7C15u + 12345;
}

static void start(uint32_t index)
{
    pserver_process_start_alone(&servers[index], PSERVER_PROGRAM, &folder, index);
}

static void open_client(void)
{
    char list[256];
    snprintf(list, sizeof list, "%s,%s,%s", servers[0].address, servers[1].address,
             servers[2].address);
    const struct psclient_options options = {
        .servers = list, .open_timeout_ms = LONG_MS, .ack = PSCLIENT_ACK_LOGGED};
    expect_ok(psclient_open(&options, &client, &error));
}

static const struct psclient_table_options emb = {.name = "emb",
                                                  .type = PSCLIENT_FLOAT32,
                                                  .width = WIDTH,
                                                  .init = PSCLIENT_ROWS_CONSTANT,
                                                  .low = FIRST_VALUE};

/* A job whose only parameter is the table. */
static void begin(void)
{
    int selected = 0;
    temp_folder_init(&folder);
    for (uint32_t i = 0; i < SERVERS; i++)
        start(i);
    ps_random_init(&chance, 1);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < WIDTH; i++)
            model[row][i] = FIRST_VALUE;
    open_client();
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    ck_assert_int_eq(selected, 1);
    /* Twice, as a trainer does that was interrupted. */
    expect_ok(psclient_table_define(client, &emb, LONG_MS, &table, &error));
    psclient_table_close(table);
    expect_ok(psclient_table_define(client, &emb, LONG_MS, &table, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
}

static void end(void)
{
    psclient_table_close(table);
    psclient_close(client);
    for (uint32_t i = 0; i < SERVERS; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}

/* Gradients are small whole numbers, so that sums are exact in any order. */
static void pick(void)
{
    for (size_t k = 0; k < KEYS; k++) {
        picks[k] = (uint32_t)ps_random_below(&chance, ROWS);
        keys[k] = key_of(picks[k]);
        for (size_t i = 0; i < WIDTH; i++)
            gradients[k][i] = (float)ps_random_below(&chance, 7) - 3;
    }
}

/* SGD of rate 1, which is what an empty configuration says. */
static void teach_model(void)
{
    for (size_t k = 0; k < KEYS; k++)
        for (size_t i = 0; i < WIDTH; i++)
            model[picks[k]][i] -= gradients[k][i];
}

static void expect_rows(size_t count)
{
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < WIDTH; i++)
            ck_assert_msg(rows[k][i] == model[picks[k]][i], "key %zu: %g, not %g", k,
                          (double)rows[k][i], (double)model[picks[k]][i]);
}

/* Every row of the model. */
static void expect_model(void)
{
    for (uint32_t first = 0; first < ROWS; first += KEYS) {
        for (uint32_t k = 0; k < KEYS; k++) {
            picks[k] = first + k;
            keys[k] = key_of(first + k);
        }
        expect_ok(psclient_table_get(table, keys, KEYS, rows, LONG_MS, &error));
        expect_rows(KEYS);
    }
}

/* On this thread: a server dies with the thread that has started it. */
static void kill_and_restart(uint32_t i)
{
    pserver_process_kill(&servers[i]);
    start(i);
}

static int added;

static void *add(void *nothing)
{
    added = psclient_table_add(table, keys, KEYS, gradients, LONG_MS, &error);
    return nothing;
}

START_TEST(a_hundred_thousand_random_keys_are_added_once_each_whatever_is_killed)
{
    for (uint32_t round = 0; round < 6; round++) {
        pthread_t adder;
        pick();
        ck_assert_int_eq(pthread_create(&adder, NULL, add, NULL), 0);
        if (round % 2 == 1)
            kill_and_restart(round % SERVERS);
        pthread_join(adder, NULL);
        expect_ok(added);
        teach_model();
        expect_ok(psclient_table_get(table, keys, KEYS, rows, LONG_MS, &error));
        expect_rows(KEYS);
    }
    for (uint32_t i = 0; i < SERVERS; i++)
        kill_and_restart(i);
    expect_model();
}
END_TEST

START_TEST(what_was_added_is_read_in_the_same_call)
{
    for (uint32_t round = 0; round < 3; round++) {
        /* The first round fits in a message for each server, a single key asks one server only. */
        size_t count = round == 0 ? 500 : round == 1 ? KEYS : 1;
        pick();
        expect_ok(psclient_table_add_get(table, keys, count, gradients, keys, count, rows, LONG_MS,
                                         &error));
        for (size_t k = 0; k < count; k++)
            for (size_t i = 0; i < WIDTH; i++)
                model[picks[k]][i] -= gradients[k][i];
        expect_rows(count);
    }
    expect_model();
}
END_TEST

START_TEST(other_keys_are_read_than_were_added)
{
    float one[WIDTH];
    pick();

    expect_ok(psclient_table_add_get(table, keys, 1, gradients, keys + 1, 1, one, LONG_MS, &error));

    for (size_t i = 0; i < WIDTH; i++)
        ck_assert_float_eq(one[i],
                           picks[0] == picks[1] ? FIRST_VALUE - gradients[0][i] : FIRST_VALUE);
}
END_TEST

START_TEST(a_second_client_finds_the_table_and_its_rows)
{
    struct psclient_table *again = NULL;
    pick();
    expect_ok(psclient_table_add(table, keys, KEYS, gradients, LONG_MS, &error));
    teach_model();
    psclient_table_close(table);
    psclient_close(client);

    open_client();
    expect_ok(psclient_table_open(client, "emb", LONG_MS, &table, &error));
    expect_ok(psclient_table_define(client, &emb, LONG_MS, &again, &error));

    ck_assert_uint_eq(psclient_table_width(table), WIDTH);
    psclient_table_close(again);
    expect_model();
}
END_TEST

START_TEST(another_table_of_the_name_is_refused)
{
    struct psclient_table_options other = emb;
    struct psclient_table *none = NULL;
    other.width = WIDTH + 1;

    ck_assert_int_eq(psclient_table_define(client, &other, LONG_MS, &none, &error),
                     PSCLIENT_ALREADY);

    ck_assert_ptr_null(none);
}
END_TEST

START_TEST(a_row_limit_refuses_the_push_of_the_server_that_is_full)
{
    struct psclient_table_options narrow = emb;
    struct psclient_table *full = NULL;
    narrow.name = "narrow";
    narrow.rows_max = 10;
    pick();
    expect_ok(psclient_table_define(client, &narrow, LONG_MS, &full, &error));

    /* A refusal for want of room is repeated until the timeout: somebody may make room. */
    ck_assert_int_ne(psclient_table_add(full, keys, KEYS, gradients, 2000, &error), PSCLIENT_OK);

    expect_ok(psclient_table_get(full, keys, KEYS, rows, LONG_MS, &error));
    for (size_t k = 0; k < KEYS; k++)
        ck_assert_float_eq(rows[k][0], FIRST_VALUE);
    psclient_table_close(full);
}
END_TEST

/* Rows so wide that a message holds few of them, and ranges instead of hashes. */
START_TEST(wide_rows_go_in_many_messages)
{
    enum { WIDE = 4096, COUNT = 200 };
    struct psclient_table *wide = NULL;
    static float given[COUNT][WIDE], back[COUNT][WIDE];
    uint64_t wide_keys[COUNT];
    const struct psclient_table_options options = {.name = "wide",
                                                   .type = PSCLIENT_FLOAT32,
                                                   .width = WIDE,
                                                   .partition = PSCLIENT_ROWS_RANGES,
                                                   .keys_max = COUNT,
                                                   .chunk = 7};
    for (size_t k = 0; k < COUNT; k++) {
        wide_keys[k] = COUNT - 1 - k;
        for (size_t i = 0; i < WIDE; i++)
            given[k][i] = (float)(k * 3 + i % 11);
    }
    expect_ok(psclient_table_define(client, &options, LONG_MS, &wide, &error));

    expect_ok(psclient_table_add(wide, wide_keys, COUNT, given, LONG_MS, &error));
    expect_ok(psclient_table_get(wide, wide_keys, COUNT, back, LONG_MS, &error));

    for (size_t k = 0; k < COUNT; k++)
        for (size_t i = 0; i < WIDE; i++)
            ck_assert(back[k][i] == -given[k][i]);
    wide_keys[0] = COUNT;
    ck_assert_int_eq(psclient_table_get(wide, wide_keys, 1, back, LONG_MS, &error),
                     PSCLIENT_INVALID);
    psclient_table_close(wide);
}
END_TEST

/* More keys for each server than go in a message, most of them more than once: counted in whole
 * numbers, where nothing may be lost. */
START_TEST(counts_of_very_many_keys_are_exact)
{
    enum { MANY = 400000, COUNTED = 150000 };
    static const uint8_t add[] = {0x08, 0xcd, 0x01}; /* OptimizerConfig {optimizer: Add} */
    static uint64_t many[MANY], counted[COUNTED];
    static int64_t steps[MANY], expected[COUNTED], counts[COUNTED];
    struct psclient_table *clicks = NULL;
    const struct psclient_table_options options = {.name = "clicks",
                                                   .type = PSCLIENT_INT64,
                                                   .width = 1,
                                                   .config = add,
                                                   .config_size = sizeof add};
    for (uint32_t k = 0; k < COUNTED; k++)
        counted[k] = key_of(k);
    for (size_t k = 0; k < MANY; k++) {
        uint64_t which = ps_random_below(&chance, COUNTED);
        many[k] = counted[which];
        steps[k] = (int64_t)ps_random_next(&chance);
        expected[which] = (int64_t)((uint64_t)expected[which] + (uint64_t)steps[k]);
    }
    expect_ok(psclient_table_define(client, &options, LONG_MS, &clicks, &error));

    expect_ok(psclient_table_add_get(clicks, many, MANY, steps, counted, COUNTED, counts, LONG_MS,
                                     &error));

    ck_assert_mem_eq(counts, expected, sizeof counts);
    psclient_table_close(clicks);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient rows");
    TCase *tests = tcase_create("rows");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, what_was_added_is_read_in_the_same_call);
    tcase_add_test(tests, other_keys_are_read_than_were_added);
    tcase_add_test(tests, a_second_client_finds_the_table_and_its_rows);
    tcase_add_test(tests, another_table_of_the_name_is_refused);
    tcase_add_test(tests, a_row_limit_refuses_the_push_of_the_server_that_is_full);
    tcase_add_test(tests, wide_rows_go_in_many_messages);
    tcase_add_test(tests, counts_of_very_many_keys_are_exact);
    tcase_add_test(tests, a_hundred_thousand_random_keys_are_added_once_each_whatever_is_killed);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
