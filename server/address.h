/* Which address clients are told.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for an address that is no "host:port".
 * Memory:   written into the caller's array.
 */
#ifndef PS_SERVER_ADDRESS_H
#define PS_SERVER_ADDRESS_H

#include "base/bounds.h"
#include "base/status.h"

#include <stdint.h>

/* `advertise` as it is when given (a port of 0 is filled in). Else the host of `listen` with the
 * port that was bound; a server that listens on every interface gives the machine's host name,
 * never a guess among its network cards. */
PS_MUST_USE enum ps_status ps_address_to_advertise(const char *advertise, const char *listen,
                                                   uint16_t port,
                                                   char address[PS_ADDRESS_BYTES_MAX],
                                                   struct ps_error *error);

#endif
