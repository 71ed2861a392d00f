/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Client`: opening, closing, initialisation and training. What operators ask for is in
 * python_questions.c.
 *
 * Every method has the same shape: read the arguments, check that the client may be used, call
 * the library without Python's lock, turn its status into a result or an exception. Calls that
 * train are begun and waited for in slices, since what is not waited for any more goes on; the
 * others are plain calls, which ctrl-C ends (python_interrupt.c). */
#include "python_client.h"
#include "python_interrupt.h"

#include <string.h>

/* ---- Life ---- */

/* The library's threads and gRPC's connections are not in the child: any call there would wait for
 * ever. Numbers are compared, and no process id asked for: this is looked at in every call. */
bool ps_python_client_forked(const struct ps_python_client *self)
{
    return self->forks != self->state->forks;
}

/* A fork is looked at before close: in a child also close() has nothing that it could end. */
bool ps_python_client_check(struct ps_python_client *self)
{
    /* The words say what to do: nobody meets this but by a start method that forks. */
    if (ps_python_client_forked(self))
        ps_python_raise(self->state, PS_PYTHON_FORKED,
                        "this client was opened before a fork: use the start method \"spawn\", or "
                        "connect in the child before the parent does",
                        NULL);
    else if (self->client == NULL)
        ps_python_raise(self->state, PS_PYTHON_CLOSED, "this client is closed", NULL);
    else
        return true;
    return false;
}

/* The count changes with the lock held, on both sides of the call. */
PyThreadState *ps_python_enter(struct ps_python_client *self)
{
    self->busy++;
    return ps_python_interrupt_enter();
}

/* Taking Python's lock again may wait for another thread; the answer is there already. */
void ps_python_leave(struct ps_python_client *self, PyThreadState *thread)
{
    ps_python_interrupt_leave(thread);
    self->busy--;
}

/* Texts of the options are borrowed from the keywords, which live as long as the call; the library
 * copies what it keeps. The type cannot be inherited from, so that the state is that of its
 * module. Whatever fails after the library's client is open closes it again. */
static PyObject *open_client(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    struct psclient_options options = {0};
    if (PyTuple_Size(arguments) != 0) {
        PyErr_SetString(PyExc_TypeError, "Client takes options by their names only");
        return NULL;
    }
    if (keywords != NULL && ps_python_read_options(keywords, &options) != 0)
        return NULL;
    struct psclient *client = NULL;
    struct psclient_error error;
    PyThreadState *thread = PyEval_SaveThread();
    int status = psclient_open(&options, &client, &error);
    PyEval_RestoreThread(thread);
    struct ps_python_state *state = ps_python_state_of(type);
    /* The library has no status for it: a text of a process that has been forked is about that. */
    if (status == PSCLIENT_FAILED && state->forks > 0 && strstr(error.text, "forked") != NULL)
        status = PS_PYTHON_FORKED;
    if (status != PSCLIENT_OK)
        return ps_python_raise(state, status, error.text, NULL);
    /* Not by tp_alloc: the struct is all there is, and every field is set below. */
    struct ps_python_client *self = PyObject_New(struct ps_python_client, type);
    if (self == NULL) {
        psclient_close(client);
        return NULL;
    }
    psclient_set_interrupted(client, ps_python_interrupted, NULL);
    self->client = client;
    self->state = state;
    self->forks = state->forks;
    self->busy = 0;
    self->replicas = 0;
    self->flights = NULL;
    self->tables = NULL;
    self->device = NULL;
    return (PyObject *)self;
}

/* Flights and tables end before the client that carries them. From the first line on no method
 * takes the client any more. */
static void shut(struct ps_python_client *self, bool cancel)
{
    struct psclient *client = self->client;
    self->client = NULL;
    if (client == NULL || ps_python_client_forked(self))
        return;
    /* Closing may wait for etcd for a few seconds, when a lock of the initialisation is held. */
    ps_python_flights_end(self, cancel);
    ps_python_tables_end(self);
    PyThreadState *thread = PyEval_SaveThread();
    psclient_close(client);
    PyEval_RestoreThread(thread);
}

/* Refused while a thread is inside the library: it would come back to freed memory. A replica has a
 * pointer to the client, too. In a forked child there is nothing of either. */
static PyObject *close_client(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    int cancel;
    if (!PyArg_ParseTuple(arguments, "p:close", &cancel))
        return NULL;
    if (!ps_python_client_forked(self) && (self->busy > 0 || self->replicas > 0)) {
        PyErr_SetString(PyExc_RuntimeError, self->busy > 0
                                                ? "another thread is in a call of this client"
                                                : "something of this client is open: a replica, a "
                                                  "customer, a step, or what serves");
        return NULL;
    }
    shut(self, cancel != 0);
    Py_RETURN_NONE;
}

/* Operations and replicas hold a reference: none is left here. What nobody waited for is cancelled,
 * so that an interpreter that ends does not hang on a server that stands still; close() waits. */
static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    shut((struct ps_python_client *)object, true);
    ps_python_device_end((struct ps_python_client *)object);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- Initialisation ---- */

/* The Python half calls this in slices of a second: the library goes on where it was, since the
 * lock of the initialisation, once held, is held across calls. */
static PyObject *begin_init(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    unsigned long long timeout_ms;
    int selected = 0;
    if (!PyArg_ParseTuple(arguments, "K:begin_init", &timeout_ms) || !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_begin_init(self->client, timeout_ms, &selected, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    return PyBool_FromLong(selected);
}

/* NOT_INITIALIZED is the one failure after which the whole initialisation begins again; the Python
 * half does that. */
static PyObject *finish_init(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "K:finish_init", &timeout_ms) || !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_finish_init(self->client, timeout_ms, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* ---- Training ---- */

/* (kind, names, sources, targets, timeout_ms[, training]), of which the kind does not use all. */
static struct ps_python_flight *begin_flight(struct ps_python_client *self, PyObject *arguments)
{
    int kind;
    struct ps_python_items items = {0};
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "iOOOK|O!", &kind, &items.names, &items.sources,
                          &items.targets, &timeout_ms, &PyTuple_Type, &items.training) ||
        !ps_python_client_check(self))
        return NULL;
    /* An initialisation has configurations, and is a call of its own. */
    if (kind < PS_PYTHON_PUSH || kind > PS_PYTHON_PUSH_PULL) {
        PyErr_SetString(PyExc_ValueError, "no such kind of batch");
        return NULL;
    }
    struct ps_python_batch *batch =
        ps_python_batch_create(self->state, (enum ps_python_kind)kind, &items);
    return batch != NULL ? ps_python_flight_begin(self, batch, timeout_ms) : NULL;
}

/* The object keeps the arrays alive, and is what user code waits for. */
static PyObject *begin(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct ps_python_flight *flight = begin_flight(self, arguments);
    return flight != NULL ? ps_python_operation_create(self, flight) : NULL;
}

/* Keeps the exception that is set. A second ctrl-C meanwhile changes nothing: the first one's
 * exception is on its way. */
static void give_up(struct ps_python_client *self, struct ps_python_flight *flight)
{
    /* Taken away while other calls are made, which would trip over an exception that is set. */
    PyObject *type;
    PyObject *value;
    PyObject *trace;
    PyErr_Fetch(&type, &value, &trace);
    ps_python_flight_cancel(flight);
    while (ps_python_flight_wait(self, flight, PS_PYTHON_SLICE_MS) != 1)
        PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

/* As begin and wait, without an object between them. After an exception of a signal's handler the
 * push is given up, and waited for all the same: the caller has its arrays when this returns. */
static PyObject *run(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct ps_python_flight *flight = begin_flight(self, arguments);
    if (flight == NULL)
        return NULL;
    /* The library bounds this by the timeout of the flight's beginning: no clock is needed here. */
    int over = 0;
    while (over == 0)
        over = ps_python_flight_wait(self, flight, PS_PYTHON_SLICE_MS);
    PyObject *versions = over > 0 ? ps_python_flight_conclude(self, flight) : NULL;
    if (over < 0)
        give_up(self, flight);
    ps_python_flight_leave(self, flight);
    return versions;
}

/* For event loops, with a timeout of 0: one after the other until there is none. */
static PyObject *next(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "K:next", &timeout_ms) || !ps_python_client_check(self))
        return NULL;
    struct ps_python_flight *flight = ps_python_flight_next(self, timeout_ms);
    if (flight == NULL)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(flight);
}

/* From here on a thread of the library works for operations that nobody waits for. */
static PyObject *event_fd(PyObject *object, PyObject *none)
{
    (void)none;
    struct ps_python_client *self = (struct ps_python_client *)object;
    if (!ps_python_client_check(self))
        return NULL;
    int descriptor = psclient_event_fd(self->client);
    if (descriptor < 0)
        return ps_python_raise(self->state, PSCLIENT_EXHAUSTED,
                               "the system has no descriptor left for an event loop", NULL);
    return PyLong_FromLong(descriptor);
}

/* Fixed when the client was opened. */
static PyObject *get_shard_count(PyObject *object, void *none)
{
    (void)none;
    struct ps_python_client *self = (struct ps_python_client *)object;
    if (!ps_python_client_check(self))
        return NULL;
    return PyLong_FromUnsignedLong(psclient_shard_count(self->client));
}

/* The one question that a closed client answers. */
static PyObject *get_closed(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(((struct ps_python_client *)object)->client == NULL);
}

/* Arguments by position only: these methods have one caller each, in the Python half, which has the
 * names and defaults. _pserver.pyi declares them for the type checker, and a test compares both. */
static PyMethodDef methods[] = {
    {"close", close_client, METH_VARARGS, "close(cancel): ends, or waits for, what is under way"},
    {"begin_init", begin_init, METH_VARARGS, "begin_init(timeout_ms) -> bool: selected"},
    {"init", ps_python_init, METH_VARARGS, "init(names, arrays, configs, timeout_ms) -> versions"},
    {"finish_init", finish_init, METH_VARARGS, "finish_init(timeout_ms)"},
    {"define", ps_python_define, METH_VARARGS,
     "define(names, arrays, configs, timeout_ms) -> list of bool: it was there"},
    {"drop", ps_python_drop, METH_VARARGS, "drop(names, timeout_ms) -> versions"},
    {"configure", ps_python_configure, METH_VARARGS,
     "configure(names, change, timeout_ms) -> list of (step, configuration)"},
    {"begin", begin, METH_VARARGS, "begin(kind, names, sources, targets, timeout_ms) -> Operation"},
    {"run", run, METH_VARARGS, "run(kind, names, sources, targets, timeout_ms) -> versions"},
    {"load_device", ps_python_load_device, METH_VARARGS, "load_device(plugin)"},
    {"run_device", ps_python_run_device, METH_VARARGS,
     "run_device(kind, names, pieces, timeout_ms) -> versions"},
    {"forget_device", ps_python_forget_device, METH_VARARGS, "forget_device(address, timeout_ms)"},
    {"device_bytes", ps_python_device_bytes, METH_NOARGS, "device_bytes() -> int"},
    {"next", next, METH_VARARGS, "next(timeout_ms) -> the key of one that is finished, or None"},
    {"event_fd", event_fd, METH_NOARGS, "event_fd() -> int: readable while next(0) gives one"},
    {"server_status", ps_python_server_status, METH_VARARGS,
     "server_status(index, timeout_ms) -> dict"},
    {"list", ps_python_list, METH_VARARGS, "list(index, timeout_ms) -> list of dict"},
    {"save", ps_python_save, METH_VARARGS, "save(index, timeout_ms) -> dict"},
    {"save_model", ps_python_save_model, METH_VARARGS,
     "save_model(name, timeout_ms) -> (name, existed, shards)"},
    {"last_applied", ps_python_last_applied, METH_VARARGS,
     "last_applied(timeout_ms) -> (known, whole, rows)"},
    {"barrier", ps_python_barrier, METH_VARARGS, "barrier(name, round, member, of, timeout_ms)"},
    {"join_workers", ps_python_join_workers, METH_VARARGS,
     "join_workers(group, name, role, size, rank, ttl_ms, timeout_ms) -> (rank, size, "
     "incarnation)"},
    {"leave_workers", ps_python_leave_workers, METH_VARARGS, "leave_workers(group, timeout_ms)"},
    {"list_workers", ps_python_list_workers, METH_VARARGS,
     "list_workers(group, timeout_ms) -> rows"},
    {"barrier_group", ps_python_barrier_group, METH_VARARGS,
     "barrier_group(group, name, round, timeout_ms)"},
    {"set_clocks", ps_python_set_clocks, METH_VARARGS,
     "set_clocks(name, workers, consistency, staleness, straggler, ttl_ms, speculation, task, "
     "clock, ranks, timeout_ms)"},
    {"remove_clocks", ps_python_remove_clocks, METH_VARARGS, "remove_clocks(name, timeout_ms)"},
    {"clock", ps_python_clock, METH_VARARGS,
     "clock(name, task, worker, clock, timeout_ms) -> clock"},
    {"progress", ps_python_progress, METH_VARARGS,
     "progress(name, at_least, timeout_ms) -> (minimum, rows)"},
    {"counters", ps_python_counters, METH_NOARGS, "counters() -> dict"},
    {NULL, NULL, 0, NULL}};

/* Both cost nothing to ask. */
static PyGetSetDef properties[] = {
    {"shard_count", get_shard_count, NULL, "how many shards the job has", NULL},
    {"closed", get_closed, NULL, "whether close() was called", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, open_client},
                              {Py_tp_dealloc, deallocate},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, properties},
                              {Py_tp_doc, "Client(**options): an open client of libpsclient."},
                              {0, NULL}};

/* Immutable, as every type of the module is: its methods may not be replaced by others that forget
 * to look for forks. */
PyType_Spec ps_python_client_spec = {.name = "pserver._pserver.Client",
                                     .basicsize = sizeof(struct ps_python_client),
                                     .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                     .slots = slots};
