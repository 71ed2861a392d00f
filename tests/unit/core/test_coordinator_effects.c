/* SPDX-License-Identifier: Apache-2.0 */
/* core/ownership/coordinator_effects.c: what an answer of the store is worth, and what is told. */
#include "run_suite.h"
#include "server/core/ownership/coordinator_driver.h"
#include "tests/support/fake_clock.h"

#include <check.h>
#include <string.h>

static struct fake_clock fake;
static struct ps_clock ticking;
static struct ps_kv_hub *hub;
static struct ps_kv *kv;
static struct ps_registry registry;
static struct ps_service *service;
static struct ps_coordinator_driver *driver;
static struct ps_kv_methods methods; /* of the store, some replaced by a test */
static bool paused;                  /* while the lease is kept, the machine is, as a whole */
static uint64_t wall_ahead_ms;
static int keeps;

static void load(void *self, const struct ps_claim *claim, uint32_t shard_count)
{
    (void)self;
    (void)claim;
    (void)shard_count;
    ps_coordinator_driver_tell_loaded(driver, PS_ERR_NOT_FOUND, NULL);
}

static void save(void *self, const struct ps_claim *claim, bool publish)
{
    (void)self;
    (void)claim;
    (void)publish;
    ps_coordinator_driver_tell_saved(driver, PS_OK, NULL);
}

static void drain(void *self, uint64_t deadline_ms)
{
    (void)self;
    (void)deadline_ms;
    ps_coordinator_driver_tell_drained(driver);
}

static enum ps_status begin_listening(void *self, struct ps_error *error)
{
    (void)self;
    (void)error;
    return PS_OK;
}

static uint64_t wall_ns(void *self)
{
    (void)self;
    return (fake.now_ms + wall_ahead_ms) * 1000000;
}

static enum ps_status keep(struct ps_kv *store, struct ps_kv_lease lease, uint64_t deadline_ms,
                           struct ps_error *error)
{
    (void)store;
    (void)lease;
    (void)deadline_ms;
    (void)error;
    keeps++;
    wall_ahead_ms += paused ? 30000 : 0;
    return PS_OK;
}

static enum ps_status keep_on_full_disk(struct ps_kv *store, struct ps_kv_lease lease,
                                        uint64_t deadline_ms, struct ps_error *error)
{
    (void)store;
    (void)lease;
    (void)deadline_ms;
    return ps_fail(error, PS_ERR_IO, "write /data/store: No space left on device");
}

static void set_up(void)
{
    fake = (struct fake_clock){.now_ms = 1000};
    ticking = fake_clock_clock(&fake);
    ticking.unix_ns = wall_ns;
    paused = false;
    keeps = 0;
    ck_assert_int_eq(ps_kv_hub_create(&ticking, ps_allocator_heap(), &hub), PS_OK);
    ck_assert_int_eq(ps_kv_memory_open(hub, &kv), PS_OK);
    methods = *kv->methods;
    kv->methods = &methods;
    ck_assert_int_eq(ps_registry_init(&registry, kv, "", NULL), PS_OK);
    const struct ps_service_options options = {
        .memory = ps_allocator_heap(), .clock = &ticking, .saves = true};
    ck_assert_int_eq(ps_service_create(&options, &service, NULL), PS_OK);
    const struct ps_coordinator_driver_options wish = {
        .coordinator = {.ttl_ms = 10000, .index_wish = PS_INDEX_ANY, .saves = true, .seed = 1},
        .shard_count_wish = 1,
        .address = "127.0.0.1:7000",
        .registry = &registry,
        .service = service,
        .memory = ps_allocator_heap(),
        .clock = &ticking,
        .hooks = {load, save, drain, begin_listening, NULL}};
    ck_assert_int_eq(ps_coordinator_driver_create(&wish, &driver, NULL), PS_OK);
}

static void tear_down(void)
{
    ps_coordinator_driver_destroy(driver);
    ps_service_destroy(service);
    ps_kv_destroy(kv);
    ps_kv_hub_destroy(hub);
}

/* Turns until nothing is due at this moment; when something is. */
static uint64_t settle(void)
{
    ps_coordinator_driver_wait(driver, fake.now_ms);
    for (int i = 0; i < 50; i++) {
        uint64_t next_ms = ps_coordinator_driver_turn(driver);
        if (next_ms > fake.now_ms)
            return next_ms;
    }
    ck_abort_msg("the driver never comes to rest");
}

START_TEST(a6_a_lease_that_was_kept_across_a_pause_of_the_machine_proves_nothing)
{
    uint64_t next_ms = settle();
    ck_assert(ps_service_is_proved(service));
    methods.lease_keep = keep;
    paused = true;

    fake.now_ms = next_ms;
    next_ms = settle();

    ck_assert_int_eq(keeps, 1);
    ck_assert_str_eq(ps_service_state_name(service), "fenced");
    paused = false;
    fake.now_ms = next_ms;
    (void)settle();
    ck_assert_int_eq(keeps, 2);
    ck_assert(ps_service_is_proved(service));
}
END_TEST

START_TEST(b6_who_is_fenced_for_want_of_room_on_the_disk_is_told_so)
{
    struct ps_error error = {0};
    const struct ps_pull_request request = {.name = ps_bytes_of_text("w")};
    struct ps_pull pull = {0};
    uint64_t next_ms = settle();
    methods.lease_keep = keep_on_full_disk;

    for (uint64_t until_ms = fake.now_ms + 10000; fake.now_ms < until_ms;) {
        fake.now_ms = next_ms < until_ms ? next_ms : until_ms;
        next_ms = settle();
    }

    ck_assert_int_eq(ps_service_pull(service, &request, &pull, &error), PS_ERR_UNAVAILABLE);
    ck_assert_msg(strstr(error.text, "No space left on device") != NULL, "%s", error.text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator_effects");
    TCase *tests = tcase_create("coordinator_effects");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a6_a_lease_that_was_kept_across_a_pause_of_the_machine_proves_nothing);
    tcase_add_test(tests, b6_who_is_fenced_for_want_of_room_on_the_disk_is_told_so);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
