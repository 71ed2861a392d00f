/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a piece of a device's memory, by which another process of this machine can open it.
 * Whole pieces are named, as the device's allocator gave them out. Two names of one piece are equal
 * byte by byte; a piece that takes the place of another has another name.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   in place.
 */
#ifndef PS_BASE_DEVICE_SHARE_H
#define PS_BASE_DEVICE_SHARE_H

#include <stdint.h>

#define PS_DEVICE_UUID_BYTES 48
#define PS_DEVICE_HANDLE_BYTES 64

struct ps_device_share {
    uint64_t bytes;                         /* of the piece */
    char device[PS_DEVICE_UUID_BYTES];      /* its uuid, as people read it; zeros behind it */
    uint8_t handle[PS_DEVICE_HANDLE_BYTES]; /* the driver's; says nothing to others */
};

#endif
