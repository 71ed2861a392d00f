/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of bench_python.py in C: push_pull of the same parameters through libpsclient, for the
 * ratio of the two.
 *
 *     bench_python_loop HOST:PORT PREFIX COUNT BYTES SECONDS
 *
 * Parameters PREFIX0 to PREFIX(COUNT - 1) of float32 are there already. Prints the median of a call
 * in microseconds. */
#include "client/psclient.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLS_MAX 1000000

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

/* A gradient of zeros: the values stay what they are however long it takes. */
static void make_items(const char *prefix, size_t count, size_t bytes,
                       struct psclient_gradient *gradients, struct psclient_parameter *parameters)
{
    for (size_t i = 0; i < count; i++) {
        char *name = malloc(64);
        snprintf(name, 64, "%s%zu", prefix, i);
        gradients[i] = (struct psclient_gradient){.name = name,
                                                  .type = PSCLIENT_FLOAT32,
                                                  .content = calloc(1, bytes),
                                                  .content_size = bytes};
        parameters[i] = (struct psclient_parameter){.name = name,
                                                    .type = PSCLIENT_FLOAT32,
                                                    .content = calloc(1, bytes),
                                                    .content_size = bytes};
    }
}

int main(int argc, char **argv)
{
    static double times[CALLS_MAX];
    struct psclient_error error;
    struct psclient *client;
    if (argc != 6)
        return 2;
    const struct psclient_options options = {.servers = argv[1]};
    size_t count = strtoull(argv[3], NULL, 10);
    size_t bytes = strtoull(argv[4], NULL, 10);
    struct psclient_gradient *gradients = calloc(count, sizeof *gradients);
    struct psclient_parameter *parameters = calloc(count, sizeof *parameters);
    struct psclient_result *results = calloc(count, sizeof *results);
    make_items(argv[2], count, bytes, gradients, parameters);
    int status = psclient_open(&options, &client, &error);
    size_t calls = 0;
    double until = now_us() + 1e6 * strtod(argv[5], NULL);
    for (double begun = now_us(); status == PSCLIENT_OK && begun < until && calls < CALLS_MAX;) {
        status = psclient_push_pull(client, gradients, parameters, count, 30000, results, &error);
        double ended = now_us();
        times[calls++] = ended - begun;
        begun = ended;
    }
    if (status != PSCLIENT_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    psclient_close(client);
    qsort(times, calls, sizeof *times, compare);
    printf("%.2f\n", times[calls / 2]);
    return 0;
}
