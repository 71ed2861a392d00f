/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of `_pserver.Client` beside training: what servers say of themselves, checkpoints,
 * barriers, counters. Each gives plain dicts, which the Python half turns into its classes.
 *
 * Dicts and not tuples, since the structs of psclient.h grow: a field more is a word more here and
 * a field more of the dataclass, and nobody counts places. Numbers are widened for Py_BuildValue,
 * whose letters K and I stand for types of C and not for sizes. None of these is called in a hot
 * loop.
 *
 * They are plain calls of the library, which wait at most their timeout, or until ctrl-C is
 * pressed. */
#include "python_client.h"

#include <string.h>

/* Rows of one page. A page is asked for again with the last name of the one before, so that the
 * number only decides how many round trips a large job takes. */
#define ROWS_MAX 256

/* The words are the fields of pserver.ServerStatus (about.py), which is made of the dict as it is:
 * a word too many or too few is an error there at the first call. */
PyObject *ps_python_server_status(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_server_status row;
    struct psclient_error error;
    unsigned long index;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "kK:server_status", &index, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_server_status(self->client, (uint32_t)index, timeout_ms, &row, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    return Py_BuildValue(
        "{sIsssssssssssKsKsKsKsKsKsKsKsKsK}", "index", (unsigned)row.index, "address", row.address,
        "state", row.state, "version", row.version, "device", row.device, "checkpoint",
        row.checkpoint_uuid, "epoch", (unsigned long long)row.epoch, "parameter_count",
        (unsigned long long)row.parameter_count, "parameter_bytes",
        (unsigned long long)row.parameter_bytes, "state_bytes", (unsigned long long)row.state_bytes,
        "push_count", (unsigned long long)row.push_count, "pull_count",
        (unsigned long long)row.pull_count, "position", (unsigned long long)row.position,
        "checkpoint_position", (unsigned long long)row.checkpoint_position, "uptime_ms",
        (unsigned long long)row.uptime_ms, "lost_push_count",
        (unsigned long long)row.lost_push_count);
}

/* One row of a cut parameter has the shape of the whole: about.py joins them. */
static PyObject *shape_of(const struct psclient_param_info *row)
{
    PyObject *shape = PyTuple_New((Py_ssize_t)row->rank);
    /* The tuple takes each number, whether it can be made or not. */
    for (size_t i = 0; shape != NULL && i < row->rank; i++)
        if (PyTuple_SetItem(shape, (Py_ssize_t)i, PyLong_FromUnsignedLongLong(row->shape[i])) != 0)
            Py_CLEAR(shape);
    return shape;
}

/* A page of the list, with configurations, which alone say whether a parameter is a table. */
struct page {
    struct psclient_param_info rows[ROWS_MAX];
    struct psclient_config configs[ROWS_MAX];
    size_t count;
};

/* Types go as the wire's numbers; about.py has the table of dtypes. The list keeps the rows. */
static int append_rows(PyObject *list, const struct page *page)
{
    const struct psclient_param_info *rows = page->rows;
    for (size_t i = 0; i < page->count; i++) {
        /* One that is too long to be told is empty here, as that of an old server. */
        const struct psclient_config *config = &page->configs[i];
        size_t size = config->size <= sizeof config->bytes ? config->size : 0;
        PyObject *row = Py_BuildValue(
            "{sssisNsKsKsKsssdsy#}", "name", rows[i].name, "type", (int)rows[i].type, "shape",
            shape_of(&rows[i]), "element_count", (unsigned long long)rows[i].element_count,
            "version", (unsigned long long)rows[i].version, "state_bytes",
            (unsigned long long)rows[i].state_bytes, "rule", rows[i].rule, "learning_rate",
            rows[i].learning_rate, "config", (const char *)config->bytes, (Py_ssize_t)size);
        int failed = row == NULL || PyList_Append(list, row) != 0;
        Py_XDECREF(row);
        if (failed)
            return -1;
    }
    return 0;
}

/* Page by page, each beginning after the last name of the one before. */
static PyObject *list_all(struct ps_python_client *self, uint32_t index, uint64_t timeout_ms,
                          struct page *page)
{
    /* Parameters may be added between two pages; each page is right for itself, and names that were
     * there from the beginning are in one of them. */
    PyObject *list = PyList_New(0);
    char after[sizeof page->rows->name] = "";
    int more = 1;
    /* A page that is empty ends the list whatever the server says of more: so this ends. */
    while (list != NULL && more) {
        struct psclient_error error;
        page->count = 0;
        PyThreadState *thread = ps_python_enter(self);
        int status =
            psclient_list_configs(self->client, index, after[0] != '\0' ? after : NULL, page->rows,
                                  page->configs, ROWS_MAX, &page->count, &more, timeout_ms, &error);
        ps_python_leave(self, thread);
        if (status != PSCLIENT_OK)
            ps_python_raise(self->state, status, error.text, NULL);
        if (status != PSCLIENT_OK || append_rows(list, page) != 0)
            Py_CLEAR(list);
        more = more && page->count > 0;
        /* Copied, since the next page overwrites the row. */
        if (page->count > 0)
            memcpy(after, page->rows[page->count - 1].name, sizeof after);
    }
    return list;
}

/* A row has room for the longest name: a page of them is too much for the stack. */
PyObject *ps_python_list(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    unsigned long index;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "kK:list", &index, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    struct page *page = PyMem_Calloc(1, sizeof *page);
    if (page == NULL)
        return PyErr_NoMemory();
    PyObject *list = list_all(self, (uint32_t)index, timeout_ms, page);
    PyMem_Free(page);
    return list;
}

/* Waits until the checkpoint is on the server's disk, which may take long for a large shard. */
PyObject *ps_python_save(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_saved saved;
    struct psclient_error error;
    unsigned long index;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "kK:save", &index, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_save(self->client, (uint32_t)index, timeout_ms, &saved, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    return Py_BuildValue("{sksssssKsK}", "index", index, "uuid", saved.uuid, "path", saved.path,
                         "position", (unsigned long long)saved.position, "bytes",
                         (unsigned long long)saved.bytes);
}

/* The checkpoints of a set that are there: all of them, or those that came in time. */
static PyObject *shards_of(const struct psclient_set *set)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < set->shard_count; i++) {
        const struct psclient_set_shard *from = &set->shards[i];
        /* A row of a set is empty until its shard is there: nothing is said of it here, since the
         * Python half's class has no word for a checkpoint that is not. */
        if (from->uuid[0] == '\0')
            continue;
        PyObject *row =
            Py_BuildValue("{sksssssKsK}", "index", (unsigned long)i, "uuid", from->uuid, "path",
                          from->path, "position", (unsigned long long)from->position, "bytes",
                          (unsigned long long)from->bytes);
        if (row == NULL || PyList_Append(list, row) != 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* A set that did not become whole in time is raised as any call whose outcome is unknown: the same
 * name asks again. The library's rows are given back in that case, too. */
PyObject *ps_python_save_model(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_set set = {0};
    struct psclient_error error;
    const char *name;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "zK:save_model", &name, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_save_model(self->client, name, timeout_ms, &set, &error);
    ps_python_leave(self, thread);
    /* Each of these may fail for want of memory, and leaves Python's own error then. The set was
     * taken all the same, and stays: the caller finds it under its name. */
    PyObject *shards = status == PSCLIENT_OK ? shards_of(&set) : NULL;
    PyObject *answer = NULL;
    if (status != PSCLIENT_OK)
        answer = ps_python_raise(self->state, status, error.text, NULL);
    else if (shards != NULL)
        answer = Py_BuildValue("(sON)", set.name, set.existed ? Py_True : Py_False, shards);
    psclient_set_release(&set);
    return answer;
}

/* Tuples here, since neither struct of these ever grows. */
static PyObject *rows_of(const struct psclient_last_applied *applied)
{
    PyObject *list = PyList_New(0);
    /* Rows that are many are made one by one: the list has no size that could be wrong. */
    for (size_t i = 0; list != NULL && i < applied->count; i++) {
        const struct psclient_applied *from = &applied->rows[i];
        PyObject *row = Py_BuildValue("(sKKK)", from->name, (unsigned long long)from->pushes,
                                      (unsigned long long)from->pushes_of_any,
                                      (unsigned long long)from->version);
        if (row == NULL || PyList_Append(list, row) != 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* The library's rows are copied and released at once, also when the copy failed. `known` and
 * `whole` are told apart by the Python half's class: a client that nobody knows has no rows, and
 * neither has one that has only initialised.
 *
 * From this answer on, pushes of an earlier process with the same client_id are refused; so the
 * Python half asks when its user says so, and never by itself. */
PyObject *ps_python_last_applied(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_last_applied applied = {0};
    struct psclient_error error;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "K:last_applied", &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_last_applied(self->client, timeout_ms, &applied, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    PyObject *rows = rows_of(&applied);
    PyObject *answer = rows != NULL ? Py_BuildValue("(OON)", applied.known ? Py_True : Py_False,
                                                    applied.whole ? Py_True : Py_False, rows)
                                    : NULL;
    psclient_last_applied_release(&applied);
    return answer;
}

/* All numbers are the caller's; the server judges whether they agree with those of the others. */
PyObject *ps_python_barrier(PyObject *object, PyObject *arguments)
{
    struct ps_python_client *self = (struct ps_python_client *)object;
    struct psclient_error error;
    const char *name;
    unsigned long long round;
    unsigned long member;
    unsigned long of;
    unsigned long long timeout_ms;
    if (!PyArg_ParseTuple(arguments, "sKkkK:barrier", &name, &round, &member, &of, &timeout_ms) ||
        !ps_python_client_check(self))
        return NULL;
    PyThreadState *thread = ps_python_enter(self);
    int status = psclient_barrier(self->client, name, round, (uint32_t)member, (uint32_t)of,
                                  timeout_ms, &error);
    ps_python_leave(self, thread);
    if (status != PSCLIENT_OK)
        return ps_python_raise(self->state, status, error.text, NULL);
    Py_RETURN_NONE;
}

/* Asks nobody: the library counts as it goes. The lock is kept, since this does not wait. */
PyObject *ps_python_counters(PyObject *object, PyObject *none)
{
    (void)none;
    struct ps_python_client *self = (struct ps_python_client *)object;
    if (!ps_python_client_check(self))
        return NULL;
    struct psclient_counters counters;
    psclient_get_counters(self->client, &counters);
    return Py_BuildValue(
        "{sKsKsKsKsKsKsIsIsI}", "retries", (unsigned long long)counters.retries, "resends",
        (unsigned long long)counters.resends, "duplicates", (unsigned long long)counters.duplicates,
        "feedback_bytes", (unsigned long long)counters.feedback_bytes, "shared_calls",
        (unsigned long long)counters.shared_calls, "shared_bytes",
        (unsigned long long)counters.shared_bytes, "tcp_servers", (unsigned)counters.tcp_servers,
        "unix_servers", (unsigned)counters.unix_servers, "shared_servers",
        (unsigned)counters.shared_servers);
}
