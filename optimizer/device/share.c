/* SPDX-License-Identifier: Apache-2.0 */
/* Which kind of failure a driver's number is matters to a trainer: memory that cannot be named is
 * copied to the host and pushed from there, and a driver that is missing is said. */
#include "optimizer/device/share.h"

#include "base/assert.h"
#include "optimizer/device/driver.h"
#include "optimizer/device/fault.h"

/* A driver that is not there fails every call alike; anything else is about this memory. */
static enum ps_status failed(int code, const char *action, struct ps_error *error)
{
    /* Not PS_ERR_BAD_INPUT: the address is good, only this way of passing it on is not. */
    enum ps_status status = PS_ERR_UNSUPPORTED;
    PS_ASSERT(code != 0);
    if (code == PS_FAULT_NO_DRIVER || code == PS_FAULT_STUB_LIBRARY || code == PS_FAULT_NO_DEVICE)
        status = PS_ERR_UNAVAILABLE;
    else if (code == PS_FAULT_OUT_OF_MEMORY)
        status = PS_ERR_NO_MEMORY;
    return ps_fail(error, status, "%s a device's memory: %s (%d)", action,
                   ps_driver_error_name(code), code);
}

/* Whatever stands behind the name of the device goes over a socket: it is zeroed first. */
enum ps_status ps_share_name(const void *memory, struct ps_device_share *share, uint8_t **base,
                             struct ps_error *error)
{
    /* Also on a failure: nothing of a former name is left. */
    *share = (struct ps_device_share){0};
    if (memory == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "no memory to be named");
    int code = ps_driver_share_name(memory, share, base);
    if (code != 0)
        return failed(code, "naming", error);
    PS_ASSERT(share->bytes > 0);
    PS_ASSERT(*base <= (const uint8_t *)memory);
    return PS_OK;
}

/* Of no bytes nothing is asked. */
enum ps_status ps_share_copy(void *to, const void *from, size_t size, enum ps_device_copy way,
                             struct ps_error *error)
{
    PS_ASSERT(way == PS_DEVICE_COPY_TO_HOST || way == PS_DEVICE_COPY_FROM_HOST);
    PS_ASSERT(size == 0 || (to != NULL && from != NULL));
    int code = size > 0 ? ps_driver_share_copy(to, from, size, way) : 0;
    return code != 0 ? failed(code, "copying", error) : PS_OK;
}

/* Of the driver's first device, or the one that the thread has chosen. */
enum ps_status ps_share_acquire(size_t size, void **memory, struct ps_error *error)
{
    /* What a driver says to a piece of nothing differs between drivers. */
    if (size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a piece of no bytes");
    int code = ps_driver_share_acquire(size, memory);
    return code != 0 ? failed(code, "asking for", error) : PS_OK;
}

/* Nobody is told of a failure: the memory goes with the process at the latest. */
void ps_share_release(void *memory)
{
    if (memory != NULL)
        (void)ps_driver_share_release(memory);
}
