/* SPDX-License-Identifier: Apache-2.0 */
/* For psctl: what the apps of one server have (docs/programs.md).
 *
 * Threads:  any.
 * Blocking: up to timeout_ms.
 * Errors:   those of psclient.h.
 * Memory:   what is told is borrowed for the call of `tell`.
 */
#ifndef PS_CLIENT_APPS_ASK_H
#define PS_CLIENT_APPS_ASK_H

#include "client/psclient.h"
#include "proto/program_messages.h"

/* Who is told of each app, in the server's order. */
struct ps_app_listener {
    void (*tell)(void *self, const struct ps_app_state *state);
    void *self;
};

int ps_client_ask_apps(struct psclient *client, uint32_t index,
                       const struct ps_app_listener *listener, uint64_t timeout_ms,
                       struct psclient_error *error);

#endif
