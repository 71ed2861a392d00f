/* SPDX-License-Identifier: Apache-2.0 */
/* From the inside's statuses to the public ones.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_CLIENT_STATUS_MAP_H
#define PS_CLIENT_STATUS_MAP_H

#include "base/status.h"
#include "client/psclient.h"

enum psclient_status ps_client_status_of(enum ps_status status);

/* Fills `error` (if any) and returns its status as an int, as the public functions do. */
int ps_client_fail(struct psclient_error *error, enum ps_status status, const char *text);

/* Clears `error` (if any) and returns PSCLIENT_OK. */
int ps_client_succeed(struct psclient_error *error);

#endif
