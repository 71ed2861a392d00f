/* A hash table of clients that is also a list by idleness. It stays in this file that uthash does
 * the looking up. */
#include "server/core/sessions.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

/* uthash takes its memory from the table's allocator, and a refusal leaves the table as it was. */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) ps_plain(sessions->memory, (size))
#define uthash_free(pointer, size) ps_release(sessions->memory, (pointer))
#define uthash_nonfatal_oom(entry) (refused = true)
#include <uthash.h>

/* A test build without the look-up: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_SESSION_LOOKUP
static const bool session_lookup_is_off = true;
#else
static const bool session_lookup_is_off = false;
#endif

struct ps_session_entry {
    struct ps_session_client client;
    uint64_t touched_ms;              /* when its last request began */
    struct ps_session_call *applying; /* requests under way */
    struct ps_session_entry *idler;   /* neighbours in the list by idleness */
    struct ps_session_entry *busier;
    UT_hash_handle hh;
};

static enum ps_status check_id(const struct ps_request_id *request, struct ps_error *error);
static struct ps_session_entry *find(const struct ps_sessions *sessions, struct ps_bytes id);
static enum ps_status begin_locked(struct ps_sessions *sessions,
                                   const struct ps_request_id *request, uint64_t now_ms,
                                   struct ps_session_call *call, struct ps_error *error);
static enum ps_status classify(const struct ps_sessions *sessions,
                               const struct ps_session_entry *entry,
                               const struct ps_request_id *request,
                               const struct ps_session_slot **repeat, struct ps_error *error);
static enum ps_status check_window(const struct ps_session_entry *entry, uint64_t sequence,
                                   struct ps_error *error);
static enum ps_status let_in(struct ps_sessions *sessions, const struct ps_request_id *request,
                             uint64_t now_ms, struct ps_session_entry **entry,
                             struct ps_error *error);
static enum ps_status make_room(struct ps_sessions *sessions, uint64_t now_ms,
                                struct ps_error *error);
static struct ps_session_entry *add(struct ps_sessions *sessions, struct ps_bytes id,
                                    uint64_t now_ms);
static void forget(struct ps_sessions *sessions, struct ps_session_entry *entry);
static void drop(struct ps_sessions *sessions, struct ps_session_entry *entry);
static void touch(struct ps_sessions *sessions, struct ps_session_entry *entry, uint64_t now_ms);
static void unlink_entry(struct ps_sessions *sessions, struct ps_session_entry *entry);
static void link_as_busiest(struct ps_sessions *sessions, struct ps_session_entry *entry);
static void begin_session(struct ps_session_client *client, uint64_t session);
static void end_call(struct ps_session_call *call);

void ps_sessions_init(struct ps_sessions *sessions, const struct ps_allocator *memory,
                      uint32_t clients_max, uint64_t idle_ms)
{
    PS_ASSERT(clients_max > 0);
    *sessions =
        (struct ps_sessions){.memory = memory, .clients_max = clients_max, .idle_ms = idle_ms};
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
        drop(sessions, sessions->idlest);
    sessions->has_forgotten = false;
    PS_ASSERT(sessions->entries == NULL);
    ps_mutex_unlock(&sessions->lock);
}

uint32_t ps_sessions_count(struct ps_sessions *sessions)
{
    ps_mutex_lock(&sessions->lock);
    uint32_t count = HASH_COUNT(sessions->entries);
    ps_mutex_unlock(&sessions->lock);
    return count;
}

/* ---- One request ---- */

