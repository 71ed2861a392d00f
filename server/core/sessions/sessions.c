/* What is new, a repeat, too old, or another request under a used id. The table of clients is in
 * session_table.c. */
#include "server/core/sessions/sessions.h"

#include "base/assert.h"
#include "server/core/sessions/fingerprint.h"
#include "server/core/sessions/session_table.h"

#include <inttypes.h>
#include <utlist.h>

/* Test builds without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_SESSION_LOOKUP
static const bool session_lookup_is_off = true;
#else
static const bool session_lookup_is_off = false;
#endif
#ifdef PS_MUTATE_SKIP_SESSION_FLOOR
static const bool session_floor_is_off = true;
#else
static const bool session_floor_is_off = false;
#endif
#ifdef PS_MUTATE_SKIP_REPLAY_KEEPS_CLIENTS
static const bool replay_evicts = true;
#else
static const bool replay_evicts = false;
#endif

static enum ps_status check_id(const struct ps_request_id *request, struct ps_error *error);
static enum ps_status begin_locked(struct ps_sessions *sessions,
                                   const struct ps_request_id *request, uint32_t fingerprint,
                                   struct ps_session_call *call, struct ps_error *error);
static enum ps_status classify(const struct ps_sessions *sessions,
                               const struct ps_session_entry *entry,
                               const struct ps_request_id *request, uint32_t fingerprint,
                               uint64_t now_us, const struct ps_session_slot **repeat,
                               struct ps_error *error);
static enum ps_status check_new_session(const struct ps_sessions *sessions,
                                        const struct ps_session_entry *entry, uint64_t session,
                                        uint64_t now_us, struct ps_error *error);
static enum ps_status check_slot(const struct ps_session_slot *slot,
                                 const struct ps_request_id *request, uint32_t fingerprint,
                                 struct ps_error *error);
static enum ps_status find_entry(struct ps_sessions *sessions, const struct ps_request_id *request,
                                 struct ps_session_entry **entry, struct ps_error *error);
static enum ps_status check_window(const struct ps_session_entry *entry, uint64_t sequence,
                                   struct ps_error *error);
static enum ps_status start(struct ps_sessions *sessions, struct ps_session_entry *entry,
                            struct ps_session_call *call, struct ps_error *error);
static void make_room(struct ps_sessions *sessions, uint64_t now_us);
static void end_call(struct ps_session_call *call);
static void suggest_session(const struct ps_sessions *sessions,
                            const struct ps_session_entry *entry, uint64_t now_us,
                            struct ps_error *error);
static uint64_t highest(uint64_t a, uint64_t b);

void ps_sessions_init(struct ps_sessions *sessions, const struct ps_allocator *memory,
                      uint32_t clients_max, uint64_t idle_ms)
{
    PS_ASSERT(clients_max > 0);
    *sessions = (struct ps_sessions){
        .memory = memory, .clients_max = clients_max, .idle_us = idle_ms * 1000};
    ps_mutex_init(&sessions->lock, PS_RANK_QUEUE);
}

void ps_sessions_fini(struct ps_sessions *sessions)
{
    ps_sessions_clear(sessions);
    ps_mutex_fini(&sessions->lock);
}

void ps_sessions_clear(struct ps_sessions *sessions)
{
    ps_mutex_lock(&sessions->lock);
    while (sessions->idlest != NULL)
        ps_session_drop(sessions, sessions->idlest);
    sessions->floor = 0;
    PS_ASSERT(sessions->entries == NULL);
    PS_ASSERT(sessions->remembered == 0);
    ps_mutex_unlock(&sessions->lock);
}

uint32_t ps_sessions_count(struct ps_sessions *sessions)
{
    ps_mutex_lock(&sessions->lock);
    uint32_t count = sessions->remembered;
    ps_mutex_unlock(&sessions->lock);
    return count;
}

void ps_sessions_tally(struct ps_sessions *sessions, struct ps_sessions_tally *tally)
{
    ps_mutex_lock(&sessions->lock);
    *tally = (struct ps_sessions_tally){.remembered = sessions->remembered,
                                        .newly_forgotten = sessions->forgotten,
                                        .newly_forgotten_early = sessions->forgotten_early};
    sessions->forgotten = 0;
    sessions->forgotten_early = 0;
    ps_mutex_unlock(&sessions->lock);
}

void ps_sessions_raise_floor(struct ps_sessions *sessions, uint64_t now_us)
{
    ps_mutex_lock(&sessions->lock);
    sessions->floor = highest(sessions->floor, now_us);
    ps_mutex_unlock(&sessions->lock);
}

/* ---- One request ---- */

