/* SPDX-License-Identifier: Apache-2.0 */
/* A part of psclient_table.h, which includes it: reads of a table that are begun before they may be
 * answered, for clocks of PSCLIENT_SPARSE_SSP (psclient_clocks.h). A worker that has ended c
 * iterations has its reads at the clocks c to c + speculation on their way. By that the servers
 * know which rows it is going to update, and others may read all others meanwhile.
 *
 *     psclient_table_at(table, "train", 1 + rank, 0, &error);
 *     for (c = 0; c <= k; c++)
 *         psclient_rows_ahead_begin(table, c, keys[c], counts[c], rows[c], 30000, &reads[c],
 *                                   &error);
 *     for (c = 0;; c++) {
 *         psclient_rows_ahead_end(reads[c], &error);                 rows[c] are there
 *         psclient_table_add(table, keys[c], counts[c], gradients, 30000, &error);
 *         psclient_clock(client, "train", 1 + rank, c + 1, 30000, NULL, &error);
 *         psclient_rows_ahead_begin(table, c + k + 1, ...);
 *     }
 *
 * A read goes to every server, also to those that have none of its keys: there it says that the
 * worker updates nothing. All keys of a server go in one message, and one read for each clock.
 *
 * Threads:  as a table; a read belongs to whoever has begun it.
 * Blocking: begin never waits for an answer, end until there is one.
 * Errors:   as psclient_table_get. PSCLIENT_INVALID: the table is at no clocks; PSCLIENT_FAILED:
 *           the clock is over or too far ahead, or other keys were read at it.
 * Memory:   keys are copied. `rows` are borrowed until the end of the read.
 */
#ifndef PSCLIENT_ROWS_AHEAD_H
#define PSCLIENT_ROWS_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct psclient_error;
struct psclient_table;
struct psclient_rows_ahead;

/* Begins to read the rows of `count` keys at that clock, into `rows`. On PSCLIENT_OK the read is
 * the caller's, to be given to psclient_rows_ahead_end; it fails by itself after `timeout_ms`. */
int psclient_rows_ahead_begin(struct psclient_table *table, uint64_t clock, const uint64_t *keys,
                              size_t count, void *rows, uint64_t timeout_ms,
                              struct psclient_rows_ahead **read, struct psclient_error *error);

/* Waits until the rows are there, or the time is over. The read is gone in any case. */
int psclient_rows_ahead_end(struct psclient_rows_ahead *read, struct psclient_error *error);

/* Ends it without its rows. NULL is allowed. What it has said to servers holds until the worker's
 * clock has passed it. */
void psclient_rows_ahead_cancel(struct psclient_rows_ahead *read);

#ifdef __cplusplus
}
#endif

#endif
