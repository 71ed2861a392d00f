/* SPDX-License-Identifier: Apache-2.0 */
/* One hash of the state of one or several shards (docs/psckpt.md has the definition). It does not
 * depend on files, folders, order of shards, epochs, positions, times or uuids.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   states are borrowed.
 */
#ifndef PS_TOOLS_STATE_DIGEST_H
#define PS_TOOLS_STATE_DIGEST_H

#include "tools/psckpt/sha256.h"
#include "tools/psckpt/shard_state.h"

/* `states` are sealed. With `sessions`, what is remembered of clients' requests counts too. */
PS_MUST_USE enum ps_status state_digest(const struct shard_state *states, size_t state_count,
                                        bool sessions, uint8_t digest[SHA256_BYTES],
                                        struct ps_error *error);

#endif
