/* SPDX-License-Identifier: Apache-2.0 */
/* A loaded plugin of a device, as the library's own files see it (psclient_device.h).
 *
 * Threads:  constant once it is loaded.
 * Blocking: as optimizer/device_sharing.h says.
 * Errors:   as there.
 * Memory:   borrowed by whoever uses it.
 */
#ifndef PS_CLIENT_CLIENT_DEVICE_H
#define PS_CLIENT_CLIENT_DEVICE_H

#include "client/calls/call.h"
#include "optimizer/device_sharing.h"

struct psclient_device {
    const struct ps_device_sharing *sharing; /* of a library that is never unloaded */
};

/* The place that `memory` lies in. PS_ERR_UNSUPPORTED: it has no name. */
PS_MUST_USE enum ps_status ps_client_device_place(struct psclient_device *device,
                                                  const void *memory, struct ps_device_place *place,
                                                  struct ps_error *error);

#endif
