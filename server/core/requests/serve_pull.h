/* SPDX-License-Identifier: Apache-2.0 */
/* The next pull of a message, and what it needs of the serve. Private to serve.c.
 *
 * Threads:  that of the serve.
 * Blocking: as ps_service_pull_or_wait.
 * Errors:   in the items' results.
 * Memory:   what is pulled is the serve's, until ps_serve_release_pulls.
 */
#ifndef PS_SERVER_CORE_SERVE_PULL_H
#define PS_SERVER_CORE_SERVE_PULL_H

#include "server/core/requests/serve.h"

/* An item costs at least as much as so many bytes. */
enum { PS_SERVE_ITEM_WORK = 16 * 1024 };

/* Serves it, and adds what it cost to `*work`: its values are in the reply or in the room that was
 * named for them, or its status says why not. False: it waits, and the next step begins with it. */
bool ps_serve_pull_next(struct ps_serve *serve, const struct ps_serve_turn *turn, size_t *work);

/* ---- In serve.c ---- */

/* May whoever has sent the message do this to what has this name? */
PS_MUST_USE enum ps_status ps_serve_ask_guard(const struct ps_serve *serve, struct ps_bytes name,
                                              bool changes);

/* An item has failed with what serve->error says. */
void ps_serve_note_failure(struct ps_serve *serve, struct ps_item_status *to,
                           enum ps_status status);

/* Has the next items' parameters looked up ahead, every few items. */
void ps_serve_look_ahead(struct ps_serve *serve);

#endif
