/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose content lies in shared memory. The one question here is who may change bytes while
 * the server uses them, and the rule is: what is kept, or judged before it is used, is the server's
 * own copy.
 *
 * - Where a journal is kept, the content is copied once, and the copy is what the update reads and
 *   what the journal writes: they can never differ (promise P5), whatever the client does to its
 *   memory meanwhile.
 * - The same goes for content in any encoding but the parameter's own: from some of these an index
 *   is taken. Not for rows of a table: each of their bytes is read once, keys and all, into the
 *   push's own memory.
 * - Everything else is not kept beyond the call (who keeps a range until others have come copies
 *   it), and the update reads it where it lies, as plain
 *   numbers. A client that changes it meanwhile gets other numbers into a parameter that it may
 *   write anyway; the check for non-finite elements can be passed by that, and by nothing that a
 *   client merely says (docs/shared-memory.md).
 *
 * Threads:  any; what a content holds may be dropped on another thread.
 * Blocking: giving large content, until the helpers that copy with the caller are done.
 * Errors:   those of shared_memory.h, and PS_ERR_NO_MEMORY.
 * Memory:   a copy lives until the content is closed and the last keeper has dropped it.
 */
#ifndef PS_SERVER_RPC_SHARED_CONTENT_H
#define PS_SERVER_RPC_SHARED_CONTENT_H

#include "server/core/requests/serve.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/shared_memory.h"

/* The content of one push at a time, from open to close, and room for what is pulled.
 *
 * `ways.open` points the request's content to where its shared range is, or to a copy of that:
 *
 * PS_ERR_BAD_INPUT     the range is wrong, or there is content in the message as well
 * PS_ERR_OUT_OF_RANGE  longer than the largest message
 * PS_ERR_UNAVAILABLE   no such memory (any more): send the content in the message
 *
 * `ways.give` copies what was pulled into the caller's range. Where there is no such range, or not
 * room enough, the reply stays as it is: its content goes in the message. PS_ERR_BAD_INPUT when the
 * range leaves the memory. */
struct ps_shared_content {
    struct ps_serve_content ways;
    struct ps_rpc_context *context; /* borrowed */
    struct ps_shared_hold hold;     /* of what is open; empty when it was copied */
    struct ps_shared_hold room;     /* of a pull, while it is open: in the device's memory */
    struct ps_shared_copy *copy;    /* a reference; NULL: read in place */
    struct ps_bytes piece;          /* of the request's view */
};

/* Nothing is open. The content must stay where it is: `ways` leads to it. */
void ps_shared_content_init(struct ps_shared_content *content, struct ps_rpc_context *context);

/* Bytes in shared memory that a request of this method names. Such content is the client's own, but
 * is as much on its way, and takes as long, as what comes in a message. */
size_t ps_shared_content_bytes(const struct ps_rpc_context *context, enum ps_method method,
                               struct ps_view request);

#endif
