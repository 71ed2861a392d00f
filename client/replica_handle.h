/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind `struct psclient_replica`, of parameters or of one table. Private.
 *
 * Threads:  one at a time, but for reads of a table's rows.
 * Blocking: as said at the function.
 * Errors:   psclient_status.
 * Memory:   of the client's allocator.
 */
#ifndef PS_CLIENT_REPLICA_HANDLE_H
#define PS_CLIENT_REPLICA_HANDLE_H

#include "client/client_state.h"
#include "client/psclient.h"
#include "client/replica/replica.h"

struct psclient_replica {
    struct psclient *client;               /* borrowed */
    struct psclient_parameter *parameters; /* borrowed; none of a table's */
    size_t count;
    struct ps_replica *replica;   /* owned */
    uint64_t placed_by;           /* the job's placement by which its parts have their servers */
    struct psclient_table *table; /* owned; of a table, whose parts are by server; else NULL */
    uint64_t described;           /* full copies that had come when the table was asked for */
};

/* The end of a pull of a table: `results` has room for one, or is NULL. After a full copy the
 * servers are asked, until the deadline, what the table is by now. */
int ps_replica_rows_tell(struct psclient_replica *handle, uint64_t deadline_ms,
                         struct psclient_result *results, struct psclient_error *error);

#endif
