/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: a step of a table that is trained in rounds. An item for each server: its part of
 * the contribution, which may be of no rows, and what is read there when the round is over. How
 * they travel is that of every synchronous step (round_step.h). */
#include "client/psclient.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "client/round_step.h"
#include "client/row_cut.h"
#include "client/status_map.h"
#include "client/table_call.h"

#include <string.h>

/* Beside the rows of a contribution its message has a name, numbers and a request id. */
#define MESSAGE_REST_BYTES ((size_t)64 * 1024)

/* One step under way. Arrays have a place for each server, also where it gets no rows and none are
 * read: each of them has a round that waits for this worker. */
struct stepping {
    const struct ps_table_call *call;
    enum ps_method method; /* PUSH_PULL, or a half of it */
    const struct psclient_table_step *step;
    struct ps_row_cut adds, gets;
    struct ps_encoded_push *encoded; /* owned; one for each server, as all arrays below */
    struct ps_item *items;           /* owned */
    struct ps_bytes *contents;       /* owned */
    uint8_t *answers;   /* of reads, in the order of the cut: the caller's rows, or the next */
    uint8_t *scattered; /* owned; NULL where both orders are the same */
    bool reads_later;   /* the rows of a server are more than a message */
    uint8_t nowhere;    /* where a read of no rows would be written */
};

static enum ps_status exchange(const struct stepping *stepping, struct ps_error *error);
static enum ps_status prepare(struct stepping *stepping, struct ps_error *error);
static enum ps_status cut_adds(struct stepping *stepping, struct ps_error *error);
static enum ps_status cut_gets(struct stepping *stepping, struct ps_error *error);
static enum ps_status ask_unknown(struct stepping *stepping, struct ps_error *error);
static enum ps_status ask_versions(const struct ps_table_call *call, struct ps_item *items,
                                   size_t count, struct ps_error *error);
static void fill_items(struct stepping *stepping);
static void note(struct stepping *stepping, struct psclient_table_stepped *stepped);
static void release(struct stepping *stepping);

/* Rows that are kept here are of clocks, which a table in rounds has seldom; where it has both, the
 * cache is told as of an addition: whatever becomes of the step, these rows are to be read anew. */
static void note_cache(struct psclient_table *table, const struct psclient_table_step *step,
                       bool begins)
{
    if (table->cache == NULL || step->count == 0)
        return;
    ps_mutex_lock(&table->mutex);
    if (begins)
        ps_row_cache_add_begin(table->cache, step->keys, step->count);
    else
        ps_row_cache_add_end(table->cache);
    ps_mutex_unlock(&table->mutex);
}

/* Read behind the step by a call of its own, which needs no round: versions only rise. Another
 * worker may have stepped on meanwhile only where rounds do not wait for this one. */
static int read_later(const struct stepping *stepping, struct psclient_error *error)
{
    const struct psclient_table_step *step = stepping->step;
    const struct ps_table_rows none = {.count = 0};
    const struct ps_table_rows gets = {
        .keys = step->get_keys, .count = step->get_count, .rows = step->rows};
    return ps_table_call_run(stepping->call, &none, &gets, error);
}

/* One server that fails fails the step; at the others the contribution counts all the same, and the
 * next step of this worker goes on there behind what they made of it. */
