/* Memory that the library makes for its caller and that servers on this host can see: what lies
 * there is pushed and pulled without being copied here.
 *
 * Each memory is a sealed memory file of its own, mapped for as long as the caller has it. It is
 * handed to a server when content in it is first to go there (an attachment), over a local socket
 * of its own, as a link's segment is (shared_link.h): a new server gets it anew, and the caller
 * notices nothing.
 *
 *   none ──place──► OPENING ──taken──► OPEN ──a call ended without the server's answer──► none
 *                      └──refused, or gone──► OFF ──the link has another server──► none
 *
 * The memory is the caller's, who writes there again once a call is over. So no server may use it
 * then. A call that the server has answered needs nothing for that. After any other, release tells
 * the server to let go of the memory, and waits until it has (it hangs up once no call can read
 * there any more) or is dead (the kernel hangs up). Where the server stands still, the pages of
 * that call are replaced by others with the same content: the server keeps the old ones, which
 * nobody writes any more, and the memory is an ordinary one from then on.
 *
 * Threads:  every function is safe from any, but for create and destroy.
 * Blocking: never, but for the release of a place without an answer: `wait_ms` once for each memory
 *           and server; longer only when the system refuses pages to replace others with.
 * Errors:   what cannot be shared is ordinary memory.
 * Memory:   at most PS_CALLER_MEMORIES_MAX, of which PS_CALLER_SHARED_MAX are shared. What a call
 *           still uses stays mapped until it is over.
 */
#ifndef PS_CLIENT_CALLER_MEMORY_H
#define PS_CLIENT_CALLER_MEMORY_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "proto/messages.h"

#include <stdbool.h>

#define PS_CALLER_MEMORIES_MAX 1024

/* Each takes a descriptor, and one on each side for every server that it is handed to. */
#define PS_CALLER_SHARED_MAX 32

/* Content begins at a multiple of this in its memory; the rest of its last page belongs to its
 * call. */
#define PS_CALLER_PAGE_BYTES ((size_t)4096)

/* What a client waits; a server that runs needs the time of an update. */
#define PS_CALLER_WAIT_MS 200

struct ps_caller_memories;

/* NULL when memory is refused. `shares`: else all of it is ordinary. `wait_ms`: for a server to let
 * go. */
struct ps_caller_memories *ps_caller_memories_create(const struct ps_allocator *memory, bool shares,
                                                     int wait_ms);

/* No call uses any of it. Ends what the caller has not given back. NULL is allowed. */
void ps_caller_memories_destroy(struct ps_caller_memories *memories);

/* Returns `size` zeroed bytes (not 0), at the beginning of a page where they are shared; end them
 * with release. PS_ERR_NO_MEMORY; PS_ERR_BUSY: there are PS_CALLER_MEMORIES_MAX. */
PS_MUST_USE enum ps_status ps_caller_memory_acquire(struct ps_caller_memories *memories,
                                                    size_t size, uint8_t **bytes,
                                                    struct ps_error *error);

/* False: there is no such memory. */
bool ps_caller_memory_release(struct ps_caller_memories *memories, const void *bytes);

/* Content of a call, where it lies. */
struct ps_caller_place {
    struct ps_shared_range range;        /* as the server is told */
    uint8_t *bytes;                      /* the content */
    struct ps_caller_attachment *held;   /* private; NULL: no place */
    struct ps_caller_memories *memories; /* private */
};

/* Does this content lie in memory that the server behind `link` shares? Where it could, but does
 * not yet, the memory is handed over at the local socket `name` for the next time. A link is known
 * by its address. `memories` may be NULL. */
bool ps_caller_place_acquire(struct ps_caller_memories *memories, const void *link,
                             struct ps_bytes name, const void *content, size_t size,
                             struct ps_caller_place *place);

/* Would there be a place at once? A guess: the server may go at any time. `memories` may be
 * NULL. */
bool ps_caller_memories_hold(struct ps_caller_memories *memories, const void *link,
                             const void *content, size_t size);

/* The call is over; `answered`: by the server itself, so that it reads and writes there no more.
 * When this returns it does not in any case. Accepts a zeroed place, and one that was released. */
void ps_caller_place_release(struct ps_caller_place *place, bool answered);

/* There may be another server behind the link from now on, or none. `memories` may be NULL. */
void ps_caller_memories_forget(struct ps_caller_memories *memories, const void *link);

#endif
