/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks a delta brings, and the digest by which its receiver sees that nothing is missing.
 * The server keeps nothing for a receiver: every entry of a list knows at which version its block
 * was last written, so "what changed since" is one pass over the entries, and a receiver that
 * vanished costs nothing. */
#include "server/core/values/delta_pull.h"

#include "base/assert.h"
#include "proto/digest.h"

#include <inttypes.h>

static bool goes(const struct ps_blocks *values, size_t i, uint64_t since);
static enum ps_status cut_blocks(const struct ps_blocks *values, size_t first, uint64_t since,
                                 uint64_t bytes_max, struct ps_delta_cut *cut,
                                 struct ps_error *error);
static enum ps_status digest_all(const struct ps_blocks *values, struct ps_delta *delta,
                                 struct ps_error *error);

/* Both halves count. The epoch alone would not do: a shard may be initialised anew under one epoch,
 * and the version numbers begin again. */
bool ps_chain_is_same(const struct ps_chain *a, const struct ps_chain *b)
{
    PS_ASSERT(a != NULL && b != NULL);
    return a->epoch == b->epoch && a->life == b->life;
}

/* Versions on the wire are one more than the version, so that 0 is "nothing". A version above ours
 * is one that was lost with a crash and given to nobody here: its number will be used again, for
 * other content. */
enum ps_whole ps_delta_whole(const struct ps_held *held, const struct ps_chain *chain,
                             uint64_t version)
{
    PS_ASSERT(chain->life != 0);
    if (held->version == 0)
        return PS_WHOLE_NOTHING_HELD;
    if (!ps_chain_is_same(&held->chain, chain))
        return PS_WHOLE_OTHER_CHAIN;
    return held->version - 1 > version ? PS_WHOLE_NEWER_THAN_HERE : PS_WHOLE_NOT;
}

/* A cut that fills the answer names the block to go on from; only the one that reaches the end
 * carries the digest, since only then have all blocks been read. */
enum ps_status ps_delta_cut(const struct ps_blocks *values, uint64_t version,
                            const struct ps_held *held, const struct ps_chain *chain,
                            uint64_t bytes_max, struct ps_delta_cut *cut, struct ps_error *error)
{
    const char *name = (const char *)values->spec->name.data;
    PS_ASSERT(values->block_count > 0);
    PS_ASSERT(cut != NULL);
    /* From outside: the block count itself is allowed, and gives an empty end. */
    if (held->block > values->block_count)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "parameter: %s has %zu blocks, asked for %" PRIu64 " and on", name,
                       values->block_count, held->block);
    enum ps_whole whole = ps_delta_whole(held, chain, version);
    /* The lowest version of a block that goes: held->version is one more than what is held. */
    uint64_t since = whole == PS_WHOLE_NOT ? held->version : 0;
    *cut = (struct ps_delta_cut){
        .delta = {.present = true, .chain = *chain, .block_bytes = PS_BLOCK_BYTES, .whole = whole}};
    PS_TRY(cut_blocks(values, (size_t)held->block, since, bytes_max, cut, error));
    if (cut->delta.next > 0)
        return PS_OK;
    enum ps_status status = digest_all(values, &cut->delta, error);
    if (status != PS_OK)
        ps_release(values->spec->memory, cut->pieces);
    return status;
}

/* A block goes when it is newer than what is held. A block that nobody has read yet also goes,
 * though it may be old: without its digest the receiver could not check the whole, and reading it
 * here for nothing would cost as much as sending it. */
static bool goes(const struct ps_blocks *values, size_t i, uint64_t since)
{
    PS_ASSERT(i < values->block_count);
    return values->entries[i].version >= since || !ps_blocks_digest_known(values, i);
}

