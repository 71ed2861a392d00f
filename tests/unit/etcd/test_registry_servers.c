/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/registry_servers.c: claims, addresses and the list of servers. */
#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <stdlib.h>
#include <string.h>

START_TEST(claims_take_the_lowest_free_index)
{
    struct ps_claim first = claim_any(3);
    struct ps_claim second = claim_any(3);
    ck_assert_uint_eq(first.index, 0);
    ck_assert_uint_eq(second.index, 1);
    ck_assert_int_eq(ps_kv_lease_revoke(kv, first.lease, soon(), NULL), PS_OK);

    struct ps_claim third = claim_any(3);

    ck_assert_uint_eq(third.index, 0);
    ck_assert_uint_gt(third.epoch, first.epoch);
    assert_key("/ps/0", "");
}
END_TEST

START_TEST(a_wished_index_is_given_or_busy)
{
    struct ps_claim claim;

    ck_assert_int_eq(ps_registry_claim(&registry, 3, 2, grant(), soon(), &claim, NULL), PS_OK);
    ck_assert_uint_eq(claim.index, 2);
    ck_assert_int_eq(ps_registry_claim(&registry, 3, 2, grant(), soon(), &claim, NULL),
                     PS_ERR_BUSY);
    ck_assert_int_eq(ps_registry_claim(&registry, 3, 3, grant(), soon(), &claim, NULL),
                     PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_wished_index_that_is_taken_says_by_whom)
{
    struct ps_claim claim;
    struct ps_error error = {0};
    ck_assert_int_eq(ps_registry_claim(&registry, 3, 2, grant(), soon(), &claim, NULL), PS_OK);

    ck_assert_int_eq(
        ps_registry_claim(&registry, 3, 2, grant(), soon(), &(struct ps_claim){0}, &error),
        PS_ERR_BUSY);
    ck_assert_str_eq(error.text,
                     "index 2 is taken by a server that has not published its address yet");
    ck_assert_int_eq(ps_registry_publish_address(&registry, &claim, "10.0.0.7:8000", soon(), NULL),
                     PS_OK);
    ck_assert_int_eq(
        ps_registry_claim(&registry, 3, 2, grant(), soon(), &(struct ps_claim){0}, &error),
        PS_ERR_BUSY);
    ck_assert_str_eq(error.text, "index 2 is taken by 10.0.0.7:8000");
}
END_TEST

START_TEST(a_claim_beyond_the_shards_is_busy)
{
    struct ps_claim claim;
    (void)claim_any(2);
    (void)claim_any(2);

    ck_assert_int_eq(ps_registry_claim(&registry, 2, ANY_INDEX, grant(), soon(), &claim, NULL),
                     PS_ERR_BUSY);
    ck_assert_uint_eq(count_keys("/ps/"), 2);
}
END_TEST

START_TEST(keys_that_are_no_index_do_not_disturb_a_claim)
{
    put("/ps/one", "x");
    put("/ps/00", "x");
    put("/ps/7", "x");

    ck_assert_uint_eq(claim_any(2).index, 0);
}
END_TEST

START_TEST(a_claim_with_a_dead_lease_is_refused)
{
    struct ps_kv_lease lease = grant();
    struct ps_claim claim;
    fake.now_ms += TTL_MS + 1;

    ck_assert_int_eq(ps_registry_claim(&registry, 2, ANY_INDEX, lease, soon(), &claim, NULL),
                     PS_ERR_LEASE_LOST);
    ck_assert_uint_eq(count_keys("/ps/"), 0);
}
END_TEST

START_TEST(an_address_is_published_under_the_claim)
{
    struct ps_claim claim = claim_any(2);

    ck_assert_int_eq(ps_registry_publish_address(&registry, &claim, "host:1234", soon(), NULL),
                     PS_OK);

    assert_key("/ps/0", "host:1234");
    fake.now_ms += TTL_MS + 1;
    assert_key("/ps/0", NULL);
}
END_TEST

START_TEST(an_address_that_is_none_is_refused)
{
    struct ps_claim claim = claim_any(2);
    char long_address[PS_ADDRESS_BYTES_MAX + 1];
    memset(long_address, 'a', sizeof long_address - 1);
    long_address[sizeof long_address - 1] = '\0';
    const char *addresses[] = {"", "a b:1", "a:1\n", "\xc3\xa4:1", long_address};

    for (size_t i = 0; i < PS_ARRAY_COUNT(addresses); i++)
        ck_assert_int_eq(ps_registry_publish_address(&registry, &claim, addresses[i], soon(), NULL),
                         PS_ERR_BAD_INPUT);
    assert_key("/ps/0", "");
}
END_TEST

START_TEST(b8_a_server_whose_lease_ended_publishes_nothing)
{
    struct ps_claim old = claim_any(1);
    fake.now_ms += TTL_MS + 1;
    struct ps_claim fresh = claim_any(1);
    ck_assert_int_eq(ps_registry_publish_address(&registry, &fresh, "new:1", soon(), NULL), PS_OK);

    ck_assert_int_eq(ps_registry_publish_address(&registry, &old, "old:1", soon(), NULL),
                     PS_ERR_STALE_EPOCH);
    ck_assert_int_eq(
        ps_registry_publish_checkpoint(&registry, &old, ps_bytes_of_text("{}"), soon(), NULL),
        PS_ERR_STALE_EPOCH);
    ck_assert_int_eq(ps_registry_forget_done(&registry, &old, soon(), NULL), PS_ERR_STALE_EPOCH);

    assert_key("/ps/0", "new:1");
    assert_key("/checkpoints/0", NULL);
}
END_TEST

static void delete_by_hand(const char *key)
{
    const struct ps_kv_change erase = {PS_KV_DELETE, key, {NULL, 0}, {0}};
    const struct ps_kv_transaction transaction = {NULL, 0, &erase, 1};
    bool done;
    int64_t revision;
    ck_assert_int_eq(ps_kv_commit(kv, &transaction, soon(), &done, &revision, NULL), PS_OK);
}

START_TEST(a_claim_is_kept_while_its_key_is_its_own)
{
    struct ps_claim claim = claim_any(2);
    for (int i = 0; i < 3; i++) {
        fake.now_ms += TTL_MS - 1;
        ck_assert_int_eq(ps_registry_keep(&registry, &claim, soon(), NULL), PS_OK);
    }
    assert_key("/ps/0", "");
}
END_TEST

START_TEST(a_claim_whose_lease_ended_is_not_kept)
{
    struct ps_claim claim = claim_any(1);
    fake.now_ms += TTL_MS + 1;

    ck_assert_int_eq(ps_registry_keep(&registry, &claim, soon(), NULL), PS_ERR_LEASE_LOST);
}
END_TEST

START_TEST(a_claim_whose_key_was_deleted_by_hand_is_not_kept)
{
    struct ps_claim claim = claim_any(1);
    struct ps_error error;
    delete_by_hand("/ps/0");

    ck_assert_int_eq(ps_registry_keep(&registry, &claim, soon(), &error), PS_ERR_STALE_EPOCH);

    ck_assert_str_eq(error.text, "/ps/0 is no longer ours");
}
END_TEST

START_TEST(a_claim_whose_key_another_server_has_made_is_not_kept)
{
    struct ps_claim claim = claim_any(1);
    delete_by_hand("/ps/0");
    struct ps_claim other = claim_any(1);

    ck_assert_int_eq(ps_registry_keep(&registry, &claim, soon(), NULL), PS_ERR_STALE_EPOCH);
    ck_assert_int_eq(ps_registry_keep(&registry, &other, soon(), NULL), PS_OK);
}
END_TEST

START_TEST(b8_an_owner_replaced_by_hand_publishes_nothing)
{
    struct ps_claim claim = claim_any(1);
    delete_by_hand("/ps/0");

    ck_assert_int_eq(ps_registry_publish_address(&registry, &claim, "old:1", soon(), NULL),
                     PS_ERR_STALE_EPOCH);
    assert_key("/ps/0", NULL);
}
END_TEST

START_TEST(members_have_one_row_per_shard)
{
    uint32_t count;
    struct ps_members members = {0};
    ck_assert_int_eq(ps_registry_desired(&registry, 3, soon(), &count, NULL), PS_OK);
    struct ps_claim first = claim_any(3);
    struct ps_claim second = claim_any(3);
    ck_assert_int_eq(ps_registry_publish_address(&registry, &second, "b:2", soon(), NULL), PS_OK);

    ck_assert_int_eq(
        ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL), PS_OK);

    ck_assert_uint_eq(members.shard_count, 3);
    ck_assert_str_eq(members.rows[0].address, "");
    ck_assert_uint_eq(members.rows[0].epoch, first.epoch);
    ck_assert_str_eq(members.rows[1].address, "b:2");
    ck_assert_uint_eq(members.rows[1].epoch, second.epoch);
    ck_assert_str_eq(members.rows[2].address, "");
    ck_assert_uint_eq(members.rows[2].epoch, 0);
    ps_members_release(&members);
    ps_members_release(&members);
}
END_TEST

