/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of memory that is a GPU's: addresses, and no buffers. The Python half says of each array
 * what it is (pserver/device.py); the library looks whether the address is a device's. */
#include "python_batch.h"
#include "python_client.h"

#include "psclient_device.h"

/* Once for each client; the second wish is for another plugin, which no memory of the first one is
 * of. */
PyObject *ps_python_load_device(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    /* None is the library's NULL: the plugin beside it. */
    const char *plugin;
    if (!PyArg_ParseTuple(arguments, "z:load_device", &plugin) || !ps_python_client_check(self))
        return NULL;
    if (self->device != NULL)
        Py_RETURN_NONE;
    /* With Python's lock: another thread would load a second one. */
    int status = psclient_device_load(plugin, &self->device, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* (type, address, bytes) of each; the types are those of the library. */
static int fill(struct ps_python_batch *batch, PyObject *pieces)
{
    if (PySequence_Size(pieces) != (Py_ssize_t)batch->count) {
        PyErr_SetString(PyExc_ValueError, "as many arrays as names");
        return -1;
    }
    for (size_t i = 0; i < batch->count; i++) {
        int type = 0;
        unsigned long long address = 0, size = 0;
        PyObject *piece = PySequence_GetItem(pieces, (Py_ssize_t)i);
        int parsed =
            piece != NULL && PyArg_ParseTuple(piece, "iKK:piece", &type, &address, &size) ? 0 : -1;
        Py_XDECREF(piece);
        if (parsed != 0)
            return -1;
        /* The texts are the tuple's, which the batch holds; addresses are borrowed for the call. */
        const char *name = batch->parameters[i].name;
        void *memory = (void *)(uintptr_t)address;
        batch->gradients[i] = (struct psclient_gradient){.name = name,
                                                         .type = (enum psclient_type)type,
                                                         .content = memory,
                                                         .content_size = (size_t)size};
        batch->parameters[i] = (struct psclient_parameter){.name = name,
                                                           .type = (enum psclient_type)type,
                                                           .content = memory,
                                                           .content_size = (size_t)size};
    }
    return 0;
}

/* The caller holds the arrays: Python's half keeps them in the list that it has made. ctrl-C is
 * heard when the call returns. */
PyObject *ps_python_run_device(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    int kind;
    PyObject *names, *pieces;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "iOOK:run_device", &kind, &names, &pieces, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    /* The Python half has loaded one before; whoever calls this by hand may have forgotten. */
    if (self->device == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no plugin was loaded: load_device() comes first");
        return NULL;
    }
    /* Names alone are what both halves have in common with other batches. */
    const struct ps_python_items items = {.names = names};
    struct ps_python_batch *batch = ps_python_batch_create(self->state, PS_PYTHON_NAMES, &items);
    if (batch == NULL || fill(batch, pieces) != 0) {
        ps_python_batch_destroy(batch);
        return NULL;
    }
    /* From here on it is what it does, so that its versions are looked for at the right place. */
    batch->kind = kind == PS_PYTHON_PULL ? PS_PYTHON_PULL : PS_PYTHON_PUSH;
    PyThreadState *thread = ps_python_enter(self);
    int status =
        batch->kind == PS_PYTHON_PULL
            ? psclient_pull_device(self->client, self->device, batch->parameters, batch->count,
                                   timeout_ms, batch->results, &batch->error)
            : psclient_push_device(self->client, self->device, batch->gradients, batch->count,
                                   timeout_ms, batch->results, &batch->error);
    ps_python_leave(self, thread);
    PyObject *versions = ps_python_batch_conclude(self->state, batch, status);
    ps_python_batch_destroy(batch);
    return versions;
}

/* Servers let go of the piece that an address lies in. */
PyObject *ps_python_forget_device(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    unsigned long long address, timeout_ms;
    if (!PyArg_ParseTuple(arguments, "KK:forget_device", &address, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    /* Without a plugin no server was told of anything. */
    if (self->device == NULL)
        Py_RETURN_NONE;
    /* It may wait for a server that stands still. */
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_device_forget(self->client, self->device, (void *)(uintptr_t)address,
                                        timeout_ms, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* Bytes that servers have read and written there. */
PyObject *ps_python_device_bytes(PyObject *object, PyObject *none)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    (void)none;
    if (!ps_python_client_check(self))
        return NULL;
    return PyLong_FromUnsignedLongLong(psclient_device_bytes(self->client));
}

/* With the client's object, behind its client. */
/* What was loaded stays in the process. */
void ps_python_device_end(struct ps_python_client *client)
{
    psclient_device_unload(client->device);
    client->device = NULL;
}
