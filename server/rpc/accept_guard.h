/* Keeps a server accepting when it runs out of descriptors.
 *
 * gRPC 1.51 stops listening for ever after its first accept4 fails with EMFILE (CVE-2023-4785). An
 * executable with this file in it has an accept4 of its own, which the dynamic linker prefers to
 * the C library's, also for libgrpc (the symbol must be exported: the linker does that for what a
 * shared library refers to, and ENABLE_EXPORTS makes sure). It holds one descriptor in reserve,
 * and when there are no others it takes each waiting connection with the reserve and drops it. The
 * peer sees its connection closed and tries again later; the server goes on.
 *
 * Threads:  any.
 * Blocking: as accept4 does on the same socket.
 * Errors:   as accept4, but never EMFILE or ENFILE.
 * Memory:   one descriptor.
 */
#ifndef PS_SERVER_RPC_ACCEPT_GUARD_H
#define PS_SERVER_RPC_ACCEPT_GUARD_H

#include <stdint.h>

/* How many connections were dropped for want of a descriptor since the process started. */
uint64_t ps_accept_guard_dropped(void);

#endif
