/* SPDX-License-Identifier: Apache-2.0 */
/* FlexPS's tests of its client tables and of its engine under their names, where they say anything
 * here, with two real servers. */
#include "client/flexps_compat.h"

#include "base/thread.h"
#include "run_suite.h"
#include "tests/support/client/pserver_process.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LONG_MS = 120000, WORKERS = 3, ITERATIONS = 5, SPECULATION = 2 };

static struct pserver_process servers[2];
static struct psclient *client;
static struct psclient_error error;
static struct ps_kv_table_options options;

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

static void begin(void)
{
    static const char *const none[] = {NULL};
    static float w;
    char list[160];
    struct psclient_parameter parameter = {
        .name = "w", .type = PSCLIENT_FLOAT32, .content = &w, .content_size = sizeof w};
    for (size_t i = 0; i < 2; i++)
        pserver_process_start(&servers[i], PSERVER_PROGRAM, "127.0.0.1:0", none);
    snprintf(list, sizeof list, "%s,%s", servers[0].address, servers[1].address);
    const struct psclient_options where = {.servers = list, .open_timeout_ms = LONG_MS};
    expect_ok(psclient_open(&where, &client, &error));
    expect_ok(psclient_init(client, &parameter, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_finish_init(client, LONG_MS, &error));
    options = (struct ps_kv_table_options){
        .name = "kv", .workers = 1, .model = PSCLIENT_SSP, .task = 1, .timeout_ms = LONG_MS};
}

static void end(void)
{
    psclient_close(client);
    for (size_t i = 0; i < 2; i++)
        pserver_process_kill(&servers[i]);
}

/* ---- KVClientTable, SimpleKVTable and their chunks ---- */

static struct ps_kv_client_table *create(void)
{
    struct ps_kv_client_table *table = NULL;
    expect_ok(ps_kv_table_define(client, &options, &error));
    expect_ok(ps_kv_client_table_create(client, &options, 0, &table, &error));
    return table;
}

START_TEST(VectorAdd_VectorGet_Clock)
{
    static const uint64_t keys[] = {3, 4, 5, 6};
    static const float values[] = {0.1f, 0.4f, 0.2f, 0.3f};
    float got[4] = {9, 9, 9, 9};
    begin();
    struct ps_kv_client_table *table = create();
    expect_ok(ps_kv_client_table_get(table, keys, 4, got, &error));
    for (size_t i = 0; i < 4; i++)
        ck_assert_float_eq(got[i], 0);

    expect_ok(ps_kv_client_table_add(table, keys, 4, values, &error));
    expect_ok(ps_kv_client_table_clock(table, &error));

    expect_ok(ps_kv_client_table_get(table, keys, 4, got, &error));
    ck_assert_mem_eq(got, values, sizeof got);
    ps_kv_client_table_destroy(table);
    end();
}
END_TEST

START_TEST(VectorChunkAdd_VectorChunkGet)
{
    static const uint64_t chunks[] = {7, 2};
    static const float first[] = {1, 2, 3}, second[] = {4, 5, 6};
    static const float *const values[] = {first, second};
    float got_first[3], got_second[3];
    float *const got[] = {got_first, got_second};
    begin();
    options.chunk_size = 3;
    struct ps_kv_client_table *table = create();

    expect_ok(ps_kv_client_table_add_chunk(table, chunks, 2, values, &error));
    expect_ok(ps_kv_client_table_add_chunk(table, chunks, 1, values, &error));
    expect_ok(ps_kv_client_table_get_chunk(table, chunks, 2, got, &error));

    ck_assert(got_first[0] == 2 && got_first[1] == 4 && got_first[2] == 6);
    ck_assert_mem_eq(got_second, second, sizeof second);
    ps_kv_client_table_destroy(table);
    end();
}
END_TEST

/* ---- SparseKVClientTable ---- */

static const uint64_t sparse_keys[] = {3, 4, 5, 6, 7};
static const struct ps_kv_keys sets[] = {
    {sparse_keys, 2}, {sparse_keys + 1, 3}, {sparse_keys, 1}, {sparse_keys, 5}, {NULL, 0}};

START_TEST(VectorGet_VectorGetAdd_VectorGetAddGet)
{
    struct ps_sparse_kv_table *table = NULL;
    float got[5];
    begin();
    options.model = PSCLIENT_SPARSE_SSP;
    options.speculation = SPECULATION;
    expect_ok(ps_kv_table_define(client, &options, &error));
    expect_ok(ps_sparse_kv_table_create(client, &options, 0, sets, 5, &table, &error));
    const float ones[5] = {1, 1, 1, 1, 1};

    ck_assert_int_eq(ps_sparse_kv_table_add(table, ones, &error), PSCLIENT_INVALID);
    expect_ok(ps_sparse_kv_table_get(table, got, &error));
    ck_assert(got[0] == 0 && got[1] == 0);
    ck_assert_int_eq(ps_sparse_kv_table_get(table, got, &error), PSCLIENT_INVALID);
    expect_ok(ps_sparse_kv_table_add(table, ones, &error));
    expect_ok(ps_sparse_kv_table_get(table, got, &error));
    ck_assert(got[0] == 1 && got[1] == 0 && got[2] == 0);
    expect_ok(ps_sparse_kv_table_add(table, ones, &error));
    expect_ok(ps_sparse_kv_table_get(table, got, &error));
    ck_assert_float_eq(got[0], 1);
    expect_ok(ps_sparse_kv_table_add(table, ones, &error));
    ck_assert_int_eq(ps_sparse_kv_table_get(table, got, &error), PSCLIENT_INVALID);
    ps_sparse_kv_table_destroy(table);
    end();
}
END_TEST

/* ---- Engine ---- */

static atomic_int failures;

struct worker {
    uint32_t rank;
    struct ps_thread thread;
};

static bool failed(int status, const struct psclient_error *why)
{
    if (status != PSCLIENT_OK)
        fprintf(stderr, "worker: %s\n", why->text);
    atomic_fetch_add(&failures, status != PSCLIENT_OK);
    return status != PSCLIENT_OK;
}

/* What a worker reads at clock c has at least everybody's first c - s additions, and its own. */
static void work(void *self)
{
    struct worker *worker = self;
    static const uint64_t keys[] = {1, 11, 21};
    static const float ones[] = {1, 1, 1};
    struct ps_kv_client_table *table = NULL;
    struct psclient_error why = {0};
    float values[3];
    if (failed(ps_kv_table_define(client, &options, &why), &why) ||
        failed(ps_kv_client_table_create(client, &options, worker->rank, &table, &why), &why))
        return;
    for (uint64_t c = 0; c < ITERATIONS; c++) {
        if (failed(ps_kv_client_table_get(table, keys, 3, values, &why), &why))
            break;
        uint64_t others = c > options.staleness ? c - options.staleness : 0;
        float before = (float)(WORKERS * ITERATIONS * (options.task - 1));
        for (size_t i = 0; i < 3; i++)
            atomic_fetch_add(&failures, values[i] < before + (float)(c + (WORKERS - 1) * others) ||
                                            values[i] > before + WORKERS * ITERATIONS);
        if (failed(ps_kv_client_table_add(table, keys, 3, ones, &why), &why) ||
            failed(ps_kv_client_table_clock(table, &why), &why))
            break;
    }
    ps_kv_client_table_destroy(table);
}

static void run_task(void (*body)(void *self))
{
    struct worker workers[WORKERS];
    struct ps_error why;
    atomic_store(&failures, 0);
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        workers[rank] = (struct worker){.rank = rank};
        ck_assert_int_eq(
            ps_thread_start(&workers[rank].thread, "worker", body, &workers[rank], &why), PS_OK);
    }
    for (uint32_t rank = 0; rank < WORKERS; rank++)
        ps_thread_join(&workers[rank].thread);
    ck_assert_int_eq(atomic_load(&failures), 0);
}

