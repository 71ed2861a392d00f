/* SPDX-License-Identifier: Apache-2.0 */
/* The clients of a table of sessions: found by id, in the order of their silence, each with room
 * for as many requests as it has made. Private to the files of sessions.h.
 *
 * Threads:  with the lock of the sessions held, or alone.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   of the allocator of the sessions.
 */
#ifndef PS_SERVER_CORE_SESSION_TABLE_H
#define PS_SERVER_CORE_SESSION_TABLE_H

#include "server/core/sessions/sessions.h"

/* uthash takes its memory from the table's allocator, and a refusal leaves the table as it was. */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) ps_plain(sessions->memory, (size))
#define uthash_free(pointer, size) ps_release(sessions->memory, (pointer))
#define uthash_nonfatal_oom(entry) (refused = true)
#include <uthash.h>

struct ps_session_entry {
    struct ps_session_client client;  /* first: ps_sessions_next goes from it to the entry */
    uint64_t owner;                   /* who used the id first; 0: nobody with a name did */
    bool is_remembered;               /* in the list; otherwise a first request is under way */
    struct ps_session_call *applying; /* requests under way */
    struct ps_session_entry *prev;    /* neighbours in the list, for utlist */
    struct ps_session_entry *next;
    UT_hash_handle hh;
};

/* NULL: there is none of that id. */
struct ps_session_entry *ps_session_find(const struct ps_sessions *sessions, struct ps_bytes id);

/* Another client, which is not remembered yet; NULL when memory is refused. */
struct ps_session_entry *ps_session_add(struct ps_sessions *sessions, struct ps_bytes id,
                                        uint64_t session);

/* From now on the client is remembered, as the one used last. */
void ps_session_enlist(struct ps_sessions *sessions, struct ps_session_entry *entry,
                       uint64_t now_us);

/* The client, if it is remembered, is the one used last. */
void ps_session_touch(struct ps_sessions *sessions, struct ps_session_entry *entry,
                      uint64_t now_us);

/* Forgets whoever was silent the longest and has no request under way, and raises the floor above
 * that session. False: there is no such client. */
bool ps_session_forget_one(struct ps_sessions *sessions, uint64_t now_us);

/* Takes the entry out of the table as if the client had never been there. */
void ps_session_drop(struct ps_sessions *sessions, struct ps_session_entry *entry);

/* The client's requests are those of a new session. */
void ps_session_begin_anew(struct ps_session_client *client, uint64_t session);

/* Makes room for a request, beside those that are there and those under way. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_session_reserve(struct ps_sessions *sessions,
                                              struct ps_session_entry *entry, uint64_t sequence,
                                              struct ps_error *error);

/* The newest request of the sequence's residue; NULL: there was none. */
struct ps_session_slot *ps_session_slot_of(const struct ps_session_client *client,
                                           uint64_t sequence);

/* ---- sessions.c: rules that a question about a client shares with its requests ---- */

/* Whose id it is. PS_ERR_DENIED. */
PS_MUST_USE enum ps_status ps_session_check_owner(const struct ps_session_entry *entry,
                                                  const struct ps_request_id *request,
                                                  struct ps_error *error);

/* The client, in a session that begins now, and remembered. PS_ERR_BUSY, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_session_begin_next(struct ps_sessions *sessions,
                                                 const struct ps_request_id *request,
                                                 uint64_t now_us, struct ps_session_entry **entry,
                                                 struct ps_error *error);

/* Where a request goes for which room was reserved. */
struct ps_session_slot *ps_session_place_of(struct ps_session_client *client, uint64_t sequence);

#endif
