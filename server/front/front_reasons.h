/* SPDX-License-Identifier: Apache-2.0 */
/* Why the front door turns a peer away: one row for each bound, in one table.
 *
 * Threads:  constants.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_SERVER_FRONT_FRONT_REASONS_H
#define PS_SERVER_FRONT_FRONT_REASONS_H

#include "base/refusal.h"

/* X(name, PS_REFUSED_ row of base/refusal.h, the text that a peer and the log are given). A text
 * names the option that sets its bound, or the bound where none does. */
#define PS_FRONT_REASON_TABLE(X)                                                                 \
    X(STREAMS, OPEN_STREAMS, "more calls are open than twice --client-calls")                    \
    X(HEADERS, HEADER_BYTES, "a header block has more than 64 KiB")                              \
    X(RESETS, RESETS, "more calls were reset than twice --client-calls, and 200 a second")       \
    X(CONTROL, CONTROL_FRAMES,                                                                   \
      "more SETTINGS, PING, PRIORITY and empty frames came than 5000, and 2000 a second")        \
    X(UNFINISHED, UNFINISHED_BYTES, "requests that are not whole hold more than --client-bytes") \
    X(STALLED, STALLED_REQUEST, "a request that is not whole stood still for --reply-timeout")   \
    X(STREAMS_ALL, OPEN_STREAMS, "--open-calls are open, and this connection has the most")      \
    X(UNFINISHED_ALL, UNFINISHED_BYTES,                                                          \
      "requests that are not whole hold --unfinished-bytes, and this connection has the most")   \
    X(MEMORY, MEMORY, "there is no memory to look after one more connection or call")            \
    X(CONNECTIONS, CONNECTIONS, "--connections are open")                                        \
    X(LOCAL_USER, LOCAL_USER, "a process of a user that --local-uids does not name")             \
    X(HOST, HOST_CONNECTIONS, "one host may have a quarter of --connections, and at least 64")   \
    X(OFFENDER, OFFENDER,                                                                        \
      "connections of this host were ended: 8 at once, then 4 a second; others wait")            \
    X(DESCRIPTORS, CONNECTIONS, "what is left of ulimit -n is for the journal and checkpoints")  \
    X(DISPLACED, SILENT_CONNECTION, "a connection that says nothing makes room for another")     \
    X(DISPLACED_HTTP, HTTP_CONNECTIONS, "the oldest HTTP connection makes room for another")

enum ps_front_reason {
    PS_FRONT_FINE, /* nothing is refused */
#define ROW(name, refusal, text) PS_FRONT_##name,
    PS_FRONT_REASON_TABLE(ROW)
#undef ROW
        PS_FRONT_REASON_COUNT
};

/* The kind and the text of a reason that is not PS_FRONT_FINE. */
enum ps_refusal ps_front_reason_refusal(enum ps_front_reason reason);
const char *ps_front_reason_text(enum ps_front_reason reason);

#endif
