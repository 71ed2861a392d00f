/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as bytes, for the checkpoint. All numbers are little-endian:
 *
 *   header   "PSSN", u32 format (2 or 3), u64 floor, u32 number of clients
 *   client   u8 size of the id, the id, u64 session, u64 last used (microseconds since 1970),
 *            u16 number of slots, these; in format 3: u8 1 when pushes may have gone uncounted,
 *            u32 number of counts, these
 *   slot     u64 sequence, u64 version, u64 position, u32 fingerprint
 *   count    u64 digest of a name, u64 pushes, u64 version, by rising digests
 *
 * Format 3 is written when there are named clients, so that programs which count nothing read what
 * has no counts.
 *
 * Clients stand from the longest silent to the one used last, slots by the residue of their
 * sequences. A reader takes only what a writer can have made, so the bytes of a state are always
 * the same.
 *
 * Format 1, which is read and no longer written: the header has u32 flags (1: clients have been
 * forgotten) for the floor, clients stand by their ids and have no time, slots by their sequences
 * and have no fingerprint. */
#include "server/core/sessions/sessions.h"

#include "base/assert.h"
#include "server/core/sessions/session_table.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_VERSION 2
#define COUNTS_VERSION 3
#define HEADER_BYTES 20
#define CLIENT_BYTES 19 /* without the id */
#define SLOT_BYTES 28
#define COUNTS_BYTES 5 /* without the counts */
#define COUNT_BYTES 24
#define FORMER_VERSION 1
#define FORMER_FLAG_HAS_FORGOTTEN 1
static const uint8_t magic[4] = {'P', 'S', 'S', 'N'};

/* ---- Writing ---- */

/* Where the next byte goes; the memory was measured before, so nothing is checked on the way, and
 * all of it at the end. */
struct writer {
    uint8_t *at;
};

/* The low bytes of a little-endian number come first, so its first `size` bytes are the number. */
static void put_number(struct writer *writer, uint64_t number, size_t size)
{
    /* The same bytes on a machine of either order. */
    uint64_t little = htole64(number);
    PS_ASSERT(size == 8 || number >> (8 * size) == 0);
    memcpy(writer->at, &little, size);
    writer->at += size;
}

/* As they are; a length, where one is needed, went before. */
static void put_bytes(struct writer *writer, const void *bytes, size_t size)
{
    PS_ASSERT(writer->at != NULL);
    memcpy(writer->at, bytes, size);
    writer->at += size;
}

/* Places of the ring in which a request stands. */
static size_t count_slots(const struct ps_session_client *client)
{
    size_t count = 0;
    for (size_t i = 0; i < client->slot_places; i++)
        count += client->slots[i].sequence != 0;
    PS_ASSERT(count <= PS_SESSION_SLOTS);
    return count;
}

/* By the id, which every format has. */
static bool is_named(const struct ps_session_client *client)
{
    PS_ASSERT(client->id_size > 0);
    return ps_client_is_named((struct ps_bytes){client->id, client->id_size});
}

/* The format for this table: the former one wherever that says everything, since a program of
 * before must be able to go back to a checkpoint that this one has written. */
static uint32_t version_for(const struct ps_sessions *sessions)
{
    const struct ps_session_client *client = ps_sessions_next(sessions, NULL);
    while (client != NULL && !is_named(client))
        client = ps_sessions_next(sessions, client);
    return client != NULL ? COUNTS_VERSION : FORMAT_VERSION;
}

/* The bytes that put_client will put: the two walks see the same table, since the lock is held. */
static size_t measure(const struct ps_sessions *sessions, uint32_t version)
{
    size_t size = HEADER_BYTES;
    size_t counts = version == COUNTS_VERSION ? COUNTS_BYTES : 0;
    for (const struct ps_session_client *client = ps_sessions_next(sessions, NULL); client != NULL;
         client = ps_sessions_next(sessions, client))
        size += CLIENT_BYTES + client->id_size + SLOT_BYTES * count_slots(client) + counts +
                (size_t)COUNT_BYTES * ps_push_counts_known(&client->counts);
    PS_ASSERT(size >= HEADER_BYTES);
    return size;
}

