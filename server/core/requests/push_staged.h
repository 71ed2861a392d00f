/* SPDX-License-Identifier: Apache-2.0 */
/* A push that comes in ranges.
 *
 * Threads:  any, with the cut held shared.
 * Blocking: for the staging's lock and the parameter's.
 * Errors:   said at the function.
 * Memory:   the content is kept by its ps_hold until the push is whole (staging.h).
 */
#ifndef PS_SERVER_CORE_PUSH_STAGED_H
#define PS_SERVER_CORE_PUSH_STAGED_H

#include "server/core/requests/push_once.h"

/* Puts a range, which ps_service_check_push_range has passed, to the others of its request. The
 * last one is answered as the whole, the others as `staged`; a range of what was applied before as
 * that was. Where the caller wants the values that the range makes (`early_values`), they are given
 * when they are there already. PS_ERR_BAD_INPUT, and what staging and ps_push_once refuse. */
PS_MUST_USE enum ps_status ps_push_staged(struct ps_service *service,
                                          struct ps_parameter *parameter,
                                          const struct ps_push_request *request,
                                          struct ps_push_outcome *outcome, struct ps_error *error);

#endif