static void expect_sum(float sum)
{
    static const uint64_t keys[] = {1, 11, 21};
    struct psclient_table *table = NULL;
    float values[3];
    expect_ok(psclient_table_open(client, "kv", LONG_MS, &table, &error));
    expect_ok(psclient_table_get(table, keys, 3, values, LONG_MS, &error));
    for (size_t i = 0; i < 3; i++)
        ck_assert_float_eq(values[i], sum);
    psclient_table_close(table);
}

/* Three stages on the same table: clocks begin anew, values stay. */
START_TEST(KVClientTableMapStorage_MultipleTasks)
{
    begin();
    options.workers = WORKERS;
    options.staleness = 1;
    for (options.task = 1; options.task <= 3; options.task++) {
        run_task(work);
        expect_sum((float)(WORKERS * ITERATIONS * options.task));
    }
    end();
}
END_TEST

/* FlexPS's CheckGetAndAdd of BSP, on one thread: what is added counts when all have ended the
 * iteration, and no clock waits for another worker. */
START_TEST(BSP_CheckGetAndAdd)
{
    static const uint64_t key = 1;
    static const float hundred = 100;
    struct ps_kv_client_table *second = NULL, *third = NULL;
    float got;
    begin();
    options.workers = 2;
    options.model = PSCLIENT_BSP;
    expect_ok(ps_kv_table_define(client, &options, &error));
    expect_ok(ps_kv_client_table_create(client, &options, 0, &second, &error));
    expect_ok(ps_kv_client_table_create(client, &options, 1, &third, &error));
    expect_ok(ps_kv_client_table_get(second, &key, 1, &got, &error));
    ck_assert_float_eq(got, 0);

    expect_ok(ps_kv_client_table_add(second, &key, 1, &hundred, &error));
    expect_ok(ps_kv_client_table_clock(second, &error));
    expect_ok(ps_kv_client_table_get(third, &key, 1, &got, &error));
    ck_assert_float_eq(got, 0);
    expect_ok(ps_kv_client_table_clock(third, &error));

    expect_ok(ps_kv_client_table_get(second, &key, 1, &got, &error));
    ck_assert_float_eq(got, 100);
    expect_ok(ps_kv_client_table_get(third, &key, 1, &got, &error));
    ck_assert_float_eq(got, 100);
    ps_kv_client_table_destroy(second);
    ps_kv_client_table_destroy(third);
    end();
}
END_TEST

