/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of `_pserver.Serving` for server programs. What was taken stays in the library's memory
 * and is seen through pieces: objects with a buffer, of which each keeps its batch alive, and the
 * batch the serving that its memory goes back to. So an array of a batch is as good as one of its
 * own for as long as the program has it, and nothing is copied for Python.
 *
 * Rows are plain tuples, of which the Python half makes its dataclasses: names of fields are for
 * people, and people read that half. Their order is that of the dataclasses, which a test of both
 * would notice at once.
 *
 * Answers are given while their call lasts. So their buffers are held for that long and no longer,
 * and a program may change an array as soon as respond has returned.
 *
 * Nothing here waits with Python's lock: a program that waits for its next batch lets other threads
 * of its process compute, where StepMesh's get_batch spins with the lock held. Waits are cut into
 * slices by the Python half, between which ctrl-C is heard.
 *
 * A registered buffer is the program's own array, which the library writes to whenever it takes.
 * It is held until the end, so that Python neither moves nor frees it, and it is the program's
 * business not to read it while another thread takes.
 */
#include "python_programs.h"

/* A batch: nothing but its end. */
struct batch {
    PyObject_HEAD struct ps_python_serving *serving; /* owned reference */
    struct ps_serving_batch *batch;
};

struct piece {
    PyObject_HEAD PyObject *batch; /* owned reference */
    void *content;
    size_t size;
};

/* ---- Pieces and batches ---- */

/* The memory is writable: a program may compute in place in what it has taken, which is its own
 * copy. */
static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct piece *self = (struct piece *)object;
    return PyBuffer_FillInfo(view, object, self->content, (Py_ssize_t)self->size, 0, flags);
}

