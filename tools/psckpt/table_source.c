/* SPDX-License-Identifier: Apache-2.0 */
/* A table may be most of a machine's memory, and it lies there already: in the states that were
 * loaded, where each part is sorted by key. Of a joined table, and of its parts on other shards,
 * all that is made is the order of the rows. They are read from the first to the last, and so is
 * then every part: two pieces of memory that are asked for one behind the other are neighbours, or
 * each is a neighbour of what was asked for just before.
 *
 * Whoever wants the rows in arrays, to compare or to export them, copies them with the source, as
 * those of a server's snapshot are copied (parameter_room.h).
 *
 * A row's clock counts in versions of its part (table_shards.c), and moves up as it is read. */
#include "tools/psckpt/table_source.h"

#include "base/assert.h"
#include "tools/psckpt/table_rows.h"

#include <string.h>

/* A place has the row in these bits, and the part above. */
#define ROW_BITS 40
#define ROW_MASK (((uint64_t)1 << ROW_BITS) - 1)

/* The next row of a part. */
struct head {
    uint64_t key;
    uint64_t part;
    uint64_t row;
};

static bool seek(const struct table_source *source, const struct table_owners *owners,
                 struct head *head);
static void sift_down(struct head *heads, size_t count, size_t at);
static enum ps_status read_rows(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error);

/* The space for places is of the exact size, since whoever makes a source has counted its rows
 * for the head of the file. It is filled by a merge, or place by place out of another
 * source, and `rows` says how far. */
struct table_source *table_source_make(struct shard_state *state, const struct table_part *parts,
                                       size_t part_count, uint64_t version, uint64_t rows,
                                       struct ps_error *error)
{
    PS_ASSERT(part_count > 0 && part_count <= UINT64_MAX >> ROW_BITS);
    struct table_source *source = shard_state_room(state, 1, sizeof *source, error);
    uint64_t *places = shard_state_room(state, (size_t)rows, sizeof *places, error);
    if (source == NULL || places == NULL)
        return NULL;
    *source = (struct table_source){
        .parts = parts, .part_count = part_count, .version = version, .places = places};
    return source;
}

/* The lowest key of all parts' next ones, again and again: a heap of one row for each part. Sorting
 * all keys at once would take 32 bytes for each row meanwhile, nearly half of a narrow table, and
 * took four fifths of the time of a reshard. */
enum ps_status table_source_merge(struct table_source *source, const struct table_owners *owners,
                                  const struct ps_allocator *memory, struct ps_error *error)
{
    size_t count = 0;
    struct head *heads = ps_zeroed_array(memory, source->part_count, sizeof *heads);
    if (heads == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to join %zu parts of a table",
                       source->part_count);
    for (size_t i = 0; i < source->part_count; i++) {
        heads[count] = (struct head){.part = i};
        count += seek(source, owners, &heads[count]) ? 1 : 0;
    }
    for (size_t i = count; i > 0; i--)
        sift_down(heads, count, i - 1);
    while (count > 0) {
        source->places[source->rows++] = heads[0].part << ROW_BITS | heads[0].row;
        heads[0].row++;
        /* A part that has no more gives its place to the last. */
        if (!seek(source, owners, &heads[0]))
            heads[0] = heads[--count];
        sift_down(heads, count, 0);
    }
    ps_release(memory, heads);
    return PS_OK;
}

/* Asked of each row twice, by whoever counts and by whoever merges: a hash costs less than a list
 * of answers would. */
bool table_source_is_own(const struct table_owners *owners, const struct table_part *part,
                         uint64_t row)
{
    return ps_partition_shard(&owners->partition, table_key(part->row, row)) == part->shard;
}

/* From the row that the head is at, which may be one that its shard does not own: false behind the
 * last one. */
static bool seek(const struct table_source *source, const struct table_owners *owners,
                 struct head *head)
{
    const struct table_part *part = &source->parts[head->part];
    PS_ASSERT(part->row->rows <= ROW_MASK);
    while (head->row < part->row->rows && owners != NULL &&
           !table_source_is_own(owners, part, head->row))
        head->row++;
    if (head->row == part->row->rows)
        return false;
    head->key = table_key(part->row, head->row);
    return true;
}

/* The head at `at` may be above lower ones; all others stand right. */
static void sift_down(struct head *heads, size_t count, size_t at)
{
    for (;;) {
        size_t lowest = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            lowest = heads[child].key < heads[lowest].key ? child : lowest;
        if (lowest == at)
            return;
        struct head head = heads[at];
        heads[at] = heads[lowest];
        heads[lowest] = head;
        at = lowest;
    }
}

/* Where whoever deals the rows of a table to other shards learns whose they are; a place is then
 * good in the new source, which has the same parts. */
uint64_t table_source_key(const struct table_source *source, uint64_t row)
{
    PS_ASSERT(row < source->rows);
    uint64_t place = source->places[row];
    return table_key(source->parts[place >> ROW_BITS].row, place & ROW_MASK);
}

struct ps_checkpoint_source table_source_of(struct table_source *source)
{
    return (struct ps_checkpoint_source){read_rows, source};
}

/* Clocks are the low bits of versions, and wrap as those do. A row that is older than 2^32 versions
 * looks younger than it is, here as on a server. */
static uint32_t clock_of(const struct table_source *source, const struct table_part *part,
                         const uint8_t *at)
{
    uint32_t clock;
    memcpy(&clock, at, sizeof clock);
    PS_ASSERT(part->row->version <= source->version);
    return clock + (uint32_t)(source->version - part->row->version);
}

/* The first row may be begun in its middle, and the last one left in its own: a writer asks for
 * whole rows of large tables, and of small ones for as much as its buffer has room for. */
static enum ps_status read_rows(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error)
{
    const struct table_source *source = self;
    const struct ps_checkpoint_parameter *first = source->parts[0].row;
    const size_t bytes = table_row_bytes(first, array);
    const bool is_clock = array + 1 == ps_array_count(first);
    uint64_t row = offset / bytes;
    size_t skipped = (size_t)(offset % bytes);
    (void)error;
    for (uint8_t *at = to; size > 0; row++) {
        PS_ASSERT(row < source->rows);
        const struct table_part *part = &source->parts[source->places[row] >> ROW_BITS];
        const uint8_t *from =
            table_array(part->row, array) + (source->places[row] & ROW_MASK) * bytes;
        size_t some = bytes - skipped < size ? bytes - skipped : size;
        uint32_t clock = is_clock ? clock_of(source, part, from) : 0;
        memcpy(at, (is_clock ? (const uint8_t *)&clock : from) + skipped, some);
        at += some;
        size -= some;
        skipped = 0;
    }
    return PS_OK;
}
