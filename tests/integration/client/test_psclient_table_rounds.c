/* SPDX-License-Identifier: Apache-2.0 */
/* client/psclient_table_rounds.c: workers that step a table in rounds, on real servers that are
 * killed, against a plain array of the same rows. */
#include "client/psclient.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LONG_MS 120000
#define SERVERS 2
#define WORKERS 2
#define WIDTH 3
#define ROWS 3000
#define KEYS 1000
#define STEPS 150

static struct temp_folder folder;
static struct pserver_process servers[SERVERS];
static struct psclient_error error;
static float model[ROWS][WIDTH];
static uint64_t every[ROWS];

/* OptimizerConfig.rounds: 2 workers, whose gradients are summed. */
static const uint8_t rounds_of_two[] = {0x92, 0x0D, 4, 0x08, WORKERS, 0x20, 1};
static const struct psclient_table_options emb = {.name = "emb",
                                                  .type = PSCLIENT_FLOAT32,
                                                  .width = WIDTH,
                                                  .config = rounds_of_two,
                                                  .config_size = sizeof rounds_of_two};

struct worker {
    uint32_t rank;
    pthread_t thread;
    struct psclient *client;
    struct psclient_table *table;
    struct psclient_error error;
    int status;
    uint32_t duplicates;
    float rows[ROWS][WIDTH];
};
static struct worker workers[WORKERS];

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static struct psclient *open_client(void)
{
    char list[256];
    struct psclient *client = NULL;
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options options = {
        .servers = list, .open_timeout_ms = LONG_MS, .ack = PSCLIENT_ACK_LOGGED};
    expect_ok(psclient_open(&options, &client, &error));
    return client;
}

/* Keys of a step: of some servers all of a worker's, so that the other gets a contribution of no
 * rows. Fractions whose sum shows its order. */
static size_t work_of(uint32_t rank, uint32_t step, uint64_t *keys, float (*gradients)[WIDTH])
{
    struct ps_random chance;
    size_t count = step % 4 == 3 ? rank * 1 : KEYS;
    ps_random_init(&chance, 1000 + 100 * rank + step);
    for (size_t k = 0; k < count; k++) {
        keys[k] = ps_random_below(&chance, ROWS);
        for (size_t i = 0; i < WIDTH; i++)
            gradients[k][i] = (float)ps_random_below(&chance, 1000) / 7.0F;
    }
    return count;
}

/* Each worker's own sums first, then those of the workers in the order of ranks, then the step. */
static void teach_model(uint32_t step)
{
    static uint64_t keys[KEYS];
    static float gradients[KEYS][WIDTH], own[ROWS][WIDTH], all[ROWS][WIDTH];
    static bool is_own[ROWS], is_named[ROWS];
    memset(is_named, 0, sizeof is_named);
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        size_t count = work_of(rank, step, keys, gradients);
        memset(is_own, 0, sizeof is_own);
        for (size_t k = 0; k < count; k++) {
            for (size_t i = 0; i < WIDTH; i++)
                own[keys[k]][i] =
                    is_own[keys[k]] ? own[keys[k]][i] + gradients[k][i] : gradients[k][i];
            is_own[keys[k]] = true;
        }
        for (size_t row = 0; row < ROWS; row++) {
            if (!is_own[row])
                continue;
            for (size_t i = 0; i < WIDTH; i++)
                all[row][i] = is_named[row] ? all[row][i] + own[row][i] : own[row][i];
            is_named[row] = true;
        }
    }
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; is_named[row] && i < WIDTH; i++)
            model[row][i] -= all[row][i];
}

static void begin(void)
{
    int selected = 0;
    struct psclient_table *table = NULL;
    temp_folder_init(&folder);
    memset(model, 0, sizeof model);
    for (uint32_t i = 0; i < SERVERS; i++)
        pserver_process_start_alone(&servers[i], PSERVER_PROGRAM, &folder, i);
    for (uint64_t i = 0; i < ROWS; i++)
        every[i] = i;
    struct psclient *client = open_client();
    expect_ok(psclient_begin_init(client, LONG_MS, &selected, &error));
    expect_ok(psclient_table_define(client, &emb, LONG_MS, &table, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
    psclient_table_close(table);
    psclient_close(client);
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.rank = i, .client = open_client()};
        expect_ok(
            psclient_table_open(workers[i].client, "emb", LONG_MS, &workers[i].table, &error));
    }
}

static void end(void)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        psclient_table_close(workers[i].table);
        psclient_close(workers[i].client);
    }
    for (uint32_t i = 0; i < SERVERS; i++)
        pserver_process_kill(&servers[i]);
    temp_folder_fini(&folder);
}

/* All steps of one worker; the rows of the last are those that are compared. */
static void *train(void *argument)
{
    struct worker *worker = argument;
    uint64_t keys[KEYS];
    float gradients[KEYS][WIDTH];
    for (uint32_t i = 0; i < STEPS && worker->status == PSCLIENT_OK; i++) {
        struct psclient_table_stepped stepped;
        const struct psclient_table_step step = {.keys = keys,
                                                 .count = work_of(worker->rank, i, keys, gradients),
                                                 .gradients = gradients,
                                                 .get_keys = every,
                                                 .get_count = ROWS,
                                                 .rows = worker->rows,
                                                 .worker = 1 + worker->rank};
        worker->status =
            psclient_table_step(worker->table, &step, LONG_MS, &stepped, &worker->error);
        worker->duplicates += stepped.duplicate;
        if (worker->status == PSCLIENT_OK && (stepped.version != i + 1 || stepped.late != 0))
            worker->status = -1;
    }
    return NULL;
}

static void train_all(uint32_t kills)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, train, &workers[i]), 0);
    /* On this thread: a server dies with the thread that has started it. */
    for (uint32_t i = 0; i < kills; i++) {
        pserver_process_kill(&servers[i % SERVERS]);
        pserver_process_start_alone(&servers[i % SERVERS], PSERVER_PROGRAM, &folder, i % SERVERS);
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    for (uint32_t step = 0; step < STEPS; step++)
        teach_model(step);
    for (uint32_t i = 0; i < WORKERS; i++) {
        ck_assert_msg(workers[i].status == PSCLIENT_OK, "worker %u: %d, %s", i, workers[i].status,
                      workers[i].error.text);
        ck_assert_mem_eq(workers[i].rows, model, sizeof model);
    }
}

START_TEST(workers_read_the_bits_of_their_rounds)
{
    begin();
    train_all(0);
    end();
}
END_TEST

START_TEST(p2_p5_the_bits_are_the_same_where_servers_are_killed)
{
    begin();
    train_all(6);
    end();
}
END_TEST

START_TEST(a_step_says_what_is_wrong_with_it)
{
    struct psclient_table_step step = {.worker = 0};
    begin();
    ck_assert_int_eq(psclient_table_step(workers[0].table, &step, LONG_MS, NULL, &error),
                     PSCLIENT_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "worker"));
    step.worker = 1 + WORKERS;
    ck_assert_int_eq(psclient_table_step(workers[0].table, &step, LONG_MS, NULL, &error),
                     PSCLIENT_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "2 workers"));
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_table_rounds");
    TCase *tests = tcase_create("psclient_table_rounds");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, workers_read_the_bits_of_their_rounds);
    tcase_add_test(tests, p2_p5_the_bits_are_the_same_where_servers_are_killed);
    tcase_add_test(tests, a_step_says_what_is_wrong_with_it);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
