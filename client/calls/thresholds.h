/* SPDX-License-Identifier: Apache-2.0 */
/* Every size by which the client chooses a way for content, with its reason, and what must hold
 * between them. docs/performance-calls.md has the measurements.
 *
 * Threads:  constants.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_CLIENT_THRESHOLDS_H
#define PS_CLIENT_THRESHOLDS_H

#include "base/bounds.h"

#include <stddef.h>

/* ---- Several calls in one message ---- */

/* A larger call gains nothing by company. */
#define PS_JOIN_CALL_BYTES_MAX ((size_t)256 * 1024)
/* More content in one message makes the server wait for its end without gaining anything. */
#define PS_JOIN_MESSAGE_BYTES_MAX ((size_t)1024 * 1024)
/* The first message of a batch carries less, so that the server soon has something to do. */
#define PS_JOIN_FIRST_BYTES (PS_JOIN_MESSAGE_BYTES_MAX / 4)
/* So do the last, so that the server does not have everything to do when nothing else is left. */
#define PS_JOIN_LAST_BYTES (PS_JOIN_MESSAGE_BYTES_MAX / 8)
/* Calls of several batches: the message that they save is next to nothing beside more bytes. */
#define PS_JOIN_BATCHES_CALL_BYTES_MAX ((size_t)16 * 1024)
#define PS_JOIN_BATCHES_BYTES_MAX ((size_t)128 * 1024)
/* Operations that wait for each other (holding.h): beyond this a message of one's own is as
 * good. */
#define PS_HELD_BYTES_MAX ((size_t)16 * 1024)

/* ---- One call in several messages ---- */

/* Smaller content is on the network too shortly for the server to work on its beginning. */
#define PS_RANGES_ABOVE_BYTES ((size_t)2 * 1024 * 1024)
/* Of one range: four of them stay in a processor's cache; and a multiple of a server's block. */
#define PS_RANGE_BYTES ((size_t)512 * 1024)
/* So many contents go as one after another client's push came between ranges. */
#define PS_AS_ONE_CALLS 64
/* And none that is larger: no server takes more in one message unless told to. */
#define PS_AS_ONE_BYTES_MAX ((size_t)PS_MESSAGE_BYTES_DEFAULT)
/* Of a message that is as large as the server takes: for what is not content. */
#define PS_MESSAGE_SLACK_BYTES ((size_t)1024 * 1024)

/* ---- In the message or in shared memory ---- */

/* Below this the message is as fast. */
#define PS_SHARED_BYTES_MIN ((size_t)64 * 1024)
/* Several contents of one message go there when they are as much together; none below this. */
#define PS_SHARED_PART_BYTES_MIN ((size_t)1024)

/* ---- In place or copied into the message ---- */

/* Below this, copying is cheaper than keeping track of who still reads the caller's memory. */
#define PS_COPIED_BYTES_MAX ((size_t)16 * 1024)
/* Of one of many contents, which are kept track of together. */
#define PS_COPIED_PART_BYTES_MAX ((size_t)2 * 1024)

/* ---- Waiting ---- */

/* A message that carries no more, both ways together, is answered soon: polling for it pays. */
#define PS_SMALL_MESSAGE_BYTES ((size_t)256 * 1024)

_Static_assert(PS_JOIN_CALL_BYTES_MAX <= PS_JOIN_MESSAGE_BYTES_MAX, "a message holds a call");
_Static_assert(PS_JOIN_CALL_BYTES_MAX < PS_RANGES_ABOVE_BYTES, "no call joins and goes in ranges");
_Static_assert(PS_JOIN_BATCHES_CALL_BYTES_MAX <= PS_JOIN_CALL_BYTES_MAX, "what joins others joins");
_Static_assert(PS_JOIN_BATCHES_BYTES_MAX <= PS_JOIN_LAST_BYTES, "joined calls are a small message");
_Static_assert(PS_HELD_BYTES_MAX <= PS_JOIN_BATCHES_CALL_BYTES_MAX, "what is held may be joined");
_Static_assert(PS_RANGE_BYTES < PS_RANGES_ABOVE_BYTES, "content in ranges has several of them");
_Static_assert(PS_RANGE_BYTES >= PS_SHARED_BYTES_MIN, "ranges may go through shared memory");
_Static_assert(PS_RANGES_ABOVE_BYTES + PS_MESSAGE_SLACK_BYTES <= PS_MESSAGE_BYTES_SENT,
               "a server that was told to take less says so when it starts");
_Static_assert(PS_MESSAGE_BYTES_SENT <= PS_AS_ONE_BYTES_MAX,
               "every server takes as one what does not go in ranges");
_Static_assert(PS_SHARED_PART_BYTES_MIN <= PS_SHARED_BYTES_MIN, "a part is part of the whole");
_Static_assert(PS_COPIED_BYTES_MAX < PS_SHARED_BYTES_MIN, "shared content is not copied first");
_Static_assert(PS_COPIED_PART_BYTES_MAX <= PS_COPIED_BYTES_MAX, "a part is part of the whole");

#endif
