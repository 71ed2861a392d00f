/* SPDX-License-Identifier: Apache-2.0 */
/* What of a client was applied, for the process that comes back under its id. Answer and end of the
 * former session are one step under the lock: a push that came between the two would be in the
 * state and not in the answer, and its trainer would make it once more. */
#include "server/core/sessions/sessions.h"

#include "base/assert.h"
#include "server/core/sessions/session_table.h"

#include <string.h>

static enum ps_status look_locked(struct ps_sessions *sessions, const struct ps_request_id *request,
                                  bool begins, uint64_t now_us, const struct ps_allocator *memory,
                                  struct ps_session_applied *applied, struct ps_error *error);
static enum ps_status describe(const struct ps_session_client *client,
                               const struct ps_allocator *memory,
                               struct ps_session_applied *applied, struct ps_error *error);

/* The sequence is not looked at: a question has none, and is not remembered. */
enum ps_status ps_sessions_applied(struct ps_sessions *sessions,
                                   const struct ps_request_id *request, bool begins,
                                   uint64_t now_us, const struct ps_allocator *memory,
                                   struct ps_session_applied *applied, struct ps_error *error)
{
    /* Released by the caller also after a failure: it is whole from here on. */
    size_t id_size = request->client_id.size;
    *applied = (struct ps_session_applied){.is_whole = false};
    if (id_size == 0 || id_size > PS_CLIENT_ID_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a client id of %zu bytes; 1 to %d go", id_size,
                       PS_CLIENT_ID_BYTES_MAX);
    /* One question takes the lock for as long as copying the counts takes: some microseconds for a
     * thousand parameters, and trainers ask once in their lives. */
    ps_mutex_lock(&sessions->lock);
    enum ps_status status = look_locked(sessions, request, begins, now_us, memory, applied, error);
    ps_mutex_unlock(&sessions->lock);
    PS_ASSERT(status != PS_OK || begins == (applied->begun > 0));
    /* Of an answer that failed half way nothing is handed out. */
    if (status != PS_OK)
        ps_session_applied_release(applied, memory);
    return status;
}

/* Described before the next session begins, which empties the slots. */
static enum ps_status look_locked(struct ps_sessions *sessions, const struct ps_request_id *request,
                                  bool begins, uint64_t now_us, const struct ps_allocator *memory,
                                  struct ps_session_applied *applied, struct ps_error *error)
{
    struct ps_session_entry *entry = ps_session_find(sessions, request->client_id);
    PS_TRY(ps_session_check_owner(entry, request, error));
    bool is_named = ps_client_is_named(request->client_id);
    /* Its first request is still under way, so that nothing was applied. */
    if (entry != NULL && entry->is_remembered)
        PS_TRY(describe(&entry->client, memory, applied, error));
    else
        /* As long as nobody was forgotten, an unknown client is one that never pushed. */
        applied->is_whole = is_named && sessions->floor == 0;
    if (!begins)
        return PS_OK;
    PS_TRY(ps_session_begin_next(sessions, request, now_us, &entry, error));
    PS_ASSERT(entry->is_remembered && entry->client.session > applied->session);
    applied->begun = entry->client.session;
    return PS_OK;
}

/* Copied under the lock: names are looked up behind it, and pushes go on meanwhile. */
static enum ps_status describe(const struct ps_session_client *client,
                               const struct ps_allocator *memory,
                               struct ps_session_applied *applied, struct ps_error *error)
{
    const struct ps_bytes id = {client->id, client->id_size};
    *applied = (struct ps_session_applied){.is_known = true,
                                           .is_whole =
                                               ps_client_is_named(id) && !client->counts.is_partial,
                                           .session = client->session,
                                           .used_us = client->used_us,
                                           .counts = client->counts};
    PS_ASSERT(client->id_size > 0);
    /* The slots are of the present session alone. */
    for (uint32_t i = 0; i < client->slot_places; i++)
        if (client->slots[i].sequence > applied->sequence)
            applied->sequence = client->slots[i].sequence;
    applied->counts.places =
        ps_zeroed_array(memory, client->counts.place_count, sizeof(struct ps_push_count));
    if (applied->counts.places == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for what a client has pushed");
    if (client->counts.place_count > 0)
        memcpy(applied->counts.places, client->counts.places,
               client->counts.place_count * sizeof(struct ps_push_count));
    return PS_OK;
}

/* The copy belongs to no room: it was never counted. */
void ps_session_applied_release(struct ps_session_applied *applied,
                                const struct ps_allocator *memory)
{
    ps_release(memory, applied->counts.places);
    *applied = (struct ps_session_applied){.is_known = false};
}

/* Every client is asked: of a name nobody knows who has pushed to it. */
void ps_sessions_drop_name(struct ps_sessions *sessions, struct ps_bytes name)
{
    uint64_t key = ps_push_count_key(name);
    PS_ASSERT(name.size > 0);
    ps_mutex_lock(&sessions->lock);
    /* Also those of clients whose first request is under way: it may be this one. */
    for (struct ps_session_entry *entry = sessions->entries; entry != NULL; entry = entry->hh.next)
        ps_push_counts_remove(&entry->client.counts, key);
    ps_mutex_unlock(&sessions->lock);
}
