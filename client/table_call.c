/* SPDX-License-Identifier: Apache-2.0 */
/* The guts of every call on rows of a table. Keys are cut to servers and messages (row_cut.h). Each
 * message is an item of a batch, as every push and pull is: numbers, repeats and deadlines are the
 * engine's. What comes back is put into the caller's order.
 *
 * A gradient has no error feedback here, and goes in the table's own type: what an encoding leaves
 * out would have to be kept for every key that was ever pushed. */
#include "client/table_call.h"

#include "base/assert.h"
#include "client/row_cut.h"
#include "client/status_map.h"

#include <string.h>

/* What a call adds. */
struct adding {
    struct ps_row_cut cut;
    struct ps_encoded_push *encoded; /* owned; one for each piece */
};

/* What a call reads. */
struct getting {
    struct ps_row_cut cut;
    uint8_t *answers;   /* in the order of the cut: the caller's rows, or the next */
    uint8_t *scattered; /* owned; NULL where both orders are the same */
};

/* A copy, since a read may wait for long: the lock is not held meanwhile. */
enum ps_status ps_table_call_begin(struct psclient_table *table, uint64_t timeout_ms,
                                   struct ps_table_call *call, struct ps_error *error)
{
    struct psclient *client = table->client;
    *call = (struct ps_table_call){.table = table,
                                   .client = client,
                                   .deadline_ms = ps_deadline_after(client->clock, timeout_ms)};
    /* In a child of a fork the table's lock may be held for ever. */
    PS_TRY(ps_client_check_process(client, error));
    ps_mutex_lock(&table->mutex);
    memcpy(call->clocks, table->clocks, sizeof call->clocks);
    call->worker = table->worker;
    call->clock = table->clock;
    ps_mutex_unlock(&table->mutex);
    return PS_OK;
}

/* ---- What goes out ---- */

/* Every piece has room for its content, which is packed once for all of its attempts: a repeat that
 * differed from what the server has would be another push under the same number. */
