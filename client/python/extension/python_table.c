/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Table`: rows by key. The Python half makes arrays of whatever it is given; here their
 * sizes are checked before the library reads and writes their memory.
 *
 * The calls are plain ones of the library: they return when every server has answered, when their
 * time is over, or when ctrl-C is pressed (python_interrupt.c). A table that is closed stays an
 * object, as every closed thing of Python does, and says so. */
#include "python_table.h"

/* Keys, and the memory of as many rows: what one half of a call takes. Gradients are read from that
 * memory, and rows that are asked for are written to it. */
struct rows {
    Py_buffer keys, rows;
    size_t count;
    bool held;
};

/* ---- Life ---- */

/* A table is in its client's list, so that the client can close it first. */
static void link_table(struct ps_python_client *client, struct ps_python_table *table)
{
    table->next = client->tables;
    table->previous = NULL;
    if (client->tables != NULL)
        client->tables->previous = table;
    client->tables = table;
}

/* Both neighbours are asked, since users close tables in any order. */
static void unlink_table(struct ps_python_client *client, struct ps_python_table *table)
{
    if (table->previous != NULL)
        table->previous->next = table->next;
    else
        client->tables = table->next;
    if (table->next != NULL)
        table->next->previous = table->previous;
}

/* In a forked child the memory stays: it goes with the process. */
static void shut(struct ps_python_table *self)
{
    if (self->table == NULL || ps_python_client_forked(self->client))
        return;
    /* Reads that were begun point to the library's table. */
    ps_python_aheads_end(self);
    /* Nothing is sent: the rows are the servers', and this is only the way to them. */
    psclient_table_close(self->table);
    self->table = NULL;
    unlink_table(self->client, self);
}

/* The objects stay, and say of each call that they are closed. No call of them is under way: a
 * client that has a thread inside is not closed. */
void ps_python_tables_end(struct ps_python_client *client)
{
    /* From the front until there is none: closing one takes it off the list. */
    while (client->tables != NULL)
        shut(client->tables);
}

/* Defines the table where there is a configuration, and opens it. The configuration has the table's
 * settings in its own field, so that the library is told no width. */
static int open_handle(struct ps_python_client *client, const char *name, int type,
                       const char *config, Py_ssize_t size, unsigned long long timeout_ms,
                       struct psclient_table **handle, struct psclient_error *error)
{
    /* All of the struct's other fields are 0: they are not looked at beside a configuration. */
    const struct psclient_table_options options = {
        .name = name, .type = type, .config = config, .config_size = (size_t)size};
    PyThreadState *thread = ps_python_enter(client);
    int status = config != NULL
                     ? psclient_table_define(client->client, &options, timeout_ms, handle, error)
                     : psclient_table_open(client->client, name, timeout_ms, handle, error);
    ps_python_leave(client, thread);
    return status;
}

/* (client, name, type, configuration or None, timeout_ms). The arguments are borrowed: the library
 * copies what it keeps of them. A failure after the library's table is open closes that again. */
static PyObject *open_table(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    struct ps_python_state *state = ps_python_state_of(type);
    PyObject *owner;
    const char *name;
    int element;
    const char *config;
    Py_ssize_t size;
    unsigned long long timeout_ms;
    if (keywords != NULL || !PyArg_ParseTuple(arguments, "O!siz#K:Table", state->client_type,
                                              &owner, &name, &element, &config, &size, &timeout_ms))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "Table: no keywords");
    struct ps_python_client *client = (struct ps_python_client *)owner;
    if (!ps_python_client_check(client))
        return NULL;
    /* Every server is asked: the table is at all of them, and of one kind. */
    struct psclient_table *handle = NULL;
    struct psclient_error error;
    int status = open_handle(client, name, element, config, size, timeout_ms, &handle, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(state, status, error.text, NULL);
    struct ps_python_table *self = PyObject_New(struct ps_python_table, type);
    if (self == NULL) {
        psclient_table_close(handle);
        return NULL;
    }
    /* The table keeps its client alive, and with it the connections that it calls through. */
    self->client = (struct ps_python_client *)Py_NewRef((PyObject *)client);
    self->table = handle;
    self->calls = 0;
    self->aheads = NULL;
    link_table(client, self);
    return (PyObject *)self;
}

/* Refused while a thread is inside the library with it: that would come back to freed memory. */
static PyObject *close_table(PyObject *object, PyObject *none)
{
    (void)none;
    struct ps_python_table *self = (struct ps_python_table *)object;
    /* In a child of a fork the threads of the parent are not there, whatever is counted. */
    if (self->calls > 0 && !ps_python_client_forked(self->client)) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is in a call of this table");
        return NULL;
    }
    shut(self);
    Py_RETURN_NONE;
}

/* No thread is inside the library with it: the method's call would hold a reference. */
static void deallocate(PyObject *object)
{
    struct ps_python_table *self = (struct ps_python_table *)object;
    PyTypeObject *type = Py_TYPE(object);
    shut(self);
    Py_DECREF(self->client);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- Rows ---- */

/* The client is looked at first: a table of a closed client was closed with it, and whoever reads
 * the error wants to know which of the two was ended. */
struct ps_python_table *ps_python_table_check(PyObject *object)
{
    struct ps_python_table *self = (struct ps_python_table *)object;
    if (!ps_python_client_check(self->client))
        return NULL;
    /* The object outlives the table that it stood for: users may hold it as long as they like. */
    if (self->table != NULL)
        return self;
    return (struct ps_python_table *)ps_python_raise(self->client->state, PS_PYTHON_CLOSED,
                                                     "this table is closed", NULL);
}

/* The Python half gives uint64 and the table's type, contiguous; sizes are looked at all the same,
 * since the library goes by the number of keys. */
static bool hold(const struct ps_python_table *self, PyObject *keys, PyObject *rows, int flags,
                 struct rows *held)
{
    if (PyObject_GetBuffer(keys, &held->keys, PyBUF_SIMPLE) != 0)
        return false;
    if (PyObject_GetBuffer(rows, &held->rows, flags) != 0) {
        PyBuffer_Release(&held->keys);
        return false;
    }
    /* From here on let_go() releases both, also when their sizes do not fit. */
    held->held = true;
    held->count = (size_t)held->keys.len / sizeof(uint64_t);
    /* Division first: a product of both could be more than a size holds. */
    const size_t row_bytes = psclient_table_row_bytes(self->table);
    if ((size_t)held->keys.len % sizeof(uint64_t) == 0 &&
        (size_t)held->rows.len / row_bytes == held->count &&
        (size_t)held->rows.len % row_bytes == 0)
        return true;
    PyErr_Format(PyExc_ValueError, "%zd bytes of rows for %zu keys of %zu bytes each",
                 held->rows.len, held->count, row_bytes);
    return false;
}

/* In the order opposite to hold(). Nothing was held where hold() was not called, or failed. */
static void let_go(struct rows *held)
{
    if (!held->held)
        return;
    PyBuffer_Release(&held->rows);
    PyBuffer_Release(&held->keys);
}

/* One call of the library, of one or both halves. */
static int call(struct ps_python_table *self, const struct rows *add, const struct rows *get,
                unsigned long long timeout_ms, struct psclient_error *error)
{
    int status;
    PyThreadState *thread = ps_python_enter(self->client);
    /* A half that was not held has no rows, and the call for both is one message. */
    if (!get->held)
        status = psclient_table_add(self->table, add->keys.buf, add->count, add->rows.buf,
                                    timeout_ms, error);
    else if (!add->held)
        status = psclient_table_get(self->table, get->keys.buf, get->count, get->rows.buf,
                                    timeout_ms, error);
    else
        status =
            psclient_table_add_get(self->table, add->keys.buf, add->count, add->rows.buf,
                                   get->keys.buf, get->count, get->rows.buf, timeout_ms, error);
    ps_python_leave(self->client, thread);
    return status;
}

/* Each pair of objects may be NULL: the call has no such half. Whatever fails, both are released on
 * one way out. */
static PyObject *exchange(struct ps_python_table *self, PyObject *const add_pair[2],
                          PyObject *const get_pair[2], unsigned long long timeout_ms)
{
    struct rows add = {.held = false};
    struct rows get = {.held = false};
    PyObject *done = NULL;
    /* From here on, since a buffer of a class of Python's may run anything, close() included. */
    self->calls++;
    if ((add_pair == NULL || hold(self, add_pair[0], add_pair[1], PyBUF_SIMPLE, &add)) &&
        (get_pair == NULL || hold(self, get_pair[0], get_pair[1], PyBUF_WRITABLE, &get))) {
        /* Both memories are held, so that other threads of Python cannot free them meanwhile. */
        struct psclient_error error;
        int status = call(self, &add, &get, timeout_ms, &error);
        done = status == PSCLIENT_OK
                   ? Py_NewRef(Py_None)
                   : ps_python_raise(self->client->state, status, error.text, NULL);
    }
    let_go(&add);
    let_go(&get);
    self->calls--;
    return done;
}

/* (keys, rows to fill, timeout_ms). After a failure the rows hold anything. */
static PyObject *get(PyObject *object, PyObject *arguments)
{
    PyObject *pair[2];
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "OOK:get", &pair[0], &pair[1], &timeout_ms))
        return NULL;
    struct ps_python_table *self = ps_python_table_check(object);
    return self != NULL ? exchange(self, NULL, pair, timeout_ms) : NULL;
}

/* (keys, gradients, timeout_ms). No version comes back: each server has one of its own. */
static PyObject *add(PyObject *object, PyObject *arguments)
{
    PyObject *pair[2];
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "OOK:add", &pair[0], &pair[1], &timeout_ms))
        return NULL;
    struct ps_python_table *self = ps_python_table_check(object);
    return self != NULL ? exchange(self, pair, NULL, timeout_ms) : NULL;
}

/* (keys, gradients, keys, rows to fill, timeout_ms). The memory of both is apart: the Python half
 * has seen to that. */
static PyObject *add_get(PyObject *object, PyObject *arguments)
{
    PyObject *from[2];
    PyObject *to[2];
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "OOOOK:add_get", &from[0], &from[1], &to[0], &to[1],
                          &timeout_ms))
        return NULL;
    struct ps_python_table *self = ps_python_table_check(object);
    return self != NULL ? exchange(self, from, to, timeout_ms) : NULL;
}

/* One step of the library, the memory of both halves held. What the servers said of it goes back to
 * Python as numbers: how many came too late is no failure, and users look at it or do not. */
static PyObject *run_step(struct ps_python_table *self, const struct rows *add,
                          const struct rows *get, unsigned worker, float weight,
                          unsigned long long timeout_ms)
{
    const struct psclient_table_step wanted = {.keys = add->keys.buf,
                                               .count = add->count,
                                               .gradients = add->rows.buf,
                                               .get_keys = get->keys.buf,
                                               .get_count = get->count,
                                               .rows = get->rows.buf,
                                               .worker = worker,
                                               .weight = weight};
    struct psclient_table_stepped done;
    struct psclient_error error;
    /* Without Python's lock: it may wait for other workers, which may be threads of this
     * process. */
    PyThreadState *thread = ps_python_enter(self->client);
    int status = psclient_table_step(self->table, &wanted, timeout_ms, &done, &error);
    ps_python_leave(self->client, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    return Py_BuildValue("(KII)", (unsigned long long)done.version, (unsigned)done.late,
                         (unsigned)done.duplicate);
}

/* (keys, gradients, keys, rows to fill, 1 + worker, weight, timeout_ms) -> (version, servers at
 * which it came late, and at which it had been made before). Either half may be of no keys. */
static PyObject *step(PyObject *object, PyObject *arguments)
{
    PyObject *from[2];
    PyObject *to[2];
    unsigned worker;
    float weight;
    unsigned long long timeout_ms;
    struct rows add = {.held = false};
    struct rows get = {.held = false};
    PyObject *done = NULL;
    if (!PyArg_ParseTuple(arguments, "OOOOIfK:step", &from[0], &from[1], &to[0], &to[1], &worker,
                          &weight, &timeout_ms))
        return NULL;
    struct ps_python_table *self = ps_python_table_check(object);
    if (self == NULL)
        return NULL;
    /* As exchange() does, and for the same reasons: a buffer may run anything, and both memories
     * have to stay where they are while the other workers are waited for. */
    self->calls++;
    if (hold(self, from[0], from[1], PyBUF_SIMPLE, &add) &&
        hold(self, to[0], to[1], PyBUF_WRITABLE, &get))
        done = run_step(self, &add, &get, worker, weight, timeout_ms);
    let_go(&add);
    let_go(&get);
    self->calls--;
    return done;
}

/* (name of the clocks or None, 1 + worker, clock). Holds for every thread that reads. */
static PyObject *at(PyObject *object, PyObject *arguments)
{
    const char *clocks;
    unsigned worker;
    unsigned long long clock;
    if (!PyArg_ParseTuple(arguments, "zIK:at", &clocks, &worker, &clock))
        return NULL;
    struct ps_python_table *self = ps_python_table_check(object);
    if (self == NULL)
        return NULL;
    /* Only remembered, for the reads that follow: nothing waits here. */
    struct psclient_error error;
    int status = psclient_table_at(self->table, clocks, worker, clock, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* (rows_max, staleness). What is kept is thrown away and counted anew, so that no other call may go
 * on. */
static PyObject *cache(PyObject *object, PyObject *arguments)
{
    unsigned long long rows_max;
    unsigned long long staleness;
    if (!PyArg_ParseTuple(arguments, "KK:cache", &rows_max, &staleness))
        return NULL;
    struct ps_python_table *self = ps_python_table_check(object);
    if (self == NULL)
        return NULL;
    /* The library leaves it to its caller to see to that. */
    if (self->calls > 0) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is in a call of this table");
        return NULL;
    }
    struct psclient_error error;
    int status = psclient_table_cache(self->table, rows_max, staleness, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* Numbers of the moment, for who wonders whether a cache is worth its memory.
 * () -> (rows that are kept, reads of a row that asked no server, those that did). */
static PyObject *cached(PyObject *object, PyObject *none)
{
    (void)none;
    struct ps_python_table *self = ps_python_table_check(object);
    if (self == NULL)
        return NULL;
    struct psclient_table_cached now;
    psclient_table_get_cached(self->table, &now);
    return Py_BuildValue("(KKK)", (unsigned long long)now.rows, (unsigned long long)now.found,
                         (unsigned long long)now.missed);
}

/* () -> (width, type): what the servers have, whoever defined it. The Python half asks once, since
 * neither changes while the table is there. */
static PyObject *layout(PyObject *object, PyObject *none)
{
    (void)none;
    struct ps_python_table *self = ps_python_table_check(object);
    if (self == NULL)
        return NULL;
    return Py_BuildValue("(Ii)", (unsigned)psclient_table_width(self->table),
                         psclient_table_type(self->table));
}

/* The words in quotes are for who reads `help(pserver._pserver)`; users read the Python half. */
static PyMethodDef methods[] = {
    {"get", get, METH_VARARGS, "get(keys, rows, timeout_ms): fills the rows"},
    {"add", add, METH_VARARGS, "add(keys, gradients, timeout_ms)"},
    {"add_get", add_get, METH_VARARGS, "add_get(keys, gradients, keys, rows, timeout_ms)"},
    {"step", step, METH_VARARGS,
     "step(keys, gradients, keys, rows, worker, weight, timeout_ms) -> (version, late, before)"},
    {"at", at, METH_VARARGS, "at(clocks, worker, clock): what reads wait for"},
    {"ahead", ps_python_table_ahead, METH_VARARGS, "ahead(keys, clock, rows, timeout_ms) -> Ahead"},
    {"cache", cache, METH_VARARGS, "cache(rows_max, staleness): rows that are kept here"},
    {"cached", cached, METH_NOARGS, "cached() -> (rows, found, missed)"},
    {"layout", layout, METH_NOARGS, "layout() -> (width, type)"},
    {"close", close_table, METH_NOARGS, "close(): the rows stay where they are"},
    {NULL, NULL, 0, NULL}};

/* Made by calling the type, as Client.table() does; nothing else makes one. */
static PyType_Slot slots[] = {{Py_tp_new, open_table},
                              {Py_tp_dealloc, deallocate},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "Table(client, name, type, configuration, timeout_ms)"},
                              {0, NULL}};

PyType_Spec ps_python_table_spec = {.name = "pserver._pserver.Table",
                                    .basicsize = sizeof(struct ps_python_table),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                    .slots = slots};
