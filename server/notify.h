/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the service manager (systemd's sd_notify protocol) how the server is.
 *
 * Threads:  init and fini belong to one thread; messages may be sent from any.
 * Blocking: never.
 * Errors:   only init fails: PS_ERR_BAD_INPUT for an address that is none, PS_ERR_IO. A message is
 *           false when the manager's socket has no room for it now: it is to be sent again. Any
 *           other failure counts as sent: the service goes on without its manager.
 * Memory:   in place.
 */
#ifndef PS_SERVER_NOTIFY_H
#define PS_SERVER_NOTIFY_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct ps_notify {
    int descriptor; /* owned; -1: nobody wants to know */
    struct sockaddr_un address;
    socklen_t address_size;
    uint64_t watchdog_ms; /* send a sign of life this often; 0: none is wanted */
};

/* `socket` is NOTIFY_SOCKET's value: a path, or "@name" for an abstract socket; NULL or empty when
 * nobody wants to know. `watchdog_us` and `watchdog_pid` are WATCHDOG_USEC's and WATCHDOG_PID's, or
 * NULL; a watchdog for another process is none for us. */
PS_MUST_USE enum ps_status ps_notify_init(struct ps_notify *notify, const char *socket,
                                          const char *watchdog_us, const char *watchdog_pid,
                                          struct ps_error *error);
void ps_notify_fini(struct ps_notify *notify);

/* The service serves. */
bool ps_notify_ready(const struct ps_notify *notify);

/* The service ends. */
bool ps_notify_stopping(const struct ps_notify *notify);

/* A sign of life, due every watchdog_ms. */
bool ps_notify_watchdog(const struct ps_notify *notify);

/* One line for `systemctl status`. Line breaks become spaces; at most 255 bytes are kept. */
bool ps_notify_status(const struct ps_notify *notify, const char *text);

#endif
