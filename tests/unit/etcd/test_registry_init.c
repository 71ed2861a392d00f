/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/registry_init.c: one trainer at a time initialises. */
#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <stdlib.h>

static enum ps_init_turn turn_of(struct ps_init_lock *lock)
{
    enum ps_init_turn turn;
    ck_assert_int_eq(ps_registry_init_turn(&registry, TTL_MS, lock, soon(), &turn, NULL), PS_OK);
    return turn;
}

START_TEST(one_trainer_at_a_time_initialises)
{
    struct ps_init_lock first = {0};
    struct ps_init_lock second = {0};

    ck_assert_int_eq(turn_of(&first), PS_INIT_SELECTED);
    ck_assert_int_eq(turn_of(&second), PS_INIT_WAIT);
    ck_assert_int_eq(turn_of(&first), PS_INIT_SELECTED);
    ck_assert_int_eq(ps_registry_init_finish(&registry, &first, soon(), NULL), PS_OK);
    ck_assert_int_eq(turn_of(&second), PS_INIT_DONE);

    assert_key("/init_ps/done", "1");
    ck_assert_uint_eq(count_keys("/init_ps/lock/"), 0);
    ck_assert_int_eq(second.lease.id, 0);
}
END_TEST

START_TEST(the_next_trainer_initialises_when_the_first_dies)
{
    struct ps_init_lock first = {0};
    struct ps_init_lock second = {0};
    ck_assert_int_eq(turn_of(&first), PS_INIT_SELECTED);
    fake.now_ms += TTL_MS / 2;
    ck_assert_int_eq(turn_of(&second), PS_INIT_WAIT);

    fake.now_ms += TTL_MS / 2 + 1;

    ck_assert_int_eq(turn_of(&second), PS_INIT_SELECTED);
    struct ps_error error = {0};
    ck_assert_int_eq(ps_registry_init_finish(&registry, &first, soon(), &error),
                     PS_ERR_STALE_EPOCH);
    ck_assert_str_eq(error.text, "no longer the owner of the lock");
    assert_key("/init_ps/done", NULL);
}
END_TEST

START_TEST(a_trainer_that_lost_its_place_queues_anew)
{
    struct ps_init_lock lock = {0};
    enum ps_init_turn turn;
    ck_assert_int_eq(turn_of(&lock), PS_INIT_SELECTED);
    fake.now_ms += TTL_MS + 1;

    ck_assert_int_eq(ps_registry_init_turn(&registry, TTL_MS, &lock, soon(), &turn, NULL),
                     PS_ERR_LEASE_LOST);
    ck_assert_int_eq(lock.create_revision, 0);
    ck_assert_int_eq(turn_of(&lock), PS_INIT_SELECTED);
}
END_TEST

START_TEST(an_abandoned_lock_goes_to_the_next)
{
    struct ps_init_lock first = {0};
    struct ps_init_lock second = {0};
    ck_assert_int_eq(turn_of(&first), PS_INIT_SELECTED);
    ck_assert_int_eq(turn_of(&second), PS_INIT_WAIT);

    ps_registry_init_abandon(&registry, &first, soon());

    ck_assert_int_eq(turn_of(&second), PS_INIT_SELECTED);
    ck_assert_int_eq(ps_registry_init_finish(&registry, &first, soon(), NULL), PS_ERR_STALE_EPOCH);
    ps_registry_init_abandon(&registry, &first, soon());
}
END_TEST

/* A shard changes hands, and the new owner finds no state. */
static void lose_a_shard(void)
{
    struct ps_claim claim = claim_any(PS_SHARDS_MAX);
    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_OK);
}

static enum ps_status prepare_and_finish(struct ps_init_lock *lock, bool loses)
{
    ck_assert_int_eq(ps_registry_init_prepare(&registry, lock, soon(), NULL), PS_OK);
    if (loses)
        lose_a_shard();
    return ps_registry_init_finish(&registry, lock, soon(), NULL);
}

