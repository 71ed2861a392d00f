/* SPDX-License-Identifier: Apache-2.0 */
/* kv_memory.c does what every store does. */
#include "run_suite.h"
#include "tests/conformance/kv_conformance.h"
#include "tests/support/fake_clock.h"

#include <stdlib.h>

static struct fake_clock fake;
static struct ps_clock fake_time;
static struct ps_kv_hub *hub;
static struct kv_world world;

static struct ps_kv *open_connection(void *self)
{
    (void)self;
    struct ps_kv *kv = NULL;
    ck_assert_int_eq(ps_kv_memory_open(hub, &kv), PS_OK);
    return kv;
}

static void pass(void *self, uint64_t ms)
{
    (void)self;
    fake.now_ms += ms;
}

static void setup(void)
{
    fake = (struct fake_clock){.now_ms = 1000};
    fake_time = fake_clock_clock(&fake);
    ck_assert_int_eq(ps_kv_hub_create(&fake_time, ps_allocator_heap(), &hub), PS_OK);
    world = (struct kv_world){open_connection, pass, &fake_time, NULL, 10000, 3000, 10000, "/test"};
}

/* As a server without etcd and data directory makes it. */
static void setup_late(void)
{
    setup();
    ps_kv_hub_start_at(hub, (int64_t)1 << 52);
}

static void teardown(void)
{
    ps_kv_hub_destroy(hub);
}

int main(void)
{
    Suite *suite = suite_create("kv_memory_conformance");
    suite_add_tcase(suite, kv_conformance_case(&world, setup, teardown));
    suite_add_tcase(suite, kv_conformance_case(&world, setup_late, teardown));
    return run_suite(suite);
}
