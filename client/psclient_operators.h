/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient.h, which includes it: what operators (psctl) ask of one server: how it is, to
 * save what it has, to go. A checkpoint of all servers at once is psclient_model.h.
 *
 * Threads:  as psclient.h says.
 * Blocking: at most `timeout_ms`.
 * Errors:   as psclient.h says.
 * Memory:   as psclient.h says; answers are written into the caller's structs.
 */
#ifndef PSCLIENT_OPERATORS_H
#define PSCLIENT_OPERATORS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient;
struct psclient_error;

/* As the server says it at that moment; sizes in bytes. */
struct psclient_server_status {
    uint32_t index;
    char address[280]; /* empty: nobody serves this index */
    char state[16];
    char version[32]; /* of the program */
    char device[32];
    char checkpoint_uuid[40];
    uint64_t epoch, parameter_count, parameter_bytes, state_bytes, push_count, pull_count;
    uint64_t position, checkpoint_position, checkpoint_unix_ns, uptime_ms;
    uint64_t lost_push_count; /* acknowledged once, and not in what the server recovered */
    uint64_t placement; /* docs/placement.md; 0: the server does not say, or has nothing yet */
};

int psclient_server_status(struct psclient *client, uint32_t index, uint64_t timeout_ms,
                           struct psclient_server_status *status, struct psclient_error *error);

struct psclient_saved {
    char uuid[40];
    char path[1024];
    uint64_t position, bytes;
};

/* Has a server write a checkpoint; returns when it is on disk and published, or with the reason why
 * it could not be written. */
int psclient_save(struct psclient *client, uint32_t index, uint64_t timeout_ms,
                  struct psclient_saved *saved, struct psclient_error *error);

/* Asks the server of a shard to do what SIGTERM does: it finishes what is in flight, writes a last
 * checkpoint, gives the shard back and ends. Returns when it was told, not when it has ended.
 * `epoch` is what psclient_server_status said of it: a server that has taken over meanwhile is left
 * alone (PSCLIENT_FAILED). */
int psclient_drain(struct psclient *client, uint32_t index, uint64_t epoch, uint64_t timeout_ms,
                   struct psclient_error *error);

#ifdef __cplusplus
}
#endif

#endif
