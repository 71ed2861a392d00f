/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranges wait for each other: a push or an initialisation that comes in ranges, all under one
 * request id, is put together here and then applied as one. Nothing of it is applied before it is
 * whole, so that it is atomic, exactly once and one record of the journal, like any other.
 *
 * There is one entry per request id, and whoever has an entry was not applied: sessions.h is asked
 * once, when the first range comes, and whatever commits a request takes its entry out afterwards
 * (ps_staging_forget, ps_staging_end). So a range that finds an entry asks nobody, and none that
 * comes late can begin a second one which nobody would complete.
 *
 * A push may have an early update (update.h): then each range is applied as it comes, and is there
 * when it was applied. Where the ranges are not kept beside it, a push whose early update fails is
 * forgotten, and its ranges are answered as those of any push that is not whole yet.
 *
 * Whole is counted before it is there: the first range reserves the bytes of all of them, and is
 * refused when they would not fit beside what else is staged, of this client or of all. A request
 * that would not fit even alone is let in, too, one at a time; since nobody knows whether the rest
 * of it will ever come, it reserves half, and the other half is for others. A range of something
 * that was let in is never refused for room: half-staged pushes cannot block each other.
 *
 * Room is counted for callers (proto/messages.h, struct ps_origin; without one, for the client that
 * the request names). A caller may have half of the bytes, and a quarter of the requests. While it
 * has more than a quarter of the bytes, its requests that got nothing new for PS_STAGING_YIELD_MS
 * give way to callers who would have less.
 *
 * Only a range that is new is a sign of life. A request that got none for PS_STAGING_IDLE_MS is
 * dropped when the next range comes, of anybody, or by the next ps_staging_sweep. A request that
 * its client has given up (of its requests with lower numbers, one that got no range for
 * PS_STAGING_YIELD_MS) gives way to what the client begins: where room is missing the oldest first,
 * and one whose early update is of the same parameter. A request that got no range for
 * PS_STAGING_STALLED_MS, or less than PS_STAGING_PACE_BYTES a second since it began, because its
 * client has died or is very slow, gives way to anybody in the same way. A client whose ranges were
 * all answered as staged sends them again: the server has lost some of them, or an early update has
 * failed.
 *
 * Threads:  every function is safe from any thread, but for init, fini and clear. Ranges are
 *           applied or looked at in the thread that brings them, without a lock.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   ranges are held where they were received, when they say how; else copied. Bounded as
 *           said; the number of ranges by PS_STAGING_PART_BYTES.
 */
#ifndef PS_SERVER_CORE_STAGING_H
#define PS_SERVER_CORE_STAGING_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/status.h"
#include "base/thread.h"
#include "proto/messages.h"
#include "server/core/sessions/sessions.h"
#include "server/core/update/update.h"

#include <stdatomic.h>

/* Smallest part, unless it is the last of its parameter: what is held with a part (the network's
 * buffers) stays in proportion. */
#define PS_STAGING_PART_BYTES (PS_BLOCK_BYTES / 4)

#define PS_STAGING_IDLE_MS 60000
#define PS_STAGING_STALLED_MS 5000
#define PS_STAGING_YIELD_MS 1000

/* Requests in ranges at once. They are found by a walk over the list of them. */
#define PS_STAGING_REQUESTS_MAX 4096

/* A request that comes more slowly gives way to whoever needs its room. */
#define PS_STAGING_PACE_BYTES (256 * 1024)

struct ps_staged;

struct ps_staging {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint64_t bytes_max;                /* of all; a caller may have half of it */
    struct ps_mutex lock;              /* PS_RANK_STAGING; guards all that follows */
    struct ps_staged *first;           /* a list, in no order */
    uint64_t bytes;                    /* reserved */
    _Atomic size_t count;   /* with one that asks to be let in; also read without the lock */
    uint64_t expired_count; /* dropped because nothing came for too long */
    uint64_t expired_told;  /* of these, by ps_staging_look */
};

void ps_staging_init(struct ps_staging *staging, const struct ps_allocator *memory,
                     uint64_t bytes_max);
void ps_staging_fini(struct ps_staging *staging);

/* Forgets everything, also what is being applied: ps_staging_end is to be called all the same. */
void ps_staging_clear(struct ps_staging *staging);

