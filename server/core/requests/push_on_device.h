/* SPDX-License-Identifier: Apache-2.0 */
/* Is a gradient that lies in a device's memory applied from there (ps_push_request.on_device)?
 *
 * Threads:  any; the check with the cut held.
 * Blocking: for the cut.
 * Errors:   said at the function.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_PUSH_ON_DEVICE_H
#define PS_SERVER_CORE_PUSH_ON_DEVICE_H

#include "server/core/requests/service.h"

struct ps_parameter;

/* Would this push, whose content is an address of the device, be applied without the host's
 * looking at it? False: give it as the host's. */
bool ps_service_reads_device(struct ps_service *service, const struct ps_push_request *request);

/* The same with the cut held. PS_ERR_UNAVAILABLE: not any more. */
PS_MUST_USE enum ps_status ps_service_check_on_device(const struct ps_service *service,
                                                      const struct ps_parameter *parameter,
                                                      const struct ps_push_request *request,
                                                      struct ps_error *error);

/* What tells this push from another under its id (fingerprint.h). Of a gradient that the host
 * cannot read it has nothing. */
uint32_t ps_service_fingerprint(const struct ps_push_request *request);

#endif
