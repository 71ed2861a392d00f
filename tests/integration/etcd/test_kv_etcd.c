/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/kv_etcd.c with a real etcd that dies, hangs, is compacted, full, or wants a password. */
#include "gateway_words.h"

static struct etcd_process process;

static void setup(void)
{
    etcd_process_start(&process, NULL);
}

static void teardown(void)
{
    etcd_process_fini(&process);
}

static void put(struct ps_kv *kv, const char *key, const char *value, int64_t *revision)
{
    const struct ps_kv_change change = {PS_KV_PUT, key, ps_bytes_of_text(value), {0}};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    bool done = false;
    struct ps_error error = {0};
    enum ps_status status = ps_kv_commit(kv, &transaction, in_ms(120000), &done, revision, &error);
    ck_assert_msg(status == PS_OK, "put: %s", error.text);
}

static size_t count(struct ps_kv *kv, const char *key)
{
    struct ps_kv_entries entries = {0};
    struct ps_error error = {0};
    enum ps_status status = ps_kv_read(kv, key, false, in_ms(120000), &entries, &error);
    ck_assert_msg(status == PS_OK, "read: %s", error.text);
    size_t found = entries.count;
    ps_kv_entries_release(&entries);
    return found;
}

static void control(const char *first, const char *second, const char *third, const char *fourth)
{
    const char *arguments[] = {first, second, third, fourth, NULL};
    ck_assert_int_eq(etcd_process_ctl(&process, arguments), 0);
}

