/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.TableReplica`: a table that is kept up to date in this process and read without asking
 * a server. Threads read while another one updates. */
#include "python_client.h"

struct replica {
    PyObject_HEAD struct ps_python_client *client; /* owned reference */
    struct psclient_replica *replica;              /* NULL: closed */
    size_t calls;                                  /* threads inside a call of it */
    bool updating;                                 /* by one of them */
};

/* ---- Life ---- */

/* The client is looked at first: who reads the error wants to know which of the two was ended. The
 * object outlives the replica that it stood for, as every closed thing of Python does. */
static struct replica *check(PyObject *object)
{
    struct replica *self = (struct replica *)object;
    if (!ps_python_client_check(self->client))
        return NULL;
    if (self->replica != NULL)
        return self;
    PyErr_SetString(PyExc_RuntimeError, "this replica is closed");
    return NULL;
}

/* Around a call of the library that may wait, for the network or for a thread that updates. The
 * count is changed with Python's lock held, as everything of the object is. */
static PyThreadState *enter(struct replica *self)
{
    self->calls++;
    return ps_python_enter(self->client);
}

/* In the opposite order: with the lock held again. */
static void leave(struct replica *self, PyThreadState *thread)
{
    ps_python_leave(self->client, thread);
    self->calls--;
}

/* (client, name, timeout_ms). The servers are asked what the table is; no row comes yet. */
static PyObject *open_replica(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    struct ps_python_state *state = ps_python_state_of(type);
    struct psclient_replica *handle = NULL;
    struct psclient_error error;
    PyObject *owner;
    const char *name;
    unsigned long long timeout_ms;
    if (keywords != NULL || !PyArg_ParseTuple(arguments, "O!sK:TableReplica", state->client_type,
                                              &owner, &name, &timeout_ms))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "TableReplica: no keywords");
    struct ps_python_client *client = (struct ps_python_client *)owner;
    if (!ps_python_client_check(client))
        return NULL;
    PyThreadState *thread = ps_python_enter(client);
    int status = psclient_replica_open_table(client->client, name, timeout_ms, &handle, &error);
    ps_python_leave(client, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(state, status, error.text, NULL);
    /* Opened first: an object that stands for nothing has no way to say so to who made it. */
    struct replica *self = PyObject_New(struct replica, type);
    if (self == NULL) {
        psclient_replica_close(handle);
        return NULL;
    }
    self->client = (struct ps_python_client *)Py_NewRef((PyObject *)client);
    self->replica = handle;
    self->calls = 0;
    self->updating = false;
    client->replicas++; /* close() of the client is refused from here on */
    return (PyObject *)self;
}

/* In a forked child the memory stays: it goes with the process, and the count of replicas is a copy
 * at which nobody looks. */
static void shut(struct replica *self)
{
    if (self->replica == NULL || ps_python_client_forked(self->client))
        return;
    psclient_replica_close(self->replica);
    self->replica = NULL;
    self->client->replicas--;
}

/* May be repeated. Refused while a thread is inside: it would come back to freed memory. */
static PyObject *close_replica(PyObject *object, PyObject *none)
{
    (void)none;
    struct replica *self = (struct replica *)object;
    /* In a child of a fork the threads of the parent are not there, whatever is counted. */
    if (self->calls > 0 && !ps_python_client_forked(self->client)) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is in a call of this replica");
        return NULL;
    }
    shut(self);
    Py_RETURN_NONE;
}

/* No thread is inside: the method's call would hold a reference. */
static void deallocate(PyObject *object)
{
    struct replica *self = (struct replica *)object;
    PyTypeObject *type = Py_TYPE(object);
    shut(self);
    Py_DECREF(self->client);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- Rows ----
 *
 * The Python half gives keys as uint64 and rows of the table's type, contiguous. */

/* One thread at a time, as the library wants it. */
static PyObject *update(PyObject *object, PyObject *arguments)
{
    unsigned long long timeout_ms;
    struct psclient_result result;
    struct psclient_error error;
    struct replica *self = check(object);
    if (self == NULL || !PyArg_ParseTuple(arguments, "K:update", &timeout_ms))
        return NULL;
    if (self->updating) {
        PyErr_SetString(PyExc_RuntimeError, "another thread updates this replica");
        return NULL;
    }
    /* Set before the lock is released: the next thread finds it. */
    self->updating = true;
    PyThreadState *thread = enter(self);
    int status = psclient_pull_since(self->replica, timeout_ms, &result, &error);
    leave(self, thread);
    self->updating = false;
    /* What came before it failed stays: each row of it is whole. */
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    return PyLong_FromUnsignedLongLong(result.version);
}

/* With both memories held. Sizes are looked at here, since the library goes by the number of
 * keys. */
static PyObject *read_rows(struct replica *self, const Py_buffer *keys, const Py_buffer *rows)
{
    struct psclient_error error;
    /* Division first: a product of both could be more than a size holds. */
    size_t count = (size_t)keys->len / sizeof(uint64_t);
    size_t row_bytes = psclient_replica_row_bytes(self->replica);
    if ((size_t)keys->len % sizeof(uint64_t) != 0 || (size_t)rows->len % row_bytes != 0 ||
        (size_t)rows->len / row_bytes != count)
        return PyErr_Format(PyExc_ValueError, "%zd bytes of rows for %zu keys of %zu bytes each",
                            rows->len, count, row_bytes);
    PyThreadState *thread = enter(self);
    int status = psclient_replica_get(self->replica, keys->buf, count, rows->buf, &error);
    leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* (keys, rows to fill). Both memories are held, so that other threads of Python cannot free them
 * while the library reads and writes there without Python's lock. After a failure the rows hold
 * anything. */
static PyObject *get(PyObject *object, PyObject *arguments)
{
    PyObject *pair[2];
    Py_buffer keys, rows;
    PyObject *done = NULL;
    struct replica *self = check(object);
    if (self == NULL || !PyArg_ParseTuple(arguments, "OO:get", &pair[0], &pair[1]))
        return NULL;
    /* A buffer of a class of Python's may run anything, close() included. */
    self->calls++;
    if (PyObject_GetBuffer(pair[0], &keys, PyBUF_SIMPLE) == 0) {
        /* Let go in the opposite order, on every way out. */
        if (PyObject_GetBuffer(pair[1], &rows, PyBUF_WRITABLE) == 0) {
            done = read_rows(self, &keys, &rows);
            PyBuffer_Release(&rows);
        }
        PyBuffer_Release(&keys);
    }
    self->calls--;
    return done;
}

/* Waits for a piece that an update puts in its place, at most. */
static PyObject *count(PyObject *object, PyObject *none)
{
    (void)none;
    struct replica *self = check(object);
    if (self == NULL)
        return NULL;
    /* Without Python's lock, since the thread that updates may want it meanwhile. */
    PyThreadState *thread = enter(self);
    uint64_t rows = psclient_replica_rows(self->replica);
    leave(self, thread);
    return PyLong_FromUnsignedLongLong(rows);
}

/* (memory of keys to fill). How many there are, which may be more: the Python half then comes again
 * with more room. Whoever made the memory knows how much it is, so that no number of keys has to be
 * told beside it; bytes at its end that are no whole key stay as they are. */
static PyObject *fill_keys(PyObject *object, PyObject *arguments)
{
    PyObject *memory;
    Py_buffer keys;
    struct psclient_error error;
    uint64_t rows = 0;
    struct replica *self = check(object);
    if (self == NULL || !PyArg_ParseTuple(arguments, "O:keys", &memory))
        return NULL;
    /* As of get: a buffer of a class of Python's may run anything, close() included. */
    self->calls++;
    bool is_held = PyObject_GetBuffer(memory, &keys, PyBUF_WRITABLE) == 0;
    /* From here on the memory stays where it is until it is let go. */
    self->calls--;
    if (!is_held)
        return NULL;
    PyThreadState *thread = enter(self);
    int status = psclient_replica_keys(self->replica, keys.buf, (size_t)keys.len / sizeof(uint64_t),
                                       &rows, &error);
    leave(self, thread);
    PyBuffer_Release(&keys);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    return PyLong_FromUnsignedLongLong(rows);
}

/* A replica that another thread updates is refused: its counters are being written. */
static PyObject *counters(PyObject *object, PyObject *none)
{
    (void)none;
    struct psclient_replica_counters all;
    struct replica *self = check(object);
    if (self == NULL)
        return NULL;
    if (self->updating) {
        PyErr_SetString(PyExc_RuntimeError, "another thread updates this replica");
        return NULL;
    }
    /* The names are those of the Python half's ReplicaCounters. */
    psclient_replica_get_counters(self->replica, &all);
    return Py_BuildValue("{sKsKsKsKsK}", "received_bytes", (unsigned long long)all.received_bytes,
                         "saved_bytes", (unsigned long long)all.saved_bytes, "copies",
                         (unsigned long long)all.copies, "anchors", (unsigned long long)all.anchors,
                         "mismatches", (unsigned long long)all.mismatches);
}

/* The words in quotes are for who reads `help(pserver._pserver)`; users read the Python half. */
static PyMethodDef methods[] = {{"update", update, METH_VARARGS, "update(timeout_ms) -> version"},
                                {"get", get, METH_VARARGS, "get(keys, rows to fill)"},
                                {"count", count, METH_NOARGS, "count() -> rows"},
                                {"keys", fill_keys, METH_VARARGS, "keys(keys to fill) -> rows"},
                                {"counters", counters, METH_NOARGS, "counters() -> dict"},
                                {"close", close_replica, METH_NOARGS, "close()"},
                                {NULL, NULL, 0, NULL}};

/* Made by calling the type, as Table.replica() does; nothing else makes one. */
static PyType_Slot slots[] = {{Py_tp_new, open_replica},
                              {Py_tp_dealloc, deallocate},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "TableReplica(client, name, timeout_ms)"},
                              {0, NULL}};

PyType_Spec ps_python_table_replica_spec = {.name = "pserver._pserver.TableReplica",
                                            .basicsize = sizeof(struct replica),
                                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                            .slots = slots};