static int run(struct stepping *stepping, struct psclient_table_stepped *stepped,
               struct psclient_error *error)
{
    const struct ps_table_call *call = stepping->call;
    struct psclient *client = call->client;
    struct ps_error why = {.status = PS_OK};
    enum ps_status status = prepare(stepping, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    status = exchange(stepping, &why);
    int result = status == PS_OK
                     ? ps_client_verdict(client, stepping->items, client->shard_count, NULL, error)
                     : ps_client_fail(error, status, why.text);
    note(stepping, stepped);
    if (result != PSCLIENT_OK)
        return result;
    if (stepping->reads_later)
        return read_later(stepping, error);
    if (stepping->scattered != NULL)
        ps_row_cut_scatter(&stepping->gets, stepping->scattered, call->table->row_bytes,
                           stepping->step->rows);
    return ps_client_succeed(error);
}

/* A worker that has contributed before has done what this half is for. */
static enum ps_status exchange(const struct stepping *stepping, struct ps_error *error)
{
    struct psclient *client = stepping->call->client;
    uint32_t count = client->shard_count;
    if (stepping->method == PS_METHOD_PUSH_PULL)
        return ps_client_step_rows(client, stepping->items, count, stepping->call->deadline_ms,
                                   error);
    struct ps_batch_request request =
        ps_client_request(client, stepping->method, stepping->items, count, 0);
    request.deadline_ms = stepping->call->deadline_ms;
    PS_TRY(ps_client_run(client, &request, error));
    for (uint32_t i = 0; i < count; i++) {
        struct ps_item *item = &stepping->items[i];
        if (item->status != PS_ERR_EXISTS)
            continue;
        item->duplicate = true;
        item->status = PS_OK;
    }
    return PS_OK;
}

/* The deadline is one for everything, however long the others take. The cache is told before and
 * behind it: another thread's read of these rows in between is not kept. */
static int take_step(struct psclient_table *table, enum ps_method method,
                     const struct psclient_table_step *step, uint64_t timeout_ms,
                     struct psclient_table_stepped *stepped, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct psclient_table_stepped unused;
    struct ps_table_call call;
    struct stepping stepping = {.call = &call, .method = method, .step = step};
    if (step->worker == 0 && method != PS_METHOD_PULL)
        return ps_client_fail(error, PS_ERR_BAD_INPUT,
                              "a step of a table names its worker: 1 + its rank");
    enum ps_status status = ps_table_call_begin(table, timeout_ms, &call, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    note_cache(table, step, true);
    int result = run(&stepping, stepped != NULL ? stepped : &unused, error);
    note_cache(table, step, false);
    release(&stepping);
    return result;
}

/* Both halves at once, which is what most trainers want: there is nothing to do before the rows
 * are there. */
PS_EXPORT int psclient_table_step(struct psclient_table *table,
                                  const struct psclient_table_step *step, uint64_t timeout_ms,
                                  struct psclient_table_stepped *stepped,
                                  struct psclient_error *error)
{
    return take_step(table, PS_METHOD_PUSH_PULL, step, timeout_ms, stepped, error);
}

/* What is read is the other half's. */
PS_EXPORT int psclient_table_contribute(struct psclient_table *table,
                                        const struct psclient_table_step *step, uint64_t timeout_ms,
                                        struct psclient_table_stepped *stepped,
                                        struct psclient_error *error)
{
    struct psclient_table_step half = *step;
    half.get_count = 0;
    return take_step(table, PS_METHOD_PUSH, &half, timeout_ms, stepped, error);
}

/* Also of no rows: it waits all the same, at every server. */
PS_EXPORT int psclient_table_await(struct psclient_table *table, const uint64_t *keys, size_t count,
                                   void *rows, uint64_t timeout_ms, struct psclient_error *error)
{
    const struct psclient_table_step half = {.get_keys = keys, .get_count = count, .rows = rows};
    return take_step(table, PS_METHOD_PULL, &half, timeout_ms, NULL, error);
}

/* Everything that can be wrong with the keys is found before anything is sent. */
static enum ps_status prepare(struct stepping *stepping, struct ps_error *error)
{
    const struct psclient *client = stepping->call->client;
    uint32_t count = client->shard_count;
    /* The caller's keys before anything that costs a message. */
    PS_TRY(cut_adds(stepping, error));
    PS_TRY(cut_gets(stepping, error));
    stepping->items = ps_zeroed_array(client->memory, count, sizeof *stepping->items);
    stepping->encoded = ps_zeroed_array(client->memory, count, sizeof *stepping->encoded);
    stepping->contents = ps_zeroed_array(client->memory, count, sizeof *stepping->contents);
    if (stepping->items == NULL || stepping->encoded == NULL || stepping->contents == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    PS_TRY(ask_unknown(stepping, error));
    fill_items(stepping);
    return PS_OK;
}

/* A contribution is whole: of two messages to one server the second would be refused, since its
 * worker has contributed. */
static enum ps_status cut_adds(struct stepping *stepping, struct ps_error *error)
{
    const struct psclient_table *table = stepping->call->table;
    const struct psclient_table_step *step = stepping->step;
    const struct ps_row_gradients given = {step->keys,   step->count,  step->gradients,
                                           table->dtype, table->width, table->repeats,
                                           table->seed};
    /* What every server takes, whatever it was started with. */
    size_t most =
        (PS_MESSAGE_BYTES_DEFAULT - MESSAGE_REST_BYTES) / (sizeof *step->keys + table->row_bytes);
    if (step->count == 0)
        return PS_OK;
    PS_TRY(ps_row_cut_push(table->client->memory, &table->partition, &given, most, &stepping->adds,
                           error));
    for (size_t i = 0; i < stepping->adds.piece_count; i++) {
        if (i > 0 && stepping->adds.pieces[i].shard == stepping->adds.pieces[i - 1].shard)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "table %s: a contribution to a round has at most %zu rows for each "
                           "server",
                           table->name, most);
        /* Packed once for all attempts: a repeat must be the same bytes. */
        ps_row_cut_pack(&stepping->adds, i);
    }
    return PS_OK;
}

/* As of a read, but that all of it goes along with the contributions, one message to each server:
 * then it costs no round trip of its own. A server whose rows are more than a message is read from
 * behind the step, by as many messages as that takes.
 *
 * Looked for before anything is sent: a key that no server has fails the step, and the contribution
 * was not made. */
static enum ps_status cut_gets(struct stepping *stepping, struct ps_error *error)
{
    const struct psclient_table *table = stepping->call->table;
    const struct psclient_table_step *step = stepping->step;
    struct ps_row_cut *gets = &stepping->gets;
    size_t bytes = table->row_bytes > sizeof *step->get_keys ? table->row_bytes : sizeof(uint64_t);
    if (step->get_count == 0)
        return PS_OK;
    PS_TRY(ps_row_cut_read(table->client->memory, &table->partition, step->get_keys,
                           step->get_count, ps_row_piece_rows(bytes), gets, error));
    for (size_t i = 1; i < gets->piece_count; i++)
        if (gets->pieces[i].shard == gets->pieces[i - 1].shard)
            stepping->reads_later = true;
    /* Rows of one server come in the caller's order, and need no memory in between. */
    stepping->answers = step->rows;
    if (stepping->reads_later || gets->piece_count <= 1)
        return PS_OK;
    stepping->scattered = ps_plain(table->client->memory, step->get_count * table->row_bytes);
    if (stepping->scattered == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu rows", step->get_count);
    stepping->answers = stepping->scattered;
    return PS_OK;
}

/* Of an object that has just been opened, mostly, and of servers that have none of its keys. Of
 * servers that were not read from yet: a read of no rows says at which version they are. So a
 * worker that has come back contributes to the round behind that, which may have its contribution
 * of before. */
static enum ps_status ask_unknown(struct stepping *stepping, struct ps_error *error)
{
    const struct ps_table_call *call = stepping->call;
    struct psclient_table *table = call->table;
    size_t count = 0;
    ps_mutex_lock(&table->mutex);
    for (uint32_t i = 0; i < call->client->shard_count; i++) {
        if (table->rounds[i] != 0)
            continue;
        stepping->items[count] = ps_table_call_item(call, i);
        stepping->items[count++].destination = &stepping->nowhere;
    }
    ps_mutex_unlock(&table->mutex);
    return ask_versions(call, stepping->items, count, error);
}

/* The first failure is the call's. */
static enum ps_status ask_versions(const struct ps_table_call *call, struct ps_item *items,
                                   size_t count, struct ps_error *error)
{
    struct ps_batch_request request =
        ps_client_request(call->client, PS_METHOD_PULL, items, count, 0);
    request.deadline_ms = call->deadline_ms;
    if (count > 0)
        PS_TRY(ps_client_run(call->client, &request, error));
    for (size_t i = 0; i < count; i++) {
        if (items[i].status != PS_OK)
            return ps_fail(error, items[i].status, "%.255s", items[i].text);
        ps_table_call_note(call->table, &items[i]);
    }
    return PS_OK;
}

/* Not from what was read before: another process may have stepped on meanwhile. */
PS_EXPORT int psclient_table_version(struct psclient_table *table, uint64_t timeout_ms,
                                     uint64_t *version, struct psclient_error *error)
{
    struct ps_error why = {.status = PS_OK};
    struct ps_table_call call;
    uint8_t nowhere;
    enum ps_status status = ps_table_call_begin(table, timeout_ms, &call, &why);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    uint32_t count = call.client->shard_count;
    struct ps_item *items = ps_zeroed_array(call.client->memory, count, sizeof *items);
    if (items == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    for (uint32_t i = 0; i < count; i++) {
        items[i] = ps_table_call_item(&call, i);
        items[i].destination = &nowhere;
    }
    status = ask_versions(&call, items, count, &why);
    /* Servers that ended a round by its grace time may be ahead of the others. */
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; status == PS_OK && i < count; i++)
        least = items[i].pulled_version < least ? items[i].pulled_version : least;
    ps_release(call.client->memory, items);
    if (status != PS_OK)
        return ps_client_fail(error, status, why.text);
    *version = least;
    return ps_client_succeed(error);
}

/* Both cuts are sorted by server, and have each one once, or a piece is read later. A server with
 * neither gets a contribution of no rows, and a read of none that waits for its round all the same:
 * nobody is ahead of a round anywhere. */
static void fill_items(struct stepping *stepping)
{
    const struct ps_table_call *call = stepping->call;
    struct psclient_table *table = call->table;
    const struct ps_row_cut *gets = &stepping->gets;
    size_t a = 0, g = 0;
    for (uint32_t i = 0; i < call->client->shard_count; i++) {
        struct ps_item *item = &stepping->items[i];
        *item = ps_table_call_item(call, i);
        item->destination = &stepping->nowhere;
        /* Nobody's where nothing is contributed: a read would wait for its clock. */
        item->encoded = stepping->method != PS_METHOD_PULL ? &stepping->encoded[i] : NULL;
        item->worker = stepping->step->worker;
        item->weight = stepping->step->weight;
        ps_mutex_lock(&table->mutex);
        item->round = table->rounds[i];
        ps_mutex_unlock(&table->mutex);
        /* What its round makes, and no older values. */
        item->at_least_version = item->round;
        stepping->encoded[i].encoding = PS_ENCODING_ROWS;
        stepping->encoded[i].ranges = &stepping->contents[i];
        if (a < stepping->adds.piece_count && stepping->adds.pieces[a].shard == i)
            stepping->contents[i] = stepping->adds.pieces[a++].content;
        if (stepping->reads_later || g == gets->piece_count || gets->pieces[g].shard != i)
            continue;
        const struct ps_row_piece *piece = &gets->pieces[g++];
        item->keys = (struct ps_bytes){(const uint8_t *)(gets->keys + piece->first),
                                       piece->count * sizeof *gets->keys};
        item->destination = stepping->answers + piece->first * table->row_bytes;
        item->size = piece->count * table->row_bytes;
    }
    PS_ASSERT(a == stepping->adds.piece_count);
}

/* The rows have at least the least of these versions: servers count by themselves, and are apart
 * where one of them ended a round by its grace time.
 *
 * Also behind a failure: at the other servers the round may be over, and the next is another. */
static void note(struct stepping *stepping, struct psclient_table_stepped *stepped)
{
    *stepped = (struct psclient_table_stepped){.version = UINT64_MAX};
    for (uint32_t i = 0; i < stepping->call->client->shard_count; i++) {
        const struct ps_item *item = &stepping->items[i];
        stepped->late += item->late ? 1 : 0;
        stepped->duplicate += item->duplicate ? 1 : 0;
        if (item->status != PS_OK || stepping->method == PS_METHOD_PUSH)
            continue;
        if (item->pulled_version < stepped->version)
            stepped->version = item->pulled_version;
        ps_table_call_note(stepping->call->table, item);
    }
}

/* In any order: none of these points to what another one owns. What was not made is zero. No
 * message is under way any more, whatever came of the step: the content that servers were sent may
 * go. */
static void release(struct stepping *stepping)
{
    const struct ps_allocator *memory = stepping->call->client->memory;
    ps_release(memory, stepping->items);
    ps_release(memory, stepping->encoded);
    ps_release(memory, stepping->contents);
    ps_release(memory, stepping->scattered);
    ps_row_cut_fini(&stepping->adds);
    ps_row_cut_fini(&stepping->gets);
}
