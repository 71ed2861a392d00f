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

#include "server/core/update/parameter_settings.h"
#include "tools/psckpt/parameter_room.h"
#include "tools/psckpt/table_ages.h"
#include "tools/psckpt/table_rows.h"

#include <inttypes.h>
#include <string.h>

/* The new parts, being filled. */
struct spreading {
    const struct ps_checkpoint_parameter *table;
    struct shard_state *shards;
    uint32_t shard_count;
    struct table_owners owners;
    struct ps_checkpoint_parameter *rows; /* of each shard one */
    struct parameter_room *rooms;
    uint64_t *filled; /* rows so far */
};

static uint64_t count_own(const struct table_owners *owners, const struct table_part *part);
static uint64_t join_part(const struct parameter_room *room, uint64_t at,
                          const struct table_owners *owners, const struct table_part *part,
                          uint64_t version);
static void copy_row(const struct parameter_room *room, uint64_t at,
                     const struct ps_checkpoint_parameter *from, uint64_t row);
static void move_clock(const struct parameter_room *room, uint64_t at, uint64_t versions);
static enum ps_status count_rows(struct spreading *spreading, struct ps_error *error);
static enum ps_status make_rooms(struct spreading *spreading, struct ps_error *error);
static enum ps_status add_parts(struct spreading *spreading, struct ps_error *error);

/* Bounded, for messages. */
static int name_size(const struct ps_checkpoint_parameter *table)
{
    return (int)(table->name.size < 80 ? table->name.size : 80);
}

/* Two walks: the first counts, so that the room is neither too small nor twice too large. The parts
 * were compared by the caller, so the first speaks for all of them but for versions. */