enum ps_status ps_sessions_begin(struct ps_sessions *sessions, const struct ps_request_id *request,
                                 uint64_t now_ms, struct ps_session_call *call,
                                 struct ps_error *error)
{
    PS_TRY(check_id(request, error));
    *call = (struct ps_session_call){.sequence = request->sequence};
    ps_mutex_lock(&sessions->lock);
    enum ps_status status = begin_locked(sessions, request, now_ms, call, error);
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

static struct ps_session_entry *find(const struct ps_sessions *sessions, struct ps_bytes id)
{
    struct ps_session_entry *entry;
    HASH_FIND(hh, sessions->entries, id.data, id.size, entry);
    return entry;
}

static enum ps_status begin_locked(struct ps_sessions *sessions,
                                   const struct ps_request_id *request, uint64_t now_ms,
                                   struct ps_session_call *call, struct ps_error *error)
{
    const struct ps_session_slot *repeat = NULL;
    struct ps_session_entry *entry = find(sessions, request->client_id);
    PS_TRY(classify(sessions, entry, request, &repeat, error));
    if (entry == NULL)
        PS_TRY(let_in(sessions, request, now_ms, &entry, error));
    if (repeat != NULL) {
        touch(sessions, entry, now_ms);
        call->is_repeat = true;
        call->answer = repeat->answer;
        return PS_OK;
    }
    if (request->session > entry->client.session) {
        if (entry->applying != NULL)
            return ps_fail(error, PS_ERR_BUSY,
                           "requests of the client's session %" PRIu64 " are still being applied",
                           entry->client.session);
        begin_session(&entry->client, request->session);
    }
    PS_TRY(check_window(entry, request->sequence, error));
    touch(sessions, entry, now_ms);
    call->entry = entry;
    call->next = entry->applying;
    entry->applying = call;
    return PS_OK;
}

/* A repeat, a new request, or one that is too old to tell. `entry` may be NULL. */
static enum ps_status classify(const struct ps_sessions *sessions,
                               const struct ps_session_entry *entry,
                               const struct ps_request_id *request,
                               const struct ps_session_slot **repeat, struct ps_error *error)
{
    *repeat = NULL;
    if (session_lookup_is_off)
        return PS_OK;
    if (entry == NULL && sessions->has_forgotten && request->sequence > PS_SESSION_SLOTS)
        return ps_fail(
            error, PS_ERR_STALE_SESSION,
            "the client is not remembered: begin a new session (this is sequence %" PRIu64
            " of session %" PRIu64 "; nobody can tell whether it was applied)",
            request->sequence, request->session);
    if (entry == NULL || request->session > entry->client.session)
        return PS_OK;
    if (request->session < entry->client.session)
        return ps_fail(error, PS_ERR_STALE_SESSION,
                       "session %" PRIu64 " is over: the client has begun session %" PRIu64,
                       request->session, entry->client.session);
    const struct ps_session_slot *slot = &entry->client.slots[request->sequence % PS_SESSION_SLOTS];
    if (slot->sequence > request->sequence)
        return ps_fail(error, PS_ERR_STALE_SESSION,
                       "sequence %" PRIu64 " is too old: %" PRIu64 " was applied since, and %d are "
                       "remembered; nobody can tell whether it was applied",
                       request->sequence, slot->sequence, PS_SESSION_SLOTS);
    if (slot->sequence == request->sequence)
        *repeat = slot;
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
    struct ps_session_slot *slot = &call->entry->client.slots[call->sequence % PS_SESSION_SLOTS];
    *slot = (struct ps_session_slot){.sequence = call->sequence, .answer = answer};
    end_call(call);
    ps_mutex_unlock(&sessions->lock);
}

void ps_sessions_abort(struct ps_sessions *sessions, struct ps_session_call *call)
{
    PS_ASSERT(!call->is_repeat);
    ps_mutex_lock(&sessions->lock);
    end_call(call);
    ps_mutex_unlock(&sessions->lock);
}

static void end_call(struct ps_session_call *call)
{
    struct ps_session_call **link = &call->entry->applying;
    while (*link != call) {
        PS_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = call->next;
    call->entry = NULL;
}

enum ps_status ps_sessions_look(struct ps_sessions *sessions, const struct ps_request_id *request,
                                bool *is_repeat, struct ps_error *error)
{
    PS_TRY(check_id(request, error));
    const struct ps_session_slot *repeat = NULL;
    ps_mutex_lock(&sessions->lock);
    enum ps_status status =
        classify(sessions, find(sessions, request->client_id), request, &repeat, error);
    ps_mutex_unlock(&sessions->lock);
    if (status == PS_OK)
        *is_repeat = repeat != NULL;
    return status;
}

enum ps_status ps_sessions_remember(struct ps_sessions *sessions,
                                    const struct ps_request_id *request, uint64_t now_ms,
                                    struct ps_session_answer answer, struct ps_error *error)
{
    if (check_id(request, NULL) != PS_OK)
        return ps_fail(error, PS_ERR_CORRUPT, "a client id of %zu bytes, sequence %" PRIu64,
                       request->client_id.size, request->sequence);
    ps_mutex_lock(&sessions->lock);
    struct ps_session_entry *entry = find(sessions, request->client_id);
    if (entry == NULL) {
        if (HASH_COUNT(sessions->entries) >= sessions->clients_max && sessions->idlest != NULL)
            forget(sessions, sessions->idlest);
        entry = add(sessions, request->client_id, now_ms);
    }
    if (entry != NULL) {
        touch(sessions, entry, now_ms);
        if (request->session > entry->client.session)
            begin_session(&entry->client, request->session);
        struct ps_session_slot *slot = &entry->client.slots[request->sequence % PS_SESSION_SLOTS];
        if (request->session == entry->client.session && slot->sequence < request->sequence)
            *slot = (struct ps_session_slot){.sequence = request->sequence, .answer = answer};
    }
    ps_mutex_unlock(&sessions->lock);
    if (entry == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to remember another client");
    return PS_OK;
}

/* ---- The table ---- */

static enum ps_status let_in(struct ps_sessions *sessions, const struct ps_request_id *request,
                             uint64_t now_ms, struct ps_session_entry **entry,
                             struct ps_error *error)
{
    PS_TRY(make_room(sessions, now_ms, error));
    *entry = add(sessions, request->client_id, now_ms);
    if (*entry == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to remember another client");
    begin_session(&(*entry)->client, request->session);
    return PS_OK;
}

/* Forgets the longest idle client when the table is full. One whose request is under way stays. */
static enum ps_status make_room(struct ps_sessions *sessions, uint64_t now_ms,
                                struct ps_error *error)
{
    if (HASH_COUNT(sessions->entries) < sessions->clients_max)
        return PS_OK;
    struct ps_session_entry *idlest = sessions->idlest;
    while (idlest != NULL && idlest->applying != NULL)
        idlest = idlest->busier;
    uint64_t idle_ms =
        idlest != NULL && now_ms > idlest->touched_ms ? now_ms - idlest->touched_ms : 0;
    if (idlest == NULL || idle_ms < sessions->idle_ms)
        return ps_fail(
            error, PS_ERR_BUSY,
            "%u clients are remembered, at most %" PRIu32 " may be; the longest idle one "
            "has been so for %" PRIu64 " ms and is forgotten after %" PRIu64 " ms",
            HASH_COUNT(sessions->entries), sessions->clients_max, idle_ms, sessions->idle_ms);
    forget(sessions, idlest);
    return PS_OK;
}

static struct ps_session_entry *add(struct ps_sessions *sessions, struct ps_bytes id,
                                    uint64_t now_ms)
{
    struct ps_session_entry *entry = ps_zeroed(sessions->memory, sizeof *entry);
    if (entry == NULL)
        return NULL;
    memcpy(entry->client.id, id.data, id.size);
    entry->client.id_size = id.size;
    entry->touched_ms = now_ms;
    bool refused = false;
    HASH_ADD_KEYPTR(hh, sessions->entries, entry->client.id, entry->client.id_size, entry);
    if (refused) {
        ps_release(sessions->memory, entry);
        return NULL;
    }
    link_as_busiest(sessions, entry);
    return entry;
}

static void forget(struct ps_sessions *sessions, struct ps_session_entry *entry)
{
    drop(sessions, entry);
    sessions->has_forgotten = true;
}

static void drop(struct ps_sessions *sessions, struct ps_session_entry *entry)
{
    PS_ASSERT(entry->applying == NULL);
    unlink_entry(sessions, entry);
    HASH_DEL(sessions->entries, entry);
    ps_release(sessions->memory, entry);
}

static void touch(struct ps_sessions *sessions, struct ps_session_entry *entry, uint64_t now_ms)
{
    if (now_ms > entry->touched_ms)
        entry->touched_ms = now_ms;
    unlink_entry(sessions, entry);
    link_as_busiest(sessions, entry);
}

static void unlink_entry(struct ps_sessions *sessions, struct ps_session_entry *entry)
{
    *(entry->idler != NULL ? &entry->idler->busier : &sessions->idlest) = entry->busier;
    *(entry->busier != NULL ? &entry->busier->idler : &sessions->busiest) = entry->idler;
}

static void link_as_busiest(struct ps_sessions *sessions, struct ps_session_entry *entry)
{
    entry->idler = sessions->busiest;
    entry->busier = NULL;
    *(entry->idler != NULL ? &entry->idler->busier : &sessions->idlest) = entry;
    sessions->busiest = entry;
}

static void begin_session(struct ps_session_client *client, uint64_t session)
{
    client->session = session;
    memset(client->slots, 0, sizeof client->slots);
}

/* ---- For the codec ---- */

enum ps_status ps_sessions_copy(struct ps_sessions *sessions, const struct ps_allocator *memory,
                                struct ps_sessions_copy *copy, struct ps_error *error)
{
    enum ps_status status = PS_OK;
    *copy = (struct ps_sessions_copy){0};
    ps_mutex_lock(&sessions->lock);
    copy->has_forgotten = sessions->has_forgotten;
    size_t count = HASH_COUNT(sessions->entries);
    copy->clients = ps_plain(memory, count * sizeof copy->clients[0]);
    if (copy->clients == NULL)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory to copy %zu clients", count);
    for (const struct ps_session_entry *entry = sessions->idlest; status == PS_OK && entry != NULL;
         entry = entry->busier) {
        PS_ASSERT(entry->applying == NULL);
        PS_ASSERT(copy->client_count < count);
        copy->clients[copy->client_count++] = entry->client;
    }
    ps_mutex_unlock(&sessions->lock);
    return status;
}

void ps_sessions_set_forgotten(struct ps_sessions *sessions)
{
    ps_mutex_lock(&sessions->lock);
    sessions->has_forgotten = true;
    ps_mutex_unlock(&sessions->lock);
}

enum ps_status ps_sessions_put(struct ps_sessions *sessions, const struct ps_session_client *client,
                               uint64_t now_ms)
{
    ps_mutex_lock(&sessions->lock);
    const struct ps_bytes id = {client->id, client->id_size};
    PS_ASSERT(find(sessions, id) == NULL);
    struct ps_session_entry *entry = add(sessions, id, now_ms);
    if (entry != NULL)
        entry->client = *client;
    ps_mutex_unlock(&sessions->lock);
    return entry != NULL ? PS_OK : PS_ERR_NO_MEMORY;
}

static void check_entry(const struct ps_session_entry *entry)
{
    PS_ASSERT(entry->client.id_size >= 1);
    PS_ASSERT(entry->client.id_size <= PS_CLIENT_ID_BYTES_MAX);
    for (size_t i = 0; i < PS_SESSION_SLOTS; i++) {
        uint64_t sequence = entry->client.slots[i].sequence;
        PS_ASSERT(sequence == 0 || sequence % PS_SESSION_SLOTS == i);
    }
    for (const struct ps_session_call *call = entry->applying; call != NULL; call = call->next) {
        PS_ASSERT(call->entry == entry);
        PS_ASSERT(!call->is_repeat);
    }
}

void ps_sessions_check(struct ps_sessions *sessions)
{
    ps_mutex_lock(&sessions->lock);
    size_t count = 0;
    const struct ps_session_entry *idler = NULL;
    for (const struct ps_session_entry *entry = sessions->idlest; entry != NULL;
         entry = entry->busier) {
        PS_ASSERT(entry->idler == idler);
        check_entry(entry);
        idler = entry;
        count++;
    }
    PS_ASSERT(sessions->busiest == idler);
    PS_ASSERT(count == HASH_COUNT(sessions->entries));
    ps_mutex_unlock(&sessions->lock);
}
