/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU as a machine for the kernel suite, by calls of CUDA's runtime library alone. Everything is
 * in the default stream, in which the suite launches. */
#include "gpu_machine.h"

#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>

/* What memory is full of that nobody has written yet. */
#define GARBAGE 0xa5

static void must(cudaError_t error, const char *action)
{
    if (error == cudaSuccess)
        return;
    printf("%s: %s (%d)\n", action, cudaGetErrorName(error), (int)error);
    exit(EXIT_FAILURE);
}

static void *acquire_exact(size_t bytes)
{
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return NULL;
    }
    must(error, "cudaMalloc");
    return memory;
}

static void release_exact(void *memory)
{
    must(cudaFree(memory), "cudaFree");
}

/* From the device's pool, which is a hundred times as fast as an allocation. */
static void *acquire_pooled(size_t bytes)
{
    void *memory = NULL;
    cudaError_t error = cudaMallocAsync(&memory, bytes > 0 ? bytes : 1, NULL);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return NULL;
    }
    must(error, "cudaMallocAsync");
    must(cudaMemsetAsync(memory, GARBAGE, bytes, NULL), "cudaMemsetAsync");
    return memory;
}

static void release_pooled(void *memory)
{
    if (memory != NULL)
        must(cudaFreeAsync(memory, NULL), "cudaFreeAsync");
}

static void write_memory(void *memory, const void *from, size_t bytes)
{
    if (bytes > 0)
        must(cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice), "copying to the device");
}

static void read_memory(const void *memory, void *to, size_t bytes)
{
    must(cudaDeviceSynchronize(), "waiting for the kernels");
    if (bytes > 0)
        must(cudaMemcpy(to, memory, bytes, cudaMemcpyDeviceToHost), "copying to the host");
}

static const struct kernel_machine exact_machine = {.name = "the GPU",
                                                    .acquire = acquire_exact,
                                                    .release = release_exact,
                                                    .write = write_memory,
                                                    .read = read_memory};
static const struct kernel_machine pooled_machine = {.name = "the GPU",
                                                     .acquire = acquire_pooled,
                                                     .release = release_pooled,
                                                     .write = write_memory,
                                                     .read = read_memory};

/* The pool keeps what is released to it. False when this device has none. */
static bool keep_pool(void)
{
    int pools = 0;
    cudaMemPool_t pool = NULL;
    uint64_t everything = UINT64_MAX;
    must(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0), "asking for a pool");
    if (pools == 0)
        return false;
    must(cudaDeviceGetDefaultMemPool(&pool, 0), "asking for the pool");
    must(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything),
         "keeping the pool's memory");
    return true;
}

const struct kernel_machine *gpu_machine_open(bool exact)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        printf("no device: %s (%d)\n", cudaGetErrorName(error), (int)error);
        return NULL;
    }
    must(cudaSetDevice(0), "selecting device 0");
    return exact || !keep_pool() ? &exact_machine : &pooled_machine;
}
