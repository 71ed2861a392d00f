/* SPDX-License-Identifier: Apache-2.0 */
/* A store of which a test says what it holds and when it fails; for readers that follow it from a
 * thread of their own.
 *
 * Threads:  the store belongs to its reader, the script to the test; both at the same time.
 * Blocking: watch_wait, until the script changes, an interrupt, or the deadline.
 * Errors:   as scripted. Writes and leases are refused.
 * Memory:   in place; the script must outlive the store.
 */
#ifndef PS_TESTS_SUPPORT_CLIENT_SCRIPTED_KV_H
#define PS_TESTS_SUPPORT_CLIENT_SCRIPTED_KV_H

#include "base/thread.h"
#include "etcd/kv.h"

#define SCRIPTED_KEYS_MAX 8

struct scripted_kv {
    struct ps_kv kv; /* first */
    struct ps_mutex mutex;
    struct ps_condition changed;
    const char *keys[SCRIPTED_KEYS_MAX]; /* NULL: free */
    const char *values[SCRIPTED_KEYS_MAX];
    int64_t create_revisions[SCRIPTED_KEYS_MAX];
    int64_t revision;
    int64_t heard;          /* the watch reports what is newer */
    enum ps_status failure; /* of every read; PS_OK: none */
    enum ps_status watch_failure;
    bool interrupted;
    bool destroyed;
    uint32_t reads;
};

void scripted_kv_init(struct scripted_kv *script);
void scripted_kv_fini(struct scripted_kv *script);

/* Puts a key, or deletes it (NULL), and wakes the watcher. Texts are borrowed. */
void scripted_kv_put(struct scripted_kv *script, const char *key, const char *value);

/* What reads and watches say from now on. */
void scripted_kv_fail(struct scripted_kv *script, enum ps_status reads, enum ps_status watches);

uint32_t scripted_kv_reads(struct scripted_kv *script);

#endif
