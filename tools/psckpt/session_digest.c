/* SPDX-License-Identifier: Apache-2.0 */
/* Times and the order of silence are left out, so that equal knowledge gives equal digests. */
#include "tools/psckpt/session_digest.h"

#include "proto/digest.h"
#include "tools/psckpt/session_clients.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static void add_client(struct sha256 *hash, const struct ps_session_client *client);
static void add_counts(struct sha256 *hash, const struct ps_push_counts *counts);
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
    if (ps_client_is_named((struct ps_bytes){client->id, client->id_size}))
        add_counts(hash, &client->counts);
}

/* A sum over all names, since they stand where their digests and the order of their coming put
 * them. Only of named clients: the digests of others are those of before there were counts. */
static void add_counts(struct sha256 *hash, const struct ps_push_counts *counts)
{
    uint64_t sum = 0;
    /* Little-endian on every machine, as all that is digested. */
    for (uint32_t i = 0; i < counts->place_count; i++) {
        const struct ps_push_count *count = &counts->places[i];
        const uint64_t row[] = {htole64(count->name), htole64(count->pushes),
                                htole64(count->version)};
        if (count->pushes > 0)
            sum += ps_digest_xxh64((struct ps_bytes){(const uint8_t *)row, sizeof row});
    }
    /* A count that may lack pushes is another knowledge than one that does not. */
    sha256_add_number(hash, counts->is_partial, 1);
    sha256_add_number(hash, ps_push_counts_known(counts), 4);
    sha256_add_number(hash, sum, 8);
}

/* A client never uses a sequence twice, so there are no ties. */
static int compare_slots(const void *a, const void *b)
{
    uint64_t left = ((const struct ps_session_slot *)a)->sequence;
    uint64_t right = ((const struct ps_session_slot *)b)->sequence;
    return (left > right) - (left < right);
}