/* SLOT_BYTES, in the order of the picture above. */
static void put_slot(struct writer *writer, const struct ps_session_slot *slot)
{
    PS_ASSERT(slot->sequence != 0);
    put_number(writer, slot->sequence, 8);
    put_number(writer, slot->answer.version, 8);
    put_number(writer, slot->answer.position, 8);
    put_number(writer, slot->fingerprint, 4);
}

/* For qsort: differences of unsigned numbers would wrap, comparisons do not. */
static int compare_residues(const void *a, const void *b)
{
    uint64_t left = ((const struct ps_session_slot *)a)->sequence % PS_SESSION_SLOTS;
    uint64_t right = ((const struct ps_session_slot *)b)->sequence % PS_SESSION_SLOTS;
    return (left > right) - (left < right);
}

/* A full ring is in the order of residues; a smaller one is not, and is quickly sorted. The order
 * is part of the format: the bytes must not say how large a ring happened to be. */
static void put_slots(struct writer *writer, const struct ps_session_client *client)
{
    /* 8 KiB of the checkpointer's stack. */
    struct ps_session_slot sorted[PS_SESSION_SLOTS];
    size_t count = 0;
    for (size_t i = 0; i < client->slot_places; i++)
        if (client->slots[i].sequence != 0)
            sorted[count++] = client->slots[i];
    PS_ASSERT(count <= client->slot_places);
    if (count > 1 && client->slot_places < PS_SESSION_SLOTS)
        qsort(sorted, count, sizeof sorted[0], compare_residues);
    put_number(writer, count, 2);
    for (size_t i = 0; i < count; i++)
        put_slot(writer, &sorted[i]);
}

/* For qsort, over counts as they were put. */
static int compare_counts(const void *a, const void *b)
{
    uint64_t left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    left = le64toh(left);
    right = le64toh(right);
    return (left > right) - (left < right);
}

/* Sorted where they lie in the bytes: the places of a hash table say in which order names came. */
static void put_counts(struct writer *writer, const struct ps_push_counts *counts)
{
    /* Measured by the same count, so that the room is exactly there. */
    uint32_t known = ps_push_counts_known(counts);
    put_number(writer, counts->is_partial, 1);
    put_number(writer, known, 4);
    uint8_t *first = writer->at;
    for (uint32_t i = 0; i < counts->place_count; i++) {
        const struct ps_push_count *count = &counts->places[i];
        if (count->pushes == 0)
            continue;
        put_number(writer, count->name, 8);
        put_number(writer, count->pushes, 8);
        put_number(writer, count->version, 8);
    }
    PS_ASSERT((size_t)(writer->at - first) == (size_t)COUNT_BYTES * known);
    qsort(first, known, COUNT_BYTES, compare_counts);
}

/* CLIENT_BYTES and the id. */
static void put_client(struct writer *writer, const struct ps_session_client *client)
{
    PS_ASSERT(client->id_size >= 1 && client->id_size <= PS_CLIENT_ID_BYTES_MAX);
    put_number(writer, client->id_size, 1);
    put_bytes(writer, client->id, client->id_size);
    PS_ASSERT(client->session < UINT64_MAX);
    put_number(writer, client->session, 8);
    put_number(writer, client->used_us, 8);
    put_slots(writer, client);
}

/* One allocation of the exact size, under the lock: the table is one instant's, together with the
 * parameters of the same snapshot. Clients whose first request is under way are not written; there
 * are none, since the caller holds the cut alone. */
