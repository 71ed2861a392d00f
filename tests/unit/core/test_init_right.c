/* SPDX-License-Identifier: Apache-2.0 */
/* The right to initialise, asked for in the name of trainers: by any server, each with the store
 * alone. */
#include "server/core/ownership/init_right.h"

#include "run_suite.h"
#include "tests/support/fake_clock.h"

#include <check.h>
#include <stdlib.h>

#define TTL_MS 10000

static struct fake_clock fake;
static struct ps_clock clock_of_test;
static struct ps_kv_hub *hub;
static struct ps_kv *stores[2];
static struct ps_registry servers[2];
static struct ps_error error;

static void setup(void)
{
    fake = (struct fake_clock){.now_ms = 1000};
    clock_of_test = fake_clock_clock(&fake);
    ck_assert_int_eq(ps_kv_hub_create(&clock_of_test, ps_allocator_heap(), &hub), PS_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ps_kv_memory_open(hub, &stores[i]), PS_OK);
        ck_assert_int_eq(ps_registry_init(&servers[i], stores[i], "", NULL), PS_OK);
    }
}

static void teardown(void)
{
    ps_kv_destroy(stores[0]);
    ps_kv_destroy(stores[1]);
    ps_kv_hub_destroy(hub);
}

static enum ps_status ask(int server, struct ps_init_question *question)
{
    return ps_init_right_ask(&servers[server], question, fake.now_ms + 5000, &error);
}

static struct ps_init_question trainer(uint64_t client)
{
    return (struct ps_init_question){.wish = PS_INIT_BEGIN, .client = client, .ttl_ms = TTL_MS};
}

static enum ps_init_turn turn(int server, struct ps_init_question *question)
{
    ck_assert_int_eq(ask(server, question), PS_OK);
    return question->turn;
}

START_TEST(one_trainer_has_the_right_whichever_servers_are_asked)
{
    struct ps_init_question first = trainer(1);
    struct ps_init_question second = trainer(2);

    ck_assert_int_eq(turn(0, &first), PS_INIT_SELECTED);
    ck_assert_int_eq(turn(1, &second), PS_INIT_WAIT);
    int64_t right = first.right;
    ck_assert_int_eq(turn(1, &first), PS_INIT_SELECTED);
    ck_assert_int_eq(first.right, right);

    first.wish = PS_INIT_FINISH;
    ck_assert_int_eq(ask(1, &first), PS_OK);
    ck_assert_int_eq(turn(0, &second), PS_INIT_DONE);
}
END_TEST

START_TEST(a_silent_trainer_loses_the_right)
{
    struct ps_init_question first = trainer(1);
    struct ps_init_question second = trainer(2);
    ck_assert_int_eq(turn(0, &first), PS_INIT_SELECTED);
    fake.now_ms += TTL_MS / 2;
    ck_assert_int_eq(turn(0, &second), PS_INIT_WAIT);
    fake.now_ms += TTL_MS / 2 + 1;

    ck_assert_int_eq(turn(1, &second), PS_INIT_SELECTED);
    ck_assert_int_eq(ask(0, &first), PS_ERR_STALE_EPOCH);
    first.wish = PS_INIT_FINISH;
    ck_assert_int_eq(ask(0, &first), PS_ERR_STALE_EPOCH);
    second.wish = PS_INIT_FINISH;
    ck_assert_int_eq(ask(0, &second), PS_OK);
}
END_TEST

START_TEST(asking_keeps_the_right_and_the_place)
{
    struct ps_init_question first = trainer(1);
    struct ps_init_question second = trainer(2);
    ck_assert_int_eq(turn(0, &first), PS_INIT_SELECTED);
    ck_assert_int_eq(turn(1, &second), PS_INIT_WAIT);
    int64_t place = second.right;
    for (int i = 0; i < 5; i++) {
        fake.now_ms += TTL_MS - 1;
        ck_assert_int_eq(turn(i % 2, &first), PS_INIT_SELECTED);
        ck_assert_int_eq(turn(i % 2, &second), PS_INIT_WAIT);
    }
    ck_assert_int_eq(second.right, place);
}
END_TEST

