/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime library has handles, but cannot say where a piece begins and how long it is: that is
 * the driver's to tell (cuMemGetAddressRange), and is asked of it through the runtime, so that the
 * plugin loads where no driver is. */
#include "optimizer/cuda/share_cuda.h"

#include "optimizer/device/fault.h"

#include <stdio.h>
#include <string.h>

/* So many devices are remembered by their uuid. */
#define DEVICES_MAX 64

_Static_assert(sizeof(cudaIpcMemHandle_t) <= PS_DEVICE_HANDLE_BYTES, "a handle has room");

/* cuMemGetAddressRange, of the version that has 64-bit addresses (CUDA 3.2). */
typedef int address_range_fn(unsigned long long *base, size_t *size, unsigned long long address);

/* Written once each, with the same bytes whoever comes first. */
static char uuids[DEVICES_MAX][PS_DEVICE_UUID_BYTES];

/* An error that the library remembers would be the answer to somebody else's next call. */
static int heard(cudaError_t error)
{
    if (error != cudaSuccess)
        (void)cudaGetLastError();
    return (int)error;
}

/* In nvidia-smi's form, so that a log can be compared with it: both sides of a handle write it
 * here, and equal texts mean the same card. */
void ps_cuda_write_uuid(const struct cudaDeviceProp *properties, char *text, size_t size)
{
    /* Copied out of the library's array of plain chars, whose sign is the compiler's affair. */
    uint8_t bytes[16];
    memcpy(bytes, properties->uuid.bytes, sizeof bytes);
    int length = snprintf(text, size, "GPU-");
    for (size_t i = 0; i < sizeof bytes; i++) {
        /* 8-4-4-4-12, the form of every UUID. */
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        length += snprintf(text + length, size - (size_t)length, dash ? "-%02x" : "%02x", bytes[i]);
    }
}

/* Asked for each time: the library answers from a table of its own. */
static int range_of(const void *memory, uint8_t **base, size_t *size)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult known = cudaDriverEntryPointSymbolNotFound;
    unsigned long long begin = 0;
    int code = heard(cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &found, 3020,
                                                      cudaEnableDefault, &known));
    if (code != 0)
        return code;
    /* A driver that lacks a function of CUDA 3.2 is none. */
    if (known != cudaDriverEntryPointSuccess || found == NULL)
        return PS_FAULT_NO_DRIVER;
    /* C has no cast from an object's pointer to a function's; POSIX promises the same bytes. */
    address_range_fn *ask;
    memcpy(&ask, &found, sizeof ask);
    code = ask(&begin, size, (unsigned long long)(uintptr_t)memory);
    *base = (uint8_t *)(uintptr_t)begin;
    return code;
}

/* The size is the other process's word for it until the driver has said how much is there. */
int ps_cuda_import(void *self, const struct ps_device_share *share, void **memory)
{
    cudaIpcMemHandle_t handle;
    uint8_t *base = NULL;
    size_t size = 0;
    void *opened = NULL;
    (void)self;
    memcpy(&handle, share->handle, sizeof handle);
    /* Lazily: another card's memory is reached by peer access, if the machine has that. The uuid
     * was compared before, so that there is no other card yet. */
    int code = heard(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
    if (code != 0)
        return code;
    /* What is opened is the piece from its start, or the name was of something else. */
    code = range_of(opened, &base, &size);
    if (code == 0 && (base != opened || size < share->bytes))
        code = (int)cudaErrorInvalidValue;
    if (code == 0)
        *memory = opened;
    else
        (void)heard(cudaIpcCloseMemHandle(opened));
    return code;
}

/* Behind the last kernel that reads it: device_import.c has waited. */
int ps_cuda_unimport(void *self, void *memory)
{
    (void)self;
    return heard(cudaIpcCloseMemHandle(memory));
}

/* Properties take the library milliseconds, and a name is asked for with every push. */
static int uuid_of(int device, char text[PS_DEVICE_UUID_BYTES])
{
    struct cudaDeviceProp properties;
    if (device < 0 || device >= DEVICES_MAX)
        return PS_FAULT_INVALID_DEVICE;
    if (__atomic_load_n(&uuids[device][0], __ATOMIC_ACQUIRE) == '\0') {
        char made[PS_DEVICE_UUID_BYTES] = "";
        int code = heard(cudaGetDeviceProperties(&properties, device));
        if (code != 0)
            return code;
        ps_cuda_write_uuid(&properties, made, sizeof made);
        /* Its first byte last: who sees that sees the rest. */
        for (size_t i = sizeof made; i-- > 0;)
            __atomic_store_n(&uuids[device][i], made[i], __ATOMIC_RELEASE);
    }
    memcpy(text, uuids[device], PS_DEVICE_UUID_BYTES);
    return 0;
}

/* The thread's device is put back: it is the trainer's own thread. */
static int name_on(int device, const void *memory, struct ps_device_share *share, uint8_t **base)
{
    cudaIpcMemHandle_t handle;
    size_t size = 0;
    int before = 0;
    int code = heard(cudaGetDevice(&before));
    if (code == 0)
        code = heard(cudaSetDevice(device));
    if (code != 0)
        return code;
    code = range_of(memory, base, &size);
    if (code == 0)
        code = heard(cudaIpcGetMemHandle(&handle, *base));
    (void)heard(cudaSetDevice(before));
    if (code != 0)
        return code;
    memcpy(share->handle, &handle, sizeof handle);
    share->bytes = size;
    return uuid_of(device, share->device);
}

/* Managed memory and the host's have addresses that a kernel reaches, and no handle. */
int ps_driver_share_name(const void *memory, struct ps_device_share *share, uint8_t **base)
{
    /* Of any thread: it needs no device to be chosen. */
    struct cudaPointerAttributes attributes;
    int code = heard(cudaPointerGetAttributes(&attributes, memory));
    if (code != 0)
        return code;
    if (attributes.type != cudaMemoryTypeDevice)
        return (int)cudaErrorInvalidValue;
    return name_on(attributes.device, memory, share, base);
}

/* On the default stream, for which it waits; streams that were made without an order to that are
 * the caller's to wait for. */
int ps_driver_share_copy(void *to, const void *from, size_t size, enum ps_device_copy way)
{
    /* The kind is named, so that a wrong address is an error and not a guess. */
    bool is_out = way == PS_DEVICE_COPY_TO_HOST;
    return heard(
        cudaMemcpy(to, from, size, is_out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice));
}

/* With a driver that is a stub the first call says so, and not with a fault later. */
int ps_driver_share_acquire(size_t size, void **memory)
{
    uint32_t count = 0;
    int code = ps_driver_count(&count);
    return code != 0 ? code : heard(cudaMalloc(memory, size));
}

int ps_driver_share_release(void *memory)
{
    return heard(cudaFree(memory));
}
