/* SPDX-License-Identifier: Apache-2.0 */
/* Batches out of Python's sequences: types and sizes are checked here, once, before anything is
 * sent, so that a mistake in item 7 leaves items 1 to 6 as they were.
 *
 * The way of an array is short where it is as it should be: one call for its buffer, which also
 * says its type, its size and whether it is contiguous. That is 0.15 us of the 4 us that an item
 * of a batch takes altogether. Everything that is not as it should be goes through Python. */
#include "python_batch.h"

#include <string.h>

static int allocate(struct ps_python_batch *batch);
static int fill(struct ps_python_state *state, struct ps_python_batch *batch,
                const struct ps_python_items *items);

/* Names and configurations are turned into tuples first: a list might be changed by another thread
 * while the batch is under way, and with it would go the texts that the library borrows. */
struct ps_python_batch *ps_python_batch_create(struct ps_python_state *state,
                                               enum ps_python_kind kind,
                                               const struct ps_python_items *items)
{
    struct ps_python_batch *batch = PyMem_Calloc(1, sizeof *batch);
    if (batch == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    batch->kind = kind;
    batch->names = PySequence_Tuple(items->names);
    if (kind == PS_PYTHON_INIT)
        batch->configs = PySequence_Tuple(items->configs);
    bool whole = batch->names != NULL && (kind != PS_PYTHON_INIT || batch->configs != NULL);
    if (!whole || allocate(batch) != 0 || fill(state, batch, items) != 0) {
        ps_python_batch_destroy(batch);
        return NULL;
    }
    return batch;
}

/* Buffers are released before the objects that they belong to can go. Accepts a batch that was
 * filled half-way, which is how ps_python_batch_create ends a failure. */
void ps_python_batch_destroy(struct ps_python_batch *batch)
{
    if (batch == NULL)
        return;
    for (size_t i = 0; i < batch->held_count; i++)
        PyBuffer_Release(&batch->buffers[i]);
    PyMem_Free(batch->gradients);
    Py_XDECREF(batch->names);
    Py_XDECREF(batch->configs);
    Py_XDECREF(batch->training);
    PyMem_Free(batch);
}

/* One piece of memory for all arrays, which begins with the gradients: a call of a hundred tensors
 * would otherwise allocate four times. One item more than there are, so that an empty batch has
 * memory, too. */
static int allocate(struct ps_python_batch *batch)
{
    batch->count = (size_t)PyTuple_Size(batch->names);
    /* In this order each array begins where its type may begin: all have members of eight bytes. */
    const size_t each = sizeof *batch->gradients + sizeof *batch->parameters +
                        sizeof *batch->results + 2 * sizeof *batch->buffers;
    batch->gradients = PyMem_Calloc(batch->count + 1, each);
    if (batch->gradients == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    batch->parameters = (void *)(batch->gradients + batch->count);
    batch->buffers = (void *)(batch->parameters + batch->count);
    batch->results = (void *)(batch->buffers + 2 * batch->count);
    return 0;
}

/* ---- Names ---- */

/* The text lives as long as the str, which the batch's tuple holds. */
static const char *name_of(const struct ps_python_batch *batch, size_t i)
{
    PyObject *object = PyTuple_GetItem(batch->names, (Py_ssize_t)i);
    if (object == NULL || !PyUnicode_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "the name of a parameter is a str");
        return NULL;
    }
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text != NULL && strlen(text) != (size_t)size) {
        PyErr_SetString(PyExc_ValueError, "a name with a zero byte");
        return NULL;
    }
    return text;
}

/* ---- Buffers ---- */

/* The element type of a buffer in the words of struct and PEP 3118; -1: none that travels. A long
 * has 8 bytes on the machines that we know, and its size is asked for all the same. */
