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

/* Shuts down this process's connections to a unix socket with the file name of `path` that take no
 * more bytes. The folder is not compared: the server may see it under another name. Another user of
 * such a socket sees a connection that was lost, as when the server ends. */
void ps_unix_break(const char *path);

#endif
