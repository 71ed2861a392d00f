/* SPDX-License-Identifier: Apache-2.0 */
/* Batched serving, each of its eleven names by a test of that name, against real servers: two
 * workers and two server programs, which are all in this process. */
#include "program_rig.h"

#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2, SERVERS = 2, ROWS = 4, WIDTH = 8, BYTES = ROWS * WIDTH * 4 };

static struct program_rig rig;
static struct psclient *client;
static struct psclient_error error;
static struct ps_serving *workers[WORKERS], *programs[SERVERS];

static void expect_ok(int status)
{
    ck_assert_msg(status == PSCLIENT_OK, "%d %s", status, error.text);
}

static void begin(void)
{
    program_rig_begin(&rig, SERVERS, WORKERS, NULL);
    client = program_rig_open(rig.list);
    for (uint32_t i = 0; i < WORKERS; i++) {
        const struct ps_serving_options options = {
            .app = 5, .role = PS_SERVING_WORKER, .rank = 1 + i, .workers = WORKERS};
        expect_ok(ps_serving_init(client, &options, &workers[i], &error));
    }
    for (uint32_t i = 0; i < SERVERS; i++) {
        const struct ps_serving_options options = {
            .app = 5, .role = PS_SERVING_SERVER, .rank = i, .workers = WORKERS, .name = "ffn"};
        expect_ok(ps_serving_init(client, &options, &programs[i], &error));
    }
}

static void end(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        expect_ok(ps_serving_stop(workers[i], 0, &error));
    for (uint32_t i = 0; i < SERVERS; i++)
        expect_ok(ps_serving_stop(programs[i], 0, &error));
    psclient_close(client);
    program_rig_end(&rig);
}

static struct psclient_tensor matrix(float *content)
{
    return (struct psclient_tensor){.dtype = PSCLIENT_FLOAT32,
                                    .element_size = 4,
                                    .rank = 2,
                                    .shape = {ROWS, WIDTH},
                                    .content = content,
                                    .size = BYTES};
}

/* What a worker pushes and pulls. */
static float pushed[WORKERS][2][ROWS * WIDTH], pulled[WORKERS][SERVERS][ROWS * WIDTH];

/* Worker i pushes tensors of 10 i + 1 and 10 i + 2. */
static uint64_t push_pull_of(uint32_t worker)
{
    const uint64_t keys[] = {100 + worker, 200 + worker}, out_keys[] = {7, 8};
    struct psclient_tensor out[SERVERS], in[2];
    uint64_t handler = UINT64_MAX;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++)
            pushed[worker][k][i] = (float)(10 * worker + 1 + k);
        in[k] = matrix(pushed[worker][k]);
    }
    for (size_t s = 0; s < SERVERS; s++) {
        memset(pulled[worker][s], 0, BYTES);
        out[s] = matrix(pulled[worker][s]);
    }
    expect_ok(ps_serving_push_pull(workers[worker], in, keys, 2, out, out_keys, SERVERS,
                                   RIG_LONG_MS, &handler, &error));
    return handler;
}

static struct ps_serving_batch *take_gang(uint32_t program)
{
    const struct ps_serving_wish wish = {.worker_mask = 3};
    struct ps_serving_batch *batch = NULL;
    expect_ok(ps_serving_get_batch(programs[program], &wish, RIG_LONG_MS, &batch, &error));
    ck_assert_uint_eq(batch->count, 2);
    return batch;
}

/* Each request is answered with the sum of its two tensors, and 1000 for each server. */
static void respond_to(uint32_t program, const struct ps_serving_request *request)
{
    float sums[ROWS * WIDTH];
    const float *a = request->tensors[0].content, *b = request->tensors[1].content;
    for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++)
        sums[i] = a[i] + b[i] + 1000.0F * (float)program;
    const struct psclient_tensor tensor = matrix(sums);
    expect_ok(
        ps_serving_respond(programs[program], &tensor, 1, request->handler, RIG_LONG_MS, &error));
}

