/* SPDX-License-Identifier: Apache-2.0 */
/* The words of kv_world.h. */
#include "tests/conformance/kv_world.h"

#include <stdio.h>

/* Set before the tests fork; each test then has its own copy. */
static struct kv_world *current_world;

void kv_world_use(struct kv_world *world)
{
    current_world = world;
}

struct kv_world *world_now(void)
{
    return current_world;
}

struct ps_kv *world_open(void)
{
    return current_world->open(current_world->self);
}

uint64_t world_deadline(void)
{
    return ps_deadline_after(current_world->clock, 30000);
}

struct world_key world_key(const char *name)
{
    struct world_key key;
    (void)snprintf(key.text, sizeof key.text, "%s%s", current_world->prefix, name);
    return key;
}

struct ps_kv_entries world_read(struct ps_kv *kv, const char *name, bool prefix)
{
    struct world_key key = world_key(name);
    struct ps_kv_entries entries = {0};
    struct ps_error error = {0};
    enum ps_status status = ps_kv_read(kv, key.text, prefix, world_deadline(), &entries, &error);
    ck_assert_msg(status == PS_OK, "read %s: %s", key.text, error.text);
    return entries;
}

void world_assert_value(struct ps_kv *kv, const char *name, const char *value)
{
    struct ps_kv_entries entries = world_read(kv, name, false);
    ck_assert_uint_eq(entries.count, value == NULL ? 0 : 1);
    if (value != NULL)
        ck_assert_str_eq((const char *)entries.entries[0].value, value);
    ps_kv_entries_release(&entries);
}

int64_t world_put(struct ps_kv *kv, const char *name, const char *value, int64_t lease)
{
    return world_put_bytes(kv, name, ps_bytes_of_text(value), lease);
}

static bool commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction, int64_t *revision)
{
    bool done = false;
    struct ps_error error = {0};
    enum ps_status status =
        ps_kv_commit(kv, transaction, world_deadline(), &done, revision, &error);
    ck_assert_msg(status == PS_OK, "commit: %s", error.text);
    return done;
}

int64_t world_put_bytes(struct ps_kv *kv, const char *name, struct ps_bytes value, int64_t lease)
{
    struct world_key key = world_key(name);
    const struct ps_kv_change change = {PS_KV_PUT, key.text, value, {lease}};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    int64_t revision = 0;
    ck_assert(commit(kv, &transaction, &revision));
    return revision;
}

bool world_put_if(struct ps_kv *kv, const char *name, enum ps_kv_compare_kind kind,
                  int64_t seen_revision, const char *value, int64_t *revision)
{
    struct world_key key = world_key(name);
    const struct ps_kv_compare compare = {key.text, kind, seen_revision};
    const struct ps_kv_change change = {PS_KV_PUT, key.text, ps_bytes_of_text(value), {0}};
    const struct ps_kv_transaction transaction = {&compare, 1, &change, 1};
    return commit(kv, &transaction, revision);
}

void world_delete(struct ps_kv *kv, const char *name)
{
    struct world_key key = world_key(name);
    const struct ps_kv_change change = {PS_KV_DELETE, key.text, {NULL, 0}, {0}};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    int64_t revision = 0;
    ck_assert(commit(kv, &transaction, &revision));
}

static struct ps_kv_lease grant(struct ps_kv *kv, uint64_t ttl_ms)
{
    struct ps_kv_lease lease = {0};
    struct ps_error error = {0};
    enum ps_status status = ps_kv_lease_grant(kv, ttl_ms, world_deadline(), &lease, &error);
    ck_assert_msg(status == PS_OK, "grant: %s", error.text);
    ck_assert_int_ne(lease.id, 0);
    return lease;
}

struct ps_kv_lease world_grant(struct ps_kv *kv)
{
    return grant(kv, current_world->long_ttl_ms);
}

struct ps_kv_lease world_grant_short(struct ps_kv *kv)
{
    return grant(kv, current_world->ttl_ms);
}
