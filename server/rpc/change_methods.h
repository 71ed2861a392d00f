/* SPDX-License-Identifier: Apache-2.0 */
/* DefineParam, DropParam and ConfigureParam. Each waits twice: for the end of the initialisation,
 * as a pull does, and then until its record is as durable as the server promises.
 *
 * Threads:  that of the call's lane, or of the helper that has the call.
 * Blocking: never.
 * Errors:   in the answer.
 * Memory:   the answer's.
 */
#ifndef PS_SERVER_RPC_CHANGE_METHODS_H
#define PS_SERVER_RPC_CHANGE_METHODS_H

#include "server/rpc/unary_call.h"

enum ps_serve_progress ps_serve_define(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_drop(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_configure(struct ps_call_answer *answer);

/* ---- What every numbered change asks and waits for; the clocks' as well ---- */

/* May the caller change what has this name? Before anything is looked up. The id gets its caller.
 */
PS_MUST_USE enum ps_status ps_change_may(struct ps_call_answer *answer, struct ps_bytes name,
                                         struct ps_request_id *id);

/* The call was refused with answer->status: it waits if that is for the end of the initialisation
 * only. */
enum ps_serve_progress ps_change_await_ready(struct ps_call_answer *answer);

/* Asks the service for one change, and makes the reply but for what is durable. */
typedef enum ps_status (*ps_change_ask_fn)(struct ps_call_answer *answer);

/* Asks, once, and waits: for the end of the initialisation, as above, and then until the change is
 * as durable as the server promises. The reply says what is by then. */
enum ps_serve_progress ps_change_serve(struct ps_call_answer *answer, ps_change_ask_fn ask);

#endif
