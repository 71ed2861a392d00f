/* SPDX-License-Identifier: Apache-2.0 */
/* What is new, a repeat, too old, or another request under a used id. The table of clients is in
 * session_table.c. Everything here happens under one lock and takes no longer than a look into a
 * hash table, so that requests of all clients may share it. */
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

static enum ps_status check_id(const struct ps_request_id *request, struct ps_error *error);
static uint64_t key_of(const struct ps_request_id *request);
static enum ps_status begin_locked(struct ps_sessions *sessions,
                                   const struct ps_request_id *request, uint32_t fingerprint,
                                   struct ps_session_call *call, struct ps_error *error);
static enum ps_status classify(const struct ps_sessions *sessions,
                               const struct ps_session_entry *entry,
                               const struct ps_request_id *request, uint32_t fingerprint,
                               uint64_t now_us, const struct ps_session_slot **repeat,
                               struct ps_error *error);
static void take_owner(struct ps_session_entry *entry, uint64_t owner);
static enum ps_status check_new_session(const struct ps_sessions *sessions,
                                        const struct ps_session_entry *entry, uint64_t session,
                                        uint64_t now_us, struct ps_error *error);
static enum ps_status check_slot(const struct ps_session_slot *slot,
                                 const struct ps_request_id *request, uint32_t fingerprint,
                                 struct ps_error *error);
static enum ps_status check_pace(const struct ps_request_id *request, struct ps_error *error);
static enum ps_status find_entry(struct ps_sessions *sessions, const struct ps_request_id *request,
                                 struct ps_session_entry **entry, struct ps_error *error);
static enum ps_status check_window(const struct ps_session_entry *entry, uint64_t sequence,
                                   struct ps_error *error);
static enum ps_status start(struct ps_sessions *sessions, struct ps_session_entry *entry,
                            struct ps_session_call *call, struct ps_error *error);
static void make_room(struct ps_sessions *sessions, uint64_t now_us);
static void end_call(struct ps_session_call *call);
static uint64_t next_session(const struct ps_sessions *sessions,
                             const struct ps_session_entry *entry, uint64_t now_us);
static uint64_t highest(uint64_t a, uint64_t b);

void ps_sessions_init(struct ps_sessions *sessions, const struct ps_allocator *memory,
                      uint32_t clients_max, uint64_t idle_ms)
{
    PS_ASSERT(clients_max > 0);
    *sessions = (struct ps_sessions){.memory = memory,
                                     .clients_max = clients_max,
                                     .idle_us = idle_ms * 1000,
                                     .count_room = {.memory = memory}};
    ps_mutex_init(&sessions->lock, PS_RANK_QUEUE);
}

/* Clear asserts that no request is under way: its caller would commit into freed memory. */
void ps_sessions_fini(struct ps_sessions *sessions)
{
    PS_ASSERT(sessions->clients_max > 0);
    ps_sessions_clear(sessions);
    ps_mutex_fini(&sessions->lock);
}

/* For a shard that is lost or loaded anew: its sessions go with its parameters, since the next
 * state has a table of its own. The floor goes, too: it says what was forgotten of that state. */
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

/* Those that are remembered; a client whose first request is under way is not yet. */
uint32_t ps_sessions_count(struct ps_sessions *sessions)
{
    ps_mutex_lock(&sessions->lock);
    uint32_t count = sessions->remembered;
    ps_mutex_unlock(&sessions->lock);
    return count;
}

/* Whoever asks takes the counts with it, so a metric that adds them up counts each once. */
void ps_sessions_tally(struct ps_sessions *sessions, struct ps_sessions_tally *tally)
{
    ps_mutex_lock(&sessions->lock);
    PS_ASSERT(sessions->forgotten_early <= sessions->forgotten);
    *tally = (struct ps_sessions_tally){.remembered = sessions->remembered,
                                        .newly_forgotten = sessions->forgotten,
                                        .newly_forgotten_early = sessions->forgotten_early};
    /* Both together: a share of early ones is asked of one and the same interval. */
    sessions->forgotten = 0;
    sessions->forgotten_early = 0;
    ps_mutex_unlock(&sessions->lock);
}

