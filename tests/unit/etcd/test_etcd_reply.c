/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/etcd_reply.c: replies as etcd writes them, and replies that nobody should write. */
#include "etcd/etcd_reply.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define TWO_KEYS                                                                                  \
    "{\"header\":{\"cluster_id\":\"14841639068965178418\",\"revision\":\"9223372036854775807\"}," \
    "\"kvs\":[{\"key\":\"L2E=\",\"create_revision\":\"9007199254740993\","                        \
    "\"mod_revision\":\"9007199254740995\",\"version\":\"1\",\"value\":\"MQ==\","                 \
    "\"lease\":\"7587862094201235\"},{\"key\":\"L2I=\",\"create_revision\":\"4\","                \
    "\"mod_revision\":\"5\"}],\"count\":\"2\"}\n"

static struct ps_bytes text_of(const char *text)
{
    return ps_bytes_of_text(text);
}

START_TEST(keys_come_with_revisions_beyond_what_a_double_holds)
{
    struct ps_kv_entries entries = {0};

    ck_assert_int_eq(ps_etcd_reply_range(text_of(TWO_KEYS), ps_allocator_heap(), &entries, NULL),
                     PS_OK);

    ck_assert_uint_eq(entries.count, 2);
    ck_assert_int_eq(entries.revision, INT64_MAX);
    ck_assert_str_eq(entries.entries[0].key, "/a");
    ck_assert_str_eq((const char *)entries.entries[0].value, "1");
    ck_assert_int_eq(entries.entries[0].create_revision, 9007199254740993);
    ck_assert_int_eq(entries.entries[0].modify_revision, 9007199254740995);
    ck_assert_int_eq(entries.entries[0].lease.id, 7587862094201235);
    ck_assert_uint_eq(entries.entries[1].value_size, 0);
    ck_assert_int_eq(entries.entries[1].lease.id, 0);
    ps_kv_entries_release(&entries);
}
END_TEST

START_TEST(nothing_found_is_no_key)
{
    struct ps_kv_entries entries = {0};

    ck_assert_int_eq(ps_etcd_reply_range(text_of("{\"header\":{\"revision\":\"1\"}}"),
                                         ps_allocator_heap(), &entries, NULL),
                     PS_OK);
    ck_assert_uint_eq(entries.count, 0);
    ps_kv_entries_release(&entries);
}
END_TEST

static const char *const no_ranges[] = {
    "",
    "null",
    "[]",
    "{}",
    "{\"header\":7}",
    "{\"header\":{\"revision\":true}}",
    "{\"header\":{\"revision\":\"9223372036854775808\"}}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":7}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":[7]}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":[{}]}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"key\":\"L2E=\",\"mod_revision\":\"1\"}]}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"key\":\"L2E\",\"create_revision\":\"1\","
    "\"mod_revision\":\"1\"}]}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"key\":7,\"create_revision\":\"1\","
    "\"mod_revision\":\"1\"}]}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"key\":\"\",\"create_revision\":\"1\","
    "\"mod_revision\":\"1\"}]}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"key\":\"LwA=\",\"create_revision\":\"1\","
    "\"mod_revision\":\"1\"}]}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"key\":\"L2E=\",\"value\":[],"
    "\"create_revision\":\"1\",\"mod_revision\":\"1\"}]}",
    "{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"key\":\"L2E=\",\"lease\":\"x\","
    "\"create_revision\":\"1\",\"mod_revision\":\"1\"}]}",
    "{\"header\":{\"revision\":\"1\"}} {}",
};

