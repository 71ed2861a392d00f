/* SPDX-License-Identifier: Apache-2.0 */
/* A part of a replica that is one server's rows of a table. Private to replica_part.c, which sends
 * such parts here.
 *
 * Threads:  one at a time; reads of the rows beside it (replica_rows.h).
 * Blocking: as replica_rows.h says.
 * Errors:   said at each function.
 * Memory:   that of the part.
 */
#ifndef PS_CLIENT_REPLICA_PART_ROWS_H
#define PS_CLIENT_REPLICA_PART_ROWS_H

#include "client/replica/replica_part.h"

/* ps_replica_part_take of a table. */
PS_MUST_USE enum ps_status ps_replica_part_rows_take(struct ps_replica_part *part,
                                                     const struct ps_pull_reply *reply,
                                                     struct ps_error *error);

#endif
