/* SPDX-License-Identifier: Apache-2.0 */
/* LastApplied of one server, for psclient_last_applied and for psctl.
 *
 * Threads:  any.
 * Blocking: up to timeout_ms.
 * Errors:   those of psclient.h.
 * Memory:   rows are appended to the caller's.
 */
#ifndef PS_CLIENT_PSCLIENT_APPLIED_H
#define PS_CLIENT_PSCLIENT_APPLIED_H

#include "client/applied_rows.h"

/* Asks server `index` for the client `client_id`, page after page. `head` is what the first page
 * says, but for rows. With `begins` the client's session ends there. */
int ps_client_ask_applied(struct psclient *client, uint32_t index, struct ps_bytes client_id,
                          bool begins, uint64_t timeout_ms, struct ps_applied_reply *head,
                          struct ps_applied_rows *rows, struct psclient_error *error);

#endif
