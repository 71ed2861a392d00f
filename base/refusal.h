/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds and rules by which a server refuses: one word each, as metrics and logs name it.
 *
 * Threads:  constant.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_REFUSAL_H
#define PS_BASE_REFUSAL_H

/* X(name, word). A group for each place that refuses, so that a new row stands beside its own.
 * The word is the label `reason` of ps_refused_total, and the field `reason` of the log: operators
 * write alarms for it, so a word stays once it was released. A row is made for each at the start of
 * a server; nothing is looked up when something is refused.
 *
 * "Share" is what one caller may have of a bound that all callers have together. */
#define PS_REFUSAL_TABLE(X)                              \
    X(PS_REFUSED_NOT, "none")                            \
    /* Memory and work of requests. */                   \
    X(PS_REFUSED_CLIENT_BYTES, "client_bytes")           \
    X(PS_REFUSED_REPLY_BYTES, "reply_bytes")             \
    X(PS_REFUSED_WORK, "work")                           \
    X(PS_REFUSED_STAGING, "staging")                     \
    X(PS_REFUSED_STAGING_SHARE, "staging_share")         \
    X(PS_REFUSED_SESSIONS, "sessions")                   \
    X(PS_REFUSED_MEMORY, "memory")                       \
    X(PS_REFUSED_JOURNAL_QUEUE, "journal_queue")         \
    X(PS_REFUSED_SAVES, "saves")                         \
    X(PS_REFUSED_SHARED_MEMORY, "shared_memory")         \
    X(PS_REFUSED_LOCAL_USER, "local_user")               \
    X(PS_REFUSED_RENDEZVOUS, "rendezvous")               \
    X(PS_REFUSED_PROGRAMS, "programs")                   \
    /* Calls that wait. */                               \
    X(PS_REFUSED_WAITING_CALLS, "waiting_calls")         \
    X(PS_REFUSED_WAITING_SHARE, "waiting_share")         \
    /* Connections, and what comes before a request. */  \
    X(PS_REFUSED_CONNECTIONS, "connections")             \
    X(PS_REFUSED_HOST_CONNECTIONS, "host_connections")   \
    X(PS_REFUSED_OFFENDER, "offending_host")             \
    X(PS_REFUSED_OPEN_STREAMS, "open_streams")           \
    X(PS_REFUSED_RESETS, "resets")                       \
    X(PS_REFUSED_HEADER_BYTES, "header_bytes")           \
    X(PS_REFUSED_UNFINISHED_BYTES, "unfinished_bytes")   \
    X(PS_REFUSED_CONTROL_FRAMES, "control_frames")       \
    X(PS_REFUSED_HTTP_CONNECTIONS, "http_connections")   \
    X(PS_REFUSED_STALLED_REQUEST, "stalled_request")     \
    X(PS_REFUSED_SILENT_CONNECTION, "silent_connection") \
    /* Who it is, and what that one may do. */           \
    X(PS_REFUSED_NO_IDENTITY, "no_identity")             \
    X(PS_REFUSED_BAD_TOKEN, "bad_token")                 \
    X(PS_REFUSED_ROLE, "role")                           \
    X(PS_REFUSED_CLIENT_ID, "client_id")

#define PS_REFUSAL_ENUM(name, word) name,
enum ps_refusal { PS_REFUSAL_TABLE(PS_REFUSAL_ENUM) PS_REFUSAL_COUNT };
#undef PS_REFUSAL_ENUM

#endif