/* A floor never falls: what was refused once stays refused. */
void ps_sessions_raise_floor(struct ps_sessions *sessions, uint64_t now_us)
{
    ps_mutex_lock(&sessions->lock);
    sessions->floor = highest(sessions->floor, now_us);
    ps_mutex_unlock(&sessions->lock);
}

/* ---- One request ---- */

/* Classifying and reserving are one step under the lock. Otherwise two repeats that race would both
 * be new, and both would be applied. */
enum ps_status ps_sessions_begin(struct ps_sessions *sessions, const struct ps_request_id *request,
                                 uint32_t fingerprint, uint64_t now_us,
                                 struct ps_session_call *call, struct ps_error *error)
{
    PS_TRY(check_id(request, error));
    /* The caller keeps it, on its stack: the table only links it while the request is under way. */
    *call = (struct ps_session_call){.sequence = request->sequence,
                                     .owner = request->owner,
                                     .now_us = now_us,
                                     .counted = key_of(request),
                                     .fingerprint = fingerprint};
    ps_mutex_lock(&sessions->lock);
    enum ps_status status = begin_locked(sessions, request, fingerprint, call, error);
    ps_mutex_unlock(&sessions->lock);
    return status;
}

/* Of a push by a named client. The digest of a name costs little, and nobody else pays it. */
static uint64_t key_of(const struct ps_request_id *request)
{
    PS_ASSERT(request->client_id.size > 0);
    /* Initialisation and its end are numbered, too, and are not batches of anybody. */
    bool is_counted = request->pushed_to.size > 0 && ps_client_is_named(request->client_id);
    return is_counted ? ps_push_count_key(request->pushed_to) : 0;
}

/* Of the request alone, before any lock. A missing id is asked for by the caller, which knows
 * whether the request may go without one. */
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

/* A repeat is answered without reserving anything. A new request leaves its mark in `applying`;
 * whatever refuses it takes the entry of a client that was made for it away again, so that a flood
 * of refused requests leaves no memory behind. */
static enum ps_status begin_locked(struct ps_sessions *sessions,
                                   const struct ps_request_id *request, uint32_t fingerprint,
                                   struct ps_session_call *call, struct ps_error *error)
{
    const struct ps_session_slot *repeat = NULL;
    struct ps_session_entry *entry = ps_session_find(sessions, request->client_id);
    PS_TRY(classify(sessions, entry, request, fingerprint, call->now_us, &repeat, error));
    if (repeat != NULL) {
        ps_session_touch(sessions, entry, call->now_us);
        /* What a restart has forgotten: only who sent a request can repeat it. */
        take_owner(entry, request->owner);
        call->is_repeat = true;
        call->answer = repeat->answer;
        return PS_OK;
    }
    PS_TRY(find_entry(sessions, request, &entry, error));
    enum ps_status status = start(sessions, entry, call, error);
    /* Made for this request, which was refused: nobody else has the entry yet. */
    if (status != PS_OK && !entry->is_remembered && entry->applying == NULL)
        ps_session_drop(sessions, entry);
    return status;
}

/* A repeat, a new request, or one that must be refused; `entry` may be NULL. The three cases of a
 * session: above the client's, it begins anew, and nothing of it can have been applied; below, it
 * is over, and what it applied is no longer known; the same, the slot of its residue says it. */
static enum ps_status classify(const struct ps_sessions *sessions,
                               const struct ps_session_entry *entry,
                               const struct ps_request_id *request, uint32_t fingerprint,
                               uint64_t now_us, const struct ps_session_slot **repeat,
                               struct ps_error *error)
{
    *repeat = NULL;
    PS_TRY(ps_session_check_owner(entry, request, error));
    /* Everything is new then, and repeats are applied again: for the tests to notice. */
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
    if (status == PS_ERR_STALE_SESSION && error != NULL)
        error->session = next_session(sessions, entry, now_us);
    return status;
}

