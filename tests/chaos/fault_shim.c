/* SPDX-License-Identifier: Apache-2.0 */
/* A preloaded library that makes a process's disk fail when told, without root. The environment
 * variable PS_FAULT_SHIM names a file of one byte, which says what happens to regular files from
 * now on (standard input, output and error are left alone):
 *
 *     '0'  nothing special
 *     's'  fsync and fdatasync fail with EIO
 *     'w'  writes fail with EIO
 *     'f'  writes fail with ENOSPC, the first half of each having been written; of a file that is
 *          written past the cache (O_DIRECT) whole blocks, as a disk does that fills up
 *     'd'  fsync and fdatasync take 50 ms longer
 *     'z'  writes take 300 ms and then fail with EIO
 *     'c'  fsync fails with EIO for checkpoints, but not for the journal
 *     'k'  the process is killed instead of its next write
 *     'm'  the process is killed instead of its next fsync or fdatasync
 *     'a'  the process is killed when its next fsync or fdatasync is done
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define BLOCK_BYTES ((size_t)4096)
#define DELAY_MS 50
#define STALL_MS 300

static const char *control(void)
{
    static const char *byte;
    static const char none = '0';
    const char *mapped = __atomic_load_n(&byte, __ATOMIC_ACQUIRE);
    if (mapped != NULL)
        return mapped;
    const char *path = getenv("PS_FAULT_SHIM");
    int descriptor = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    mapped = &none;
    if (descriptor >= 0) {
        void *page = mmap(NULL, 1, PROT_READ, MAP_SHARED, descriptor, 0);
        if (page != MAP_FAILED)
            mapped = page;
        (void)close(descriptor);
    }
    __atomic_store_n(&byte, mapped, __ATOMIC_RELEASE);
    return mapped;
}

/* What is to happen to this descriptor now. */
static char fault_of(int descriptor)
{
    char fault = __atomic_load_n(control(), __ATOMIC_RELAXED);
    struct stat info;
    if (fault == '0' || descriptor <= 2 || fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode))
        return '0';
    return fault;
}

static void *next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL)
        abort();
    return function;
}

/* Function pointers come from dlsym as void *; a union converts them without a warning. */
#define NEXT(type, name) \
    union {              \
        void *object;    \
        type;            \
    } real = {.object = next(name)};

static bool is_checkpoint(int descriptor)
{
    static const char ending[] = ".safetensors.tmp";
    char link[64], path[4096];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path);
    ssize_t ending_size = (ssize_t)sizeof ending - 1;
    return size >= ending_size &&
           memcmp(path + size - ending_size, ending, (size_t)ending_size) == 0;
}

/* As kill -9 would, at this very point. */
static void die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

static int sync_with(int descriptor, const char *name)
{
    NEXT(int (*call)(int), name)
    char fault = fault_of(descriptor);
    if (fault == 'd')
        (void)poll(NULL, 0, DELAY_MS);
    if (fault == 's' || (fault == 'c' && is_checkpoint(descriptor))) {
        errno = EIO;
        return -1;
    }
    if (fault == 'm')
        die();
    int result = real.call(descriptor);
    if (fault == 'a')
        die();
    return result;
}

EXPORT int fsync(int descriptor)
{
    return sync_with(descriptor, "fsync");
}

EXPORT int fdatasync(int descriptor)
{
    return sync_with(descriptor, "fdatasync");
}

/* Half of a write. Past the cache an odd half would be refused with EINVAL, and the process would
 * go on through the cache. */
static size_t half_of(int descriptor, size_t size)
{
    int flags = fcntl(descriptor, F_GETFL);
    bool direct = flags >= 0 && (flags & O_DIRECT) != 0;
    return direct ? size / 2 / BLOCK_BYTES * BLOCK_BYTES : size / 2;
}

/* 0: write as told; otherwise how many bytes may still be written, or -1 with errno set. */
static ssize_t room_for(int descriptor, size_t size)
{
    char fault = fault_of(descriptor);
    if (fault == 'k')
        die();
    if (fault != 'w' && fault != 'f' && fault != 'z')
        return 0;
    size_t half = fault == 'f' ? half_of(descriptor, size) : 0;
    if (half > 0)
        return (ssize_t)half;
    if (fault == 'z')
        (void)poll(NULL, 0, STALL_MS);
    errno = fault == 'f' ? ENOSPC : EIO;
    return -1;
}

EXPORT ssize_t write(int descriptor, const void *data, size_t size)
{
    NEXT(ssize_t(*call)(int, const void *, size_t), "write")
    ssize_t room = room_for(descriptor, size);
    return room < 0 ? room : real.call(descriptor, data, room > 0 ? (size_t)room : size);
}

EXPORT ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset)
{
    NEXT(ssize_t(*call)(int, const void *, size_t, off_t), "pwrite")
    ssize_t room = room_for(descriptor, size);
    return room < 0 ? room : real.call(descriptor, data, room > 0 ? (size_t)room : size, offset);
}

EXPORT ssize_t writev(int descriptor, const struct iovec *pieces, int count)
{
    NEXT(ssize_t(*call)(int, const struct iovec *, int), "writev")
    ssize_t room = room_for(descriptor, count > 1 ? 2 : 1);
    return room < 0 ? room : real.call(descriptor, pieces, room > 0 ? 1 : count);
}

EXPORT ssize_t pwritev(int descriptor, const struct iovec *pieces, int count, off_t offset)
{
    NEXT(ssize_t(*call)(int, const struct iovec *, int, off_t), "pwritev")
    ssize_t room = room_for(descriptor, count > 1 ? 2 : 1);
    return room < 0 ? room : real.call(descriptor, pieces, room > 0 ? 1 : count, offset);
}
