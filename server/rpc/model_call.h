/* SPDX-License-Identifier: Apache-2.0 */
/* What SaveModel does: a row of ps_unary_methods.
 *
 * Threads:  a call belongs to its lane's thread.
 * Blocking: never: a call that waits is parked.
 * Errors:   as unary_call.h.
 * Memory:   an inquiry of the call is released by the call.
 */
#ifndef PS_SERVER_RPC_MODEL_CALL_H
#define PS_SERVER_RPC_MODEL_CALL_H

#include "server/rpc/unary_call.h"

enum ps_serve_progress ps_serve_save_model(struct ps_call_answer *answer);

#endif