/* Before anything else: who is refused here learns nothing about the client's sessions. */
enum ps_status ps_session_check_owner(const struct ps_session_entry *entry,
                                      const struct ps_request_id *request, struct ps_error *error)
{
    PS_ASSERT(request->present);
    if (entry == NULL || entry->owner == 0 || request->owner == 0 || entry->owner == request->owner)
        return PS_OK;
    return ps_refuse(error, PS_ERR_DENIED, PS_REFUSED_CLIENT_ID, 0,
                     "this client id is somebody else's: each client has one of its own");
}

/* With the first request that was applied, and not with the first that was tried: who is refused
 * has taken nothing. */
static void take_owner(struct ps_session_entry *entry, uint64_t owner)
{
    /* Two owners may have requests of a new client under way: the first that is applied has it. */
    if (entry->owner == 0)
        entry->owner = owner;
    PS_ASSERT(entry->owner != 0 || owner == 0);
}

/* A client that is not remembered, or that begins anew. The session that next_session names is
 * let in whatever the clock says, so that a wrong clock here shuts out nobody who asks. The floor
 * is asked of unknown clients alone: a remembered one can show that its requests are none of the
 * forgotten. */
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
    /* Never below what next_session says: the floor may be ahead of a clock that went back. */
    uint64_t latest = highest(now_us + PS_SESSION_AHEAD_US, sessions->floor);
    if (entry != NULL)
        latest = highest(latest, entry->client.session + 1);
    /* A session of 0, or any other small number, is fine as long as nobody was forgotten. */
    if (session <= latest)
        return PS_OK;
    return ps_fail(error, PS_ERR_STALE_SESSION,
                   "session %" PRIu64 " begins later than now: a session is the time at which it "
                   "began, in microseconds since 1970, here now %" PRIu64,
                   session, now_us);
}

/* The newest request of a residue tells three things apart: an older sequence, which is 256 or more
 * behind it, is one that nobody remembers; the same one is a repeat, if it is the same request; a
 * newer one is new. */
