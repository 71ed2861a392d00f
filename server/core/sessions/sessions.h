/* SPDX-License-Identifier: Apache-2.0 */
/* What a shard remembers of its clients' requests, so that a repeat is answered and not applied
 * again (promise P2). docs/sessions.md says the same to people who write clients.
 *
 * A request id is {client, session, sequence}. A session is the time at which it began, in
 * microseconds since 1970; a client's next one is higher. Sequences begin at 1 and rise by one
 * within a session; they may arrive out of order. Per client there is a ring of PS_SESSION_SLOTS
 * slots; a request stands in slot sequence % PS_SESSION_SLOTS, so the ring remembers the newest
 * request of each residue:
 *
 *   the slot has this sequence    a repeat: answered as it was the first time
 *   the slot has a higher one     too old: nobody can tell whether it was applied
 *   the slot has a lower one      new
 *
 * A session below the client's is over; one above begins a new session, and the ring is empty
 * again.
 *
 * At most clients_max clients are remembered. When the request of another one commits, the client
 * that was silent the longest is forgotten, and `floor` becomes higher than its session: a client
 * that is not remembered must begin with a session of the floor or above. So a repeat of a
 * forgotten client's request is always below the floor, and never applied again; forgetting early
 * costs that client a new session, and an answer only where a request was open at that moment. A
 * session may be PS_SESSION_AHEAD_US ahead of the clock here: so nobody can raise the floor beyond
 * what a client that begins now has, or is told by ps_error.session, which is always accepted.
 *
 * A client id belongs to the owner whose request under it was applied first, if that had one
 * (ps_request_id.owner). Requests of another are refused, whatever they ask. Checkpoints and
 * journals do not say whose an id is: after a restart it belongs to who uses it first again.
 *
 * Each slot has the fingerprint of its request (fingerprint.h). An id that comes back with another
 * one is another request under a used id, and is told so.
 *
 * A client that has chosen its id ("@NAME#SHARD") is asked for by the process that comes back
 * under it: ps_sessions_applied ends what the former one has sent, and says how many of its pushes
 * were applied to each parameter (push_counts.h). A new session leaves those counts as they are.
 *
 * Threads:  every function is safe from any thread, but for init and fini.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   of the allocator given to init: 0.4 KiB per client with one request, 8.4 KiB with 129
 *           and more. Clients whose first request is under way come on top, and what replay
 *           remembers above clients_max. The counts of all named clients have 24 MiB at most.
 */
#ifndef PS_SERVER_CORE_SESSIONS_H
#define PS_SERVER_CORE_SESSIONS_H

#include "base/alloc.h"
#include "base/bounds.h"
#include "base/status.h"
#include "base/thread.h"
#include "proto/messages.h"
#include "server/core/sessions/push_counts.h"

#define PS_SESSION_SLOTS 256

/* By how much the clock of a client may be ahead of the server's. */
#define PS_SESSION_AHEAD_US ((uint64_t)60 * 1000 * 1000)

/* How a request was answered. Of requests that are not pushes, version and position are 0. */
struct ps_session_answer {
    uint64_t version;
    uint64_t position;
};

/* The newest request of one residue; sequence 0: none. */
struct ps_session_slot {
    uint64_t sequence;
    struct ps_session_answer answer;
    uint32_t fingerprint; /* 0: not known */
};

/* Everything that is remembered of one client. */
struct ps_session_client {
    uint8_t id[PS_CLIENT_ID_BYTES_MAX];
    size_t id_size;
    uint64_t session;
    uint64_t used_us;              /* when its last request began, since 1970 */
    uint32_t slot_places;          /* 0, or a power of two up to PS_SESSION_SLOTS */
    struct ps_session_slot *slots; /* a sequence stands at sequence % slot_places */
    struct ps_push_counts counts;  /* of a named client; of all its sessions */
};

struct ps_session_entry;

