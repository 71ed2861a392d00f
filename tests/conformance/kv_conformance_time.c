/* SPDX-License-Identifier: Apache-2.0 */
/* The behaviour that all stores share where time goes by: leases and watches. */
#include "tests/conformance/kv_world.h"

#include <string.h>

static void open_watch(struct ps_kv *kv, const char *name, int64_t revision)
{
    struct world_key key = world_key(name);
    struct ps_error error = {0};
    enum ps_status status = ps_kv_watch_open(kv, key.text, revision, world_deadline(), &error);
    ck_assert_msg(status == PS_OK, "watch: %s", error.text);
}

static bool wait_changed(struct ps_kv *kv, uint64_t timeout_ms)
{
    bool changed = false;
    struct ps_error error = {0};
    uint64_t deadline = ps_deadline_after(world_now()->clock, timeout_ms);
    enum ps_status status = ps_kv_watch_wait(kv, deadline, &changed, &error);
    ck_assert_msg(status == PS_OK, "wait: %s", error.text);
    return changed;
}

static bool present(struct ps_kv *kv, const char *name)
{
    struct ps_kv_entries entries = world_read(kv, name, false);
    bool found = entries.count == 1;
    ps_kv_entries_release(&entries);
    return found;
}

/* Lets time go by until the key is gone, at most many times the length of a lease. */
static void pass_until_gone(struct ps_kv *kv, const char *name)
{
    struct kv_world *world = world_now();
    for (int i = 0; i < 200 && present(kv, name); i++)
        world->pass(world->self, world->tick_ms);
    ck_assert(!present(kv, name));
}

