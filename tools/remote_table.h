/* SPDX-License-Identifier: Apache-2.0 */
/* A table on the servers, as one worker trains it: rows of a mini-batch in, their gradients out.
 *
 *     open ──► read the first batch ──► compute ──► step: push it, read the next ──► ...   end
 *
 * Without clocks a step is one round trip. With clocks it is a push, a word to the clocks, and a
 * read that waits until the clocks allow it: the clock moves when the push is in, so that whoever
 * reads at that clock reads the push, too.
 *
 * In rounds a step is one round trip again: a contribution, and a read behind the round that it is
 * in. The version of the table is where all workers are, whenever they have begun.
 *
 * Servers that have lost the table get a new one, whose rows begin at their first values. A push
 * whose fate is open, or that met servers without the table, is counted as lost and not made again:
 * it was applied once or not at all.
 *
 * Threads:  one table belongs to one thread. All tables of a process share one client.
 * Blocking: until the calls' time is up.
 * Errors:   PS_ERR_UNAVAILABLE with what the client said.
 * Memory:   in place.
 */
#ifndef PS_TOOLS_REMOTE_TABLE_H
#define PS_TOOLS_REMOTE_TABLE_H

#include "base/bytes.h"
#include "tools/model_servers.h"
#include "tools/row_batch.h"

struct ps_remote_table_options {
    struct ps_model_servers *servers; /* borrowed; outlives the table */
    /* Float32. What it names is borrowed and outlives the table. */
    struct psclient_table_options table;
    const struct psclient_clocks *clocks; /* borrowed; outlives the table. NULL: asynchronous */
    struct ps_bytes rounds;               /* borrowed; a change that sets the rounds. Empty: none */
    uint64_t call_timeout_ms;
    uint32_t worker; /* number for messages, and the rank at the clocks */
};

struct ps_remote_table {
    struct ps_remote_table_options options;
    struct psclient_table *table; /* owned; NULL: not open */
    uint64_t clock; /* steps that this worker has ended, by the clocks; in rounds the version */
    uint64_t steps, pushes, lost_pushes, late_pushes;
};

/* Has the job initialised and the table defined, by this worker or another one, and learns where
 * the worker stands at the clocks. `remote` may be closed afterwards in any case. */
PS_MUST_USE enum ps_status ps_remote_table_open(struct ps_remote_table *remote,
                                                const struct ps_remote_table_options *options,
                                                struct ps_error *error);

/* Accepts a zeroed struct. */
void ps_remote_table_close(struct ps_remote_table *remote);

/* Reads the rows of the batch, when the clocks allow this worker to read. */
PS_MUST_USE enum ps_status ps_remote_table_read(struct ps_remote_table *remote,
                                                struct ps_row_batch *batch, struct ps_error *error);

/* The same without a look at the clocks: for whoever judges a model and does not train it. */
PS_MUST_USE enum ps_status ps_remote_table_peek(struct ps_remote_table *remote,
                                                struct ps_row_batch *batch, struct ps_error *error);

/* Pushes the gradients of one batch, which ends a step, and reads the rows of the next; NULL: there
 * is none. */
PS_MUST_USE enum ps_status ps_remote_table_step(struct ps_remote_table *remote,
                                                const struct ps_row_batch *pushed,
                                                struct ps_row_batch *next, struct ps_error *error);

#endif
