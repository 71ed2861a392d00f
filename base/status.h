/* SPDX-License-Identifier: Apache-2.0 */
/* What can go wrong, in one table, with what the caller does about it.
 *
 * Threads:  everything here is safe from any thread; an error belongs to its caller.
 * Blocking: never.
 * Errors:   this is where they are defined.
 * Memory:   nothing is allocated; the caller owns each struct ps_error.
 */
#ifndef PS_BASE_STATUS_H
#define PS_BASE_STATUS_H

#include "base/attributes.h"
#include "base/refusal.h"

#include <stdbool.h>
#include <stdint.h>

/* What a caller does with a failure. Retry code reads this column and keeps no list of its own. */
enum ps_remedy {
    PS_REMEDY_DONE,    /* nothing: it worked */
    PS_REMEDY_RETRY,   /* try the same again after a pause */
    PS_REMEDY_REROUTE, /* learn the owners again, then retry */
    PS_REMEDY_UNKNOWN, /* it may have happened: read back, or retry with the same request id */
    PS_REMEDY_REJECT,  /* the request itself is wrong: do not repeat it */
    PS_REMEDY_STOP     /* stop using the thing that failed */
};

/* X(name, word for logs, what the caller does, sentence for people) */
#define PS_STATUS_TABLE(X)                                                                     \
    X(PS_OK, "ok", PS_REMEDY_DONE, "it worked")                                                \
    X(PS_ERR_NO_MEMORY, "no_memory", PS_REMEDY_RETRY, "an allocation failed")                  \
    X(PS_ERR_BUSY, "busy", PS_REMEDY_RETRY, "a stated limit is reached")                       \
    X(PS_ERR_UNAVAILABLE, "unavailable", PS_REMEDY_RETRY, "not serving at the moment")         \
    X(PS_ERR_NOT_READY, "not_ready", PS_REMEDY_RETRY, "not initialised yet")                   \
    X(PS_ERR_TIMEOUT, "timeout", PS_REMEDY_UNKNOWN, "no answer in time: it may have happened") \
    X(PS_ERR_CANCELLED, "cancelled", PS_REMEDY_UNKNOWN, "given up by the caller")              \
    X(PS_ERR_NOT_OWNER, "not_owner", PS_REMEDY_REROUTE, "another server owns the shard")       \
    X(PS_ERR_STALE_EPOCH, "stale_epoch", PS_REMEDY_REROUTE, "ownership has moved on")          \
    X(PS_ERR_STALE_SESSION, "stale_session", PS_REMEDY_REJECT, "too old to be remembered")     \
    X(PS_ERR_ID_REUSED, "request_id_reused", PS_REMEDY_REJECT, "the id is another request's")  \
    X(PS_ERR_MISMATCH, "mismatch", PS_REMEDY_REJECT, "others have said something else")        \
    X(PS_ERR_CONFLICT, "conflict", PS_REMEDY_REROUTE, "the compared value has changed")        \
    X(PS_ERR_BAD_INPUT, "bad_input", PS_REMEDY_REJECT, "the request is malformed")             \
    X(PS_ERR_NOT_FOUND, "not_found", PS_REMEDY_REJECT, "there is no such thing")               \
    X(PS_ERR_EXISTS, "exists", PS_REMEDY_REJECT, "it exists already")                          \
    X(PS_ERR_OUT_OF_RANGE, "out_of_range", PS_REMEDY_REJECT, "a value leaves its range")       \
    X(PS_ERR_TABLE_FULL, "table_full", PS_REMEDY_REJECT, "the table has all rows that it may") \
    X(PS_ERR_UNSUPPORTED, "unsupported", PS_REMEDY_REJECT, "this server cannot do that")       \
    X(PS_ERR_UNAUTHENTICATED, "unauthenticated", PS_REMEDY_REJECT, "nobody who is known here") \
    X(PS_ERR_DENIED, "denied", PS_REMEDY_REJECT, "the credentials do not allow it")            \
    X(PS_ERR_CORRUPT, "corrupt", PS_REMEDY_STOP, "stored bytes fail their checksum")           \
    X(PS_ERR_LEASE_LOST, "lease_lost", PS_REMEDY_STOP, "the lease is gone")                    \
    X(PS_ERR_IO, "io", PS_REMEDY_STOP, "the file system reported an error")                    \
    X(PS_ERR_INTERNAL, "internal", PS_REMEDY_STOP, "a part of the system misbehaved")          \
    X(PS_ERR_ABORTED, "aborted", PS_REMEDY_REJECT, "what it belonged to was given up")

#define PS_STATUS_ENUM(name, word, remedy, sentence) name,
enum ps_status { PS_STATUS_TABLE(PS_STATUS_ENUM) PS_STATUS_COUNT };
#undef PS_STATUS_ENUM

/* Optional detail for people. The caller owns it; callees write into it; NULL is allowed. */
struct ps_error {
    enum ps_status status;
    char text[256];
    uint64_t
        session; /* of PS_ERR_STALE_SESSION: one that the client may begin now; of a request for
                         another life of a server's programs: the present one; 0: not said */
    enum ps_refusal refusal; /* the bound or rule that refused; PS_REFUSED_NOT: none did */
    uint32_t retry_ms;       /* of a refusal: when to try again; 0: not said */
};

/* Fills `error` (if any) and returns `status`, so that a failure is one line. Of a text that does
 * not fit the middle is left out (ps_utf8_shorten): names, which may be long, stand before what is
 * said of them. */
PS_PRINTF(3, 4)
enum ps_status ps_fail(struct ps_error *error, enum ps_status status, const char *format, ...);

/* The same for a bound or rule that refuses, PS_ERR_BUSY in most cases: it is counted under that
 * word, and who is refused hears when to try again. */
PS_PRINTF(5, 6)
enum ps_status ps_refuse(struct ps_error *error, enum ps_status status, enum ps_refusal refusal,
                         uint32_t retry_ms, const char *format, ...);

/* Returns from the enclosing function when `expression` failed. Only where there is nothing to
 * release. The one macro of the tree that hides control flow. */
#define PS_TRY(expression)                     \
    do {                                       \
        enum ps_status ps_try_ = (expression); \
        if (ps_try_ != PS_OK)                  \
            return ps_try_;                    \
    } while (0)

/* The word for logs, e.g. "timeout". Static; never NULL. */
const char *ps_status_word(enum ps_status status);

/* The sentence for people. Static; never NULL. */
const char *ps_status_sentence(enum ps_status status);

enum ps_remedy ps_status_remedy(enum ps_status status);

#endif
