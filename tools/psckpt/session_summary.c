/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences are numbered per shard: the same number on two shards is two requests. So shards that
 * are put together cannot keep single requests, and sessions are ended instead. */
#include "tools/psckpt/session_summary.h"

#include "tools/psckpt/session_clients.h"

#include <stdlib.h>
#include <string.h>

static enum ps_status summarise(struct session_summary *summary,
                                const struct session_clients *clients, struct ps_error *error);
static void describe(const struct ps_session_client *client, struct session_row *row);
static enum ps_status gather(const struct shard_state *states, size_t state_count,
                             struct session_summary *all, struct ps_error *error);
static enum ps_status append(struct session_summary *all, const struct session_summary *more,
                             struct ps_error *error);
static void keep_highest(struct session_summary *all);
static enum ps_status encode_ended(const struct session_summary *all, uint8_t **bytes, size_t *size,
                                   struct ps_error *error);
static int compare_rows(const void *a, const void *b);

/* The rows come sorted by id, so that two listings of one state are equal. */
enum ps_status session_summary_init(struct session_summary *summary,
                                    const struct ps_checkpoint_facts *facts,
                                    const struct ps_allocator *memory, struct ps_error *error)
{
    struct session_clients clients;
    *summary = (struct session_summary){.memory = memory};
    PS_TRY(session_clients_init(&clients, facts, memory, error));
    enum ps_status status = summarise(summary, &clients, error);
    session_clients_fini(&clients);
    return status;
}

/* Accepts a zeroed summary. */
void session_summary_fini(struct session_summary *summary)
{
    if (summary->memory != NULL)
        ps_release(summary->memory, summary->rows);
    *summary = (struct session_summary){0};
}

