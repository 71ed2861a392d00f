/* SPDX-License-Identifier: Apache-2.0 */
/* A table is on every shard under one name, and its configuration says which keys each has. The
 * arithmetic is that of clients and servers (base/partition.h), called and not copied: a row on
 * another shard than clients ask would be lost without any error.
 *
 * A row's clock counts in versions of its shard's part. Versions of two shards have nothing to do
 * with each other, so a joined table has the highest of them, and each clock moves up by what its
 * shard was behind: a row that nobody has pushed to for a thousand versions of its part is a
 * thousand versions old afterwards, too. Which rows go when a table is full depends on that age. */
#include "tools/psckpt/table_shards.h"

#include "base/assert.h"
#include "server/core/update/parameter_settings.h"
#include "tools/psckpt/table_ages.h"
#include "tools/psckpt/table_source.h"

#include <inttypes.h>

/* The new parts, being filled. */
struct spreading {
    const struct ps_checkpoint_parameter *table;
    const struct table_source *from;
    struct shard_state *shards;
    uint32_t shard_count;
    struct table_owners owners;
    uint64_t *rows; /* of each shard */
    struct table_source **to;
};

static uint64_t count_own(const struct table_owners *owners, const struct table_part *part);
static enum ps_status source_of(struct shard_state *state,
                                const struct ps_checkpoint_parameter *table,
                                const struct table_source **source, struct ps_error *error);
static enum ps_status count_rows(struct spreading *spreading, struct ps_error *error);
static enum ps_status make_sources(struct spreading *spreading, struct ps_error *error);
static enum ps_status add_parts(struct spreading *spreading, struct ps_error *error);

/* Bounded, for messages. */
static int name_size(const struct ps_checkpoint_parameter *table)
{
    return (int)(table->name.size < 80 ? table->name.size : 80);
}

/* Two walks: the first counts, so that the list is neither too small nor twice too large. The parts
 * were compared by the caller, so the first speaks for all of them but for versions. Each part is
 * sorted, but hashed keys of two shards interleave. What two shards have of one key is no question:
 * at most one of them owns it. */
enum ps_status table_join(struct shard_state *joined, const struct table_part *parts, size_t count,
                          uint32_t shard_count, struct ps_checkpoint_parameter *row,
                          struct ps_error *error)
{
    struct ps_checkpoint_parameter table = *parts[0].row;
    struct table_owners owners;
    PS_TRY(table_owners_read(&table, shard_count, joined->memory, &owners, error));
    table.rows = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ps_checkpoint_parameter *part = parts[i].row;
        table.version = part->version > table.version ? part->version : table.version;
        table.step = part->step > table.step ? part->step : table.step;
        table.rows += count_own(&owners, &parts[i]);
    }
    table.count = table.rows * table.width;
    PS_TRY(table_ages_join(joined, parts, count, &owners.settings, &table, error));
    struct table_source *source =
        table_source_make(joined, parts, count, table.version, table.rows, error);
    if (source == NULL)
        return PS_ERR_NO_MEMORY;
    PS_TRY(table_source_merge(source, &owners, joined->memory, error));
    PS_ASSERT(source->rows == table.rows);
    table.source = table_source_of(source);
    *row = table;
    return PS_OK;
}

/* The settings as a server reads them, with every check that it makes. A file may say of itself
 * that it is a table while its configuration says otherwise: then nobody can tell whose keys they
 * are. */
enum ps_status table_owners_read(const struct ps_checkpoint_parameter *table, uint32_t shard_count,
                                 const struct ps_allocator *memory, struct table_owners *owners,
                                 struct ps_error *error)
{
    struct ps_optimizer_settings settings;
    struct ps_error why = {0};
    enum ps_status status =
        ps_parameter_settings_read(table->config, table->dtype, memory, &settings, &why);
    if (status == PS_OK && settings.table.width != table->width)
        status = ps_fail(&why, PS_ERR_CORRUPT, "its configuration is of width %" PRIu32,
                         settings.table.width);
    if (status == PS_OK) {
        owners->settings = settings.table;
        owners->partition =
            (struct ps_partition){.kind = (enum ps_partition_kind)settings.table.partition,
                                  .shard_count = shard_count,
                                  .keys_max = settings.table.keys_max,
                                  .chunk = settings.table.chunk,
                                  .bounds = owners->settings.bounds,
                                  .bound_count = settings.table.bound_count};
        status = ps_partition_check(&owners->partition, &why);
    }
    if (status != PS_OK)
        return ps_fail(error, status, "table %.*s: %.120s", name_size(table),
                       (const char *)table->name.data, why.text);
    return PS_OK;
}

/* A server keeps whatever it is sent of hashed keys, so there may be some of others. */
static uint64_t count_own(const struct table_owners *owners, const struct table_part *part)
{
    uint64_t count = 0;
    for (uint64_t row = 0; row < part->row->rows; row++)
        count += table_source_is_own(owners, part, row);
    return count;
}

/* Three walks over the keys' hashes would be one too many for a table of a hundred million rows:
 * one counts, so that each part has just the list it needs, and one fills the lists. */
