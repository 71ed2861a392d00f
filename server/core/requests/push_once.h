/* SPDX-License-Identifier: Apache-2.0 */
/* A push that is whole, in one piece or put together out of ranges: under a request id it is
 * applied once, and repeats are answered as it was.
 *
 * Threads:  any, with the cut held shared.
 * Blocking: for the parameter's lock and the sessions'.
 * Errors:   said at the functions.
 * Memory:   nothing is kept; contents are borrowed, or held by their ps_hold.
 */
#ifndef PS_SERVER_CORE_PUSH_ONCE_H
#define PS_SERVER_CORE_PUSH_ONCE_H

#include "server/core/requests/service_state.h"

/* What became of one push. */
struct ps_push_outcome {
    struct ps_push_reply reply;
    struct ps_device_due due; /* of the parameter: also a repeat waits for the first */
    bool wakes_writer;
    uint64_t noted;               /* what the session keeps as the position; 0: that of the reply */
    bool tells;                   /* whoever waits for a version is to be asked again */
    struct ps_pull *early_values; /* borrowed; where the caller wants those of a range, or NULL */
};

/* Applies the push, or contributes it to the parameter's round; a repeat of what its session
 * remembers changes nothing and gets that answer. Without a request id it is no repeat of anything.
 * `early` is what was applied of it as its ranges came (update.h), or NULL; it is committed instead
 * of the gradient where nothing has overtaken it. On a failure nothing was applied, and the id may
 * come again; PS_ERR_CONFLICT with `early`: all ranges have to. */
PS_MUST_USE enum ps_status ps_push_once(struct ps_service *service, struct ps_parameter *parameter,
                                        const struct ps_push_request *request,
                                        struct ps_update *early, struct ps_push_outcome *outcome,
                                        struct ps_error *error);

/* The answer to a repeat. */
struct ps_push_reply ps_push_repeated(struct ps_parameter *parameter,
                                      struct ps_session_answer answer);

/* Counts why an early update has failed; other statuses are not its end, and it may be committed
 * again. */
void ps_push_count_early(const struct ps_service *service, enum ps_status status);

#endif
