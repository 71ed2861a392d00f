/* What a shard remembers of its clients' requests, so that a repeat is answered and not applied
 * again (promise P2).
 *
 * A request id is {client, session, sequence}. Sequences begin at 1 and rise by one within a
 * session; they may arrive out of order. Per client there is a ring of PS_SESSION_SLOTS slots; a
 * request stands in slot sequence % PS_SESSION_SLOTS, so the ring remembers the newest request of
 * each residue:
 *
 *   the slot has this sequence    a repeat: answered as it was the first time
 *   the slot has a higher one     too old: nobody can tell whether it was applied
 *   the slot has a lower one      new
 *
 * A session number below the client's is over; one above begins a new session, and the ring is
 * empty again. A client that is not remembered is new, unless clients have been forgotten in the
 * life of the shard: from then on a new one begins with one of the first PS_SESSION_SLOTS sequences
 * (its first calls may be in flight together), and one with a later sequence may be one of those.
 *
 * At most clients_max clients are remembered. When another comes, the one that has been idle the
 * longest is forgotten, if that is at least idle_ms. So a client must not repeat a request later
 * than idle_ms after it sent anything last.
 *
 * Threads:  every function is safe from any thread, but for init and fini.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   6.2 KiB per client, of the allocator given to init.
 */
#ifndef PS_SERVER_CORE_SESSIONS_H
#define PS_SERVER_CORE_SESSIONS_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/status.h"
#include "base/thread.h"
#include "proto/messages.h"

#define PS_SESSION_SLOTS 256

/* How a request was answered. Of requests that are no pushes, version and position are 0. */
struct ps_session_answer {
    uint64_t version;
    uint64_t position;
};

/* The newest request of one residue; sequence 0: none. */
struct ps_session_slot {
    uint64_t sequence;
    struct ps_session_answer answer;
};

/* Everything that is remembered of one client. */
struct ps_session_client {
    uint8_t id[PS_CLIENT_ID_BYTES_MAX];
    size_t id_size;
    uint64_t session;
    struct ps_session_slot slots[PS_SESSION_SLOTS];
};

struct ps_session_entry;

struct ps_sessions {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint32_t clients_max;
    uint64_t idle_ms;
    struct ps_mutex lock;             /* PS_RANK_QUEUE; guards all that follows */
    struct ps_session_entry *entries; /* hash table over the ids */
    struct ps_session_entry *idlest;  /* list from the longest idle on */
    struct ps_session_entry *busiest; /* its end */
    bool has_forgotten;               /* some client, in the life of the shard */
};

void ps_sessions_init(struct ps_sessions *sessions, const struct ps_allocator *memory,
                      uint32_t clients_max, uint64_t idle_ms);
void ps_sessions_fini(struct ps_sessions *sessions);

/* Forgets every client. No request may be under way. */
void ps_sessions_clear(struct ps_sessions *sessions);

uint32_t ps_sessions_count(struct ps_sessions *sessions);

/* ---- One request ---- */

/* A request that is being applied; the caller keeps it where it is until the end. */
struct ps_session_call {
    struct ps_session_entry *entry; /* private */
    uint64_t sequence;              /* private */
    struct ps_session_call *next;   /* private */
    bool is_repeat;                 /* it was applied before: `answer` says how; nothing to end */
    struct ps_session_answer answer;
};

/* Begins a request. On PS_OK either `call->is_repeat`, or the request is under way, and must be
 * ended by ps_sessions_commit or ps_sessions_abort.
 *
 * PS_ERR_BAD_INPUT      the id is empty or too long, or the sequence is 0
 * PS_ERR_STALE_SESSION  the session is over, the sequence is too old, or the client is not known
 * PS_ERR_BUSY           the same request, or one that shares its slot, is under way; a former
 *                       session's are; too many clients
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_sessions_begin(struct ps_sessions *sessions,
                                             const struct ps_request_id *request, uint64_t now_ms,
                                             struct ps_session_call *call, struct ps_error *error);

/* It was applied: from now on a repeat gets this answer. */
void ps_sessions_commit(struct ps_sessions *sessions, struct ps_session_call *call,
                        struct ps_session_answer answer);

/* It was refused, and may come again. */
void ps_sessions_abort(struct ps_sessions *sessions, struct ps_session_call *call);

/* Was this request applied? Changes nothing. `*is_repeat` is written on PS_OK.
 *
 * PS_ERR_BAD_INPUT, PS_ERR_STALE_SESSION   as ps_sessions_begin
 */
PS_MUST_USE enum ps_status ps_sessions_look(struct ps_sessions *sessions,
                                            const struct ps_request_id *request, bool *is_repeat,
                                            struct ps_error *error);

/* Remembers a request of the journal: no rule is asked, the clients of the journal were all let in.
 * The order among requests of a session does not matter. Above clients_max the longest idle goes.
 *
 * PS_ERR_CORRUPT      no such id could have been let in
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_sessions_remember(struct ps_sessions *sessions,
                                                const struct ps_request_id *request,
                                                uint64_t now_ms, struct ps_session_answer answer,
                                                struct ps_error *error);

/* ---- Into a checkpoint and back: sessions_codec.c ---- */

/* Copies of all clients, in no order. */
struct ps_sessions_copy {
    struct ps_session_client *clients;
    size_t client_count;
    bool has_forgotten;
};

/* Copies everything at memory speed, for an instant in which no request is under way; the caller
 * releases `copy->clients` to `memory`. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_sessions_copy(struct ps_sessions *sessions,
                                            const struct ps_allocator *memory,
                                            struct ps_sessions_copy *copy, struct ps_error *error);

/* The copies as bytes, which the caller releases to `memory`; sorts them by id, so that equal
 * states give equal bytes. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_sessions_encode(struct ps_sessions_copy *copy,
                                              const struct ps_allocator *memory, uint8_t **bytes,
                                              size_t *size, struct ps_error *error);

/* Fills an empty table. Only what ps_sessions_encode can have made is taken, with no answer beyond
 * `position`; all clients are taken, also above clients_max. No bytes behind position 0 may come
 * from a program that remembered nobody: as if some had been forgotten. After a failure the table
 * is empty.
 *
 * PS_ERR_CORRUPT      the text says what is wrong
 * PS_ERR_UNSUPPORTED  a version that this program does not know
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_sessions_decode(struct ps_sessions *sessions, struct ps_bytes bytes,
                                              uint64_t position, uint64_t now_ms,
                                              struct ps_error *error);

/* Clients have been forgotten. For the codec. */
void ps_sessions_set_forgotten(struct ps_sessions *sessions);

/* Puts one client into the table, idle since `now_ms`; its id is not there yet. For the codec.
 * PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_sessions_put(struct ps_sessions *sessions,
                                           const struct ps_session_client *client, uint64_t now_ms);

/* Asserts every invariant. */
void ps_sessions_check(struct ps_sessions *sessions);

#endif
