/* SPDX-License-Identifier: Apache-2.0 */
/* kv_file.c does what every store does. */
#include "run_suite.h"
#include "tests/conformance/kv_conformance.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_folder.h"

#include <stdlib.h>

static struct fake_clock fake;
static struct ps_clock fake_time;
static struct temp_folder folder;
static struct kv_world world;

static struct ps_kv *open_connection(void *self)
{
    (void)self;
    struct ps_kv *kv = NULL;
    ck_assert_int_eq(ps_kv_file_open(folder.path, &fake_time, ps_allocator_heap(), &kv, NULL),
                     PS_OK);
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
    temp_folder_init(&folder);
    world = (struct kv_world){open_connection, pass, &fake_time, NULL, 10000, 3000, 10000, "/test"};
}

static void teardown(void)
{
    temp_folder_fini(&folder);
}

int main(void)
{
    Suite *suite = suite_create("kv_file_conformance");
    suite_add_tcase(suite, kv_conformance_case(&world, setup, teardown));
    return run_suite(suite);
}
