/* SPDX-License-Identifier: Apache-2.0 */
/* A table as this client knows it: made of the configuration that the servers have, so that all
 * clients of a job agree on which server has a key. */
#include "client/table_state.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/row_hash.h"
#include "proto/optimizer_config.h"
#include "proto/wire.h"

#include <string.h>

/* Field numbers of optimizer_config.proto. */
enum { FIELD_TABLE = 212, FIELD_BOUNDS = 14 };

/* Room for every field at its longest. */
enum { TABLE_BYTES_MAX = 512 + 10 * PS_TABLE_BOUNDS_MAX };

/* Zeros are left out, and are what the message says without them: but for the chunk, which is 1
 * then, as 0 is meant here. Field numbers are those of TableConfig. */
static void put_fields(struct ps_buffer *message, const struct psclient_table_options *options)
{
    ps_wire_put_uint(message, 1, options->width);
    ps_wire_put_uint(message, 2, options->rows_max);
    ps_wire_put_uint(message, 3, (uint64_t)options->init);
    ps_wire_put_double(message, 4, options->low);
    ps_wire_put_double(message, 5, options->high);
    ps_wire_put_uint(message, 6, options->seed);
    ps_wire_put_uint(message, 7, (uint64_t)options->full);
    ps_wire_put_uint(message, 8, options->admission);
    ps_wire_put_uint(message, 9, options->expire_ms);
    ps_wire_put_uint(message, 10, options->expire_clocks);
    ps_wire_put_text(message, 11, options->clocks);
    ps_wire_put_uint(message, 12, (uint64_t)options->partition);
    ps_wire_put_uint(message, 13, options->keys_max);
    ps_wire_put_uint(message, 15, options->chunk);
    /* Of no use without an admission, and refused by the servers then: here it is only told, so
     * that the reason is theirs and the same for every client. */
    ps_wire_put_uint(message, 16, options->candidates_max);
}

/* Packed, since a bound of 0 is one, too: one by one, zeros would be left out, and the bounds
 * behind them would be those of other servers. */
static void put_bounds(struct ps_buffer *message, const struct psclient_table_options *options)
{
    char room[10 * PS_TABLE_BOUNDS_MAX];
    struct ps_buffer bounds;
    ps_buffer_init_fixed(&bounds, room, sizeof room);
    for (size_t i = 0; i < options->bound_count; i++)
        ps_wire_put_packed(&bounds, options->bounds[i]);
    message->failed = message->failed || bounds.failed;
    ps_wire_put_bytes(message, FIELD_BOUNDS,
                      (struct ps_bytes){(const uint8_t *)bounds.text, bounds.size});
}

/* The message is written aside: its length comes before it. Behind a rule's configuration it is one
 * message with that: protobuf joins what is written one behind the other. */
void ps_table_wish_encode(const struct psclient_table_options *options, struct ps_buffer *config)
{
    char room[TABLE_BYTES_MAX];
    struct ps_buffer message;
    PS_ASSERT(options->width > 0);
    ps_buffer_init_fixed(&message, room, sizeof room);
    put_fields(&message, options);
    put_bounds(&message, options);
    config->failed = config->failed || message.failed;
    ps_wire_put_bytes(config, FIELD_TABLE,
                      (struct ps_bytes){(const uint8_t *)message.text, message.size});
}

/* The partition of the settings, whose bounds are copied: the settings do not live as long. */
static void take_partition(struct psclient_table *table, const struct ps_table_settings *settings)
{
    /* The same numbers under two names: base/partition.h knows nothing of configurations. */
    _Static_assert((int)PS_TABLE_RANGE == (int)PS_PARTITION_RANGE &&
                       (int)PS_TABLE_GIVEN == (int)PS_PARTITION_GIVEN,
                   "one number for each");
    table->settings = *settings;
    table->partition = (struct ps_partition){.kind = (enum ps_partition_kind)settings->partition,
                                             .shard_count = table->client->shard_count,
                                             .keys_max = settings->keys_max,
                                             .chunk = settings->chunk,
                                             .bounds = table->settings.bounds,
                                             .bound_count = settings->bound_count};
}

/* As the servers do it: gradients that are one when they leave must be what they would have become
 * there. A rule of a later version sums, as nearly all do. */
static enum ps_row_repeats repeats_of(const struct ps_optimizer_config *config)
{
    enum ps_rule rule;
    return ps_rule_from_name(config->optimizer, &rule) ? ps_row_repeats_of(rule) : PS_ROW_SUM;
}

/* What the table's options have in common with what the servers tell is the configuration, so that
 * a table that was defined and one that was opened are made in one way. */
enum ps_status ps_table_create(struct psclient *client, struct ps_bytes name, enum ps_dtype dtype,
                               struct ps_bytes bytes, struct psclient_table **out,
                               struct ps_error *error)
{
    struct ps_optimizer_config config;
    /* Of the rule a client asks one thing (repeats_of): all else is between caller and server. */
    PS_TRY(ps_optimizer_config_decode(bytes, client->memory, &config, error));
    if (config.table.width == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "parameter %.*s is not a table", (int)name.size,
                       (const char *)name.data);
    /* The width is of the other side, and is multiplied. */
    if (config.table.width > PS_TABLE_WIDTH_MAX || (unsigned)dtype >= PS_DTYPE_COUNT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "table %.*s: a width of %u", (int)name.size,
                       (const char *)name.data, (unsigned)config.table.width);
    struct psclient_table *table = ps_zeroed(client->memory, sizeof *table);
    if (table == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a table");
    /* What release needs comes first: a table that fails below is destroyed like any other. */
    table->client = client;
    ps_mutex_init(&table->mutex, PS_RANK_LEAF);
    table->dtype = dtype;
    table->width = config.table.width;
    table->row_bytes = table->width * ps_dtype_size(dtype);
    table->seed = ps_row_order_seed(ps_hash_fnv1a32(name));
    table->repeats = repeats_of(&config);
    take_partition(table, &config.table);
    /* Bounds for another number of servers would send keys where nobody keeps them. */
    enum ps_status status = ps_partition_check(&table->partition, error);
    table->name = ps_copy_text(client->memory, name.data, name.size);
    /* Zeros: no server was read from. */
    table->rounds = ps_zeroed_array(client->memory, client->shard_count, sizeof *table->rounds);
    if (status == PS_OK && (table->name == NULL || table->rounds == NULL))
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a table");
    if (status == PS_OK)
        *out = table;
    else
        ps_table_destroy(table);
    return status;
}

/* Of a table that was made half-way, too. */
void ps_table_destroy(struct psclient_table *table)
{
    if (table == NULL)
        return;
    const struct ps_allocator *memory = table->client->memory;
    ps_row_cache_destroy(table->cache);
    ps_mutex_fini(&table->mutex);
    ps_release(memory, table->rounds);
    ps_release(memory, table->name);
    ps_release(memory, table);
}
