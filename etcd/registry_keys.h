/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the registry share: names of keys, and reading one key.
 *
 * Threads:  as the store.
 * Blocking: until the deadline.
 * Errors:   those of etcd/kv.h.
 * Memory:   names are written in place.
 */
#ifndef PS_ETCD_REGISTRY_KEYS_H
#define PS_ETCD_REGISTRY_KEYS_H

#include "etcd/registry.h"

#include <inttypes.h>

/* Longest key of a registry, with its NUL. */
#define PS_REGISTRY_KEY_BYTES 224

/* How often a transaction is repeated before the answer is PS_ERR_TIMEOUT. The deadline ends it
 * earlier in practice; this ends it on a clock that stands still. */
#define PS_REGISTRY_TRIES_MAX 64

/* The name of the key with the job's placement. */
#define PS_REGISTRY_PLACEMENT "/ps_placement"

struct ps_registry_key {
    char text[PS_REGISTRY_KEY_BYTES];
};

/* The job's key with this name, e.g. ps_registry_key(registry, "/ps/%" PRIu32, index). */
PS_PRINTF(2, 3)
struct ps_registry_key ps_registry_key(const struct ps_registry *registry, const char *format, ...);

/* One key's revisions, and its value compared with an expected one. */
struct ps_registry_fact {
    int64_t create_revision; /* 0: absent */
    int64_t modify_revision; /* 0: absent */
    struct ps_kv_lease lease;
    bool value_equal; /* present, with exactly the expected value */
};

PS_MUST_USE enum ps_status ps_registry_look(struct ps_registry *registry, const char *key,
                                            struct ps_bytes expected, uint64_t deadline_ms,
                                            struct ps_registry_fact *fact, struct ps_error *error);

/* A decimal number without sign or leading zeros, not above `value_max`. */
bool ps_registry_number(struct ps_bytes text, uint32_t value_max, uint32_t *value);

/* What the value of `key`, that of the placement, says; PS_ERR_BAD_INPUT when it is not a number
 * from 1 on. */
PS_MUST_USE enum ps_status ps_registry_placement_of(struct ps_bytes value, const char *key,
                                                    uint64_t *placement, struct ps_error *error);

/* The status of an operation that failed with `status` after an earlier try of it whose answer was
 * lost: PS_ERR_TIMEOUT, since what is unknown stays so. PS_OK and PS_ERR_BAD_INPUT (what was read
 * makes no sense) stay what they are. */
enum ps_status ps_registry_failed(enum ps_status status, bool unknown, struct ps_error *error);

#endif
