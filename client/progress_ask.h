/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of one server, for psctl: how far the workers of its clocks are.
 *
 * Threads:  any.
 * Blocking: up to timeout_ms.
 * Errors:   those of psclient.h.
 * Memory:   rows go to whoever takes them.
 */
#ifndef PS_CLIENT_PROGRESS_ASK_H
#define PS_CLIENT_PROGRESS_ASK_H

#include "client/psclient.h"
#include "proto/clock_codec.h"

/* Asks server `index`. The rows come before `*reply`, which has none of its own; of an answer that
 * is malformed further on some have come. An empty name asks which clocks there are. */
int ps_client_ask_progress(struct psclient *client, uint32_t index, struct ps_bytes name,
                           const struct ps_progress_rows *rows, uint64_t timeout_ms,
                           struct ps_progress_reply *reply, struct psclient_error *error);

#endif
