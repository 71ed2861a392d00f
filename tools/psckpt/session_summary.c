/* Sequences are numbered per shard: the same number on two shards is two requests. So shards that
 * are put together cannot keep single requests, and sessions are ended instead. */
#include "tools/psckpt/session_summary.h"

#include <stdlib.h>
#include <string.h>

static enum ps_status summarise(struct session_summary *summary, struct ps_sessions_copy *copy,
                                struct ps_error *error);
static enum ps_status gather(const struct shard_state *states, size_t state_count,
                             struct session_summary *all, struct ps_error *error);
static enum ps_status append(struct session_summary *all, const struct session_summary *more,
                             struct ps_error *error);
static void keep_highest(struct session_summary *all);
static enum ps_status encode_ended(const struct session_summary *all, uint8_t **bytes, size_t *size,
                                   struct ps_error *error);
static int compare_rows(const void *a, const void *b);

enum ps_status session_summary_init(struct session_summary *summary, struct ps_bytes sessions,
                                    const struct ps_allocator *memory, struct ps_error *error)
{
    struct ps_sessions table;
    struct ps_sessions_copy copy = {0};
    *summary = (struct session_summary){.memory = memory};
    ps_sessions_init(&table, memory, UINT32_MAX, 0);
    enum ps_status status = ps_sessions_decode(&table, sessions, UINT64_MAX, 0, error);
    if (status == PS_OK)
        status = ps_sessions_copy(&table, memory, &copy, error);
    if (status == PS_OK)
        status = summarise(summary, &copy, error);
    ps_release(memory, copy.clients);
    ps_sessions_fini(&table);
    return status;
}

void session_summary_fini(struct session_summary *summary)
{
    if (summary->memory != NULL)
        ps_release(summary->memory, summary->rows);
    *summary = (struct session_summary){0};
}

static enum ps_status summarise(struct session_summary *summary, struct ps_sessions_copy *copy,
                                struct ps_error *error)
{
    summary->rows = ps_zeroed_array(summary->memory, copy->client_count, sizeof *summary->rows);
    if (summary->rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu clients", copy->client_count);
    for (size_t i = 0; i < copy->client_count; i++) {
        const struct ps_session_client *client = &copy->clients[i];
        struct session_row *row = &summary->rows[summary->count++];
        memcpy(row->id, client->id, client->id_size);
        row->id_size = client->id_size;
        row->session = client->session;
        for (size_t slot = 0; slot < PS_SESSION_SLOTS; slot++) {
            uint64_t sequence = client->slots[slot].sequence;
            row->slot_count += sequence != 0;
            row->sequence = sequence > row->sequence ? sequence : row->sequence;
        }
    }
    if (summary->count > 0)
        qsort(summary->rows, summary->count, sizeof *summary->rows, compare_rows);
    return PS_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const struct session_row *left = a;
    const struct session_row *right = b;
    return ps_bytes_compare((struct ps_bytes){left->id, left->id_size},
                            (struct ps_bytes){right->id, right->id_size});
}

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

static enum ps_status gather(const struct shard_state *states, size_t state_count,
                             struct session_summary *all, struct ps_error *error)
{
    for (size_t i = 0; i < state_count; i++) {
        struct session_summary one;
        enum ps_status status =
            session_summary_init(&one, states[i].facts.sessions, all->memory, error);
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
    ps_release(all->memory, all->rows);
    all->rows = rows;
    all->count = count;
    return PS_OK;
}

/* One row per client is left. */
static void keep_highest(struct session_summary *all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (kept > 0 && compare_rows(&all->rows[kept - 1], &all->rows[i]) == 0) {
            struct session_row *row = &all->rows[kept - 1];
            row->session =
                all->rows[i].session > row->session ? all->rows[i].session : row->session;
            continue;
        }
        all->rows[kept++] = all->rows[i];
    }
    all->count = kept;
}

static enum ps_status encode_ended(const struct session_summary *all, uint8_t **bytes, size_t *size,
                                   struct ps_error *error)
{
    /* Any of the shards may have. */
    struct ps_sessions_copy copy = {.client_count = all->count, .has_forgotten = true};
    copy.clients = ps_zeroed_array(all->memory, all->count, sizeof *copy.clients);
    if (copy.clients == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu clients", all->count);
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < all->count && status == PS_OK; i++) {
        struct ps_session_client *client = &copy.clients[i];
        memcpy(client->id, all->rows[i].id, all->rows[i].id_size);
        client->id_size = all->rows[i].id_size;
        client->session = all->rows[i].session + 1;
        if (client->session == 0)
            status = ps_fail(error, PS_ERR_UNSUPPORTED,
                             "a client's session has the highest number: none can follow it");
    }
    if (status == PS_OK)
        status = ps_sessions_encode(&copy, all->memory, bytes, size, error);
    ps_release(all->memory, copy.clients);
    return status;
}
