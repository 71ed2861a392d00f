/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's way to pass content through memory that it shares with a server on this host.
 * Nobody turns it on: the first calls ask the server for the name of its local socket, and if this
 * machine knows that name, memory is handed over there. Until the server has taken it, and whenever
 * something is missing, content goes in the message as ever.
 *
 *   ASKING ──the server's name──► OFFERED ──memory sent──► OPENING ──taken──► OPEN
 *     └──no name──► OFF ◄──no such socket here, or refused──┴── the server has gone ─┘
 *   OPEN ──a call ended without the server's answer──► OFFERED
 *   any  ──the connection was lost: there may be another server now──► ASKING
 *   OFF  ──64 contents went in messages, then twice as many each time──► ASKING
 *
 * A slot is used again only when the server has answered the call that named it. After a call that
 * ended in another way (a deadline, a lost connection) the server may still read its slot, at any
 * later time: then the whole segment is left as it is, and another one is made.
 *
 * Threads:  every function is safe from any.
 * Blocking: never, but for what the kernel takes to map memory.
 * Errors:   none: what does not work goes in the message.
 * Memory:   a segment of PS_SHARED_SEGMENT_BYTES, of which only what was used exists; it ends with
 *           its last slot.
 */
#ifndef PS_CLIENT_SHARED_LINK_H
#define PS_CLIENT_SHARED_LINK_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/local_socket.h"
#include "client/calls/thresholds.h"
#include "proto/messages.h"

#include <stdbool.h>

#define PS_SHARED_SEGMENT_BYTES ((size_t)128 << 20)

struct ps_shared_link;

/* Returns NULL when memory is refused: then there is none. End it with destroy; slots may outlive
 * it. */
struct ps_shared_link *ps_shared_link_create(const struct ps_allocator *memory);
void ps_shared_link_destroy(struct ps_shared_link *link);

/* Is a call to ask for the server's name? 0: no. Otherwise the question's number, which goes to
 * answered with what the server said. `link` may be NULL. */
uint32_t ps_shared_link_asks(struct ps_shared_link *link);

/* The connection was lost. `link` may be NULL. */
void ps_shared_link_lost(struct ps_shared_link *link);

/* The server has answered a call that asked: with its name, or (empty) without, and with the
 * largest content that it takes as one (decimal; empty or no number: it did not say). An answer to
 * a question from before the connection was lost is of a server that may have gone, and counts for
 * nothing, as does one that was not asked for (question 0; `link` may be NULL then). */
void ps_shared_link_answered(struct ps_shared_link *link, uint32_t question, struct ps_bytes name,
                             struct ps_bytes content_bytes_max);

/* That; 0: it is not known. `link` may be NULL. */
uint64_t ps_shared_link_content_bytes_max(struct ps_shared_link *link);

/* Will content go through shared memory, as far as can be told now? `link` may be NULL. */
bool ps_shared_link_works(struct ps_shared_link *link);

/* The name of the server's local socket, and a number that another server under this address would
 * not have. False: none is known now. */
bool ps_shared_link_name(struct ps_shared_link *link, char name[PS_LOCAL_NAME_BYTES_MAX + 1],
                         uint32_t *generation);

/* May memory be handed to whoever listens at the other end of this socket? */
bool ps_shared_link_trusts(int socket);

/* Room for one call's content. */
struct ps_shared_slot {
    struct ps_shared_range range; /* as the server is told */
    uint8_t *bytes;
    struct ps_client_segment *segment; /* private; NULL: no slot */
};

/* False: send the content in the message. `link` may be NULL. */
bool ps_shared_link_take(struct ps_shared_link *link, size_t size, struct ps_shared_slot *slot);

/* The call is over; `answered`: by the server itself, so that it reads and writes the slot no more.
 * Accepts a zeroed slot, and one that was released. */
void ps_shared_slot_release(struct ps_shared_slot *slot, bool answered);

#endif
