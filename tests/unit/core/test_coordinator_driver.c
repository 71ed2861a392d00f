/* SPDX-License-Identifier: Apache-2.0 */
/* core/ownership/coordinator_driver.c and coordinator_effects.c: the coordinator on a store in
 * memory and a real service, with hooks that the test answers. */
#include "base/thread.h"
#include "run_suite.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/core/driver_rig.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(a_first_server_claims_an_index_and_serves)
{
    struct ps_members members = {0};

    settle(&servers[0]);

    ck_assert_int_eq(state_of(&servers[0]), PS_COORDINATOR_SERVING);
    ck_assert_str_eq(ps_service_state_name(servers[0].service), "uninitialized");
    read_members(&servers[0], &members);
    ck_assert_str_eq(members.rows[0].address, "127.0.0.1:7000");
    ps_members_release(&members);
}
END_TEST

START_TEST(b26_no_address_is_published_before_the_server_listens)
{
    settle(&servers[0]);

    ck_assert_uint_eq(servers[0].loads, 1);
    ck_assert_uint_eq(servers[0].listens, 1);
    ck_assert(!servers[0].address_was_there);
}
END_TEST

START_TEST(the_lease_is_kept_while_a_long_load_is_at_work)
{
    servers[0].load_waits = true;
    settle(&servers[0]);
    ck_assert_int_eq(state_of(&servers[0]), PS_COORDINATOR_LOADING);
    for (int i = 0; i < 10; i++) {
        fake.now_ms = servers[0].next_ms;
        settle(&servers[0]);
    }
    ck_assert_uint_gt(fake.now_ms, 2 * TTL_MS);

    ps_coordinator_driver_tell_loaded(servers[0].driver, PS_ERR_NOT_FOUND, NULL);
    settle(&servers[0]);

    ck_assert_int_eq(state_of(&servers[0]), PS_COORDINATOR_SERVING);
    ck_assert_str_eq(ps_service_state_name(servers[0].service), "uninitialized");
}
END_TEST

START_TEST(a_stop_drains_saves_and_gives_the_index_back)
{
    struct ps_members members = {0};
    struct ps_error why;
    settle(&servers[0]);
    ck_assert(!ps_coordinator_driver_ended(servers[0].driver, &why));

    ps_coordinator_driver_tell_stop(servers[0].driver);
    settle(&servers[0]);

    ck_assert(ps_coordinator_driver_ended(servers[0].driver, &why));
    ck_assert_int_eq(why.status, PS_OK);
    ck_assert_uint_eq(servers[0].drains, 1);
    ck_assert_uint_eq(servers[0].published_saves, 1);
    ck_assert_uint_eq(servers[0].next_ms, PS_DEADLINE_NEVER);
    ps_coordinator_driver_wait(servers[0].driver, PS_DEADLINE_NEVER);
    read_members(&servers[0], &members);
    ck_assert_uint_eq(members.rows[0].epoch, 0);
    ps_members_release(&members);
}
END_TEST

START_TEST(a_spare_takes_the_index_over_as_soon_as_it_is_free)
{
    settle(&servers[0]);
    settle(&servers[1]);
    ck_assert_int_eq(state_of(&servers[1]), PS_COORDINATOR_SPARE);
    ps_coordinator_driver_tell_stop(servers[0].driver);
    settle(&servers[0]);

    settle(&servers[1]);

    ck_assert_int_eq(state_of(&servers[1]), PS_COORDINATOR_SERVING);
}
END_TEST

START_TEST(b8_a_lease_that_ran_out_unnoticed_is_found_out_and_another_claim_made)
{
    settle(&servers[0]);
    uint64_t epoch = ps_coordinator_driver_coordinator(servers[0].driver)->claim.epoch;
    fake.now_ms += 2 * TTL_MS; /* stopped, and continued too late */
    ck_assert_str_eq(ps_service_state_name(servers[0].service), "fenced");

    settle(&servers[0]);

    ck_assert_int_eq(state_of(&servers[0]), PS_COORDINATOR_SERVING);
    ck_assert_uint_gt(ps_coordinator_driver_coordinator(servers[0].driver)->claim.epoch, epoch);
    ck_assert_uint_eq(servers[0].saves, 1);
    ck_assert_uint_eq(servers[0].published_saves, 0);
}
END_TEST

static void change_by_hand(const struct ps_kv_change *change)
{
    const struct ps_kv_transaction transaction = {NULL, 0, change, 1};
    bool done;
    int64_t revision;
    ck_assert_int_eq(
        ps_kv_commit(servers[1].kv, &transaction, PS_DEADLINE_NEVER, &done, &revision, NULL),
        PS_OK);
}

