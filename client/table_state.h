/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind `struct psclient_table`. Private.
 *
 * Threads:  `mutex` guards what stands below it; the rest does not change after open.
 * Blocking: never.
 * Errors:   ps_status inside; psclient_status at the border.
 * Memory:   of the client's allocator.
 */
#ifndef PS_CLIENT_TABLE_STATE_H
#define PS_CLIENT_TABLE_STATE_H

#include "base/buffer.h"
#include "base/partition.h"
#include "base/table_settings.h"
#include "base/thread.h"
#include "client/client_state.h"
#include "client/row_cache.h"
#include "optimizer/repeats.h"

struct psclient_table {
    struct psclient *client; /* borrowed; outlives the table */
    char *name;              /* owned */
    enum ps_dtype dtype;
    uint32_t width;
    size_t row_bytes;
    uint64_t seed;                     /* of the order of its rows: base/row_hash.h */
    enum ps_row_repeats repeats;       /* of the gradients of one key in one call */
    struct ps_table_settings settings; /* as they were when it was opened */
    struct ps_partition partition;     /* its bounds are those of the settings */

    struct ps_mutex mutex;
    /* Where reads are, as psclient_table_at has said. */
    char clocks[PS_CLOCKS_NAME_BYTES_MAX + 1];
    uint32_t worker;
    uint64_t clock;
    /* Of each server the round that is next, as far as was read: 1 + its version. 0: not known. */
    uint64_t *rounds;           /* owned */
    struct ps_row_cache *cache; /* owned; NULL: none. Set while no other call runs */
};

/* Appends TableConfig of these options to a configuration, which must have none: what a
 * serialized message says last holds. A failure marks the buffer. */
void ps_table_wish_encode(const struct psclient_table_options *options, struct ps_buffer *config);

/* A table as its configuration describes it. PS_ERR_BAD_INPUT: the configuration is not a table's,
 * or not one of so many servers. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_table_create(struct psclient *client, struct ps_bytes name,
                                           enum ps_dtype dtype, struct ps_bytes config,
                                           struct psclient_table **table, struct ps_error *error);

/* NULL is allowed. */
void ps_table_destroy(struct psclient_table *table);

#endif
