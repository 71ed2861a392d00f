/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Ahead`: a read of rows that was begun, for clocks by which servers want to know early
 * which rows a worker is going to update.
 *
 *     begun ──wait──► ended
 *       └──cancel, close of the table or of the client, end of the object──► cancelled
 *
 * A read that is under way stands in its table's list, since the library's table must outlive it;
 * the object itself may outlive both, and then says that the table is closed. */
#include "python_table.h"

#include <stddef.h>

struct ps_python_ahead {
    PyObject_HEAD struct ps_python_table *table; /* owned reference */
    struct psclient_rows_ahead *read;            /* NULL: ended */
    Py_buffer rows;                              /* held to the end of the read */
    struct ps_python_ahead *next, *previous;     /* in the table's list while it is under way */
};

/* The read that is ended is nobody's from here on: the table forgets it before the library is
 * asked, which may wait. */
static struct psclient_rows_ahead *take_read(struct ps_python_ahead *self)
{
    struct psclient_rows_ahead *read = self->read;
    if (read == NULL)
        return NULL;
    self->read = NULL;
    /* Both neighbours are asked, since reads end in any order. */
    if (self->previous != NULL)
        self->previous->next = self->next;
    else
        self->table->aheads = self->next;
    if (self->next != NULL)
        self->next->previous = self->previous;
    return read;
}

/* In a forked child the read is the parent's: its memory goes with the process. */
static void cancel_read(struct ps_python_ahead *self)
{
    struct ps_python_client *client = self->table->client;
    /* Looked at first: the list that take_read changes is the parent's, too. */
    if (ps_python_client_forked(client))
        return;
    struct psclient_rows_ahead *read = take_read(self);
    if (read == NULL)
        return;
    /* The library may have to take an answer in first. */
    self->table->calls++;
    PyThreadState *thread = ps_python_enter(client);
    psclient_rows_ahead_cancel(read);
    ps_python_leave(client, thread);
    self->table->calls--;
    PyBuffer_Release(&self->rows);
}

/* From the front until there is none: ending one takes it off the list. */
void ps_python_aheads_end(struct ps_python_table *table)
{
    while (table->aheads != NULL)
        cancel_read(table->aheads);
}

/* Only the length is looked at: the Python half gives uint64 and the table's type. */
static bool hold(const struct ps_python_table *table, PyObject *keys, PyObject *rows,
                 Py_buffer *held_keys, Py_buffer *held_rows)
{
    if (PyObject_GetBuffer(keys, held_keys, PyBUF_SIMPLE) != 0)
        return false;
    if (PyObject_GetBuffer(rows, held_rows, PyBUF_WRITABLE) != 0) {
        PyBuffer_Release(held_keys);
        return false;
    }
    /* As many rows as there are keys: the library goes by the number of keys alone. */
    size_t count = (size_t)held_keys->len / sizeof(uint64_t);
    if ((size_t)held_rows->len == count * psclient_table_row_bytes(table->table))
        return true;
    PyBuffer_Release(held_rows);
    PyBuffer_Release(held_keys);
    PyErr_SetString(PyExc_ValueError, "keys and rows of different numbers");
    return false;
}

/* Takes the read, in any case. NULL with an exception; the rows are then the caller's again. */
static PyObject *create(struct ps_python_table *table, struct psclient_rows_ahead *read,
                        const Py_buffer *rows)
{
    struct ps_python_ahead *self =
        PyObject_New(struct ps_python_ahead, table->client->state->ahead_type);
    if (self == NULL) {
        psclient_rows_ahead_cancel(read);
        return NULL;
    }
    /* The table stays for as long as somebody may wait for this read. */
    self->table = (struct ps_python_table *)Py_NewRef((PyObject *)table);
    self->read = read;
    /* The buffer moves in here: nothing points to where it was. */
    self->rows = *rows;
    self->previous = NULL;
    self->next = table->aheads;
    if (self->next != NULL)
        self->next->previous = self;
    table->aheads = self;
    return (PyObject *)self;
}

/* Never waits for an answer. The library copies the keys; the rows are held until the end. */
PyObject *ps_python_table_ahead(PyObject *object, PyObject *arguments)
{
    PyObject *keys;
    PyObject *rows;
    unsigned long long clock;
    unsigned long long timeout_ms;
    Py_buffer held_keys;
    Py_buffer held_rows;
    if (!PyArg_ParseTuple(arguments, "OKOK:ahead", &keys, &clock, &rows, &timeout_ms))
        return NULL;
    struct ps_python_table *table = ps_python_table_check(object);
    /* From here on there are two buffers to give back, whatever fails. */
    if (table == NULL || !hold(table, keys, rows, &held_keys, &held_rows))
        return NULL;
    /* Counted as a call: the table may not be closed between here and the list. */
    struct psclient_rows_ahead *read = NULL;
    struct psclient_error error;
    table->calls++;
    PyThreadState *thread = ps_python_enter(table->client);
    int status = psclient_rows_ahead_begin(table->table, clock, held_keys.buf,
                                           (size_t)held_keys.len / sizeof(uint64_t), held_rows.buf,
                                           timeout_ms, &read, &error);
    ps_python_leave(table->client, thread);
    table->calls--;
    PyBuffer_Release(&held_keys);
    PyObject *ahead = status == PSCLIENT_OK
                          ? create(table, read, &held_rows)
                          : ps_python_raise(table->client->state, status, error.text, NULL);
    /* What failed has no use for the rows. */
    if (ahead == NULL)
        PyBuffer_Release(&held_rows);
    return ahead;
}

/* Waits for the rows; once. A wait that ctrl-C ends gives the read up. */
static PyObject *wait_for_rows(PyObject *object, PyObject *none)
{
    (void)none;
    struct ps_python_ahead *self = (struct ps_python_ahead *)object;
    if (ps_python_table_check((PyObject *)self->table) == NULL)
        return NULL;
    /* Another thread that waits for it has taken it off the list before. */
    struct psclient_rows_ahead *read = take_read(self);
    if (read == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this read has ended");
        return NULL;
    }
    struct psclient_error error;
    self->table->calls++;
    PyThreadState *thread = ps_python_enter(self->table->client);
    int status = psclient_rows_ahead_end(read, &error);
    ps_python_leave(self->table->client, thread);
    self->table->calls--;
    /* The library has no pointer to the rows any more, whatever came of it. */
    PyBuffer_Release(&self->rows);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->table->client->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* Of one that has ended there is nothing to cancel, whoever has ended it: the object may be asked
 * as often as one likes. */
static PyObject *cancel(PyObject *object, PyObject *none)
{
    (void)none;
    cancel_read((struct ps_python_ahead *)object);
    Py_RETURN_NONE;
}

/* What nobody waited for is cancelled: the rows go with the object that held them. */
static void deallocate(PyObject *object)
{
    struct ps_python_ahead *self = (struct ps_python_ahead *)object;
    PyTypeObject *type = Py_TYPE(object);
    cancel_read(self);
    Py_DECREF(self->table);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* The words in quotes are for who reads `help(pserver._pserver)`; users read the Python half. */
static PyMethodDef methods[] = {{"wait", wait_for_rows, METH_NOARGS, "wait(): the rows are there"},
                                {"cancel", cancel, METH_NOARGS, "cancel(): without its rows"},
                                {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_dealloc, deallocate},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "A read of rows under way."},
                              {0, NULL}};

/* Calling the type makes nothing: Table.ahead() does. */
PyType_Spec ps_python_ahead_spec = {
    .name = "pserver._pserver.Ahead",
    .basicsize = sizeof(struct ps_python_ahead),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots};
