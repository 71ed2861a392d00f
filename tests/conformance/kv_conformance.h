/* SPDX-License-Identifier: Apache-2.0 */
/* What every store must do, as one test case: run for kv_memory, kv_file and kv_etcd.
 *
 * Threads:  one.
 * Blocking: as the store.
 * Errors:   none; a store that differs fails a test.
 * Memory:   the world is borrowed.
 */
#ifndef PS_TESTS_CONFORMANCE_KV_CONFORMANCE_H
#define PS_TESTS_CONFORMANCE_KV_CONFORMANCE_H

#include "etcd/kv.h"

#include <check.h>

/* A store under test. Filled in by the set-up of each test. */
struct kv_world {
    struct ps_kv *(*open)(void *self);     /* one more connection to the same store */
    void (*pass)(void *self, uint64_t ms); /* lets time go by */
    const struct ps_clock *clock;
    void *self;
    uint64_t ttl_ms;      /* of a lease that ends during the test */
    uint64_t tick_ms;     /* a fraction of it */
    uint64_t long_ttl_ms; /* of a lease that does not */
    char prefix[64];      /* stands before every key of the test */
};

/* The tests, with set-up and tear-down run around each. */
TCase *kv_conformance_case(struct kv_world *world, SFun setup, SFun teardown);

/* Makes a case with tests that need the world, outside this suite, find it. */
void kv_world_use(struct kv_world *world);

#endif
