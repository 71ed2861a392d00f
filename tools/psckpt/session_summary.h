/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints remember of clients' requests, for people and for resharding.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT, PS_ERR_UNSUPPORTED for bytes that no server wrote; PS_ERR_NO_MEMORY.
 * Memory:   said at each function.
 */
#ifndef PS_TOOLS_SESSION_SUMMARY_H
#define PS_TOOLS_SESSION_SUMMARY_H

#include "server/core/sessions/sessions.h"
#include "tools/psckpt/shard_state.h"

/* One client. */
struct session_row {
    uint8_t id[PS_CLIENT_ID_BYTES_MAX];
    size_t id_size;
    uint64_t session;
    uint64_t used_us;    /* when its last request began, since 1970 */
    uint64_t sequence;   /* the highest remembered */
    uint32_t slot_count; /* requests remembered */
};

struct session_summary {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct session_row *rows;          /* owned; sorted by id */
    size_t count;
    uint64_t floor; /* the lowest session of a client that is not remembered */
};

/* What `facts` say is remembered; `facts` is borrowed. */
PS_MUST_USE enum ps_status session_summary_init(struct session_summary *summary,
                                                const struct ps_checkpoint_facts *facts,
                                                const struct ps_allocator *memory,
                                                struct ps_error *error);

/* Accepts a zeroed summary. */
void session_summary_fini(struct session_summary *summary);

/* Puts into each of `shards` what is to be remembered after `states` were resharded: every client,
 * with the session behind its highest one and no request of it. So whatever a client still repeats
 * from before is refused as an old session's, by every shard, and is never applied a second time.
 * The bytes are in the rooms of `shards`. */
PS_MUST_USE enum ps_status session_summary_merge(const struct shard_state *states,
                                                 size_t state_count, struct shard_state *shards,
                                                 size_t shard_count, struct ps_error *error);

/* Puts into `state` that every client was forgotten: one that goes on in a session of before is
 * told to begin another, so that nothing is applied twice. The bytes are in the rooms of `state`.
 */
PS_MUST_USE enum ps_status session_summary_forget(struct shard_state *state,
                                                  struct ps_error *error);

#endif
