/* SPDX-License-Identifier: Apache-2.0 */
/* A store in memory with two connections and a registry on each.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   end the test.
 * Memory:   made by the set-up, released by the tear-down.
 */
#ifndef PS_TESTS_SUPPORT_ETCD_REGISTRY_FIXTURE_H
#define PS_TESTS_SUPPORT_ETCD_REGISTRY_FIXTURE_H

#include "etcd/registry.h"
#include "tests/support/etcd/lossy_kv.h"
#include "tests/support/fake_clock.h"

#include <check.h>

#define ANY_INDEX UINT32_MAX
#define TTL_MS 10000

static struct fake_clock fake;
static struct ps_clock fake_time;
static struct ps_kv_hub *hub;
static struct ps_kv *kv;
static struct ps_registry registry;
static struct lossy_kv lossy;
static struct ps_registry lossy_registry; /* the same job, through `lossy` */

static inline void setup(void)
{
    fake = (struct fake_clock){.now_ms = 1000};
    fake_time = fake_clock_clock(&fake);
    ck_assert_int_eq(ps_kv_hub_create(&fake_time, ps_allocator_heap(), &hub), PS_OK);
    ck_assert_int_eq(ps_kv_memory_open(hub, &kv), PS_OK);
    ck_assert_int_eq(ps_registry_init(&registry, kv, "", NULL), PS_OK);
    lossy_kv_init(&lossy, kv, LOSSY_NEVER, 0);
    ck_assert_int_eq(ps_registry_init(&lossy_registry, &lossy.base, "", NULL), PS_OK);
}

static inline void teardown(void)
{
    ps_kv_destroy(kv);
    ps_kv_hub_destroy(hub);
}

static inline uint64_t soon(void)
{
    return fake.now_ms + 5000;
}

static inline struct ps_kv_lease grant(void)
{
    struct ps_kv_lease lease;
    ck_assert_int_eq(ps_kv_lease_grant(kv, TTL_MS, soon(), &lease, NULL), PS_OK);
    return lease;
}

static inline struct ps_claim claim_any(uint32_t shard_count)
{
    struct ps_claim claim;
    ck_assert_int_eq(
        ps_registry_claim(&registry, shard_count, ANY_INDEX, grant(), soon(), &claim, NULL), PS_OK);
    return claim;
}

static inline void put(const char *key, const char *value)
{
    const struct ps_kv_change change = {PS_KV_PUT, key, ps_bytes_of_text(value), {0}};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    bool done;
    int64_t revision;
    ck_assert_int_eq(ps_kv_commit(kv, &transaction, soon(), &done, &revision, NULL), PS_OK);
}

/* NULL: absent. */
static inline void assert_key(const char *key, const char *value)
{
    struct ps_kv_entries entries;
    ck_assert_int_eq(ps_kv_read(kv, key, false, soon(), &entries, NULL), PS_OK);
    ck_assert_uint_eq(entries.count, value == NULL ? 0 : 1);
    if (value != NULL)
        ck_assert_str_eq((const char *)entries.entries[0].value, value);
    ps_kv_entries_release(&entries);
}

static inline size_t count_keys(const char *prefix)
{
    struct ps_kv_entries entries;
    ck_assert_int_eq(ps_kv_read(kv, prefix, true, soon(), &entries, NULL), PS_OK);
    size_t count = entries.count;
    ps_kv_entries_release(&entries);
    return count;
}

#endif
