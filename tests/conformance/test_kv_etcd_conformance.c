/* SPDX-License-Identifier: Apache-2.0 */
/* kv_etcd.c with a real etcd does what every store does. One etcd for all tests; each has a prefix
 * of its own. */
#include "tests/conformance/kv_conformance.h"
#include "tests/support/etcd/etcd_process.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct etcd_process process;
static struct kv_world world;

static struct ps_kv *open_connection(void *self)
{
    (void)self;
    const struct ps_kv_etcd_options options = {
        .endpoints = process.url,
        .clock = ps_clock_real(),
        .memory = ps_allocator_heap(),
        .request_ms = 60000,
    };
    struct ps_kv *kv = NULL;
    ck_assert_int_eq(ps_kv_etcd_open(&options, &kv, NULL), PS_OK);
    return kv;
}

/* A watch on a key that nobody writes lets the time go by. */
static void pass(void *self, uint64_t ms)
{
    struct ps_kv *kv = open_connection(self);
    uint64_t deadline = ps_deadline_after(ps_clock_real(), ms);
    bool changed = false;
    ck_assert_int_eq(ps_kv_watch_open(kv, "/nobody", 0, deadline + 120000, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_watch_wait(kv, deadline, &changed, NULL), PS_OK);
    ck_assert(!changed);
    ps_kv_destroy(kv);
}

static void setup(void)
{
    uint64_t number;
    ps_random_system(&number, sizeof number);
    world = (struct kv_world){open_connection, pass, ps_clock_real(), NULL, 5000, 400, 600000, ""};
    (void)snprintf(world.prefix, sizeof world.prefix, "/%016" PRIx64, number);
}

static void teardown(void)
{
}

int main(void)
{
    if (!etcd_process_available()) {
        (void)printf("skipped: no etcd to test with\n");
        return 77;
    }
    etcd_process_start(&process, NULL);
    Suite *suite = suite_create("kv_etcd_conformance");
    suite_add_tcase(suite, kv_conformance_case(&world, setup, teardown));
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    etcd_process_fini(&process);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
