/* Clients and requests are sorted here: a checkpoint has them in the order of a live table. */
#include "tools/psckpt/session_digest.h"

#include "server/core/sessions/sessions.h"

#include <stdlib.h>
#include <string.h>

static enum ps_status add_table(struct sha256 *hash, struct ps_sessions *table,
                                struct ps_error *error);
static void add_client(struct sha256 *hash, const struct ps_session_client *client);
static int compare_clients(const void *a, const void *b);
static int compare_slots(const void *a, const void *b);

enum ps_status session_digest_add(struct sha256 *hash, const struct ps_checkpoint_facts *facts,
                                  const struct ps_allocator *memory, struct ps_error *error)
{
    struct ps_sessions table;
    ps_sessions_init(&table, memory, UINT32_MAX, 0);
    enum ps_status status =
        ps_sessions_decode(&table, facts->sessions, UINT64_MAX, facts->unix_ns / 1000, error);
    if (status == PS_OK)
        status = add_table(hash, &table, error);
    ps_sessions_fini(&table);
    return status;
}

static enum ps_status add_table(struct sha256 *hash, struct ps_sessions *table,
                                struct ps_error *error)
{
    size_t count = ps_sessions_count(table);
    const struct ps_session_client **clients =
        ps_zeroed_array(table->memory, count + 1, sizeof *clients);
    if (clients == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to sort %zu clients", count);
    size_t at = 0;
    for (const struct ps_session_client *client = ps_sessions_next(table, NULL); client != NULL;
         client = ps_sessions_next(table, client))
        clients[at++] = client;
    qsort(clients, count, sizeof *clients, compare_clients);
    sha256_add_number(hash, table->floor, 8);
    sha256_add_number(hash, count, 8);
    for (size_t i = 0; i < count; i++)
        add_client(hash, clients[i]);
    ps_release(table->memory, clients);
    return PS_OK;
}

static void add_client(struct sha256 *hash, const struct ps_session_client *client)
{
    struct ps_session_slot sorted[PS_SESSION_SLOTS];
    size_t count = 0;
    for (uint32_t i = 0; i < client->slot_places; i++)
        if (client->slots[i].sequence != 0)
            sorted[count++] = client->slots[i];
    if (count > 0)
        qsort(sorted, count, sizeof sorted[0], compare_slots);
    sha256_add_number(hash, client->id_size, 1);
    sha256_add(hash, (struct ps_bytes){client->id, client->id_size});
    sha256_add_number(hash, client->session, 8);
    sha256_add_number(hash, count, 2);
    for (size_t i = 0; i < count; i++) {
        sha256_add_number(hash, sorted[i].sequence, 8);
        sha256_add_number(hash, sorted[i].answer.version, 8);
        sha256_add_number(hash, sorted[i].answer.position, 8);
        sha256_add_number(hash, sorted[i].fingerprint, 4);
    }
}

static int compare_clients(const void *a, const void *b)
{
    const struct ps_session_client *left = *(const struct ps_session_client *const *)a;
    const struct ps_session_client *right = *(const struct ps_session_client *const *)b;
    return ps_bytes_compare((struct ps_bytes){left->id, left->id_size},
                            (struct ps_bytes){right->id, right->id_size});
}

static int compare_slots(const void *a, const void *b)
{
    uint64_t left = ((const struct ps_session_slot *)a)->sequence;
    uint64_t right = ((const struct ps_session_slot *)b)->sequence;
    return (left > right) - (left < right);
}
