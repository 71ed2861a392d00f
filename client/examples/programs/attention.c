/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and feed-forward apart: workers push two tensors each step and pull one, and a server
 * program takes the requests of all of them and answers each with its own rows of one product.
 *
 *     attention server SERVERS RANK WORKERS STEPS
 *     attention worker SERVERS RANK WORKERS STEPS
 *
 * Each worker checks every value of every step, and prints where the last step spent its time. */
#include <psclient.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, WIDTH = 32, EACH = ROWS * WIDTH, WORKERS_MAX = 64, TIMEOUT_MS = 60000 };

static struct psclient_error error;

static void must(int status, const char *what)
{
    if (status == PSCLIENT_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, error.text);
    exit(1);
}

static struct psclient_tensor matrix(float *content, uint64_t rows)
{
    return (struct psclient_tensor){.dtype = PSCLIENT_FLOAT32,
                                    .element_size = sizeof *content,
                                    .rank = 2,
                                    .shape = {rows, WIDTH},
                                    .content = content,
                                    .size = rows * WIDTH * sizeof *content};
}

/* What the feed-forward part makes of the sum of two rows: small whole numbers, so that every sum
 * is exact. */
static void feed_forward(const float *first, const float *second, float *out)
{
    for (int to = 0; to < WIDTH; to++) {
        float sum = 0;
        for (int from = 0; from < WIDTH; from++)
            sum += (first[from] + second[from]) * (float)((from * WIDTH + to) % 5);
        out[to] = sum;
    }
}

static void serve(struct ps_serving *serving, uint32_t workers, long steps)
{
    static float rows[WORKERS_MAX * EACH];
    const struct ps_serving_wish wish = {.worker_mask = ~UINT64_C(0) >> (64 - workers)};
    const struct psclient_tensor all = matrix(rows, (uint64_t)workers * ROWS);
    for (long step = 0; step < steps; step++) {
        struct ps_serving_batch *batch = NULL;
        struct ps_serving_slice slices[WORKERS_MAX];
        must(ps_serving_get_batch(serving, &wish, TIMEOUT_MS, &batch, &error), "get_batch");
        for (size_t i = 0; i < batch->count; i++) {
            const float *first = batch->requests[i].tensors[0].content;
            const float *second = batch->requests[i].tensors[1].content;
            for (size_t row = 0; row < ROWS; row++)
                feed_forward(first + row * WIDTH, second + row * WIDTH,
                             rows + i * EACH + row * WIDTH);
            slices[i] = (struct ps_serving_slice){
                .handler = batch->requests[i].handler, .row_begin = i * ROWS, .row_count = ROWS};
        }
        must(ps_serving_respond_vec(serving, &all, slices, batch->count, TIMEOUT_MS, &error),
             "respond_vec");
        ps_serving_batch_release(batch);
    }
}

static void print_trace(struct ps_serving *serving, uint64_t handler)
{
    struct ps_serving_trace rows[16];
    size_t count = 0;
    must(ps_serving_fetch_trace(serving, handler, rows, 16, &count, &error), "fetch_trace");
    printf("server     sent  arrived    taken answered  replied received   waited   us\n");
    for (size_t i = 0; i < count && i < 16; i++) {
        const struct ps_serving_trace *row = &rows[i];
        const uint64_t stamps[] = {row->sent,    row->arrived,  row->taken, row->answered,
                                   row->replied, row->received, row->waited};
        printf("%6u", (unsigned)row->server);
        for (size_t k = 0; k < sizeof stamps / sizeof stamps[0]; k++)
            printf(" %8.1f", (double)(stamps[k] - row->begun) / 1000);
        printf("\n");
    }
}

static void work(struct ps_serving *serving, uint32_t rank, long steps)
{
    float first[EACH], second[EACH], pulled[EACH], expected[WIDTH];
    const uint64_t keys[] = {0, 1}, out_key = 2;
    uint64_t handler = 0;
    for (long step = 0; step < steps; step++) {
        for (int i = 0; i < EACH; i++) {
            first[i] = (float)(i % 7 + (int)rank + step % 11);
            second[i] = (float)(i % 7 * (step % 3));
        }
        const struct psclient_tensor pushed[] = {matrix(first, ROWS), matrix(second, ROWS)};
        const struct psclient_tensor out = matrix(pulled, ROWS);
        must(ps_serving_push_pull(serving, pushed, keys, 2, &out, &out_key, 1, 0, &handler, &error),
             "push_pull");
        must(ps_serving_wait(serving, handler, TIMEOUT_MS, &error), "wait");
        for (int row = 0; row < ROWS; row++) {
            feed_forward(first + row * WIDTH, second + row * WIDTH, expected);
            if (memcmp(expected, pulled + row * WIDTH, sizeof expected) != 0) {
                fprintf(stderr, "step %ld: wrong values\n", step);
                exit(1);
            }
        }
    }
    print_trace(serving, handler);
    printf("worker %u: %ld steps, every value checked\n", (unsigned)rank, steps);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    int is_server = strcmp(argv[1], "server") == 0;
    uint32_t rank = (uint32_t)strtoul(argv[3], NULL, 10);
    uint32_t workers = (uint32_t)strtoul(argv[4], NULL, 10);
    long steps = strtol(argv[5], NULL, 10);
    const struct psclient_options options = {.servers = argv[2]};
    const struct ps_serving_options place = {.role =
                                                 is_server ? PS_SERVING_SERVER : PS_SERVING_WORKER,
                                             .rank = is_server ? rank : rank + 1,
                                             .workers = workers,
                                             .name = "feed-forward"};
    struct psclient *client = NULL;
    struct ps_serving *serving = NULL;
    if (workers == 0 || workers > WORKERS_MAX)
        return 2;
    must(psclient_open(&options, &client, &error), "open");
    must(ps_serving_init(client, &place, &serving, &error), "init");
    if (is_server)
        serve(serving, workers, steps);
    else
        work(serving, rank, steps);
    must(ps_serving_stop(serving, 0, &error), "stop");
    psclient_close(client);
    return 0;
}
