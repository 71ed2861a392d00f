/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: a table that is kept up to date here, and read without asking anybody. Each server's
 * rows are a part of the replica (client/replica/replica_rows.h); the pull itself is that of every
 * replica (psclient_replica.c). */
#include "client/replica_handle.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "base/utf8.h"
#include "client/caller_structs.h"
#include "client/replica/replica_rows.h"
#include "client/status_map.h"
#include "client/table_state.h"

#include <stdio.h>
#include <string.h>

/* ---- Opening ---- */

/* One part for each server, as every server has some of the rows. The rows are the replica's from
 * where they are added. */
static enum ps_status make_parts(struct psclient_replica *handle, struct ps_error *error)
{
    struct psclient *client = handle->client;
    const struct psclient_table *table = handle->table;
    PS_ASSERT(client->shard_count > 0 && handle->replica == NULL);
    /* Behind this the handle ends what was made, whatever fails. */
    PS_TRY(ps_replica_create(client->memory, client->shard_count, &handle->replica, error));
    for (uint32_t i = 0; i < client->shard_count; i++) {
        struct ps_replica_part part = {
            .name = ps_bytes_of_text(table->name), .shard = i, .dtype = table->dtype};
        part.rows = ps_replica_rows_create(client->memory, &table->settings, table->dtype);
        if (part.rows == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a replica of a table");
        enum ps_status status = ps_replica_add(handle->replica, &part, error);
        if (status != PS_OK) {
            ps_replica_rows_destroy(part.rows);
            return status;
        }
    }
    return PS_OK;
}

/* The table is asked for as by psclient_table_open: the replica needs its width, what rows begin
 * with, and which server has a key. */
PS_EXPORT int psclient_replica_open_table(struct psclient *client, const char *name,
                                          uint64_t timeout_ms, struct psclient_replica **out,
                                          struct psclient_error *error)
{
    struct ps_error why = {.status = PS_ERR_NO_MEMORY, .text = "no memory for a replica"};
    struct psclient_replica *handle = ps_zeroed(client->memory, sizeof *handle);
    if (handle == NULL)
        return ps_client_fail(error, why.status, why.text);
    handle->client = client;
    int result = psclient_table_open(client, name, timeout_ms, &handle->table, error);
    if (result == PSCLIENT_OK && make_parts(handle, &why) != PS_OK)
        result = ps_client_fail(error, why.status, why.text);
    if (result != PSCLIENT_OK) {
        psclient_replica_close(handle);
        return result;
    }
    *out = handle;
    return ps_client_succeed(error);
}

/* ---- Reading ---- */

/* Whose keys are whose: the numbers of the keys, those of one server together, so that the lock of
 * a server's rows is taken once in a call. */
struct sorted {
    size_t *order;
    size_t *begins; /* of each server's in `order`, and one more */
};

/* One allocation; NULL is what it was refused as. Servers are counted first, then each key goes to
 * the next place of its own. */
static enum ps_status sort_keys(const struct psclient_replica *handle, const uint64_t *keys,
                                size_t count, struct sorted *sorted, struct ps_error *error)
{
    const struct psclient_table *table = handle->table;
    const uint32_t shards = handle->client->shard_count;
    size_t *memory = ps_zeroed_array(handle->client->memory, count + shards + 2, sizeof *memory);
    PS_ASSERT(shards > 0);
    if (memory == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to read %zu rows", count);
    size_t *begins = memory;
    size_t *order = memory + shards + 2;
    for (size_t i = 0; i < count; i++) {
        uint32_t shard = ps_partition_shard(&table->partition, keys[i]);
        if (shard >= shards) {
            ps_release(handle->client->memory, memory);
            return ps_fail(error, PS_ERR_BAD_INPUT, "table %.100s: no server has the key %llu",
                           table->name, (unsigned long long)keys[i]);
        }
        /* Two further than it will stand in the end, to leave room for both steps below. */
        begins[shard + 2]++;
    }
    for (uint32_t shard = 0; shard < shards; shard++)
        begins[shard + 2] += begins[shard + 1];
    /* Two places further until each has been filled: then begins[s + 1] is the end of s. */
    for (size_t i = 0; i < count; i++)
        order[begins[ps_partition_shard(&table->partition, keys[i]) + 1]++] = i;
    *sorted = (struct sorted){order, begins};
    return PS_OK;
}

/* Beside a pull, and beside other reads: nothing is asked but which rows are here. Servers are
 * looked at one after the other, so that the rows of two of them may be of two moments, as those
 * of a get are. */
PS_EXPORT int psclient_replica_get(struct psclient_replica *handle, const uint64_t *keys,
                                   size_t count, void *rows, struct psclient_error *error)
{
    struct sorted sorted = {0};
    struct ps_error why = {.status = PS_OK};
    bool is_complete = true;
    if (handle->table == NULL)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "the replica is not one of a table");
    enum ps_status status = sort_keys(handle, keys, count, &sorted, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    /* Every part is asked, also for no keys at all: an answer is of a replica that is complete. */
    for (size_t i = 0; i < handle->replica->part_count; i++)
        is_complete = ps_replica_rows_get(handle->replica->parts[i].rows, keys,
                                          sorted.order + sorted.begins[i],
                                          sorted.begins[i + 1] - sorted.begins[i], rows) &&
                      is_complete;
    ps_release(handle->client->memory, sorted.begins);
    if (!is_complete)
        return ps_client_fail(error, PS_ERR_NOT_READY, "the replica has not been pulled yet");
    return ps_client_succeed(error);
}

/* One server's behind the other's. What has no room is counted all the same, so that a caller knows
 * how much to make. */
PS_EXPORT int psclient_replica_keys(struct psclient_replica *handle, uint64_t *keys,
                                    size_t keys_max, uint64_t *count, struct psclient_error *error)
{
    uint64_t all = 0;
    bool is_complete = true;
    if (handle->table == NULL)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "the replica is not one of a table");
    for (size_t i = 0; i < handle->replica->part_count; i++) {
        uint64_t held = 0;
        size_t left = all < keys_max ? keys_max - (size_t)all : 0;
        is_complete = ps_replica_rows_keys(handle->replica->parts[i].rows,
                                           left > 0 ? keys + all : NULL, left, &held) &&
                      is_complete;
        all += held;
    }
    if (!is_complete)
        return ps_client_fail(error, PS_ERR_NOT_READY, "the replica has not been pulled yet");
    *count = all;
    return ps_client_succeed(error);
}

/* Each server's part has a lock of its own: a sum while a pull is at work is of no one moment. */
PS_EXPORT uint64_t psclient_replica_rows(const struct psclient_replica *handle)
{
    uint64_t rows = 0;
    for (size_t i = 0; handle->table != NULL && i < handle->replica->part_count; i++)
        rows += ps_replica_rows_count(handle->replica->parts[i].rows);
    return rows;
}

/* What a caller needs to make room for rows; it never changes. */
PS_EXPORT size_t psclient_replica_row_bytes(const struct psclient_replica *handle)
{
    return handle->table != NULL ? handle->table->row_bytes : 0;
}

/* ---- The end of a pull ---- */

/* A full copy may be one of another table of this name, in which rows begin otherwise. Asked behind
 * the copy: if the table is exchanged once more in between, its rows come whole with the next pull,
 * and it is asked for then. */
static int describe_again(struct psclient_replica *handle, uint64_t deadline_ms,
                          struct psclient_error *error)
{
    struct ps_replica *replica = handle->replica;
    uint64_t copies = replica->counters.copies + replica->counters.anchors;
    struct psclient_table *now = NULL;
    if (copies == handle->described)
        return PSCLIENT_OK;
    int result =
        psclient_table_open(handle->client, handle->table->name,
                            ps_time_left_ms(handle->client->clock, deadline_ms), &now, error);
    if (result != PSCLIENT_OK)
        return result;
    /* Of another shape its rows do not go into the memory of this one: the parts have said so
     * already, but for a table without any row. */
    bool is_same = now->width == handle->table->width && now->dtype == handle->table->dtype;
    for (size_t i = 0; is_same && i < replica->part_count; i++)
        ps_replica_rows_describe(replica->parts[i].rows, &now->settings);
    psclient_table_close(now);
    if (!is_same)
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "the table has become another one");
    handle->described = copies;
    return PSCLIENT_OK;
}

