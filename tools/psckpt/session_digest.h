/* SPDX-License-Identifier: Apache-2.0 */
/* What a table of sessions knows, without what does not matter for whether a repeat is recognised:
 * the order of the clients' silence and the times. So a server that went on and one that recovered
 * have the same digest when they know the same requests.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT, PS_ERR_UNSUPPORTED for bytes that no server wrote; PS_ERR_NO_MEMORY.
 * Memory:   nothing is kept.
 */
#ifndef PS_TOOLS_SESSION_DIGEST_H
#define PS_TOOLS_SESSION_DIGEST_H

#include "checkpoint/checkpoint.h"
#include "tools/psckpt/sha256.h"

/* Adds the sessions of one shard to `hash`: the floor, the clients by their ids, and of each the
 * requests by their sequences. */
PS_MUST_USE enum ps_status session_digest_add(struct sha256 *hash,
                                              const struct ps_checkpoint_facts *facts,
                                              const struct ps_allocator *memory,
                                              struct ps_error *error);

#endif
