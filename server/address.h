/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that people write, and which one clients are told.
 *
 * Threads:  any.
 * Blocking: explain and is_taken ask the resolver; the others never.
 * Errors:   PS_ERR_BAD_INPUT for an address that is not "host:port".
 * Memory:   written into the caller's array.
 */
#ifndef PS_SERVER_ADDRESS_H
#define PS_SERVER_ADDRESS_H

#include "base/bounds.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Is `text` a "host:port" that can be listened on or advertised? A refusal names the `option`. */
PS_MUST_USE enum ps_status ps_address_check(const char *option, const char *text,
                                            struct ps_error *error);

/* Is the address reached from this machine only? */
bool ps_address_is_loopback(const char *listen);

/* Does another socket of this machine listen on `listen` ("host:port" or ":port") at this moment?
 * false also where the host cannot be resolved: whoever binds the address says so better. */
bool ps_address_is_taken(const char *listen);

/* After `listen` could not be listened on: puts the system's reason into `error`, which keeps its
 * status. The library that listens does not tell it. */
void ps_address_explain(const char *listen, struct ps_error *error);

/* `advertise` as it is when given (a port of 0 is filled in). Else the host of `listen` with the
 * port that was bound; a server that listens on every interface gives the machine's host name,
 * never a guess among its network cards. */
PS_MUST_USE enum ps_status ps_address_to_advertise(const char *advertise, const char *listen,
                                                   uint16_t port,
                                                   char address[PS_ADDRESS_BYTES_MAX],
                                                   struct ps_error *error);

#endif
