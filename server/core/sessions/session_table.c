/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of clients that is also a list by silence. A client's slots grow by doubling: most
 * ids of a flood of new ones are used once, and must not cost what a trainer's does. Who has a
 * place in the table is decided here; what a place means, in sessions.c. */
#include "server/core/sessions/session_table.h"

#include "base/assert.h"

#include <string.h>
#include <utlist.h>

/* A client that sends one request at a time needs one; four cost 128 bytes and spare most clients
 * the first two doublings. */
#define SLOT_PLACES_MIN 4

static bool has_place(const struct ps_session_entry *entry, uint64_t sequence, uint32_t places);
static bool is_of_place(const struct ps_session_slot *slot, uint64_t sequence);
static enum ps_status grow(struct ps_sessions *sessions, struct ps_session_client *client,
                           uint32_t places, struct ps_error *error);

/* By the bytes of the id alone: a client's next session is the same client. */
struct ps_session_entry *ps_session_find(const struct ps_sessions *sessions, struct ps_bytes id)
{
    struct ps_session_entry *entry;
    HASH_FIND(hh, sessions->entries, id.data, id.size, entry);
    PS_ASSERT(entry == NULL || entry->client.id_size == id.size);
    return entry;
}

/* In the table, so that a second request of the client finds it, and not in the list: until its
 * first commit nobody is forgotten for it, and it counts against no limit. */
struct ps_session_entry *ps_session_add(struct ps_sessions *sessions, struct ps_bytes id,
                                        uint64_t session)
{
    PS_ASSERT(id.size >= 1 && id.size <= PS_CLIENT_ID_BYTES_MAX);
    struct ps_session_entry *entry = ps_zeroed(sessions->memory, sizeof *entry);
    if (entry == NULL)
        return NULL;
    memcpy(entry->client.id, id.data, id.size);
    entry->client.id_size = id.size;
    entry->client.session = session;
    /* Who was forgotten may have been this one: what is counted from here on is not all. */
    entry->client.counts.is_partial = ps_client_is_named(id) && sessions->floor > 0;
    bool refused = false;
    HASH_ADD_KEYPTR(hh, sessions->entries, entry->client.id, entry->client.id_size, entry);
    /* uthash_nonfatal_oom, above, sets it where the table could not grow. */
    if (!refused)
        return entry;
    ps_release(sessions->memory, entry);
    return NULL;
}

/* The first request was applied. From here on forgetting this client raises the floor. */
void ps_session_enlist(struct ps_sessions *sessions, struct ps_session_entry *entry,
                       uint64_t now_us)
{
    PS_ASSERT(!entry->is_remembered);
    PS_ASSERT(entry->prev == NULL && entry->next == NULL);
    entry->is_remembered = true;
    entry->client.used_us = now_us;
    sessions->remembered++;
    DL_APPEND(sessions->idlest, entry);
}

/* The time never goes back: requests of several threads come here in any order. The last of the
 * list is where it belongs already. */
void ps_session_touch(struct ps_sessions *sessions, struct ps_session_entry *entry, uint64_t now_us)
{
    if (now_us > entry->client.used_us)
        entry->client.used_us = now_us;
    if (!entry->is_remembered || entry->next == NULL)
        return;
    DL_DELETE(sessions->idlest, entry);
    DL_APPEND(sessions->idlest, entry);
}

/* A client with a request under way is passed over: its answer is about to be remembered, and
 * without an entry there would be nowhere to put it. A clock that went back counts as an early
 * forgetting, which is what an operator should look at. */
bool ps_session_forget_one(struct ps_sessions *sessions, uint64_t now_us)
{
    struct ps_session_entry *entry = sessions->idlest;
    while (entry != NULL && entry->applying != NULL)
        entry = entry->next;
    if (entry == NULL)
        return false;
    PS_ASSERT(entry->is_remembered);
    uint64_t used_us = entry->client.used_us;
    sessions->forgotten++;
    sessions->forgotten_early += now_us < used_us || now_us - used_us < sessions->idle_us;
    /* Nobody begins a session so high that there is none above it: see classify. */
    PS_ASSERT(entry->client.session < UINT64_MAX);
    if (entry->client.session >= sessions->floor)
        sessions->floor = entry->client.session + 1;
    PS_ASSERT(sessions->floor > entry->client.session);
    ps_session_drop(sessions, entry);
    return true;
}

/* Raises no floor: for clients that nothing was applied for, and for a table that is emptied as a
 * whole. */
void ps_session_drop(struct ps_sessions *sessions, struct ps_session_entry *entry)
{
    PS_ASSERT(entry->applying == NULL);
    if (entry->is_remembered) {
        PS_ASSERT(sessions->remembered > 0);
        DL_DELETE(sessions->idlest, entry);
        sessions->remembered--;
    }
    HASH_DEL(sessions->entries, entry);
    ps_push_counts_release(&entry->client.counts, &sessions->count_room);
    ps_release(sessions->memory, entry->client.slots);
    ps_release(sessions->memory, entry);
}

/* The slots keep their places: whoever has used 256 in one session will in the next. */
void ps_session_begin_anew(struct ps_session_client *client, uint64_t session)
{
    PS_ASSERT(session > client->session);
    client->session = session;
    if (client->slot_places > 0)
        memset(client->slots, 0, client->slot_places * sizeof client->slots[0]);
}

/* Before the request is applied, so that remembering it cannot fail afterwards: a push that was
 * applied and could not be remembered would be applied again. */
