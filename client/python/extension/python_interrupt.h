/* SPDX-License-Identifier: Apache-2.0 */
/* ctrl-C, and every other signal that has a handler in Python, while a thread is inside the
 * library.
 *
 * Threads:  each thread has its own; only Python's main thread ever runs handlers.
 * Blocking: for Python's lock.
 * Errors:   what a handler raises is raised by the call that it came in, in place of the call's own
 *           error. Where the answer came in the same moment, by the next instruction.
 * Memory:   an exception that is put off is owned here.
 */
#ifndef PS_PYTHON_INTERRUPT_H
#define PS_PYTHON_INTERRUPT_H

#include "python_state.h"

/* Around a call of the library: without Python's lock from enter to leave. */
PyThreadState *ps_python_interrupt_enter(void);
void ps_python_interrupt_leave(PyThreadState *thread);

/* For psclient_set_interrupted: lets handlers run. 1: one of them has raised something, and the
 * call is to end. 0 on every thread that is not between enter and leave. */
int ps_python_interrupted(void *none);

/* Raises what a handler raised during the call that has just ended; false: nothing was. */
bool ps_python_interrupt_raise(void);

#endif
