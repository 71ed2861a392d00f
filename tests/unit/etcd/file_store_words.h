/* SPDX-License-Identifier: Apache-2.0 */
/* Short words for the tests of kv_file.c.
 *
 * Threads:  one.
 * Blocking: as the store.
 * Errors:   end the test where it says so.
 * Memory:   results are released by the test.
 */
#ifndef PS_TESTS_UNIT_ETCD_FILE_STORE_WORDS_H
#define PS_TESTS_UNIT_ETCD_FILE_STORE_WORDS_H

#include "etcd/kv.h"

#include <check.h>
#include <stdlib.h>

static inline enum ps_status try_put(struct ps_kv *kv, const char *key, const char *value,
                                     struct ps_kv_lease lease, struct ps_error *error)
{
    const struct ps_kv_change change = {PS_KV_PUT, key, ps_bytes_of_text(value), lease};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    bool done = false;
    int64_t revision = 0;
    return ps_kv_commit(kv, &transaction, PS_DEADLINE_NEVER, &done, &revision, error);
}

static inline void put(struct ps_kv *kv, const char *key, const char *value)
{
    struct ps_error error = {0};
    enum ps_status status = try_put(kv, key, value, (struct ps_kv_lease){0}, &error);
    ck_assert_msg(status == PS_OK, "put %s: %s", key, error.text);
}

/* The value as a number; -1 when absent. */
static inline int read_number(struct ps_kv *kv, const char *key)
{
    struct ps_kv_entries entries = {0};
    struct ps_error error = {0};
    enum ps_status status = ps_kv_read(kv, key, false, PS_DEADLINE_NEVER, &entries, &error);
    ck_assert_msg(status == PS_OK, "read %s: %s", key, error.text);
    int number = entries.count == 0 ? -1 : atoi((const char *)entries.entries[0].value);
    ps_kv_entries_release(&entries);
    return number;
}

#endif
