/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint has its clients in the order of a live table, by their silence, which differs
 * between a server that went on and one that recovered. Everything here that compares or prints
 * wants one order: that of the ids. */
#include "tools/psckpt/session_clients.h"

#include "base/assert.h"

#include <stdlib.h>

static enum ps_status list(struct session_clients *clients, struct ps_error *error);
static int compare_ids(const void *a, const void *b);

/* Decoding checks every number in the bytes, since they come from a file. */
enum ps_status session_clients_init(struct session_clients *clients,
                                    const struct ps_checkpoint_facts *facts,
                                    const struct ps_allocator *memory, struct ps_error *error)
{
    *clients = (struct session_clients){.rows = NULL};
    /* Nobody is forgotten and no position is beyond the end: a tool shows what the bytes say, also
     * where a server would forget clients above its --clients-max. */
    ps_sessions_init(&clients->table, memory, UINT32_MAX, 0);
    enum ps_status status = ps_sessions_decode(&clients->table, facts->sessions, UINT64_MAX,
                                               facts->unix_ns / 1000, error);
    if (status == PS_OK)
        status = list(clients, error);
    if (status != PS_OK)
        session_clients_fini(clients);
    return status;
}

/* The rows point into the table and go first. */
void session_clients_fini(struct session_clients *clients)
{
    ps_release(clients->table.memory, clients->rows);
    ps_sessions_fini(&clients->table);
    *clients = (struct session_clients){.rows = NULL};
}

static enum ps_status list(struct session_clients *clients, struct ps_error *error)
{
    size_t count = ps_sessions_count(&clients->table);
    /* One more, so that an empty table is not a refused allocation. */
    clients->rows = ps_zeroed_array(clients->table.memory, count + 1, sizeof *clients->rows);
    if (clients->rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu clients", count);
    for (const struct ps_session_client *client = ps_sessions_next(&clients->table, NULL);
         client != NULL; client = ps_sessions_next(&clients->table, client))
        clients->rows[clients->count++] = client;
    PS_ASSERT(clients->count == count);
    qsort(clients->rows, count, sizeof *clients->rows, compare_ids);
    return PS_OK;
}

/* Ids are bytes of any value. */
static int compare_ids(const void *a, const void *b)
{
    const struct ps_session_client *left = *(const struct ps_session_client *const *)a;
    const struct ps_session_client *right = *(const struct ps_session_client *const *)b;
    return ps_bytes_compare((struct ps_bytes){left->id, left->id_size},
                            (struct ps_bytes){right->id, right->id_size});
}
