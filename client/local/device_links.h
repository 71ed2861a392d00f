/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's way to pass content that lies in a device's memory: the piece of memory is named
 * to the server at its local socket, once, and messages say where in it the content is. It stands
 * on a shared link, which finds out whether the server is on this host and under which name.
 *
 * A piece stays with the server until it was not used for long and its place is needed, the
 * connection is lost, or somebody forgets it. Each piece has a connection to the socket of its own;
 * the server's end of that is closed when the server has let go of the memory, and not before.
 *
 * Threads:  every function is safe from any.
 * Blocking: take waits up to PS_DEVICE_WELCOME_MS for a server to open a piece that is new to it.
 * Errors:   none: false is "not this way".
 * Memory:   PS_DEVICE_PIECES_MAX small entries.
 */
#ifndef PS_CLIENT_DEVICE_LINKS_H
#define PS_CLIENT_DEVICE_LINKS_H

#include "client/calls/call.h"
#include "client/local/shared_link.h"

/* As many as a server takes of one process (server/rpc/shared_memory.h), and of several servers
 * each as many. */
#define PS_DEVICE_PIECES_MAX 64

#define PS_DEVICE_WELCOME_MS 500

struct ps_device_links;
struct ps_device_piece;

/* NULL when memory is refused. `link` is borrowed, and outlives this. */
struct ps_device_links *ps_device_links_create(const struct ps_allocator *memory,
                                               struct ps_shared_link *link);

/* Slots may outlive it. NULL is allowed. */
void ps_device_links_destroy(struct ps_device_links *links);

/* Where a content is, for one call. */
struct ps_device_slot {
    struct ps_shared_range range;  /* as the server is told */
    struct ps_device_piece *piece; /* private; NULL: no slot */
};

/* `address` and `size` are of what the place names. False: the server cannot reach it, or not now.
 * `links` may be NULL. */
bool ps_device_links_take(struct ps_device_links *links, const struct ps_device_place *place,
                          const uint8_t *address, size_t size, struct ps_device_slot *slot);

/* The call is over; `answered`: by the server itself, so that it reads and writes there no more.
 * Otherwise the server is asked to let go of the piece. Accepts a zeroed slot. */
void ps_device_slot_release(struct ps_device_slot *slot, bool answered);

/* Has the server let go of all that was left? With `share` it is asked to let go of that piece as
 * well. Waits for nothing: ask again. `links` may be NULL. */
bool ps_device_links_let_go(struct ps_device_links *links, const struct ps_device_share *share);

#endif
