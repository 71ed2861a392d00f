/* SPDX-License-Identifier: Apache-2.0 */
/* What has changed in a table since a version: the keys whose rows went, and the rows that were
 * pushed to. It is told in pieces, each as large as a message may be; what to go on from is a place
 * in the table, so that nothing is kept for a follower.
 *
 * Pushes go on meanwhile. Who begins while the table is at version v, and puts every piece on what
 * it had, first the keys that went and then the rows, has every push up to v in the end; of later
 * pushes it may have some rows. Each row is whole.
 *
 * Threads:  any, beside a push.
 * Blocking: for the locks of stripes, a few microseconds each; reads at most PS_ROW_SINCE_BYTES of
 *           rows in a piece.
 * Errors:   said at the function.
 * Memory:   the first call for a table makes it remember which keys go (row_removals.h).
 */
#ifndef PS_SERVER_CORE_ROW_SINCE_H
#define PS_SERVER_CORE_ROW_SINCE_H

#include "server/core/tables/row_table.h"

#include <stddef.h>

/* Bytes of rows that one piece looks at, about, whether they go into it or not: a table is larger
 * than what a caller may wait for. */
#ifndef PS_ROW_SINCE_BYTES
#define PS_ROW_SINCE_BYTES ((uint64_t)32 << 20)
#endif

struct ps_row_since {
    bool everything;  /* all rows, whenever they were pushed to */
    uint64_t version; /* rows that were pushed to after it; not looked at with `everything` */
    uint64_t now;     /* the table's version when the first piece was asked for */
    uint64_t mark;    /* up to which keys that went are known; 0: none are to be told */
    uint64_t place;   /* `next` of the piece before; 0: the first one */
};

/* A piece: `gone` keys of 8 bytes, then the keys of `rows` rows, then their values. */
struct ps_row_piece {
    uint64_t gone;
    uint64_t rows;
    size_t size;     /* of all three in bytes */
    uint64_t passed; /* rows that are not in it, since they have not changed */
    uint64_t mark;   /* up to which keys that went are known now */
    uint64_t next;   /* where to go on; 0: this was the last piece */
};

/* Room that one more piece can use, at most: 0 when nothing has changed. From now on the keys that
 * go are remembered.
 *
 * PS_ERR_CONFLICT   more keys went than are remembered: everything is to be asked for
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_row_since_room(struct ps_row_table *table,
                                             const struct ps_row_since *since, uint64_t *room,
                                             struct ps_error *error);

/* Writes one piece of at most `room` bytes to `to`, of any alignment. With a room of 0 bytes, or
 * less than a row takes, it has no rows, and `next` says so.
 *
 * PS_ERR_BAD_INPUT  there is no such place
 * PS_ERR_CONFLICT   as above
 */
PS_MUST_USE enum ps_status ps_row_table_since(struct ps_row_table *table,
                                              const struct ps_row_since *since, void *to,
                                              size_t room, struct ps_row_piece *piece,
                                              struct ps_error *error);

#endif
