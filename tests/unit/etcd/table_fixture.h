/* SPDX-License-Identifier: Apache-2.0 */
/* An empty table for each test.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   end the test.
 * Memory:   made by the set-up, released by the tear-down.
 */
#ifndef PS_TESTS_UNIT_ETCD_TABLE_FIXTURE_H
#define PS_TESTS_UNIT_ETCD_TABLE_FIXTURE_H

#include "etcd/kv_table.h"

#include <check.h>

static struct ps_kv_table table;

static void setup(void)
{
    ps_kv_table_init(&table, ps_allocator_heap());
}

static void teardown(void)
{
    ps_kv_table_check(&table);
    ps_kv_table_fini(&table);
}

static inline int64_t put(struct ps_kv_table *into, const char *key, struct ps_kv_lease lease)
{
    const struct ps_kv_change change = {PS_KV_PUT, key, ps_bytes_of_text("value"), lease};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    bool done = false;
    int64_t revision = 0;
    ck_assert_int_eq(ps_kv_table_commit(into, &transaction, &done, &revision, NULL), PS_OK);
    ck_assert(done);
    return revision;
}

#endif
