/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/registry_placement.c: the number is decided once, by who holds the lock. */
#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

static struct ps_init_lock lock;

static void take_lock(void)
{
    enum ps_init_turn turn;
    lock = (struct ps_init_lock){0};
    ck_assert_int_eq(ps_registry_init_turn(&registry, TTL_MS, &lock, soon(), &turn, NULL), PS_OK);
    ck_assert_int_eq(turn, PS_INIT_SELECTED);
}

static enum ps_status decide(struct ps_registry *with, uint64_t proposal, uint64_t *placement)
{
    return ps_registry_decide_placement(with, &lock, proposal, soon(), placement, NULL);
}

static uint64_t read_it(void)
{
    uint64_t placement = 77;
    ck_assert_int_eq(ps_registry_read_placement(&registry, soon(), &placement, NULL), PS_OK);
    return placement;
}

START_TEST(the_first_proposal_holds_for_good)
{
    uint64_t placement = 0;
    ck_assert_uint_eq(read_it(), 0);
    take_lock();

    ck_assert_int_eq(decide(&registry, 17, &placement), PS_OK);
    ck_assert_uint_eq(placement, 17);
    ck_assert_int_eq(decide(&registry, 18, &placement), PS_OK);
    ck_assert_uint_eq(placement, 17);

    ck_assert_uint_eq(read_it(), 17);
    assert_key("/ps_placement", "17");
}
END_TEST

START_TEST(a_decision_outlives_the_lock_and_another_initialiser_is_told_it)
{
    uint64_t placement = 0;
    take_lock();
    ck_assert_int_eq(decide(&registry, UINT64_MAX, &placement), PS_OK);
    fake.now_ms += TTL_MS + 1;

    take_lock();
    ck_assert_int_eq(decide(&registry, 1, &placement), PS_OK);
    ck_assert_uint_eq(placement, UINT64_MAX);
}
END_TEST

START_TEST(who_has_lost_the_lock_decides_nothing)
{
    uint64_t placement = 5;
    take_lock();
    fake.now_ms += TTL_MS + 1;
    ck_assert_int_eq(decide(&registry, 17, &placement), PS_ERR_STALE_EPOCH);
    lock = (struct ps_init_lock){0};
    ck_assert_int_eq(decide(&registry, 17, &placement), PS_ERR_STALE_EPOCH);
    ck_assert_uint_eq(placement, 5);
    assert_key("/ps_placement", NULL);
}
END_TEST

START_TEST(a_lost_answer_is_read_back)
{
    uint64_t placement = 0;
    take_lock();
    lossy_kv_init(&lossy, kv, LOSSY_AFTER, 0);
    ck_assert_int_eq(decide(&lossy_registry, 17, &placement), PS_OK);
    ck_assert_uint_eq(placement, 17);
}
END_TEST

START_TEST(a_value_that_is_not_a_number_stops_everybody)
{
    static const char *const texts[] = {
        "", "0", "017", "-1", "1 ", "0x2", "18446744073709551616", "99999999999999999999"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t placement = 5;
        struct ps_members members = {0};
        uint32_t shard_count;
        put("/ps_placement", texts[i]);
        ck_assert_int_eq(ps_registry_desired(&registry, 2, soon(), &shard_count, NULL), PS_OK);
        ck_assert_int_eq(ps_registry_read_placement(&registry, soon(), &placement, NULL),
                         PS_ERR_BAD_INPUT);
        ck_assert_int_eq(decide(&registry, 3, &placement), PS_ERR_BAD_INPUT);
        ck_assert_int_eq(
            ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL),
            PS_ERR_BAD_INPUT);
        ck_assert_uint_eq(placement, 5);
    }
}
END_TEST

START_TEST(members_are_read_with_the_placement_and_its_decision_is_a_change)
{
    struct ps_members members = {0};
    uint32_t shard_count;
    uint64_t placement;
    bool changed = false;
    ck_assert_int_eq(ps_registry_desired(&registry, 2, soon(), &shard_count, NULL), PS_OK);
    ck_assert_int_eq(
        ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL), PS_OK);
    ck_assert_uint_eq(members.placement, 0);
    ck_assert_int_eq(ps_registry_watch_members(&registry, members.revision + 1, soon(), NULL),
                     PS_OK);
    take_lock();
    ck_assert_int_eq(decide(&registry, 9, &placement), PS_OK);

    ck_assert_int_eq(ps_kv_watch_wait(kv, 0, &changed, NULL), PS_OK);
    ck_assert(changed);
    ck_assert_int_eq(
        ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL), PS_OK);
    ck_assert_uint_eq(members.placement, 9);
    ps_members_release(&members);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry_placement");
    TCase *tests = tcase_create("registry_placement");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_first_proposal_holds_for_good);
    tcase_add_test(tests, a_decision_outlives_the_lock_and_another_initialiser_is_told_it);
    tcase_add_test(tests, who_has_lost_the_lock_decides_nothing);
    tcase_add_test(tests, a_lost_answer_is_read_back);
    tcase_add_test(tests, a_value_that_is_not_a_number_stops_everybody);
    tcase_add_test(tests, members_are_read_with_the_placement_and_its_decision_is_a_change);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
