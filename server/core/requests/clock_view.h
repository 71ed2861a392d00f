/* SPDX-License-Identifier: Apache-2.0 */
/* Progress: how far the workers of some clocks are, or which clocks there are.
 *
 * Threads:  every function is safe from any thread.
 * Blocking: for locks.
 * Errors:   said at each function, and as ps_service_set_clocks.
 * Memory:   a view is a copy, to be released.
 */
#ifndef PS_SERVER_CORE_CLOCK_VIEW_H
#define PS_SERVER_CORE_CLOCK_VIEW_H

#include "proto/clock_messages.h"
#include "server/core/requests/service.h"

/* How far the workers are. */
struct ps_clock_view {
    struct ps_progress_reply reply; /* borrows from the rest */
    struct ps_worker_clock *workers;
    struct ps_bytes *names;
    char *texts; /* of the names */
};

/* PS_ERR_NOT_READY   the minimum is below request->at_least, and the caller is not late: `*wait`
 *                    says for what to wait; or the shard is not initialised
 * PS_ERR_NOT_FOUND   no such clocks
 * PS_ERR_NO_MEMORY
 *
 * On PS_OK end it with ps_clock_view_release. */
PS_MUST_USE enum ps_status ps_service_progress(struct ps_service *service,
                                               const struct ps_progress_request *request,
                                               bool is_late, struct ps_clock_view *view,
                                               struct ps_pull_wait *wait, struct ps_error *error);
void ps_clock_view_release(struct ps_service *service, struct ps_clock_view *view);

#endif
