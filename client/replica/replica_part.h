/* SPDX-License-Identifier: Apache-2.0 */
/* One part of a replica: what one server knows as a parameter, kept up to date. Private to
 * replica.c, which has the picture.
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   said at each function; what is held stays as it was.
 * Memory:   the lists belong to the part, ended with ps_replica_part_release.
 */
#ifndef PS_CLIENT_REPLICA_PART_H
#define PS_CLIENT_REPLICA_PART_H

#include "base/alloc.h"
#include "base/status.h"
#include "proto/messages.h"

struct ps_replica_rows;

/* A wrong digest is an accident once; what is wrong this often in a row is not repaired. */
#define PS_REPLICA_MISMATCHES_MAX 3

enum ps_part_state { PS_PART_STALE, PS_PART_FRESH, PS_PART_FAILED };

struct ps_replica_counters {
    uint64_t answers;    /* of parts */
    uint64_t received;   /* bytes of content */
    uint64_t saved;      /* bytes that did not have to come */
    uint64_t copies;     /* parts that came whole, because nothing was held */
    uint64_t anchors;    /* parts that came whole, because what was held could not be the base */
    uint64_t mismatches; /* digests that were wrong */
};

/* A version of which some answers have come, but not the last. */
struct ps_coming {
    uint64_t target; /* 1 + the version; 0: none */
    struct ps_chain chain;
    bool whole;     /* what is held is not its base */
    uint64_t block; /* the first that is still to come; of a table: the place to go on from */
    uint64_t mark;  /* of a table: up to where keys that went have been told */
};

struct ps_replica_part {
    const struct ps_allocator *memory;    /* borrowed; outlives this */
    struct ps_replica_counters *counters; /* borrowed; outlives this */
    struct ps_bytes name;                 /* owned */
    uint32_t shard;
    uint32_t parameter; /* the caller's number */
    enum ps_dtype dtype;
    uint8_t *content; /* borrowed; outlives the replica */
    size_t size;
    struct ps_replica_rows *rows; /* of a table, instead of content and blocks; else NULL. Owned by
                                     the replica once it is added */

    uint64_t version; /* 1 + the one that is held; 0: nothing is */
    struct ps_chain chain;
    uint64_t mark;           /* of a table: of what is held */
    struct ps_coming coming; /* the version that has begun to come */
    uint64_t block_bytes;
    size_t block_count;
    uint64_t *digests;      /* owned; of what is held */
    uint64_t *next_digests; /* owned; of what is coming; 0: as before */
    uint8_t **waiting;      /* owned; blocks of what is coming; NULL: did not come */
    uint64_t expected;      /* bytes that the next version may take: those of the last one */
    uint32_t mismatches;    /* in a row */

    enum ps_part_state state; /* in this round */
    enum ps_status status;    /* why it failed, or what it was told last */
    char text[128];
};

/* What to ask for. */
struct ps_held ps_replica_part_held(const struct ps_replica_part *part);

/* Takes an answer. Afterwards the part is fresh, or more is to come, or its digest was wrong and it
 * holds nothing.
 *
 * PS_ERR_BAD_INPUT  the answer is none for what was asked, or of another type or length
 * PS_ERR_CORRUPT    the digest was wrong for the PS_REPLICA_MISMATCHES_MAXth time
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_replica_part_take(struct ps_replica_part *part,
                                                const struct ps_pull_reply *reply,
                                                struct ps_error *error);

/* What has begun to come counts for nothing. */
void ps_replica_part_forget(struct ps_replica_part *part);

/* Reads what is held. False when it is not what it was: then nothing is held. */
bool ps_replica_part_verify(struct ps_replica_part *part);

/* Gives the lists back; nothing is held then. */
void ps_replica_part_release(struct ps_replica_part *part);

/* Asserts every invariant. */
void ps_replica_part_check(const struct ps_replica_part *part);

#endif
