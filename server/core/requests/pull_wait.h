/* SPDX-License-Identifier: Apache-2.0 */
/* Pulls that wait for what other clients bring: a version of the parameter that is still to come.
 * Only pulls wait so. A push is applied or put by and answered, so that the calls that would end a
 * wait are never behind it.
 *
 * Who waits is written down nowhere: a pull that has to wait leaves a mark for its topic, and a
 * change that finds the mark takes it away and tells the topic. Whoever is asked then and waits
 * again leaves another mark. Without a mark a change costs one load.
 *
 * Threads:  any.
 * Blocking: for the parameter's lock.
 * Errors:   said at each function.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_PULL_WAIT_H
#define PS_SERVER_CORE_PULL_WAIT_H

#include "server/core/requests/contribute.h"
#include "server/core/requests/service_state.h"

/* May the pull be answered from the parameter as it is? With the cut held. A pull that names the
 * version that it goes on with (request->version) has waited before.
 *
 * Of a parameter that is trained in rounds a look may end one: `effects` are to be done without the
 * cut. A version that a round made is told when its record is durable: whoever trains on from it
 * would else contribute, after a crash, to a round that is not open.
 *
 * PS_ERR_NOT_READY  not yet: `*wait` says when to ask again, the text what is missing
 */
PS_MUST_USE enum ps_status
ps_pull_wait_check(struct ps_service *service, struct ps_parameter *parameter,
                   const struct ps_pull_request *request, struct ps_pull_wait *wait,
                   struct ps_round_effects *effects, struct ps_error *error);

/* May what the pull holds by now be told? With the cut held since the check, which was of the
 * version of that moment: another round may have ended since, and what is held is of that one.
 *
 * PS_ERR_NOT_READY  not yet: as above; what is held is to be let go of
 */
PS_MUST_USE enum ps_status ps_pull_wait_check_held(struct ps_service *service,
                                                   struct ps_parameter *parameter,
                                                   const struct ps_pull_request *request,
                                                   struct ps_pull_wait *wait,
                                                   struct ps_error *error);

/* Leaves the mark of a name, and returns the topic of which its waiters are told. Before the look
 * that decides, or under a lock that whoever changes takes as well. */
uint32_t ps_pull_await_name(struct ps_service *service, struct ps_bytes name);

/* What has this name has changed: whoever waits for it is to be asked again. After the change, and
 * without any lock. */
void ps_pull_wait_tell(struct ps_service *service, struct ps_bytes name);

#endif