static int type_of(const Py_buffer *view)
{
    /* Without a format a buffer is of bytes. */
    const char *format = view->format != NULL ? view->format : "B";
    if (*format == '<' || *format == '=' || *format == '@')
        format++;
    if (format[0] == '\0' || format[1] != '\0')
        return -1;
    /* numpy says l for int64 on this machine, others say q. Each is looked up with its size,
     * since a struct of C has another idea of l on other machines. */
    switch (*format) {
    case 'f':
        return PSCLIENT_FLOAT32;
    case 'd':
        return PSCLIENT_FLOAT64;
    case 'e':
        return PSCLIENT_TYPE_FLOAT16;
    case 'i':
        return view->itemsize == 4 ? PSCLIENT_INT32 : -1;
    case 'I':
        return view->itemsize == 4 ? PSCLIENT_UINT32 : -1;
    case 'l':
    case 'q':
        return view->itemsize == 8 ? PSCLIENT_INT64 : -1;
    case 'L':
    case 'Q':
        return view->itemsize == 8 ? PSCLIENT_UINT64 : -1;
    default:
        return -1;
    }
}

/* Takes the buffer of `object` itself; 0 when it has none that is contiguous. No exception. */
static int take_as_it_is(struct ps_python_batch *batch, PyObject *object, int flags)
{
    Py_buffer *view = &batch->buffers[batch->held_count];
    /* The exception here would speak of buffers; the Python half says it in words about arrays. */
    if (PyObject_GetBuffer(object, view, flags) != 0) {
        PyErr_Clear();
        return 0;
    }
    if (type_of(view) >= 0) {
        batch->held_count++;
        return 1;
    }
    PyBuffer_Release(view);
    return 0;
}

/* Holds the memory of item i of a sequence; NULL with an exception. The Python half's `convert`
 * gives an array in the place of an object that cannot be used as it is, or says why there is
 * none. */
static const Py_buffer *hold(struct ps_python_batch *batch, PyObject *sequence, size_t i,
                             PyObject *convert, int flags)
{
    PyObject *object = PySequence_GetItem(sequence, (Py_ssize_t)i);
    if (object == NULL)
        return NULL;
    /* A Fortran array is contiguous, too, but its elements lie in another order than those of
     * the server. */
    flags |= PyBUF_C_CONTIGUOUS | PyBUF_FORMAT;
    int taken = take_as_it_is(batch, object, flags);
    if (!taken) {
        PyObject *name = PyTuple_GetItem(batch->names, (Py_ssize_t)i);
        PyObject *array = PyObject_CallFunctionObjArgs(convert, name, object, NULL);
        taken = array != NULL ? take_as_it_is(batch, array, flags) : 0;
        if (array != NULL && !taken)
            PyErr_Format(PyExc_TypeError, "%S: its memory cannot be used", name);
        Py_XDECREF(array);
    }
    /* The view, if there is one, has a reference of its own, to the object or to the copy of it. */
    Py_DECREF(object);
    return taken ? &batch->buffers[batch->held_count - 1] : NULL;
}

/* The library writes the parameter while it may still have to send the gradient again. */
static bool overlap(const Py_buffer *left, const Py_buffer *right)
{
    const char *from = left->buf;
    const char *to = right->buf;
    return from < to + right->len && to < from + left->len;
}

/* ---- Items ---- */

/* Sequences that are too short would be read beyond their end, those that are too long would drop
 * gradients silently. */
static int check_length(PyObject *sequence, size_t count, const char *what)
{
    Py_ssize_t length = sequence != NULL ? PySequence_Size(sequence) : -1;
    if (length < 0)
        return -1;
    if ((size_t)length == count)
        return 0;
    PyErr_Format(PyExc_ValueError, "%zd %s for %zu names", length, what, count);
    return -1;
}

