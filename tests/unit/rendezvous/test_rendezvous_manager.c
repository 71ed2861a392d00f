/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's cases of the manager of rendezvous, under their names: threads that wait, and others
 * that send, abort, clean up and cancel. Each case is right in any order that they take. */
#include "rendezvous_world.h"

#include "run_suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static char text[WORLD_TEXT_BYTES];

struct waiter {
    pthread_t thread;
    uint64_t step, id;
    const char *key;
    enum ps_status status;
    char text[WORLD_TEXT_BYTES];
};

static void *wait_for_key(void *argument)
{
    struct waiter *waiter = argument;
    waiter->status = world_receive_of(waiter->step, waiter->id, waiter->key, waiter->text);
    return NULL;
}

static struct waiter start(uint64_t step, const char *key)
{
    return (struct waiter){.step = step, .id = world_new_id(), .key = key};
}

static void begin(struct waiter *waiter)
{
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_for_key, waiter), 0);
    world_await_waiting(1);
}

static void join(struct waiter *waiter)
{
    ck_assert_int_eq(pthread_join(waiter->thread, NULL), 0);
}

START_TEST(local_send_recv)
{
    ck_assert_int_eq(world_step_begin(123, "worker", false), PS_OK);
    ck_assert_int_eq(world_send_to(123, "foo", "peach", 1), PS_OK);

    ck_assert_int_eq(world_poll(123, "foo", text), PS_OK);
    ck_assert_str_eq(text, "peach");
    world_cleanup(123);
    ck_assert_ptr_null(world.steps);
}
END_TEST

START_TEST(local_abort)
{
    struct waiter waiter = start(123, "foo");
    begin(&waiter);
    world_abort(123, "explicit");
    join(&waiter);
    ck_assert_int_eq(waiter.status, PS_ERR_ABORTED);

    struct waiter other = start(321, "foo");
    begin(&other);
    world_cleanup(321);
    join(&other);
    ck_assert_int_eq(other.status, PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "Cleanup 321");
}
END_TEST

/* Whoever had the step before is known by the epoch that it was told. */
START_TEST(cleanup_all)
{
    struct ps_rendezvous_of of = {.step = 123, .now_ms = 1};
    const struct ps_rendezvous_wish wish = {.id = 1, .key = ps_bytes_of_text("foo")};
    struct ps_receiving receiving = {.step = NULL};
    bool wakes;
    ck_assert_int_eq(world_send_to(123, "foo", "peach", 1), PS_OK);
    of.epoch = world.steps->epoch;
    world_cleanup_all();

    ck_assert_int_eq(
        ps_rendezvous_receive(&world, &of,
                              &(struct ps_rendezvous_asked){.wishes = &wish, .wish_count = 1},
                              &receiving, &wakes, &world_error),
        PS_ERR_ABORTED);
    ck_assert_uint_eq(world.bytes, 0);
}
END_TEST

START_TEST(cleanup_all_tells_who_waits)
{
    struct waiter waiter = start(123, "foo");
    begin(&waiter);
    world_cleanup_all();
    join(&waiter);

    ck_assert_int_eq(waiter.status, PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "Shutdown");
}
END_TEST

START_TEST(local_cancel)
{
    struct waiter waiter = start(123, "foo");
    begin(&waiter);
    world_give_back(123, waiter.id);
    join(&waiter);

    ck_assert_int_eq(waiter.status, PS_ERR_CANCELLED);
}
END_TEST

START_TEST(cancel_after_received)
{
    struct waiter waiter = start(123, "foo");
    ck_assert_int_eq(world_send_to(123, "foo", "peach", 1), PS_OK);
    ck_assert_int_eq(world_receive_of(123, waiter.id, "foo", text), PS_OK);
    world_give_back(123, waiter.id);

    ck_assert_str_eq(text, "peach");
    ck_assert_int_eq(world_poll(123, "foo", text), PS_ERR_NOT_READY);
}
END_TEST

START_TEST(remote_recv_one)
{
    struct waiter waiter = start(123, "foo");
    begin(&waiter);
    ck_assert_int_eq(world_send_to(123, "foo", "peach", 1), PS_OK);
    join(&waiter);

    ck_assert_int_eq(waiter.status, PS_OK);
    ck_assert_str_eq(waiter.text, "peach");
}
END_TEST

/* As many as there are calls that wait: each of a few calls has its share of the receives. */
enum { MANY = 10000, EACH = 1000 };

START_TEST(remote_recv_async_many)
{
    struct ps_receiving receiving[MANY / EACH];
    struct ps_rendezvous_wish wishes[EACH];
    const struct ps_rendezvous_of of = {.step = 123, .now_ms = 1};
    bool wakes;
    memset(receiving, 0, sizeof receiving);
    for (int call = 0; call < MANY / EACH; call++) {
        for (int i = 0; i < EACH; i++)
            wishes[i] =
                (struct ps_rendezvous_wish){.id = world_new_id(), .key = ps_bytes_of_text("foo")};
        const struct ps_rendezvous_asked asked = {.wishes = wishes, .wish_count = EACH};
        ck_assert_int_eq(ps_rendezvous_receive(&world, &of, &asked, &receiving[call], &wakes, NULL),
                         PS_OK);
    }
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(world_send_to(123, "foo", "x", (uint64_t)i + 1), PS_OK);

    for (int call = 0; call < MANY / EACH; call++) {
        ck_assert_int_eq(
            ps_rendezvous_collect(&world, &receiving[call], EACH, 1 << 20, false, NULL), PS_OK);
        for (int i = 0; i < EACH; i++)
            ck_assert_int_eq(receiving[call].rows[i].status, PS_OK);
        ps_rendezvous_release(&world, &receiving[call]);
    }
    world_cleanup(123);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_manager");
    TCase *tests = tcase_create("rendezvous_manager");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, local_send_recv);
    tcase_add_test(tests, local_abort);
    tcase_add_test(tests, cleanup_all);
    tcase_add_test(tests, cleanup_all_tells_who_waits);
    tcase_add_test(tests, local_cancel);
    tcase_add_test(tests, cancel_after_received);
    tcase_add_test(tests, remote_recv_one);
    tcase_add_test(tests, remote_recv_async_many);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
