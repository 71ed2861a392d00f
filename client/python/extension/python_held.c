/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that requests to programs hold, and tensors that are made of them. What Python gives
 * is a sequence of tuples; what the library takes are two arrays.
 *
 * The tuples are (key, dtype, element size, shape, memory). What an element type is called, and
 * which number it has, only the Python half knows; the memory of a PyTorch tensor comes as an
 * array of bytes over the same place, since the buffer protocol has no word for most of its
 * types. So one way serves numpy, PyTorch, and whatever else can show its memory.
 *
 * A buffer that is held keeps its array from being resized or freed, and is released by the
 * thread that has Python's lock. The structs are C's own memory: they are needed while that lock
 * is not held.
 *
 * What is read here is trusted for nothing but its type: sizes against shapes, and numbers of
 * tensors, are the library's to judge, in one place for all languages.
 */
#include "python_programs.h"

#include <stdlib.h>

/* Allocated zeroed, so that letting go of a part of it is letting go of it. */
struct ps_python_held *ps_python_hold(size_t buffer_count)
{
    struct ps_python_held *held = PyMem_Calloc(1, sizeof *held);
    if (held != NULL)
        held->buffers = PyMem_Calloc(buffer_count + 1, sizeof *held->buffers);
    if (held == NULL || held->buffers == NULL) {
        PyMem_Free(held);
        (void)PyErr_NoMemory();
        return NULL;
    }
    return held;
}

/* Counted only when it is there: what failed is not released. */
bool ps_python_hold_buffer(struct ps_python_held *held, PyObject *object, int flags)
{
    if (PyObject_GetBuffer(object, &held->buffers[held->buffer_count], flags) != 0)
        return false;
    held->buffer_count++;
    return true;
}

/* Runs Python code where an array goes with its last reference: whoever calls this has taken the
 * request off every list before. */
void ps_python_let_go(struct ps_python_held *held)
{
    if (held == NULL)
        return;
    for (size_t i = 0; i < held->buffer_count; i++)
        PyBuffer_Release(&held->buffers[i]);
    while (held->bodies != NULL) {
        struct ps_python_body *body = held->bodies;
        /* Taken off before it is freed, as everything here. */
        held->bodies = body->next;
        free(body);
    }
    Py_XDECREF(held->callback);
    PyMem_Free(held->buffers);
    PyMem_Free(held);
}

/* The library checks the shape against the size; here only its length is bounded. */
static bool read_shape(PyObject *shape, struct psclient_tensor *tensor)
{
    Py_ssize_t rank = PySequence_Size(shape);
    if (rank < 0)
        return false;
    /* In words of Python's, since a list that is too long is a mistake of the program and not
     * of the job. */
    if (rank > PSCLIENT_TENSOR_RANK_MAX) {
        PyErr_Format(PyExc_ValueError, "a tensor of %zd dimensions: at most 8 go", rank);
        return false;
    }
    tensor->rank = (uint32_t)rank;
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *extent = PySequence_GetItem(shape, i);
        tensor->shape[i] = extent != NULL ? PyLong_AsUnsignedLongLong(extent) : 0;
        Py_XDECREF(extent);
        if (PyErr_Occurred())
            return false;
    }
    return true;
}

/* A row of Python's list. Its parts are borrowed from it, and it is kept by the list. */
static bool read_tensor(PyObject *row, int flags, struct psclient_tensor *tensor, uint64_t *key,
                        struct ps_python_held *held)
{
    /* Keys have 64 bits, and may be those of tensors or of nothing in particular: the programs
     * agree on them. */
    unsigned long long number;
    unsigned dtype;
    unsigned element_size;
    PyObject *shape;
    PyObject *memory;
    if (!PyArg_ParseTuple(row, "KIIOO:tensor", &number, &dtype, &element_size, &shape, &memory) ||
        !read_shape(shape, tensor) || !ps_python_hold_buffer(held, memory, flags))
        return false;
    const Py_buffer *buffer = &held->buffers[held->buffer_count - 1];
    *key = number;
    tensor->dtype = dtype;
    tensor->element_size = element_size;
    /* Contiguous, or the buffer would have been refused. */
    tensor->content = buffer->buf;
    tensor->size = (size_t)buffer->len;
    return true;
}

/* What was made before a failure is the caller's to free: the arrays by PyMem_Free, what is held by
 * ps_python_let_go. */
bool ps_python_read_tensors(PyObject *sequence, int flags, struct psclient_tensor **tensors,
                            uint64_t **keys, size_t *count, struct ps_python_held **held)
{
    Py_ssize_t size = PySequence_Size(sequence);
    if (size < 0)
        return false;
    /* All three are allocated before anything is read: what fails later has something to free,
     * or NULL. */
    *count = (size_t)size;
    *tensors = PyMem_Calloc((size_t)size + 1, sizeof **tensors);
    *keys = PyMem_Calloc((size_t)size + 1, sizeof **keys);
    *held = ps_python_hold((size_t)size);
    if (*tensors == NULL || *keys == NULL || *held == NULL) {
        (void)PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *row = PySequence_GetItem(sequence, i);
        bool is_read = row != NULL && read_tensor(row, flags, &(*tensors)[i], &(*keys)[i], *held);
        /* The row has done its part: its buffer is held, and all else was copied. */
        Py_XDECREF(row);
        if (!is_read)
            return false;
    }
    return true;
}
