/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of tables at clocks, with a cache and without, and vectors in chunks, on real servers. */
#include "client/psclient.h"

#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>

#define LONG_MS 120000
#define KEYS 100

static struct temp_folder folder;
static struct pserver_process servers[2];
static struct psclient *client;
static struct psclient_error error;
static struct psclient_table *mine, *theirs; /* one table, opened for two workers */
static uint64_t keys[KEYS];
static float ones[KEYS], rows[KEYS];

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

/* SGD of rate 1 takes a gradient away: each addition of ones makes every row one less. */
static void begin(void)
{
    char list[160];
    int selected = 0;
    temp_folder_init(&folder);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_start_alone(&servers[i], PSERVER_PROGRAM, &folder, i);
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i;
        ones[i] = 1;
    }
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options options = {.servers = list, .open_timeout_ms = LONG_MS};
    const struct psclient_clocks clocks = {
        .workers = 2, .consistency = PSCLIENT_SSP, .staleness = 1};
    const struct psclient_table_options t = {.name = "t", .type = PSCLIENT_FLOAT32, .width = 1};
    expect_ok(psclient_open(&options, &client, &error));
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_table_define(client, &t, LONG_MS, &mine, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
    expect_ok(psclient_table_open(client, "t", LONG_MS, &theirs, &error));
    expect_ok(psclient_set_clocks(client, "epoch", &clocks, LONG_MS, &error));
}

static void end(void)
{
    psclient_table_close(mine);
    psclient_table_close(theirs);
    psclient_close(client);
    for (uint32_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}

static void tell(uint32_t worker, uint64_t clock)
{
    expect_ok(psclient_clock(client, "epoch", worker, clock, LONG_MS, NULL, &error));
}

static void expect_read(uint64_t clock, float value)
{
    expect_ok(psclient_table_at(mine, "epoch", 1, clock, &error));
    expect_ok(psclient_table_get(mine, keys, KEYS, rows, LONG_MS, &error));
    for (size_t i = 0; i < KEYS; i++)
        ck_assert_float_eq(rows[i], value);
}

static int read_status;

static void *read_later(void *nothing)
{
    read_status = psclient_table_get(mine, keys, KEYS, rows, LONG_MS, &error);
    return nothing;
}

/* Worker 2 adds before it says that its iteration is over: whoever waits for that has it. */
START_TEST(a_read_at_a_clock_waits_for_the_others)
{
    struct psclient_error why;
    pthread_t reader;
    tell(1, 2);
    expect_ok(psclient_table_at(mine, "epoch", 1, 2, &error));
    ck_assert_int_eq(pthread_create(&reader, NULL, read_later, NULL), 0);
    ck_assert_int_eq(psclient_table_add(theirs, keys, KEYS, ones, LONG_MS, &why), PSCLIENT_OK);
    ck_assert_int_eq(psclient_clock(client, "epoch", 2, 1, LONG_MS, NULL, &why), PSCLIENT_OK);
    pthread_join(reader, NULL);

    expect_ok(read_status);
    for (size_t i = 0; i < KEYS; i++)
        ck_assert_float_eq(rows[i], -1);
}
END_TEST

START_TEST(rows_are_read_again_while_they_may_be)
{
    struct psclient_table_cached cached;
    expect_ok(psclient_table_cache(mine, KEYS, 1, &error));
    expect_read(0, 0);
    expect_ok(psclient_table_add(theirs, keys, KEYS, ones, LONG_MS, &error));

    expect_read(0, 0);
    expect_read(1, 0);
    psclient_table_get_cached(mine, &cached);
    ck_assert_uint_eq(cached.rows, KEYS);
    ck_assert_uint_eq(cached.found, 2 * KEYS);
    tell(1, 2);
    tell(2, 2);
    expect_read(2, -1);
    psclient_table_get_cached(mine, &cached);
    ck_assert_uint_eq(cached.missed, 2 * KEYS);
}
END_TEST

START_TEST(what_was_added_here_is_read_whatever_is_kept)
{
    float both[2];
    const uint64_t two[] = {3, 4};
    expect_ok(psclient_table_cache(mine, KEYS, 5, &error));
    expect_read(0, 0);
    expect_ok(psclient_table_add(theirs, two, 2, ones, LONG_MS, &error));

    expect_ok(psclient_table_add_get(mine, two, 1, ones, two, 2, both, LONG_MS, &error));
    ck_assert_float_eq(both[0], -2);
    ck_assert_float_eq(both[1], 0);
    expect_ok(psclient_table_at(mine, NULL, 0, 0, &error));
    expect_ok(psclient_table_get(mine, two, 2, both, LONG_MS, &error));
    ck_assert_float_eq(both[1], -1);
    expect_ok(psclient_table_cache(mine, 0, 0, &error));
    expect_ok(psclient_table_at(mine, "epoch", 1, 0, &error));
    expect_ok(psclient_table_get(mine, two, 2, both, LONG_MS, &error));
    ck_assert_float_eq(both[0], -2);
    ck_assert_float_eq(both[1], -1);
}
END_TEST

/* Ten elements in chunks of four: the last is short. Chunks and elements are of one table. */
START_TEST(a_vector_lies_in_chunks)
{
    static const uint64_t elements[] = {9, 0, 4, 9, 5};
    static const float gradients[] = {1, 2, 3, 10, 4};
    static const uint64_t chunk_ids[] = {2, 0}, beyond = 12;
    static const float chunk[] = {0, 0, 0, 5};
    struct psclient_table *vector = NULL;
    float values[5], chunks[2][4];
    const struct psclient_table_options options = {.name = "vector",
                                                   .type = PSCLIENT_FLOAT32,
                                                   .width = 4,
                                                   .partition = PSCLIENT_ROWS_RANGES,
                                                   .keys_max = 3};
    expect_ok(psclient_table_define(client, &options, LONG_MS, &vector, &error));

    expect_ok(psclient_table_add_elements(vector, elements, 5, gradients, LONG_MS, &error));
    expect_ok(psclient_table_add(vector, chunk_ids + 1, 1, chunk, LONG_MS, &error));
    expect_ok(psclient_table_get_elements(vector, elements, 5, values, LONG_MS, &error));
    expect_ok(psclient_table_get(vector, chunk_ids, 2, chunks, LONG_MS, &error));

    ck_assert_float_eq(values[0], -11);
    ck_assert_float_eq(values[1], -2);
    ck_assert_float_eq(values[2], -3);
    ck_assert_float_eq(values[3], -11);
    ck_assert_float_eq(values[4], -4);
    ck_assert_float_eq(chunks[0][1], -11);
    ck_assert_float_eq(chunks[0][3], 0);
    ck_assert_float_eq(chunks[1][0], -2);
    ck_assert_float_eq(chunks[1][3], -5);
    ck_assert_int_eq(psclient_table_get_elements(vector, &beyond, 1, values, LONG_MS, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_table_add_elements(vector, NULL, 0, NULL, LONG_MS, &error),
                     PSCLIENT_OK);
    psclient_table_close(vector);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient table reads");
    TCase *tests = tcase_create("reads");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_read_at_a_clock_waits_for_the_others);
    tcase_add_test(tests, rows_are_read_again_while_they_may_be);
    tcase_add_test(tests, what_was_added_here_is_read_whatever_is_kept);
    tcase_add_test(tests, a_vector_lies_in_chunks);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
