/* SPDX-License-Identifier: Apache-2.0 */
/* `_pserver.Serving`: batched serving, of a worker or of a server program. What was taken stays in
 * the library's memory and is seen through pieces: objects with a buffer, of which each keeps its
 * batch alive, and the batch the serving that its memory goes back to. */
#include "python_programs.h"

struct serving {
    PyObject_HEAD struct ps_python_client *client; /* owned reference */
    struct ps_serving *serving;                    /* NULL: closed */
    struct ps_python_held *held;                   /* of requests that may not be over */
    struct ps_python_held *rooms;                  /* registered buffers, until the end */
    size_t batches;                                /* that are alive */
};

/* A batch: nothing but its end. */
struct batch {
    PyObject_HEAD struct serving *serving; /* owned reference */
    struct ps_serving_batch *batch;
};

struct piece {
    PyObject_HEAD PyObject *batch; /* owned reference */
    void *content;
    size_t size;
};

/* ---- Pieces and batches ---- */

static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct piece *self = (struct piece *)object;
    return PyBuffer_FillInfo(view, object, self->content, (Py_ssize_t)self->size, 0, flags);
}

static void end_piece(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_DECREF(((struct piece *)object)->batch);
    PyObject_Free(object);
    Py_DECREF(type);
}

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
    struct piece *piece = PyObject_New(struct piece, type);
    if (piece == NULL)
        return NULL;
    piece->batch = Py_NewRef(batch);
    piece->content = (void *)(uintptr_t)content;
    piece->size = size;
    return (PyObject *)piece;
}

/* ---- Life ---- */

/* (client, app, role, rank, workers, worker_node, timeout_ms, lease_ms, again, name or None). */
static PyObject *open_serving(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    struct ps_python_state *state = ps_python_state_of(type);
    struct ps_serving_options options = {0};
    struct psclient_error error;
    struct ps_serving *opened = NULL;
    unsigned long long timeout_ms;
    unsigned long long lease_ms;
    int role;
    PyObject *owner;
    if (keywords != NULL || !PyArg_ParseTuple(arguments, "O!IiIIIKKiz:Serving", state->client_type,
                                              &owner, &options.app, &role, &options.rank,
                                              &options.workers, &options.worker_node, &timeout_ms,
                                              &lease_ms, &options.again, &options.name))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "Serving: no keywords");
    struct ps_python_client *client = (struct ps_python_client *)owner;
    if (!ps_python_client_check(client))
        return NULL;
    options.role = (enum ps_serving_role)role;
    options.timeout_ms = timeout_ms;
    options.lease_ms = lease_ms;
    int status = ps_serving_init(client->client, &options, &opened, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(state, status, error.text, NULL);
    struct serving *self = PyObject_New(struct serving, type);
    if (self == NULL) {
        (void)ps_serving_stop(opened, 0, NULL);
        return NULL;
    }
    /* As an open replica, it keeps the client from being closed. */
    self->client = (struct ps_python_client *)Py_NewRef(owner);
    self->client->replicas++;
    self->serving = opened;
    self->held = NULL;
    self->rooms = NULL;
    self->batches = 0;
    return (PyObject *)self;
}

/* Batches refer to the serving, so that it does not go before them; a stop is refused while there
 * are some. Buffers go when the library is done with them. */
static int shut(struct serving *self, unsigned long long timeout_ms, struct psclient_error *error)
{
    struct ps_serving *serving = self->serving;
    if (serving == NULL || ps_python_client_forked(self->client))
        return PSCLIENT_OK;
    self->serving = NULL;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_serving_stop(serving, timeout_ms, error);
    ps_python_leave(self->client, thread);
    self->client->replicas--;
    struct ps_python_held *lists[2] = {self->held, self->rooms};
    self->held = NULL;
    self->rooms = NULL;
    for (int i = 0; i < 2; i++)
        while (lists[i] != NULL) {
            struct ps_python_held *held = lists[i];
            lists[i] = held->next;
            ps_python_let_go(held);
        }
    return status;
}

