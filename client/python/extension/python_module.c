/* SPDX-License-Identifier: Apache-2.0 */
/* The module `pserver._pserver`: libpsclient as Python objects, in the thinnest form that is
 * safe. Names, types of results and words for people are made by the Python half
 * (client/python/pserver), which registers three functions here.
 *
 * What is in C is what has to be: buffers that are held while the library uses them, waiting
 * without Python's lock, and structs of psclient.h, which the compiler checks against the header
 * here and which Python could only declare once more. */
#include "python_interrupt.h"
#include "python_programs.h"

/* Python keeps the state beside the module, so that two interpreters of one process have one each:
 * there is no global here. */
struct ps_python_state *ps_python_state_of(PyTypeObject *type)
{
    return PyType_GetModuleState(type);
}

/* The class of the exception and its words are chosen by the Python half, which knows the hints. It
 * registers its function right after the import; a failure before that has no better class than
 * RuntimeError. */
PyObject *ps_python_raise(struct ps_python_state *state, int status, const char *text,
                          PyObject *items)
{
    if (ps_python_interrupt_raise()) {
        Py_XDECREF(items);
        return NULL;
    }
    if (items == NULL)
        items = PyList_New(0);
    if (items == NULL)
        return NULL;
    if (state->make_error == NULL) {
        Py_DECREF(items);
        return PyErr_Format(PyExc_RuntimeError, "%s", text);
    }
    /* An exception in making the exception is raised in its place. */
    PyObject *error = PyObject_CallFunction(state->make_error, "isN", status, text, items);
    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return NULL;
}

/* Types are made at run time, and not laid out here as structs: the limited interface does not show
 * how a type is built, which is what makes one binary fit all versions. */
PyTypeObject *ps_python_make_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyModule_AddType(module, type) != 0)
        Py_CLEAR(type);
    return type;
}

/* The former function goes first: its end may run Python code, which finds no hook rather than one
 * that is being freed. */
static void set_hook(PyObject **hook, PyObject *function)
{
    Py_CLEAR(*hook);
    *hook = Py_NewRef(function);
}

/* Registered together, since the extension is of no use with some of them. */
static PyObject *set_hooks(PyObject *module, PyObject *arguments)
{
    struct ps_python_state *state = PyModule_GetState(module);
    PyObject *as_source;
    PyObject *as_target;
    PyObject *make_error;
    if (!PyArg_ParseTuple(arguments, "OOO:set_hooks", &as_source, &as_target, &make_error))
        return NULL;
    set_hook(&state->as_source, as_source);
    set_hook(&state->as_target, as_target);
    set_hook(&state->make_error, make_error);
    Py_RETURN_NONE;
}

/* Called in the child of a fork. The clients of the parent have another number from then on: their
 * threads and connections are not here. */
static PyObject *note_fork(PyObject *module, PyObject *none)
{
    (void)none;
    struct ps_python_state *state = PyModule_GetState(module);
    state->forks++;
    Py_RETURN_NONE;
}

/* The words of psctl and of the manual, for results of single items. */
static PyObject *status_name(PyObject *module, PyObject *arguments)
{
    (void)module;
    int status;
    if (!PyArg_ParseTuple(arguments, "i:status_name", &status))
        return NULL;
    return PyUnicode_FromString(psclient_status_name((enum psclient_status)status));
}

/* Functions of the module. What works on servers is a method of a client. */
static PyMethodDef methods[] = {
    {"set_hooks", set_hooks, METH_VARARGS, "set_hooks(as_source, as_target, make_error)"},
    {"note_fork", note_fork, METH_NOARGS, "note_fork(): this process is a child"},
    {"status_name", status_name, METH_VARARGS, "status_name(status) -> str"},
    {NULL, NULL, 0, NULL}};

/* Runs once for each interpreter that imports the module. A type that could not be made leaves the
 * others to clear_state. */