/* A target must be what its gradient is: the server checks both against the parameter. */
static int check_pair(const char *name, const Py_buffer *source, const Py_buffer *target)
{
    if (type_of(source) != type_of(target) || source->len != target->len) {
        PyErr_Format(PyExc_ValueError,
                     "%s: the gradient has %zd bytes of format %s, the array to pull into %zd of "
                     "format %s: they must be alike",
                     name, source->len, source->format, target->len, target->format);
        return -1;
    }
    if (!overlap(source, target))
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "%s: gradient and parameter share memory: pull into another array", name);
    return -1;
}

/* A buffer knows its shape, as signed numbers of the same size: none of them is below 0. An array
 * without a dimension has none to point to, and is told from one whose shape nobody knows by a
 * pointer to something. */
static void set_shape(struct psclient_parameter *parameter, const Py_buffer *view)
{
    static const uint64_t scalar[1] = {1};
    _Static_assert(sizeof(Py_ssize_t) == sizeof(uint64_t), "a shape is used where it lies");
    parameter->rank = (size_t)view->ndim;
    parameter->shape = view->ndim > 0 ? (const uint64_t *)view->shape : scalar;
}

/* The bytes object is held by the batch's tuple: its memory is borrowed from there. */
static int set_config(const struct ps_python_batch *batch, size_t i)
{
    char *config;
    Py_ssize_t size;
    PyObject *bytes = PyTuple_GetItem(batch->configs, (Py_ssize_t)i);
    if (bytes == NULL || PyBytes_AsStringAndSize(bytes, &config, &size) != 0)
        return -1;
    batch->parameters[i].config = config;
    batch->parameters[i].config_size = (size_t)size;
    return 0;
}

/* What is sent has arrays to read from. */
static bool has_sources(enum ps_python_kind kind)
{
    return kind != PS_PYTHON_PULL && kind != PS_PYTHON_NAMES;
}

/* Views of the batch are never moved: their array has room for all of them from the start. */
static int fill_item(struct ps_python_state *state, struct ps_python_batch *batch,
                     const struct ps_python_items *items, size_t i)
{
    const char *name = name_of(batch, i);
    if (name == NULL)
        return -1;
    /* Of the two, a pull has only the second, and a push only the first. */
    const Py_buffer *source = NULL;
    const Py_buffer *target = NULL;
    if (has_sources(batch->kind)) {
        source = hold(batch, items->sources, i, state->as_source, PyBUF_SIMPLE);
        if (source == NULL)
            return -1;
        batch->gradients[i] =
            (struct psclient_gradient){.name = name,
                                       .type = (enum psclient_type)type_of(source),
                                       .content = source->buf,
                                       .content_size = (size_t)source->len};
    }
    if (batch->kind == PS_PYTHON_PULL || batch->kind == PS_PYTHON_PUSH_PULL) {
        target = hold(batch, items->targets, i, state->as_target, PyBUF_WRITABLE);
        if (target == NULL || (source != NULL && check_pair(name, source, target) != 0))
            return -1;
    }
    /* Also of names alone, which have nothing else. */
    batch->parameters[i].name = name;
    if (batch->kind == PS_PYTHON_NAMES)
        return 0;
    /* The parameter of a push is not looked at by the library; filled all the same, it makes the
     * batch's size and type the same question for every kind. */
    const Py_buffer *content = target != NULL ? target : source;
    batch->parameters[i] = (struct psclient_parameter){.name = name,
                                                       .type = (enum psclient_type)type_of(content),
                                                       .content = content->buf,
                                                       .content_size = (size_t)content->len};
    if (batch->configs == NULL)
        return 0;
    set_shape(&batch->parameters[i], content);
    return set_config(batch, i);
}

/* Whose contribution each gradient is, and the version that each item waits for: of a gradient the
 * one that its round makes. */
