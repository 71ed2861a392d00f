/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient's calls, as pstrain makes them, played by one server in memory: what is pushed is
 * taken off the values (rate 1). Every call leaves a line in `trace`, and a test says beforehand
 * what the next pushes meet. Programs that link this have nothing of the real client.
 *
 * Threads:  calls one at a time.
 * Blocking: never.
 * Errors:   as told; asserts with Check.
 * Memory:   in place.
 */
#ifndef PS_TESTS_UNIT_TOOLS_FAKE_CLIENT_H
#define PS_TESTS_UNIT_TOOLS_FAKE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements of the largest model, weights and bias together. */
#define FAKE_ELEMENTS_MAX 64

/* What the next push meets. */
enum fake_fate {
    FAKE_OK,
    FAKE_UNKNOWN, /* applied, but nobody says so */
    FAKE_LOST,    /* the server has lost everything before it came */
    FAKE_REFUSED,
    FAKE_PULL_FAILED /* applied; the values are not read */
};

struct fake_server {
    bool initialised;
    float values[FAKE_ELEMENTS_MAX]; /* weights, then bias */
    size_t count;
    bool refuse_open;
    enum fake_fate fates[64]; /* of the pushes, in order; FAKE_OK behind the last */
    size_t pushes;
    uint64_t version;             /* pushes that were applied; rounds that were made */
    uint64_t rounds[64];          /* that the pushes have named; 0: none */
    uint32_t ranks[64];           /* 1 + those of their workers */
    uint64_t clock;               /* of the only worker */
    uint64_t read_at;             /* the clock of the last pull */
    bool late;                    /* every push is told so */
    int under_way, under_way_max; /* operations */
    char trace[4096];
};

extern struct fake_server fake_server;

/* A server that was never initialised. */
void fake_server_begin(void);

#endif