START_TEST(b8_two_servers_never_go_on_together_after_a_key_was_deleted_by_hand)
{
    settle(&servers[0]);
    change_by_hand(&(struct ps_kv_change){PS_KV_DELETE, "/ps/0", {NULL, 0}, {0}});
    settle(&servers[1]);
    ck_assert_int_eq(state_of(&servers[1]), PS_COORDINATOR_SERVING);

    fake.now_ms = servers[0].next_ms; /* the next time that the lease is due */
    settle(&servers[0]);

    ck_assert_int_eq(state_of(&servers[0]), PS_COORDINATOR_SPARE);
    ck_assert_uint_eq(servers[0].saves, 1);
    ck_assert_uint_eq(servers[0].published_saves, 0);
    settle(&servers[1]);
    ck_assert_int_eq(state_of(&servers[1]), PS_COORDINATOR_SERVING);
}
END_TEST

START_TEST(a_server_that_cannot_load_the_checkpoint_that_there_is_ends_and_says_so)
{
    struct ps_coordinator_driver_options options = options_of(&servers[0]);
    struct ps_error why;
    change_by_hand(
        &(struct ps_kv_change){PS_KV_PUT, "/checkpoints/0", ps_bytes_of_text("{}"), {0}});
    ps_coordinator_driver_destroy(servers[0].driver);
    options.coordinator.saves = false;
    ck_assert_int_eq(ps_coordinator_driver_create(&options, &servers[0].driver, NULL), PS_OK);

    settle(&servers[0]);

    ck_assert(ps_coordinator_driver_ended(servers[0].driver, &why));
    ck_assert_int_eq(why.status, PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(why.text, "--data-dir"));
    servers[1].load_status = PS_OK;
    settle(&servers[1]); /* the shard is free for one that can */
    ck_assert_int_eq(state_of(&servers[1]), PS_COORDINATOR_SERVING);
}
END_TEST

/* Lines go to a pipe; how often does `words` stand in them? */
static int count_lines(int descriptor, const char *words)
{
    char text[8192];
    ssize_t size = read(descriptor, text, sizeof text - 1);
    int count = 0;
    text[size > 0 ? size : 0] = '\0';
    for (const char *at = strstr(text, words); at != NULL; at = strstr(at + 1, words))
        count++;
    return count;
}

START_TEST(a_reason_to_wait_is_logged_once)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
    struct ps_log log = {.clock = &ticking, .descriptor = ends[1], .level = PS_LOG_INFO};
    struct ps_coordinator_driver_options options = options_of(&servers[0]);
    ps_coordinator_driver_destroy(servers[0].driver);
    options.shard_count_wish = 0;
    options.log = &log;
    ck_assert_int_eq(ps_coordinator_driver_create(&options, &servers[0].driver, NULL), PS_OK);

    for (int i = 0; i < 10; i++) {
        settle(&servers[0]);
        fake.now_ms = servers[0].next_ms;
    }

    ck_assert_int_eq(count_lines(ends[0], "cannot go on"), 1);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(state_of_which_nothing_is_whole_ends_with_the_words_of_recovery)
{
    struct ps_error why;
    servers[0].load_status = PS_ERR_CORRUPT;

    settle(&servers[0]);

    ck_assert(ps_coordinator_driver_ended(servers[0].driver, &why));
    ck_assert_int_eq(why.status, PS_ERR_CORRUPT);
    ck_assert_str_eq(why.text, "none is whole");
}
END_TEST

START_TEST(an_index_that_the_job_does_not_have_ends_with_both_numbers)
{
    struct ps_error why;
    struct ps_coordinator_driver_options options = options_of(&servers[0]);
    ps_coordinator_driver_destroy(servers[0].driver);
    options.coordinator.index_wish = 3;
    ck_assert_int_eq(ps_coordinator_driver_create(&options, &servers[0].driver, NULL), PS_OK);

    settle(&servers[0]);

    ck_assert(ps_coordinator_driver_ended(servers[0].driver, &why));
    ck_assert_str_eq(why.text, "index 3 was asked for, but the job has 1 shards: 0 to 0");
}
END_TEST

START_TEST(b29_without_a_wish_it_waits_until_somebody_has_set_the_number_of_shards)
{
    struct ps_coordinator_driver_options options = options_of(&servers[0]);
    ps_coordinator_driver_destroy(servers[0].driver);
    options.shard_count_wish = 0;
    ck_assert_int_eq(ps_coordinator_driver_create(&options, &servers[0].driver, NULL), PS_OK);
    settle(&servers[0]);
    ck_assert_int_eq(state_of(&servers[0]), PS_COORDINATOR_LEARNING);
    settle(&servers[1]);

    fake.now_ms = servers[0].next_ms;
    settle(&servers[0]);

    ck_assert_int_eq(state_of(&servers[0]), PS_COORDINATOR_SPARE);
}
END_TEST

