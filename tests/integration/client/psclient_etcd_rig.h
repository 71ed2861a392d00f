/* SPDX-License-Identifier: Apache-2.0 */
/* A real etcd, a registry on it, and a client that finds its servers there. The servers are fakes;
 * their keys are written by the test.
 *
 * Threads:  one; the client's own.
 * Blocking: until etcd answers.
 * Errors:   end the test.
 * Memory:   made by start and open_client, released by finish and psclient_close.
 */
#ifndef PS_TESTS_INTEGRATION_CLIENT_PSCLIENT_ETCD_RIG_H
#define PS_TESTS_INTEGRATION_CLIENT_PSCLIENT_ETCD_RIG_H

#include "base/alloc.h"
#include "base/clock.h"
#include "client/psclient.h"
#include "etcd/registry.h"
#include "tests/support/client/fake_server.h"
#include "tests/support/etcd/etcd_process.h"

#include <check.h>

#define LONG_MS 120000

static struct etcd_process etcd;
static struct ps_kv *kv;
static struct ps_registry registry;
static struct psclient *client;
static struct psclient_error error;

static inline uint64_t soon(void)
{
    return ps_deadline_after(ps_clock_real(), LONG_MS);
}

static inline void open_store(uint32_t shard_count)
{
    const struct ps_kv_etcd_options options = {
        .endpoints = etcd.url, .clock = ps_clock_real(), .memory = ps_allocator_heap()};
    uint32_t count;
    ck_assert_int_eq(ps_kv_etcd_open(&options, &kv, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init(&registry, kv, "", NULL), PS_OK);
    if (shard_count > 0)
        ck_assert_int_eq(ps_registry_desired(&registry, shard_count, soon(), &count, NULL), PS_OK);
}

static inline void start(uint32_t shard_count)
{
    etcd_process_start(&etcd, NULL);
    open_store(shard_count);
}

static inline void finish(void)
{
    ps_kv_destroy(kv);
    etcd_process_fini(&etcd);
}

static inline struct ps_claim own(uint32_t index, const char *address)
{
    struct ps_kv_lease lease;
    struct ps_claim claim;
    ck_assert_int_eq(ps_kv_lease_grant(kv, 60000, soon(), &lease, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_claim(&registry, 2, index, lease, soon(), &claim, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_publish_address(&registry, &claim, address, soon(), NULL), PS_OK);
    return claim;
}

static inline void disown(const struct ps_claim *claim)
{
    ck_assert_int_eq(ps_kv_lease_revoke(kv, claim->lease, soon(), NULL), PS_OK);
}

static inline struct psclient *open_with_lock(uint64_t lock_ttl_ms)
{
    const struct psclient_options options = {
        .etcd = etcd.url, .open_timeout_ms = LONG_MS, .lock_ttl_ms = lock_ttl_ms};
    struct psclient *opened;
    struct psclient_error why;
    int status = psclient_open(&options, &opened, &why);
    ck_assert_msg(status == PSCLIENT_OK, "%s", why.text);
    return opened;
}

/* Who waits for its lock in vain does not see it run out. */
static inline struct psclient *open_client(void)
{
    return open_with_lock(2 * LONG_MS);
}

#endif