/* The lowest version counts, and the first part that failed says why. A part that was refused until
 * the deadline is still stale, and has kept the last reason. */
int ps_replica_rows_tell(struct psclient_replica *handle, uint64_t deadline_ms,
                         struct psclient_result *results, struct psclient_error *error)
{
    const struct ps_replica *replica = handle->replica;
    struct psclient_result result = {.status = PSCLIENT_OK, .version = UINT64_MAX};
    const struct ps_replica_part *failed = NULL;
    PS_ASSERT(handle->table != NULL && replica->part_count > 0);
    for (size_t i = 0; i < replica->part_count; i++) {
        const struct ps_replica_part *part = &replica->parts[i];
        uint64_t version = part->version > 0 ? part->version - 1 : 0;
        result.version = version < result.version ? version : result.version;
        if (failed == NULL && part->state != PS_PART_FRESH)
            failed = part;
    }
    /* Where parts have failed the servers are not asked again: what they said is the result. */
    struct psclient_error why = {.status = PSCLIENT_OK};
    if (failed != NULL) {
        char text[256];
        snprintf(text, sizeof text, "table %.100s: %s", handle->table->name, failed->text);
        result.status = (enum psclient_status)ps_client_fail(
            &why, failed->status != PS_OK ? failed->status : PS_ERR_UNAVAILABLE, text);
    } else {
        result.status = (enum psclient_status)describe_again(handle, deadline_ms, &why);
    }
    ps_utf8_shorten(result.text, sizeof result.text, why.text);
    if (results != NULL)
        ps_caller_copy(results, handle->client->sizes.result, &result, sizeof result);
    if (error != NULL)
        *error = why;
    return (int)result.status;
}