/* The last array that looked into it has gone. With the last piece its batch goes. */
static void end_piece(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_DECREF(((struct piece *)object)->batch);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* The library may give the memory to the next batch at once. In a forked child it is left: the
 * lock that guards it may be held by a thread that is not here. */
static void end_batch(PyObject *object)
{
    struct batch *self = (struct batch *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (!ps_python_client_forked(self->serving->client))
        ps_serving_batch_release(self->batch);
    self->serving->batches--;
    Py_DECREF(self->serving);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* None for nothing. */
static PyObject *piece_of(PyObject *batch, PyTypeObject *type, const void *content, size_t size)
{
    /* No memory of its own but this struct: the content is the batch's. */
    struct piece *piece = PyObject_New(struct piece, type);
    if (piece == NULL)
        return NULL;
    /* A reference to the batch, and not to the serving: memory goes back batch by batch. */
    piece->batch = Py_NewRef(batch);
    piece->content = (void *)(uintptr_t)content;
    piece->size = size;
    return (PyObject *)piece;
}

/* ---- What is taken, and answered ---- */

/* (key, dtype, element size, shape, piece or None). */
static PyObject *tensor_row(struct ps_python_serving *self, PyObject *batch,
                            const struct psclient_tensor *tensor, uint64_t key)
{
    /* Extents of 64 bits, as they travel. One that numpy cannot have fails there, in its words. */
    PyObject *shape = PyTuple_New((Py_ssize_t)tensor->rank);
    for (uint32_t i = 0; shape != NULL && i < tensor->rank; i++) {
        PyObject *extent = PyLong_FromUnsignedLongLong(tensor->shape[i]);
        if (extent == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, extent) != 0)
            Py_CLEAR(shape);
    }
    /* What is only wanted has no content, and neither has a tensor of no elements. */
    PyObject *piece = Py_NewRef(Py_None);
    if (shape != NULL && tensor->content != NULL) {
        Py_DECREF(piece);
        piece = piece_of(batch, self->client->state->piece_type, tensor->content, tensor->size);
    }
    if (shape == NULL || piece == NULL) {
        Py_XDECREF(shape);
        Py_XDECREF(piece);
        return NULL;
    }
    return Py_BuildValue("(KIInNN)", (unsigned long long)key, (unsigned)tensor->dtype,
                         (unsigned)tensor->element_size, (Py_ssize_t)tensor->size, shape, piece);
}

/* A list, in the order of the request: keys are beside the tensors and need not be different. */
static PyObject *tensor_rows(struct ps_python_serving *self, PyObject *batch,
                             const struct psclient_tensor *tensors, const uint64_t *keys,
                             size_t count)
{
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && i < count; i++) {
        PyObject *row = tensor_row(self, batch, &tensors[i], keys[i]);
        if (row == NULL || PyList_Append(rows, row) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

/* In the order of the dataclass in serving.py. Small parts are copied to objects of Python's. */
static PyObject *request_row(struct ps_python_serving *self, PyObject *batch,
                             const struct ps_serving_request *request)
{
    PyObject *tensors =
        tensor_rows(self, batch, request->tensors, request->tensor_keys, request->tensor_count);
    PyObject *wanted =
        tensor_rows(self, batch, request->wanted, request->wanted_keys, request->wanted_count);
    /* Either may be there: both are let go of. */
    if (tensors == NULL || wanted == NULL) {
        Py_XDECREF(tensors);
        Py_XDECREF(wanted);
        return NULL;
    }
    return Py_BuildValue(
        "(KIIiiKONNy#y#y#)", (unsigned long long)request->handler, (unsigned)request->worker,
        (unsigned)request->customer, (int)request->kind, (int)request->command,
        (unsigned long long)request->timestamp, request->again != 0 ? Py_True : Py_False, tensors,
        wanted, (const char *)request->keys, (Py_ssize_t)(request->key_count * sizeof(uint64_t)),
        (const char *)request->lens,
        (Py_ssize_t)(request->lens != NULL ? request->key_count * sizeof(uint32_t) : 0),
        (const char *)request->body, (Py_ssize_t)request->body_size);
}

/* Ranks out of a list; false with an exception. PyMem's memory is the caller's in any case. */
static bool read_ranks(PyObject *sequence, uint32_t **ranks, size_t *count)
{
    Py_ssize_t size = PySequence_Size(sequence);
    if (size < 0)
        return false;
    *count = (size_t)size;
    /* One more than needed, so that an empty list has memory, too. */
    *ranks = PyMem_Calloc((size_t)size + 1, sizeof **ranks);
    if (*ranks == NULL)
        return PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        (*ranks)[i] = item != NULL ? (uint32_t)PyLong_AsUnsignedLong(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return false;
    }
    return true;
}

/* A batch as rows. The library's batch is this one's from now on, in any case. */
static PyObject *rows_of(struct ps_python_serving *self, struct ps_serving_batch *taken)
{
    struct batch *batch = PyObject_New(struct batch, self->client->state->batch_type);
    if (batch == NULL) {
        ps_serving_batch_release(taken);
        return NULL;
    }
    batch->serving = (struct ps_python_serving *)Py_NewRef((PyObject *)self);
    batch->batch = taken;
    /* Counted from here on: the end of the object counts back, whatever becomes of the rows. */
    self->batches++;
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && i < taken->count; i++) {
        PyObject *row = request_row(self, (PyObject *)batch, &taken->requests[i]);
        if (row == NULL || PyList_Append(rows, row) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    /* The rows' pieces have references of their own. A batch without content goes here, and
     * with it nothing that anybody looks at. */
    Py_DECREF(batch);
    return rows;
}

/* (workers, max, partial, timeout_ms) -> rows; None: nothing came in time. */
PyObject *ps_python_get_batch(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct ps_serving_batch *batch = NULL;
    struct ps_serving_wish wish = {0};
    struct psclient_error error;
    uint32_t *ranks = NULL;
    PyObject *workers;
    unsigned long long timeout_ms;
    if (self == NULL || !PyArg_ParseTuple(arguments, "OIiK:get_batch", &workers, &wish.max,
                                          &wish.partial, &timeout_ms))
        return NULL;
    if (!read_ranks(workers, &ranks, &wish.worker_count)) {
        PyMem_Free(ranks);
        return NULL;
    }
    /* Copied by the library before it waits. */
    wish.workers = ranks;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_serving_get_batch(self->serving, &wish, timeout_ms, &batch, &error);
    ps_python_leave(self->client, thread);
    PyMem_Free(ranks);
    /* Not an exception: a program that polls comes here again and again. */
    if (status == PSCLIENT_UNKNOWN)
        Py_RETURN_NONE;
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    return rows_of(self, batch);
}

/* (handler, status, text, tensors, lens, body, timeout_ms). */
PyObject *ps_python_reply(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct ps_serving_reply answer = {0};
    struct psclient_tensor *tensors = NULL;
    struct ps_python_held *held = NULL;
    uint64_t *keys = NULL;
    struct psclient_error error;
    PyObject *list;
    PyObject *result = NULL;
    unsigned long long handler;
    unsigned long long timeout_ms;
    const char *lens;
    const char *body;
    Py_ssize_t lens_size;
    Py_ssize_t body_size;
    if (self == NULL ||
        !PyArg_ParseTuple(arguments, "KizOy#y#K:reply", &handler, &answer.status, &answer.text,
                          &list, &lens, &lens_size, &body, &body_size, &timeout_ms))
        return NULL;
    if (ps_python_read_tensors(list, PyBUF_SIMPLE, &tensors, &keys, &answer.tensor_count, &held)) {
        answer.tensors = tensors;
        /* Packed by the Python half, so that the numbers lie as the library reads them. */
        answer.len_count = (size_t)lens_size / sizeof(uint32_t);
        answer.lens = answer.len_count > 0 ? (const uint32_t *)(const void *)lens : NULL;
        answer.body = body;
        answer.body_size = (size_t)body_size;
        PyThreadState *thread = ps_python_enter(self->client);
        int status = ps_serving_reply(self->serving, handler, &answer, timeout_ms, &error);
        ps_python_leave(self->client, thread);
        result = ps_python_serving_result(self, status, &error);
    }
    ps_python_let_go(held);
    PyMem_Free(tensors);
    PyMem_Free(keys);
    return result;
}

/* One of the slices: (handler, first row, rows). */
static bool read_slice(PyObject *row, struct ps_serving_slice *slice)
{
    unsigned long long handler;
    /* Rows are counted by the library, against the tensor's first dimension. */
    unsigned long long begin;
    unsigned long long count;
    if (!PyArg_ParseTuple(row, "KKK:slice", &handler, &begin, &count))
        return false;
    *slice = (struct ps_serving_slice){.handler = handler, .row_begin = begin, .row_count = count};
    return true;
}

/* ([tensor], slices, timeout_ms). */
PyObject *ps_python_respond_vec(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct psclient_tensor *tensors = NULL;
    struct ps_python_held *held = NULL;
    struct ps_serving_slice *slices = NULL;
    uint64_t *keys = NULL;
    struct psclient_error error;
    size_t tensor_count = 0;
    PyObject *list;
    PyObject *rows;
    PyObject *result = NULL;
    unsigned long long timeout_ms;
    if (self == NULL || !PyArg_ParseTuple(arguments, "OOK:respond_vec", &list, &rows, &timeout_ms))
        return NULL;
    /* A slice for each request, in the order in which they are to be answered. */
    Py_ssize_t count = PySequence_Size(rows);
    slices = PyMem_Calloc(count > 0 ? (size_t)count : 1, sizeof *slices);
    /* A sequence that has no length has set its own exception. */
    bool is_read = count >= 0 && slices != NULL;
    for (Py_ssize_t i = 0; is_read && i < count; i++) {
        PyObject *row = PySequence_GetItem(rows, i);
        is_read = row != NULL && read_slice(row, &slices[i]);
        Py_XDECREF(row);
    }
    if (is_read &&
        ps_python_read_tensors(list, PyBUF_SIMPLE, &tensors, &keys, &tensor_count, &held) &&
        tensor_count == 1) {
        PyThreadState *thread = ps_python_enter(self->client);
        int status = ps_serving_respond_vec(self->serving, tensors, slices, (size_t)count,
                                            timeout_ms, &error);
        ps_python_leave(self->client, thread);
        result = ps_python_serving_result(self, status, &error);
    }
    ps_python_let_go(held);
    PyMem_Free(slices);
    PyMem_Free(tensors);
    PyMem_Free(keys);
    return result != NULL || PyErr_Occurred()
               ? result
               : PyErr_Format(PyExc_ValueError, "one tensor is cut, not %zu", tensor_count);
}

/* (buffer, ranks, keys as bytes). The buffer is held until the end. */
PyObject *ps_python_register_recv_buffer(PyObject *object, PyObject *arguments)
{
    struct ps_python_serving *self = ps_python_serving_check(object);
    struct psclient_error error;
    uint32_t *ranks = NULL;
    PyObject *memory;
    PyObject *list;
    /* Of as many numbers as there are workers, packed. */
    const char *keys;
    Py_ssize_t size;
    size_t count = 0;
    if (self == NULL ||
        !PyArg_ParseTuple(arguments, "OOy#:register_recv_buffer", &memory, &list, &keys, &size))
        return NULL;
    /* Held from here to the end of the serving: takes write to it at any time. */
    struct ps_python_held *held = ps_python_hold(1);
    if (held == NULL || !ps_python_hold_buffer(held, memory, PyBUF_WRITABLE) ||
        !read_ranks(list, &ranks, &count) || count != (size_t)size / sizeof(uint64_t)) {
        ps_python_let_go(held);
        PyMem_Free(ranks);
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "as many keys as workers");
    }
    int status = ps_serving_register_recv_buffer(
        self->serving, held->buffers[0].buf, (size_t)held->buffers[0].len, ranks,
        (const uint64_t *)(const void *)keys, count, &error);
    PyMem_Free(ranks);
    if (status != PSCLIENT_OK) {
        ps_python_let_go(held);
        return ps_python_serving_result(self, status, &error);
    }
    held->next = self->rooms;
    self->rooms = held;
    Py_RETURN_NONE;
}

static PyType_Slot batch_slots[] = {{Py_tp_dealloc, (void *)end_batch}, {0, NULL}};

PyType_Spec ps_python_batch_spec = {.name = "pserver._pserver.Batch",
                                    .basicsize = sizeof(struct batch),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    .slots = batch_slots};

static PyType_Slot piece_slots[] = {
    {Py_tp_dealloc, (void *)end_piece}, {Py_bf_getbuffer, (void *)get_buffer}, {0, NULL}};

PyType_Spec ps_python_piece_spec = {.name = "pserver._pserver.Piece",
                                    .basicsize = sizeof(struct piece),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    .slots = piece_slots};