static void deallocate(PyObject *object)
{
    struct serving *self = (struct serving *)object;
    PyTypeObject *type = Py_TYPE(object);
    (void)shut(self, 0, NULL);
    Py_DECREF(self->client);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* NULL with an exception. */
static struct serving *check(PyObject *object)
{
    struct serving *self = (struct serving *)object;
    if (!ps_python_client_check(self->client))
        return NULL;
    if (self->serving != NULL)
        return self;
    return (struct serving *)ps_python_raise(self->client->state, PS_PYTHON_CLOSED,
                                             "this serving was stopped", NULL);
}

/* None, or the exception. */
static PyObject *nothing_of(struct serving *self, int status, const struct psclient_error *error)
{
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error->text, NULL);
    Py_RETURN_NONE;
}

/* (timeout_ms): 0 meets nobody. */
static PyObject *stop(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
    struct psclient_error error;
    unsigned long long timeout_ms;
    if (self == NULL || !PyArg_ParseTuple(arguments, "K:stop", &timeout_ms))
        return NULL;
    if (self->batches > 0)
        return PyErr_Format(PyExc_RuntimeError, "arrays of %zu batches are still in use",
                            self->batches);
    return nothing_of(self, shut(self, timeout_ms, &error), &error);
}

/* (include_server, include_worker, timeout_ms). */
static PyObject *barrier(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
    struct psclient_error error;
    int servers;
    int workers;
    unsigned long long timeout_ms;
    if (self == NULL ||
        !PyArg_ParseTuple(arguments, "iiK:barrier", &servers, &workers, &timeout_ms))
        return NULL;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_serving_barrier(self->serving, servers, workers, timeout_ms, &error);
    ps_python_leave(self->client, thread);
    return nothing_of(self, status, &error);
}

/* ---- Workers ---- */

/* Both lists of tensors become one list of held buffers. */
static struct ps_python_held *join(struct ps_python_held *a, struct ps_python_held *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    a->next = b;
    return a;
}

/* Of what join has made: two at most, which are on no other list. */
static void drop_joined(struct ps_python_held *held)
{
    struct ps_python_held *second = held != NULL ? held->next : NULL;
    ps_python_let_go(held);
    ps_python_let_go(second);
}

/* (tensors to push, tensors to pull, timeout_ms) -> handler. The buffers are held until somebody
 * has waited; so a program that pushes waits for what it has pushed. */
static PyObject *push_pull(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
    struct psclient_tensor *pushed = NULL;
    struct psclient_tensor *pulled = NULL;
    struct ps_python_held *held[2] = {NULL, NULL};
    uint64_t *keys[2] = {NULL, NULL};
    size_t counts[2];
    struct psclient_error error;
    PyObject *lists[2];
    unsigned long long timeout_ms;
    uint64_t handler = 0;
    PyObject *result = NULL;
    if (self == NULL ||
        !PyArg_ParseTuple(arguments, "OOK:push_pull", &lists[0], &lists[1], &timeout_ms))
        return NULL;
    if (ps_python_read_tensors(lists[0], PyBUF_SIMPLE, &pushed, &keys[0], &counts[0], &held[0]) &&
        ps_python_read_tensors(lists[1], PyBUF_WRITABLE, &pulled, &keys[1], &counts[1], &held[1])) {
        PyThreadState *thread = ps_python_enter(self->client);
        int status = ps_serving_push_pull(self->serving, pushed, keys[0], counts[0], pulled,
                                          keys[1], counts[1], timeout_ms, &handler, &error);
        ps_python_leave(self->client, thread);
        result = status == PSCLIENT_OK
                     ? PyLong_FromUnsignedLongLong(handler)
                     : ps_python_raise(self->client->state, status, error.text, NULL);
    }
    struct ps_python_held *all = join(held[0], held[1]);
    if (result == NULL) {
        drop_joined(all);
    } else {
        /* Both have the first handler's number: wait takes all of that number. */
        held[0]->number = handler;
        held[1]->number = handler;
        held[1]->next = self->held;
        self->held = all;
    }
    PyMem_Free(pushed);
    PyMem_Free(pulled);
    PyMem_Free(keys[0]);
    PyMem_Free(keys[1]);
    return result;
}

/* Everything of that number goes, one after another: letting go may run Python code. */
static void release(struct serving *self, uint64_t number)
{
    struct ps_python_held **at = &self->held;
    while (*at != NULL) {
        struct ps_python_held *held = *at;
        if (held->number != number) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        ps_python_let_go(held);
        at = &self->held;
    }
}

