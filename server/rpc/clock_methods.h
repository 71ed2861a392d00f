/* SPDX-License-Identifier: Apache-2.0 */
/* SetClocks, Clock and Progress. The first two wait as DefineParam does, for the end of the
 * initialisation and then for the disk; Progress waits for workers, as long as the request says.
 *
 * Threads:  that of the call's lane, or of the helper that has the call.
 * Blocking: never.
 * Errors:   in the answer.
 * Memory:   the answer's.
 */
#ifndef PS_SERVER_RPC_CLOCK_METHODS_H
#define PS_SERVER_RPC_CLOCK_METHODS_H

#include "server/rpc/unary_call.h"

enum ps_serve_progress ps_serve_set_clocks(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_clock(struct ps_call_answer *answer);
enum ps_serve_progress ps_serve_progress(struct ps_call_answer *answer);

#endif
