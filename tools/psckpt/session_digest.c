/* Times and the order of silence are left out, so that equal knowledge gives equal digests. */
#include "tools/psckpt/session_digest.h"

#include "tools/psckpt/session_clients.h"

#include <stdlib.h>
#include <string.h>

static void add_client(struct sha256 *hash, const struct ps_session_client *client);
static int compare_slots(const void *a, const void *b);

/* The floor comes first: it decides about every client that is not in the list. */
enum ps_status session_digest_add(struct sha256 *hash, const struct ps_checkpoint_facts *facts,
                                  const struct ps_allocator *memory, struct ps_error *error)
{
    struct session_clients clients;
    PS_TRY(session_clients_init(&clients, facts, memory, error));
    sha256_add_number(hash, clients.table.floor, 8);
    sha256_add_number(hash, clients.count, 8);
    for (size_t i = 0; i < clients.count; i++)
        add_client(hash, clients.rows[i]);
    session_clients_fini(&clients);
    return PS_OK;
}

/* Slots stand where sequence % 256 puts them, whatever was there before: sorted by the sequence
 * they are what the client did. Every number has a fixed width, so that no two lists give the same
 * bytes. */
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

/* A client never uses a sequence twice, so there are no ties. */
static int compare_slots(const void *a, const void *b)
{
    uint64_t left = ((const struct ps_session_slot *)a)->sequence;
    uint64_t right = ((const struct ps_session_slot *)b)->sequence;
    return (left > right) - (left < right);
}
