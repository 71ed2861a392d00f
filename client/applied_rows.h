/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of LastApplied as they come from the servers, and put together again: what was cut over
 * servers is one row.
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   of the allocator in the struct; released by ps_applied_rows_fini.
 */
#ifndef PS_CLIENT_APPLIED_ROWS_H
#define PS_CLIENT_APPLIED_ROWS_H

#include "base/alloc.h"
#include "client/psclient.h"
#include "proto/applied_codec.h"

struct ps_applied_row_part {
    struct psclient_applied row; /* first: rows are handed out in place */
    uint32_t ranges;             /* of the whole parameter; 0: it was never cut */
    uint32_t found;              /* of these */
};

/* Zeroed but for `memory`: no rows. */
struct ps_applied_rows {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_applied_row_part *parts;
    size_t count;
    size_t places;
};

/* A ps_applied_row_fn for such rows. */
PS_MUST_USE enum ps_status ps_applied_rows_take(void *self, const struct ps_applied_row *row,
                                                struct ps_error *error);

/* Sorts the rows, and makes one of each parameter's ranges: its pushes are those that every range
 * has. */
void ps_applied_rows_join(struct ps_applied_rows *rows);

void ps_applied_rows_fini(struct ps_applied_rows *rows);

#endif
