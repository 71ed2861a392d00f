/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Customer` and `_pserver.Serving`: requests to server programs, and such programs.
 *
 * Threads:  with Python's lock; it is released around calls that wait.
 * Blocking: as each method says.
 * Errors:   exceptions.
 * Memory:   a request holds the buffers of its arrays until it is over; a batch lives as long as an
 *           array that looks into it.
 */
#ifndef PS_PYTHON_PROGRAMS_H
#define PS_PYTHON_PROGRAMS_H

#include "python_client.h"

/* A request, or a list of tensors, and the buffers that it uses. */
struct ps_python_held {
    struct ps_python_held *next;
    uint64_t number; /* of the request */
    Py_buffer *buffers;
    size_t buffer_count;
    PyObject *callback; /* NULL: none */
    struct ps_python_body *bodies;
};

/* What a node has answered to a simple request. */
struct ps_python_body {
    struct ps_python_body *next;
    uint32_t node;
    size_t size;
    unsigned char bytes[];
};

/* Room for so many buffers; NULL with an exception. */
struct ps_python_held *ps_python_hold(size_t buffer_count);

/* Takes the next buffer of `object`; false with an exception. */
bool ps_python_hold_buffer(struct ps_python_held *held, PyObject *object, int flags);

/* Releases everything. */
void ps_python_let_go(struct ps_python_held *held);

/* Reads a sequence of (key, dtype, element size, shape, buffer) into tensors and keys, whose
 * buffers are held. False with an exception; both arrays are of PyMem, and are the caller's in any
 * case. */
bool ps_python_read_tensors(PyObject *sequence, int flags, struct psclient_tensor **tensors,
                            uint64_t **keys, size_t *count, struct ps_python_held **held);

/* A worker or a server program. */
struct ps_python_serving {
    PyObject_HEAD struct ps_python_client *client; /* owned reference */
    struct ps_serving *serving;                    /* NULL: closed */
    struct ps_python_held *held;                   /* of requests that may not be over */
    struct ps_python_held *rooms;                  /* registered buffers, until the end */
    size_t batches;                                /* that are alive */
};

/* NULL with an exception. */
struct ps_python_serving *ps_python_serving_check(PyObject *object);

/* None, or the exception. */
PyObject *ps_python_serving_result(struct ps_python_serving *self, int status,
                                   const struct psclient_error *error);

/* Methods of server programs; python_served.c. */
PyObject *ps_python_get_batch(PyObject *object, PyObject *arguments);
PyObject *ps_python_reply(PyObject *object, PyObject *arguments);
PyObject *ps_python_respond_vec(PyObject *object, PyObject *arguments);
PyObject *ps_python_register_recv_buffer(PyObject *object, PyObject *arguments);

extern PyType_Spec ps_python_customer_spec;
extern PyType_Spec ps_python_serving_spec;
extern PyType_Spec ps_python_batch_spec;
extern PyType_Spec ps_python_piece_spec;

#endif