static enum ps_status check_slot(const struct ps_session_slot *slot,
                                 const struct ps_request_id *request, uint32_t fingerprint,
                                 struct ps_error *error)
{
    PS_ASSERT(slot->sequence % PS_SESSION_SLOTS == request->sequence % PS_SESSION_SLOTS);
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

/* A session that check_new_session accepts at this moment: not below the floor, not below the
 * clock, and above the client's own. A client that begins it gets in without knowing any of
 * these. */
static uint64_t next_session(const struct ps_sessions *sessions,
                             const struct ps_session_entry *entry, uint64_t now_us)
{
    uint64_t session = highest(sessions->floor, now_us);
    PS_ASSERT(entry == NULL || entry->client.session < UINT64_MAX);
    /* Above the client's own, which a wrong clock may have made a high one. */
    return entry != NULL ? highest(session, entry->client.session + 1) : session;
}

/* As a first request and its commit, without a request: what is still on its way from before is of
 * a session that is over. An entry that was made here has nobody's request under way. */
enum ps_status ps_session_begin_next(struct ps_sessions *sessions,
                                     const struct ps_request_id *request, uint64_t now_us,
                                     struct ps_session_entry **out, struct ps_error *error)
{
    struct ps_request_id next = *request;
    struct ps_session_entry *entry = ps_session_find(sessions, request->client_id);
    next.session = next_session(sessions, entry, now_us);
    PS_TRY(find_entry(sessions, &next, &entry, error));
    PS_ASSERT(entry->client.session == next.session);
    take_owner(entry, request->owner);
    if (!entry->is_remembered) {
        make_room(sessions, now_us);
        ps_session_enlist(sessions, entry, now_us);
    }
    ps_session_touch(sessions, entry, now_us);
    *out = entry;
    return PS_OK;
}

/* Of two times or sessions, which are one kind of number. */
static uint64_t highest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Another client is another entry, and may drive out one: a caller begins with so many at once, and
 * so many a second. A client that is remembered is asked nothing. */
static enum ps_status check_pace(const struct ps_request_id *request, struct ps_error *error)
{
    const struct ps_origin *origin = request->origin;
    uint32_t wait_ms = 0;
    PS_ASSERT(request->client_id.size > 0);
    if (origin == NULL || origin->may_begin(origin->self, &wait_ms))
        return PS_OK;
    return ps_refuse(
        error, PS_ERR_BUSY, PS_REFUSED_SESSIONS, wait_ms,
        "too many client ids are new from here: use one for all pushes of a client, or "
        "begin with this one in %u ms",
        (unsigned)wait_ms);
}

/* The client's entry, in the request's session. A new session waits until the requests of the
 * former one have ended: their slots are emptied, and a commit would write into the new
 * session's. */
static enum ps_status find_entry(struct ps_sessions *sessions, const struct ps_request_id *request,
                                 struct ps_session_entry **entry, struct ps_error *error)
{
    if (*entry == NULL) {
        PS_TRY(check_pace(request, error));
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
    PS_ASSERT(request->session > (*entry)->client.session);
    ps_session_begin_anew(&(*entry)->client, request->session);
    return PS_OK;
}

/* Everything that may refuse the request comes before it is linked. The place of its answer is
 * reserved here, so that its commit cannot fail. */
static enum ps_status start(struct ps_sessions *sessions, struct ps_session_entry *entry,
                            struct ps_session_call *call, struct ps_error *error)
{
    PS_TRY(check_window(entry, call->sequence, error));
    PS_TRY(ps_session_reserve(sessions, entry, call->sequence, error));
    if (call->counted != 0)
        PS_TRY(ps_push_counts_reserve(&entry->client.counts, call->counted, &sessions->count_room,
                                      error));
    ps_session_touch(sessions, entry, call->now_us);
    call->entry = entry;
    PS_ASSERT(!call->is_repeat && call->sequence > 0);
    LL_PREPEND(entry->applying, call);
    return PS_OK;
}

/* Two requests of one residue cannot both be remembered, so they are not applied side by side: the
 * later one would drive out the answer of the other before its client has got it. */
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

/* Only now does the client exist for others: another one may have to be forgotten for it. The
 * answer is in its slot before the request is no longer under way, both under the lock, so a repeat
 * finds one of the two. */
void ps_sessions_commit(struct ps_sessions *sessions, struct ps_session_call *call,
                        struct ps_session_answer answer)
{
    PS_ASSERT(!call->is_repeat);
    ps_mutex_lock(&sessions->lock);
    struct ps_session_entry *entry = call->entry;
    take_owner(entry, call->owner);
    *ps_session_place_of(&entry->client, call->sequence) = (struct ps_session_slot){
        .sequence = call->sequence, .answer = answer, .fingerprint = call->fingerprint};
    if (call->counted != 0)
        ps_push_counts_add(&entry->client.counts, call->counted, 1, answer.version);
    call->is_new_client = !entry->is_remembered;
    /* Room before the newcomer is in the list: it must not be the one that is forgotten. */
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
    /* At most two, so that one commit never takes long with the lock held. */
    for (int i = 0; i < 2 && sessions->remembered >= sessions->clients_max; i++)
        if (!ps_session_forget_one(sessions, now_us))
            return;
}

/* The request changed nothing, so nothing of it is remembered: not even the client, if this was its
 * first. */
void ps_sessions_abort(struct ps_sessions *sessions, struct ps_session_call *call)
{
    PS_ASSERT(!call->is_repeat);
    ps_mutex_lock(&sessions->lock);
    struct ps_session_entry *entry = call->entry;
    PS_ASSERT(entry != NULL && call->sequence > 0);
    end_call(call);
    if (!entry->is_remembered && entry->applying == NULL)
        ps_session_drop(sessions, entry);
    ps_mutex_unlock(&sessions->lock);
}

/* The place that was reserved stays reserved; the next request of that residue has it. */
static void end_call(struct ps_session_call *call)
{
    PS_ASSERT(call->entry->applying != NULL);
    /* From now on a repeat is no longer told to wait. */
    LL_DELETE(call->entry->applying, call);
    call->entry = NULL;
}

/* For requests that come in pieces: a piece that finds the whole applied is answered as the whole
 * was. The same rules as ps_sessions_begin, without a place reserved. */
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
