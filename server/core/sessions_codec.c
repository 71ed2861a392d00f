/* Sessions as bytes, for the checkpoint. All numbers are little-endian:
 *
 *   header   "PSSN", u32 version, u32 flags (1: clients have been forgotten), u32 number of clients
 *   client   u8 size of the id, the id, u64 session, u16 number of slots
 *   slot     u64 sequence, u64 version, u64 position
 *
 * Clients stand in the order of their ids, slots in that of their sequences. A reader takes only
 * what a writer can have made, so the bytes of a state are always the same. */
#include "server/core/sessions.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_VERSION 1
#define HEADER_BYTES 16
#define FLAG_HAS_FORGOTTEN 1
#define SLOT_BYTES 24
static const uint8_t magic[4] = {'P', 'S', 'S', 'N'};

static int compare_ids(const void *a, const void *b);
static int compare_sequences(const void *a, const void *b);

/* ---- Writing ---- */

/* Where the next byte goes; the memory was measured before. */
struct writer {
    uint8_t *at;
};

static void put_number(struct writer *writer, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        *writer->at++ = (uint8_t)(number >> 8 * i);
}

static void put_bytes(struct writer *writer, const void *bytes, size_t size)
{
    memcpy(writer->at, bytes, size);
    writer->at += size;
}

static size_t count_slots(const struct ps_session_client *client)
{
    size_t count = 0;
    for (size_t i = 0; i < PS_SESSION_SLOTS; i++)
        count += client->slots[i].sequence != 0;
    return count;
}

static size_t measure(const struct ps_sessions_copy *copy)
{
    size_t size = HEADER_BYTES;
    for (size_t i = 0; i < copy->client_count; i++)
        size += 1 + copy->clients[i].id_size + 8 + 2 + SLOT_BYTES * count_slots(&copy->clients[i]);
    return size;
}

/* To the front, those that are in use alone: most rings are far from full. */
static size_t gather_slots(struct ps_session_slot *slots)
{
    size_t count = 0;
    for (size_t i = 0; i < PS_SESSION_SLOTS; i++)
        if (slots[i].sequence != 0)
            slots[count++] = slots[i];
    return count;
}

static void put_client(struct writer *writer, struct ps_session_client *client)
{
    struct ps_session_slot *slots = client->slots;
    size_t slot_count = gather_slots(slots);
    put_number(writer, client->id_size, 1);
    put_bytes(writer, client->id, client->id_size);
    put_number(writer, client->session, 8);
    put_number(writer, slot_count, 2);
    qsort(slots, slot_count, sizeof slots[0], compare_sequences);
    for (size_t i = 0; i < slot_count; i++) {
        put_number(writer, slots[i].sequence, 8);
        put_number(writer, slots[i].answer.version, 8);
        put_number(writer, slots[i].answer.position, 8);
    }
}

enum ps_status ps_sessions_encode(struct ps_sessions_copy *copy, const struct ps_allocator *memory,
                                  uint8_t **bytes, size_t *size, struct ps_error *error)
{
    *bytes = NULL;
    *size = 0;
    size_t needed = measure(copy);
    uint8_t *made = ps_plain(memory, needed);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes of sessions", needed);
    if (copy->client_count > 0)
        qsort(copy->clients, copy->client_count, sizeof copy->clients[0], compare_ids);
    struct writer writer = {made};
    put_bytes(&writer, magic, sizeof magic);
    put_number(&writer, FORMAT_VERSION, 4);
    put_number(&writer, copy->has_forgotten ? FLAG_HAS_FORGOTTEN : 0, 4);
    put_number(&writer, copy->client_count, 4);
    for (size_t i = 0; i < copy->client_count; i++)
        put_client(&writer, &copy->clients[i]);
    PS_ASSERT((size_t)(writer.at - made) == needed);
    *bytes = made;
    *size = needed;
    return PS_OK;
}

static struct ps_bytes id_of(const struct ps_session_client *client)
{
    return (struct ps_bytes){client->id, client->id_size};
}

static int compare_ids(const void *a, const void *b)
{
    return ps_bytes_compare(id_of(a), id_of(b));
}