START_TEST(an_etcd_killed_and_started_again_is_used_as_before)
{
    struct ps_kv *kv = open_as(process.url, NULL, 60000);
    int64_t revision = 0;
    bool done = false;
    put(kv, "/kept", "1", &revision);
    etcd_process_kill(&process);

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(try_read(kv, 120000, NULL), PS_ERR_UNAVAILABLE);
    etcd_process_restart(&process);

    ck_assert_uint_eq(count(kv, "/kept"), 1);
    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_OK);
    ck_assert(done);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_watch_breaks_when_etcd_dies_and_misses_nothing_when_opened_again)
{
    struct ps_kv *kv = open_as(process.url, NULL, 60000);
    int64_t revision = 0;
    bool changed = false;
    put(kv, "/w/1", "1", &revision);
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", revision + 1, in_ms(120000), NULL), PS_OK);
    etcd_process_kill(&process);
    ck_assert_int_eq(ps_kv_watch_wait(kv, in_ms(120000), &changed, NULL), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", revision + 1, in_ms(120000), NULL),
                     PS_ERR_UNAVAILABLE);
    etcd_process_restart(&process);
    put(kv, "/w/1", "2", &(int64_t){0});

    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", revision + 1, in_ms(120000), NULL), PS_OK);

    ck_assert_int_eq(ps_kv_watch_wait(kv, in_ms(120000), &changed, NULL), PS_OK);
    ck_assert(changed);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_frozen_etcd_leaves_a_commit_unknown_and_reading_back_tells)
{
    struct ps_kv *kv = open_as(process.url, NULL, 4000);
    bool done = false;
    ck_assert_uint_eq(count(kv, "/a"), 0);
    etcd_process_freeze(&process);

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_ERR_TIMEOUT);
    ck_assert_int_eq(try_read(kv, 500, NULL), PS_ERR_TIMEOUT);
    etcd_process_thaw(&process);

    /* The frozen etcd had taken the request and carries it out now, or has seen it closed. */
    size_t found = count(kv, "/a");
    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_OK);
    ck_assert(found == 0 || !done);
    ck_assert_uint_eq(count(kv, "/a"), 1);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_frozen_etcd_breaks_the_watch)
{
    struct ps_kv *kv = open_as(process.url, NULL, 4000);
    bool changed = false;
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", 0, in_ms(120000), NULL), PS_OK);
    etcd_process_freeze(&process);

    ck_assert_int_eq(ps_kv_watch_wait(kv, PS_DEADLINE_NEVER, &changed, NULL), PS_ERR_UNAVAILABLE);

    etcd_process_thaw(&process);
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", 0, in_ms(120000), NULL), PS_OK);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_compacted_revision_is_a_conflict)
{
    struct ps_kv *kv = open_as(process.url, NULL, 60000);
    int64_t first = 0;
    int64_t last = 0;
    bool changed = false;
    char text[24];
    put(kv, "/w/1", "1", &first);
    put(kv, "/w/1", "2", &last);
    (void)snprintf(text, sizeof text, "%lld", (long long)last);
    control("compact", text, NULL, NULL);

    enum ps_status status = ps_kv_watch_open(kv, "/w/", first, in_ms(120000), NULL);
    if (status == PS_OK)
        status = ps_kv_watch_wait(kv, in_ms(120000), &changed, NULL);

    ck_assert_int_eq(status, PS_ERR_CONFLICT);
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", last + 1, in_ms(120000), NULL), PS_OK);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(an_open_watch_outlives_a_compaction)
{
    struct ps_kv *kv = open_as(process.url, NULL, 60000);
    int64_t revision = 0;
    bool changed = false;
    char text[24];
    put(kv, "/w/1", "1", &revision);
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", revision + 1, in_ms(120000), NULL), PS_OK);
    put(kv, "/w/1", "2", &revision);
    ck_assert_int_eq(ps_kv_watch_wait(kv, in_ms(120000), &changed, NULL), PS_OK);
    (void)snprintf(text, sizeof text, "%lld", (long long)revision);
    control("compact", text, NULL, NULL);

    put(kv, "/w/1", "3", &revision);

    ck_assert_int_eq(ps_kv_watch_wait(kv, in_ms(120000), &changed, NULL), PS_OK);
    ck_assert(changed);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_dead_first_endpoint_does_not_matter)
{
    char endpoints[160];
    (void)snprintf(endpoints, sizeof endpoints, "http://127.0.0.1:%u,%s", free_port(), process.url);
    struct ps_kv *kv = open_as(endpoints, NULL, 60000);
    bool done = false;
    struct ps_kv_lease lease = {0};

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_grant(kv, 10000, in_ms(120000), &lease, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", 0, in_ms(120000), NULL), PS_OK);
    ps_kv_destroy(kv);
}
END_TEST

static void enable_authentication(void)
{
    control("user", "add", "root:rootword", NULL);
    control("user", "grant-role", "root", "root");
    control("user", "add", "user:pass\"word", NULL);
    control("role", "add", "job", NULL);
    const char *permission[] = {
        "role", "grant-permission", "--prefix=true", "job", "readwrite", "/", NULL};
    ck_assert_int_eq(etcd_process_ctl(&process, permission), 0);
    control("user", "grant-role", "user", "job");
    control("auth", "enable", NULL, NULL);
}

START_TEST(with_authentication_user_and_password_open_everything)
{
    enable_authentication();
    struct ps_kv *kv = open_as(process.url, "user", 60000);
    struct ps_kv_lease lease = {0};
    int64_t revision = 0;
    bool changed = false;

    put(kv, "/w/1", "1", &revision);
    ck_assert_int_eq(ps_kv_lease_grant(kv, 10000, in_ms(120000), &lease, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_keep(kv, lease, in_ms(120000), NULL), PS_OK);
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", revision, in_ms(120000), NULL), PS_OK);
    ck_assert_int_eq(ps_kv_watch_wait(kv, in_ms(120000), &changed, NULL), PS_OK);
    ck_assert(changed);
    ck_assert_int_eq(ps_kv_lease_revoke(kv, lease, in_ms(120000), NULL), PS_OK);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(with_authentication_others_are_denied)
{
    enable_authentication();
    struct ps_kv *nobody = open_as(process.url, NULL, 60000);
    struct ps_kv *stranger = open_as(process.url, "stranger", 60000);
    bool done = false;

    ck_assert_int_eq(try_commit(nobody, 120000, &done, NULL), PS_ERR_DENIED);
    ck_assert_int_eq(try_read(nobody, 120000, NULL), PS_ERR_DENIED);
    ck_assert_int_eq(try_commit(stranger, 120000, &done, NULL), PS_ERR_DENIED);
    ck_assert_int_ne(ps_kv_watch_open(nobody, "/w/", 0, in_ms(120000), NULL), PS_OK);
    ck_assert_int_eq(ps_kv_watch_open(stranger, "/w/", 0, in_ms(120000), NULL), PS_ERR_DENIED);
    ps_kv_destroy(stranger);
    ps_kv_destroy(nobody);
}
END_TEST

/* etcd keeps its tokens in memory: after a start of its own they are as good as expired. */
START_TEST(a_token_that_is_no_longer_valid_is_replaced)
{
    enable_authentication();
    struct ps_kv *kv = open_as(process.url, "user", 60000);
    bool done = false;
    ck_assert_uint_eq(count(kv, "/a"), 0);
    etcd_process_restart(&process);

    ck_assert_int_eq(try_commit(kv, 120000, &done, NULL), PS_OK);
    ck_assert(done);
    etcd_process_restart(&process);
    ck_assert_int_eq(ps_kv_watch_open(kv, "/w/", 0, in_ms(120000), NULL), PS_OK);
    ps_kv_destroy(kv);
}
END_TEST

START_TEST(a_full_etcd_is_busy_and_reads_still_work)
{
    const char *const quota[] = {"--quota-backend-bytes", "1048576", NULL};
    struct etcd_process small;
    etcd_process_start(&small, quota);
    struct ps_kv *kv = open_as(small.url, NULL, 60000);
    size_t size = 200 * 1000;
    uint8_t *bytes = ps_zeroed(ps_allocator_heap(), size);
    const struct ps_kv_change change = {PS_KV_PUT, "/large", {bytes, size}, {0}};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    bool done = false;
    int64_t revision = 0;

    enum ps_status status = PS_OK;
    for (int i = 0; i < 40 && status == PS_OK; i++)
        status = ps_kv_commit(kv, &transaction, in_ms(120000), &done, &revision, NULL);

    ck_assert_int_eq(status, PS_ERR_BUSY);
    ck_assert_uint_eq(count(kv, "/large"), 1);
    ps_release(ps_allocator_heap(), bytes);
    ps_kv_destroy(kv);
    etcd_process_fini(&small);
}
END_TEST

int main(void)
{
    if (!etcd_process_available()) {
        (void)printf("skipped: no etcd to test with\n");
        return 77;
    }
    TCase *tests = tcase_create("kv_etcd");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_etcd_killed_and_started_again_is_used_as_before);
    tcase_add_test(tests, a_watch_breaks_when_etcd_dies_and_misses_nothing_when_opened_again);
    tcase_add_test(tests, a_frozen_etcd_leaves_a_commit_unknown_and_reading_back_tells);
    tcase_add_test(tests, a_frozen_etcd_breaks_the_watch);
    tcase_add_test(tests, a_compacted_revision_is_a_conflict);
    tcase_add_test(tests, an_open_watch_outlives_a_compaction);
    tcase_add_test(tests, a_dead_first_endpoint_does_not_matter);
    tcase_add_test(tests, with_authentication_user_and_password_open_everything);
    tcase_add_test(tests, with_authentication_others_are_denied);
    tcase_add_test(tests, a_token_that_is_no_longer_valid_is_replaced);
    tcase_add_test(tests, a_full_etcd_is_busy_and_reads_still_work);
    return run_case("kv_etcd", tests);
}
