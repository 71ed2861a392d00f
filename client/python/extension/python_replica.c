/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Replica`: copies of parameters that are kept up to date by what has changed. */
#include "python_client.h"

struct replica {
    PyObject_HEAD struct ps_python_client *client; /* owned reference */
    struct ps_python_batch *batch;                 /* owned: the parameters and their memory */
    struct psclient_replica *replica;              /* NULL: closed */
    bool updating;                                 /* by some thread: one at a time */
};

/* The library wants one call at a time for a replica, and leaves it to the caller to see to that.
 * The mark is read and set with Python's lock held. */
static struct replica *check(PyObject *object)
{
    struct replica *self = (struct replica *)object;
    if (!ps_python_client_check(self->client))
        return NULL;
    if (self->replica != NULL && !self->updating)
        return self;
    PyErr_SetString(PyExc_RuntimeError,
                    self->replica == NULL ? "this replica is closed" : "another thread updates it");
    return NULL;
}

/* (client, names, targets). The batch holds the arrays until the replica is closed: the library
 * writes to them in update() only, and reads them in verify(). Nothing is pulled yet. */
static PyObject *open_replica(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    struct ps_python_state *state = ps_python_state_of(type);
    struct ps_python_items items = {0};
    PyObject *owner;
    if (keywords != NULL || !PyArg_ParseTuple(arguments, "O!OO:Replica", state->client_type, &owner,
                                              &items.names, &items.targets))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "Replica: no keywords");
    struct ps_python_client *client = (struct ps_python_client *)owner;
    if (!ps_python_client_check(client))
        return NULL;
    struct ps_python_batch *batch = ps_python_batch_create(state, PS_PYTHON_PULL, &items);
    if (batch == NULL)
        return NULL;
    struct psclient_replica *handle = NULL;
    struct replica *self = NULL;
    int status = psclient_replica_open(client->client, batch->parameters, batch->count, &handle,
                                       &batch->error);
    /* One way out for both failures: a replica that was opened is closed before its batch goes. */
    if (status != PSCLIENT_OK)
        ps_python_raise(state, status, batch->error.text, NULL);
    else
        self = PyObject_New(struct replica, type);
    if (self == NULL) {
        psclient_replica_close(handle);
        ps_python_batch_destroy(batch);
        return NULL;
    }
    self->client = (struct ps_python_client *)Py_NewRef((PyObject *)client);
    self->batch = batch;
    self->replica = handle;
    self->updating = false;
    client->replicas++; /* close() of the client is refused from here on */
    return (PyObject *)self;
}

/* An update that is given up half-way, by ctrl-C or since its time is over, leaves parts of the
 * arrays for the next one. */
static PyObject *update(PyObject *object, PyObject *arguments)
{
    unsigned long long timeout_ms;
    struct replica *self = check(object);
    if (self == NULL || !PyArg_ParseTuple(arguments, "K:update", &timeout_ms))
        return NULL;
    /* The results are read with the lock held again, before another thread can begin. */
    self->updating = true;
    PyThreadState *thread = ps_python_enter(self->client);
    int status =
        psclient_pull_since(self->replica, timeout_ms, self->batch->results, &self->batch->error);
    ps_python_leave(self->client, thread);
    self->updating = false;
    return ps_python_batch_conclude(self->client->state, self->batch, status);
}

/* Reads every byte, so that the lock is released as for a call that waits. */
static PyObject *verify(PyObject *object, PyObject *none)
{
    (void)none;
    struct replica *self = check(object);
    if (self == NULL)
        return NULL;
    struct psclient_error error;
    self->updating = true;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = psclient_replica_verify(self->replica, &error);
    ps_python_leave(self->client, thread);
    self->updating = false;
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* A replica that another thread updates is refused here, too: its counters are being written. */
static PyObject *counters(PyObject *object, PyObject *none)
{
    (void)none;
    struct replica *self = check(object);
    if (self == NULL)
        return NULL;
    struct psclient_replica_counters all;
    psclient_replica_get_counters(self->replica, &all);
    return Py_BuildValue("{sKsKsKsKsK}", "received_bytes", (unsigned long long)all.received_bytes,
                         "saved_bytes", (unsigned long long)all.saved_bytes, "copies",
                         (unsigned long long)all.copies, "anchors", (unsigned long long)all.anchors,
                         "mismatches", (unsigned long long)all.mismatches);
}

/* In a forked child the memory stays: it goes with the process. */
static void shut(struct replica *self)
{
    /* In a child the count of replicas is a copy, too, and nobody looks at it. */
    if (self->replica == NULL || ps_python_client_forked(self->client))
        return;
    psclient_replica_close(self->replica);
    self->replica = NULL;
    self->client->replicas--;
}

/* May be repeated. The arrays are the caller's again, with what they hold. */
static PyObject *close_replica(PyObject *object, PyObject *none)
{
    (void)none;
    struct replica *self = (struct replica *)object;
    if (self->updating) {
        PyErr_SetString(PyExc_RuntimeError, "another thread updates this replica");
        return NULL;
    }
    shut(self);
    Py_RETURN_NONE;
}

/* No thread can be in update(): its method call would hold a reference. */
static void deallocate(PyObject *object)
{
    struct replica *self = (struct replica *)object;
    PyTypeObject *type = Py_TYPE(object);
    shut(self);
    ps_python_batch_destroy(self->batch);
    Py_DECREF(self->client);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* The words in quotes are for who reads `help(pserver._pserver)`; users read the Python half. */
static PyMethodDef methods[] = {
    {"update", update, METH_VARARGS, "update(timeout_ms) -> versions"},
    {"verify", verify, METH_NOARGS, "verify(): reads every byte"},
    {"counters", counters, METH_NOARGS, "counters() -> dict"},
    {"close", close_replica, METH_NOARGS, "close(): the arrays stay as they are"},
    {NULL, NULL, 0, NULL}};

/* Made by calling the type, as Client.replica() does; nothing else makes one. */
static PyType_Slot slots[] = {{Py_tp_new, open_replica},
                              {Py_tp_dealloc, deallocate},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "Replica(client, names, arrays)"},
                              {0, NULL}};

PyType_Spec ps_python_replica_spec = {.name = "pserver._pserver.Replica",
                                      .basicsize = sizeof(struct replica),
                                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                      .slots = slots};
