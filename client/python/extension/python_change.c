/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of `_pserver.Client` by which parameters come, before a job trains and while it does, go
 * and change. They are rare, and plain calls of the library, which wait at most their timeout. */
#include "python_client.h"

/* One batch of parameters with shapes and configurations, before the job trains or while it does.
 * Takes nothing; `*given` is to be destroyed. NULL with an exception. */
static PyObject *give(PyObject *object, PyObject *arguments, bool defines,
                      struct ps_python_batch **given)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct ps_python_items items = {0};
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "OOOK:init", &items.names, &items.sources, &items.configs,
                          &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    /* The Python half sends large models in portions: one call is no longer than 64 MiB take. */
    struct ps_python_batch *batch = ps_python_batch_create(self->state, PS_PYTHON_INIT, &items);
    if (batch == NULL)
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = (defines ? psclient_define : psclient_init)(
        self->client, batch->parameters, batch->count, timeout_ms, batch->results, &batch->error);
    ps_python_leave(self, thread);
    *given = batch;
    return ps_python_batch_conclude(self->state, batch, status);
}

/* A server that has a parameter already keeps it, which is not a failure: such an item has no
 * version, and counts like the others. The trainer that is selected after another one has died
 * finds its parameters so, and pulls them. */
PyObject *ps_python_init(PyObject *object, PyObject *arguments)
{
    struct ps_python_batch *batch = NULL;
    PyObject *versions = give(object, arguments, false, &batch);
    ps_python_batch_destroy(batch);
    return versions;
}

/* For each name the answer is whether an equal parameter was there, whose values the caller then
 * pulls. The versions of what was just defined are all 0: their places are taken by that. */
PyObject *ps_python_define(PyObject *object, PyObject *arguments)
{
    struct ps_python_batch *batch = NULL;
    PyObject *list = give(object, arguments, true, &batch);
    for (size_t i = 0; list != NULL && i < batch->count; i++)
        if (PyList_SetItem(list, (Py_ssize_t)i, PyBool_FromLong(batch->results[i].existed)) != 0)
            Py_CLEAR(list);
    ps_python_batch_destroy(batch);
    return list;
}

/* The names of a batch side by side, as the library wants them; to be freed. NULL with an
 * exception. */
static const char **names_of(const struct ps_python_batch *batch)
{
    const char **names = PyMem_Calloc(batch->count + 1, sizeof *names);
    if (names == NULL)
        PyErr_NoMemory();
    /* The texts belong to the tuple of the batch, which outlives the call. */
    for (size_t i = 0; names != NULL && i < batch->count; i++)
        names[i] = batch->parameters[i].name;
    return names;
}

/* The versions that the parameters had, as of any batch. Names that are not there are told by the
 * exception, with the results of those that went. */
PyObject *ps_python_drop(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct ps_python_items items = {0};
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "OK:drop", &items.names, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    struct ps_python_batch *batch = ps_python_batch_create(self->state, PS_PYTHON_NAMES, &items);
    const char **names = batch != NULL ? names_of(batch) : NULL;
    /* Whatever is NULL here has set its exception; what is there is given back below. */
    PyObject *versions = NULL;
    if (names != NULL) {
        PyThreadState *thread = ps_python_enter(self);
        int status = psclient_drop(self->client, names, batch->count, timeout_ms, batch->results,
                                   &batch->error);
        ps_python_leave(self, thread);
        versions = ps_python_batch_conclude(self->state, batch, status);
    }
    PyMem_Free(names);
    ps_python_batch_destroy(batch);
    return versions;
}

/* Each result of a change is replaced by (step, configuration). */
static PyObject *tell_configs(PyObject *list, const struct psclient_config *configs, size_t count)
{
    for (size_t i = 0; list != NULL && i < count; i++) {
        const struct psclient_config *config = &configs[i];
        /* A configuration that is too long to be told is empty here; the step holds all the
         * same. */
        size_t size = config->size <= sizeof config->bytes ? config->size : 0;
        PyObject *row = Py_BuildValue("(Ky#)", (unsigned long long)config->step,
                                      (const char *)config->bytes, (Py_ssize_t)size);
        /* The list takes the row in any case. */
        if (row == NULL || PyList_SetItem(list, (Py_ssize_t)i, row) != 0)
            Py_CLEAR(list);
    }
    return list;
}

/* The change is the bytes of an OptimizerConfig, made by optimizers.py. They are borrowed from the
 * argument, which the call holds; the configurations that come back have room of their own, one for
 * each name, and are copied into bytes before it goes. */
PyObject *ps_python_configure(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct ps_python_items items = {0};
    const char *change;
    Py_ssize_t size;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "Oy#K:configure", &items.names, &change, &size, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    struct ps_python_batch *batch = ps_python_batch_create(self->state, PS_PYTHON_NAMES, &items);
    const char **names = batch != NULL ? names_of(batch) : NULL;
    /* One more than there are, so that an empty list has memory, too. */
    struct psclient_config *configs =
        names != NULL ? PyMem_Calloc(batch->count + 1, sizeof *configs) : NULL;
    PyObject *rows = NULL;
    /* names_of has set its own exception. */
    if (names != NULL && configs == NULL)
        PyErr_NoMemory();
    if (configs != NULL) {
        PyThreadState *thread = ps_python_enter(self);
        int status = psclient_configure(self->client, names, batch->count, change, (size_t)size,
                                        timeout_ms, batch->results, configs, &batch->error);
        ps_python_leave(self, thread);
        rows = tell_configs(ps_python_batch_conclude(self->state, batch, status), configs,
                            batch->count);
    }
    /* Each may be NULL: what failed first leaves the rest as it was. */
    PyMem_Free(configs);
    PyMem_Free(names);
    ps_python_batch_destroy(batch);
    return rows;
}
