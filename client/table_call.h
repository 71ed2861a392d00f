/* SPDX-License-Identifier: Apache-2.0 */
/* One call on a table, from its keys to the batches that carry them. Private.
 *
 *   keys ──► row_cut ──► pieces ──► items ──► a batch of what is read, one for each piece added
 *   rows ◄── scatter ◄── answers, in the order of the cut ◄──┘
 *
 * A call whose gradients and rows fit in a message for each server takes one round trip: a server
 * that gets gradients and is read from gets a push and pull in one, the others get what they are to
 * get, and all of it is on its way together. Anything larger is added first and read then.
 *
 * Threads:  any.
 * Blocking: until the call's deadline.
 * Errors:   psclient_status, with a text.
 * Memory:   everything is borrowed for the call.
 */
#ifndef PS_CLIENT_TABLE_CALL_H
#define PS_CLIENT_TABLE_CALL_H

#include "client/table_state.h"

/* What all messages of a call have in common, read once at its beginning: what other threads say of
 * the clocks meanwhile is for later calls. */
struct ps_table_call {
    struct psclient_table *table;
    struct psclient *client;
    uint64_t deadline_ms;
    char clocks[PS_CLOCKS_NAME_BYTES_MAX + 1]; /* where reads are */
    uint32_t worker;
    uint64_t clock;
};

/* Rows of the caller. */
struct ps_table_rows {
    const uint64_t *keys;
    size_t count;
    const void *gradients; /* of what is added */
    void *rows;            /* of what is read */
};

/* In a child of a fork no call begins. */
PS_MUST_USE enum ps_status ps_table_call_begin(struct psclient_table *table, uint64_t timeout_ms,
                                               struct ps_table_call *call, struct ps_error *error);

/* An item of the call for one server: name, type and place. */
struct ps_item ps_table_call_item(const struct ps_table_call *call, uint32_t shard);

/* A read of that server was answered: the table knows which round of it is next. */
void ps_table_call_note(struct psclient_table *table, const struct ps_item *item);

/* Adds, then reads; either may be of no keys, and asks nobody then. Everything that can be wrong
 * with the keys is found before anything is sent. */
int ps_table_call_run(const struct ps_table_call *call, const struct ps_table_rows *adds,
                      const struct ps_table_rows *gets, struct psclient_error *error);

#endif