static void serve_all(void)
{
    for (uint32_t program = 0; program < SERVERS; program++) {
        struct ps_serving_batch *batch = take_gang(program);
        for (size_t i = 0; i < batch->count; i++)
            respond_to(program, &batch->requests[i]);
        ps_serving_batch_release(batch);
    }
}

static void expect_pulled(uint32_t worker)
{
    for (size_t s = 0; s < SERVERS; s++)
        for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++)
            ck_assert(pulled[worker][s][i] == (float)(20 * worker + 3) + 1000.0F * (float)s);
}

START_TEST(init)
{
    struct ps_serving *none = NULL;
    const struct ps_serving_options far = {.role = PS_SERVING_SERVER, .rank = SERVERS};
    const struct ps_serving_options app = {.app = 65536};
    const struct ps_serving_options rank = {.rank = 4, .workers = 2};
    const struct ps_serving_options role = {.role = (enum ps_serving_role)9};

    ck_assert_int_eq(ps_serving_init(client, &far, &none, &error), PSCLIENT_INVALID);
    ck_assert_int_eq(ps_serving_init(client, &app, &none, &error), PSCLIENT_INVALID);
    ck_assert_int_eq(ps_serving_init(client, &rank, &none, &error), PSCLIENT_INVALID);
    ck_assert_int_eq(ps_serving_init(client, &role, &none, &error), PSCLIENT_INVALID);
    ck_assert_ptr_null(none);
    expect_ok(ps_serving_init(client, NULL, &none, &error));
    expect_ok(ps_serving_stop(none, 0, &error));
}
END_TEST

START_TEST(get_batch)
{
    const struct ps_serving_wish gang = {.worker_mask = 3}, some = {.worker_mask = 3, .partial = 1};
    struct ps_serving_batch *batch = NULL;

    ck_assert_int_eq(ps_serving_get_batch(programs[0], &gang, 50, &batch, &error),
                     PSCLIENT_UNKNOWN);
    uint64_t handler = push_pull_of(1);
    ck_assert_int_eq(ps_serving_get_batch(programs[0], &gang, 300, &batch, &error),
                     PSCLIENT_UNKNOWN);
    expect_ok(ps_serving_get_batch(programs[0], &some, 2000, &batch, &error));
    ck_assert_uint_eq(batch->count, 1);
    ck_assert_uint_eq(batch->requests[0].worker, 1);
    ck_assert_int_eq(batch->requests[0].kind, PS_SERVING_BATCH);
    ck_assert_uint_eq(batch->requests[0].tensor_count, 2);
    ck_assert_uint_eq(batch->requests[0].tensor_keys[1], 201);
    ck_assert_uint_eq(batch->requests[0].tensors[0].shape[1], WIDTH);
    ck_assert_uint_eq(batch->requests[0].wanted_count, 1);
    ck_assert_uint_eq(batch->requests[0].wanted[0].size, BYTES);
    respond_to(0, &batch->requests[0]);
    ps_serving_batch_release(batch);
    expect_ok(ps_serving_get_batch(programs[1], NULL, RIG_LONG_MS, &batch, &error));
    respond_to(1, &batch->requests[0]);
    ps_serving_batch_release(batch);
    expect_ok(ps_serving_wait(workers[1], handler, RIG_LONG_MS, &error));
    expect_pulled(1);
}
END_TEST