static int compare_sequences(const void *a, const void *b)
{
    const struct ps_session_slot *left = a;
    const struct ps_session_slot *right = b;
    return (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

/* ---- Reading ---- */

/* What is left; `is_short` once it was not enough. */
struct reader {
    struct ps_bytes left;
    bool is_short;
};

static const uint8_t *take(struct reader *reader, size_t size)
{
    if (reader->left.size < size) {
        reader->is_short = true;
        return NULL;
    }
    const uint8_t *at = reader->left.data;
    reader->left.data += size;
    reader->left.size -= size;
    return at;
}

static uint64_t take_number(struct reader *reader, size_t size)
{
    const uint8_t *at = take(reader, size);
    uint64_t number = 0;
    for (size_t i = 0; at != NULL && i < size; i++)
        number |= (uint64_t)at[i] << 8 * i;
    return number;
}

static enum ps_status fail(struct ps_error *error, const char *what)
{
    return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: sessions: %s", what);
}

static enum ps_status read_slots(struct reader *reader, uint64_t position,
                                 struct ps_session_client *client, struct ps_error *error)
{
    uint64_t slot_count = take_number(reader, 2);
    uint64_t before = 0;
    if (slot_count > PS_SESSION_SLOTS)
        return fail(error, "more slots than a client has");
    for (uint64_t i = 0; i < slot_count; i++) {
        struct ps_session_slot slot = {.sequence = take_number(reader, 8)};
        slot.answer.version = take_number(reader, 8);
        slot.answer.position = take_number(reader, 8);
        if (reader->is_short)
            return fail(error, "they end too early");
        struct ps_session_slot *place = &client->slots[slot.sequence % PS_SESSION_SLOTS];
        if (slot.sequence <= before || place->sequence != 0)
            return fail(error, "sequences out of order, or two in one slot");
        if (slot.answer.position > position)
            return fail(error, "an answer from behind the checkpoint's position");
        *place = slot;
        before = slot.sequence;
    }
    return PS_OK;
}

static enum ps_status read_client(struct reader *reader, uint64_t position,
                                  struct ps_session_client *client, struct ps_error *error)
{
    *client = (struct ps_session_client){.id_size = (size_t)take_number(reader, 1)};
    if (client->id_size > PS_CLIENT_ID_BYTES_MAX || (client->id_size == 0 && !reader->is_short))
        return fail(error, "a client id that is empty or too long");
    const uint8_t *id = take(reader, client->id_size);
    if (id != NULL)
        memcpy(client->id, id, client->id_size);
    client->session = take_number(reader, 8);
    PS_TRY(read_slots(reader, position, client, error));
    return reader->is_short ? fail(error, "they end too early") : PS_OK;
}

static enum ps_status read_all(struct ps_sessions *sessions, struct reader *reader,
                               uint64_t position, uint64_t now_ms, struct ps_error *error)
{
    const uint8_t *mark = take(reader, sizeof magic);
    if (mark == NULL || memcmp(mark, magic, sizeof magic) != 0)
        return fail(error, "they do not begin as sessions do");
    uint64_t version = take_number(reader, 4);
    if (reader->is_short)
        return fail(error, "they end too early");
    if (version != FORMAT_VERSION)
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "checkpoint: sessions of format %" PRIu64 "; this program knows %d", version,
                       FORMAT_VERSION);
    uint64_t flags = take_number(reader, 4);
    uint64_t client_count = take_number(reader, 4);
    if (reader->is_short)
        return fail(error, "they end too early");
    if (flags > FLAG_HAS_FORGOTTEN)
        return fail(error, "an unknown flag");
    if (flags == FLAG_HAS_FORGOTTEN)
        ps_sessions_set_forgotten(sessions);
    struct ps_session_client before = {0};
    for (uint64_t i = 0; i < client_count; i++) {
        struct ps_session_client client;
        PS_TRY(read_client(reader, position, &client, error));
        if (ps_bytes_compare(id_of(&before), id_of(&client)) >= 0)
            return fail(error, "clients out of order");
        if (ps_sessions_put(sessions, &client, now_ms) != PS_OK)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to remember %" PRIu64 " clients",
                           client_count);
        before = client;
    }
    if (reader->left.size > 0)
        return fail(error, "something stands behind their end");
    return PS_OK;
}

enum ps_status ps_sessions_decode(struct ps_sessions *sessions, struct ps_bytes bytes,
                                  uint64_t position, uint64_t now_ms, struct ps_error *error)
{
    PS_ASSERT(ps_sessions_count(sessions) == 0);
    if (bytes.size == 0) {
        if (position > 0)
            ps_sessions_set_forgotten(sessions);
        return PS_OK;
    }
    struct reader reader = {.left = bytes};
    enum ps_status status = read_all(sessions, &reader, position, now_ms, error);
    if (status != PS_OK)
        ps_sessions_clear(sessions);
    return status;
}
