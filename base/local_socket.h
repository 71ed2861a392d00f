/* SPDX-License-Identifier: Apache-2.0 */
/* Short messages between processes of one machine, with a descriptor if need be: unix sockets that
 * keep the borders of messages, under abstract names. Such a name is of no folder, ends with its
 * socket, and is known in one network namespace only.
 *
 * Threads:  a socket belongs to one thread at a time.
 * Blocking: never: every socket is non-blocking.
 * Errors:   said at each function.
 * Memory:   none. Descriptors are the caller's to close, and close on exec.
 */
#ifndef PS_BASE_LOCAL_SOCKET_H
#define PS_BASE_LOCAL_SOCKET_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest name. */
#define PS_LOCAL_NAME_BYTES_MAX 100

/* No descriptor. */
#define PS_NO_DESCRIPTOR (-1)

/* PS_ERR_EXISTS: the name is taken. PS_ERR_IO otherwise. */
PS_MUST_USE enum ps_status ps_local_socket_listen(struct ps_bytes name, int *listener,
                                                  struct ps_error *error);

/* PS_ERR_NOT_READY: nobody has come. PS_ERR_IO otherwise. */
PS_MUST_USE enum ps_status ps_local_socket_accept(int listener, int *peer, struct ps_error *error);

/* PS_ERR_UNAVAILABLE: nobody listens under that name on this machine, or too many wait already.
 * PS_ERR_IO otherwise. */
PS_MUST_USE enum ps_status ps_local_socket_connect(struct ps_bytes name, int *peer,
                                                   struct ps_error *error);

/* Sends a message (not empty) and with it `passed`, unless that is PS_NO_DESCRIPTOR.
 * PS_ERR_UNAVAILABLE: the other side has gone, or does not read. */
PS_MUST_USE enum ps_status ps_local_socket_send(int peer, struct ps_bytes message, int passed,
                                                struct ps_error *error);

/* Receives a message of at most `size_max` bytes. `*passed` is the descriptor that came with it,
 * now the caller's, or PS_NO_DESCRIPTOR.
 *
 * PS_ERR_NOT_READY    nothing has come
 * PS_ERR_UNAVAILABLE  the other side has gone
 * PS_ERR_BAD_INPUT    a longer message, or more than one descriptor; all were closed
 */
PS_MUST_USE enum ps_status ps_local_socket_receive(int peer, uint8_t *message, size_t size_max,
                                                   size_t *size, int *passed,
                                                   struct ps_error *error);

/* Who opened the other end, as the kernel says. */
struct ps_local_peer {
    uint32_t user;
    int32_t process;
};
PS_MUST_USE enum ps_status ps_local_socket_peer(int peer, struct ps_local_peer *who,
                                                struct ps_error *error);

#endif