START_TEST(b9_a_missing_server_leaves_the_rows_of_others_alone)
{
    uint32_t count;
    struct ps_members members = {0};
    ck_assert_int_eq(ps_registry_desired(&registry, 3, soon(), &count, NULL), PS_OK);
    for (uint32_t i = 0; i < 3; i++) {
        struct ps_claim claim = claim_any(3);
        ck_assert_int_eq(
            ps_registry_publish_address(&registry, &claim, i == 1 ? "b:1" : "a:1", soon(), NULL),
            PS_OK);
        if (i == 1)
            ck_assert_int_eq(ps_kv_lease_revoke(kv, claim.lease, soon(), NULL), PS_OK);
        if (i == 2)
            ck_assert_uint_eq(claim.index, 1);
    }
    put("/ps/9", "beyond:1");

    ck_assert_int_eq(
        ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL), PS_OK);

    ck_assert_str_eq(members.rows[0].address, "a:1");
    ck_assert_str_eq(members.rows[1].address, "a:1");
    ck_assert_str_eq(members.rows[2].address, "");
    ps_members_release(&members);
}
END_TEST

START_TEST(a_value_that_is_no_address_counts_as_none)
{
    uint32_t count;
    struct ps_members members = {0};
    ck_assert_int_eq(ps_registry_desired(&registry, 2, soon(), &count, NULL), PS_OK);
    put("/ps/0", "not an address");

    ck_assert_int_eq(
        ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL), PS_OK);

    ck_assert_str_eq(members.rows[0].address, "");
    ck_assert_uint_ne(members.rows[0].epoch, 0);
    ps_members_release(&members);
}
END_TEST

