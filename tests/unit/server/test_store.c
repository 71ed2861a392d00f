/* SPDX-License-Identifier: Apache-2.0 */
/* server/store.c: which store, and that no process meets the epochs of another. */
#include "server/store.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_store *open_store(const char *data_dir)
{
    const struct ps_store_options options = {
        .data_dir = data_dir, .job = "", .clock = ps_clock_real(), .memory = ps_allocator_heap()};
    struct ps_store *store = NULL;
    ck_assert_int_eq(ps_store_open(&options, &store, NULL), PS_OK);
    return store;
}

/* The epoch that a server gets which starts on this store and is gone again. */
static uint64_t epoch_of_a_life(const char *data_dir)
{
    struct ps_store *store = open_store(data_dir);
    struct ps_registry *registry = ps_store_registry(store);
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), 10000);
    struct ps_kv_lease lease;
    struct ps_claim claim;
    ck_assert_int_eq(ps_kv_lease_grant(registry->kv, 60000, deadline_ms, &lease, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_claim(registry, 1, UINT32_MAX, lease, deadline_ms, &claim, NULL),
                     PS_OK);
    ck_assert_int_eq(ps_kv_lease_revoke(registry->kv, lease, deadline_ms, NULL), PS_OK);
    ps_store_close(store);
    return claim.epoch;
}

START_TEST(without_a_folder_the_epochs_of_two_lives_differ)
{
    uint64_t first = epoch_of_a_life(NULL);

    for (int i = 0; i < 20; i++)
        ck_assert_uint_ne(epoch_of_a_life(NULL), first);
}
END_TEST

START_TEST(without_a_folder_epochs_are_exact_as_doubles)
{
    for (int i = 0; i < 100; i++)
        ck_assert_uint_lt(epoch_of_a_life(NULL), (uint64_t)1 << 53);
}
END_TEST

START_TEST(in_a_folder_epochs_rise_from_life_to_life)
{
    struct temp_folder folder;
    temp_folder_init(&folder);
    uint64_t last = 0;

    for (int i = 0; i < 3; i++) {
        uint64_t epoch = epoch_of_a_life(folder.path);
        ck_assert_uint_gt(epoch, last);
        last = epoch;
    }
    temp_folder_fini(&folder);
}
END_TEST

static uint64_t later_ms;

static uint64_t late(void *self)
{
    (void)self;
    return later_ms;
}

START_TEST(a12_without_a_folder_a_lease_is_nobody_elses_and_never_runs_out)
{
    const struct ps_clock clock = {.now_ms = late, .unix_ns = late};
    const struct ps_store_options options = {
        .job = "", .clock = &clock, .memory = ps_allocator_heap()};
    struct ps_store *store = NULL;
    struct ps_kv_lease lease;
    struct ps_claim claim;
    later_ms = 1000;
    ck_assert_int_eq(ps_store_open(&options, &store, NULL), PS_OK);
    struct ps_registry *registry = ps_store_registry(store);
    ck_assert_int_eq(ps_kv_lease_grant(registry->kv, 10000, PS_DEADLINE_NEVER, &lease, NULL),
                     PS_OK);
    ck_assert_int_eq(
        ps_registry_claim(registry, 1, UINT32_MAX, lease, PS_DEADLINE_NEVER, &claim, NULL), PS_OK);

    later_ms += 35000;

    ck_assert_int_eq(ps_registry_keep(registry, &claim, PS_DEADLINE_NEVER, NULL), PS_OK);
    ps_store_close(store);
}
END_TEST

START_TEST(a_folder_whose_name_is_too_long_is_refused)
{
    char name[5000];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const struct ps_store_options options = {
        .data_dir = name, .job = "", .clock = ps_clock_real(), .memory = ps_allocator_heap()};
    struct ps_store *store = NULL;

    ck_assert_int_eq(ps_store_open(&options, &store, NULL), PS_ERR_BAD_INPUT);
    ck_assert_ptr_null(store);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tests = tcase_create("store");
    tcase_add_test(tests, without_a_folder_the_epochs_of_two_lives_differ);
    tcase_add_test(tests, without_a_folder_epochs_are_exact_as_doubles);
    tcase_add_test(tests, a12_without_a_folder_a_lease_is_nobody_elses_and_never_runs_out);
    tcase_add_test(tests, in_a_folder_epochs_rise_from_life_to_life);
    tcase_add_test(tests, a_folder_whose_name_is_too_long_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
