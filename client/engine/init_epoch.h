/* SPDX-License-Identifier: Apache-2.0 */
/* Under which epoch each shard took this trainer's parameters. FinishInitParams says it, so that a
 * server that has lost them meanwhile refuses to be READY without them.
 *
 * A number per shard: an epoch, or one of the marks below. No server has the marks MIXED and LOST
 * for its epoch, so it refuses them too, unless it is initialised already.
 *
 *   NONE ──taken──► the epoch ──taken under another, or exists──► MIXED
 *            LOST ──taken──► the epoch         any but NONE ──a finish is refused──► LOST
 *
 * Threads:  whoever owns the numbers orders the calls.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the numbers are the caller's.
 */
#ifndef PS_CLIENT_INIT_EPOCH_H
#define PS_CLIENT_INIT_EPOCH_H

#include "client/calls/call.h"

#include <stdint.h>

#define PS_INIT_EPOCH_NONE 0                /* it took nothing: not checked */
#define PS_INIT_EPOCH_MIXED UINT64_MAX      /* it may not have everything */
#define PS_INIT_EPOCH_LOST (UINT64_MAX - 1) /* to be initialised again */

/* The initialisation begins: every shard has taken nothing. */
void ps_init_epochs_begin(uint64_t *epochs, uint32_t count);

/* A parameter was taken under `epoch`; 0: the server does not say. */
void ps_init_epoch_taken(uint64_t *known, uint64_t epoch);

/* A parameter was not taken: the server is initialised already. */
void ps_init_epoch_exists(uint64_t *known);

/* A server refused to finish: every parameter is to be sent again. Until then a finish that is only
 * repeated goes on being refused. */
void ps_init_epochs_lost(uint64_t *epochs, uint32_t count);

/* Any of these, as the outcome of a call to `shard` says. Without `epochs` nothing is noted. */
void ps_init_epochs_note(uint64_t *epochs, uint32_t count, uint32_t shard, enum ps_method method,
                         const struct ps_call_outcome *outcome);

#endif