static enum ps_status prepare_add(const struct psclient_table *table, const uint64_t *keys,
                                  size_t count, const void *gradients, struct adding *adding,
                                  struct ps_error *error)
{
    const struct ps_allocator *memory = table->client->memory;
    const struct ps_row_gradients given = {keys,         count,          gradients,  table->dtype,
                                           table->width, table->repeats, table->seed};
    PS_TRY(ps_row_cut_push(memory, &table->partition, &given,
                           ps_row_piece_rows(sizeof *keys + table->row_bytes), &adding->cut,
                           error));
    adding->encoded = ps_zeroed_array(memory, adding->cut.piece_count, sizeof *adding->encoded);
    if (adding->encoded == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    /* As gradients that were encoded before they were sent: the engine sees bytes. */
    for (size_t i = 0; i < adding->cut.piece_count; i++) {
        adding->encoded[i].encoding = PS_ENCODING_ROWS;
        adding->encoded[i].ranges = &adding->cut.pieces[i].content;
    }
    return PS_OK;
}

/* Rows of one server come in the caller's order, and may be put where they belong at once. */
static enum ps_status prepare_get(const struct psclient_table *table, const uint64_t *keys,
                                  size_t count, void *rows, struct getting *getting,
                                  struct ps_error *error)
{
    const struct ps_allocator *memory = table->client->memory;
    PS_TRY(ps_row_cut_read(memory, &table->partition, keys, count,
                           ps_row_piece_reads(table->row_bytes), &getting->cut, error));
    getting->answers = rows;
    if (table->partition.shard_count == 1 || getting->cut.piece_count <= 1)
        return PS_OK;
    /* Rows of several servers lie apart in the caller's memory, and a reply is written in one
     * run. */
    getting->scattered = ps_plain(memory, count * table->row_bytes);
    if (getting->scattered == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu rows", count);
    getting->answers = getting->scattered;
    return PS_OK;
}

/* All of them may be zero. Nothing of a call is in flight any more: the channel has read the last
 * byte of the content, and written the last one of the answers. */
static void release(const struct psclient *client, struct adding *adding, struct getting *getting)
{
    ps_release(client->memory, adding->encoded);
    ps_row_cut_fini(&adding->cut);
    ps_release(client->memory, getting->scattered);
    ps_row_cut_fini(&getting->cut);
}

/* The server is chosen by the keys, and the name is the same at each of them. */
struct ps_item ps_table_call_item(const struct ps_table_call *call, uint32_t shard)
{
    const struct psclient_table *table = call->table;
    struct ps_item item = ps_client_item(table->name, PSCLIENT_FLOAT32);
    /* The type that the servers have, in which the caller's rows are. */
    item.dtype = table->dtype;
    item.of_table = true;
    item.row_width = table->width;
    item.shard = shard;
    return item;
}

/* For tables in rounds, and at no cost for others: what was read says which round comes next, and
 * nobody has to ask. Versions only rise, and answers of several threads come in any order. */
void ps_table_call_note(struct psclient_table *table, const struct ps_item *item)
{
    PS_ASSERT(item->shard < table->client->shard_count);
    ps_mutex_lock(&table->mutex);
    if (item->pulled_version + 1 > table->rounds[item->shard])
        table->rounds[item->shard] = item->pulled_version + 1;
    ps_mutex_unlock(&table->mutex);
}

/* The bytes stay where the cut has packed them until the last attempt is over. */
static void add_piece(const struct ps_table_call *call, const struct adding *adding, size_t i,
                      struct ps_item *item)
{
    const struct ps_row_piece *piece = &adding->cut.pieces[i];
    PS_ASSERT(item->shard == piece->shard);
    item->encoded = &adding->encoded[i];
    item->size = piece->count * call->table->row_bytes;
}

/* Of an item that also adds, the size is that of what comes back. */
static void get_piece(const struct ps_table_call *call, const struct getting *getting, size_t i,
                      struct ps_item *item)
{
    const struct ps_row_piece *piece = &getting->cut.pieces[i];
    size_t row_bytes = call->table->row_bytes;
    PS_ASSERT(item->shard == piece->shard);
    item->keys = (struct ps_bytes){(const uint8_t *)(getting->cut.keys + piece->first),
                                   piece->count * sizeof *getting->cut.keys};
    item->destination = getting->answers + piece->first * row_bytes;
    item->size = piece->count * row_bytes;
}

/* ---- One after the other ---- */

/* A piece on its way. */
struct sent_piece {
    struct ps_item item;
    struct ps_client_job job;
    enum ps_status begun;
    struct ps_error why; /* where it was not */
};

/* Packs a piece and lets it go. */
static void send_piece(const struct ps_table_call *call, struct adding *adding, size_t i,
                       struct sent_piece *sent)
{
    struct psclient *client = call->client;
    uint64_t left_ms = ps_time_left_ms(client->clock, call->deadline_ms);
    ps_row_cut_pack(&adding->cut, i);
    sent->item = ps_table_call_item(call, adding->cut.pieces[i].shard);
    add_piece(call, adding, i, &sent->item);
    const struct ps_batch_request request =
        ps_client_request(client, PS_METHOD_PUSH, &sent->item, 1, left_ms);
    sent->begun = ps_client_begin(client, &request, &sent->job, &sent->why);
    /* One look at the network: what its buffers had no room for goes on its way, and would else
     * wait until all pieces are packed. */
    if (sent->begun == PS_OK && i + 1 < adding->cut.piece_count)
        (void)ps_client_await(client, &sent->job, false, 0);
}

/* Pushes of several pieces are several pushes: each is applied once, whatever is lost on the way,
 * and the call says what became of the first that failed. The server applies one while the next is
 * packed. */
static int run_add(const struct ps_table_call *call, struct adding *adding,
                   struct psclient_error *error)
{
    struct psclient *client = call->client;
    size_t count = adding->cut.piece_count;
    struct sent_piece *sent = ps_zeroed_array(client->memory, count, sizeof *sent);
    if (sent == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    /* Also behind one that could not be begun: the call says which failed first, and the others are
     * pushes of their own. */
    for (size_t i = 0; i < count; i++)
        send_piece(call, adding, i, &sent[i]);
    int result = PSCLIENT_OK;
    for (size_t i = 0; i < count; i++) {
        if (sent[i].begun == PS_OK)
            ps_client_end(client, &sent[i].job);
        /* All are waited for, since their content goes with the call. */
        if (result != PSCLIENT_OK)
            continue;
        result = sent[i].begun == PS_OK ? ps_client_verdict(client, &sent[i].item, 1, NULL, error)
                                        : ps_client_fail(error, sent[i].begun, sent[i].why.text);
    }
    ps_release(client->memory, sent);
    return result;
}

/* What a read waits for is told to every server that is asked: each has clocks of its own. */
static int run_get(const struct ps_table_call *call, const struct getting *getting,
                   struct psclient_error *error)
{
    size_t count = getting->cut.piece_count;
    struct ps_item *items = ps_zeroed_array(call->client->memory, count, sizeof *items);
    if (items == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    for (size_t i = 0; i < count; i++) {
        items[i] = ps_table_call_item(call, getting->cut.pieces[i].shard);
        get_piece(call, getting, i, &items[i]);
        /* A copy of what the table said when the call began. */
        items[i].clocks = ps_bytes_of_text(call->clocks);
        items[i].worker = call->worker;
        items[i].clock = call->clock;
    }
    uint64_t left_ms = ps_time_left_ms(call->client->clock, call->deadline_ms);
    int result =
        ps_client_run_items(call->client, PS_METHOD_PULL, items, count, left_ms, NULL, error);
    for (size_t i = 0; result == PSCLIENT_OK && i < count; i++)
        ps_table_call_note(call->table, &items[i]);
    ps_release(call->client->memory, items);
    return result;
}

/* ---- Both at once ---- */

/* A server that gets both is asked in one call; one that gets only one of the two is asked beside
 * it. Each kind is a batch, and the three travel together. */
struct both {
    struct ps_item *items; /* owned; a third of it for each kind */
    size_t room;
    size_t counts[3];
};

static const enum ps_method kinds[3] = {PS_METHOD_PUSH_PULL, PS_METHOD_PUSH, PS_METHOD_PULL};

/* A server stands in one of the three at most, so that each has room for all servers. */
static struct ps_item *next_item(struct both *both, size_t kind, const struct ps_table_call *call,
                                 uint32_t shard)
{
    PS_ASSERT(both->counts[kind] < both->room);
    struct ps_item *item = &both->items[kind * both->room + both->counts[kind]++];
    *item = ps_table_call_item(call, shard);
    return item;
}

/* Both cuts are sorted by server, and have each one once. */
static void pair_pieces(const struct ps_table_call *call, const struct adding *adding,
                        const struct getting *getting, struct both *both)
{
    const struct ps_row_cut *adds = &adding->cut, *gets = &getting->cut;
    size_t a = 0, g = 0;
    while (a < adds->piece_count || g < gets->piece_count) {
        /* Behind the last piece stands a server that is above all others. */
        uint32_t add_shard = a < adds->piece_count ? adds->pieces[a].shard : UINT32_MAX;
        uint32_t get_shard = g < gets->piece_count ? gets->pieces[g].shard : UINT32_MAX;
        size_t kind = add_shard == get_shard ? 0 : add_shard < get_shard ? 1 : 2;
        struct ps_item *item =
            next_item(both, kind, call, add_shard < get_shard ? add_shard : get_shard);
        if (add_shard <= get_shard)
            add_piece(call, adding, a++, item);
        if (get_shard <= add_shard)
            get_piece(call, getting, g++, item);
    }
}

/* Begins all three before it waits for any. Batches of one client travel side by side, and whoever
 * waits for the first does the work of all. */
static int run_both(const struct ps_table_call *call, struct adding *adding,
                    const struct getting *getting, struct psclient_error *error)
{
    struct psclient *client = call->client;
    struct both both = {.room = client->shard_count};
    struct ps_client_job jobs[3] = {{0}};
    struct ps_error why[3] = {{.status = PS_OK}};
    enum ps_status statuses[3];
    /* One block for the three: a server that is in one of them is in no other. */
    both.items = ps_zeroed_array(client->memory, 3 * both.room, sizeof *both.items);
    if (both.items == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    /* All at once: there is one for each server, and they leave together. */
    for (size_t i = 0; i < adding->cut.piece_count; i++)
        ps_row_cut_pack(&adding->cut, i);
    pair_pieces(call, adding, getting, &both);
    /* One deadline for the three, made once. */
    uint64_t left_ms = ps_time_left_ms(client->clock, call->deadline_ms);
    for (size_t kind = 0; kind < 3; kind++) {
        const struct ps_batch_request request = ps_client_request(
            client, kinds[kind], both.items + kind * both.room, both.counts[kind], left_ms);
        /* A batch of no items is finished at once. */
        statuses[kind] = ps_client_begin(client, &request, &jobs[kind], &why[kind]);
    }
    int result = PSCLIENT_OK;
    for (size_t kind = 0; kind < 3; kind++) {
        struct ps_item *items = both.items + kind * both.room;
        if (statuses[kind] == PS_OK)
            ps_client_end(client, &jobs[kind]);
        /* The first failure is the call's; the others have ended all the same. */
        if (result != PSCLIENT_OK)
            continue;
        result = statuses[kind] == PS_OK
                     ? ps_client_verdict(client, items, both.counts[kind], NULL, error)
                     : ps_client_fail(error, statuses[kind], why[kind].text);
    }
    ps_release(client->memory, both.items);
    return result;
}

/* ---- The call ---- */

/* A cut has one piece for each server at most: then a server can be given and asked at once. Pieces
 * of one server stand together, so that neighbours are compared. */
static bool is_single(const struct ps_row_cut *cut)
{
    for (size_t i = 1; i < cut->piece_count; i++)
        if (cut->pieces[i].shard == cut->pieces[i - 1].shard)
            return false;
    return true;
}

/* A read that waits for a clock goes by itself: a push in the same message would keep its number
 * for as long, and with it those of this client's other workers, who may be what is waited for. */
static int run_prepared(const struct ps_table_call *call, struct adding *adding,
                        const struct getting *getting, struct psclient_error *error)
{
    /* With one half empty there is nothing to join. */
    bool has_both = adding->cut.piece_count > 0 && getting->cut.piece_count > 0;
    if (has_both && call->worker == 0 && is_single(&adding->cut) && is_single(&getting->cut))
        return run_both(call, adding, getting, error);
    /* What is read must have what was added, so that the push is acknowledged before. A read whose
     * push has failed is not made: it would bring rows without it. */
    int result = PSCLIENT_OK;
    if (adding->cut.piece_count > 0)
        result = run_add(call, adding, error);
    if (result == PSCLIENT_OK && getting->cut.piece_count > 0)
        result = run_get(call, getting, error);
    return result == PSCLIENT_OK ? ps_client_succeed(error) : result;
}

/* Half of a call may be empty: nothing is cut, allocated or sent for that half. */
int ps_table_call_run(const struct ps_table_call *call, const struct ps_table_rows *adds,
                      const struct ps_table_rows *gets, struct psclient_error *error)
{
    const struct psclient_table *table = call->table;
    struct ps_error why = {.status = PS_OK};
    struct adding adding = {0};
    struct getting getting = {0};
    enum ps_status status = PS_OK;
    /* Both halves are cut first: a key of the second that no server has must not be found out after
     * the first was sent. */
    if (adds->count > 0)
        status = prepare_add(table, adds->keys, adds->count, adds->gradients, &adding, &why);
    if (status == PS_OK && gets->count > 0)
        status = prepare_get(table, gets->keys, gets->count, gets->rows, &getting, &why);
    int result = status == PS_OK ? run_prepared(call, &adding, &getting, error)
                                 : ps_client_fail(error, status, why.text);
    /* After a failure the caller's rows are as they were, or half written: nobody may read them. */
    if (result == PSCLIENT_OK && getting.scattered != NULL)
        ps_row_cut_scatter(&getting.cut, getting.scattered, table->row_bytes, gets->rows);
    release(call->client, &adding, &getting);
    return result;
}