enum ps_status ps_sessions_encode(struct ps_sessions *sessions, const struct ps_allocator *memory,
                                  uint8_t **bytes, size_t *size, struct ps_error *error)
{
    *bytes = NULL;
    *size = 0;
    ps_mutex_lock(&sessions->lock);
    uint32_t version = version_for(sessions);
    size_t needed = measure(sessions, version);
    uint8_t *made = ps_plain(memory, needed);
    /* Without memory the measured size is still told, in the text. */
    if (made != NULL) {
        struct writer writer = {made};
        put_bytes(&writer, magic, sizeof magic);
        put_number(&writer, version, 4);
        put_number(&writer, sessions->floor, 8);
        put_number(&writer, sessions->remembered, 4);
        for (const struct ps_session_client *client = ps_sessions_next(sessions, NULL);
             client != NULL; client = ps_sessions_next(sessions, client)) {
            put_client(&writer, client);
            if (version == COUNTS_VERSION)
                put_counts(&writer, &client->counts);
        }
        PS_ASSERT((size_t)(writer.at - made) == needed);
    }
    ps_mutex_unlock(&sessions->lock);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes of sessions", needed);
    *bytes = made;
    *size = needed;
    return PS_OK;
}

/* ---- Reading ---- */

/* What is left; `is_short` once it was not enough. From then on every number is 0, and whoever
 * reads asks at the end of each piece: so no length has to be checked before each field. */
struct reader {
    struct ps_bytes left;
    uint64_t version;
    bool is_short;
};

/* NULL: there are not so many bytes. */
static const uint8_t *take(struct reader *reader, size_t size)
{
    if (reader->left.size < size) {
        reader->is_short = true;
        return NULL;
    }
    const uint8_t *at = reader->left.data;
    PS_ASSERT(reader->left.data != NULL || size == 0);
    reader->left.data += size;
    reader->left.size -= size;
    return at;
}

/* The counterpart of put_number; bytes above `size` stay 0. */
static uint64_t take_number(struct reader *reader, size_t size)
{
    const uint8_t *at = take(reader, size);
    uint64_t little = 0;
    PS_ASSERT(size <= sizeof little);
    if (at != NULL)
        memcpy(&little, at, size);
    return le64toh(little);
}

/* All texts begin alike: an operator sees which part of the checkpoint it is. */
static enum ps_status fail(struct ps_error *error, const char *what)
{
    return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: sessions: %s", what);
}

/* What the slots of a client are sorted by: rising ranks are how a writer is told from chance. */
static uint64_t rank_of(const struct reader *reader, uint64_t sequence)
{
    return reader->version == FORMER_VERSION ? sequence : sequence % PS_SESSION_SLOTS + 1;
}

/* Into a full ring: whoever puts the client into the table takes as many places as it needs. An
 * answer from behind the checkpoint's position cannot be in it: the push would be remembered as
 * applied and be missing from the parameters. */
static enum ps_status read_slots(struct reader *reader, uint64_t position,
                                 struct ps_session_slot *ring, struct ps_error *error)
{
    PS_ASSERT(ring != NULL && reader->version != 0);
    uint64_t slot_count = take_number(reader, 2);
    uint64_t before = 0;
    if (slot_count > PS_SESSION_SLOTS)
        return fail(error, "more slots than a client has");
    for (uint64_t i = 0; i < slot_count; i++) {
        struct ps_session_slot slot = {.sequence = take_number(reader, 8)};
        slot.answer.version = take_number(reader, 8);
        slot.answer.position = take_number(reader, 8);
        if (reader->version != FORMER_VERSION)
            slot.fingerprint = (uint32_t)take_number(reader, 4);
        if (reader->is_short)
            return fail(error, "they end too early");
        PS_ASSERT(i < PS_SESSION_SLOTS);
        struct ps_session_slot *place = &ring[slot.sequence % PS_SESSION_SLOTS];
        uint64_t rank = rank_of(reader, slot.sequence);
        if (slot.sequence == 0 || rank <= before || place->sequence != 0)
            return fail(error, "sequences out of order, or two in one slot");
        /* A version cannot be checked here: parameters are read later. */
        if (slot.answer.position > position)
            return fail(error, "an answer from behind the checkpoint's position");
        *place = slot;
        before = rank;
    }
    return PS_OK;
}