enum ps_status ps_sessions_begin(struct ps_sessions *sessions, const struct ps_request_id *request,
                                 uint32_t fingerprint, uint64_t now_us,
                                 struct ps_session_call *call, struct ps_error *error)
{
    PS_TRY(check_id(request, error));
    *call = (struct ps_session_call){
        .sequence = request->sequence, .now_us = now_us, .fingerprint = fingerprint};
    ps_mutex_lock(&sessions->lock);
    enum ps_status status = begin_locked(sessions, request, fingerprint, call, error);
    ps_mutex_unlock(&sessions->lock);
    return status;
}

static enum ps_status check_id(const struct ps_request_id *request, struct ps_error *error)
{
    PS_ASSERT(request->present);
    if (request->client_id.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "request: the client id is empty");
    if (request->client_id.size > PS_CLIENT_ID_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "request: the client id has %zu bytes; at most %d are allowed",
                       request->client_id.size, PS_CLIENT_ID_BYTES_MAX);
    if (request->sequence == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "request: sequences begin at 1");
    return PS_OK;
}

static enum ps_status begin_locked(struct ps_sessions *sessions,
                                   const struct ps_request_id *request, uint32_t fingerprint,
                                   struct ps_session_call *call, struct ps_error *error)
{
    const struct ps_session_slot *repeat = NULL;
    struct ps_session_entry *entry = ps_session_find(sessions, request->client_id);
    PS_TRY(classify(sessions, entry, request, fingerprint, call->now_us, &repeat, error));
    if (repeat != NULL) {
        ps_session_touch(sessions, entry, call->now_us);
        call->is_repeat = true;
        call->answer = repeat->answer;
        return PS_OK;
    }
    PS_TRY(find_entry(sessions, request, &entry, error));
    enum ps_status status = start(sessions, entry, call, error);
    if (status != PS_OK && !entry->is_remembered && entry->applying == NULL)
        ps_session_drop(sessions, entry);
    return status;
}

/* A repeat, a new request, or one that must be refused. `entry` may be NULL. */
static enum ps_status classify(const struct ps_sessions *sessions,
                               const struct ps_session_entry *entry,
                               const struct ps_request_id *request, uint32_t fingerprint,
                               uint64_t now_us, const struct ps_session_slot **repeat,
                               struct ps_error *error)
{
    *repeat = NULL;
    if (session_lookup_is_off)
        return PS_OK;
    enum ps_status status = PS_OK;
    if (entry == NULL || request->session > entry->client.session) {
        status = check_new_session(sessions, entry, request->session, now_us, error);
    } else if (request->session < entry->client.session) {
        status = ps_fail(error, PS_ERR_STALE_SESSION,
                         "session %" PRIu64 " is over: the client has begun session %" PRIu64,
                         request->session, entry->client.session);
    } else {
        const struct ps_session_slot *slot = ps_session_slot_of(&entry->client, request->sequence);
        if (slot != NULL)
            status = check_slot(slot, request, fingerprint, error);
        if (slot != NULL && slot->sequence == request->sequence)
            *repeat = slot;
    }
    if (status == PS_ERR_STALE_SESSION)
        suggest_session(sessions, entry, now_us, error);
    return status;
}

/* A client that is not remembered, or that begins anew. The session that suggest_session names is
 * let in whatever the clock says, so that a wrong clock here shuts out nobody who asks. */