struct ps_sessions {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint32_t clients_max;
    uint64_t idle_us;
    struct ps_mutex lock;             /* PS_RANK_QUEUE; guards all that follows */
    struct ps_session_entry *entries; /* hash table over the ids */
    struct ps_session_entry *idlest;  /* list of those remembered, from the longest silent on */
    uint32_t remembered;              /* how many */
    uint64_t floor;                   /* the lowest session of a client that is not remembered */
    uint64_t forgotten;               /* clients, since the last tally */
    uint64_t forgotten_early;         /* of these: silent for less than idle_us */
    struct ps_push_count_room count_room;
};

/* `idle_ms`: who is forgotten after a shorter silence is counted as forgotten early. */
void ps_sessions_init(struct ps_sessions *sessions, const struct ps_allocator *memory,
                      uint32_t clients_max, uint64_t idle_ms);
void ps_sessions_fini(struct ps_sessions *sessions);

/* Forgets every client, and that there ever was one. No request may be under way. */
void ps_sessions_clear(struct ps_sessions *sessions);

uint32_t ps_sessions_count(struct ps_sessions *sessions);

/* What metrics show; "newly": since the last look. */
struct ps_sessions_tally {
    uint32_t remembered;
    uint64_t newly_forgotten;
    uint64_t newly_forgotten_early;
};
void ps_sessions_tally(struct ps_sessions *sessions, struct ps_sessions_tally *tally);

/* ---- One request ---- */

/* A request that is being applied; the caller keeps it where it is until the end. */
struct ps_session_call {
    struct ps_session_entry *entry; /* private */
    uint64_t sequence;              /* private */
    uint64_t owner;                 /* private */
    uint64_t now_us;                /* private */
    uint64_t counted;               /* private: the name that is pushed to; 0: not counted */
    uint32_t fingerprint;           /* private */
    struct ps_session_call *next;   /* private */
    bool is_new_client;             /* set by the commit: its client is remembered from now on */
    bool is_repeat;                 /* it was applied before: `answer` says how; nothing to end */
    struct ps_session_answer answer;
};

/* Begins a request. On PS_OK either `call->is_repeat`, or the request is under way, and must be
 * ended by ps_sessions_commit or ps_sessions_abort. A client is remembered from its first commit
 * on: a request that is refused leaves nothing.
 *
 * fingerprint           of the request; 0: not known
 * now_us                since 1970
 *
 * PS_ERR_BAD_INPUT      the id is empty or too long, or the sequence is 0
 * PS_ERR_STALE_SESSION  the session is over or too far ahead, the sequence is too old, or the
 *                       client is not known and its session below the floor; nothing changed.
 *                       error->session is one that the client may begin now
 * PS_ERR_ID_REUSED      another request was applied under this id; nothing changed
 * PS_ERR_DENIED         the client id belongs to another owner; nothing changed
 * PS_ERR_BUSY           the same request, or one that shares its slot, is under way; a former
 *                       session's are
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_sessions_begin(struct ps_sessions *sessions,
                                             const struct ps_request_id *request,
                                             uint32_t fingerprint, uint64_t now_us,
                                             struct ps_session_call *call, struct ps_error *error);

/* The request was applied: from now on a repeat gets this answer. */
void ps_sessions_commit(struct ps_sessions *sessions, struct ps_session_call *call,
                        struct ps_session_answer answer);

/* The request was refused, and may come again. */
void ps_sessions_abort(struct ps_sessions *sessions, struct ps_session_call *call);

/* Was this request applied? A repeat is the client's newest sign of life; otherwise nothing
 * changes. `*is_repeat` is written on PS_OK, and for a repeat `*answer`, which may be NULL.
 *
 * PS_ERR_BAD_INPUT, PS_ERR_STALE_SESSION, PS_ERR_ID_REUSED, PS_ERR_DENIED   as ps_sessions_begin
 */
PS_MUST_USE enum ps_status ps_sessions_look(struct ps_sessions *sessions,
                                            const struct ps_request_id *request,
                                            uint32_t fingerprint, uint64_t now_us, bool *is_repeat,
                                            struct ps_session_answer *answer,
                                            struct ps_error *error);

/* ---- What of a client was applied: sessions_applied.c ---- */

