/* How many clients are connected which way. gRPC does not say when a connection comes or goes; the
 * kernel knows: this process's open descriptors are looked through, which takes a few system calls
 * for each. For whoever shows the numbers, not for the path of a call.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   what cannot be looked at is not counted.
 * Memory:   none that stays.
 */
#ifndef PS_SERVER_RPC_CONNECTION_COUNT_H
#define PS_SERVER_RPC_CONNECTION_COUNT_H

#include <stdint.h>

struct ps_connection_count {
    uint32_t tcp;
    uint32_t local; /* unix sockets */
};

/* Connections that came to TCP port `port`, and to unix sockets that take streams. */
struct ps_connection_count ps_connection_count(uint16_t port);

#endif