START_TEST(a_range_that_is_none_is_refused)
{
    struct ps_kv_entries entries = {0};

    ck_assert_int_eq(
        ps_etcd_reply_range(text_of(no_ranges[_i]), ps_allocator_heap(), &entries, NULL),
        PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(entries.count, 0);
}
END_TEST

START_TEST(every_length_of_a_cut_range_is_refused)
{
    for (size_t size = 0; size < sizeof TWO_KEYS - 2; size++) {
        struct ps_kv_entries entries = {0};
        struct ps_bytes cut = {(const uint8_t *)TWO_KEYS, size};
        ck_assert_int_eq(ps_etcd_reply_range(cut, ps_allocator_heap(), &entries, NULL),
                         PS_ERR_BAD_INPUT);
    }
}
END_TEST

START_TEST(any_refused_allocation_of_a_range_is_survived)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_kv_entries entries = {0};

    enum ps_status status = ps_etcd_reply_range(text_of(TWO_KEYS), &memory, &entries, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_kv_entries_release(&entries);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(a_transaction_that_did_not_hold_has_no_succeeded)
{
    bool done = true;
    int64_t revision = 0;

    ck_assert_int_eq(ps_etcd_reply_transaction(text_of("{\"header\":{\"revision\":\"5\"}}"), &done,
                                               &revision, NULL),
                     PS_OK);
    ck_assert(!done);
    ck_assert_int_eq(revision, 5);
    ck_assert_int_eq(
        ps_etcd_reply_transaction(text_of("{\"header\":{\"revision\":\"6\"},\"succeeded\":true,"
                                          "\"responses\":[{\"response_put\":{}}]}\n"),
                                  &done, &revision, NULL),
        PS_OK);
    ck_assert(done);
    ck_assert_int_eq(revision, 6);
}
END_TEST

START_TEST(a_transaction_that_is_none_is_refused)
{
    const char *texts[] = {"", "{}", "{\"succeeded\":true}",
                           "{\"header\":{\"revision\":\"5\"},\"succeeded\":1}"};
    bool done = true;
    int64_t revision = 77;

    for (size_t i = 0; i < PS_ARRAY_COUNT(texts); i++)
        ck_assert_int_eq(ps_etcd_reply_transaction(text_of(texts[i]), &done, &revision, NULL),
                         PS_ERR_BAD_INPUT);
    ck_assert(done);
    ck_assert_int_eq(revision, 77);
}
END_TEST

START_TEST(a_keepalive_tells_of_life_and_death)
{
    const struct {
        const char *text;
        enum ps_status expected;
    } replies[] = {
        {"{\"result\":{\"header\":{},\"ID\":\"7587\",\"TTL\":\"10\"}}\n", PS_OK},
        {"{\"result\":{\"header\":{},\"ID\":\"7587\"}}\n", PS_ERR_LEASE_LOST},
        {"{\"result\":{\"ID\":\"7587\",\"TTL\":\"0\"}}", PS_ERR_LEASE_LOST},
        {"{\"result\":{\"ID\":\"7587\",\"TTL\":\"-1\"}}", PS_ERR_LEASE_LOST},
        {"{\"result\":{}}", PS_ERR_BAD_INPUT},
        {"{}", PS_ERR_BAD_INPUT},
        {"", PS_ERR_BAD_INPUT},
    };

    for (size_t i = 0; i < PS_ARRAY_COUNT(replies); i++)
        ck_assert_int_eq(ps_etcd_reply_keep(text_of(replies[i].text), NULL), replies[i].expected);
}
END_TEST

START_TEST(a_token_is_copied)
{
    char *token = NULL;

    ck_assert_int_eq(ps_etcd_reply_token(text_of("{\"header\":{},\"token\":\"abc.12\"}"),
                                         ps_allocator_heap(), &token, NULL),
                     PS_OK);
    ck_assert_str_eq(token, "abc.12");
    ps_release(ps_allocator_heap(), token);
}
END_TEST

START_TEST(a_token_that_would_add_a_header_is_refused)
{
    const char *texts[] = {"{\"token\":\"a\\r\\nX: y\"}", "{\"token\":\"\"}", "{\"token\":7}", "{}",
                           ""};
    char *token = NULL;

    for (size_t i = 0; i < PS_ARRAY_COUNT(texts); i++)
        ck_assert_int_eq(ps_etcd_reply_token(text_of(texts[i]), ps_allocator_heap(), &token, NULL),
                         PS_ERR_BAD_INPUT);
    ck_assert_ptr_null(token);
}
END_TEST

START_TEST(lines_of_a_watch_are_told_apart)
{
    struct ps_etcd_watch_line line;

    ck_assert_int_eq(ps_etcd_reply_watch(text_of("{\"result\":{\"created\":true}}"), &line, NULL),
                     PS_OK);
    ck_assert(line.created && !line.changed && !line.cancelled);
    ck_assert_int_eq(ps_etcd_reply_watch(text_of("{\"result\":{\"events\":[{}]}}"), &line, NULL),
                     PS_OK);
    ck_assert(line.changed);
    ck_assert_int_eq(ps_etcd_reply_watch(text_of("{\"result\":{\"header\":{}}}"), &line, NULL),
                     PS_OK);
    ck_assert(!line.changed && !line.created && !line.cancelled);
    ck_assert_int_eq(ps_etcd_reply_watch(text_of("{\"result\":{\"canceled\":true,"
                                                 "\"compact_revision\":\"5\"}}"),
                                         &line, NULL),
                     PS_OK);
    ck_assert(line.cancelled);
    ck_assert_int_eq(line.compact_revision, 5);
    ck_assert_int_eq(
        ps_etcd_reply_watch(text_of("{\"error\":{\"grpc_code\":14,\"message\":\"no leader\"}}"),
                            &line, NULL),
        PS_OK);
    ck_assert_int_eq(line.error.meaning, PS_ETCD_UNKNOWN);
    ck_assert_int_eq(ps_etcd_reply_watch(text_of("{\"result\":7}"), &line, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_etcd_reply_watch(text_of("{}"), &line, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_etcd_reply_watch(text_of("x"), &line, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("etcd_reply");
    TCase *tests = tcase_create("etcd_reply");
    tcase_add_test(tests, keys_come_with_revisions_beyond_what_a_double_holds);
    tcase_add_test(tests, nothing_found_is_no_key);
    tcase_add_loop_test(tests, a_range_that_is_none_is_refused, 0, (int)PS_ARRAY_COUNT(no_ranges));
    tcase_add_test(tests, every_length_of_a_cut_range_is_refused);
    tcase_add_loop_test(tests, any_refused_allocation_of_a_range_is_survived, 0, 16);
    tcase_add_test(tests, a_transaction_that_did_not_hold_has_no_succeeded);
    tcase_add_test(tests, a_transaction_that_is_none_is_refused);
    tcase_add_test(tests, a_keepalive_tells_of_life_and_death);
    tcase_add_test(tests, a_token_is_copied);
    tcase_add_test(tests, a_token_that_would_add_a_header_is_refused);
    tcase_add_test(tests, lines_of_a_watch_are_told_apart);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
