/* SPDX-License-Identifier: Apache-2.0 */
/* A pull's reply as a message that copies no parameter bytes: its slices point at the blocks that
 * the pull holds.
 *
 * Threads:  made on a lane's thread; the pull is released by whoever drops the last slice.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY; the pull is then released.
 * Memory:   the message takes the pull.
 */
#ifndef PS_SERVER_RPC_PULL_MESSAGE_H
#define PS_SERVER_RPC_PULL_MESSAGE_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "server/core/requests/service.h"

#include <grpc/byte_buffer.h>

/* Takes `pull` in any case. `head` is what goes before the content; it is copied. */
PS_MUST_USE enum ps_status ps_pull_message_create(struct ps_bytes head, struct ps_pull *pull,
                                                  const struct ps_allocator *memory,
                                                  grpc_byte_buffer **message,
                                                  struct ps_error *error);

#endif
