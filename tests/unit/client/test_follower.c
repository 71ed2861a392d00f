/* SPDX-License-Identifier: Apache-2.0 */
/* client/members/follower.c: what it reads, what it hears, and that it never hurries. */
#include "client/members/follower.h"

#include "run_suite.h"
#include "tests/support/client/scripted_kv.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000

static struct scripted_kv script;
static struct ps_wake wake;
static struct ps_follower *follower;
static struct ps_members members;

static void start(void)
{
    scripted_kv_init(&script);
    ps_wake_init(&wake);
    memset(&members, 0, sizeof members);
}

static void follow(void)
{
    struct ps_member_source source;
    ck_assert_int_eq(
        ps_members_of_store(&script.kv, "", ps_clock_real(), ps_allocator_heap(), &source, NULL),
        PS_OK);
    ck_assert_int_eq(ps_follower_create(&source, &wake, ps_allocator_heap(), &follower, NULL),
                     PS_OK);
}

static void finish(void)
{
    ps_follower_destroy(follower);
    ps_members_release(&members);
    ps_wake_fini(&wake);
    scripted_kv_fini(&script);
}

/* Waits for the next reading. */
static void take(void)
{
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), LONG_MS);
    for (;;) {
        uint64_t heard = ps_wake_count(&wake);
        if (ps_follower_take(follower, &members))
            return;
        ck_assert_uint_gt(ps_time_left_ms(ps_clock_real(), deadline_ms), 0);
        ps_wake_wait(&wake, heard, 1000);
    }
}

START_TEST(servers_are_read_at_the_start)
{
    start();
    scripted_kv_put(&script, "/ps_desired", "2");
    scripted_kv_put(&script, "/ps/1", "host:2");
    follow();

    take();

    uint32_t count = 0;
    ck_assert_int_eq(ps_follower_shard_count(follower, &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(members.shard_count, 2);
    ck_assert_str_eq(members.rows[0].address, ""); /* b9: missing, and nobody else's */
    ck_assert_str_eq(members.rows[1].address, "host:2");
    ck_assert(!ps_follower_take(follower, &members));
    finish();
}
END_TEST

START_TEST(b10_changes_are_heard_of)
{
    start();
    scripted_kv_put(&script, "/ps_desired", "1");
    scripted_kv_put(&script, "/ps/0", "host:1");
    follow();
    take();
    uint64_t epoch = members.rows[0].epoch;

    scripted_kv_put(&script, "/ps/0", NULL);
    while (members.rows[0].epoch != 0)
        take();
    scripted_kv_put(&script, "/ps/0", "host:1");
    while (members.rows[0].epoch == 0)
        take();

    ck_assert_str_eq(members.rows[0].address, "host:1");
    ck_assert_uint_ne(members.rows[0].epoch, epoch); /* b11: another server, same address */
    finish();
}
END_TEST

START_TEST(b29_an_absent_shard_count_is_asked_for_in_peace)
{
    start();
    uint64_t start_ms = ps_now_ms(ps_clock_real());
    follow();
    while (scripted_kv_reads(&script) < 5)
        ps_wake_wait(&wake, ps_wake_count(&wake), 10);

    /* Pauses of 50, 100, 200 and 400 ms lie between five looks, each half as long at the least. */
    ck_assert_uint_ge(ps_now_ms(ps_clock_real()) - start_ms, 370);
    struct ps_error error;
    uint32_t count;
    ck_assert_int_eq(ps_follower_shard_count(follower, &count, &error), PS_ERR_NOT_FOUND);
    ck_assert_str_ne(error.text, "");
    finish();
}
END_TEST

START_TEST(what_was_read_outlives_the_stores_failures)
{
    start();
    scripted_kv_put(&script, "/ps_desired", "1");
    scripted_kv_put(&script, "/ps/0", "host:1");
    follow();
    take();

    scripted_kv_fail(&script, PS_ERR_UNAVAILABLE, PS_ERR_UNAVAILABLE);
    uint32_t reads = scripted_kv_reads(&script);
    while (scripted_kv_reads(&script) < reads + 2)
        ps_wake_wait(&wake, ps_wake_count(&wake), 10);
    uint32_t count = 0;
    ck_assert_int_eq(ps_follower_shard_count(follower, &count, NULL), PS_OK);
    ck_assert(!ps_follower_take(follower, &members));
    scripted_kv_fail(&script, PS_OK, PS_OK);
    scripted_kv_put(&script, "/ps/0", NULL);
    scripted_kv_put(&script, "/ps/0", "host:9");

    while (strcmp(members.rows[0].address, "host:9") != 0)
        take();
    finish();
}
END_TEST

START_TEST(a_broken_watch_is_opened_again)
{
    start();
    scripted_kv_put(&script, "/ps_desired", "1");
    follow();
    take();

    scripted_kv_fail(&script, PS_OK, PS_ERR_CONFLICT);
    take();
    scripted_kv_fail(&script, PS_OK, PS_OK);
    scripted_kv_put(&script, "/ps/0", "host:1");

    while (members.rows[0].epoch == 0)
        take();
    finish();
}
END_TEST

START_TEST(a_look_that_is_asked_for_reads_again)
{
    start();
    scripted_kv_put(&script, "/ps_desired", "1");
    scripted_kv_put(&script, "/ps/0", "host:1");
    follow();
    take();

    ps_follower_look_again(follower);
    take();

    ck_assert_str_eq(members.rows[0].address, "host:1");
    finish();
}
END_TEST

START_TEST(a_bad_job_name_is_refused_and_the_store_stays_the_callers)
{
    struct ps_member_source source;
    start();
    ck_assert_int_eq(
        ps_members_of_store(&script.kv, "a/b", ps_clock_real(), ps_allocator_heap(), &source, NULL),
        PS_ERR_BAD_INPUT);
    ck_assert(!script.destroyed);
    ps_kv_destroy(&script.kv);
    ps_wake_fini(&wake);
    scripted_kv_fini(&script);
}
END_TEST

START_TEST(create_survives_a_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_member_source source;
    start();
    ck_assert_int_eq(ps_members_of_store(&script.kv, "", ps_clock_real(), &memory, &source, NULL),
                     PS_ERR_NO_MEMORY);
    heap.refuse_at = 2;
    ck_assert_int_eq(ps_members_of_store(&script.kv, "", ps_clock_real(), &memory, &source, NULL),
                     PS_OK);
    ck_assert_int_eq(ps_follower_create(&source, &wake, &memory, &follower, NULL),
                     PS_ERR_NO_MEMORY);
    ck_assert(!script.destroyed);
    source.destroy(source.self);
    ck_assert_int_eq(heap.live, 0);
    ps_wake_fini(&wake);
    scripted_kv_fini(&script);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("follower");
    TCase *tests = tcase_create("follower");
    tcase_add_test(tests, servers_are_read_at_the_start);
    tcase_add_test(tests, b10_changes_are_heard_of);
    tcase_add_test(tests, b29_an_absent_shard_count_is_asked_for_in_peace);
    tcase_add_test(tests, what_was_read_outlives_the_stores_failures);
    tcase_add_test(tests, a_broken_watch_is_opened_again);
    tcase_add_test(tests, a_look_that_is_asked_for_reads_again);
    tcase_add_test(tests, a_bad_job_name_is_refused_and_the_store_stays_the_callers);
    tcase_add_test(tests, create_survives_a_refused_allocation);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