START_TEST(what_was_lost_before_preparing_does_not_hinder_the_mark)
{
    struct ps_init_lock lock = {0};
    lose_a_shard();
    ck_assert_int_eq(turn_of(&lock), PS_INIT_SELECTED);
    lose_a_shard();

    ck_assert_int_eq(prepare_and_finish(&lock, false), PS_OK);

    assert_key("/init_ps/done", "1");
}
END_TEST

START_TEST(the_mark_is_not_set_when_a_shard_was_lost_after_preparing)
{
    struct ps_init_lock lock = {0};
    struct ps_init_lock other = {0};
    ck_assert_int_eq(turn_of(&lock), PS_INIT_SELECTED);

    ck_assert_int_eq(prepare_and_finish(&lock, true), PS_ERR_CONFLICT);
    ck_assert_int_eq(prepare_and_finish(&lock, true), PS_ERR_CONFLICT);

    assert_key("/init_ps/done", NULL);
    ck_assert_int_eq(turn_of(&other), PS_INIT_WAIT);
    ck_assert_int_eq(turn_of(&lock), PS_INIT_SELECTED);
    ck_assert_int_eq(prepare_and_finish(&lock, false), PS_OK);
    ck_assert_int_eq(turn_of(&other), PS_INIT_DONE);
}
END_TEST

START_TEST(who_is_not_prepared_does_not_set_the_mark_once_a_shard_was_lost)
{
    struct ps_init_lock lock = {0};
    lose_a_shard();
    ck_assert_int_eq(turn_of(&lock), PS_INIT_SELECTED);

    ck_assert_int_eq(ps_registry_init_finish(&registry, &lock, soon(), NULL), PS_ERR_CONFLICT);

    assert_key("/init_ps/done", NULL);
    ps_registry_init_abandon(&registry, &lock, soon());
}
END_TEST

START_TEST(a_lost_lock_is_reported_before_a_lost_shard)
{
    struct ps_init_lock lock = {0};
    ck_assert_int_eq(turn_of(&lock), PS_INIT_SELECTED);
    ck_assert_int_eq(ps_registry_init_prepare(&registry, &lock, soon(), NULL), PS_OK);
    fake.now_ms += TTL_MS + 1;
    lose_a_shard();

    ck_assert_int_eq(ps_registry_init_finish(&registry, &lock, soon(), NULL), PS_ERR_STALE_EPOCH);

    assert_key("/init_ps/done", NULL);
    ck_assert_int_eq(lock.create_revision, 0);
}
END_TEST

START_TEST(a_mark_that_is_none_is_reported)
{
    struct ps_init_lock lock = {0};
    enum ps_init_turn turn = PS_INIT_WAIT;
    put("/init_ps/done", "yes");

    ck_assert_int_eq(ps_registry_init_turn(&registry, TTL_MS, &lock, soon(), &turn, NULL),
                     PS_ERR_BAD_INPUT);
    ps_registry_init_abandon(&registry, &lock, soon());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry_init");
    TCase *tests = tcase_create("registry_init");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, one_trainer_at_a_time_initialises);
    tcase_add_test(tests, the_next_trainer_initialises_when_the_first_dies);
    tcase_add_test(tests, a_trainer_that_lost_its_place_queues_anew);
    tcase_add_test(tests, an_abandoned_lock_goes_to_the_next);
    tcase_add_test(tests, what_was_lost_before_preparing_does_not_hinder_the_mark);
    tcase_add_test(tests, the_mark_is_not_set_when_a_shard_was_lost_after_preparing);
    tcase_add_test(tests, who_is_not_prepared_does_not_set_the_mark_once_a_shard_was_lost);
    tcase_add_test(tests, a_lost_lock_is_reported_before_a_lost_shard);
    tcase_add_test(tests, a_mark_that_is_none_is_reported);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
