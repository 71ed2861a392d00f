/* SPDX-License-Identifier: Apache-2.0 */
/* Each piece is mapped twice: as addresses that nobody can touch, which stand for the device's, and
 * as bytes. A list of them says which belongs to which. The list is the process's, as a card's
 * memory is. */
#include "optimizer/emulator/emulated_share.h"

#include "base/assert.h"
#include "base/thread.h"
#include "optimizer/device/driver.h"
#include "optimizer/device/fault.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* CUDA's number for a handle, or a pointer, that is none. */
#define INVALID_VALUE 1

enum { PIECES_MAX = 2048, PAGE_BYTES = 4096 };

struct piece {
    uint8_t *address; /* NULL: the place is free */
    uint8_t *bytes;
    size_t size;
    int file; /* -1: it is another process's */
};

/* How a handle is read by another process of this machine. */
struct handle {
    int64_t process;
    int64_t file;
    uint64_t inode; /* the descriptor's number may be another file's by now */
};
_Static_assert(sizeof(struct handle) <= PS_DEVICE_HANDLE_BYTES, "a handle has room");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece pieces[PIECES_MAX];

static int map(int file, size_t size, bool is_own, void **address);
static int forget(void *address);

/* Under the lock; NULL: none. */
static struct piece *piece_of(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    for (size_t i = 0; i < PIECES_MAX; i++) {
        uintptr_t begin = (uintptr_t)pieces[i].address;
        if (begin != 0 && at >= begin && at - begin < pieces[i].size)
            return &pieces[i];
    }
    return NULL;
}

/* As a card's allocator, which gives out more than was asked for: a name is of whole pages. */
static size_t whole_pages(size_t size)
{
    return (size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* The second mapping takes no memory: it keeps the addresses from being anybody else's. */
static int map(int file, size_t size, bool is_own, void **address)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void *shown = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct piece *free_piece = NULL;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; free_piece == NULL && i < PIECES_MAX; i++)
        free_piece = pieces[i].address == NULL ? &pieces[i] : NULL;
    bool made = bytes != MAP_FAILED && shown != MAP_FAILED && free_piece != NULL;
    if (made)
        *free_piece = (struct piece){shown, bytes, size, is_own ? file : -1};
    (void)pthread_mutex_unlock(&lock);
    if (made) {
        *address = shown;
        return 0;
    }
    if (bytes != MAP_FAILED)
        (void)munmap(bytes, size);
    if (shown != MAP_FAILED)
        (void)munmap(shown, size);
    return PS_FAULT_OUT_OF_MEMORY;
}

/* An address that is none, or is in the middle of a piece, is refused, as CUDA refuses it. */
static int forget(void *address)
{
    (void)pthread_mutex_lock(&lock);
    struct piece *piece = piece_of(address);
    struct piece was = {.file = -1};
    if (piece != NULL && piece->address == address) {
        was = *piece;
        *piece = (struct piece){0};
    }
    (void)pthread_mutex_unlock(&lock);
    if (was.address == NULL)
        return INVALID_VALUE;
    /* Outside of the lock: nobody finds it any more. */
    (void)munmap(was.bytes, was.size);
    (void)munmap(was.address, was.size);
    if (was.file >= 0)
        (void)close(was.file);
    return 0;
}

/* Under the lock only as long as the list is looked at: whoever uses the bytes has imported them,
 * and lets go behind its last use. */
void *ps_emulated_bytes(const void *address)
{
    (void)pthread_mutex_lock(&lock);
    const struct piece *piece = piece_of(address);
    uint8_t *bytes = (uint8_t *)(uintptr_t)address;
    if (piece != NULL)
        bytes = piece->bytes + ((const uint8_t *)address - piece->address);
    (void)pthread_mutex_unlock(&lock);
    return bytes;
}

/* What the runtime gives imported addresses to: copies, looks and updates. Whatever else it gave
 * one to would end with a fault, which is what tests are to see. */
void ps_emulated_find(struct ps_stream_work *work)
{
    struct ps_cuda_gradient *gradient = NULL;
    if (work->kind == PS_WORK_COPY) {
        work->to = ps_emulated_bytes(work->to);
        work->from = ps_emulated_bytes(work->from);
    } else if (work->kind == PS_WORK_APPLY) {
        gradient = &work->apply.run.gradient;
    } else if (work->kind == PS_WORK_SCAN) {
        gradient = &work->scan.run.gradient;
    }
    if (gradient != NULL)
        gradient->elements = ps_emulated_bytes(gradient->elements);
}