/* A server without etcd is the same driver on a folder. */
START_TEST(b16_a_standalone_server_saves_by_the_interval_and_at_its_end)
{
    struct temp_folder folder;
    struct ps_kv *kv;
    struct server server;
    temp_folder_init(&folder);
    ck_assert_int_eq(ps_kv_file_open(folder.path, &ticking, &memory, &kv, NULL), PS_OK);
    open_server(&server, kv);
    settle(&server);
    ck_assert_int_eq(state_of(&server), PS_COORDINATOR_SERVING);

    uint64_t end_ms = fake.now_ms + 61000;
    while (server.next_ms < end_ms) {
        fake.now_ms = server.next_ms;
        settle(&server);
    }
    ck_assert_uint_eq(server.published_saves, 1);
    ps_coordinator_driver_tell_stop(server.driver);
    settle(&server);

    ck_assert(ps_coordinator_driver_ended(server.driver, NULL));
    ck_assert_uint_eq(server.published_saves, 2);
    close_server(&server);
    temp_folder_fini(&folder);
}
END_TEST

static void tell_from_elsewhere(void *argument)
{
    ps_coordinator_driver_tell_stop(argument);
}

/* Without the word from the other thread the wait would last an hour. */
START_TEST(what_another_thread_tells_ends_the_wait)
{
    struct ps_thread thread = {0};
    settle(&servers[0]);

    ck_assert_int_eq(
        ps_thread_start(&thread, "teller", tell_from_elsewhere, servers[0].driver, NULL), PS_OK);
    ps_coordinator_driver_wait(servers[0].driver, fake.now_ms + 3600000);
    ps_thread_join(&thread);
    settle(&servers[0]);

    ck_assert(ps_coordinator_driver_ended(servers[0].driver, NULL));
}
END_TEST

START_TEST(create_refuses_what_cannot_work)
{
    struct ps_coordinator_driver *driver = NULL;
    struct ps_coordinator_driver_options options = options_of(&servers[0]);
    char address[PS_ADDRESS_BYTES_MAX + 1];
    memset(address, 'a', sizeof address);
    address[PS_ADDRESS_BYTES_MAX] = '\0';

    options.address = address;
    ck_assert_int_eq(ps_coordinator_driver_create(&options, &driver, NULL), PS_ERR_BAD_INPUT);
    options = options_of(&servers[0]);
    options.coordinator.ttl_ms = PS_LEASE_TTL_MS_MIN - 1;
    ck_assert_int_eq(ps_coordinator_driver_create(&options, &driver, NULL), PS_ERR_BAD_INPUT);
    ck_assert_ptr_null(driver);
}
END_TEST

START_TEST(create_survives_any_refused_allocation)
{
    struct ps_coordinator_driver *driver = NULL;
    struct ps_coordinator_driver_options options = options_of(&servers[0]);
    int64_t live = heap.live;
    heap.seen = 0;
    heap.refuse_at = _i;

    enum ps_status status = ps_coordinator_driver_create(&options, &driver, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    heap.refuse_at = -1;
    ps_coordinator_driver_destroy(driver);
    ck_assert_int_eq(heap.live, live);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator_driver");
    TCase *tests = tcase_create("driver");
    tcase_add_checked_fixture(tests, driver_rig_setup, driver_rig_teardown);
    tcase_add_test(tests, a_first_server_claims_an_index_and_serves);
    tcase_add_test(tests, b26_no_address_is_published_before_the_server_listens);
    tcase_add_test(tests, the_lease_is_kept_while_a_long_load_is_at_work);
    tcase_add_test(tests, a_stop_drains_saves_and_gives_the_index_back);
    tcase_add_test(tests, a_spare_takes_the_index_over_as_soon_as_it_is_free);
    tcase_add_test(tests, b8_two_servers_never_go_on_together_after_a_key_was_deleted_by_hand);
    tcase_add_test(tests, a_server_that_cannot_load_the_checkpoint_that_there_is_ends_and_says_so);
    tcase_add_test(tests, b8_a_lease_that_ran_out_unnoticed_is_found_out_and_another_claim_made);
    tcase_add_test(tests, a_reason_to_wait_is_logged_once);
    tcase_add_test(tests, state_of_which_nothing_is_whole_ends_with_the_words_of_recovery);
    tcase_add_test(tests, an_index_that_the_job_does_not_have_ends_with_both_numbers);
    tcase_add_test(tests, b29_without_a_wish_it_waits_until_somebody_has_set_the_number_of_shards);
    tcase_add_test(tests, b16_a_standalone_server_saves_by_the_interval_and_at_its_end);
    tcase_add_test(tests, what_another_thread_tells_ends_the_wait);
    tcase_add_test(tests, create_refuses_what_cannot_work);
    tcase_add_loop_test(tests, create_survives_any_refused_allocation, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