static enum ps_status check_new_session(const struct ps_sessions *sessions,
                                        const struct ps_session_entry *entry, uint64_t session,
                                        uint64_t now_us, struct ps_error *error)
{
    if (entry == NULL && session < sessions->floor && !session_floor_is_off)
        return ps_fail(error, PS_ERR_STALE_SESSION,
                       "the client is not remembered, and its session %" PRIu64
                       " may be one that was forgotten: nobody can tell whether the request was "
                       "applied; begin a session of %" PRIu64 " or above",
                       session, sessions->floor);
    uint64_t latest = highest(now_us + PS_SESSION_AHEAD_US, sessions->floor);
    if (entry != NULL)
        latest = highest(latest, entry->client.session + 1);
    if (session <= latest)
        return PS_OK;
    return ps_fail(error, PS_ERR_STALE_SESSION,
                   "session %" PRIu64 " begins later than now: a session is the time at which it "
                   "began, in microseconds since 1970, here now %" PRIu64,
                   session, now_us);
}

static enum ps_status check_slot(const struct ps_session_slot *slot,
                                 const struct ps_request_id *request, uint32_t fingerprint,
                                 struct ps_error *error)
{
    if (slot->sequence > request->sequence)
        return ps_fail(error, PS_ERR_STALE_SESSION,
                       "sequence %" PRIu64 " is too old: %" PRIu64 " was applied since, and %d are "
                       "remembered; nobody can tell whether it was applied",
                       request->sequence, slot->sequence, PS_SESSION_SLOTS);
    if (slot->sequence == request->sequence &&
        !ps_fingerprint_agrees(slot->fingerprint, fingerprint))
        return ps_fail(error, PS_ERR_ID_REUSED,
                       "sequence %" PRIu64 " of session %" PRIu64 " of this client was another "
                       "request, and this one was not applied: begin a higher session (the present "
                       "time in microseconds), and use a client id for one client only",
                       request->sequence, request->session);
    return PS_OK;
}

/* A session that check_new_session accepts at this moment. */
static void suggest_session(const struct ps_sessions *sessions,
                            const struct ps_session_entry *entry, uint64_t now_us,
                            struct ps_error *error)
{
    if (error == NULL)
        return;
    error->session = highest(sessions->floor, now_us);
    if (entry != NULL)
        error->session = highest(error->session, entry->client.session + 1);
}