/* What is known of a client. `counts` are the caller's own, to be released. */
struct ps_session_applied {
    bool is_known;     /* false: nobody remembers a request of this client, and the rest is 0 */
    bool is_whole;     /* `counts` has every push that is in the state; an unknown client never had
                          one */
    uint64_t session;  /* its last */
    uint64_t sequence; /* the highest that was applied in it */
    uint64_t used_us;
    uint64_t begun; /* the session that begins with this question; 0: none was to begin */
    struct ps_push_counts counts;
};

/* Of `request` only the client's id, its origin and its owner count. With `begins` a new session
 * begins at the same instant: whatever a former process of this client has sent and is still on its
 * way is refused from now on, so that the counts stay what they are until the caller pushes. A
 * client that is not known is remembered from then on, as if its first request had been applied.
 *
 * PS_ERR_BAD_INPUT    the id is empty or too long
 * PS_ERR_DENIED       the id belongs to another owner
 * PS_ERR_BUSY         requests of the client are under way; too many new ids come from its origin
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_sessions_applied(struct ps_sessions *sessions,
                                               const struct ps_request_id *request, bool begins,
                                               uint64_t now_us, const struct ps_allocator *memory,
                                               struct ps_session_applied *applied,
                                               struct ps_error *error);
void ps_session_applied_release(struct ps_session_applied *applied,
                                const struct ps_allocator *memory);

/* The parameter of that name has gone, and with it what clients have pushed to it. No push may be
 * under way. */
void ps_sessions_drop_name(struct ps_sessions *sessions, struct ps_bytes name);

/* ---- From journals and checkpoints: sessions_restore.c ---- */

/* Remembers a request of the journal: no rule is asked, the clients of the journal were all let in.
 * The order among requests of a session does not matter. Nobody is forgotten for it, also above
 * clients_max: whoever pushed last before a crash is who repeats a push after it.
 *
 * PS_ERR_CORRUPT      no such id could have been let in
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_sessions_remember(struct ps_sessions *sessions,
                                                const struct ps_request_id *request,
                                                uint32_t fingerprint, uint64_t now_us,
                                                struct ps_session_answer answer,
                                                struct ps_error *error);

/* No client that is not remembered may go on from before `now_us`. For tables that are made of what
 * is left of others. */
void ps_sessions_raise_floor(struct ps_sessions *sessions, uint64_t now_us);

/* ---- Into a checkpoint and back: sessions_codec.c ---- */

/* The table as bytes, which the caller releases to `memory`, for an instant in which no request is
 * under way. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_sessions_encode(struct ps_sessions *sessions,
                                              const struct ps_allocator *memory, uint8_t **bytes,
                                              size_t *size, struct ps_error *error);

/* Fills an empty table. Only what ps_sessions_encode can have made is taken, or could in the format
 * before it, with no answer beyond `position`; all clients are taken, also above clients_max. No
 * bytes behind position 0 come from a program that remembered nobody, and a table of the former
 * format does not say who was forgotten: the floor is `written_us` then, when the checkpoint was
 * written, in microseconds since 1970. After a failure the table is empty.
 *
 * PS_ERR_CORRUPT      the text says what is wrong
 * PS_ERR_UNSUPPORTED  a version that this program does not know
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_sessions_decode(struct ps_sessions *sessions, struct ps_bytes bytes,
                                              uint64_t position, uint64_t written_us,
                                              struct ps_error *error);

/* The clients that are remembered, from the longest silent on: the first, or the one behind
 * `client`; NULL: there is none. For who has the table alone. */
const struct ps_session_client *ps_sessions_next(const struct ps_sessions *sessions,
                                                 const struct ps_session_client *client);

/* Is there such a client? For the codec. */
bool ps_sessions_knows(struct ps_sessions *sessions, struct ps_bytes id);

/* Puts one client into the table, as the one used last; its id is not there yet. Copied. For the
 * codec and for tools, which have the table alone. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_sessions_put(struct ps_sessions *sessions,
                                           const struct ps_session_client *client);

/* Asserts every invariant. */
void ps_sessions_check(struct ps_sessions *sessions);

#endif
