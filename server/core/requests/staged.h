/* SPDX-License-Identifier: Apache-2.0 */
/* One request that comes in ranges, while it is put together: what its parts share, and those that
 * are there. Private to staging.c, which has the picture, and the lock.
 *
 * Threads:  with the lock of its staging held, but for keep and release.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   counted references: one of the list, one of who applies it, and those of holds; the
 *           last one ends it.
 */
#ifndef PS_SERVER_CORE_STAGED_H
#define PS_SERVER_CORE_STAGED_H

#include "server/core/requests/staged_part.h"
#include "server/core/requests/staging.h"

#include <stdatomic.h>

/* For texts: about as long as a few parts take. */
#define PS_STAGED_RETRY_HINT_MS 50

struct ps_staged {
    struct ps_staged *next;
    _Atomic uint32_t references;       /* of the list or the one who applies it, and of holds */
    const struct ps_allocator *memory; /* borrowed */
    enum ps_method method;
    enum ps_dtype dtype;
    enum ps_encoding encoding;
    uint64_t session;
    uint64_t sequence;
    uint64_t total;
    struct ps_shape shape;
    uint64_t content_bytes; /* of all of it; of TOP_K the most */
    uint64_t bytes;         /* reserved */
    uint64_t began_ms;
    uint64_t used_ms; /* when something new came */
    bool applying;
    bool is_listed;                /* false: forgotten while it was being applied, or over */
    bool keeps;                    /* the content of its parts */
    bool has_failed;               /* the early update */
    struct ps_update *early;       /* owned; NULL: there is none */
    size_t working;                /* parts that are being applied or looked at */
    uint64_t present;              /* elements that are there */
    struct ps_staged_part *parts;  /* owned; by rising range */
    struct ps_staged_part *newest; /* the one added last */
    struct ps_bytes *pieces;       /* owned; of the whole, while it is one */
    struct ps_bytes client_id;
    struct ps_bytes share; /* the key under which its caller has room */
    uint64_t owner;
    struct ps_bytes name;
    struct ps_bytes config;
    uint8_t text[]; /* the four above */
};

/* Returns one without parts, of the request that `part` belongs to, with a reference for the list;
 * its content is kept. `bytes` are reserved for it. NULL when memory is refused. */
struct ps_staged *ps_staged_create(const struct ps_allocator *memory, const struct ps_part *part,
                                   uint64_t bytes);

/* Under which key the room of this request is counted; borrowed. */
struct ps_bytes ps_staged_share_of(const struct ps_request_id *id);

/* Another reference; for struct ps_hold. */
void *ps_staged_keep(void *self);
void ps_staged_release(void *self);

/* Is it that request? And is it an older one of the same client? */
bool ps_staged_is_of(const struct ps_staged *staged, const struct ps_request_id *id);
bool ps_staged_is_before(const struct ps_staged *staged, const struct ps_request_id *id);

/* Is somebody at work on it? Then it stays in the list. */
bool ps_staged_is_busy(const struct ps_staged *staged);

/* May `part` be added to it?
 *
 * PS_ERR_BUSY       it is being applied
 * PS_ERR_BAD_INPUT  it differs in what all parts share
 */
PS_MUST_USE enum ps_status ps_staged_check_same(const struct ps_staged *staged,
                                                const struct ps_part *part, struct ps_error *error);

/* PS_ERR_BAD_INPUT: it is of something else than what `name` now comes with. */
enum ps_status ps_staged_refuse_other(const struct ps_staged *staged, struct ps_bytes name,
                                      struct ps_error *error);

/* A part of its list is there. */
void ps_staged_count(struct ps_staged *staged, struct ps_staged_part *part);

/* Takes back the part that was counted last. */
void ps_staged_remove_newest(struct ps_staged *staged);

/* All parts are there: `*content` becomes the whole. PS_ERR_NO_MEMORY: without the last part it
 * stays as it was. */
PS_MUST_USE enum ps_status ps_staged_make_whole(struct ps_staged *staged, struct ps_view *content,
                                                struct ps_error *error);

/* Asserts every invariant. */
void ps_staged_check(const struct ps_staged *staged);

#endif
