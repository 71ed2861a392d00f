/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters in the order of their names, everything with its length in front. The definition
 * stands in docs/psckpt.md and cannot change any more: digests are kept in logs and compared after
 * years. Lengths in front of texts keep two different states from giving one string of bytes. What
 * is left out on purpose is everything that differs between two copies of one state: files, epochs,
 * positions, times, uuids, the order of shards. */
#include "tools/psckpt/state_digest.h"

#include "tools/psckpt/candidate_shards.h"
#include "tools/psckpt/session_digest.h"
#include "tools/psckpt/table_rows.h"

#include <stdlib.h>

#define HEADLINE "pserver state 1\n"

/* Added to the number of the type of a parameter that has a shape, or is a table. */
#define SHAPE_FOLLOWS 128
#define TABLE_FOLLOWS 64

/* Asked of a source at a time: on the stack. */
#define PIECE_BYTES ((size_t)16 << 10)

static enum ps_status add_parameter(struct sha256 *hash, const struct ps_checkpoint_parameter *row,
                                    struct ps_error *error);
static enum ps_status add_array(struct sha256 *hash, const struct ps_checkpoint_parameter *row,
                                uint32_t array, struct ps_error *error);
static enum ps_status add_sessions(struct sha256 *hash, const struct shard_state *states,
                                   size_t count, struct ps_error *error);
static int compare_names(const void *a, const void *b);
static int compare_first_keys(const struct ps_checkpoint_parameter *left,
                              const struct ps_checkpoint_parameter *right);

/* The rows of all shards are sorted together, so that one shard and four shards with the same
 * parameters have the same digest when no parameter is cut. An empty set has a digest, too, that of
 * no parameters. */
enum ps_status state_digest(const struct shard_state *states, size_t state_count, bool sessions,
                            uint8_t digest[SHA256_BYTES], struct ps_error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < state_count; i++)
        count += states[i].count;
    const struct ps_allocator *memory = ps_allocator_heap();
    if (state_count > 0)
        memory = states[0].memory;
    const struct ps_checkpoint_parameter **rows = ps_zeroed_array(memory, count, sizeof *rows);
    if (rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to sort %zu parameters", count);
    size_t at = 0;
    for (size_t i = 0; i < state_count; i++)
        for (size_t p = 0; p < states[i].count; p++)
            rows[at++] = &states[i].parameters[p];
    if (count > 0)
        qsort(rows, count, sizeof *rows, compare_names);

    struct sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, ps_bytes_of_text(HEADLINE));
    sha256_add_number(&hash, count, 8);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < count && status == PS_OK; i++)
        status = add_parameter(&hash, rows[i], error);
    /* What is counted of keys is the state of a table as much as its rows are: it decides about the
     * pushes to come. */
    if (status == PS_OK)
        status = candidate_shards_add(states, state_count, &hash, error);
    if (status == PS_OK && sessions)
        status = add_sessions(&hash, states, state_count, error);
    /* The hash has to be ended in any case, since it owns memory; the first failure is the one that
     * is told. */
    enum ps_status ended = sha256_end(&hash, digest, status == PS_OK ? error : NULL);
    ps_release(memory, rows);
    return status != PS_OK ? status : ended;
}

/* Where there is a shape, the number of the type says so: without one a digest is what it was
 * before there were shapes. The mark keeps the two forms apart, whatever the numbers behind it. */
static void add_type(struct sha256 *hash, const struct ps_checkpoint_parameter *row)
{
    const struct ps_shape *shape = &row->shape;
    /* A table has no shape, so the two marks never meet. A table and a matrix of the same numbers
     * are two states: the one has keys. */
    if (row->is_table) {
        sha256_add_number(hash, (uint64_t)row->dtype + TABLE_FOLLOWS, 1);
        sha256_add_number(hash, row->rows, 8);
        sha256_add_number(hash, row->width, 4);
        return;
    }
    sha256_add_number(hash, (uint64_t)row->dtype + (shape->is_given ? SHAPE_FOLLOWS : 0), 1);
    sha256_add_number(hash, row->count, 8);
    if (!shape->is_given)
        return;
    sha256_add_number(hash, shape->rank, 4);
    for (uint32_t i = 0; i < shape->rank; i++)
        sha256_add_number(hash, shape->lengths[i], 8);
}

