/* SPDX-License-Identifier: Apache-2.0 */
/* A handler may raise while the library still waits, and an exception must not be set while other
 * code of Python runs: so it is taken off, and raised when the call has ended. A call that fails
 * raises it in place of its own error. Of one that succeeded after all Python is asked to raise it
 * as soon as the call has returned: the result is lost then, as that of any call is during which
 * ctrl-C was pressed. */
#include "python_interrupt.h"

/* Of each thread, since several may be inside the library. */
struct interrupt {
    PyThreadState *inside;              /* NULL: not in a call, or a handler runs */
    PyObject *type, *value, *traceback; /* owned; of what a handler raised. `type` NULL: nothing */
};
static _Thread_local struct interrupt current;

PyThreadState *ps_python_interrupt_enter(void)
{
    current.inside = PyEval_SaveThread();
    return current.inside;
}

/* On Python's main thread, behind the call. What the call's own failure has raised is gone. */
static int raise_pending(void *none)
{
    (void)none;
    return ps_python_interrupt_raise() ? -1 : 0;
}

/* Of a full queue nothing is lost: the exception stays, and the next call asks again. */
void ps_python_interrupt_leave(PyThreadState *thread)
{
    current.inside = NULL;
    PyEval_RestoreThread(thread);
    if (current.type != NULL)
        (void)Py_AddPendingCall(raise_pending, NULL);
}

/* A handler may call the library again, on this thread: it finds one that is in no call. */
int ps_python_interrupted(void *none)
{
    (void)none;
    if (current.inside == NULL || current.type != NULL)
        return current.type != NULL;
    PyEval_RestoreThread(current.inside);
    current.inside = NULL;
    if (PyErr_CheckSignals() != 0)
        PyErr_Fetch(&current.type, &current.value, &current.traceback);
    current.inside = PyEval_SaveThread();
    return current.type != NULL;
}

bool ps_python_interrupt_raise(void)
{
    struct interrupt raised = current;
    if (raised.type == NULL)
        return false;
    current.type = current.value = current.traceback = NULL;
    PyErr_Restore(raised.type, raised.value, raised.traceback);
    return true;
}