/* ---- Another process's ---- */

/* The file is opened by the name that the kernel gives it while its process lives. Of a process
 * that may not be looked at, or has gone, there is none. As on a card a process cannot open what is
 * its own. */
int ps_emulated_import(void *self, const struct ps_device_share *share, void **memory)
{
    struct handle handle;
    struct stat now;
    char path[64];
    (void)self;
    memcpy(&handle, share->handle, sizeof handle);
    if (handle.process <= 0 || handle.process == (int64_t)getpid() || handle.file < 0)
        return INVALID_VALUE;
    /* The kernel's own name for the file, under which only its user's processes and root find it.
     * */
    (void)snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)handle.process,
                   (long long)handle.file);
    int file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return INVALID_VALUE;
    int code = INVALID_VALUE;
    /* A name that promises more than there is would be read past its end. */
    if (fstat(file, &now) == 0 && (uint64_t)now.st_ino == handle.inode && S_ISREG(now.st_mode) &&
        share->bytes > 0 && share->bytes <= (uint64_t)now.st_size)
        code = map(file, whole_pages((size_t)share->bytes), false, memory);
    (void)close(file);
    return code;
}

/* Other processes keep the bytes: a memory file lasts as long as somebody has mapped it. */
int ps_emulated_unimport(void *self, void *memory)
{
    (void)self;
    return forget(memory);
}

/* ---- This process's ---- */

/* Garbage, as in all of the device's memory that nobody has written yet. */
int ps_driver_share_acquire(size_t size, void **memory)
{
    size_t pages = whole_pages(size);
    uint32_t count = 0;
    int code = ps_driver_count(&count);
    if (code != 0)
        return code;
    /* Not sealed: nobody but this process changes its size. */
    int file = memfd_create("pserver-emulated", MFD_CLOEXEC);
    if (file < 0)
        return PS_FAULT_OUT_OF_MEMORY;
    code = ftruncate(file, (off_t)pages) == 0 ? map(file, pages, true, memory)
                                              : PS_FAULT_OUT_OF_MEMORY;
    if (code != 0)
        (void)close(file);
    else
        memset(ps_emulated_bytes(*memory), 0xa5, pages);
    return code;
}

/* Whoever has imported it keeps the bytes; on a card that would be undefined, so that no program
 * may rely on it. */
int ps_driver_share_release(void *memory)
{
    return forget(memory);
}

/* The inode makes the name that of this file and of no later one: the kernel gives it to another
 * file only when this one has ended, and then under another device's memory file. Of imported
 * memory there is no name, as on a card, where only the maker's handle counts. */
int ps_driver_share_name(const void *memory, struct ps_device_share *share, uint8_t **base)
{
    struct handle handle = {.process = getpid(), .file = -1};
    struct stat now;
    (void)pthread_mutex_lock(&lock);
    const struct piece *piece = piece_of(memory);
    if (piece != NULL) {
        handle.file = piece->file;
        *base = piece->address;
        share->bytes = piece->size;
    }
    (void)pthread_mutex_unlock(&lock);
    if (handle.file < 0 || fstat((int)handle.file, &now) != 0)
        return INVALID_VALUE;
    handle.inode = (uint64_t)now.st_ino;
    (void)snprintf(share->device, sizeof share->device, "%s", PS_EMULATED_UUID);
    memcpy(share->handle, &handle, sizeof handle);
    return 0;
}

/* The way says which side has to be the device's: a program that confuses them is told. */
int ps_driver_share_copy(void *to, const void *from, size_t size, enum ps_device_copy way)
{
    const uint8_t *address = way == PS_DEVICE_COPY_TO_HOST ? from : to;
    const uint8_t *last = address + size - 1;
    /* Both ends in one piece, or a card would refuse it. */
    if (ps_emulated_bytes(address) == address ||
        (uint8_t *)ps_emulated_bytes(last) - (uint8_t *)ps_emulated_bytes(address) !=
            last - address)
        return INVALID_VALUE;
    memcpy(ps_emulated_bytes(to), ps_emulated_bytes(from), size);
    return 0;
}