/* The paper's test: the Get of iteration i is exactly the number of workers times i. Each worker
 * adds to a key of its own as well, which lies at one of the two servers. */
static void work_bsp(void *self)
{
    struct worker *worker = self;
    const uint64_t keys[] = {7, 100 + worker->rank};
    static const float halves[] = {0.5f, 0.5f};
    struct ps_kv_client_table *table = NULL;
    struct psclient_error why = {0};
    if (failed(ps_kv_table_define(client, &options, &why), &why) ||
        failed(ps_kv_client_table_create(client, &options, worker->rank, &table, &why), &why))
        return;
    for (uint64_t i = 0; i < 30; i++) {
        float values[2];
        if (failed(ps_kv_client_table_get(table, keys, 2, values, &why), &why))
            break;
        float before = (float)(30 * (options.task - 1));
        atomic_fetch_add(&failures, values[0] != (float)WORKERS * (before + (float)i) ||
                                        values[1] != before + (float)i);
        if (failed(ps_kv_client_table_add(table, keys, 2, halves, &why), &why) ||
            failed(ps_kv_client_table_add(table, keys, 2, halves, &why), &why) ||
            failed(ps_kv_client_table_clock(table, &why), &why))
            break;
    }
    ps_kv_client_table_destroy(table);
}

START_TEST(BSP_Consistency)
{
    begin();
    options.workers = WORKERS;
    options.model = PSCLIENT_BSP;
    for (options.task = 1; options.task <= 2; options.task++)
        run_task(work_bsp);
    /* A task of another model on the same table: updates count as they come. */
    options.model = PSCLIENT_SSP;
    struct ps_kv_client_table *table = create();
    static const uint64_t key = 7;
    static const float one = 1;
    float got;
    expect_ok(ps_kv_client_table_add(table, &key, 1, &one, &error));
    expect_ok(ps_kv_client_table_get(table, &key, 1, &got, &error));
    ck_assert_float_eq(got, (float)(WORKERS * 60 + 1));
    ps_kv_client_table_destroy(table);
    end();
}
END_TEST

/* Workers that touch one key each and one in common: nobody misses what SSP would show. */
static void work_sparse(void *self)
{
    struct worker *worker = self;
    enum { SETS = 4 * ITERATIONS + SPECULATION };
    uint64_t keys[SETS][2];
    struct ps_kv_keys own[SETS];
    struct ps_sparse_kv_table *table = NULL;
    struct psclient_error why = {0};
    const float ones[2] = {1, 1};
    for (uint64_t c = 0; c < SETS; c++) {
        keys[c][0] = 100 + worker->rank;
        keys[c][1] = 1;
        own[c] = (struct ps_kv_keys){keys[c], c % 3 == 0 ? 2 : 1};
    }
    if (failed(ps_kv_table_define(client, &options, &why), &why) ||
        failed(ps_sparse_kv_table_create(client, &options, worker->rank, own, SETS, &table, &why),
               &why))
        return;
    for (uint64_t c = 0; c < 4 * ITERATIONS; c++) {
        float values[2];
        if (failed(ps_sparse_kv_table_get(table, values, &why), &why))
            break;
        /* Under staleness 0 the common key has everybody's iterations before this one. */
        bool is_stale =
            values[0] != (float)c || (c % 3 == 0 && values[1] < (float)(WORKERS * (c / 3)));
        atomic_fetch_add(&failures, is_stale);
        if (failed(ps_sparse_kv_table_add(table, ones, &why), &why))
            break;
    }
    ps_sparse_kv_table_destroy(table);
}

START_TEST(SparseKVClientTable_sees_what_SSP_would_show)
{
    begin();
    options.workers = WORKERS;
    options.model = PSCLIENT_SPARSE_SSP;
    options.speculation = SPECULATION;
    run_task(work_sparse);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flexps compat");
    TCase *tests = tcase_create("flexps compat");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, BSP_CheckGetAndAdd);
    tcase_add_test(tests, BSP_Consistency);
    tcase_add_test(tests, VectorAdd_VectorGet_Clock);
    tcase_add_test(tests, VectorChunkAdd_VectorChunkGet);
    tcase_add_test(tests, VectorGet_VectorGetAdd_VectorGetAddGet);
    tcase_add_test(tests, KVClientTableMapStorage_MultipleTasks);
    tcase_add_test(tests, SparseKVClientTable_sees_what_SSP_would_show);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
