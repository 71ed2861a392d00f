/* etcd/registry*.c: the job's keys and the conditions under which they are written. */
#include "registry_fixture.h"

#include <stdlib.h>
#include <string.h>

START_TEST(the_first_wish_for_the_number_of_shards_holds)
{
    uint32_t count = 0;

    ck_assert_int_eq(ps_registry_desired(&registry, 3, soon(), &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 3);
    ck_assert_int_eq(ps_registry_desired(&registry, 5, soon(), &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 3);
    assert_key("/ps_desired", "3");
}
END_TEST

START_TEST(a_senseless_number_of_shards_is_refused)
{
    uint32_t count = 7;

    ck_assert_int_eq(ps_registry_desired(&registry, 0, soon(), &count, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_registry_desired(&registry, PS_SHARDS_MAX + 1, soon(), &count, NULL),
                     PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(count, 7);
    assert_key("/ps_desired", NULL);
}
END_TEST

START_TEST(a_stored_number_that_is_none_is_reported_and_left)
{
    const char *values[] = {"", "0", "-1", "03", "4097", "3 ", "three", "99999999999"};
    const char *value = values[_i];
    struct ps_error error = {0};
    uint32_t count = 7;
    put("/ps_desired", value);

    ck_assert_int_eq(ps_registry_desired(&registry, 2, soon(), &count, &error), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "/ps_desired"));
    ck_assert_uint_eq(count, 7);
    assert_key("/ps_desired", value);
}
END_TEST

START_TEST(b13_ps_desired_outlives_the_server_that_wrote_it)
{
    uint32_t count = 0;
    ck_assert_int_eq(ps_registry_desired(&registry, 3, soon(), &count, NULL), PS_OK);
    (void)claim_any(3);

    fake.now_ms += TTL_MS + 1;

    ck_assert_uint_eq(count_keys("/ps/"), 0);
    ck_assert_int_eq(ps_registry_read_desired(&registry, soon(), &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 3);
}
END_TEST

START_TEST(b29_an_absent_number_of_shards_is_an_answer_and_can_be_waited_for)
{
    uint32_t count = 7;
    bool changed = false;

    ck_assert_int_eq(ps_registry_read_desired(&registry, soon(), &count, NULL), PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(count, 7);
    ck_assert_int_eq(ps_registry_watch_members(&registry, 0, soon(), NULL), PS_OK);
    ck_assert_int_eq(ps_kv_watch_wait(kv, soon(), &changed, NULL), PS_OK);
    ck_assert(!changed);

    ck_assert_int_eq(ps_registry_desired(&registry, 2, soon(), &count, NULL), PS_OK);

    ck_assert_int_eq(ps_kv_watch_wait(kv, soon(), &changed, NULL), PS_OK);
    ck_assert(changed);
}
END_TEST

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

START_TEST(b8_an_owner_replaced_by_hand_publishes_nothing)
{
    struct ps_claim claim = claim_any(1);
    const struct ps_kv_change erase = {PS_KV_DELETE, "/ps/0", {NULL, 0}, {0}};
    const struct ps_kv_transaction transaction = {NULL, 0, &erase, 1};
    bool done;
    int64_t revision;
    ck_assert_int_eq(ps_kv_commit(kv, &transaction, soon(), &done, &revision, NULL), PS_OK);

    ck_assert_int_eq(ps_registry_publish_address(&registry, &claim, "old:1", soon(), NULL),
                     PS_ERR_STALE_EPOCH);
    assert_key("/ps/0", NULL);
}
END_TEST

START_TEST(checkpoint_pointers_replace_each_other_and_outlive_the_owner)
{
    struct ps_claim claim = claim_any(2);
    struct ps_kv_entries entries;

    ck_assert_int_eq(ps_registry_publish_checkpoint(&registry, &claim,
                                                    ps_bytes_of_text("{\"a\":1}"), soon(), NULL),
                     PS_OK);
    ck_assert_int_eq(ps_registry_publish_checkpoint(&registry, &claim,
                                                    ps_bytes_of_text("{\"a\":2}"), soon(), NULL),
                     PS_OK);
    fake.now_ms += TTL_MS + 1;

    ck_assert_int_eq(ps_registry_read_checkpoint(&registry, 0, soon(), &entries, NULL), PS_OK);
    ck_assert_uint_eq(entries.count, 1);
    ck_assert_str_eq((const char *)entries.entries[0].value, "{\"a\":2}");
    ps_kv_entries_release(&entries);
}
END_TEST

START_TEST(a_missing_checkpoint_has_its_own_words)
{
    struct ps_kv_entries entries = {0};
    struct ps_error error = {0};

    ck_assert_int_eq(ps_registry_read_checkpoint(&registry, 1, soon(), &entries, &error),
                     PS_ERR_NOT_FOUND);
    ck_assert_str_eq(error.text, "checkpoint not found in etcd");
}
END_TEST

START_TEST(the_mark_is_forgotten_only_without_a_checkpoint)
{
    struct ps_claim claim = claim_any(2);
    put("/init_ps/done", "1");

    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_OK);
    assert_key("/init_ps/done", NULL);
    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_OK);

    put("/init_ps/done", "1");
    put("/checkpoints/0", "{}");
    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_ERR_CONFLICT);
    assert_key("/init_ps/done", "1");
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

START_TEST(b25_two_jobs_share_one_store_without_meeting)
{
    struct ps_registry red;
    struct ps_registry blue;
    struct ps_claim claim;
    uint32_t count = 0;
    ck_assert_int_eq(ps_registry_init(&red, kv, "red", NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init(&blue, kv, "blue-2.x_", NULL), PS_OK);

    ck_assert_int_eq(ps_registry_desired(&red, 2, soon(), &count, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_desired(&blue, 5, soon(), &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 5);
    ck_assert_int_eq(ps_registry_claim(&red, 2, ANY_INDEX, grant(), soon(), &claim, NULL), PS_OK);
    ck_assert_uint_eq(claim.index, 0);
    ck_assert_int_eq(ps_registry_claim(&blue, 5, ANY_INDEX, grant(), soon(), &claim, NULL), PS_OK);
    ck_assert_uint_eq(claim.index, 0);

    assert_key("/red/ps_desired", "2");
    assert_key("/blue-2.x_/ps_desired", "5");
    assert_key("/red/ps/0", "");
    ck_assert_uint_eq(count_keys("/ps"), 0);
}
END_TEST

START_TEST(b25_a_job_name_that_could_meet_other_keys_is_refused)
{
    struct ps_registry other = {0};
    char long_name[PS_JOB_BYTES_MAX + 2];
    memset(long_name, 'j', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *names[] = {"a/b", "/", " ", "a b", "\xc3\xa4", "a\n", long_name};

    for (size_t i = 0; i < PS_ARRAY_COUNT(names); i++)
        ck_assert_int_eq(ps_registry_init(&other, kv, names[i], NULL), PS_ERR_BAD_INPUT);
    long_name[PS_JOB_BYTES_MAX] = '\0';
    ck_assert_int_eq(ps_registry_init(&other, kv, long_name, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init(&other, kv, NULL, NULL), PS_OK);
    ck_assert_str_eq(other.job, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry");
    TCase *tests = tcase_create("registry");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_first_wish_for_the_number_of_shards_holds);
    tcase_add_test(tests, a_senseless_number_of_shards_is_refused);
    tcase_add_loop_test(tests, a_stored_number_that_is_none_is_reported_and_left, 0, 8);
    tcase_add_test(tests, b13_ps_desired_outlives_the_server_that_wrote_it);
    tcase_add_test(tests, b29_an_absent_number_of_shards_is_an_answer_and_can_be_waited_for);
    tcase_add_test(tests, claims_take_the_lowest_free_index);
    tcase_add_test(tests, a_wished_index_is_given_or_busy);
    tcase_add_test(tests, a_claim_beyond_the_shards_is_busy);
    tcase_add_test(tests, keys_that_are_no_index_do_not_disturb_a_claim);
    tcase_add_test(tests, a_claim_with_a_dead_lease_is_refused);
    tcase_add_test(tests, an_address_is_published_under_the_claim);
    tcase_add_test(tests, an_address_that_is_none_is_refused);
    tcase_add_test(tests, b8_a_server_whose_lease_ended_publishes_nothing);
    tcase_add_test(tests, b8_an_owner_replaced_by_hand_publishes_nothing);
    tcase_add_test(tests, checkpoint_pointers_replace_each_other_and_outlive_the_owner);
    tcase_add_test(tests, a_missing_checkpoint_has_its_own_words);
    tcase_add_test(tests, the_mark_is_forgotten_only_without_a_checkpoint);
    tcase_add_test(tests, members_have_one_row_per_shard);
    tcase_add_test(tests, b9_a_missing_server_leaves_the_rows_of_others_alone);
    tcase_add_test(tests, a_value_that_is_no_address_counts_as_none);
    tcase_add_test(tests, members_stay_as_they_were_when_reading_fails);
    tcase_add_test(tests, a_watch_on_members_sees_a_server_come_and_go);
    tcase_add_test(tests, b25_two_jobs_share_one_store_without_meeting);
    tcase_add_test(tests, b25_a_job_name_that_could_meet_other_keys_is_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
