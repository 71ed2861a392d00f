/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a delta pull: of one version of a parameter the blocks that were written after the
 * version which the caller holds, as many as go in one message, and how to check the result.
 *
 * A block goes when its entry says a later version than the one held, or when nobody has asked for
 * its digest yet: whoever got the version held from us has made us ask, so that this costs an
 * honest caller nothing, and nobody can make the server read more than it sends.
 *
 * Threads:  pure but for the digests that it makes known; the caller holds the list.
 * Blocking: never. Reads the blocks that go, once.
 * Errors:   said below.
 * Memory:   one allocation, the cut, which belongs to the caller.
 */
#ifndef PS_SERVER_CORE_DELTA_PULL_H
#define PS_SERVER_CORE_DELTA_PULL_H

#include "proto/messages.h"
#include "server/core/values/blocks.h"

bool ps_chain_is_same(const struct ps_chain *a, const struct ps_chain *b);

/* What the caller holds is the base of an answer with `version` only if this says PS_WHOLE_NOT. */
enum ps_whole ps_delta_whole(const struct ps_held *held, const struct ps_chain *chain,
                             uint64_t version);

/* A delta that is cut from a list. */
struct ps_delta_cut {
    struct ps_bytes *pieces; /* owned by the caller; the runs lie behind them; NULL: nothing goes */
    struct ps_view content;
    struct ps_delta delta;
    uint64_t left_bytes; /* still to come */
};

/* The answer from the list `values` of `version` for who holds `held`, at most `bytes_max` of
 * content.
 *
 * PS_ERR_BUSY       not even the first block that is to go fits
 * PS_ERR_BAD_INPUT  held->block is beyond the list
 * PS_ERR_CONFLICT   the end is reached, but blocks before held->block were never given: begin again
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_delta_cut(const struct ps_blocks *values, uint64_t version,
                                        const struct ps_held *held, const struct ps_chain *chain,
                                        uint64_t bytes_max, struct ps_delta_cut *cut,
                                        struct ps_error *error);

#endif
