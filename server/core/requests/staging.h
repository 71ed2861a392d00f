/* Where parts wait for each other: a push or an initialisation that comes in ranges, all under one
 * request id, is put together here and then applied as one. Nothing of it is applied before it is
 * whole, so that it is atomic, exactly once and one record of the journal, like any other.
 *
 * A push may have an attempt (ahead.h): then each part is applied as it comes, and is there when it
 * was applied; what is put together is the attempt. Where the parts are not kept beside it, a push
 * whose attempt fails is forgotten, and its parts are answered as those of any push that is not
 * whole yet.
 *
 * Whole is counted before it is there: the first part reserves the bytes of all of them, and is
 * refused when they would not fit beside what else is staged, of this client or of all. What would
 * not fit even alone is let in, too, one at a time; since nobody knows whether the rest of it will
 * ever come, it reserves half, and the other half is for others. A part of something that was let
 * in is never refused for room: half-staged pushes cannot block each other.
 *
 * What got no part for PS_STAGING_IDLE_MS is dropped when the next part comes, of anybody. What a
 * client has given up (of its requests with lower numbers, one that got no part for
 * PS_STAGING_YIELD_MS) gives way to what it begins: where room is missing the oldest first, and
 * one whose attempt is on the same parameter. What got no part for PS_STAGING_STALLED_MS, because
 * its client has died or is very slow, gives way to anybody in the same way. A client whose parts
 * were all answered as staged sends them again: the server has lost some of them, or an attempt has
 * failed.
 *
 * Threads:  every function is safe from any thread, but for init, fini and clear. Parts are applied
 *           in the thread that brings them, without a lock.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   parts are held where they were received, when they say how; else copied. Bounded as
 *           said; the number of parts by PS_STAGING_PART_BYTES.
 */
#ifndef PS_SERVER_CORE_STAGING_H
#define PS_SERVER_CORE_STAGING_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/status.h"
#include "base/thread.h"
#include "proto/messages.h"
#include "server/core/update/ahead.h"

#include <stdatomic.h>

/* Smallest part, unless it is the last of its parameter: what is held with a part (the network's
 * buffers) stays in proportion. */
#define PS_STAGING_PART_BYTES (PS_BLOCK_BYTES / 4)

#define PS_STAGING_IDLE_MS 60000
#define PS_STAGING_STALLED_MS 5000
#define PS_STAGING_YIELD_MS 1000

struct ps_staged;

struct ps_staging {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint64_t bytes_max;                /* of all; a client may have half of it */
    struct ps_mutex lock;              /* PS_RANK_QUEUE; guards all that follows */
    struct ps_staged *first;           /* a list, in no order */
    uint64_t bytes;                    /* reserved */
    _Atomic size_t count;              /* 0 is also asked for without the lock */
    uint64_t expired_count;            /* dropped because nothing came for too long */
    uint64_t expired_told;             /* of these, by ps_staging_look */
};

void ps_staging_init(struct ps_staging *staging, const struct ps_allocator *memory,
                     uint64_t bytes_max);
void ps_staging_fini(struct ps_staging *staging);

/* Forgets everything, also what is being applied: ps_staging_end is to be called all the same. */
void ps_staging_clear(struct ps_staging *staging);

/* What a part says, and what it is part of: the same for all parts of one. */
struct ps_part {
    enum ps_method method; /* PS_METHOD_INIT or PS_METHOD_PUSH */
    const struct ps_request_id *id;
    struct ps_bytes name;
    struct ps_bytes config;    /* of an initialisation */
    enum ps_dtype dtype;       /* of the elements */
    enum ps_encoding encoding; /* of the content; the element type's own is NATIVE */
    uint64_t total;            /* elements */
    struct ps_elements range;
    struct ps_view content;
    struct ps_hold hold;
    bool is_plain; /* ps_gradient_range_is_plain; of one that is applied ahead not asked */
};

/* Is this request being put together, and is there an attempt? A guess that the next part of it,
 * brought by another thread, may change. */
enum ps_staging_way { PS_STAGING_UNKNOWN, PS_STAGING_PARTS, PS_STAGING_AHEAD };
enum ps_staging_way ps_staging_way(struct ps_staging *staging, const struct ps_request_id *id);

/* Offers an attempt to the push that `part` belongs to; the part itself is to be added afterwards.
 * True: it is taken, and `ahead` with it. False: the push has begun already, another has an attempt
 * on the same parameter, or there is no room for the new blocks.
 *
 * keeps    the parts are kept beside it
 */
bool ps_staging_offer(struct ps_staging *staging, const struct ps_part *part,
                      struct ps_ahead *ahead, bool keeps, uint64_t now_ms);

/* Is a range asked for that is not the whole? */
bool ps_staging_is_part(struct ps_elements range, uint64_t total);

/* What adding a part has brought. */
struct ps_added {
    struct ps_staged *staged; /* NULL: others are missing. Otherwise it is whole */
    struct ps_view content;   /* of the whole; if it was not kept it has its size, and no pieces */
    struct ps_hold hold;      /* of that */
    struct ps_blocks *made;   /* a reference to what the attempt makes, where this part was applied
                                 ahead; only its elements may be read. Else NULL */
    uint64_t version;         /* that `made` will be */
    enum ps_status ahead_failed; /* why the attempt has failed with this part; PS_OK: it has not */
};

/* Adds a part. The same part may come again, with the same content.
 *
 * PS_OK             when it is whole the caller applies it, and then calls ps_staging_end. Always
 *                   he releases added->made
 * PS_ERR_BAD_INPUT  no request id, a wrong range or length, parts that overlap, or one that differs
 *                   in anything that all parts share; the text says which
 * PS_ERR_BUSY       no room, or this request is being applied at this moment
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_staging_add(struct ps_staging *staging, const struct ps_part *part,
                                          uint64_t now_ms, struct ps_added *added,
                                          struct ps_error *error);

/* May a request of this method and name go in one piece? PS_ERR_BAD_INPUT: not under this id, since
 * ranges of something else are staged under it; the text names both. */
PS_MUST_USE enum ps_status ps_staging_check_whole(struct ps_staging *staging,
                                                  const struct ps_request_id *id,
                                                  enum ps_method method, struct ps_bytes name,
                                                  struct ps_error *error);

/* How many elements of a request are there. */
uint64_t ps_staging_present(struct ps_staging *staging, const struct ps_request_id *id);

/* Of what is whole: are all its parts plain? */
bool ps_staged_is_plain(const struct ps_staged *staged);

/* Of what is whole: its attempt, to be committed; borrowed. NULL: there is none. */
struct ps_ahead *ps_staged_ahead(const struct ps_staged *staged);

/* What became of it. PS_OK, or a failure that no repetition mends: it is gone; so is what has no
 * content when its attempt met PS_ERR_CONFLICT. Otherwise it stays, but for the part that was added
 * last: when that one comes again, it is whole again. */
void ps_staging_end(struct ps_staging *staging, struct ps_staged *staged, enum ps_status status);

/* Forgets a request, unless it is being applied. */
void ps_staging_forget(struct ps_staging *staging, const struct ps_request_id *id);

/* How much is staged, and how many requests were dropped since the last look; for metrics. */
void ps_staging_look(struct ps_staging *staging, uint64_t *bytes, size_t *count,
                     uint64_t *newly_expired);

/* Asserts every invariant. */
void ps_staging_check(struct ps_staging *staging);

#endif
