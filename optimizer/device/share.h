/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's words for memory that is handed to other processes, as optimizer/device_sharing.h
 * says them: numbers become statuses and texts.
 *
 * Threads:  any.
 * Blocking: as the driver does.
 * Errors:   as in optimizer/device_sharing.h.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_DEVICE_SHARE_CALLS_H
#define PS_OPTIMIZER_DEVICE_SHARE_CALLS_H

#include "optimizer/device_sharing.h"

PS_MUST_USE enum ps_status ps_share_name(const void *memory, struct ps_device_share *share,
                                         uint8_t **base, struct ps_error *error);
PS_MUST_USE enum ps_status ps_share_copy(void *to, const void *from, size_t size,
                                         enum ps_device_copy way, struct ps_error *error);
PS_MUST_USE enum ps_status ps_share_acquire(size_t size, void **memory, struct ps_error *error);
void ps_share_release(void *memory);

#endif
