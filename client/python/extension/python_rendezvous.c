/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Rendezvous` and `_pserver.Value`: values from process to process, by step and key.
 *
 * What was received is memory of the library's, which a Value lends to arrays and gives back with
 * the last of them: nothing is copied here. What is sent is read where it lies, and held for as
 * long as the call lasts, whatever other threads do with their references.
 *
 * What a number of a type means is the Python half's to say: servers pass it on. */
#include "python_client.h"

#include <limits.h>

struct rendezvous {
    PyObject_HEAD struct ps_python_client *client; /* owned reference */
    struct psclient_rendezvous *step;              /* NULL: closed */
    size_t busy;                                   /* threads inside the library with it */
};

struct value {
    PyObject_HEAD struct psclient_tensor tensor; /* released with the object */
};

/* False with an exception. Asked before every call: the step may be closed, its client, too, or
 * this be a child of the process that opened it. */
static bool check(const struct rendezvous *self)
{
    if (!ps_python_client_check(self->client))
        return false;
    if (self->step != NULL)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "this step is closed");
    return false;
}

/* Counted on both: the client must not close while a thread is in the library, and the step not
 * while one of its calls is. */
static PyThreadState *enter(struct rendezvous *self)
{
    self->busy++;
    return ps_python_enter(self->client);
}

static void leave(struct rendezvous *self, PyThreadState *thread)
{
    ps_python_leave(self->client, thread);
    self->busy--;
}

/* What a call without an answer returns. */
static PyObject *conclude(struct rendezvous *self, int status, const struct psclient_error *error)
{
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error->text, NULL);
    Py_RETURN_NONE;
}

/* (client, step, session or None, strict, lifetime_ms, deferred, timeout_ms). The step of the
 * library goes again when there is no memory for the object, so that the servers' is not left with
 * a handle that nobody has. The client is kept by the object, and told of it as of a replica. */
static PyObject *open_step(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    struct ps_python_state *state = ps_python_state_of(type);
    struct psclient_rendezvous_options options = {0};
    struct psclient_rendezvous *step = NULL;
    struct psclient_error error;
    unsigned long long number;
    unsigned long long lifetime_ms;
    unsigned long long timeout_ms;
    PyObject *owner;
    if (keywords != NULL || !PyArg_ParseTuple(arguments, "O!KzpKpK:Rendezvous", state->client_type,
                                              &owner, &number, &options.session, &options.strict,
                                              &lifetime_ms, &options.deferred, &timeout_ms))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "Rendezvous: no keywords");
    struct ps_python_client *client = (struct ps_python_client *)owner;
    if (!ps_python_client_check(client))
        return NULL;
    /* Every server is asked, so that other threads go on meanwhile. */
    options.lifetime_ms = lifetime_ms;
    PyThreadState *thread = ps_python_enter(client);
    /* Another session, or another mode, is refused there. */
    int status =
        psclient_rendezvous_open(client->client, number, &options, timeout_ms, &step, &error);
    ps_python_leave(client, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(state, status, error.text, NULL);
    /* The step was begun, and has a handle that nobody else knows of. */
    struct rendezvous *self = PyObject_New(struct rendezvous, type);
    if (self == NULL) {
        psclient_rendezvous_close(step);
        return NULL;
    }
    /* All fields: the memory is not zeroed. */
    self->client = (struct ps_python_client *)Py_NewRef(owner);
    self->step = step;
    self->busy = 0;
    client->replicas++; /* close() of the client is refused from here on */
    return (PyObject *)self;
}

/* The numbers of a shape; -1 with an exception. Whether they fit the content the servers look at,
 * and whoever receives: a wrong shape is refused with both numbers in its text. */
static int read_shape(PyObject *shape, struct psclient_tensor *tensor)
{
    Py_ssize_t rank = PyTuple_Size(shape);
    if (rank < 0)
        return -1;
    if (rank > PSCLIENT_TENSOR_RANK_MAX) {
        PyErr_SetString(PyExc_ValueError, "a value has at most 8 dimensions");
        return -1;
    }
    tensor->rank = (uint32_t)rank;
    /* A length that is no number, or a negative one, is an exception that is looked for once. */
    for (Py_ssize_t i = 0; i < rank; i++)
        tensor->shape[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(shape, i));
    return PyErr_Occurred() != NULL ? -1 : 0;
}

/* (key, dtype, element_size, shape, dead, content, timeout_ms). The content is held while it is
 * sent: the network reads it where it lies. */
static PyObject *send_value(PyObject *object, PyObject *arguments)
{
    struct rendezvous *self = (struct rendezvous *)object;
    struct psclient_tensor tensor = {0};
    struct psclient_error error;
    Py_buffer content;
    PyObject *shape;
    const char *key;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "sIIO!py*K:send", &key, &tensor.dtype, &tensor.element_size,
                          &PyTuple_Type, &shape, &tensor.dead, &content, &timeout_ms))
        return NULL;
    /* From here on the buffer is held, and released on every way out. */
    if (!check(self) || read_shape(shape, &tensor) != 0) {
        PyBuffer_Release(&content);
        return NULL;
    }
    tensor.content = content.buf;
    tensor.size = (size_t)content.len;
    PyThreadState *thread = enter(self);
    int status = psclient_rendezvous_send(self->step, key, &tensor, timeout_ms, &error);
    leave(self, thread);
    PyBuffer_Release(&content);
    return conclude(self, status, &error);
}

/* ---- What came ---- */

/* Types cannot be made by calling this one: a value has been received, or there is none.
 *
 * Takes the tensor, also when there is no memory for the object. */
static PyObject *value_of(struct ps_python_state *state, struct psclient_tensor *tensor)
{
    struct value *value = PyObject_New(struct value, state->value_type);
    if (value == NULL) {
        psclient_tensor_release(tensor);
        return NULL;
    }
    /* The memory is the object's from here on. */
    value->tensor = *tensor;
    return (PyObject *)value;
}

/* Read-write: the bytes are the receiver's own. Every view has a reference to the object, so that
 * the memory stays where it is until the last array of it has gone. */
static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct value *self = (struct value *)object;
    static char nothing[1];
    /* An empty value has no memory, and a buffer must have an address. */
    void *content = self->tensor.size > 0 ? self->tensor.content : nothing;
    return PyBuffer_FillInfo(view, object, content, (Py_ssize_t)self->tensor.size, 0, flags);
}

/* (dtype, element_size, shape, dead), as the sender said it. The Python half makes an array of it
 * where it knows the type, and bytes otherwise: programs in other languages have types of their
 * own. */
static PyObject *facts(PyObject *object, PyObject *none)
{
    const struct psclient_tensor *tensor = &((struct value *)object)->tensor;
    (void)none;
    /* SetItem takes the number, also when it fails. */
    PyObject *shape = PyTuple_New((Py_ssize_t)tensor->rank);
    for (uint32_t i = 0; shape != NULL && i < tensor->rank; i++) {
        PyObject *length = PyLong_FromUnsignedLongLong(tensor->shape[i]);
        if (length == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, length) != 0)
            Py_CLEAR(shape);
    }
    if (shape == NULL)
        return NULL;
    return Py_BuildValue("(IINN)", (unsigned)tensor->dtype, (unsigned)tensor->element_size, shape,
                         PyBool_FromLong(tensor->dead));
}

/* Where the library has put the bytes, in large pages where there are many, they stay until now.
 * No array has the memory any more: each held a reference. */
static void value_deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    psclient_tensor_release(&((struct value *)object)->tensor);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef value_methods[] = {
    {"facts", facts, METH_NOARGS, "facts() -> (dtype, element_size, shape, dead)"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot value_slots[] = {{Py_tp_dealloc, value_deallocate},
                                    {Py_tp_methods, value_methods},
                                    {Py_bf_getbuffer, get_buffer},
                                    {Py_tp_doc, "a value that was received"},
                                    {0, NULL}};

PyType_Spec ps_python_value_spec = {.name = "pserver._pserver.Value",
                                    .basicsize = sizeof(struct value),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
                                             Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    .slots = value_slots};

/* ---- Receiving ---- */

/* Values that no list took are released one by one. The objects in it are of the order of the keys,
 * each with a value: the library gives all of them or none. */
static PyObject *list_of(struct rendezvous *self, struct psclient_tensor *tensors, size_t count)
{
    /* Behind the first failure every tensor is still given back. */
    PyObject *list = PyList_New(0);
    for (size_t i = 0; i < count; i++) {
        PyObject *value = list != NULL ? value_of(self->client->state, &tensors[i]) : NULL;
        if (list == NULL)
            psclient_tensor_release(&tensors[i]);
        else if (value == NULL || PyList_Append(list, value) != 0)
            Py_CLEAR(list);
        Py_XDECREF(value);
    }
    return list;
}

/* The texts of the keys, borrowed from the tuple; -1 with an exception. A key that is no text has
 * one, too. What the texts are, and how long, the library looks at: there is one place that says
 * what a key may be. */
static int read_keys(PyObject *keys, const char **texts)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(keys); i++) {
        texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(keys, i), NULL);
        if (texts[i] == NULL)
            return -1;
    }
    return 0;
}

/* (keys, timeout_ms): all of them, or an exception. With one key the same call: thousands of keys
 * are what it is for. Python's lock is released while it waits. */
static PyObject *receive_values(PyObject *object, PyObject *arguments)
{
    struct rendezvous *self = (struct rendezvous *)object;
    struct psclient_error error;
    unsigned long long timeout_ms;
    PyObject *keys;
    PyObject *list = NULL;
    if (!PyArg_ParseTuple(arguments, "O!K:recv", &PyTuple_Type, &keys, &timeout_ms) || !check(self))
        return NULL;
    /* Texts and tensors for all keys; the texts are the tuple's, which the caller holds. */
    size_t count = (size_t)PyTuple_Size(keys);
    const char **texts = PyMem_Calloc(count + 1, sizeof *texts);
    struct psclient_tensor *tensors = PyMem_Calloc(count + 1, sizeof *tensors);
    /* One more than there are, so that no key at all is no block of nothing. */
    if (texts == NULL || tensors == NULL) {
        (void)PyErr_NoMemory();
    } else if (read_keys(keys, texts) == 0) {
        PyThreadState *thread = enter(self);
        int status =
            psclient_rendezvous_recv_many(self->step, texts, tensors, count, timeout_ms, &error);
        leave(self, thread);
        list = status == PSCLIENT_OK
                   ? list_of(self, tensors, count)
                   : ps_python_raise(self->client->state, status, error.text, NULL);
    }
    PyMem_Free(texts);
    PyMem_Free(tensors);
    return list;
}

/* ---- The step ---- */

/* From any thread, while others wait in recv. */
static PyObject *cancel(PyObject *object, PyObject *arguments)
{
    struct rendezvous *self = (struct rendezvous *)object;
    struct psclient_error error;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "K:cancel", &timeout_ms) || !check(self))
        return NULL;
    PyThreadState *thread = enter(self);
    int status = psclient_rendezvous_cancel(self->step, timeout_ms, &error);
    leave(self, thread);
    return conclude(self, status, &error);
}

/* The reason is what the others read in their exceptions. */
static PyObject *abort_step(PyObject *object, PyObject *arguments)
{
    struct rendezvous *self = (struct rendezvous *)object;
    struct psclient_error error;
    unsigned long long timeout_ms;
    const char *reason;
    if (!PyArg_ParseTuple(arguments, "sK:abort", &reason, &timeout_ms) || !check(self))
        return NULL;
    PyThreadState *thread = enter(self);
    int status = psclient_rendezvous_abort(self->step, reason, timeout_ms, &error);
    leave(self, thread);
    return conclude(self, status, &error);
}

/* At the end of a step, by one of its processes. */
static PyObject *cleanup(PyObject *object, PyObject *arguments)
{
    struct rendezvous *self = (struct rendezvous *)object;
    struct psclient_error error;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "K:cleanup", &timeout_ms) || !check(self))
        return NULL;
    PyThreadState *thread = enter(self);
    int status = psclient_rendezvous_cleanup(self->step, timeout_ms, &error);
    leave(self, thread);
    return conclude(self, status, &error);
}

/* Also when the object goes, which may be on any thread that had the last reference.
 *
 * In a forked child nothing is told to servers, and the handle is the parent's. */
static void shut(struct rendezvous *self)
{
    if (self->step == NULL || ps_python_client_forked(self->client))
        return;
    /* Servers are told what is done with, which may take a moment. */
    PyThreadState *thread = ps_python_enter(self->client);
    psclient_rendezvous_close(self->step);
    ps_python_leave(self->client, thread);
    self->step = NULL;
    self->client->replicas--;
}

/* May be repeated. Refused while another thread is in a call of it: that would find its step gone
 * when it comes back. Such a thread is ended by cancel(), which every step answers at once. */
static PyObject *close_step(PyObject *object, PyObject *none)
{
    struct rendezvous *self = (struct rendezvous *)object;
    (void)none;
    if (self->busy > 0) {
        PyErr_SetString(PyExc_RuntimeError, "another thread uses this step: cancel() ends it");
        return NULL;
    }
    shut(self);
    Py_RETURN_NONE;
}

/* No thread can be in a call of it: that would hold a reference. */
static void deallocate(PyObject *object)
{
    struct rendezvous *self = (struct rendezvous *)object;
    PyTypeObject *type = Py_TYPE(object);
    shut(self);
    Py_DECREF(self->client);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"send", send_value, METH_VARARGS,
     "send(key, dtype, element_size, shape, dead, content, timeout_ms)"},
    {"recv", receive_values, METH_VARARGS, "recv(keys, timeout_ms) -> [Value]"},
    {"cancel", cancel, METH_VARARGS, "cancel(timeout_ms): ends receives that wait"},
    {"abort", abort_step, METH_VARARGS, "abort(reason, timeout_ms)"},
    {"cleanup", cleanup, METH_VARARGS, "cleanup(timeout_ms)"},
    {"close", close_step, METH_NOARGS, "close(): the step goes on for others"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_new, open_step},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {Py_tp_doc, "Rendezvous(client, step, session, strict, lifetime_ms, deferred, timeout_ms)"},
    {0, NULL}};

PyType_Spec ps_python_rendezvous_spec = {.name = "pserver._pserver.Rendezvous",
                                         .basicsize = sizeof(struct rendezvous),
                                         .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                         .slots = slots};
