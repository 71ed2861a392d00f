/* SPDX-License-Identifier: Apache-2.0 */
/* Short words for tests of kv_etcd.c against a fake gateway.
 *
 * Threads:  one.
 * Blocking: as the store.
 * Errors:   end the test.
 * Memory:   results are released by the test.
 */
#ifndef PS_TESTS_INTEGRATION_ETCD_GATEWAY_WORDS_H
#define PS_TESTS_INTEGRATION_ETCD_GATEWAY_WORDS_H

#include "etcd/kv.h"
#include "run_suite.h"
#include "tests/support/etcd/etcd_process.h"
#include "tests/support/etcd/fake_gateway.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGE_EMPTY "{\"header\":{\"revision\":\"7\"}}\n"
#define COMMIT_DONE "{\"header\":{\"revision\":\"8\"},\"succeeded\":true}\n"
#define TOKEN "{\"header\":{},\"token\":\"secret.1\"}\n"
#define TOKEN_INVALID \
    "{\"error\":\"etcdserver: invalid auth token\",\"message\":\"...\",\"code\":16}"
#define TIMED_OUT "{\"code\":14,\"message\":\"etcdserver: request timed out\",\"details\":[]}"

/* Starts a gateway that plays the steps of an array. */
#define START(steps) fake_gateway_start(steps, PS_ARRAY_COUNT(steps), 0)

static inline uint64_t in_ms(uint64_t timeout_ms)
{
    return ps_deadline_after(ps_clock_real(), timeout_ms);
}

static inline struct ps_kv *open_as(const char *endpoints, const char *user, uint64_t request_ms)
{
    const struct ps_kv_etcd_options options = {
        .endpoints = endpoints,
        .access = {.user = user,
                   .password = user == NULL ? NULL : "pass\"word",
                   .insecure_password = true},
        .clock = ps_clock_real(),
        .memory = ps_allocator_heap(),
        .request_ms = request_ms,
    };
    struct ps_kv *kv = NULL;
    struct ps_error error = {0};
    enum ps_status status = ps_kv_etcd_open(&options, &kv, &error);
    ck_assert_msg(status == PS_OK, "open: %s", error.text);
    return kv;
}

static inline struct ps_kv *open_at(const struct fake_gateway *gateway)
{
    return open_as(fake_gateway_url(gateway), NULL, 60000);
}

static inline enum ps_status try_read(struct ps_kv *kv, uint64_t timeout_ms, struct ps_error *error)
{
    struct ps_kv_entries entries = {0};
    enum ps_status status = ps_kv_read(kv, "/a", false, in_ms(timeout_ms), &entries, error);
    ps_kv_entries_release(&entries);
    return status;
}

static inline enum ps_status try_commit(struct ps_kv *kv, uint64_t timeout_ms, bool *done,
                                        struct ps_error *error)
{
    const struct ps_kv_compare absent = {"/a", PS_KV_CREATED_AT, 0};
    const struct ps_kv_change put = {PS_KV_PUT, "/a", ps_bytes_of_text("1"), {0}};
    const struct ps_kv_transaction transaction = {&absent, 1, &put, 1};
    int64_t revision = 0;
    return ps_kv_commit(kv, &transaction, in_ms(timeout_ms), done, &revision, error);
}

/* Runs one test case as a program. */
static inline int run_case(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}

#endif