static int set_training(struct ps_python_batch *batch, PyObject *training)
{
    unsigned worker;
    float weight;
    PyObject *versions;
    /* Only a pull by clocks has these two. */
    const char *clocks = NULL;
    unsigned long long clock = 0;
    if (!PyArg_ParseTuple(training, "IfO|sK", &worker, &weight, &versions, &clocks, &clock) ||
        check_length(versions, batch->count, "versions") != 0)
        return -1;
    for (size_t i = 0; i < batch->count; i++) {
        PyObject *number = PySequence_GetItem(versions, (Py_ssize_t)i);
        if (number == NULL)
            return -1;
        uint64_t version = PyLong_AsUnsignedLongLong(number);
        Py_DECREF(number);
        if (PyErr_Occurred() != NULL)
            return -1;
        batch->gradients[i].worker = worker;
        batch->gradients[i].weight = weight;
        batch->gradients[i].round = version;
        /* Of a push and pull the library waits for the gradient's round by itself. */
        batch->parameters[i].at_least_version = version;
        /* Who contributes reads at no clock. */
        batch->parameters[i].worker = clocks != NULL ? worker : 0;
        batch->parameters[i].clocks = clocks;
        batch->parameters[i].clock = clock;
    }
    /* Whose str has the name of the clocks: a batch that was begun outlives the caller's tuple. */
    batch->training = Py_NewRef(training);
    batch->waits = true;
    return 0;
}

/* Lengths before items, so that no item is looked at that has no partner. */
static int fill(struct ps_python_state *state, struct ps_python_batch *batch,
                const struct ps_python_items *items)
{
    bool pulls = batch->kind == PS_PYTHON_PULL || batch->kind == PS_PYTHON_PUSH_PULL;
    if (has_sources(batch->kind) && check_length(items->sources, batch->count, "arrays") != 0)
        return -1;
    if (pulls && check_length(items->targets, batch->count, "arrays to pull into") != 0)
        return -1;
    if (batch->configs != NULL && check_length(batch->configs, batch->count, "optimizers") != 0)
        return -1;
    /* In order, so that the first mistake is the one that is told. */
    for (size_t i = 0; i < batch->count; i++)
        if (fill_item(state, batch, items, i) != 0)
            return -1;
    return items->training != NULL ? set_training(batch, items->training) : 0;
}

/* ---- Results ---- */

/* (name, status, text, version, retries, duplicate), for the exception's list. */
static PyObject *item_result(const struct ps_python_batch *batch, size_t i)
{
    const struct psclient_result *result = &batch->results[i];
    return Py_BuildValue("(OisKIO)", PyTuple_GetItem(batch->names, (Py_ssize_t)i),
                         (int)result->status, result->text, (unsigned long long)result->version,
                         (unsigned)result->retries, result->duplicate ? Py_True : Py_False);
}

/* A pull notes its version in the parameter, everything else in the result. */
static PyObject *item_version(const struct ps_python_batch *batch, size_t i)
{
    uint64_t version =
        batch->kind == PS_PYTHON_PULL ? batch->parameters[i].version : batch->results[i].version;
    if (batch->waits)
        return Py_BuildValue("(KO)", (unsigned long long)version,
                             batch->results[i].late ? Py_True : Py_False);
    return PyLong_FromUnsignedLongLong(version);
}

/* A failure tells every item's result, also of those that succeeded: a trainer that goes on has to
 * know which gradients were applied. The texts are copied, so that the batch may go at once. */
PyObject *ps_python_batch_conclude(struct ps_python_state *state,
                                   const struct ps_python_batch *batch, int status)
{
    /* Of versions when all went well, of results when not: the caller gets one of both. */
    PyObject *list = PyList_New((Py_ssize_t)batch->count);
    for (size_t i = 0; list != NULL && i < batch->count; i++) {
        PyObject *row = status == PSCLIENT_OK ? item_version(batch, i) : item_result(batch, i);
        /* The list takes the row in any case. */
        if (row == NULL || PyList_SetItem(list, (Py_ssize_t)i, row) != 0)
            Py_CLEAR(list);
    }
    if (status == PSCLIENT_OK || list == NULL)
        return list;
    return ps_python_raise(state, status, batch->error.text, list);
}