enum ps_status table_join(struct shard_state *joined, const struct table_part *parts, size_t count,
                          uint32_t shard_count, struct ps_checkpoint_parameter *row,
                          struct ps_error *error)
{
    struct ps_checkpoint_parameter table = *parts[0].row;
    struct parameter_room room;
    struct table_owners owners;
    uint64_t at = 0;
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
    PS_TRY(parameter_room_make(&room, joined, &table, error));
    for (size_t i = 0; i < count; i++)
        at = join_part(&room, at, &owners, &parts[i], table.version);
    /* Each part is sorted, but hashed keys of two shards interleave. What two shards have of one
     * key is no question any more: at most one of them owns it. */
    PS_TRY(parameter_room_settle(&room, &table, joined->memory, &table, error));
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

/* Asked of each row twice: a hash costs less than a list of answers would. */
static bool is_own(const struct table_owners *owners, const struct table_part *part, uint64_t row)
{
    return ps_partition_shard(&owners->partition, table_key(part->row, row)) == part->shard;
}

/* A server keeps whatever it is sent of hashed keys, so there may be some of others. */
static uint64_t count_own(const struct table_owners *owners, const struct table_part *part)
{
    uint64_t count = 0;
    for (uint64_t row = 0; row < part->row->rows; row++)
        count += is_own(owners, part, row);
    return count;
}

/* Returns the place behind the last row. */
static uint64_t join_part(const struct parameter_room *room, uint64_t at,
                          const struct table_owners *owners, const struct table_part *part,
                          uint64_t version)
{
    for (uint64_t row = 0; row < part->row->rows; row++) {
        if (!is_own(owners, part, row))
            continue;
        /* A shard whose version is the highest has its clocks as they are. */
        copy_row(room, at, part->row, row);
        move_clock(room, at, version - part->row->version);
        at++;
    }
    return at;
}

/* All that the row has, in every array. */
static void copy_row(const struct parameter_room *room, uint64_t at,
                     const struct ps_checkpoint_parameter *from, uint64_t row)
{
    for (uint32_t array = 0; array < room->count; array++) {
        size_t bytes = table_row_bytes(from, array);
        memcpy(room->arrays[array] + at * bytes, table_array(from, array) + row * bytes, bytes);
    }
}

/* Clocks are the low bits of versions, and wrap as those do. A row that is older than 2^32 versions
 * looks younger than it is, here as on a server. */
static void move_clock(const struct parameter_room *room, uint64_t at, uint64_t versions)
{
    uint8_t *place = room->arrays[room->count - 1] + at * sizeof(uint32_t);
    uint32_t clock;
    memcpy(&clock, place, sizeof clock);
    clock += (uint32_t)versions;
    memcpy(place, &clock, sizeof clock);
}

/* Three walks over the keys' hashes would be one too many for a table of a hundred million rows:
 * one counts, so that each part has just the room it needs, and one copies. */
enum ps_status table_spread(const struct ps_checkpoint_parameter *table, struct shard_state *shards,
                            uint32_t shard_count, struct ps_error *error)
{
    struct spreading spreading = {.table = table, .shards = shards, .shard_count = shard_count};
    /* In a room of the first shard, since all of them are released together. */
    spreading.rows = shard_state_room(&shards[0], shard_count, sizeof *spreading.rows, error);
    spreading.rooms = shard_state_room(&shards[0], shard_count, sizeof *spreading.rooms, error);
    spreading.filled = shard_state_room(&shards[0], shard_count, sizeof *spreading.filled, error);
    if (spreading.rows == NULL || spreading.rooms == NULL || spreading.filled == NULL)
        return PS_ERR_NO_MEMORY;
    /* What can be refused comes before the first row is copied. */
    PS_TRY(table_owners_read(table, shard_count, shards[0].memory, &spreading.owners, error));
    PS_TRY(count_rows(&spreading, error));
    PS_TRY(make_rooms(&spreading, error));
    for (uint64_t row = 0; row < table->rows; row++) {
        uint32_t shard = ps_partition_shard(&spreading.owners.partition, table_key(table, row));
        copy_row(&spreading.rooms[shard], spreading.filled[shard]++, table, row);
    }
    return add_parts(&spreading, error);
}

/* A range partition has no shard for keys that were let in before it was made smaller. */
static enum ps_status count_rows(struct spreading *spreading, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *table = spreading->table;
    for (uint64_t row = 0; row < table->rows; row++) {
        uint64_t key = table_key(table, row);
        uint32_t shard = ps_partition_shard(&spreading->owners.partition, key);
        if (shard >= spreading->shard_count)
            return ps_fail(error, PS_ERR_CORRUPT, "table %.*s: no shard has the key %" PRIu64,
                           name_size(table), (const char *)table->name.data, key);
        spreading->rows[shard].rows++;
    }
    return PS_OK;
}

/* What is refused here would be refused by the server that loads the file. */
static enum ps_status make_rooms(struct spreading *spreading, struct ps_error *error)
{
    const struct ps_checkpoint_parameter *table = spreading->table;
    uint64_t rows_max = spreading->owners.settings.rows_max;
    for (uint32_t i = 0; i < spreading->shard_count; i++) {
        struct ps_checkpoint_parameter *row = &spreading->rows[i];
        uint64_t rows = row->rows;
        if (rows_max > 0 && rows > rows_max)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "table %.*s: shard %" PRIu32 " would have %" PRIu64
                           " rows, and rows_max is %" PRIu64 ": give it more (psctl set) first",
                           name_size(table), (const char *)table->name.data, i, rows, rows_max);
        /* The number, the configuration and the name are the same on every shard, as the clients
         * that defined the table sent them. */
        *row = *table;
        row->rows = rows;
        row->count = rows * table->width;
        /* Positions are of one shard: in another one the table is as old as the shard. */
        row->birth = 0;
        PS_TRY(parameter_room_make(&spreading->rooms[i], &spreading->shards[i], row, error));
    }
    return PS_OK;
}

/* Rows of a sorted table come to each shard in order, so nothing is sorted again. */
static enum ps_status add_parts(struct spreading *spreading, struct ps_error *error)
{
    for (uint32_t i = 0; i < spreading->shard_count; i++)
        PS_TRY(parameter_room_add(&spreading->rooms[i], &spreading->shards[i], &spreading->rows[i],
                                  error));
    return PS_OK;
}
