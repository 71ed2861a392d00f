/* SPDX-License-Identifier: Apache-2.0 */
/* For test_python_copies.py, by LD_PRELOAD: counts the bytes that memcpy and memmove copy in pieces
 * of 4 KiB and more, in all threads. The kernel's copies, to and from sockets, are not seen. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

uint64_t copied_bytes(void);

static atomic_uint_fast64_t copied;
static void *(*real_memmove)(void *, const void *, size_t);

__attribute__((constructor)) static void find_real(void)
{
    real_memmove = (void *(*)(void *, const void *, size_t))dlsym(RTLD_NEXT, "memmove");
}

uint64_t copied_bytes(void)
{
    return atomic_load(&copied);
}

void *memmove(void *target, const void *source, size_t size)
{
    if (size >= 4096)
        atomic_fetch_add(&copied, size);
    if (real_memmove != NULL)
        return real_memmove(target, source, size);
    volatile unsigned char *to = target; /* before the library is ready, forwards will do */
    for (size_t i = 0; i < size; i++)
        to[i] = ((const unsigned char *)source)[i];
    return target;
}

void *memcpy(void *restrict target, const void *restrict source, size_t size)
{
    return memmove(target, source, size);
}