/* Adds block `i`, and its run. Both lists have room. */
static void add_block(const struct ps_blocks *values, size_t i, uint32_t *runs,
                      struct ps_delta_cut *cut)
{
    size_t run_count = cut->delta.runs.size / (2 * sizeof *runs);
    PS_ASSERT(run_count == 0 || runs[2 * run_count - 2] + runs[2 * run_count - 1] <= i);
    uint32_t *run = &runs[2 * run_count];
    cut->pieces[cut->content.piece_count++] = values->pieces[i];
    cut->content.size += values->pieces[i].size;
    /* Now, while the block is about to be read for the network anyway: the last part of the delta
     * needs the digests of all blocks, also of those that went out with earlier parts. */
    (void)ps_blocks_digest(values, i);
    if (run_count > 0 && run[-2] + run[-1] == i) {
        run[-1]++;
        return;
    }
    run[0] = (uint32_t)i;
    run[1] = 1;
    cut->delta.runs.size += 2 * sizeof *runs;
}

/* From block `first` on, which has to go: one pass, since others make digests known meanwhile.
 * Pieces and runs are one allocation of the size that the answer can hold at most, so that a second
 * pass to count is not needed. What does not fit any more is still counted, in `left_bytes`: the
 * version is held readable until so much more was asked for. */
static enum ps_status cut_from(const struct ps_blocks *values, size_t first, uint64_t since,
                               uint64_t bytes_max, struct ps_delta_cut *cut, struct ps_error *error)
{
    PS_ASSERT(first < values->block_count);
    PS_ASSERT(values->pieces[first].size <= bytes_max);
    size_t room = (size_t)(bytes_max / PS_BLOCK_BYTES) + 1;
    if (room > values->block_count - first)
        room = values->block_count - first;
    size_t pieces_size = room * sizeof *cut->pieces;
    uint8_t *memory = ps_plain(values->spec->memory, pieces_size + room * 2 * sizeof(uint32_t));
    if (memory == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a delta of %zu blocks", room);
    uint32_t *runs = (uint32_t *)(void *)(memory + pieces_size);
    cut->pieces = (struct ps_bytes *)(void *)memory;
    cut->content.pieces = cut->pieces;
    cut->delta.runs.data = (const uint8_t *)runs;
    add_block(values, first, runs, cut);
    for (size_t i = first + 1; i < values->block_count; i++) {
        uint64_t size = values->pieces[i].size;
        if (!goes(values, i, since))
            continue;
        if (cut->delta.next == 0 && cut->content.size + size <= bytes_max) {
            add_block(values, i, runs, cut);
            continue;
        }
        cut->delta.next = cut->delta.next > 0 ? cut->delta.next : i;
        cut->left_bytes += size;
    }
    return PS_OK;
}

/* Blocks before the first one that goes cost nothing and are passed over without an allocation: a
 * parameter that did not change is the usual case. */
static enum ps_status cut_blocks(const struct ps_blocks *values, size_t first, uint64_t since,
                                 uint64_t bytes_max, struct ps_delta_cut *cut,
                                 struct ps_error *error)
{
    PS_ASSERT(cut->pieces == NULL && cut->content.size == 0);
    /* The usual delta begins with blocks that stand still. */
    while (first < values->block_count && !goes(values, first, since))
        first++;
    if (first == values->block_count)
        return PS_OK;
    if (values->pieces[first].size > bytes_max)
        return ps_fail(error, PS_ERR_BUSY, "no room in this answer for parameter: %s",
                       (const char *)values->spec->name.data);
    return cut_from(values, first, since, bytes_max, cut, error);
}

/* All digests are known by now: a block without one always goes. But a receiver may have asked to
 * go on from a block that it was never told (`held.block`), and then the blocks before it may be
 * unknown; such a receiver begins again. */
static enum ps_status digest_all(const struct ps_blocks *values, struct ps_delta *delta,
                                 struct ps_error *error)
{
    PS_ASSERT(delta->next == 0);
    uint64_t chain = 0;
    for (size_t i = 0; i < values->block_count; i++) {
        if (!ps_blocks_digest_known(values, i))
            return ps_fail(error, PS_ERR_CONFLICT,
                           "parameter: %s, block %zu was never given: begin again",
                           (const char *)values->spec->name.data, i);
        chain = ps_digest_chain(chain, ps_blocks_digest(values, i));
    }
    delta->digest = chain;
    return PS_OK;
}