/* Rows are copies: the table of sessions is released at once. */
static enum ps_status summarise(struct session_summary *summary,
                                const struct session_clients *clients, struct ps_error *error)
{
    summary->floor = clients->table.floor;
    summary->rows = ps_zeroed_array(summary->memory, clients->count, sizeof *summary->rows);
    if (summary->rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu clients", clients->count);
    for (size_t i = 0; i < clients->count; i++)
        describe(clients->rows[i], &summary->rows[summary->count++]);
    return PS_OK;
}

/* The highest sequence and the number of remembered requests say how busy a client was; the
 * requests themselves are of interest to the server alone. */
static void describe(const struct ps_session_client *client, struct session_row *row)
{
    memcpy(row->id, client->id, client->id_size);
    row->id_size = client->id_size;
    row->session = client->session;
    row->used_us = client->used_us;
    for (uint32_t slot = 0; slot < client->slot_places; slot++) {
        uint64_t sequence = client->slots[slot].sequence;
        row->slot_count += sequence != 0;
        row->sequence = sequence > row->sequence ? sequence : row->sequence;
    }
}

/* By bytes of the id, as everywhere. */
static int compare_rows(const void *a, const void *b)
{
    const struct session_row *left = a;
    const struct session_row *right = b;
    return ps_bytes_compare((struct ps_bytes){left->id, left->id_size},
                            (struct ps_bytes){right->id, right->id_size});
}

/* All new shards begin with the same table: a client of the old job may turn to any of them. A
 * request that a client still repeats from before carries the number of its old session, which
 * every shard knows to be ended, so it is refused and not applied a second time. */
enum ps_status session_summary_merge(const struct shard_state *states, size_t state_count,
                                     struct shard_state *shards, size_t shard_count,
                                     struct ps_error *error)
{
    struct session_summary all = {.memory = shards[0].memory};
    uint8_t *bytes = NULL;
    size_t size = 0;
    enum ps_status status = gather(states, state_count, &all, error);
    if (status == PS_OK)
        status = encode_ended(&all, &bytes, &size, error);
    for (size_t i = 0; i < shard_count && status == PS_OK; i++) {
        struct ps_bytes *sessions = &shards[i].facts.sessions;
        *sessions = shard_state_copy(&shards[i], (struct ps_bytes){bytes, size}, error);
        status = sessions->data == NULL ? PS_ERR_NO_MEMORY : PS_OK;
    }
    ps_release(all.memory, bytes);
    session_summary_fini(&all);
    return status;
}

/* One summary after the other is appended and released, so that memory holds the clients once and
 * not the tables of all shards. */
static enum ps_status gather(const struct shard_state *states, size_t state_count,
                             struct session_summary *all, struct ps_error *error)
{
    for (size_t i = 0; i < state_count; i++) {
        struct session_summary one;
        enum ps_status status = session_summary_init(&one, &states[i].facts, all->memory, error);
        if (status == PS_OK)
            status = append(all, &one, error);
        session_summary_fini(&one);
        if (status != PS_OK)
            return status;
    }
    if (all->count > 0)
        qsort(all->rows, all->count, sizeof *all->rows, compare_rows);
    keep_highest(all);
    return PS_OK;
}

/* The floors of all shards are joined by taking the highest: a session below it may have been
 * forgotten by one of them, and then nobody can say whether its request was applied. */
static enum ps_status append(struct session_summary *all, const struct session_summary *more,
                             struct ps_error *error)
{
    size_t count = all->count + more->count;
    struct session_row *rows = ps_zeroed_array(all->memory, count, sizeof *rows);
    if (rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu clients", count);
    if (all->count > 0)
        memcpy(rows, all->rows, all->count * sizeof *rows);
    if (more->count > 0)
        memcpy(rows + all->count, more->rows, more->count * sizeof *rows);
    if (more->floor > all->floor)
        all->floor = more->floor;
    ps_release(all->memory, all->rows);
    all->rows = rows;
    all->count = count;
    return PS_OK;
}

/* One row per client is left. The rows are sorted by id, so the rows of one client are neighbours.
 * The highest session of all shards is the one that the client used last. */
static void keep_highest(struct session_summary *all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (kept > 0 && compare_rows(&all->rows[kept - 1], &all->rows[i]) == 0) {
            struct session_row *row = &all->rows[kept - 1];
            row->session =
                all->rows[i].session > row->session ? all->rows[i].session : row->session;
            row->used_us =
                all->rows[i].used_us > row->used_us ? all->rows[i].used_us : row->used_us;
            continue;
        }
        all->rows[kept++] = all->rows[i];
    }
    all->count = kept;
}

/* The table says only that memory was refused; the sentence is for the operator. */
static enum ps_status put(struct ps_sessions *table, const struct ps_session_client *client,
                          struct ps_error *error)
{
    enum ps_status status = ps_sessions_put(table, client);
    return status == PS_OK ? PS_OK : ps_fail(error, status, "no memory for another client");
}

/* The table that the new shards begin with knows the clients by sessions that have not begun: one
 * above the highest that each had. The client's next session is at least that, while anything older
 * is refused. The floor is the highest of all shards', since any of them may have forgotten
 * clients. */
static enum ps_status encode_ended(const struct session_summary *all, uint8_t **bytes, size_t *size,
                                   struct ps_error *error)
{
    struct ps_sessions table;
    ps_sessions_init(&table, all->memory, UINT32_MAX, 0);
    ps_sessions_raise_floor(&table, all->floor);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < all->count && status == PS_OK; i++) {
        const struct session_row *row = &all->rows[i];
        struct ps_session_client client = {
            .id_size = row->id_size, .session = row->session + 1, .used_us = row->used_us};
        memcpy(client.id, row->id, row->id_size);
        /* How many pushes a shard of before has had says nothing of a shard of now. */
        client.counts.is_partial = ps_client_is_named((struct ps_bytes){row->id, row->id_size});
        /* The number after the highest would wrap to 0 and let every old session pass. */
        status = client.session == UINT64_MAX
                     ? ps_fail(error, PS_ERR_UNSUPPORTED,
                               "a client's session has the highest number: none can follow it")
                     : put(&table, &client, error);
    }
    if (status == PS_OK)
        status = ps_sessions_encode(&table, all->memory, bytes, size, error);
    ps_sessions_fini(&table);
    return status;
}

/* No session that began before now is higher than that. Used where it is not known which requests
 * are in the state: telling all clients to begin anew loses nothing, and applies nothing twice. */
enum ps_status session_summary_forget(struct shard_state *state, struct ps_error *error)
{
    uint64_t now_us = ps_unix_ns(ps_clock_real()) / 1000;
    const struct session_summary nobody = {.memory = state->memory,
                                           .floor = now_us + PS_SESSION_AHEAD_US};
    uint8_t *bytes = NULL;
    size_t size = 0;
    PS_TRY(encode_ended(&nobody, &bytes, &size, error));
    struct ps_bytes *sessions = &state->facts.sessions;
    *sessions = shard_state_copy(state, (struct ps_bytes){bytes, size}, error);
    ps_release(state->memory, bytes);
    return sessions->data == NULL ? PS_ERR_NO_MEMORY : PS_OK;
}