/* Versions and steps count as well: two states with equal values and different steps go on
 * differently under Adam. */
static enum ps_status add_parameter(struct sha256 *hash, const struct ps_checkpoint_parameter *row,
                                    struct ps_error *error)
{
    sha256_add_number(hash, row->name.size, 4);
    sha256_add(hash, row->name);
    add_type(hash, row);
    sha256_add_number(hash, row->config.size, 4);
    sha256_add(hash, row->config);
    sha256_add_number(hash, row->version, 8);
    sha256_add_number(hash, row->step, 8);
    sha256_add_number(hash, row->state_count, 4);
    /* Rows of a table are sorted in a sealed state, so the order of the file does not count. */
    for (uint32_t array = 0; array < ps_array_count(row); array++)
        PS_TRY(add_array(hash, row, array, error));
    return PS_OK;
}

/* What is not in arrays is read in pieces: the digest is of the bytes, and the same whichever way
 * they come. */
static enum ps_status add_array(struct sha256 *hash, const struct ps_checkpoint_parameter *row,
                                uint32_t array, struct ps_error *error)
{
    const struct ps_checkpoint_source *source = &row->source;
    uint8_t piece[PIECE_BYTES];
    if (source->read == NULL) {
        sha256_add_view(hash, ps_array_view(row, array));
        return PS_OK;
    }
    uint64_t bytes = ps_array_bytes(row, array);
    for (uint64_t done = 0; done < bytes; done += sizeof piece) {
        uint64_t left = bytes - done;
        size_t some = left < sizeof piece ? (size_t)left : sizeof piece;
        PS_TRY(source->read(source->self, array, done, piece, some, error));
        sha256_add(hash, (struct ps_bytes){piece, some});
    }
    return PS_OK;
}

/* By index, whatever the order of `states`. A selection by rising index, without sorting: there are
 * few shards, and the states are not ours to move. */
static enum ps_status add_sessions(struct sha256 *hash, const struct shard_state *states,
                                   size_t count, struct ps_error *error)
{
    uint64_t last = 0;
    for (size_t done = 0; done < count;) {
        uint64_t next = UINT64_MAX;
        for (size_t i = 0; i < count; i++)
            if (states[i].facts.index >= last && states[i].facts.index < next)
                next = states[i].facts.index;
        for (size_t i = 0; i < count; i++) {
            if (states[i].facts.index != next)
                continue;
            sha256_add_number(hash, next, 4);
            PS_TRY(session_digest_add(hash, &states[i].facts, states[i].memory, error));
            done++;
        }
        last = next + 1;
    }
    return PS_OK;
}

/* The same name twice is possible across shards that do not belong together, and of tables, of
 * which every shard has a part; by content then, as far as it goes: the order must not depend on
 * that of the shards. Ties are left to version and length, which is as far as an order is possible
 * without reading the values. */
static int compare_names(const void *a, const void *b)
{
    const struct ps_checkpoint_parameter *left = *(const struct ps_checkpoint_parameter *const *)a;
    const struct ps_checkpoint_parameter *right = *(const struct ps_checkpoint_parameter *const *)b;
    int names = ps_bytes_compare(left->name, right->name);
    if (names != 0)
        return names;
    if (left->version != right->version)
        return left->version < right->version ? -1 : 1;
    if (left->count != right->count)
        return left->count < right->count ? -1 : 1;
    return compare_first_keys(left, right);
}

/* Every shard has a part of each table under the same name, and no two of them the same key. */
static int compare_first_keys(const struct ps_checkpoint_parameter *left,
                              const struct ps_checkpoint_parameter *right)
{
    if (!left->is_table || !right->is_table || left->rows == 0 || right->rows == 0)
        return 0;
    /* Rows are sorted: the first key is the lowest. */
    uint64_t a = table_key(left, 0);
    uint64_t b = table_key(right, 0);
    return (a > b) - (a < b);
}
