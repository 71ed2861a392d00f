/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: rows that are read ahead. A batch with one item for each server, begun here and
 * ended later: the pieces, the answers' order and the deadline are as in psclient_rows.c. */
#include "client/psclient.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "client/row_cut.h"
#include "client/status_map.h"
#include "client/table_state.h"

#include <string.h>

struct psclient_rows_ahead {
    struct psclient_table *table; /* borrowed */
    struct ps_client_job job;
    struct ps_row_cut cut;
    struct ps_item *items; /* owned; one for each server */
    uint8_t *answers;      /* owned: in the order of the cut */
    void *rows;            /* the caller's */
    char clocks[PS_CLOCKS_NAME_BYTES_MAX + 1];
    uint32_t worker;
};

static enum ps_status prepare(struct psclient_rows_ahead *read, const uint64_t *keys, size_t count,
                              struct ps_error *error);
static void put_items(struct psclient_rows_ahead *read, uint64_t clock);
static void destroy(struct psclient_rows_ahead *read);

/* Nothing that may fail is left when the batch has begun. */
PS_EXPORT int psclient_rows_ahead_begin(struct psclient_table *table, uint64_t clock,
                                        const uint64_t *keys, size_t count, void *rows,
                                        uint64_t timeout_ms, struct psclient_rows_ahead **out,
                                        struct psclient_error *error)
{
    struct psclient *client = table->client;
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = ps_client_check_process(client, &why);
    struct psclient_rows_ahead *read = NULL;
    if (status == PS_OK)
        read = ps_zeroed(client->memory, sizeof *read);
    if (status == PS_OK && read == NULL)
        status = ps_fail(&why, PS_ERR_NO_MEMORY, "no memory for a read");
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    read->table = table;
    read->rows = rows;
    status = prepare(read, keys, count, &why);
    if (status == PS_OK) {
        put_items(read, clock);
        const struct ps_batch_request request =
            ps_client_request(client, PS_METHOD_PULL, read->items, client->shard_count, timeout_ms);
        status = ps_client_begin(client, &request, &read->job, &why);
    }
    if (status != PS_OK) {
        destroy(read);
        return ps_client_fail(error, status, why.text);
    }
    *out = read;
    return ps_client_succeed(error);
}

/* One piece for each server: of two that come at the same clock the second would be other keys. */
static enum ps_status prepare(struct psclient_rows_ahead *read, const uint64_t *keys, size_t count,
                              struct ps_error *error)
{
    struct psclient_table *table = read->table;
    struct psclient *client = table->client;
    /* Other threads may put the table elsewhere meanwhile: a read has what held when it began. */
    ps_mutex_lock(&table->mutex);
    memcpy(read->clocks, table->clocks, sizeof read->clocks);
    read->worker = table->worker;
    ps_mutex_unlock(&table->mutex);
    if (read->worker == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "rows are read ahead by clocks: say by which, with psclient_table_at");
    if (count > 0)
        PS_TRY(ps_row_cut_read(client->memory, &table->partition, keys, count, PS_ROW_CUT_KEYS_MAX,
                               &read->cut, error));
    PS_ASSERT(read->cut.piece_count <= client->shard_count);
    read->items = ps_zeroed_array(client->memory, client->shard_count, sizeof *read->items);
    read->answers = ps_plain(client->memory, count * table->row_bytes);
    if (read->items == NULL || read->answers == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu rows", count);
    return PS_OK;
}

/* Pieces are sorted by server. A server without one is asked for no rows, which are no bytes. */
static void put_items(struct psclient_rows_ahead *read, uint64_t clock)
{
    const struct psclient_table *table = read->table;
    const struct ps_row_cut *cut = &read->cut;
    /* A place that nothing is written to is a place all the same. */
    size_t next = 0;
    for (uint32_t shard = 0; shard < table->client->shard_count; shard++) {
        struct ps_item *item = &read->items[shard];
        *item = ps_client_item(table->name, PSCLIENT_FLOAT32);
        item->dtype = table->dtype;
        item->of_table = true;
        item->shard = shard;
        item->clocks = ps_bytes_of_text(read->clocks);
        item->worker = read->worker;
        item->clock = clock;
        item->destination = read->answers;
        if (next >= cut->piece_count || cut->pieces[next].shard != shard)
            continue;
        const struct ps_row_piece *piece = &cut->pieces[next++];
        item->keys = (struct ps_bytes){(const uint8_t *)(cut->keys + piece->first),
                                       piece->count * sizeof *cut->keys};
        item->destination = read->answers + piece->first * table->row_bytes;
        item->size = piece->count * table->row_bytes;
    }
    PS_ASSERT(next == cut->piece_count);
}

/* Whoever waits polls for all reads of the client: one thread may have many on their way. */
PS_EXPORT int psclient_rows_ahead_end(struct psclient_rows_ahead *read,
                                      struct psclient_error *error)
{
    struct psclient *client = read->table->client;
    ps_client_end(client, &read->job);
    int result = ps_client_verdict(client, read->items, client->shard_count, NULL, error);
    /* Rows of several servers lie one behind the other here; the caller's stay as they were when
     * something failed. */
    if (result == PSCLIENT_OK && read->cut.count > 0)
        ps_row_cut_scatter(&read->cut, read->answers, read->table->row_bytes, read->rows);
    destroy(read);
    return result;
}

/* A job that was begun is ended by whoever has begun it. */
PS_EXPORT void psclient_rows_ahead_cancel(struct psclient_rows_ahead *read)
{
    if (read == NULL)
        return;
    ps_client_cancel(read->table->client, &read->job);
    ps_client_end(read->table->client, &read->job);
    destroy(read);
}

/* Also of a read that was prepared half-way. */
static void destroy(struct psclient_rows_ahead *read)
{
    const struct ps_allocator *memory = read->table->client->memory;
    ps_row_cut_fini(&read->cut);
    ps_release(memory, read->items);
    ps_release(memory, read->answers);
    ps_release(memory, read);
}