enum ps_status ps_session_reserve(struct ps_sessions *sessions, struct ps_session_entry *entry,
                                  uint64_t sequence, struct ps_error *error)
{
    uint32_t places = entry->client.slot_places;
    if (places == 0)
        places = SLOT_PLACES_MIN;
    /* Ends at PS_SESSION_SLOTS at the latest. */
    while (!has_place(entry, sequence, places))
        places *= 2;
    PS_ASSERT(places <= PS_SESSION_SLOTS);
    if (places == entry->client.slot_places)
        return PS_OK;
    return grow(sessions, &entry->client, places, error);
}

/* With so many places, does no other residue stand where this sequence would, now or when the
 * requests under way are over? With PS_SESSION_SLOTS of them each residue has its own, and the rule
 * of sessions.h holds; with fewer, two residues that meet make the ring grow instead of one driving
 * the other out. */
static bool has_place(const struct ps_session_entry *entry, uint64_t sequence, uint32_t places)
{
    if (places == PS_SESSION_SLOTS)
        return true;
    const struct ps_session_client *client = &entry->client;
    for (uint32_t i = 0; i < client->slot_places; i++) {
        uint64_t other = client->slots[i].sequence;
        if (other != 0 && other % places == sequence % places &&
            !is_of_place(&client->slots[i], sequence))
            return false;
    }
    /* A request under way will need its place when it commits. */
    for (const struct ps_session_call *call = entry->applying; call != NULL; call = call->next)
        if (call->sequence % places == sequence % places)
            return false;
    return true;
}

/* A slot belongs to a residue of PS_SESSION_SLOTS, however few places there are. */
static bool is_of_place(const struct ps_session_slot *slot, uint64_t sequence)
{
    return slot->sequence % PS_SESSION_SLOTS == sequence % PS_SESSION_SLOTS;
}

/* Doubling keeps residues apart that were apart: what is equal modulo the new size was equal modulo
 * the old one. */
static enum ps_status grow(struct ps_sessions *sessions, struct ps_session_client *client,
                           uint32_t places, struct ps_error *error)
{
    PS_ASSERT(places > client->slot_places && places <= PS_SESSION_SLOTS);
    struct ps_session_slot *slots = ps_zeroed_array(sessions->memory, places, sizeof *slots);
    if (slots == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to remember another request");
    for (uint32_t i = 0; i < client->slot_places; i++) {
        const struct ps_session_slot *slot = &client->slots[i];
        if (slot->sequence != 0)
            slots[slot->sequence % places] = *slot;
        PS_ASSERT(slot->sequence == 0 || slots[slot->sequence % places].sequence == slot->sequence);
    }
    ps_release(sessions->memory, client->slots);
    client->slots = slots;
    client->slot_places = places;
    return PS_OK;
}

/* Another residue in that place says nothing about this one: nobody of it was there. */
struct ps_session_slot *ps_session_slot_of(const struct ps_session_client *client,
                                           uint64_t sequence)
{
    if (client->slot_places == 0)
        return NULL;
    struct ps_session_slot *slot = &client->slots[sequence % client->slot_places];
    return slot->sequence != 0 && is_of_place(slot, sequence) ? slot : NULL;
}

/* The place that ps_session_reserve has made sure of. */
struct ps_session_slot *ps_session_place_of(struct ps_session_client *client, uint64_t sequence)
{
    PS_ASSERT(client->slot_places > 0);
    struct ps_session_slot *slot = &client->slots[sequence % client->slot_places];
    PS_ASSERT(slot->sequence == 0 || is_of_place(slot, sequence));
    return slot;
}

/* ---- Invariants ---- */

/* A ring's sequences stand where sequences go: found by the same remainder by which they were
 * put. */
static void check_entry(const struct ps_session_entry *entry)
{
    const struct ps_session_client *client = &entry->client;
    PS_ASSERT(client->id_size >= 1);
    PS_ASSERT(client->id_size <= PS_CLIENT_ID_BYTES_MAX);
    PS_ASSERT((client->slot_places & (client->slot_places - 1)) == 0);
    PS_ASSERT(client->slot_places <= PS_SESSION_SLOTS);
    ps_push_counts_check(&client->counts);
    /* By the remainder that ps_session_slot_of looks it up with. */
    for (uint32_t i = 0; i < client->slot_places; i++) {
        uint64_t sequence = client->slots[i].sequence;
        PS_ASSERT(sequence == 0 || sequence % client->slot_places == i);
    }
    for (const struct ps_session_call *call = entry->applying; call != NULL; call = call->next) {
        PS_ASSERT(call->entry == entry);
        PS_ASSERT(!call->is_repeat);
    }
}

/* The list has those that are remembered; the table has them and those whose first request is under
 * way, and nobody else: anything more would be memory that nothing gives back. */
void ps_sessions_check(struct ps_sessions *sessions)
{
    ps_mutex_lock(&sessions->lock);
    size_t listed = 0;
    uint64_t places = 0;
    for (const struct ps_session_entry *entry = sessions->idlest; entry != NULL;
         entry = entry->next) {
        PS_ASSERT(entry->is_remembered);
        PS_ASSERT(entry->next == NULL || entry->next->prev == entry);
        listed++;
    }
    /* Both directions: what the list has is remembered, and as many as that are in the list. */
    PS_ASSERT(listed == sessions->remembered);
    for (const struct ps_session_entry *entry = sessions->entries; entry != NULL;
         entry = entry->hh.next) {
        PS_ASSERT(entry->is_remembered || entry->applying != NULL);
        check_entry(entry);
        places += entry->client.counts.place_count;
    }
    PS_ASSERT(places == sessions->count_room.places);
    ps_mutex_unlock(&sessions->lock);
}
