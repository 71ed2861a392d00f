/* SPDX-License-Identifier: Apache-2.0 */
/* Short words for the tests of the conformance suite: keys under the test's own prefix, calls
 * that must succeed.
 *
 * Threads:  one.
 * Blocking: as the store, at most ten seconds a call.
 * Errors:   a call that fails ends the test.
 * Memory:   results are released by the test.
 */
#ifndef PS_TESTS_CONFORMANCE_KV_WORLD_H
#define PS_TESTS_CONFORMANCE_KV_WORLD_H

#include "tests/conformance/kv_conformance.h"

struct world_key {
    char text[128];
};

/* The world of the running test. */
struct kv_world *world_now(void);
struct ps_kv *world_open(void);
uint64_t world_deadline(void);
struct world_key world_key(const char *name);

struct ps_kv_entries world_read(struct ps_kv *kv, const char *name, bool prefix);
/* NULL: absent. */
void world_assert_value(struct ps_kv *kv, const char *name, const char *value);
/* Return the revision. A lease id of 0 is none. */
int64_t world_put(struct ps_kv *kv, const char *name, const char *value, int64_t lease);
int64_t world_put_bytes(struct ps_kv *kv, const char *name, struct ps_bytes value, int64_t lease);
/* Whether the compare of the same key held. */
bool world_put_if(struct ps_kv *kv, const char *name, enum ps_kv_compare_kind kind,
                  int64_t seen_revision, const char *value, int64_t *revision);
void world_delete(struct ps_kv *kv, const char *name);
/* A lease that outlives the test; one that ends during it. */
struct ps_kv_lease world_grant(struct ps_kv *kv);
struct ps_kv_lease world_grant_short(struct ps_kv *kv);

/* Adds the tests of kv_conformance_time.c. */
void kv_conformance_add_time(TCase *tests);

#endif
