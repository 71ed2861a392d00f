/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that come, go and are configured while the job trains: DefineParam, DropParam and
 * ConfigureParam. Each is one numbered request with one record in the journal, at one position, and
 * is acknowledged as a push at the server's own level is. None of them is a push: versions and
 * steps stay.
 *
 * The table changes with the cut held alone, so that no push, pull or snapshot sees a half of it.
 * Whoever holds something of the parameter beyond its call keeps what it holds: a pull that is
 * being sent, a version held for a reader, a snapshot. Pushes in ranges that are not whole are
 * forgotten with their parameter, and what was applied early under another configuration is applied
 * anew.
 *
 * Threads:  every function is safe from any thread.
 * Blocking: for locks; a definition or a drop on a device for that.
 * Errors:   said at each function. All three: PS_ERR_NOT_READY "pserver not fully initialized";
 *           PS_ERR_UNAVAILABLE, PS_ERR_NOT_OWNER, PS_ERR_STALE_SESSION, PS_ERR_ID_REUSED and
 *           PS_ERR_BUSY as a push. On any of them nothing has changed, but for PS_ERR_UNAVAILABLE:
 *           that may have been done, and will not survive.
 * Memory:   requests are borrowed for the call.
 */
#ifndef PS_SERVER_CORE_CHANGE_H
#define PS_SERVER_CORE_CHANGE_H

#include "server/core/requests/service.h"

/* A parameter more. reply->existed: an equal one was there; nothing changed, not even for its
 * request id. What was asked under an id that was applied is PS_OK. A range is staged as one of an
 * initialisation is. On PS_OK the reply may go when ps_service_acknowledge says so for `*wait`.
 *
 * PS_ERR_EXISTS     a different one is there; the text says what differs
 * PS_ERR_BAD_INPUT, PS_ERR_BUSY   as ps_service_init
 */
PS_MUST_USE enum ps_status ps_service_define(struct ps_service *service,
                                             const struct ps_init_request *request,
                                             struct ps_init_reply *reply, struct ps_push_wait *wait,
                                             struct ps_error *error);

/* What came of one of the other two. */
struct ps_changed {
    struct ps_change_reply reply; /* its configuration is borrowed from `spec` */
    struct ps_parameter_spec *spec;
};
void ps_changed_release(struct ps_changed *changed);

/* The parameter goes. PS_ERR_NOT_FOUND: it is not there. */
PS_MUST_USE enum ps_status ps_service_drop(struct ps_service *service,
                                           const struct ps_change_request *request,
                                           struct ps_changed *changed, struct ps_push_wait *wait,
                                           struct ps_error *error);

/* The parameter's configuration changes, from the next push on. A repeat is told the configuration
 * that holds then.
 *
 * PS_ERR_NOT_FOUND  it is not there
 * PS_ERR_BAD_INPUT  the change cannot be; the text says which number is not allowed or cannot
 * change
 */
PS_MUST_USE enum ps_status ps_service_configure(struct ps_service *service,
                                                const struct ps_change_request *request,
                                                struct ps_changed *changed,
                                                struct ps_push_wait *wait, struct ps_error *error);

#endif
