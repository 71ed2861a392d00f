/* SPDX-License-Identifier: Apache-2.0 */
/* The behaviour that all stores share: keys and transactions. Leases and watches are in
 * kv_conformance_time.c. */
#include "tests/conformance/kv_conformance.h"

#include "tests/conformance/kv_world.h"

#include <string.h>

START_TEST(reading_an_absent_key_gives_nothing)
{
    struct ps_kv *kv = world_open();

    struct ps_kv_entries entries = world_read(kv, "/absent", false);

    ck_assert_uint_eq(entries.count, 0);
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_value_reads_back_as_written)
{
    struct ps_kv *kv = world_open();
    int64_t revision = world_put(kv, "/a", "value", 0);

    struct ps_kv_entries entries = world_read(kv, "/a", false);

    ck_assert_uint_eq(entries.count, 1);
    ck_assert_str_eq(entries.entries[0].key, world_key("/a").text);
    ck_assert_str_eq((const char *)entries.entries[0].value, "value");
    ck_assert_uint_eq(entries.entries[0].value_size, 5);
    ck_assert_int_eq(entries.entries[0].create_revision, revision);
    ck_assert_int_eq(entries.entries[0].modify_revision, revision);
    ck_assert_int_eq(entries.entries[0].lease.id, 0);
    ck_assert_int_ge(entries.revision, revision);
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(an_empty_value_is_a_value)
{
    struct ps_kv *kv = world_open();
    (void)world_put(kv, "/a", "", 0);

    struct ps_kv_entries entries = world_read(kv, "/a", false);

    ck_assert_uint_eq(entries.count, 1);
    ck_assert_uint_eq(entries.entries[0].value_size, 0);
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(any_bytes_are_a_value)
{
    struct ps_kv *kv = world_open();
    uint8_t bytes[256 * 3 + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    (void)world_put_bytes(kv, "/a", (struct ps_bytes){bytes, sizeof bytes}, 0);

    struct ps_kv_entries entries = world_read(kv, "/a", false);

    ck_assert_uint_eq(entries.count, 1);
    ck_assert_uint_eq(entries.entries[0].value_size, sizeof bytes);
    ck_assert_mem_eq(entries.entries[0].value, bytes, sizeof bytes);
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_large_value_reads_back_as_written)
{
    struct ps_kv *kv = world_open();
    size_t size = 300 * 1000;
    uint8_t *bytes = ps_plain(ps_allocator_heap(), size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i >> 3 ^ i);
    (void)world_put_bytes(kv, "/a", (struct ps_bytes){bytes, size}, 0);

    struct ps_kv_entries entries = world_read(kv, "/a", false);

    ck_assert_uint_eq(entries.count, 1);
    ck_assert_uint_eq(entries.entries[0].value_size, size);
    ck_assert_mem_eq(entries.entries[0].value, bytes, size);
    ps_release(ps_allocator_heap(), bytes);
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_prefix_gives_its_keys_in_order_and_no_others)
{
    struct ps_kv *kv = world_open();
    (void)world_put(kv, "/p/2", "two", 0);
    (void)world_put(kv, "/p/10", "ten", 0);
    (void)world_put(kv, "/p/1", "one", 0);
    (void)world_put(kv, "/p", "above", 0);
    (void)world_put(kv, "/p0", "beside", 0);
    (void)world_put(kv, "/o/1", "before", 0);

    struct ps_kv_entries entries = world_read(kv, "/p/", true);

    ck_assert_uint_eq(entries.count, 3);
    ck_assert_str_eq(entries.entries[0].key, world_key("/p/1").text);
    ck_assert_str_eq(entries.entries[1].key, world_key("/p/10").text);
    ck_assert_str_eq(entries.entries[2].key, world_key("/p/2").text);
    ck_assert_str_eq((const char *)entries.entries[1].value, "ten");
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(one_key_read_leaves_longer_ones_out)
{
    struct ps_kv *kv = world_open();
    (void)world_put(kv, "/p", "short", 0);
    (void)world_put(kv, "/p/1", "long", 0);

    struct ps_kv_entries entries = world_read(kv, "/p", false);

    ck_assert_uint_eq(entries.count, 1);
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(released_entries_may_be_released_again)
{
    struct ps_kv *kv = world_open();
    (void)world_put(kv, "/a", "value", 0);
    struct ps_kv_entries entries = world_read(kv, "/a", false);

    ps_kv_entries_release(&entries);
    ps_kv_entries_release(&entries);

    ck_assert_uint_eq(entries.count, 0);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(an_absent_key_is_claimed_once)
{
    struct ps_kv *first = world_open();
    struct ps_kv *second = world_open();
    int64_t won = 0;
    int64_t lost = 0;

    ck_assert(world_put_if(first, "/a", PS_KV_CREATED_AT, 0, "first", &won));
    ck_assert(!world_put_if(second, "/a", PS_KV_CREATED_AT, 0, "second", &lost));

    world_assert_value(second, "/a", "first");
    ck_assert_int_ge(lost, won);
    ps_kv_destroy(second);
    ps_kv_destroy(first);
}
END_TEST

START_TEST(the_create_revision_stays_when_a_key_is_written_again)
{
    struct ps_kv *kv = world_open();
    int64_t created = world_put(kv, "/a", "one", 0);
    int64_t modified = world_put(kv, "/a", "two", 0);
    int64_t revision;

    ck_assert_int_gt(modified, created);
    ck_assert(!world_put_if(kv, "/a", PS_KV_CREATED_AT, modified, "wrong", &revision));
    ck_assert(!world_put_if(kv, "/a", PS_KV_MODIFIED_AT, created, "wrong", &revision));
    ck_assert(world_put_if(kv, "/a", PS_KV_MODIFIED_AT, modified, "three", &revision));
    ck_assert(world_put_if(kv, "/a", PS_KV_CREATED_AT, created, "four", &revision));
    world_assert_value(kv, "/a", "four");
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(modified_at_zero_demands_absence)
{
    struct ps_kv *kv = world_open();
    int64_t revision;

    ck_assert(world_put_if(kv, "/a", PS_KV_MODIFIED_AT, 0, "one", &revision));
    ck_assert(!world_put_if(kv, "/a", PS_KV_MODIFIED_AT, 0, "two", &revision));
    world_assert_value(kv, "/a", "one");
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_key_made_anew_has_a_new_create_revision)
{
    struct ps_kv *kv = world_open();
    int64_t before = world_put(kv, "/a", "one", 0);
    world_delete(kv, "/a");
    int64_t after = world_put(kv, "/a", "two", 0);
    int64_t revision;

    ck_assert_int_gt(after, before);
    ck_assert(!world_put_if(kv, "/a", PS_KV_CREATED_AT, before, "stale", &revision));
    world_assert_value(kv, "/a", "two");
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(all_changes_of_a_transaction_have_one_revision)
{
    struct ps_kv *kv = world_open();
    (void)world_put(kv, "/gone", "x", 0);
    struct world_key a = world_key("/a");
    struct world_key b = world_key("/b");
    struct world_key gone = world_key("/gone");
    const struct ps_kv_change changes[] = {
        {PS_KV_PUT, a.text, ps_bytes_of_text("1"), {0}},
        {PS_KV_PUT, b.text, ps_bytes_of_text("2"), {0}},
        {PS_KV_DELETE, gone.text, {NULL, 0}, {0}},
    };
    const struct ps_kv_transaction transaction = {NULL, 0, changes, 3};
    bool done = false;
    int64_t revision = 0;

    ck_assert_int_eq(ps_kv_commit(kv, &transaction, world_deadline(), &done, &revision, NULL),
                     PS_OK);

    ck_assert(done);
    struct ps_kv_entries entries = world_read(kv, "/", true);
    ck_assert_uint_eq(entries.count, 2);
    ck_assert_int_eq(entries.entries[0].create_revision, revision);
    ck_assert_int_eq(entries.entries[1].create_revision, revision);
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(one_compare_that_fails_stops_every_change)
{
    struct ps_kv *kv = world_open();
    int64_t held = world_put(kv, "/held", "1", 0);
    struct world_key a = world_key("/a");
    struct world_key b = world_key("/b");
    struct world_key key = world_key("/held");
    const struct ps_kv_compare compares[] = {
        {key.text, PS_KV_CREATED_AT, held},
        {key.text, PS_KV_MODIFIED_AT, held + 1000000},
    };
    const struct ps_kv_change changes[] = {
        {PS_KV_PUT, a.text, ps_bytes_of_text("1"), {0}},
        {PS_KV_PUT, b.text, ps_bytes_of_text("2"), {0}},
        {PS_KV_DELETE, key.text, {NULL, 0}, {0}},
    };
    const struct ps_kv_transaction transaction = {compares, 2, changes, 3};
    bool done = true;
    int64_t revision = 0;

    ck_assert_int_eq(ps_kv_commit(kv, &transaction, world_deadline(), &done, &revision, NULL),
                     PS_OK);

    ck_assert(!done);
    struct ps_kv_entries entries = world_read(kv, "/", true);
    ck_assert_uint_eq(entries.count, 1);
    ps_kv_entries_release(&entries);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(deleting_an_absent_key_is_done_and_changes_nothing)
{
    struct ps_kv *kv = world_open();
    int64_t before = world_put(kv, "/a", "1", 0);
    struct world_key absent = world_key("/absent");
    const struct ps_kv_change change = {PS_KV_DELETE, absent.text, {NULL, 0}, {0}};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    bool done = false;
    int64_t revision = 0;

    ck_assert_int_eq(ps_kv_commit(kv, &transaction, world_deadline(), &done, &revision, NULL),
                     PS_OK);

    ck_assert(done);
    ck_assert_int_eq(revision, before);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(connections_see_each_others_writes_at_once)
{
    struct ps_kv *first = world_open();
    struct ps_kv *second = world_open();

    (void)world_put(first, "/a", "one", 0);
    world_assert_value(second, "/a", "one");
    world_delete(second, "/a");
    world_assert_value(first, "/a", NULL);
    ps_kv_destroy(second);
    ps_kv_destroy(first);
}
END_TEST

START_TEST(arguments_beyond_their_bounds_are_refused)
{
    struct ps_kv *kv = world_open();
    char long_key[PS_KV_KEY_BYTES_MAX + 2];
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = '\0';
    struct world_key a = world_key("/a");
    const struct ps_kv_change twice[] = {
        {PS_KV_PUT, a.text, ps_bytes_of_text("1"), {0}},
        {PS_KV_DELETE, a.text, {NULL, 0}, {0}},
    };
    const struct ps_kv_change large = {
        PS_KV_PUT, a.text, {(const uint8_t *)"", PS_KV_VALUE_BYTES_MAX + 1}, {0}};
    const struct ps_kv_transaction transactions[] = {
        {NULL, 0, twice, 2},
        {NULL, 0, &large, 1},
        {NULL, PS_KV_COMPARES_MAX + 1, NULL, 0},
        {NULL, 0, NULL, PS_KV_CHANGES_MAX + 1},
    };
    struct ps_kv_entries entries;
    struct ps_kv_lease lease;
    bool done;
    int64_t revision;
    uint64_t deadline = world_deadline();

    ck_assert_int_eq(ps_kv_read(kv, "", true, deadline, &entries, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_kv_read(kv, long_key, false, deadline, &entries, NULL), PS_ERR_BAD_INPUT);
    for (size_t i = 0; i < PS_ARRAY_COUNT(transactions); i++)
        ck_assert_int_eq(ps_kv_commit(kv, &transactions[i], deadline, &done, &revision, NULL),
                         PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_kv_lease_grant(kv, 0, deadline, &lease, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_kv_lease_grant(kv, PS_KV_TTL_MS_MAX + 1, deadline, &lease, NULL),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_kv_watch_open(kv, a.text, -1, deadline, NULL), PS_ERR_BAD_INPUT);
    ps_kv_destroy(kv);
}
END_TEST

TCase *kv_conformance_case(struct kv_world *world, SFun setup, SFun teardown)
{
    kv_world_use(world);
    TCase *tests = tcase_create("conformance");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, reading_an_absent_key_gives_nothing);
    tcase_add_test(tests, a_value_reads_back_as_written);
    tcase_add_test(tests, an_empty_value_is_a_value);
    tcase_add_test(tests, any_bytes_are_a_value);
    tcase_add_test(tests, a_large_value_reads_back_as_written);
    tcase_add_test(tests, a_prefix_gives_its_keys_in_order_and_no_others);
    tcase_add_test(tests, one_key_read_leaves_longer_ones_out);
    tcase_add_test(tests, released_entries_may_be_released_again);
    tcase_add_test(tests, an_absent_key_is_claimed_once);
    tcase_add_test(tests, the_create_revision_stays_when_a_key_is_written_again);
    tcase_add_test(tests, modified_at_zero_demands_absence);
    tcase_add_test(tests, a_key_made_anew_has_a_new_create_revision);
    tcase_add_test(tests, all_changes_of_a_transaction_have_one_revision);
    tcase_add_test(tests, one_compare_that_fails_stops_every_change);
    tcase_add_test(tests, deleting_an_absent_key_is_done_and_changes_nothing);
    tcase_add_test(tests, connections_see_each_others_writes_at_once);
    tcase_add_test(tests, arguments_beyond_their_bounds_are_refused);
    kv_conformance_add_time(tests);
    return tests;
}
