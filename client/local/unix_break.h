/* SPDX-License-Identifier: Apache-2.0 */
/* Ends unix sockets whose server does not read. gRPC finishes a write before it ends anything, also
 * calls that were cancelled. TCP ends a socket whose peer reads nothing for a while; a unix socket
 * waits for ever, and gRPC does not tell its descriptor.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   what cannot be looked at is left alone.
 * Memory:   none that stays.
 */
#ifndef PS_CLIENT_UNIX_BREAK_H
#define PS_CLIENT_UNIX_BREAK_H

/* Shuts down this process's connections to the unix socket that a server has bound at `address`, a
 * path or "unix:PATH", and that take no more bytes. Where the server knows the folder by another
 * name (in a container), none is found, and a call to it ends when the server goes on or dies.
 * Another user of such a socket in this process sees a connection that was lost, as when the server
 * ends. */
void ps_unix_break(const char *address);

#endif
