/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Client`: one libpsclient client as a Python object.
 *
 * Threads:  any; Python's lock guards the struct, and the library guards itself. `busy` counts
 *           threads that are in the library with the lock released.
 * Blocking: as each method says; the lock is released meanwhile.
 * Errors:   exceptions. A client that is closed, or was opened before a fork, is refused.
 * Memory:   the object owns the library's client and closes it when it goes.
 */
#ifndef PS_PYTHON_CLIENT_H
#define PS_PYTHON_CLIENT_H

#include "python_flight.h"

struct ps_python_client {
    PyObject_HEAD struct psclient *client; /* NULL: closed */
    struct ps_python_state *state;         /* of the module, which the type keeps alive */
    unsigned long forks;                   /* of the process that opened it */
    size_t busy;                           /* threads inside the library */
    size_t replicas;                       /* that are open */
    struct ps_python_flight *flights;      /* under way */
    struct ps_python_table *tables;        /* that are open */
    struct psclient_device *device;        /* NULL: no plugin was loaded */
};

/* True when the client may be used here and now; false with an exception. */
bool ps_python_client_check(struct ps_python_client *self);

/* Whether it was opened by another process, whose threads and connections it needs. */
bool ps_python_client_forked(const struct ps_python_client *self);

/* Reads the options of psclient_open out of keyword arguments; -1 with an exception. Texts are
 * borrowed from the dict. */
int ps_python_read_options(PyObject *keywords, struct psclient_options *options);

/* Takes the flight, in any case; python_operation.c. */
PyObject *ps_python_operation_create(struct ps_python_client *client,
                                     struct ps_python_flight *flight);

/* Parameters that come, go and change; python_change.c. */
PyObject *ps_python_init(PyObject *self, PyObject *arguments);
PyObject *ps_python_define(PyObject *self, PyObject *arguments);
PyObject *ps_python_drop(PyObject *self, PyObject *arguments);
PyObject *ps_python_configure(PyObject *self, PyObject *arguments);

/* Closes every table of a client that closes; python_table.c. */
void ps_python_tables_end(struct ps_python_client *client);

/* The methods for operators and trainers that meet; python_questions.c. */
PyObject *ps_python_server_status(PyObject *self, PyObject *arguments);
PyObject *ps_python_list(PyObject *self, PyObject *arguments);
PyObject *ps_python_save(PyObject *self, PyObject *arguments);
PyObject *ps_python_save_model(PyObject *self, PyObject *arguments);
PyObject *ps_python_last_applied(PyObject *self, PyObject *arguments);
PyObject *ps_python_barrier(PyObject *self, PyObject *arguments);
PyObject *ps_python_counters(PyObject *self, PyObject *none);

/* Workers that find each other; python_workers.c, python_clocks.c. */
PyObject *ps_python_join_workers(PyObject *self, PyObject *arguments);
PyObject *ps_python_leave_workers(PyObject *self, PyObject *arguments);
PyObject *ps_python_list_workers(PyObject *self, PyObject *arguments);
PyObject *ps_python_barrier_group(PyObject *self, PyObject *arguments);
PyObject *ps_python_set_clocks(PyObject *self, PyObject *arguments);
PyObject *ps_python_remove_clocks(PyObject *self, PyObject *arguments);
PyObject *ps_python_clock(PyObject *self, PyObject *arguments);
PyObject *ps_python_progress(PyObject *self, PyObject *arguments);

/* Memory of a GPU; python_device.c. */
PyObject *ps_python_load_device(PyObject *self, PyObject *arguments);
PyObject *ps_python_run_device(PyObject *self, PyObject *arguments);
PyObject *ps_python_forget_device(PyObject *self, PyObject *arguments);
PyObject *ps_python_device_bytes(PyObject *self, PyObject *none);
void ps_python_device_end(struct ps_python_client *client);

/* Around a call that may wait: Python's lock is released, and close() knows of the thread. */
PyThreadState *ps_python_enter(struct ps_python_client *self);
void ps_python_leave(struct ps_python_client *self, PyThreadState *thread);

#endif
