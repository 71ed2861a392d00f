/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Operation`: a batch under way as an object, made by Client.begin() only. It adds
 * nothing to the flight but a life of Python's: whoever drops it leaves the flight to the
 * client. */
#include "python_client.h"

#include <stddef.h>

/* Both fields are set from creation to the end. */
struct operation {
    PyObject_HEAD struct ps_python_client *client; /* owned reference */
    struct ps_python_flight *flight;               /* NULL: given back */
};

/* For Client.begin(). The operation keeps its client alive, and with it the library's client, which
 * the flight needs to its end. */
PyObject *ps_python_operation_create(struct ps_python_client *client,
                                     struct ps_python_flight *flight)
{
    struct operation *self = PyObject_New(struct operation, client->state->operation_type);
    if (self == NULL) {
        ps_python_flight_leave(client, flight);
        return NULL;
    }
    self->client = (struct ps_python_client *)Py_NewRef((PyObject *)client);
    self->flight = flight;
    return (PyObject *)self;
}

/* In a forked child the flight is the parent's: its memory goes with the process. */
static void deallocate(PyObject *object)
{
    struct operation *self = (struct operation *)object;
    /* Instances of a type that was made at run time hold a reference to it. */
    PyTypeObject *type = Py_TYPE(object);
    if (!ps_python_client_forked(self->client))
        ps_python_flight_leave(self->client, self->flight);
    Py_DECREF(self->client);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* One slice of waiting; the Python half has the clock. A flight that close() has ended needs no
 * client any more: its result is asked for all the same. */
static PyObject *wait_slice(PyObject *object, PyObject *arguments)
{
    struct operation *self = (struct operation *)object;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "K:wait", &timeout_ms))
        return NULL;
    if (self->flight->operation == NULL)
        Py_RETURN_TRUE;
    if (!ps_python_client_check(self->client))
        return NULL;
    int over = ps_python_flight_wait(self->client, self->flight, timeout_ms);
    return over < 0 ? NULL : PyBool_FromLong(over);
}

/* Waiting is not done here: a thread that asks too early has a mistake of its own. */
static PyObject *result(PyObject *object, PyObject *none)
{
    (void)none;
    struct operation *self = (struct operation *)object;
    if (self->flight->operation != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the operation is not over");
        return NULL;
    }
    return ps_python_flight_conclude(self->client, self->flight);
}

/* Of one that is over there is nothing to cancel, whoever ended it. */
static PyObject *cancel(PyObject *object, PyObject *none)
{
    (void)none;
    struct operation *self = (struct operation *)object;
    if (self->flight->operation != NULL) {
        if (!ps_python_client_check(self->client))
            return NULL;
        ps_python_flight_cancel(self->flight);
    }
    Py_RETURN_NONE;
}

/* The address by which Client.next() names an operation that is finished. It is unique among those
 * that are alive, and means nothing else. */
static PyObject *key(PyObject *object, PyObject *none)
{
    (void)none;
    return PyLong_FromVoidPtr(((struct operation *)object)->flight);
}

/* No method waits longer than a slice: loops and clocks are in pserver/operation.py. */
static PyMethodDef methods[] = {
    {"wait", wait_slice, METH_VARARGS, "wait(timeout_ms) -> bool: one slice; whether it is over"},
    {"result", result, METH_NOARGS, "result() -> versions, or the exception, of one that is over"},
    {"cancel", cancel, METH_NOARGS, "cancel(): it is over soon, and to be waited for as ever"},
    {"key", key, METH_NOARGS, "key() -> int, as Client.next() gives it"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_dealloc, deallocate},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "A batch under way."},
                              {0, NULL}};

/* Calling the type makes nothing: an operation without a flight has no meaning. */
PyType_Spec ps_python_operation_spec = {
    .name = "pserver._pserver.Operation",
    .basicsize = sizeof(struct operation),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots};
