/* SPDX-License-Identifier: Apache-2.0 */
/* The second process of psbench_peer.h, and what both sides do with sockets.
 *
 * Threads:  one each side.
 * Blocking: each read and write, at most PS_BENCH_PEER_WAIT_MS without progress.
 * Errors:   false when the connection ended, broke or stalled.
 * Memory:   buffers are borrowed.
 */
#ifndef PS_TOOLS_PSBENCH_PEER_PROCESS_H
#define PS_TOOLS_PSBENCH_PEER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PS_BENCH_PEER_WAIT_MS 30000

/* Stands at the start of every connection. */
struct ps_bench_peer_order {
    uint64_t request; /* bytes of each message that comes in */
    uint64_t reply;   /* bytes given back for it; 0: none, but one byte at the end of all */
};

/* Serves one connection after the other, for ever. */
void ps_bench_peer_serve(const int listeners[2], uint8_t *buffer, size_t buffer_size);

/* No delay for small messages, and reads and writes that do not wait for ever. */
void ps_bench_peer_tune(int connection, bool tcp);

/* SIGKILL, and waits for the end; `*process` becomes 0. Accepts 0. */
void ps_bench_process_end(pid_t *process);

bool ps_bench_peer_write(int connection, const void *data, size_t size);
bool ps_bench_peer_read(int connection, void *data, size_t size);

#endif
