/* SPDX-License-Identifier: Apache-2.0 */
/* A table that is made of what was written down: by the journal, record after record, and by a
 * checkpoint, client after client. No rule of sessions.c is asked here, and nobody is forgotten:
 * all of it was let in once, and a client that is missing afterwards could push again what it
 * pushed. */
#include "server/core/sessions/sessions.h"

#include "base/assert.h"
#include "server/core/sessions/session_table.h"

#include <inttypes.h>

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_REPLAY_KEEPS_CLIENTS
static const bool replay_evicts = true;
#else
static const bool replay_evicts = false;
#endif

/* ---- From the journal ---- */

/* Of every session: counts are of the client and not of one of its processes. */
static enum ps_status count_push(struct ps_sessions *sessions, struct ps_session_entry *entry,
                                 const struct ps_request_id *request, uint64_t version,
                                 struct ps_error *error)
{
    if (request->pushed_to.size == 0 || !ps_client_is_named(request->client_id))
        return PS_OK;
    /* A record stands in the journal once, and is replayed once: no repeat is counted here. */
    uint64_t name = ps_push_count_key(request->pushed_to);
    PS_ASSERT(entry->is_remembered && version > 0);
    PS_TRY(ps_push_counts_reserve(&entry->client.counts, name, &sessions->count_room, error));
    ps_push_counts_add(&entry->client.counts, name, 1, version);
    return PS_OK;
}

/* What the journal says was applied, so no rule is asked: the rules were, when it was let in.
 * Records of several parameters are replayed by several threads, so those of one client come in any
 * order: an older session and an older sequence of a residue change nothing. */
static enum ps_status remember_locked(struct ps_sessions *sessions,
                                      const struct ps_request_id *request, uint64_t now_us,
                                      const struct ps_session_slot *newest, struct ps_error *error)
{
    struct ps_session_entry *entry = ps_session_find(sessions, request->client_id);
    if (entry == NULL) {
        if (replay_evicts && sessions->remembered >= sessions->clients_max)
            ps_session_drop(sessions, sessions->idlest);
        /* Also above clients_max: whoever pushed last before a crash is who repeats a push after
         * it. */
        entry = ps_session_add(sessions, request->client_id, request->session);
        if (entry == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to remember another client");
        ps_session_enlist(sessions, entry, now_us);
    }
    ps_session_touch(sessions, entry, now_us);
    PS_TRY(count_push(sessions, entry, request, newest->answer.version, error));
    if (request->session < entry->client.session)
        return PS_OK;
    if (request->session > entry->client.session)
        ps_session_begin_anew(&entry->client, request->session);
    PS_TRY(ps_session_reserve(sessions, entry, request->sequence, error));
    PS_ASSERT(entry->is_remembered && request->session == entry->client.session);
    struct ps_session_slot *slot = ps_session_place_of(&entry->client, request->sequence);
    /* A record that comes late must not take the place of a newer one of its residue. */
    if (slot->sequence < request->sequence)
        *slot = *newest;
    return PS_OK;
}

/* An id that no server lets in means that the journal is damaged, however whole its checksums
 * are. A session that none can follow is one of these: forgetting its client could not raise the
 * floor. */
enum ps_status ps_sessions_remember(struct ps_sessions *sessions,
                                    const struct ps_request_id *request, uint32_t fingerprint,
                                    uint64_t now_us, struct ps_session_answer answer,
                                    struct ps_error *error)
{
    size_t id_size = request->client_id.size;
    bool is_possible = id_size >= 1 && id_size <= PS_CLIENT_ID_BYTES_MAX && request->sequence > 0 &&
                       request->session < UINT64_MAX;
    if (!is_possible)
        return ps_fail(error, PS_ERR_CORRUPT, "a client id of %zu bytes, sequence %" PRIu64,
                       id_size, request->sequence);
    PS_ASSERT(request->present);
    const struct ps_session_slot newest = {
        .sequence = request->sequence, .answer = answer, .fingerprint = fingerprint};
    ps_mutex_lock(&sessions->lock);
    enum ps_status status = remember_locked(sessions, request, now_us, &newest, error);
    ps_mutex_unlock(&sessions->lock);
    return status;
}

/* ---- For the codec and for tools ---- */

/* A client is the first member of its entry, so a pointer to one is a pointer to the other. */
const struct ps_session_client *ps_sessions_next(const struct ps_sessions *sessions,
                                                 const struct ps_session_client *client)
{
    const struct ps_session_entry *entry = (const struct ps_session_entry *)(const void *)client;
    const struct ps_session_entry *next = entry == NULL ? sessions->idlest : entry->next;
    PS_ASSERT(next == NULL || next->is_remembered);
    return next == NULL ? NULL : &next->client;
}

/* The codec asks it of bytes that may name a client twice. */
bool ps_sessions_knows(struct ps_sessions *sessions, struct ps_bytes id)
{
    ps_mutex_lock(&sessions->lock);
    bool knows = ps_session_find(sessions, id) != NULL;
    ps_mutex_unlock(&sessions->lock);
    return knows;
}

/* Names in any order: the new table is as large as they need, like the ring. */
static enum ps_status put_counts(struct ps_sessions *sessions, struct ps_session_entry *entry,
                                 const struct ps_push_counts *counts)
{
    enum ps_status status = PS_OK;
    struct ps_push_counts *to = &entry->client.counts;
    for (uint32_t i = 0; i < counts->place_count && status == PS_OK; i++) {
        const struct ps_push_count *count = &counts->places[i];
        if (count->pushes == 0)
            continue;
        status = ps_push_counts_reserve(to, count->name, &sessions->count_room, NULL);
        if (status == PS_OK)
            ps_push_counts_add(to, count->name, count->pushes, count->version);
    }
    PS_ASSERT(to != counts);
    /* Once partial, for ever: what was not counted is not found again. */
    to->is_partial |= counts->is_partial;
    return status;
}

/* Slot by slot, and not the ring as it is: the new ring is as small as its requests allow. What was
 * put is taken out again when memory is refused half way. */
enum ps_status ps_sessions_put(struct ps_sessions *sessions, const struct ps_session_client *client)
{
    const struct ps_bytes id = {client->id, client->id_size};
    enum ps_status status = PS_ERR_NO_MEMORY;
    ps_mutex_lock(&sessions->lock);
    PS_ASSERT(ps_session_find(sessions, id) == NULL);
    /* At the end of the list: the order in which clients are put is the order of their silence. */
    struct ps_session_entry *entry = ps_session_add(sessions, id, client->session);
    if (entry != NULL) {
        PS_ASSERT(client->session < UINT64_MAX);
        ps_session_enlist(sessions, entry, client->used_us);
        status = PS_OK;
    }
    for (uint32_t i = 0; i < client->slot_places && status == PS_OK; i++) {
        const struct ps_session_slot *slot = &client->slots[i];
        if (slot->sequence == 0)
            continue;
        status = ps_session_reserve(sessions, entry, slot->sequence, NULL);
        if (status == PS_OK)
            *ps_session_place_of(&entry->client, slot->sequence) = *slot;
    }
    if (status == PS_OK)
        status = put_counts(sessions, entry, &client->counts);
    if (status != PS_OK && entry != NULL)
        ps_session_drop(sessions, entry);
    ps_mutex_unlock(&sessions->lock);
    return status;
}
