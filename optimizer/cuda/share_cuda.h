/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's memory between processes: CUDA's inter-process handles (cudaIpcGetMemHandle). They name
 * what cudaMalloc gave out, as a whole; memory that a program maps by itself (cuMemCreate, torch's
 * expandable segments) has none.
 *
 * Threads:  any.
 * Blocking: opening a handle, while the driver maps it.
 * Errors:   CUDA's numbers, taken out of the library: none of them is the answer to another call.
 * Memory:   a mapping, until unimport.
 */
#ifndef PS_OPTIMIZER_CUDA_SHARE_CUDA_H
#define PS_OPTIMIZER_CUDA_SHARE_CUDA_H

#include "optimizer/device/driver.h"

#include <cuda_runtime_api.h>

/* As in optimizer/device/driver.h, in the current device's context; `self` is not looked at. */
int ps_cuda_import(void *self, const struct ps_device_share *share, void **memory);
int ps_cuda_unimport(void *self, void *memory);

/* As nvidia-smi prints it; `size` is at least PS_DEVICE_UUID_BYTES. */
void ps_cuda_write_uuid(const struct cudaDeviceProp *properties, char *text, size_t size);

#endif