START_TEST(a_trainer_that_gives_up_makes_room)
{
    struct ps_init_question first = trainer(1);
    struct ps_init_question second = trainer(2);
    ck_assert_int_eq(turn(0, &first), PS_INIT_SELECTED);
    ck_assert_int_eq(turn(1, &second), PS_INIT_WAIT);

    first.wish = PS_INIT_ABANDON;
    ck_assert_int_eq(ask(1, &first), PS_OK);
    ck_assert_int_eq(ask(0, &first), PS_OK); /* a repeat */

    ck_assert_int_eq(turn(1, &second), PS_INIT_SELECTED);
}
END_TEST

START_TEST(the_right_of_somebody_else_is_not_given_up)
{
    struct ps_init_question first = trainer(1);
    ck_assert_int_eq(turn(0, &first), PS_INIT_SELECTED);
    struct ps_init_question wrong = {
        .wish = PS_INIT_ABANDON, .client = 1, .right = first.right + 1};
    ck_assert_int_eq(ask(0, &wrong), PS_OK);
    ck_assert_int_eq(turn(0, &first), PS_INIT_SELECTED);
}
END_TEST

START_TEST(a_finish_whose_answer_was_lost_is_repeated)
{
    struct ps_init_question first = trainer(1);
    ck_assert_int_eq(turn(0, &first), PS_INIT_SELECTED);
    first.wish = PS_INIT_FINISH;
    ck_assert_int_eq(ask(0, &first), PS_OK);
    ck_assert_int_eq(ask(1, &first), PS_OK);
}
END_TEST

START_TEST(a_shard_that_lost_its_state_stops_the_finish)
{
    struct ps_init_question first = trainer(1);
    uint32_t count;
    struct ps_kv_lease lease;
    struct ps_claim claim;
    ck_assert_int_eq(ps_registry_desired(&servers[0], 1, fake.now_ms + 1, &count, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_grant(stores[0], TTL_MS, fake.now_ms + 1, &lease, NULL), PS_OK);
    ck_assert_int_eq(
        ps_registry_claim(&servers[0], 1, UINT32_MAX, lease, fake.now_ms + 1, &claim, NULL), PS_OK);
    ck_assert_int_eq(turn(0, &first), PS_INIT_SELECTED);
    ck_assert_int_eq(ps_registry_forget_done(&servers[0], &claim, fake.now_ms + 1, NULL), PS_OK);

    first.wish = PS_INIT_FINISH;
    ck_assert_int_eq(ask(1, &first), PS_ERR_CONFLICT);

    first.wish = PS_INIT_BEGIN; /* it still has the right, and prepares anew */
    ck_assert_int_eq(turn(1, &first), PS_INIT_SELECTED);
    first.wish = PS_INIT_FINISH;
    ck_assert_int_eq(ask(1, &first), PS_OK);
}
END_TEST

START_TEST(a_trainer_of_the_store_and_one_of_the_servers_wait_for_each_other)
{
    struct ps_init_lock lock = {0};
    enum ps_init_turn its_turn;
    struct ps_init_question first = trainer(1);
    ck_assert_int_eq(turn(0, &first), PS_INIT_SELECTED);
    ck_assert_int_eq(
        ps_registry_init_turn(&servers[1], TTL_MS, &lock, fake.now_ms + 1, &its_turn, NULL), PS_OK);
    ck_assert_int_eq(its_turn, PS_INIT_WAIT);
    first.wish = PS_INIT_ABANDON;
    ck_assert_int_eq(ask(0, &first), PS_OK);
    ck_assert_int_eq(
        ps_registry_init_turn(&servers[1], TTL_MS, &lock, fake.now_ms + 1, &its_turn, NULL), PS_OK);
    ck_assert_int_eq(its_turn, PS_INIT_SELECTED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("init_right");
    TCase *tests = tcase_create("init_right");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, one_trainer_has_the_right_whichever_servers_are_asked);
    tcase_add_test(tests, a_silent_trainer_loses_the_right);
    tcase_add_test(tests, asking_keeps_the_right_and_the_place);
    tcase_add_test(tests, a_trainer_that_gives_up_makes_room);
    tcase_add_test(tests, the_right_of_somebody_else_is_not_given_up);
    tcase_add_test(tests, a_finish_whose_answer_was_lost_is_repeated);
    tcase_add_test(tests, a_shard_that_lost_its_state_stops_the_finish);
    tcase_add_test(tests, a_trainer_of_the_store_and_one_of_the_servers_wait_for_each_other);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
