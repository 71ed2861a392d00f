/* SPDX-License-Identifier: Apache-2.0 */
/* What the extension keeps once for the module: its types, and the functions of the Python half.
 *
 * Threads:  used with Python's lock held, as everything here that does not say otherwise.
 * Blocking: never.
 * Errors:   those of Python: NULL, -1 or false with an exception set.
 * Memory:   the module's; references are owned.
 */
#ifndef PS_PYTHON_STATE_H
#define PS_PYTHON_STATE_H

/* Limited to what every Python from 3.11 on has: one binary for all of them. */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include <psclient.h>
#include <stdbool.h>

struct ps_python_state {
    PyTypeObject *client_type;
    PyTypeObject *operation_type;
    PyTypeObject *replica_type;
    PyTypeObject *table_replica_type;
    PyTypeObject *table_type;
    PyTypeObject *ahead_type;
    PyTypeObject *rendezvous_type;
    PyTypeObject *value_type;
    PyObject *as_source;  /* (name, object) -> an array that can be read as it lies */
    PyObject *as_target;  /* (name, object) -> one that can be written in place */
    PyObject *make_error; /* (status, text, items) -> an exception */
    unsigned long forks;  /* how many forks lie between the first process and this one */
};

/* The state of the module that made this type. */
struct ps_python_state *ps_python_state_of(PyTypeObject *type);

/* Beside the statuses of psclient.h, for failures that are found here. */
enum { PS_PYTHON_CLOSED = -1, PS_PYTHON_FORKED = -2 };

/* Raises what the Python half makes of a failure. `items` is taken, and may be NULL: no item of its
 * own failed. Always NULL, for `return`. */
PyObject *ps_python_raise(struct ps_python_state *state, int status, const char *text,
                          PyObject *items);

/* Makes a type of the module; NULL with an exception. */
PyTypeObject *ps_python_make_type(PyObject *module, PyType_Spec *spec);

/* One for each file that has a type or methods. */
extern PyType_Spec ps_python_client_spec;
extern PyType_Spec ps_python_operation_spec;
extern PyType_Spec ps_python_replica_spec;
extern PyType_Spec ps_python_table_replica_spec;
extern PyType_Spec ps_python_table_spec;
extern PyType_Spec ps_python_ahead_spec;
extern PyType_Spec ps_python_rendezvous_spec;
extern PyType_Spec ps_python_value_spec;

#endif
