/* SPDX-License-Identifier: Apache-2.0 */
/* ps-lite's test_kv_app, ported: 10,000 keys over the whole range, 50 pushes of which ten are on
 * their way at most, a pull, and pushes that pull. Its server is pserver-adder.
 *
 *     kv_app SERVERS RANK WORKERS */
#include <psclient.h>

#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 10000, REPEATS = 50, TIMEOUT_MS = 60000 };

static struct psclient_error error;
static uint64_t keys[KEYS];
static float values[KEYS], pulled[KEYS];

static void must(int status, const char *what)
{
    if (status == PSCLIENT_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, error.text);
    exit(1);
}

static void expect(float times)
{
    for (int i = 0; i < KEYS; i++)
        if (pulled[i] != values[i] * times) {
            fprintf(stderr, "key %d: %g instead of %g\n", i, (double)pulled[i],
                    (double)(values[i] * times));
            exit(1);
        }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const struct psclient_options options = {.servers = argv[1]};
    const struct ps_customer_options customer = {.worker = 1 + (uint32_t)strtoul(argv[2], NULL, 10),
                                                 .workers = (uint32_t)strtoul(argv[3], NULL, 10)};
    struct psclient *client = NULL;
    struct ps_customer *kv = NULL;
    int64_t timestamps[REPEATS], timestamp = -1;
    must(psclient_open(&options, &client, &error), "open");
    must(ps_customer_open(client, &customer, &kv, &error), "customer");
    for (int i = 0; i < KEYS; i++) {
        keys[i] = PS_KEY_MAX / KEYS * (uint64_t)i + ps_customer_rank(kv);
        values[i] = (float)(i % 1000);
    }
    const struct ps_kv_pairs pushed = {keys, KEYS, PSCLIENT_FLOAT32, values, KEYS, NULL};
    const struct ps_kv_pairs into = {keys, KEYS, PSCLIENT_FLOAT32, pulled, KEYS, NULL};
    for (int i = 0; i < REPEATS; i++) {
        must(ps_kv_worker_push(kv, &pushed, NULL, &timestamps[i], &error), "push");
        if (i >= 10)
            must(ps_kv_worker_wait(kv, timestamps[i - 10], TIMEOUT_MS, &error), "wait");
    }
    for (int i = 0; i < REPEATS; i++)
        must(ps_kv_worker_wait(kv, timestamps[i], TIMEOUT_MS, &error), "wait");
    must(ps_kv_worker_pull(kv, &into, NULL, &timestamp, &error), "pull");
    must(ps_kv_worker_wait(kv, timestamp, TIMEOUT_MS, &error), "wait");
    expect(REPEATS);
    must(ps_kv_worker_push_pull(kv, &pushed, pulled, NULL, &timestamp, &error), "push_pull");
    must(ps_kv_worker_wait(kv, timestamp, TIMEOUT_MS, &error), "wait");
    expect(REPEATS + 1);
    printf("worker %u: error: 0\n", (unsigned)ps_customer_rank(kv));
    must(ps_customer_finalize(kv, TIMEOUT_MS, &error), "finalize");
    psclient_close(client);
    return 0;
}