static uint64_t highest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The client's entry, in the request's session. */
static enum ps_status find_entry(struct ps_sessions *sessions, const struct ps_request_id *request,
                                 struct ps_session_entry **entry, struct ps_error *error)
{
    if (*entry == NULL) {
        *entry = ps_session_add(sessions, request->client_id, request->session);
        if (*entry == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to remember another client");
    }
    if (request->session <= (*entry)->client.session)
        return PS_OK;
    if ((*entry)->applying != NULL)
        return ps_fail(error, PS_ERR_BUSY,
                       "requests of the client's session %" PRIu64 " are still being applied",
                       (*entry)->client.session);
    ps_session_begin_anew(&(*entry)->client, request->session);
    return PS_OK;
}

static enum ps_status start(struct ps_sessions *sessions, struct ps_session_entry *entry,
                            struct ps_session_call *call, struct ps_error *error)
{
    PS_TRY(check_window(entry, call->sequence, error));
    PS_TRY(ps_session_reserve(sessions, entry, call->sequence, error));
    ps_session_touch(sessions, entry, call->now_us);
    call->entry = entry;
    LL_PREPEND(entry->applying, call);
    return PS_OK;
}

static enum ps_status check_window(const struct ps_session_entry *entry, uint64_t sequence,
                                   struct ps_error *error)
{
    for (const struct ps_session_call *call = entry->applying; call != NULL; call = call->next) {
        if (call->sequence == sequence)
            return ps_fail(error, PS_ERR_BUSY,
                           "sequence %" PRIu64 " is being applied at this moment: repeat it soon",
                           sequence);
        if (call->sequence % PS_SESSION_SLOTS == sequence % PS_SESSION_SLOTS)
            return ps_fail(error, PS_ERR_BUSY,
                           "sequence %" PRIu64 " must wait for %" PRIu64
                           ", which is being applied: at most %d may be under way together",
                           sequence, call->sequence, PS_SESSION_SLOTS);
    }
    return PS_OK;
}

void ps_sessions_commit(struct ps_sessions *sessions, struct ps_session_call *call,
                        struct ps_session_answer answer)
{
    PS_ASSERT(!call->is_repeat);
    ps_mutex_lock(&sessions->lock);
    struct ps_session_entry *entry = call->entry;
    *ps_session_place_of(&entry->client, call->sequence) = (struct ps_session_slot){
        .sequence = call->sequence, .answer = answer, .fingerprint = call->fingerprint};
    call->is_new_client = !entry->is_remembered;
    if (call->is_new_client) {
        make_room(sessions, call->now_us);
        ps_session_enlist(sessions, entry, call->now_us);
    }
    end_call(call);
    ps_mutex_unlock(&sessions->lock);
}

/* Two go for one that comes, so that a table which replay has made too large shrinks, and no
 * request has to wait while thousands are forgotten. Where every client has a request under way,
 * the table is too large for as long as those last. */
static void make_room(struct ps_sessions *sessions, uint64_t now_us)
{
    for (int i = 0; i < 2 && sessions->remembered >= sessions->clients_max; i++)
        if (!ps_session_forget_one(sessions, now_us))
            return;
}

void ps_sessions_abort(struct ps_sessions *sessions, struct ps_session_call *call)
{
    PS_ASSERT(!call->is_repeat);
    ps_mutex_lock(&sessions->lock);
    struct ps_session_entry *entry = call->entry;
    end_call(call);
    if (!entry->is_remembered && entry->applying == NULL)
        ps_session_drop(sessions, entry);
    ps_mutex_unlock(&sessions->lock);
}

static void end_call(struct ps_session_call *call)
{
    PS_ASSERT(call->entry->applying != NULL);
    LL_DELETE(call->entry->applying, call);
    call->entry = NULL;
}

enum ps_status ps_sessions_look(struct ps_sessions *sessions, const struct ps_request_id *request,
                                uint32_t fingerprint, uint64_t now_us, bool *is_repeat,
                                struct ps_session_answer *answer, struct ps_error *error)
{
    PS_TRY(check_id(request, error));
    const struct ps_session_slot *repeat = NULL;
    ps_mutex_lock(&sessions->lock);
    struct ps_session_entry *entry = ps_session_find(sessions, request->client_id);
    enum ps_status status = classify(sessions, entry, request, fingerprint, now_us, &repeat, error);
    if (status == PS_OK)
        *is_repeat = repeat != NULL;
    if (status == PS_OK && repeat != NULL) {
        ps_session_touch(sessions, entry, now_us);
        if (answer != NULL)
            *answer = repeat->answer;
    }
    ps_mutex_unlock(&sessions->lock);
    return status;
}

/* ---- From the journal ---- */

static enum ps_status remember_locked(struct ps_sessions *sessions,
                                      const struct ps_request_id *request, uint64_t now_us,
                                      const struct ps_session_slot *newest, struct ps_error *error)
{
    struct ps_session_entry *entry = ps_session_find(sessions, request->client_id);
    if (entry == NULL) {
        if (replay_evicts && sessions->remembered >= sessions->clients_max)
            ps_session_drop(sessions, sessions->idlest);
        entry = ps_session_add(sessions, request->client_id, request->session);
        if (entry == NULL)
            return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to remember another client");
        ps_session_enlist(sessions, entry, now_us);
    }
    ps_session_touch(sessions, entry, now_us);
    if (request->session < entry->client.session)
        return PS_OK;
    if (request->session > entry->client.session)
        ps_session_begin_anew(&entry->client, request->session);
    PS_TRY(ps_session_reserve(sessions, entry, request->sequence, error));
    struct ps_session_slot *slot = ps_session_place_of(&entry->client, request->sequence);
    if (slot->sequence < request->sequence)
        *slot = *newest;
    return PS_OK;
}

enum ps_status ps_sessions_remember(struct ps_sessions *sessions,
                                    const struct ps_request_id *request, uint32_t fingerprint,
                                    uint64_t now_us, struct ps_session_answer answer,
                                    struct ps_error *error)
{
    if (check_id(request, NULL) != PS_OK || request->session == UINT64_MAX)
        return ps_fail(error, PS_ERR_CORRUPT, "a client id of %zu bytes, sequence %" PRIu64,
                       request->client_id.size, request->sequence);
    const struct ps_session_slot newest = {
        .sequence = request->sequence, .answer = answer, .fingerprint = fingerprint};
    ps_mutex_lock(&sessions->lock);
    enum ps_status status = remember_locked(sessions, request, now_us, &newest, error);
    ps_mutex_unlock(&sessions->lock);
    return status;
}

/* ---- For the codec and for tools ---- */

const struct ps_session_client *ps_sessions_next(const struct ps_sessions *sessions,
                                                 const struct ps_session_client *client)
{
    const struct ps_session_entry *entry = (const struct ps_session_entry *)(const void *)client;
    const struct ps_session_entry *next = entry == NULL ? sessions->idlest : entry->next;
    return next == NULL ? NULL : &next->client;
}

bool ps_sessions_knows(struct ps_sessions *sessions, struct ps_bytes id)
{
    ps_mutex_lock(&sessions->lock);
    bool knows = ps_session_find(sessions, id) != NULL;
    ps_mutex_unlock(&sessions->lock);
    return knows;
}

enum ps_status ps_sessions_put(struct ps_sessions *sessions, const struct ps_session_client *client)
{
    const struct ps_bytes id = {client->id, client->id_size};
    enum ps_status status = PS_ERR_NO_MEMORY;
    ps_mutex_lock(&sessions->lock);
    PS_ASSERT(ps_session_find(sessions, id) == NULL);
    struct ps_session_entry *entry = ps_session_add(sessions, id, client->session);
    if (entry != NULL) {
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
    if (status != PS_OK && entry != NULL)
        ps_session_drop(sessions, entry);
    ps_mutex_unlock(&sessions->lock);
    return status;
}

static void check_entry(const struct ps_session_entry *entry)
{
    const struct ps_session_client *client = &entry->client;
    PS_ASSERT(client->id_size >= 1);
    PS_ASSERT(client->id_size <= PS_CLIENT_ID_BYTES_MAX);
    PS_ASSERT((client->slot_places & (client->slot_places - 1)) == 0);
    PS_ASSERT(client->slot_places <= PS_SESSION_SLOTS);
    for (uint32_t i = 0; i < client->slot_places; i++) {
        uint64_t sequence = client->slots[i].sequence;
        PS_ASSERT(sequence == 0 || sequence % client->slot_places == i);
    }
    for (const struct ps_session_call *call = entry->applying; call != NULL; call = call->next) {
        PS_ASSERT(call->entry == entry);
        PS_ASSERT(!call->is_repeat);
    }
}

void ps_sessions_check(struct ps_sessions *sessions)
{
    ps_mutex_lock(&sessions->lock);
    size_t listed = 0;
    for (const struct ps_session_entry *entry = sessions->idlest; entry != NULL;
         entry = entry->next) {
        PS_ASSERT(entry->is_remembered);
        PS_ASSERT(entry->next == NULL || entry->next->prev == entry);
        listed++;
    }
    PS_ASSERT(listed == sessions->remembered);
    for (const struct ps_session_entry *entry = sessions->entries; entry != NULL;
         entry = entry->hh.next) {
        PS_ASSERT(entry->is_remembered || entry->applying != NULL);
        check_entry(entry);
    }
    ps_mutex_unlock(&sessions->lock);
}