/* (handler, timeout_ms). While the request goes on its buffers stay held, also after a failure of
 * the wait. */
static PyObject *wait_for(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
    struct psclient_error error;
    unsigned long long handler;
    unsigned long long timeout_ms;
    uint64_t first = 0;
    size_t count;
    if (self == NULL || !PyArg_ParseTuple(arguments, "KK:wait", &handler, &timeout_ms))
        return NULL;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_serving_wait(self->serving, handler, timeout_ms, &error);
    int known = ps_serving_get_all_handlers(self->serving, handler, &first, 1, &count, NULL);
    ps_python_leave(self->client, thread);
    if (known == PSCLIENT_OK && ps_serving_is_open(self->serving, handler) == 0)
        release(self, first);
    return nothing_of(self, status, &error);
}

/* (handler) -> handlers. */
static PyObject *get_all_handlers(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
    struct psclient_error error;
    unsigned long long handler;
    uint64_t first = 0;
    size_t count = 0;
    if (self == NULL || !PyArg_ParseTuple(arguments, "K:get_all_handlers", &handler))
        return NULL;
    int status = ps_serving_get_all_handlers(self->serving, handler, &first, 1, &count, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && i < count; i++) {
        PyObject *row = PyLong_FromUnsignedLongLong(first + i);
        if (row == NULL || PyList_Append(rows, row) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

/* In the order of the dataclass in serving.py. */
static PyObject *trace_row(const struct ps_serving_trace *row)
{
    return Py_BuildValue("(KIIKKKKKKKKKK)", (unsigned long long)row->handler, row->server,
                         row->worker, (unsigned long long)row->worker_host,
                         (unsigned long long)row->server_host, (unsigned long long)row->begun,
                         (unsigned long long)row->sent, (unsigned long long)row->arrived,
                         (unsigned long long)row->taken, (unsigned long long)row->answered,
                         (unsigned long long)row->replied, (unsigned long long)row->received,
                         (unsigned long long)row->waited);
}

/* (handler) -> a row for each server. Asked twice, since nobody knows the number before. */
static PyObject *fetch_trace(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
    struct psclient_error error;
    unsigned long long handler;
    size_t count = 0;
    if (self == NULL || !PyArg_ParseTuple(arguments, "K:fetch_trace", &handler))
        return NULL;
    int status = ps_serving_fetch_trace(self->serving, handler, NULL, 0, &count, &error);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    struct ps_serving_trace *found = PyMem_Calloc(count + 1, sizeof *found);
    if (found == NULL)
        return PyErr_NoMemory();
    (void)ps_serving_fetch_trace(self->serving, handler, found, count, &count, &error);
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && i < count; i++) {
        PyObject *row = trace_row(&found[i]);
        if (row == NULL || PyList_Append(rows, row) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    PyMem_Free(found);
    return rows;
}

/* ---- Server programs ---- */

/* (key, dtype, element size, shape, piece or None). */
static PyObject *tensor_row(struct serving *self, PyObject *batch,
                            const struct psclient_tensor *tensor, uint64_t key)
{
    PyObject *shape = PyTuple_New((Py_ssize_t)tensor->rank);
    for (uint32_t i = 0; shape != NULL && i < tensor->rank; i++) {
        PyObject *extent = PyLong_FromUnsignedLongLong(tensor->shape[i]);
        if (extent == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, extent) != 0)
            Py_CLEAR(shape);
    }
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

static PyObject *tensor_rows(struct serving *self, PyObject *batch,
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
static PyObject *request_row(struct serving *self, PyObject *batch,
                             const struct ps_serving_request *request)
{
    PyObject *tensors =
        tensor_rows(self, batch, request->tensors, request->tensor_keys, request->tensor_count);
    PyObject *wanted =
        tensor_rows(self, batch, request->wanted, request->wanted_keys, request->wanted_count);
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
static PyObject *rows_of(struct serving *self, struct ps_serving_batch *taken)
{
    struct batch *batch = PyObject_New(struct batch, self->client->state->batch_type);
    if (batch == NULL) {
        ps_serving_batch_release(taken);
        return NULL;
    }
    batch->serving = (struct serving *)Py_NewRef((PyObject *)self);
    batch->batch = taken;
    self->batches++;
    PyObject *rows = PyList_New(0);
    for (size_t i = 0; rows != NULL && i < taken->count; i++) {
        PyObject *row = request_row(self, (PyObject *)batch, &taken->requests[i]);
        if (row == NULL || PyList_Append(rows, row) != 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    Py_DECREF(batch);
    return rows;
}

/* (workers, max, partial, timeout_ms) -> rows; None: nothing came in time. */
static PyObject *get_batch(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
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
    wish.workers = ranks;
    PyThreadState *thread = ps_python_enter(self->client);
    int status = ps_serving_get_batch(self->serving, &wish, timeout_ms, &batch, &error);
    ps_python_leave(self->client, thread);
    PyMem_Free(ranks);
    if (status == PSCLIENT_UNKNOWN)
        Py_RETURN_NONE;
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->client->state, status, error.text, NULL);
    return rows_of(self, batch);
}

/* (handler, status, text, tensors, lens, body, timeout_ms). */
static PyObject *reply(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
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
        answer.len_count = (size_t)lens_size / sizeof(uint32_t);
        answer.lens = answer.len_count > 0 ? (const uint32_t *)(const void *)lens : NULL;
        answer.body = body;
        answer.body_size = (size_t)body_size;
        PyThreadState *thread = ps_python_enter(self->client);
        int status = ps_serving_reply(self->serving, handler, &answer, timeout_ms, &error);
        ps_python_leave(self->client, thread);
        result = nothing_of(self, status, &error);
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
    unsigned long long begin;
    unsigned long long count;
    if (!PyArg_ParseTuple(row, "KKK:slice", &handler, &begin, &count))
        return false;
    *slice = (struct ps_serving_slice){.handler = handler, .row_begin = begin, .row_count = count};
    return true;
}

/* ([tensor], slices, timeout_ms). */
static PyObject *respond_vec(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
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
    Py_ssize_t count = PySequence_Size(rows);
    slices = PyMem_Calloc(count > 0 ? (size_t)count : 1, sizeof *slices);
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
        result = nothing_of(self, status, &error);
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
static PyObject *register_recv_buffer(PyObject *object, PyObject *arguments)
{
    struct serving *self = check(object);
    struct psclient_error error;
    uint32_t *ranks = NULL;
    PyObject *memory;
    PyObject *list;
    const char *keys;
    Py_ssize_t size;
    size_t count = 0;
    if (self == NULL ||
        !PyArg_ParseTuple(arguments, "OOy#:register_recv_buffer", &memory, &list, &keys, &size))
        return NULL;
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
        return nothing_of(self, status, &error);
    }
    held->next = self->rooms;
    self->rooms = held;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"push_pull", push_pull, METH_VARARGS, "push_pull(pushed, pulled, timeout_ms) -> handler"},
    {"wait", wait_for, METH_VARARGS, "wait(handler, timeout_ms)"},
    {"get_all_handlers", get_all_handlers, METH_VARARGS, "get_all_handlers(handler)"},
    {"fetch_trace", fetch_trace, METH_VARARGS, "fetch_trace(handler) -> rows"},
    {"get_batch", get_batch, METH_VARARGS, "get_batch(workers, max, partial, timeout_ms)"},
    {"reply", reply, METH_VARARGS, "reply(handler, status, text, tensors, lens, body, timeout_ms)"},
    {"respond_vec", respond_vec, METH_VARARGS, "respond_vec([tensor], slices, timeout_ms)"},
    {"register_recv_buffer", register_recv_buffer, METH_VARARGS,
     "register_recv_buffer(buffer, ranks, keys)"},
    {"barrier", barrier, METH_VARARGS, "barrier(include_server, include_worker, timeout_ms)"},
    {"stop", stop, METH_VARARGS, "stop(timeout_ms)"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, (void *)open_serving},
                              {Py_tp_dealloc, (void *)deallocate},
                              {Py_tp_methods, methods},
                              {0, NULL}};

PyType_Spec ps_python_serving_spec = {.name = "pserver._pserver.Serving",
                                      .basicsize = sizeof(struct serving),
                                      .flags = Py_TPFLAGS_DEFAULT,
                                      .slots = slots};

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