/* `client` has a full ring of empty slots. A session that none can follow would shut the client out
 * for ever, and no server lets one begin. */
static enum ps_status read_client(struct reader *reader, uint64_t position, uint64_t written_us,
                                  struct ps_session_client *client, struct ps_error *error)
{
    PS_ASSERT(client->slots != NULL && client->slot_places == PS_SESSION_SLOTS);
    client->id_size = (size_t)take_number(reader, 1);
    if (client->id_size > PS_CLIENT_ID_BYTES_MAX || (client->id_size == 0 && !reader->is_short))
        return fail(error, "a client id that is empty or too long");
    const uint8_t *id = take(reader, client->id_size);
    if (id != NULL)
        memcpy(client->id, id, client->id_size);
    client->session = take_number(reader, 8);
    if (client->session == UINT64_MAX)
        return fail(error, "a session that none can follow");
    client->used_us = reader->version == FORMER_VERSION ? written_us : take_number(reader, 8);
    PS_TRY(read_slots(reader, position, client->slots, error));
    return reader->is_short ? fail(error, "they end too early") : PS_OK;
}

/* A view of the id, which lies in the client itself. */
static struct ps_bytes id_of(const struct ps_session_client *client)
{
    PS_ASSERT(client->id_size <= PS_CLIENT_ID_BYTES_MAX);
    return (struct ps_bytes){client->id, client->id_size};
}

/* Of the client that was put last. What was counted of a client by a program that does not count is
 * nothing, which is not the whole. */
static enum ps_status read_counts(struct ps_sessions *sessions, struct reader *reader,
                                  const struct ps_session_client *client, struct ps_error *error)
{
    struct ps_session_entry *entry = ps_session_find(sessions, id_of(client));
    PS_ASSERT(entry != NULL && entry->is_remembered);
    struct ps_push_counts *counts = &entry->client.counts;
    /* An id that a program of before let in may look chosen: nobody counted its pushes then. */
    counts->is_partial = is_named(client);
    if (reader->version < COUNTS_VERSION)
        return PS_OK;
    uint64_t is_partial = take_number(reader, 1);
    uint64_t count = take_number(reader, 4);
    /* Only what a writer can have made: a random id has no counts. */
    if (is_partial > 1 || (!is_named(client) && (is_partial > 0 || count > 0)))
        return fail(error, "counts of a client that has none");
    uint64_t before = 0;
    counts->is_partial = is_partial != 0;
    for (uint64_t i = 0; i < count && !reader->is_short; i++) {
        uint64_t name = take_number(reader, 8);
        uint64_t pushes = take_number(reader, 8);
        uint64_t version = take_number(reader, 8);
        /* Zeros of a reader that is short are not a count. */
        if (reader->is_short)
            break;
        /* Rising digests are how a writer is told from chance, and that each is there once. */
        if (name <= before || pushes == 0)
            return fail(error, "counts out of order, or of no push");
        PS_TRY(ps_push_counts_reserve(counts, name, &sessions->count_room, error));
        ps_push_counts_add(counts, name, pushes, version);
        before = name;
    }
    return reader->is_short ? fail(error, "they end too early") : PS_OK;
}

/* Each client is put into the table as the one used last: their order in the bytes is the list's.
 * The former format had them by their ids; nobody knows who was silent for how long, and all of
 * them get the time at which the checkpoint was written. */