START_TEST(a_key_goes_with_its_lease)
{
    struct ps_kv *kv = world_open();
    struct ps_kv_lease lease = world_grant_short(kv);
    (void)world_put(kv, "/leased", "1", lease.id);
    (void)world_put(kv, "/free", "1", 0);
    struct ps_kv_entries entries = world_read(kv, "/leased", false);
    ck_assert_int_eq(entries.entries[0].lease.id, lease.id);
    ps_kv_entries_release(&entries);

    pass_until_gone(kv, "/leased");

    ck_assert(present(kv, "/free"));
    ck_assert_int_eq(ps_kv_lease_keep(kv, lease, world_deadline(), NULL), PS_ERR_LEASE_LOST);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_lease_that_is_kept_outlives_its_length)
{
    struct ps_kv *kv = world_open();
    struct kv_world *world = world_now();
    struct ps_kv_lease lease = {0};
    uint64_t ttl_ms = world->ttl_ms * 2;
    ck_assert_int_eq(ps_kv_lease_grant(kv, ttl_ms, world_deadline(), &lease, NULL), PS_OK);
    (void)world_put(kv, "/leased", "1", lease.id);

    uint64_t enough = ps_deadline_after(world->clock, ttl_ms + ttl_ms / 3);
    while (ps_time_left_ms(world->clock, enough) > 0) {
        world->pass(world->self, world->tick_ms);
        ck_assert_int_eq(ps_kv_lease_keep(kv, lease, world_deadline(), NULL), PS_OK);
    }

    ck_assert(present(kv, "/leased"));
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_revoked_lease_takes_its_keys_at_once)
{
    struct ps_kv *kv = world_open();
    struct ps_kv_lease lease = world_grant(kv);
    (void)world_put(kv, "/one", "1", lease.id);
    (void)world_put(kv, "/two", "2", lease.id);

    ck_assert_int_eq(ps_kv_lease_revoke(kv, lease, world_deadline(), NULL), PS_OK);

    ck_assert(!present(kv, "/one"));
    ck_assert(!present(kv, "/two"));
    ck_assert_int_eq(ps_kv_lease_keep(kv, lease, world_deadline(), NULL), PS_ERR_LEASE_LOST);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(revoking_a_lease_that_is_gone_is_fine)
{
    struct ps_kv *kv = world_open();
    struct ps_kv_lease lease = world_grant(kv);
    ck_assert_int_eq(ps_kv_lease_revoke(kv, lease, world_deadline(), NULL), PS_OK);

    ck_assert_int_eq(ps_kv_lease_revoke(kv, lease, world_deadline(), NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_revoke(kv, (struct ps_kv_lease){0}, world_deadline(), NULL),
                     PS_OK);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_put_with_a_dead_lease_writes_nothing)
{
    struct ps_kv *kv = world_open();
    struct ps_kv_lease lease = world_grant(kv);
    ck_assert_int_eq(ps_kv_lease_revoke(kv, lease, world_deadline(), NULL), PS_OK);
    struct world_key free_key = world_key("/free");
    struct world_key leased_key = world_key("/leased");
    const struct ps_kv_change changes[] = {
        {PS_KV_PUT, free_key.text, ps_bytes_of_text("1"), {0}},
        {PS_KV_PUT, leased_key.text, ps_bytes_of_text("1"), lease},
    };
    const struct ps_kv_transaction transaction = {NULL, 0, changes, 2};
    bool done = false;
    int64_t revision = 0;

    ck_assert_int_eq(ps_kv_commit(kv, &transaction, world_deadline(), &done, &revision, NULL),
                     PS_ERR_LEASE_LOST);

    ck_assert(!done);
    ck_assert(!present(kv, "/free"));
    ck_assert(!present(kv, "/leased"));
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_key_put_again_without_lease_stays)
{
    struct ps_kv *kv = world_open();
    struct ps_kv_lease lease = world_grant(kv);
    (void)world_put(kv, "/a", "leased", lease.id);
    (void)world_put(kv, "/a", "free", 0);

    ck_assert_int_eq(ps_kv_lease_revoke(kv, lease, world_deadline(), NULL), PS_OK);

    world_assert_value(kv, "/a", "free");
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(lease_zero_cannot_be_kept)
{
    struct ps_kv *kv = world_open();

    ck_assert_int_eq(ps_kv_lease_keep(kv, (struct ps_kv_lease){0}, world_deadline(), NULL),
                     PS_ERR_LEASE_LOST);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(leases_live_side_by_side)
{
    struct ps_kv *first = world_open();
    struct ps_kv *second = world_open();
    struct ps_kv_lease one = world_grant(first);
    struct ps_kv_lease two = world_grant(second);
    ck_assert_int_ne(one.id, two.id);
    (void)world_put(first, "/one", "1", one.id);
    (void)world_put(second, "/two", "2", two.id);

    ck_assert_int_eq(ps_kv_lease_revoke(second, one, world_deadline(), NULL), PS_OK);

    ck_assert(!present(first, "/one"));
    ck_assert(present(first, "/two"));
    ps_kv_destroy(second);
    ps_kv_destroy(first);
}
END_TEST

START_TEST(a_watch_sees_what_another_connection_puts)
{
    struct ps_kv *watcher = world_open();
    struct ps_kv *writer = world_open();
    open_watch(watcher, "/w/", 0);

    (void)world_put(writer, "/w/1", "1", 0);

    ck_assert(wait_changed(watcher, 120000));
    ps_kv_destroy(writer);
    ps_kv_destroy(watcher);
}
END_TEST

START_TEST(a_watch_sees_a_deletion)
{
    struct ps_kv *kv = world_open();
    (void)world_put(kv, "/w/1", "1", 0);
    open_watch(kv, "/w/", 0);

    world_delete(kv, "/w/1");

    ck_assert(wait_changed(kv, 120000));
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_watch_sees_a_lease_end)
{
    struct ps_kv *watcher = world_open();
    struct ps_kv *owner = world_open();
    struct ps_kv_lease lease = world_grant_short(owner);
    int64_t revision = world_put(owner, "/w/1", "1", lease.id);
    open_watch(watcher, "/w/", revision + 1);
    pass_until_gone(owner, "/w/1");

    ck_assert(wait_changed(watcher, 120000));
    ps_kv_destroy(owner);
    ps_kv_destroy(watcher);
}
END_TEST

START_TEST(a_watch_from_an_old_revision_sees_what_came_since)
{
    struct ps_kv *kv = world_open();
    int64_t first = world_put(kv, "/w/1", "1", 0);
    (void)world_put(kv, "/w/2", "2", 0);

    open_watch(kv, "/w/", first + 1);

    ck_assert(wait_changed(kv, 120000));
    ck_assert(!wait_changed(kv, 50));
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_watch_from_the_next_revision_waits)
{
    struct ps_kv *kv = world_open();
    int64_t revision = world_put(kv, "/w/1", "1", 0);
    open_watch(kv, "/w/", revision + 1);

    ck_assert(!wait_changed(kv, 50));
    (void)world_put(kv, "/w/1", "2", 0);
    ck_assert(wait_changed(kv, 120000));
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_watch_ignores_other_prefixes)
{
    struct ps_kv *kv = world_open();
    open_watch(kv, "/w/", 0);

    (void)world_put(kv, "/v/1", "1", 0);
    (void)world_put(kv, "/w", "1", 0);

    ck_assert(!wait_changed(kv, 50));
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(opening_a_watch_closes_the_one_before)
{
    struct ps_kv *kv = world_open();
    open_watch(kv, "/w/", 0);
    open_watch(kv, "/v/", 0);

    (void)world_put(kv, "/w/1", "1", 0);
    ck_assert(!wait_changed(kv, 50));
    (void)world_put(kv, "/v/1", "1", 0);
    ck_assert(wait_changed(kv, 120000));
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(an_interrupted_wait_returns_without_a_change)
{
    struct ps_kv *kv = world_open();
    open_watch(kv, "/w/", 0);
    ps_kv_interrupt(kv);

    ck_assert(!wait_changed(kv, 120000));

    (void)world_put(kv, "/w/1", "1", 0);
    ck_assert(wait_changed(kv, 120000));
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(waiting_without_a_watch_is_refused)
{
    struct ps_kv *kv = world_open();
    bool changed = false;

    ck_assert_int_eq(ps_kv_watch_wait(kv, world_deadline(), &changed, NULL), PS_ERR_UNAVAILABLE);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(other_calls_work_while_a_watch_is_open)
{
    struct ps_kv *kv = world_open();
    open_watch(kv, "/w/", 0);

    for (int i = 0; i < 20; i++)
        (void)world_put(kv, "/w/1", "1", 0);
    world_assert_value(kv, "/w/1", "1");

    ck_assert(wait_changed(kv, 120000));
    ps_kv_destroy(kv);
}
END_TEST

void kv_conformance_add_time(TCase *tests)
{
    tcase_add_test(tests, a_key_goes_with_its_lease);
    tcase_add_test(tests, a_lease_that_is_kept_outlives_its_length);
    tcase_add_test(tests, a_revoked_lease_takes_its_keys_at_once);
    tcase_add_test(tests, revoking_a_lease_that_is_gone_is_fine);
    tcase_add_test(tests, a_put_with_a_dead_lease_writes_nothing);
    tcase_add_test(tests, a_key_put_again_without_lease_stays);
    tcase_add_test(tests, lease_zero_cannot_be_kept);
    tcase_add_test(tests, leases_live_side_by_side);
    tcase_add_test(tests, a_watch_sees_what_another_connection_puts);
    tcase_add_test(tests, a_watch_sees_a_deletion);
    tcase_add_test(tests, a_watch_sees_a_lease_end);
    tcase_add_test(tests, a_watch_from_an_old_revision_sees_what_came_since);
    tcase_add_test(tests, a_watch_from_the_next_revision_waits);
    tcase_add_test(tests, a_watch_ignores_other_prefixes);
    tcase_add_test(tests, opening_a_watch_closes_the_one_before);
    tcase_add_test(tests, an_interrupted_wait_returns_without_a_change);
    tcase_add_test(tests, waiting_without_a_watch_is_refused);
    tcase_add_test(tests, other_calls_work_while_a_watch_is_open);
}
