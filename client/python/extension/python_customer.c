/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Customer`: requests to server programs, by keys or simple ones. The Python half gives
 * arrays that are contiguous and of one type; the library checks the rest.
 *
 * A request uses the memory of its arrays until it is over. So their buffers are held here until
 * somebody has waited for it, or a later request finds that it is over.
 *
 * ps-lite's Python users have written this layer themselves, and their arrays were collected under
 * way. Here the extension holds what the library borrows, and the Python half cannot forget it.
 *
 * Which is why a request is looked for by number and not by object: a program keeps the timestamp,
 * as it did with ps-lite, and may drop everything else. What it drops lives on in the list here, in
 * front the newest, until the request is over.
 *
 * Answers come on a thread that holds the client's lock, and must not wait for Python's: bodies are
 * copied to memory of C's own there, and become objects when they are asked for. Callbacks come on
 * the customer's own thread, which takes Python's lock for each.
 *
 * A client is not closed under its customers: each counts as something that is open, and the
 * error says so. A customer that Python's collector takes away is closed then, with what is open
 * given up, since nobody could ask for it any more.
 */
#include "python_programs.h"

#include <stdlib.h>

struct customer {
    PyObject_HEAD struct ps_python_client *client; /* owned reference */
    struct ps_customer *customer;                  /* NULL: closed */
    struct ps_python_held *held;                   /* of requests that may not be over */
};

/* ---- Life ---- */

/* (client, app, customer, worker, workers, timeout_ms), as in struct ps_customer_options. */
static PyObject *open_customer(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    struct ps_python_state *state = ps_python_state_of(type);
    struct ps_customer_options options = {0};
    struct psclient_error error;
    struct ps_customer *opened = NULL;
    unsigned long long timeout_ms;
    PyObject *owner;
    if (keywords != NULL ||
        !PyArg_ParseTuple(arguments, "O!IIIIK:Customer", state->client_type, &owner, &options.app,
                          &options.customer, &options.worker, &options.workers, &timeout_ms))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "Customer: no keywords");
    struct ps_python_client *client = (struct ps_python_client *)owner;
    if (!ps_python_client_check(client))
        return NULL;
    /* The argument's type is Python's, the struct's the library's: they are as wide, but not
     * the same. */
    options.timeout_ms = timeout_ms;
    int status = ps_customer_open(client->client, &options, &opened, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(state, status, error.text, NULL);
    struct customer *self = PyObject_New(struct customer, type);
    if (self == NULL) {
        (void)ps_customer_close(opened, NULL);
        return NULL;
    }
    /* A client is not closed while it has customers: it counts them as replicas. */
    self->client = (struct ps_python_client *)Py_NewRef(owner);
    self->client->replicas++;
    self->customer = opened;
    self->held = NULL;
    return (PyObject *)self;
}

/* Callbacks of requests that are given up run meanwhile: Python's lock is released. The buffers go
 * after that, when nothing uses them any more. */
static int shut(struct customer *self, struct psclient_error *error)
{
    struct ps_customer *customer = self->customer;
    if (customer == NULL)
        return PSCLIENT_OK;
    /* What the parent began is the parent's: its threads are not here, and its requests are on
     * its connections. */
    if (ps_python_client_forked(self->client))
        return PSCLIENT_OK;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_customer_close(customer, error);
    ps_python_leave(self->client, thread);
    if (status != PSCLIENT_OK)
        return status;
    /* Only now: a callback that ran meanwhile could still ask for its customer. */
    self->customer = NULL;
    self->client->replicas--;
    while (self->held != NULL) {
        struct ps_python_held *held = self->held;
        self->held = held->next;
        ps_python_let_go(held);
    }
    return PSCLIENT_OK;
}

/* A customer that is closed stays an object and says so, as every closed thing of Python does.
 * Closing twice is nothing. */
static PyObject *close_customer(PyObject *object, PyObject *none)
{
    (void)none;
    struct customer *self = (struct customer *)object;
    struct psclient_error error;
    int status = shut(self, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* A customer that goes is closed; a failure has nobody to be told to. */
static void deallocate(PyObject *object)
{
    struct customer *self = (struct customer *)object;
    PyTypeObject *type = Py_TYPE(object);
    (void)shut(self, NULL);
    Py_DECREF(self->client);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* NULL with an exception. */
static struct customer *check(PyObject *object)
{
    struct customer *self = (struct customer *)object;
    if (!ps_python_client_check(self->client))
        return NULL;
    /* The client is open, and this one was closed by itself. */
    if (self->customer != NULL)
        return self;
    return (struct customer *)ps_python_raise(self->client->state, PS_PYTHON_CLOSED,
                                              "this customer is closed", NULL);
}

/* ---- What is held ---- */

/* The last one that was begun is the first of the list. */
static struct ps_python_held **find(struct customer *self, int64_t timestamp)
{
    struct ps_python_held **at = &self->held;
    while (*at != NULL && (*at)->number != (uint64_t)timestamp)
        at = &(*at)->next;
    return at;
}

/* Taken off the list before anything is released, which may run Python code. */
static void release(struct customer *self, int64_t timestamp)
{
    /* A number that is not in the list was let go of before. */
    struct ps_python_held **at = find(self, timestamp);
    struct ps_python_held *held = *at;
    if (held == NULL)
        return;
    *at = held->next;
    ps_python_let_go(held);
}

/* Requests that nobody waits for must not keep their arrays for ever: the oldest is looked at with
 * each new one. */
static void sweep(struct customer *self)
{
    struct ps_python_held *oldest = self->held;
    while (oldest != NULL && oldest->next != NULL)
        oldest = oldest->next;
    /* A simple request is kept for its answers. */
    if (oldest == NULL || oldest == self->held || oldest->bodies != NULL)
        return;
    /* Only the oldest: one look for each request keeps up with them, however many there are. */
    int64_t timestamp = (int64_t)oldest->number;
    if (!ps_customer_is_open(self->customer, timestamp))
        release(self, timestamp);
}

/* On the customer's thread. An exception of the program's own is printed, as one in a thread. */
static void call_back(void *user, int64_t timestamp, int status, const char *text)
{
    struct ps_python_held *held = user;
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *function = Py_NewRef(held->callback);
    /* The library's numbers, for the program to compare with those that it keeps. */
    PyObject *result = PyObject_CallFunction(function, "Lis", (long long)timestamp, status, text);
    if (result == NULL)
        PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
    Py_DECREF(function);
    PyGILState_Release(lock);
}

/* What a begun request is from now on. */
static PyObject *keep(struct customer *self, struct ps_python_held *held, int status,
                      int64_t timestamp, const struct psclient_error *error)
{
    if (status != PSCLIENT_OK) {
        ps_python_let_go(held);
        return ps_python_raise(self->client->state, status, error->text, NULL);
    }
    /* From here on the request is found by its number, and its buffers last until it is over. */
    held->number = (uint64_t)timestamp;
    /* In front, since who waits does so soon after asking. */
    held->next = self->held;
    self->held = held;
    sweep(self);
    return PyLong_FromLongLong(timestamp);
}

/* ---- Requests ---- */

/* One of the library's three calls that use memory in place: the buffers are held, so that nothing
 * need be copied. */
static int begin(struct ps_customer *customer, const struct ps_kv_pairs *pairs, void *source,
                 void *target, const struct ps_kv_call *call, int64_t *timestamp,
                 struct psclient_error *error)
{
    struct ps_kv_pairs own = *pairs;
    own.values = source != NULL ? source : target;
    if (source == NULL)
        return ps_kv_worker_zpull(customer, &own, call, timestamp, error);
    if (target == NULL)
        return ps_kv_worker_zpush(customer, &own, call, timestamp, error);
    return ps_kv_worker_zpush_pull(customer, &own, target, call, timestamp, error);
}

/* Holds the four arrays, those that there are. Places in the held list follow the order of the
 * arguments. */
static bool hold_arrays(struct ps_python_held *held, PyObject *const arrays[4],
                        const Py_buffer *found[4])
{
    for (int i = 0; i < 4; i++) {
        found[i] = NULL;
        if (arrays[i] == Py_None)
            continue;
        if (!ps_python_hold_buffer(held, arrays[i], i == 3 ? PyBUF_WRITABLE : PyBUF_SIMPLE))
            return false;
        found[i] = &held->buffers[held->buffer_count - 1];
    }
    return true;
}

/* (keys, lens or None, source or None, target or None, type, element size, command, priority,
 * timeout_ms, callback or None) -> timestamp. */
static PyObject *ask(PyObject *object, PyObject *arguments)
{
    struct customer *self = check(object);
    struct ps_kv_call call = {0};
    struct ps_kv_pairs pairs = {0};
    struct psclient_error error;
    const Py_buffer *found[4];
    PyObject *arrays[4];
    PyObject *callback;
    unsigned element_size;
    unsigned long long timeout_ms;
    int64_t timestamp = -1;
    if (self == NULL || !PyArg_ParseTuple(arguments, "OOOOiIiiKO:ask", &arrays[0], &arrays[1],
                                          &arrays[2], &arrays[3], &pairs.type, &element_size,
                                          &call.command, &call.priority, &timeout_ms, &callback))
        return NULL;
    struct ps_python_held *held = ps_python_hold(4);
    if (held == NULL)
        return NULL;
    if (!hold_arrays(held, arrays, found) || found[0] == NULL || element_size == 0) {
        ps_python_let_go(held);
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "there are no keys");
    }
    /* 0 stands for the customer's own time. */
    call.timeout_ms = timeout_ms;
    if (callback != Py_None) {
        held->callback = Py_NewRef(callback);
        call.callback = call_back;
        call.user = held;
    }
    /* What is pushed says how many values there are; of a pull alone, the room for them does. */
    const Py_buffer *values = found[2] != NULL ? found[2] : found[3];
    pairs.keys = found[0]->buf;
    pairs.key_count = (size_t)found[0]->len / sizeof(uint64_t);
    pairs.lens = found[1] != NULL ? found[1]->buf : NULL;
    pairs.value_count = values != NULL ? (size_t)values->len / element_size : 0;
    /* Room of another size would be written behind its end. */
    /* Lengths are one for each key; the room of a push and pull is as large as what is pushed. */
    bool fits = (found[1] == NULL || (size_t)found[1]->len / 4 == pairs.key_count) &&
                (found[2] == NULL || found[3] == NULL || found[2]->len == found[3]->len);
    if (!fits) {
        ps_python_let_go(held);
        return PyErr_Format(PyExc_ValueError, "lengths or values are not as many as they must be");
    }
    PyThreadState *thread = ps_python_enter(self->client);
    int status = begin(self->customer, &pairs, found[2] != NULL ? found[2]->buf : NULL,
                       found[3] != NULL ? found[3]->buf : NULL, &call, &timestamp, &error);
    ps_python_leave(self->client, thread);
    return keep(self, held, status, timestamp, &error);
}

/* Under the client's lock, without Python's: only C's memory is touched, since the stable interface
 * has no allocator that may be called so. An answer for which there is none is missing later. */
static void note_body(void *user, int64_t timestamp, uint32_t node, const void *body, size_t size)
{
    struct ps_python_held *held = user;
    struct ps_python_body *noted = malloc(sizeof *noted + size);
    (void)timestamp;
    if (noted == NULL)
        return;
    noted->node = node;
    noted->size = size;
    for (size_t i = 0; i < size; i++)
        noted->bytes[i] = ((const unsigned char *)body)[i];
    /* In front: the list is turned around when it is read. */
    noted->next = held->bodies;
    held->bodies = noted;
}

/* (head, body, to, priority, timeout_ms) -> timestamp. */
static PyObject *request(PyObject *object, PyObject *arguments)
{
    struct customer *self = check(object);
    struct ps_kv_call call = {0};
    struct psclient_error error;
    int head;
    /* Bytes as Python has them; a text was encoded by the Python half. */
    const char *body;
    Py_ssize_t size;
    /* A node or a group; whether the job has it the library says. */
    unsigned to;
    unsigned long long timeout_ms;
    int64_t timestamp = -1;
    if (self == NULL || !PyArg_ParseTuple(arguments, "iy#IiK:request", &head, &body, &size, &to,
                                          &call.priority, &timeout_ms))
        return NULL;
    /* No buffer: the body is copied into the message before the call returns. */
    struct ps_python_held *held = ps_python_hold(0);
    if (held == NULL)
        return NULL;
    call.timeout_ms = timeout_ms;
    /* Answers find the record by this pointer, which stays where it is until the request is
     * over. */
    call.user = held;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_simple_app_request(self->customer, head, body, (size_t)size, to, note_body,
                                       &call, &timestamp, &error);
    ps_python_leave(self->client, thread);
    return keep(self, held, status, timestamp, &error);
}

/* The answers that were noted, the first first, as (node, bytes). */
static PyObject *bodies_of(const struct ps_python_held *held)
{
    PyObject *rows = PyList_New(0);
    const struct ps_python_body *body = held != NULL ? held->bodies : NULL;
    for (; rows != NULL && body != NULL; body = body->next) {
        PyObject *row = Py_BuildValue("(Iy#)", (unsigned)body->node, (const char *)body->bytes,
                                      (Py_ssize_t)body->size);
        if (row == NULL || PyList_Insert(rows, 0, row) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

/* (timestamp) -> is its memory in use? Asked before a wait, so that what the wait says of a request
 * that was over is final. */
static PyObject *is_open(PyObject *object, PyObject *number)
{
    struct customer *self = check(object);
    long long timestamp = self != NULL ? PyLong_AsLongLong(number) : -1;
    if (PyErr_Occurred() != NULL)
        return NULL;
    return PyBool_FromLong(ps_customer_is_open(self->customer, timestamp));
}

/* (timestamp, timeout_ms) -> answers of a simple request, [] of others. */
static PyObject *wait_for(PyObject *object, PyObject *arguments)
{
    struct customer *self = check(object);
    struct psclient_error error;
    long long timestamp;
    unsigned long long timeout_ms;
    if (self == NULL || !PyArg_ParseTuple(arguments, "LK:wait", &timestamp, &timeout_ms))
        return NULL;
    int was_open = ps_customer_is_open(self->customer, timestamp);
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_customer_wait(self->customer, timestamp, timeout_ms, &error);
    ps_python_leave(self->client, thread);
    /* The time of this wait may have been over, and not the request's. One that has ended since
     * keeps its answers for the next wait. */
    if (status == PSCLIENT_UNKNOWN && was_open)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    /* Answers become objects before the record goes. Of requests by key there are none, and the
     * list is empty. */
    PyObject *rows = NULL;
    if (status == PSCLIENT_OK)
        rows = bodies_of(*find(self, timestamp));
    release(self, timestamp);
    return status == PSCLIENT_OK ? rows
                                 : ps_python_raise(self->client->state, status, error.text, NULL);
}

/* (group, timeout_ms). */
static PyObject *barrier(PyObject *object, PyObject *arguments)
{
    struct customer *self = check(object);
    struct psclient_error error;
    /* A sum of ps-lite's numbers. */
    unsigned group;
    unsigned long long timeout_ms;
    if (self == NULL || !PyArg_ParseTuple(arguments, "IK:barrier", &group, &timeout_ms))
        return NULL;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_customer_barrier(self->customer, group, timeout_ms, &error);
    ps_python_leave(self->client, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* (rank, workers, servers, open requests). */
static PyObject *place(PyObject *object, PyObject *none)
{
    struct customer *self = check(object);
    (void)none;
    if (self == NULL)
        return NULL;
    return Py_BuildValue("(IIIn)", (unsigned)ps_customer_rank(self->customer),
                         (unsigned)ps_customer_worker_count(self->customer),
                         (unsigned)ps_customer_server_count(self->customer),
                         (Py_ssize_t)ps_customer_open_count(self->customer));
}

static PyMethodDef methods[] = {
    {"ask", ask, METH_VARARGS, "ask(...) -> timestamp"},
    {"request", request, METH_VARARGS, "request(head, body, to, priority, timeout_ms)"},
    {"is_open", is_open, METH_O, "is_open(timestamp) -> bool"},
    {"wait", wait_for, METH_VARARGS, "wait(timestamp, timeout_ms) -> answers"},
    {"barrier", barrier, METH_VARARGS, "barrier(group, timeout_ms)"},
    {"place", place, METH_NOARGS, "place() -> (rank, workers, servers, open)"},
    {"close", close_customer, METH_NOARGS, "close()"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, (void *)open_customer},
                              {Py_tp_dealloc, (void *)deallocate},
                              {Py_tp_methods, methods},
                              {0, NULL}};

PyType_Spec ps_python_customer_spec = {.name = "pserver._pserver.Customer",
                                       .basicsize = sizeof(struct customer),
                                       .flags = Py_TPFLAGS_DEFAULT,
                                       .slots = slots};