static int add_types(PyObject *module)
{
    struct ps_python_state *state = PyModule_GetState(module);
    state->client_type = ps_python_make_type(module, &ps_python_client_spec);
    state->operation_type = ps_python_make_type(module, &ps_python_operation_spec);
    state->replica_type = ps_python_make_type(module, &ps_python_replica_spec);
    state->table_replica_type = ps_python_make_type(module, &ps_python_table_replica_spec);
    state->table_type = ps_python_make_type(module, &ps_python_table_spec);
    state->ahead_type = ps_python_make_type(module, &ps_python_ahead_spec);
    state->customer_type = ps_python_make_type(module, &ps_python_customer_spec);
    state->serving_type = ps_python_make_type(module, &ps_python_serving_spec);
    state->batch_type = ps_python_make_type(module, &ps_python_batch_spec);
    state->piece_type = ps_python_make_type(module, &ps_python_piece_spec);
    state->rendezvous_type = ps_python_make_type(module, &ps_python_rendezvous_spec);
    state->value_type = ps_python_make_type(module, &ps_python_value_spec);
    if (state->customer_type == NULL || state->serving_type == NULL || state->batch_type == NULL ||
        state->piece_type == NULL || state->rendezvous_type == NULL || state->value_type == NULL)
        return -1;
    if (state->client_type == NULL || state->operation_type == NULL ||
        state->replica_type == NULL || state->table_replica_type == NULL ||
        state->table_type == NULL || state->ahead_type == NULL)
        return -1;
    return PyModule_AddStringConstant(module, "VERSION", PSCLIENT_VERSION);
}

/* For the collector of cycles: the hooks are functions of a module that refers to this one. */
static int visit_state(PyObject *module, visitproc visit, void *arg)
{
    struct ps_python_state *state = PyModule_GetState(module);
    Py_VISIT(state->client_type);
    Py_VISIT(state->operation_type);
    Py_VISIT(state->replica_type);
    Py_VISIT(state->table_replica_type);
    Py_VISIT(state->table_type);
    Py_VISIT(state->ahead_type);
    Py_VISIT(state->customer_type);
    Py_VISIT(state->serving_type);
    Py_VISIT(state->batch_type);
    Py_VISIT(state->piece_type);
    Py_VISIT(state->rendezvous_type);
    Py_VISIT(state->value_type);
    Py_VISIT(state->as_source);
    Py_VISIT(state->as_target);
    Py_VISIT(state->make_error);
    return 0;
}

/* Called by the collector, and when the module ends; each may come after the other. */
static int clear_state(PyObject *module)
{
    struct ps_python_state *state = PyModule_GetState(module);
    Py_CLEAR(state->client_type);
    Py_CLEAR(state->operation_type);
    Py_CLEAR(state->replica_type);
    Py_CLEAR(state->table_replica_type);
    Py_CLEAR(state->table_type);
    Py_CLEAR(state->ahead_type);
    Py_CLEAR(state->customer_type);
    Py_CLEAR(state->serving_type);
    Py_CLEAR(state->batch_type);
    Py_CLEAR(state->piece_type);
    Py_CLEAR(state->rendezvous_type);
    Py_CLEAR(state->value_type);
    Py_CLEAR(state->as_source);
    Py_CLEAR(state->as_target);
    Py_CLEAR(state->make_error);
    return 0;
}

/* In two phases (PEP 489), so that the module may be made once for each interpreter. */
static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_types}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        .m_name = "pserver._pserver",
                                        .m_doc = "libpsclient, for the package pserver.",
                                        .m_size = sizeof(struct ps_python_state),
                                        .m_methods = methods,
                                        .m_slots = slots,
                                        .m_traverse = visit_state,
                                        .m_clear = clear_state};

/* The one name that the binary shows (python.map). No header has it: Python finds it by its
 * name. */
PyMODINIT_FUNC PyInit__pserver(void);

/* Only describes the module; add_types fills it. So Python can make it again in another
 * interpreter. */
PyMODINIT_FUNC PyInit__pserver(void)
{
    return PyModuleDef_Init(&definition);
}
