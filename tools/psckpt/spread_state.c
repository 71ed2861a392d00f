/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts views into views: no array is copied. The counterpart of joined_state.c: a whole parameter
 * becomes the ranges that a client with so many servers would have made. The arithmetic is the
 * client's own (client/engine/placement.h), called and not copied, because a difference of one
 * element between the two would give every trainer wrong values without any error. */
#include "tools/psckpt/spread_state.h"

#include "base/hash.h"
#include "client/engine/placement.h"
#include "tools/psckpt/table_shards.h"

static enum ps_status place(const struct ps_checkpoint_parameter *row,
                            const struct ps_layout *layout, struct shard_state *shards,
                            struct ps_error *error);
static enum ps_status place_range(const struct ps_checkpoint_parameter *row,
                                  const struct ps_placement *placement, uint32_t k,
                                  struct shard_state *shards, struct ps_error *error);
static enum ps_status slice(struct shard_state *shard, struct ps_view view, size_t offset,
                            size_t size, struct ps_view *result, struct ps_error *error);

/* All shards get the facts of the whole state, the position above all: a version that a client has
 * seen must not come again on any of them. The placement is kept: a number places over any
 * number of shards, and clients that know it need not be told another. Each shard is sealed at the
 * end, which also finds two ranges that came to one name. */
enum ps_status spread_state(const struct shard_state *whole, uint64_t split_bytes,
                            struct shard_state *shards, uint32_t shard_count,
                            struct ps_error *error)
{
    const struct ps_layout layout = {split_bytes, whole->facts.placement, shard_count};
    for (uint32_t i = 0; i < shard_count; i++) {
        /* A shard holds at most one range of each parameter, or the whole of it, or its part of a
         * table. */
        shards[i].parameters =
            shard_state_room(&shards[i], whole->count, sizeof *shards[i].parameters, error);
        if (shards[i].parameters == NULL)
            return PS_ERR_NO_MEMORY;
        shards[i].facts = whole->facts;
        shards[i].facts.index = i;
        shards[i].facts.shard_count = shard_count;
    }
    for (size_t p = 0; p < whole->count; p++)
        PS_TRY(place(&whole->parameters[p], &layout, shards, error));
    for (uint32_t i = 0; i < shard_count; i++)
        PS_TRY(shard_state_seal(&shards[i], error));
    return PS_OK;
}

/* The name is checked as the client would check it: a parameter that no client can ask for would
 * only take memory. A name that is cut needs space for its suffix, too. */
static enum ps_status place(const struct ps_checkpoint_parameter *row,
                            const struct ps_layout *layout, struct shard_state *shards,
                            struct ps_error *error)
{
    /* Keys, not elements, decide whose rows they are; a table is never cut into ranges, and has the
     * same name on every shard. */
    if (row->is_table) {
        PS_TRY(ps_placement_check_name(row->name, false, error));
        return table_spread(row, shards, layout->shard_count, error);
    }
    struct ps_placement placement =
        ps_placement_of(row->values.size, ps_dtype_size(row->dtype), layout);
    PS_TRY(ps_placement_check_name(row->name, placement.range_count > 1, error));
    for (uint32_t k = 0; k < placement.range_count; k++)
        PS_TRY(place_range(row, &placement, k, shards, error));
    return PS_OK;
}

/* A range is stored under a name of its own and with the id of that name, as InitParam would have
 * numbered it; version, step and configuration are those of the whole. The slot in the shard's list
 * is filled before it counts. */
static enum ps_status place_range(const struct ps_checkpoint_parameter *row,
                                  const struct ps_placement *placement, uint32_t k,
                                  struct shard_state *shards, struct ps_error *error)
{
    struct ps_range range = ps_placement_range(placement, row->name, k);
    struct shard_state *shard = &shards[range.shard];
    char name[PS_NAME_BYTES_MAX];
    size_t size = ps_placement_name(placement, row->name, k, name);
    struct ps_checkpoint_parameter *stored = &shard->parameters[shard->count];
    *stored = *row;
    stored->count = range.size / placement->element_size;
    stored->name = shard_state_copy(shard, (struct ps_bytes){(const uint8_t *)name, size}, error);
    if (stored->name.data == NULL)
        return PS_ERR_NO_MEMORY;
    stored->id = ps_hash_fnv1a32(stored->name); /* as InitParam numbers it */
    /* Positions are of one shard: in another one the parameter is as old as the shard. */
    stored->birth = 0;
    PS_TRY(slice(shard, row->values, range.offset, range.size, &stored->values, error));
    for (uint32_t state = 0; state < row->state_count; state++)
        PS_TRY(slice(shard, row->states[state], range.offset, range.size, &stored->states[state],
                     error));
    shard->count++;
    return PS_OK;
}

/* Cuts a window out of a list of pieces: whole pieces before it are skipped, the first and the last
 * may be taken in part. No byte is copied; the pieces may be cut in the middle of a block, at whole
 * elements. */
static enum ps_status slice(struct shard_state *shard, struct ps_view view, size_t offset,
                            size_t size, struct ps_view *result, struct ps_error *error)
{
    struct ps_bytes *pieces = shard_state_room(shard, view.piece_count, sizeof *pieces, error);
    if (pieces == NULL)
        return PS_ERR_NO_MEMORY;
    *result = (struct ps_view){.pieces = pieces, .size = size};
    for (size_t i = 0; i < view.piece_count && size > 0; i++) {
        struct ps_bytes piece = view.pieces[i];
        if (offset >= piece.size) {
            offset -= piece.size;
            continue;
        }
        piece.data += offset;
        piece.size -= offset;
        offset = 0;
        piece.size = piece.size < size ? piece.size : size;
        size -= piece.size;
        pieces[result->piece_count++] = piece;
    }
    return PS_OK;
}
