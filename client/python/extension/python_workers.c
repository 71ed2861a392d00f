/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of `_pserver.Client` by which workers find each other: places with ranks, barriers of
 * groups, clocks. Plain calls of the library, which wait at most their timeout; the Python half
 * makes them in slices where that is long. */
#include "python_client.h"

/* What a call without an answer returns. The exception has the library's words: they name the
 * workers that are missing, or who has the place. */
static PyObject *nothing_of(struct ps_python_client *self, int status,
                            const struct psclient_error *error)
{
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error->text, NULL);
    Py_RETURN_NONE;
}

/* (group, name, role, size, rank, ttl_ms, timeout_ms), of which the texts may be None and the
 * numbers 0, as psclient_workers.h says. From then on a thread of the library keeps the place. May
 * be repeated: a client that has its place is told which. */
PyObject *ps_python_join_workers(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_worker_options options = {0};
    struct psclient_place place;
    struct psclient_error error;
    unsigned long long ttl_ms;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "zzzIIKK:join_workers", &options.group, &options.name,
                          &options.role, &options.size, &options.rank, &ttl_ms, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    /* Texts are borrowed from the arguments, which live as long as the call. */
    options.ttl_ms = ttl_ms;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_join_workers(self->client, &options, timeout_ms, &place, &error);
    ps_python_leave(self, thread);
    /* Nothing is kept here: the library knows the place. */
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    return Py_BuildValue("(IIK)", (unsigned)place.rank, (unsigned)place.size,
                         (unsigned long long)place.incarnation);
}

/* Asked by name and not by rank: the library knows which place of the group this client has. The
 * place is given up in any case: a failure only means that others find it free later. */
PyObject *ps_python_leave_workers(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    const char *group;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "zK:leave_workers", &group, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_leave_workers(self->client, group, timeout_ms, &error);
    ps_python_leave(self, thread);
    return nothing_of(self, status, &error);
}

/* In the order of the dataclass in together.py. */
static PyObject *worker_row(const struct psclient_worker *worker)
{
    /* Only the server that hears a worker knows how long it has been silent. */
    PyObject *silent =
        worker->heard ? PyLong_FromUnsignedLongLong(worker->silent_ms) : Py_NewRef(Py_None);
    if (silent == NULL)
        return NULL;
    return Py_BuildValue("(sIsssNK)", worker->group, (unsigned)worker->rank, worker->name,
                         worker->role, worker->host, silent,
                         (unsigned long long)worker->joined_unix_ms);
}

/* The library's list is released before this returns, also where a row could not be made: Python
 * has its own copies of all texts. A list that was cut short is told as it is: more workers than
 * fit one answer are more than anybody reads. */
PyObject *ps_python_list_workers(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_worker_list found = {0};
    struct psclient_error error;
    const char *group;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "zK:list_workers", &group, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_list_workers(self->client, group, 0, timeout_ms, &found, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    /* Appended one by one: the list has no size that could be wrong. */
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && i < found.count; i++) {
        PyObject *row = worker_row(&found.workers[i]);
        if (row == NULL || PyList_Append(rows, row) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    psclient_worker_list_release(&found);
    return rows;
}

/* Rank and size are those of the place that the client has, so that only the meeting is named
 * here. A group without an end has no barrier, which the library says. */
PyObject *ps_python_barrier_group(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    const char *group;
    const char *name;
    unsigned long long round;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "zsKK:barrier_group", &group, &name, &round, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_barrier_group(self->client, group, name, round, timeout_ms, &error);
    ps_python_leave(self, thread);
    return nothing_of(self, status, &error);
}