enum ps_status table_spread(const struct ps_checkpoint_parameter *table, struct shard_state *shards,
                            uint32_t shard_count, struct ps_error *error)
{
    struct spreading spreading = {.table = table, .shards = shards, .shard_count = shard_count};
    /* In a room of the first shard, since all of them are released together. */
    spreading.rows = shard_state_room(&shards[0], shard_count, sizeof *spreading.rows, error);
    spreading.to = shard_state_room(&shards[0], shard_count, sizeof(struct table_source *), error);
    if (spreading.rows == NULL || spreading.to == NULL)
        return PS_ERR_NO_MEMORY;
    PS_TRY(table_owners_read(table, shard_count, shards[0].memory, &spreading.owners, error));
    PS_TRY(source_of(&shards[0], table, &spreading.from, error));
    PS_TRY(count_rows(&spreading, error));
    PS_TRY(make_sources(&spreading, error));
    /* Rows come to each shard in the order of their keys, so nothing is sorted. */
    for (uint64_t row = 0; row < table->rows; row++) {
        uint64_t key = table_source_key(spreading.from, row);
        struct table_source *to =
            spreading.to[ps_partition_shard(&spreading.owners.partition, key)];
        to->places[to->rows++] = spreading.from->places[row];
    }
    return add_parts(&spreading, error);
}

/* A joined table's own, or one of the single part that a table in arrays is, as those that were
 * imported: behind this both are one. The number of that part's shard does not matter, since all of
 * its rows are asked for. */
static enum ps_status source_of(struct shard_state *state,
                                const struct ps_checkpoint_parameter *table,
                                const struct table_source **source, struct ps_error *error)
{
    if (table->source.read != NULL) {
        *source = table->source.self;
        return PS_OK;
    }
    struct table_part *part = shard_state_room(state, 1, sizeof *part, error);
    if (part == NULL)
        return PS_ERR_NO_MEMORY;
    part->row = table;
    struct table_source *made =
        table_source_make(state, part, 1, table->version, table->rows, error);
    *source = made;
    return made != NULL ? table_source_merge(made, NULL, state->memory, error) : PS_ERR_NO_MEMORY;
}

/* A range partition has no shard for keys that were let in before it was made smaller. */
static enum ps_status count_rows(struct spreading *spreading, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *table = spreading->table;
    for (uint64_t row = 0; row < table->rows; row++) {
        uint64_t key = table_source_key(spreading->from, row);
        uint32_t shard = ps_partition_shard(&spreading->owners.partition, key);
        if (shard >= spreading->shard_count)
            return ps_fail(error, PS_ERR_CORRUPT, "table %.*s: no shard has the key %" PRIu64,
                           name_size(table), (const char *)table->name.data, key);
        spreading->rows[shard]++;
    }
    return PS_OK;
}

/* A limit that was lowered leaves a shard with more rows than it says, which go as pushes come, or
 * stay (row_evict.h): so a shard may have as many as the fullest of before. A table that comes of
 * no shard has the limit alone. */
static uint64_t rows_allowed(const struct spreading *spreading)
{
    uint64_t allowed = spreading->owners.settings.rows_max;
    bool is_joined = spreading->table->source.read != NULL;
    for (size_t i = 0; is_joined && i < spreading->from->part_count; i++) {
        uint64_t rows = spreading->from->parts[i].row->rows;
        allowed = rows > allowed ? rows : allowed;
    }
    return allowed;
}

/* A server would load more rows than the limit, and then let rows go that nobody has given up:
 * fewer shards have room for fewer. */
static enum ps_status make_sources(struct spreading *spreading, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *table = spreading->table;
    const struct table_source *from = spreading->from;
    uint64_t rows_max = spreading->owners.settings.rows_max;
    uint64_t allowed = rows_allowed(spreading);
    for (uint32_t i = 0; i < spreading->shard_count; i++) {
        uint64_t rows = spreading->rows[i];
        if (rows_max > 0 && rows > allowed)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "table %.*s: shard %" PRIu32 " would have %" PRIu64
                           " rows, and rows_max is %" PRIu64 ": give it more (psctl set) first",
                           name_size(table), (const char *)table->name.data, i, rows, rows_max);
        spreading->to[i] = table_source_make(&spreading->shards[i], from->parts, from->part_count,
                                             from->version, rows, error);
        if (spreading->to[i] == NULL)
            return PS_ERR_NO_MEMORY;
    }
    return PS_OK;
}

/* The number, the configuration and the name are the same on every shard, as the clients that
 * defined the table sent them. So are version and ages: clocks were moved up to them when the table
 * was joined. */
static enum ps_status add_parts(struct spreading *spreading, struct ps_error *error)
{
    for (uint32_t i = 0; i < spreading->shard_count; i++) {
        struct ps_checkpoint_parameter part = *spreading->table;
        part.rows = spreading->rows[i];
        part.count = part.rows * part.width;
        /* Positions are of one shard: in another one the table is as old as the shard. */
        part.birth = 0;
        part.source = table_source_of(spreading->to[i]);
        PS_TRY(shard_state_add(&spreading->shards[i], &part, error));
    }
    return PS_OK;
}