START_TEST(members_stay_as_they_were_when_reading_fails)
{
    uint32_t count;
    struct ps_members members = {0};
    ck_assert_int_eq(
        ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL),
        PS_ERR_NOT_FOUND);
    ck_assert_ptr_null(members.rows);
    ck_assert_int_eq(ps_registry_desired(&registry, 2, soon(), &count, NULL), PS_OK);
    ck_assert_int_eq(
        ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL), PS_OK);
    put("/ps_desired", "many");

    ck_assert_int_eq(
        ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL),
        PS_ERR_BAD_INPUT);

    ck_assert_uint_eq(members.shard_count, 2);
    ps_members_release(&members);
}
END_TEST

START_TEST(a_watch_on_members_sees_a_server_come_and_go)
{
    uint32_t count;
    bool changed = false;
    struct ps_members members = {0};
    ck_assert_int_eq(ps_registry_desired(&registry, 2, soon(), &count, NULL), PS_OK);
    ck_assert_int_eq(
        ps_registry_read_members(&registry, ps_allocator_heap(), soon(), &members, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_watch_members(&registry, members.revision + 1, soon(), NULL),
                     PS_OK);
    ck_assert_int_eq(ps_kv_watch_wait(kv, soon(), &changed, NULL), PS_OK);
    ck_assert(!changed);

    (void)claim_any(2);
    ck_assert_int_eq(ps_kv_watch_wait(kv, soon(), &changed, NULL), PS_OK);
    ck_assert(changed);
    fake.now_ms += TTL_MS + 1;
    ck_assert_int_eq(ps_kv_watch_wait(kv, soon(), &changed, NULL), PS_OK);
    ck_assert(changed);
    ps_members_release(&members);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry_servers");
    TCase *tests = tcase_create("registry_servers");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, claims_take_the_lowest_free_index);
    tcase_add_test(tests, a_wished_index_is_given_or_busy);
    tcase_add_test(tests, a_wished_index_that_is_taken_says_by_whom);
    tcase_add_test(tests, a_claim_beyond_the_shards_is_busy);
    tcase_add_test(tests, keys_that_are_no_index_do_not_disturb_a_claim);
    tcase_add_test(tests, a_claim_with_a_dead_lease_is_refused);
    tcase_add_test(tests, an_address_is_published_under_the_claim);
    tcase_add_test(tests, an_address_that_is_none_is_refused);
    tcase_add_test(tests, b8_a_server_whose_lease_ended_publishes_nothing);
    tcase_add_test(tests, a_claim_is_kept_while_its_key_is_its_own);
    tcase_add_test(tests, a_claim_whose_lease_ended_is_not_kept);
    tcase_add_test(tests, a_claim_whose_key_was_deleted_by_hand_is_not_kept);
    tcase_add_test(tests, a_claim_whose_key_another_server_has_made_is_not_kept);
    tcase_add_test(tests, b8_an_owner_replaced_by_hand_publishes_nothing);
    tcase_add_test(tests, members_have_one_row_per_shard);
    tcase_add_test(tests, b9_a_missing_server_leaves_the_rows_of_others_alone);
    tcase_add_test(tests, a_value_that_is_no_address_counts_as_none);
    tcase_add_test(tests, members_stay_as_they_were_when_reading_fails);
    tcase_add_test(tests, a_watch_on_members_sees_a_server_come_and_go);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
