/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's call as bytes: for calls of PS_ASKED_TABLE, which psctl knows and the engine
 * carries without looking inside.
 *
 * Threads:  any.
 * Blocking: up to timeout_ms.
 * Errors:   those of psclient.h. A call whose answer was lost is sent again: it must be safe to
 *           repeat.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_CLIENT_ASK_H
#define PS_CLIENT_ASK_H

#include "base/buffer.h"
#include "client/psclient.h"
#include "proto/fields.h"
#include "proto/messages.h"

/* Sends the message to server `index`. `message` may be NULL: no field is set. `fields` holds the
 * answer on PSCLIENT_OK, and may be NULL: the answer has none. */
int ps_client_ask(struct psclient *client, uint32_t index, enum ps_method method,
                  const struct ps_buffer *message, struct ps_fields *fields, uint64_t timeout_ms,
                  struct psclient_error *error);

/* psclient_list_workers of one server, as it is now: which of them it hears only that one says. */
int ps_client_ask_workers(struct psclient *client, uint32_t index, const char *group,
                          uint64_t timeout_ms, struct psclient_worker_list *list,
                          struct psclient_error *error);

#endif
