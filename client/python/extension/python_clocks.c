/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of `_pserver.Client` for clocks. Plain calls of the library, which go to every server and
 * wait at most their timeout. */
#include "python_client.h"

/* As many as clocks may have workers. */
enum { RANKS_MAX = 4096 };

/* Ranks of a tuple, which Python has made of whatever was given; the library holds them to their
 * bound. False with an exception. */
static bool read_ranks(PyObject *tuple, uint32_t *ranks, struct psclient_clocks *clocks)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count > RANKS_MAX) {
        PyErr_SetString(PyExc_ValueError, "more ranks than clocks may have");
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned long rank = PyLong_AsUnsignedLong(PyTuple_GetItem(tuple, i));
        if (PyErr_Occurred() != NULL)
            return false;
        ranks[i] = rank > UINT32_MAX ? UINT32_MAX : (uint32_t)rank;
    }
    clocks->ranks = count > 0 ? ranks : NULL;
    clocks->rank_count = (uint32_t)count;
    return true;
}

/* (name, workers, consistency, staleness, straggler, ttl_ms, speculation, task, clock, ranks,
 * timeout_ms). Words become numbers in the Python half, which knows what people may write; the
 * numbers are those of psclient_clocks.h, and the servers say what is wrong with them. */
PyObject *ps_python_set_clocks(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_clocks clocks = {0};
    struct psclient_error error;
    const char *name;
    unsigned consistency, straggler;
    unsigned long long ttl_ms, task, clock, timeout_ms;
    PyObject *tuple;
    uint32_t ranks[RANKS_MAX];
    if (!PyArg_ParseTuple(arguments, "sIIIIKIKKO!K:set_clocks", &name, &clocks.workers,
                          &consistency, &clocks.staleness, &straggler, &ttl_ms, &clocks.speculation,
                          &task, &clock, &PyTuple_Type, &tuple, &timeout_ms) ||
        !read_ranks(tuple, ranks, &clocks) || !ps_python_client_check(self))
        return NULL;
    /* Through numbers, since the size of an enum is the compiler's choice. */
    clocks.consistency = (enum psclient_consistency)consistency;
    clocks.straggler = (enum psclient_straggler)straggler;
    clocks.ttl_ms = ttl_ms;
    clocks.task = task;
    clocks.clock = clock;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_set_clocks(self->client, name, &clocks, timeout_ms, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* (name, timeout_ms). Done once, as setting them is; whoever does not know how it ended calls it
 * again. */
PyObject *ps_python_remove_clocks(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    const char *name;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "sK:remove_clocks", &name, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    /* Other threads of Python go on: some of them may be those that wait by the clocks. */
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_remove_clocks(self->client, name, timeout_ms, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* (name, task, 1 + worker, clock, timeout_ms) -> where the worker stands now. The Python half
 * counts workers from 0, as everybody does; here 0 is nobody. Task 0 is any, for clocks that have
 * none. */
PyObject *ps_python_clock(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    const char *name;
    unsigned worker;
    unsigned long long task, clock, timeout_ms;
    uint64_t now = 0;
    if (!PyArg_ParseTuple(arguments, "sKIKK:clock", &name, &task, &worker, &clock, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status =
        psclient_clock_in_task(self->client, name, task, worker, clock, timeout_ms, &now, &error);
    ps_python_leave(self, thread);
    /* Of all servers the highest: the worker goes on from there. */
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    return PyLong_FromUnsignedLongLong(now);
}

/* In the order of the dataclass in together.py. A list that is too short for want of memory is no
 * list: the caller would take it for fewer workers. */
static PyObject *rows_of(const struct psclient_worker_clock *rows, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *row = Py_BuildValue(
            "(KOKO)", (unsigned long long)rows[i].clock, rows[i].evicted ? Py_True : Py_False,
            (unsigned long long)rows[i].silent_ms, rows[i].absent ? Py_True : Py_False);
        /* The list takes the row in any case. */
        if (row == NULL || PyList_SetItem(list, (Py_ssize_t)i, row) != 0)
            Py_CLEAR(list);
    }
    return list;
}

/* (name, at_least, timeout_ms) -> (minimum, rows). As many rows as clocks may have workers: asking
 * twice, first for their number, could miss those that came between the two questions. */
PyObject *ps_python_progress(PyObject *object, PyObject *arguments)
{
    enum { WORKERS_MAX = 4096 };
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    const char *name;
    unsigned long long at_least;
    unsigned long long timeout_ms;
    uint64_t minimum = 0;
    /* How many workers there are, which may be more than there are rows. */
    size_t count = 0;
    if (!PyArg_ParseTuple(arguments, "sKK:progress", &name, &at_least, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    /* Too many for the stack of a thread that Python has made. */
    struct psclient_worker_clock *rows = PyMem_Calloc(WORKERS_MAX, sizeof *rows);
    if (rows == NULL)
        return PyErr_NoMemory();
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_progress(self->client, name, at_least, timeout_ms, &minimum, rows,
                                   WORKERS_MAX, &count, &error);
    ps_python_leave(self, thread);
    /* Made before the rows go, and with Python's lock. */
    PyObject *list = NULL;
    if (status == PSCLIENT_OK)
        list = rows_of(rows, count < WORKERS_MAX ? count : WORKERS_MAX);
    PyMem_Free(rows);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    return list != NULL ? Py_BuildValue("(KN)", (unsigned long long)minimum, list) : NULL;
}
