/* SPDX-License-Identifier: Apache-2.0 */
/* What sockets alone can do: a second process that takes bytes and gives bytes back, over TCP on
 * loopback and over a unix socket. No protocol, no allocation, nothing computed: the limit that a
 * server on the same machine is held against.
 *
 * Threads:  one; open it before any thread is started, since it forks.
 * Blocking: each run takes its time, and each read or write waits at most half a minute.
 * Errors:   PS_ERR_IO.
 * Memory:   buffers of the largest size are held from open to close.
 */
#ifndef PS_TOOLS_PSBENCH_PEER_H
#define PS_TOOLS_PSBENCH_PEER_H

#include "base/status.h"
#include "tools/psbench/psbench_rows.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

enum ps_bench_socket { PS_BENCH_TCP, PS_BENCH_UNIX, PS_BENCH_SOCKET_COUNT };

struct ps_bench_peer {
    pid_t pid;
    int listeners[PS_BENCH_SOCKET_COUNT];
    struct sockaddr_storage addresses[PS_BENCH_SOCKET_COUNT];
    socklen_t address_sizes[PS_BENCH_SOCKET_COUNT];
    uint8_t *buffer; /* owned; each process has its own copy */
    size_t buffer_size;
};

/* Starts the second process; buffers hold `size_max` bytes. */
PS_MUST_USE enum ps_status ps_bench_peer_open(struct ps_bench_peer *peer, size_t size_max,
                                              struct ps_error *error);

/* Accepts a zeroed peer. */
void ps_bench_peer_close(struct ps_bench_peer *peer);

/* Sends `request` bytes, waits until the other side has read them all and `reply` bytes have come
 * back, and so on for `time_ms`, with `outstanding` of them under way. */
PS_MUST_USE enum ps_status ps_bench_peer_echo(struct ps_bench_peer *peer, enum ps_bench_socket kind,
                                              size_t request, size_t reply, uint64_t outstanding,
                                              uint64_t time_ms, struct ps_bench_figures *figures,
                                              struct ps_error *error);

/* Sends messages of `size` bytes without waiting, until the other side has read the last. */
PS_MUST_USE enum ps_status ps_bench_peer_stream(struct ps_bench_peer *peer,
                                                enum ps_bench_socket kind, size_t size,
                                                uint64_t time_ms, struct ps_bench_figures *figures,
                                                struct ps_error *error);

#endif
