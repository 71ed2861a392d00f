/* SPDX-License-Identifier: Apache-2.0 */
/* A store in front of another one that loses answers: the chosen write happens, or does not, and
 * in both cases the caller hears PS_ERR_TIMEOUT.
 *
 * Threads:  as the store behind.
 * Blocking: as the store behind.
 * Errors:   those of the store behind, and the lost answers.
 * Memory:   in place; the store behind is borrowed.
 */
#ifndef PS_TESTS_SUPPORT_ETCD_LOSSY_KV_H
#define PS_TESTS_SUPPORT_ETCD_LOSSY_KV_H

#include "etcd/kv.h"

#include <stdint.h>

enum lossy_kind {
    LOSSY_NEVER,
    LOSSY_AFTER,  /* the write is made, its answer lost */
    LOSSY_BEFORE, /* the write is lost */
    LOSSY_DOWN    /* from the chosen write on, every call is PS_ERR_UNAVAILABLE; that write is made
                     and its answer lost */
};

struct lossy_kv {
    struct ps_kv base; /* first: hand out &lossy.base */
    struct ps_kv *behind;
    enum lossy_kind kind;
    int64_t lose_at; /* 0-based number of the commit */
    int64_t commits; /* so far */
    /* Called with `context` before the chosen commit returns; NULL: nothing. */
    void (*meanwhile)(void *context);
    void *context;
};

void lossy_kv_init(struct lossy_kv *lossy, struct ps_kv *behind, enum lossy_kind kind,
                   int64_t lose_at);

#endif
