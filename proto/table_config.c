/* SPDX-License-Identifier: Apache-2.0 */
/* A field more of TableConfig is a line in each of the two functions. Whether the numbers make a
 * table is judged with the rule and the type (optimizer/table_check.c). */
#include "proto/table_config.h"

#include "base/assert.h"

#include "pserver/v1/optimizer_config.pb-c.h"

#include <string.h>

/* Sets an optional field of a protobuf-c struct. */
#define SET(message, field, value_) ((message)->has_##field = 1, (message)->field = (value_))

/* Lists and texts are held to the room of the struct first: a configuration may have 64 KiB. */
enum ps_status ps_table_config_read(const Paddle__TableConfig *read,
                                    struct ps_table_settings *settings, struct ps_error *error)
{
    *settings = (struct ps_table_settings){0};
    if (read == NULL)
        return PS_OK;
    size_t clocks_size = read->clocks != NULL ? strlen(read->clocks) : 0;
    if (clocks_size >= sizeof settings->clocks)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: table.clocks: %zu bytes, %d are allowed",
                       clocks_size, PS_CLOCKS_NAME_BYTES_MAX);
    /* A table over more shards than that is cut by the hash, or by equal ranges. */
    if (read->n_bounds > PS_TABLE_BOUNDS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: table.bounds: %zu of them, %d are allowed",
                       read->n_bounds, PS_TABLE_BOUNDS_MAX);
    *settings = (struct ps_table_settings){
        .width = read->width,
        .rows_max = read->rows_max,
        .init = (enum ps_table_init)read->init,
        .low = read->low,
        .high = read->high,
        .seed = read->seed,
        .full = (enum ps_table_full)read->full,
        .admission = read->admission,
        .candidates_max = read->candidates_max,
        .expire_ms = read->expire_ms,
        .expire_clocks = read->expire_clocks,
        .partition = (enum ps_table_partition)read->partition,
        .keys_max = read->keys_max,
        .chunk = read->chunk,
        .bound_count = (uint32_t)read->n_bounds,
    };
    /* The struct's own NUL stays behind it. */
    if (clocks_size > 0)
        memcpy(settings->clocks, read->clocks, clocks_size);
    if (read->n_bounds > 0)
        memcpy(settings->bounds, read->bounds, read->n_bounds * sizeof settings->bounds[0]);
    return PS_OK;
}

/* Every field is written, also one that has its default: a reader with other defaults is told. */
Paddle__TableConfig *ps_table_config_write(const struct ps_table_settings *settings,
                                           Paddle__TableConfig *message)
{
    const char *clocks = settings->clocks;
    const uint64_t *bounds = settings->bounds;
    /* An absent message is read as no table, so none need be written. */
    if (settings->width == 0)
        return NULL;
    PS_ASSERT(settings->bound_count <= PS_TABLE_BOUNDS_MAX);
    /* With the defaults of the .proto, none of which is present and so written. */
    paddle__table_config__init(message);
    /* In the order of the .proto, whose generated struct has a flag beside each number: a field
     * that is forgotten here would come back as its default. The test compares whole structs. */
    SET(message, width, settings->width);
    SET(message, rows_max, settings->rows_max);
    SET(message, init, (Paddle__TableConfig__Init)settings->init);
    SET(message, low, settings->low);
    SET(message, high, settings->high);
    SET(message, seed, settings->seed);
    SET(message, full, (Paddle__TableConfig__Full)settings->full);
    SET(message, admission, settings->admission);
    SET(message, expire_ms, settings->expire_ms);
    SET(message, expire_clocks, settings->expire_clocks);
    SET(message, partition, (Paddle__TableConfig__Partition)settings->partition);
    SET(message, keys_max, settings->keys_max);
    SET(message, chunk, settings->chunk);
    /* Behind those of before, as the numbers of fields are. */
    SET(message, candidates_max, settings->candidates_max);
    /* Not written to: protobuf-c's pointers are not const. */
    memcpy(&message->clocks, &clocks, sizeof clocks);
    memcpy(&message->bounds, &bounds, sizeof bounds);
    message->n_bounds = settings->bound_count;
    return message;
}