static enum ps_status read_clients(struct ps_sessions *sessions, struct reader *reader,
                                   uint64_t position, uint64_t written_us, uint64_t client_count,
                                   struct ps_error *error)
{
    struct ps_session_client before = {0};
    for (uint64_t i = 0; i < client_count; i++) {
        PS_ASSERT(ps_sessions_count(sessions) == i);
        struct ps_session_slot ring[PS_SESSION_SLOTS] = {0};
        struct ps_session_client client = {.slot_places = PS_SESSION_SLOTS, .slots = ring};
        PS_TRY(read_client(reader, position, written_us, &client, error));
        bool is_former = reader->version == FORMER_VERSION;
        if (is_former && ps_bytes_compare(id_of(&before), id_of(&client)) >= 0)
            return fail(error, "clients out of order");
        if (ps_sessions_knows(sessions, id_of(&client)))
            return fail(error, "a client is there twice");
        if (ps_sessions_put(sessions, &client) != PS_OK)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to remember %" PRIu64 " clients",
                           client_count);
        PS_TRY(read_counts(sessions, reader, &client, error));
        /* Of the client before only the id is compared; its ring is this turn's. */
        before = client;
        before.slots = NULL;
    }
    return PS_OK;
}

/* The former format says only whether anybody was forgotten. Whoever was, had a session from before
 * the checkpoint was written: a floor there is high enough. */
static enum ps_status read_floor(struct ps_sessions *sessions, struct reader *reader,
                                 uint64_t written_us, struct ps_error *error)
{
    bool is_former = reader->version == FORMER_VERSION;
    PS_ASSERT(reader->version >= FORMER_VERSION && reader->version <= COUNTS_VERSION);
    uint64_t floor = take_number(reader, is_former ? 4 : 8);
    if (is_former && floor > FORMER_FLAG_HAS_FORGOTTEN)
        return fail(error, "an unknown flag");
    if (is_former && floor == FORMER_FLAG_HAS_FORGOTTEN)
        floor = written_us;
    if (!reader->is_short)
        ps_sessions_raise_floor(sessions, floor);
    return PS_OK;
}

/* The whole table, down to its last byte: something behind the end would be of a format that this
 * program does not know, and dropping it would forget clients. */
static enum ps_status read_all(struct ps_sessions *sessions, struct reader *reader,
                               uint64_t position, uint64_t written_us, struct ps_error *error)
{
    const uint8_t *mark = take(reader, sizeof magic);
    if (mark == NULL || memcmp(mark, magic, sizeof magic) != 0)
        return fail(error, "they do not begin as sessions do");
    PS_ASSERT(reader->version == 0);
    reader->version = take_number(reader, 4);
    if (reader->is_short)
        return fail(error, "they end too early");
    if (reader->version < FORMER_VERSION || reader->version > COUNTS_VERSION)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "checkpoint: sessions of format %" PRIu64 "; this program knows %d",
                       reader->version, COUNTS_VERSION);
    PS_TRY(read_floor(sessions, reader, written_us, error));
    uint64_t client_count = take_number(reader, 4);
    if (reader->is_short)
        return fail(error, "they end too early");
    PS_TRY(read_clients(sessions, reader, position, written_us, client_count, error));
    if (reader->left.size > 0)
        return fail(error, "something stands behind their end");
    if (reader->version == COUNTS_VERSION && version_for(sessions) != COUNTS_VERSION)
        return fail(error, "counts, and nobody who is counted");
    return PS_OK;
}

/* No bytes at all come from programs that remembered nobody. Behind position 0 nothing was applied
 * yet, so nothing can be repeated; behind any other every client of before has to begin anew. */
enum ps_status ps_sessions_decode(struct ps_sessions *sessions, struct ps_bytes bytes,
                                  uint64_t position, uint64_t written_us, struct ps_error *error)
{
    PS_ASSERT(ps_sessions_count(sessions) == 0);
    if (bytes.size == 0) {
        if (position > 0)
            ps_sessions_raise_floor(sessions, written_us);
        return PS_OK;
    }
    PS_ASSERT(bytes.data != NULL);
    struct reader reader = {.left = bytes};
    enum ps_status status = read_all(sessions, &reader, position, written_us, error);
    PS_ASSERT(status != PS_OK || reader.left.size == 0);
    if (status != PS_OK)
        ps_sessions_clear(sessions);
    return status;
}
