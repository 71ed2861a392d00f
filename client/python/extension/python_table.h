/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Table` and its reads that are begun before they may be answered.
 *
 * Threads:  with Python's lock; `calls` counts threads that are in the library with it released.
 * Blocking: as each method says.
 * Errors:   exceptions.
 * Memory:   a table owns the library's table, a read the library's read and the buffer of its rows;
 *           each keeps the one that it needs alive.
 */
#ifndef PS_PYTHON_TABLE_H
#define PS_PYTHON_TABLE_H

#include "python_client.h"

struct ps_python_ahead;

struct ps_python_table {
    PyObject_HEAD struct ps_python_client *client; /* owned reference */
    struct psclient_table *table;                  /* NULL: closed */
    size_t calls;                                  /* threads inside a call of it */
    struct ps_python_ahead *aheads;                /* reads under way */
    struct ps_python_table *next, *previous;       /* in the client's list while it is open */
};

/* NULL with an exception: the table, or its client, is closed. */
struct ps_python_table *ps_python_table_check(PyObject *object);

/* Table.ahead(keys, clock, rows to fill, timeout_ms) -> Ahead. */
PyObject *ps_python_table_ahead(PyObject *table, PyObject *arguments);

/* Cancels every read of a table that is closed. */
void ps_python_aheads_end(struct ps_python_table *table);

#endif
