/* SPDX-License-Identifier: Apache-2.0 */
/* The items of one call as libpsclient wants them, and every buffer that they borrow.
 *
 * Memory of arrays is used where it lies. A source that is not contiguous, or is not a buffer (a
 * list, a tensor), goes through the Python half's as_source, which copies it once; a target goes
 * through as_target, which never does.
 *
 * Threads:  one thread at a time, with Python's lock.
 * Blocking: never.
 * Errors:   an exception names the item: TypeError for elements that do not travel and for targets
 *           that cannot be written in place, ValueError for sizes that differ.
 * Memory:   a batch owns its arrays, and holds names and buffers until it is destroyed: whatever
 *           the caller drops meanwhile, the memory stays where it is.
 */
#ifndef PS_PYTHON_BATCH_H
#define PS_PYTHON_BATCH_H

#include "python_state.h"

/* What a batch does; the numbers are those of `_pserver.pyi`. */
enum ps_python_kind {
    PS_PYTHON_PUSH = 0,      /* sources */
    PS_PYTHON_PULL = 1,      /* targets */
    PS_PYTHON_PUSH_PULL = 2, /* both */
    PS_PYTHON_INIT = 3,      /* sources, each with a configuration */
    PS_PYTHON_NAMES = 4      /* names alone */
};

struct ps_python_batch {
    enum ps_python_kind kind;
    size_t count;
    size_t held_count;
    PyObject *names;    /* owned: a tuple of str, whose texts the items borrow */
    PyObject *configs;  /* owned: a tuple of bytes; NULL but for PS_PYTHON_INIT */
    PyObject *training; /* owned: whose texts the items borrow; NULL: none was given */
    struct psclient_gradient *gradients;
    struct psclient_parameter *parameters;
    struct psclient_result *results;
    Py_buffer *buffers; /* up to two for each item */
    bool waits; /* for versions, of contributions if it pushes: each row says whether it was late */
    struct psclient_error error;
};

/* What the caller gave: tuples or lists as long as `names`; NULL or None where the kind has none.
 * Borrowed. */
struct ps_python_items {
    PyObject *names;
    PyObject *sources;
    PyObject *targets;
    PyObject *configs;
    PyObject
        *training; /* (worker, weight, versions[, clocks, clock]); NULL: neither contributes nor
                           waits */
};

/* Returns the batch, which ps_python_batch_destroy ends; NULL with an exception. */
struct ps_python_batch *ps_python_batch_create(struct ps_python_state *state,
                                               enum ps_python_kind kind,
                                               const struct ps_python_items *items);
void ps_python_batch_destroy(struct ps_python_batch *batch);

/* What became of the batch, of which the library said `status`: the versions of its items as a
 * list, each with whether its contribution was late where the batch `waits`; or NULL with an
 * exception that has every item's own result. */
PyObject *ps_python_batch_conclude(struct ps_python_state *state,
                                   const struct ps_python_batch *batch, int status);

#endif