START_TEST(push_pull)
{
    uint64_t handlers[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        handlers[i] = push_pull_of(i);
    serve_all();
    for (uint32_t i = 0; i < WORKERS; i++) {
        expect_ok(ps_serving_wait(workers[i], handlers[i], RIG_LONG_MS, &error));
        expect_pulled(i);
    }
}
END_TEST

START_TEST(respond)
{
    uint64_t handlers[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        handlers[i] = push_pull_of(i);
    struct ps_serving_batch *batch = take_gang(0);
    float rows[ROWS * WIDTH] = {0};
    struct psclient_tensor two[2] = {matrix(rows), matrix(rows)}, half = matrix(rows),
                           crooked = matrix(rows);
    half.shape[0] = ROWS / 2;
    half.size = BYTES / 2;
    crooked.size = BYTES / 2;
    uint64_t handler = batch->requests[0].handler;

    ck_assert_int_eq(ps_serving_respond(programs[0], two, 2, handler, RIG_LONG_MS, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(ps_serving_respond(programs[0], &half, 1, handler, RIG_LONG_MS, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(ps_serving_respond(programs[0], &crooked, 1, handler, RIG_LONG_MS, &error),
                     PSCLIENT_INVALID);
    ck_assert_int_eq(ps_serving_respond(programs[0], two, 1, 12345, RIG_LONG_MS, &error),
                     PSCLIENT_NOT_FOUND);
    respond_to(0, &batch->requests[0]);
    ck_assert_int_eq(ps_serving_respond(programs[0], two, 1, handler, RIG_LONG_MS, &error),
                     PSCLIENT_ALREADY);
    respond_to(0, &batch->requests[1]);
    ps_serving_batch_release(batch);
    batch = take_gang(1);
    respond_to(1, &batch->requests[1]);
    respond_to(1, &batch->requests[0]);
    ps_serving_batch_release(batch);
    for (uint32_t i = 0; i < WORKERS; i++) {
        expect_ok(ps_serving_wait(workers[i], handlers[i], RIG_LONG_MS, &error));
        expect_pulled(i);
    }
}
END_TEST

/* Rows of one tensor, each request its own: StepMesh would send the first rows to both. */
START_TEST(respond_vec)
{
    uint64_t handlers[WORKERS];
    float rows[WORKERS * ROWS * WIDTH];
    for (uint32_t i = 0; i < WORKERS; i++)
        handlers[i] = push_pull_of(i);
    for (uint32_t program = 0; program < SERVERS; program++) {
        struct ps_serving_batch *batch = take_gang(program);
        struct ps_serving_slice slices[WORKERS];
        struct psclient_tensor all = matrix(rows);
        all.shape[0] = WORKERS * ROWS;
        all.size = WORKERS * BYTES;
        for (uint32_t i = 0; i < WORKERS; i++) {
            slices[i] = (struct ps_serving_slice){
                .handler = batch->requests[i].handler, .row_begin = i * ROWS, .row_count = ROWS};
            for (size_t k = 0; k < (size_t)ROWS * WIDTH; k++)
                rows[i * ROWS * WIDTH + k] = (float)(20 * i + 3) + 1000.0F * (float)program;
        }
        slices[1].row_count = ROWS + 1;
        ck_assert_int_eq(
            ps_serving_respond_vec(programs[program], &all, slices, WORKERS, RIG_LONG_MS, &error),
            PSCLIENT_INVALID);
        slices[1].row_count = ROWS;
        expect_ok(
            ps_serving_respond_vec(programs[program], &all, slices, WORKERS, RIG_LONG_MS, &error));
        ck_assert_int_eq(slices[1].status, PSCLIENT_OK);
        ck_assert_int_eq(
            ps_serving_respond_vec(programs[program], &all, slices, WORKERS, RIG_LONG_MS, &error),
            PSCLIENT_ALREADY);
        ps_serving_batch_release(batch);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        expect_ok(ps_serving_wait(workers[i], handlers[i], RIG_LONG_MS, &error));
        expect_pulled(i);
    }
}
END_TEST

START_TEST(wait)
{
    uint64_t handler = push_pull_of(0), other = push_pull_of(1);

    ck_assert_int_eq(ps_serving_wait(workers[0], handler, 50, &error), PSCLIENT_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(error.text, "server 0"));
    ck_assert_ptr_nonnull(strstr(error.text, rig.servers[1].address));
    serve_all();
    expect_ok(ps_serving_wait(workers[0], handler, RIG_LONG_MS, &error));
    expect_ok(ps_serving_wait(workers[0], handler, RIG_LONG_MS, &error));
    expect_ok(ps_serving_wait(workers[1], other, RIG_LONG_MS, &error));
    ck_assert_int_eq(ps_serving_wait(workers[0], 999, RIG_LONG_MS, &error), PSCLIENT_NOT_FOUND);
}
END_TEST

START_TEST(get_all_handlers)
{
    uint64_t first = push_pull_of(0), second = push_pull_of(0), all[8];
    size_t count = 0;

    expect_ok(ps_serving_get_all_handlers(workers[0], first, all, 8, &count, &error));
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_eq(all[0], first);
    ck_assert_uint_eq(all[2], first + 2);
    expect_ok(ps_serving_get_all_handlers(workers[0], second + 1, all, 1, &count, &error));
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_eq(all[0], second);
    ck_assert_int_eq(ps_serving_get_all_handlers(workers[0], 77, all, 8, &count, &error),
                     PSCLIENT_NOT_FOUND);
    uint64_t others[] = {push_pull_of(1), push_pull_of(1)};
    serve_all();
    serve_all();
    expect_ok(ps_serving_wait(workers[0], all[0] + 2, RIG_LONG_MS, &error));
    expect_ok(ps_serving_wait(workers[1], others[1], RIG_LONG_MS, &error));
    expect_pulled(0);
}
END_TEST

START_TEST(fetch_trace)
{
    struct ps_serving_trace rows[SERVERS];
    size_t count = 0;
    uint64_t handler = push_pull_of(0), other = push_pull_of(1);
    serve_all();
    expect_ok(ps_serving_wait(workers[0], handler, RIG_LONG_MS, &error));
    expect_ok(ps_serving_wait(workers[1], other, RIG_LONG_MS, &error));

    expect_ok(ps_serving_fetch_trace(workers[0], handler, rows, SERVERS, &count, &error));

    ck_assert_uint_eq(count, SERVERS);
    for (size_t i = 0; i < count; i++) {
        const struct ps_serving_trace *row = &rows[i];
        ck_assert_uint_eq(row->server, i);
        ck_assert_uint_eq(row->handler, handler);
        ck_assert_uint_eq(row->worker_host, row->server_host);
        const uint64_t stamps[] = {row->begun,    row->sent,    row->arrived,  row->taken,
                                   row->answered, row->replied, row->received, row->waited};
        for (size_t k = 0; k < 8; k++)
            ck_assert_msg(stamps[k] != 0, "stamp %zu of server %zu", k, i);
        for (size_t k = 1; k < 8; k++)
            ck_assert_msg(stamps[k] >= stamps[k - 1], "stamp %zu of server %zu", k, i);
    }
    ck_assert_int_eq(ps_serving_fetch_trace(workers[0], 888, rows, SERVERS, &count, &error),
                     PSCLIENT_NOT_FOUND);
}
END_TEST

START_TEST(register_recv_buffer)
{
    static float buffer[WORKERS][ROWS * WIDTH];
    const uint32_t ranks[] = {0, 1};
    const uint64_t keys[] = {100, 101};

    ck_assert_int_eq(
        ps_serving_register_recv_buffer(programs[0], buffer, 7, ranks, keys, 2, &error),
        PSCLIENT_INVALID);
    ck_assert_int_eq(
        ps_serving_register_recv_buffer(workers[0], buffer, sizeof buffer, ranks, keys, 2, &error),
        PSCLIENT_INVALID);
    expect_ok(ps_serving_register_recv_buffer(programs[0], buffer, sizeof buffer, ranks, keys, 2,
                                              &error));
    ck_assert_int_eq(
        ps_serving_register_recv_buffer(programs[0], buffer, sizeof buffer, ranks, keys, 2, &error),
        PSCLIENT_INVALID);
    uint64_t handlers[] = {push_pull_of(0), push_pull_of(1)};
    struct ps_serving_batch *batch = take_gang(0);
    for (size_t i = 0; i < WORKERS; i++) {
        ck_assert_ptr_eq(batch->requests[i].tensors[0].content, buffer[i]);
        ck_assert_ptr_ne(batch->requests[i].tensors[1].content, buffer[i]);
        ck_assert(buffer[i][ROWS * WIDTH - 1] == (float)(10 * i + 1));
        respond_to(0, &batch->requests[i]);
    }
    ps_serving_batch_release(batch);
    batch = take_gang(1);
    for (size_t i = 0; i < WORKERS; i++)
        respond_to(1, &batch->requests[i]);
    ps_serving_batch_release(batch);
    for (uint32_t i = 0; i < WORKERS; i++)
        expect_ok(ps_serving_wait(workers[i], handlers[i], RIG_LONG_MS, &error));
}
END_TEST

/* All of the job in processes of their own. */
static void meet(const struct program_words *words, enum ps_serving_role role)
{
    struct ps_serving *serving = NULL;
    struct psclient *own = program_rig_open(words->list);
    bool is_worker = role == PS_SERVING_WORKER;
    const struct ps_serving_options options = {.app = 6,
                                               .role = role,
                                               .rank = words->rank + (is_worker ? 1 : 0),
                                               .workers = words->workers};
    program_rig_must(ps_serving_init(own, &options, &serving, &error), &error, "init");
    program_rig_must(ps_serving_barrier(serving, 1, 1, RIG_LONG_MS, &error), &error, "barrier");
    program_rig_must(
        ps_serving_barrier(serving, is_worker ? 0 : 1, is_worker ? 1 : 0, RIG_LONG_MS, &error),
        &error, "own barrier");
    if (ps_serving_barrier(serving, is_worker ? 1 : 0, is_worker ? 0 : 1, 1000, &error) !=
        PSCLIENT_INVALID)
        exit(4);
    program_rig_must(ps_serving_stop(serving, RIG_LONG_MS, &error), &error, "stop");
    psclient_close(own);
}

static void meet_as_worker(const struct program_words *words)
{
    meet(words, PS_SERVING_WORKER);
}

static void meet_as_server(const struct program_words *words)
{
    meet(words, PS_SERVING_SERVER);
}

START_TEST(barrier)
{
    pid_t children[WORKERS + SERVERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        children[i] = program_rig_child(&rig, "worker", i);
    for (uint32_t i = 0; i < SERVERS; i++)
        children[WORKERS + i] = program_rig_child(&rig, "server", i);
    for (uint32_t i = 0; i < WORKERS + SERVERS; i++)
        program_rig_expect_end(children[i]);
}
END_TEST

/* What was taken and not answered fails at once, and names the program. */
START_TEST(stop)
{
    uint64_t handler = push_pull_of(0), other = push_pull_of(1);
    for (uint32_t program = 0; program < SERVERS; program++) {
        ps_serving_batch_release(take_gang(program));
        expect_ok(ps_serving_stop(programs[program], 0, &error));
        programs[program] = NULL;
    }

    ck_assert_int_eq(ps_serving_wait(workers[0], handler, RIG_LONG_MS, &error), PSCLIENT_ABORTED);
    ck_assert_msg(strstr(error.text, "ffn") != NULL, "%s", error.text);
    ck_assert_int_eq(ps_serving_wait(workers[1], other, RIG_LONG_MS, &error), PSCLIENT_ABORTED);
    ck_assert_int_eq(ps_serving_stop(workers[0], 200, &error), PSCLIENT_UNKNOWN);
    workers[0] = NULL;
}
END_TEST

int main(int argc, char **argv)
{
    struct program_words words;
    if (program_rig_words(argc, argv, &words)) {
        if (strcmp(words.act, "worker") == 0)
            meet_as_worker(&words);
        else
            meet_as_server(&words);
        return 0;
    }
    Suite *suite = suite_create("psclient serving");
    TCase *tests = tcase_create("names");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, init);
    tcase_add_test(tests, get_batch);
    tcase_add_test(tests, push_pull);
    tcase_add_test(tests, respond);
    tcase_add_test(tests, respond_vec);
    tcase_add_test(tests, wait);
    tcase_add_test(tests, get_all_handlers);
    tcase_add_test(tests, fetch_trace);
    tcase_add_test(tests, register_recv_buffer);
    tcase_add_test(tests, barrier);
    tcase_add_test(tests, stop);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
