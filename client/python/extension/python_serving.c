/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Serving`: batched serving, of a worker or of a server program, which are one type
 * since they begin, meet and end in the same way. What programs do is in python_served.c.
 *
 * Handlers are numbers and not objects, as in StepMesh: a port passes them around, keeps them in
 * lists, and asks for traces of those that are long over.
 *
 * A worker's arrays are in use from push_pull on. Their buffers are held until a wait has found
 * that the request is over; a wait whose own time has passed leaves them.
 *
 * Closing a client under a serving is refused in the same way as under a replica. A stop meets
 * the others first, at a barrier with a time of its own; a time of 0 meets nobody, for programs
 * that end on their own terms, and for tests.
 */
#include "python_programs.h"

/* ---- Life ---- */

/* (client, app, role, rank, workers, worker_node, timeout_ms, lease_ms, again, name or None). */
static PyObject *open_serving(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    struct ps_python_state *state = ps_python_state_of(type);
    struct ps_serving_options options = {0};
    struct psclient_error error;
    struct ps_serving *opened = NULL;
    unsigned long long timeout_ms;
    unsigned long long lease_ms;
    int role;
    PyObject *owner;
    if (keywords != NULL || !PyArg_ParseTuple(arguments, "O!IiIIIKKiz:Serving", state->client_type,
                                              &owner, &options.app, &role, &options.rank,
                                              &options.workers, &options.worker_node, &timeout_ms,
                                              &lease_ms, &options.again, &options.name))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "Serving: no keywords");
    struct ps_python_client *client = (struct ps_python_client *)owner;
    if (!ps_python_client_check(client))
        return NULL;
    /* A number that is no role is refused by the library, in its words. */
    options.role = (enum ps_serving_role)role;
    /* The struct's types are the library's. */
    options.timeout_ms = timeout_ms;
    options.lease_ms = lease_ms;
    int status = ps_serving_init(client->client, &options, &opened, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(state, status, error.text, NULL);
    struct ps_python_serving *self = PyObject_New(struct ps_python_serving, type);
    if (self == NULL) {
        (void)ps_serving_stop(opened, 0, NULL);
        return NULL;
    }
    /* As an open replica, it keeps the client from being closed. */
    self->client = (struct ps_python_client *)Py_NewRef(owner);
    self->client->replicas++;
    self->serving = opened;
    /* Nothing was asked and nothing taken yet. */
    self->held = NULL;
    self->rooms = NULL;
    self->batches = 0;
    return (PyObject *)self;
}

/* Batches refer to the serving, so that it does not go before them; a stop is refused while there
 * are some. Buffers go when the library is done with them. */
static int shut(struct ps_python_serving *self, unsigned long long timeout_ms,
                struct psclient_error *error)
{
    struct ps_serving *serving = self->serving;
    if (serving == NULL || ps_python_client_forked(self->client))
        return PSCLIENT_OK;
    /* Taken off first: another thread that comes meanwhile finds a serving that was stopped. */
    self->serving = NULL;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_serving_stop(serving, timeout_ms, error);
    ps_python_leave(self->client, thread);
    self->client->replicas--;
    /* Letting go may run Python code, which must find nothing here any more. */
    struct ps_python_held *lists[2] = {self->held, self->rooms};
    self->held = NULL;
    self->rooms = NULL;
    for (int i = 0; i < 2; i++)
        while (lists[i] != NULL) {
            struct ps_python_held *held = lists[i];
            lists[i] = held->next;
            ps_python_let_go(held);
        }
    return status;
}

/* Batches hold a reference each, so that none is alive here. Whoever lets a serving go without
 * a stop meets nobody. */
static void deallocate(PyObject *object)
{
    struct ps_python_serving *self = (struct ps_python_serving *)object;
    PyTypeObject *type = Py_TYPE(object);
    (void)shut(self, 0, NULL);
    Py_DECREF(self->client);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* NULL with an exception. */
struct ps_python_serving *ps_python_serving_check(PyObject *object)
{
    struct ps_python_serving *self = (struct ps_python_serving *)object;
    if (!ps_python_client_check(self->client))
        return NULL;
    if (self->serving != NULL)
        return self;
    return (struct ps_python_serving *)ps_python_raise(self->client->state, PS_PYTHON_CLOSED,
                                                       "this serving was stopped", NULL);
}

/* None, or the exception. */
PyObject *ps_python_serving_result(struct ps_python_serving *self, int status,
                                   const struct psclient_error *error)
{
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error->text, NULL);
    Py_RETURN_NONE;
}

/* (timeout_ms): 0 meets nobody. */
static PyObject *stop(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct psclient_error error;
    unsigned long long timeout_ms;
    if (self == NULL || !PyArg_ParseTuple(arguments, "K:stop", &timeout_ms))
        return NULL;
    /* Their arrays look into memory that goes with the serving. */
    if (self->batches > 0)
        return PyErr_Format(PyExc_RuntimeError, "arrays of %zu batches are still in use",
                            self->batches);
    return ps_python_serving_result(self, shut(self, timeout_ms, &error), &error);
}

/* (include_server, include_worker, timeout_ms). */
static PyObject *barrier(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct psclient_error error;
    /* Truth values, and not counts. */
    int servers;
    int workers;
    unsigned long long timeout_ms;
    if (self == NULL ||
        !PyArg_ParseTuple(arguments, "iiK:barrier", &servers, &workers, &timeout_ms))
        return NULL;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_serving_barrier(self->serving, servers, workers, timeout_ms, &error);
    ps_python_leave(self->client, thread);
    return ps_python_serving_result(self, status, &error);
}

/* ---- Workers ---- */

/* Both lists of tensors become one list of held buffers. */
static struct ps_python_held *join(struct ps_python_held *a, struct ps_python_held *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    /* Linked here, and again when the request is known: one after the other in the list of what
     * is held. */
    a->next = b;
    return a;
}

/* Of what join has made: two at most, which are on no other list. */
static void drop_joined(struct ps_python_held *held)
{
    struct ps_python_held *second = held != NULL ? held->next : NULL;
    ps_python_let_go(held);
    ps_python_let_go(second);
}

/* (tensors to push, tensors to pull, timeout_ms) -> handler. The buffers are held until somebody
 * has waited; so a program that pushes waits for what it has pushed. */
static PyObject *push_pull(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct psclient_tensor *pushed = NULL;
    struct psclient_tensor *pulled = NULL;
    struct ps_python_held *held[2] = {NULL, NULL};
    uint64_t *keys[2] = {NULL, NULL};
    size_t counts[2];
    struct psclient_error error;
    /* What is pushed, then what is pulled: both are read before anything is sent. */
    PyObject *lists[2];
    unsigned long long timeout_ms;
    uint64_t handler = 0;
    PyObject *result = NULL;
    if (self == NULL ||
        !PyArg_ParseTuple(arguments, "OOK:push_pull", &lists[0], &lists[1], &timeout_ms))
        return NULL;
    if (ps_python_read_tensors(lists[0], PyBUF_SIMPLE, &pushed, &keys[0], &counts[0], &held[0]) &&
        ps_python_read_tensors(lists[1], PyBUF_WRITABLE, &pulled, &keys[1], &counts[1], &held[1])) {
        PyThreadState *thread = ps_python_enter(self->client);
        int status = ps_serving_push_pull(self->serving, pushed, keys[0], counts[0], pulled,
                                          keys[1], counts[1], timeout_ms, &handler, &error);
        ps_python_leave(self->client, thread);
        result = status == PSCLIENT_OK
                     ? PyLong_FromUnsignedLongLong(handler)
                     : ps_python_raise(self->client->state, status, error.text, NULL);
    }
    struct ps_python_held *all = join(held[0], held[1]);
    /* An exception is set: by a list that could not be read, or by the library. */
    if (result == NULL) {
        drop_joined(all);
    } else {
        /* Both have the first handler's number: wait takes all of that number. */
        held[0]->number = handler;
        held[1]->number = handler;
        held[1]->next = self->held;
        self->held = all;
    }
    PyMem_Free(pushed);
    PyMem_Free(pulled);
    PyMem_Free(keys[0]);
    PyMem_Free(keys[1]);
    return result;
}

/* Everything of that number goes, one after another: letting go may run Python code. */
static void release(struct ps_python_serving *self, uint64_t number)
{
    struct ps_python_held **at = &self->held;
    while (*at != NULL) {
        struct ps_python_held *held = *at;
        if (held->number != number) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        ps_python_let_go(held);
        at = &self->held;
    }
}

/* (handler) -> are its tensors in use? As a customer's, of which a serving is made. */
static PyObject *is_open(PyObject *object, PyObject *number)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    unsigned long long handler = self != NULL ? PyLong_AsUnsignedLongLong(number) : 0;
    if (PyErr_Occurred() != NULL)
        return NULL;
    return PyBool_FromLong(ps_serving_is_open(self->serving, handler));
}

/* (handler, timeout_ms). While the request goes on its buffers stay held, also after a failure of
 * the wait. */
static PyObject *wait_for(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct psclient_error error;
    unsigned long long handler;
    unsigned long long timeout_ms;
    uint64_t first = 0;
    size_t count;
    if (self == NULL || !PyArg_ParseTuple(arguments, "KK:wait", &handler, &timeout_ms))
        return NULL;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_serving_wait(self->serving, handler, timeout_ms, &error);
    /* The request is held under its first handler, whichever of them is waited for. */
    int known = ps_serving_get_all_handlers(self->serving, handler, &first, 1, &count, NULL);
    ps_python_leave(self->client, thread);
    /* Not by the status: a wait that failed may have been for a request that goes on. */
    if (known == PSCLIENT_OK && ps_serving_is_open(self->serving, handler) == 0)
        release(self, first);
    return ps_python_serving_result(self, status, &error);
}

/* (handler) -> handlers. */
static PyObject *get_all_handlers(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct psclient_error error;
    unsigned long long handler;
    uint64_t first = 0;
    size_t count = 0;
    if (self == NULL || !PyArg_ParseTuple(arguments, "K:get_all_handlers", &handler))
        return NULL;
    /* No server is asked, so that Python's lock is kept. */
    int status = ps_serving_get_all_handlers(self->serving, handler, &first, 1, &count, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && i < count; i++) {
        PyObject *row = PyLong_FromUnsignedLongLong(first + i);
        if (row == NULL || PyList_Append(rows, row) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

/* In the order of the dataclass in serving.py. */
static PyObject *trace_row(const struct ps_serving_trace *row)
{
    /* Times as they are: 64 bits of nanoseconds, which a double would not hold exactly. */
    return Py_BuildValue("(KIIKKKKKKKKKK)", (unsigned long long)row->handler, row->server,
                         row->worker, (unsigned long long)row->worker_host,
                         (unsigned long long)row->server_host, (unsigned long long)row->begun,
                         (unsigned long long)row->sent, (unsigned long long)row->arrived,
                         (unsigned long long)row->taken, (unsigned long long)row->answered,
                         (unsigned long long)row->replied, (unsigned long long)row->received,
                         (unsigned long long)row->waited);
}

/* (handler) -> a row for each server. Asked twice, since nobody knows the number before. */
static PyObject *fetch_trace(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct psclient_error error;
    unsigned long long handler;
    size_t count = 0;
    if (self == NULL || !PyArg_ParseTuple(arguments, "K:fetch_trace", &handler))
        return NULL;
    int status = ps_serving_fetch_trace(self->serving, handler, NULL, 0, &count, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    /* The number of servers never changes, so that the second answer is as long as the first. */
    struct ps_serving_trace *found = PyMem_Calloc(count + 1, sizeof *found);
    if (found == NULL)
        return PyErr_NoMemory();
    (void)ps_serving_fetch_trace(self->serving, handler, found, count, &count, &error);
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && i < count; i++) {
        PyObject *row = trace_row(&found[i]);
        if (row == NULL || PyList_Append(rows, row) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    PyMem_Free(found);
    return rows;
}

static PyMethodDef methods[] = {
    {"push_pull", push_pull, METH_VARARGS, "push_pull(pushed, pulled, timeout_ms) -> handler"},
    {"is_open", is_open, METH_O, "is_open(handler) -> bool"},
    {"wait", wait_for, METH_VARARGS, "wait(handler, timeout_ms)"},
    {"get_all_handlers", get_all_handlers, METH_VARARGS, "get_all_handlers(handler)"},
    {"fetch_trace", fetch_trace, METH_VARARGS, "fetch_trace(handler) -> rows"},
    {"get_batch", ps_python_get_batch, METH_VARARGS,
     "get_batch(workers, max, partial, timeout_ms)"},
    {"reply", ps_python_reply, METH_VARARGS,
     "reply(handler, status, text, tensors, lens, body, timeout_ms)"},
    {"respond_vec", ps_python_respond_vec, METH_VARARGS,
     "respond_vec([tensor], slices, timeout_ms)"},
    {"register_recv_buffer", ps_python_register_recv_buffer, METH_VARARGS,
     "register_recv_buffer(buffer, ranks, keys)"},
    {"barrier", barrier, METH_VARARGS, "barrier(include_server, include_worker, timeout_ms)"},
    {"stop", stop, METH_VARARGS, "stop(timeout_ms)"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, (void *)open_serving},
                              {Py_tp_dealloc, (void *)deallocate},
                              {Py_tp_methods, methods},
                              {0, NULL}};

PyType_Spec ps_python_serving_spec = {.name = "pserver._pserver.Serving",
                                      .basicsize = sizeof(struct ps_python_serving),
                                      .flags = Py_TPFLAGS_DEFAULT,
                                      .slots = slots};