/* A range, and the request that it is part of: all parts of one say the same of that. */
struct ps_part {
    enum ps_method method; /* PS_METHOD_INIT, PS_METHOD_DEFINE or PS_METHOD_PUSH */
    const struct ps_request_id *id;
    struct ps_bytes name;
    struct ps_bytes config;    /* of an initialisation */
    struct ps_shape shape;     /* of an initialisation */
    enum ps_dtype dtype;       /* of the elements */
    enum ps_encoding encoding; /* of the content; the element type's own is NATIVE */
    uint64_t total;            /* elements */
    struct ps_elements range;
    struct ps_view content;
    struct ps_hold hold;

    /* Of a push; zero for an initialisation. */
    const struct ps_parameter_spec *spec; /* borrowed; the range is looked at while it is cached */
    struct ps_update *early;              /* offered, for the case that this part is the first */
    bool keeps; /* parts are kept beside the early update, for the journal */
    /* Who is asked whether the request was applied, and what that needs; NULL: the caller knows. */
    struct ps_sessions *sessions; /* borrowed */
    uint32_t fingerprint;
    uint64_t unix_us;
};

/* Is this request being put together, and is it applied early? A guess that the next part of it,
 * brought by another thread, may change. `*present` becomes how many of its elements are there; may
 * be NULL. */
enum ps_staging_way { PS_STAGING_UNKNOWN, PS_STAGING_PARTS, PS_STAGING_EARLY };
enum ps_staging_way ps_staging_way(struct ps_staging *staging, const struct ps_request_id *id,
                                   uint64_t *present);

/* Is a range asked for that is not the whole? */
bool ps_staging_is_part(struct ps_elements range, uint64_t total);

/* What adding a part has brought. */
struct ps_added {
    bool is_repeat; /* the request was applied before: `answer` says how, and nothing was added */
    struct ps_session_answer answer;
    struct ps_staged *staged; /* NULL: others are missing. Otherwise it is whole */
    struct ps_view content;   /* of the whole; if it was not kept it has its size, and no pieces */
    struct ps_hold hold;      /* of that */
    struct ps_blocks
        *early_values;           /* a reference to what the early update makes, where this part was
                                       applied by it; only its elements may be read. Else NULL */
    uint64_t version;            /* that `early_values` will be */
    enum ps_status early_failed; /* why the early update has failed with this part; PS_OK: not */
};

/* Adds a part. The same part may come again, with the same content. Takes part->early in any case.
 *
 * PS_OK             when it is whole the caller applies it, and then calls ps_staging_end. In any
 *                   case the caller releases added->early_values
 * PS_ERR_BAD_INPUT  no request id, a wrong range or length, parts that overlap, or one that differs
 *                   in anything that all parts share; the text says which
 * PS_ERR_BUSY       no room, or this request is being applied at this moment
 * PS_ERR_NO_MEMORY
 *                   or, of a first part, what ps_sessions_look gave
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

/* Of what is whole: is every element known to be finite? */
bool ps_staged_is_plain(const struct ps_staged *staged);

/* Of what is whole: its early update, to be committed; borrowed. NULL: there is none, or it has
 * failed. */
struct ps_update *ps_staged_early(const struct ps_staged *staged);

/* What became of it. PS_OK, or a failure that no repetition mends: it is gone; so is what has no
 * content when its early update met PS_ERR_CONFLICT. Otherwise it stays, but for the part that was
 * added last: when that one comes again, it is whole again. */
void ps_staging_end(struct ps_staging *staging, struct ps_staged *staged, enum ps_status status);

/* The request was applied, in one piece: forgets its parts. Behind the commit of its session:
 * whoever asks the sessions before that has an entry here by now, or raises `count` and waits for
 * the lock. */
void ps_staging_forget(struct ps_staging *staging, const struct ps_request_id *id);

/* The parameter of that name has gone: so do the pushes to it. With the cut held alone. */
void ps_staging_drop_pushes(struct ps_staging *staging, struct ps_bytes name);

/* Drops the requests that got no range for too long. */
void ps_staging_sweep(struct ps_staging *staging, uint64_t now_ms);

/* How much is staged, and how many requests were dropped since the last look; for metrics. */
void ps_staging_look(struct ps_staging *staging, uint64_t *bytes, size_t *count,
                     uint64_t *newly_expired);

/* Asserts every invariant. */
void ps_staging_check(struct ps_staging *staging);

#endif
