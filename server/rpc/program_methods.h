/* SPDX-License-Identifier: Apache-2.0 */
/* Ask, Take, Answer and ListApps. Ask waits for a program, Take for workers; the others never wait.
 * An Ask whose app has a handler in this process is handled on the thread that serves it.
 *
 * Threads:  that of the call's lane, or of the helper that has the call.
 * Blocking: never, but for what handlers do.
 * Errors:   in the answer.
 * Memory:   the answer's.
 */
#ifndef PS_SERVER_RPC_PROGRAM_METHODS_H
#define PS_SERVER_RPC_PROGRAM_METHODS_H

#include "server/rpc/unary_call.h"

enum ps_serve_progress ps_serve_ask(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_take(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_answer(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_apps(struct ps_call_answer *answer);

/* The call would have to wait, and is answered instead, by a status that refuses. Where a program
 * has the request, or may get it yet, that becomes one that proves nothing. */
void ps_ask_refuse_to_wait(struct ps_call_answer *answer);

/* What the call has of programs is given back. Twice is allowed. */
void ps_program_call_release(struct ps_call_answer *answer);

#endif
