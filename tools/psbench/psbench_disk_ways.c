/* SPDX-License-Identifier: Apache-2.0 */
/* Appending with fdatasync, and direct writes. Plain system calls in the folder in which the server
 * keeps its journal, so that a quotient shows what the server adds. The file for direct writes is
 * written once before anything is timed: a block that was never written costs the file system a
 * change of its own records, and the figure would be about that. */
#include "tools/psbench/psbench_disk_ways.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Longer than the path of any private folder, which the guard bounds. */
#define PATH_BYTES 1024

/* One way of writing under measurement. */
struct writing {
    struct ps_bench_disk *disk; /* borrowed */
    int file;
    size_t size;        /* of each write */
    uint64_t offset;    /* of the next write */
    uint64_t unused_ns; /* spent on what is not the disk's, to be left out of the time */
    const char *name;   /* of the file, for messages */
};

static bool takes_direct(const struct ps_bench_disk *disk, int file);
static enum ps_status open_used_file(struct ps_bench_disk *disk, struct ps_error *error);
static enum ps_status write_for(struct writing *writing, bool (*once)(struct writing *writing),
                                uint64_t time_ms, struct ps_bench_figures *figures,
                                struct ps_error *error);
static bool append_once(struct writing *writing);
static bool write_direct_once(struct writing *writing);
static bool write_all(int file, const uint8_t *bytes, size_t size, uint64_t offset);
static void path_of(const struct ps_bench_disk *disk, const char *name, char path[PATH_BYTES]);
static enum ps_status failed_at(const char *path, struct ps_error *error);

/* Direct writes want their memory aligned like their place in the file, so the buffer has a block
 * to spare. Zeros might be stored as a hole or compressed away. */
enum ps_status ps_bench_disk_open(struct ps_bench_disk *disk, const char *folder,
                                  uint64_t file_bytes, struct ps_error *error)
{
    uint64_t writes = (file_bytes + PS_BENCH_DISK_WRITE_MAX - 1) / PS_BENCH_DISK_WRITE_MAX;
    size_t bytes = PS_BENCH_DISK_WRITE_MAX + PS_FILE_DIRECT_BYTES;
    *disk = (struct ps_bench_disk){.folder = folder, .file = -1};
    disk->file_bytes = (writes > 0 ? writes : 1) * PS_BENCH_DISK_WRITE_MAX;
    disk->memory = ps_plain(ps_allocator_heap(), bytes);
    if (disk->memory == NULL) {
        ps_bench_disk_close(disk);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
    }
    memset(disk->memory, 0xa5, bytes);
    /* The address of the first whole block in it. */
    size_t beyond = (uintptr_t)disk->memory % PS_FILE_DIRECT_BYTES;
    disk->content = disk->memory + (PS_FILE_DIRECT_BYTES - beyond) % PS_FILE_DIRECT_BYTES;
    enum ps_status status = open_used_file(disk, error);
    if (status != PS_OK)
        ps_bench_disk_close(disk);
    return status;
}

/* The folder is asked first, since tmpfs takes the flag without a word and writes to memory all the
 * same. A file system that refuses the flag or the first write is one without direct writes and not
 * a failure; a disk that is full while the file is written is one. */
static enum ps_status open_used_file(struct ps_bench_disk *disk, struct ps_error *error)
{
    char path[PATH_BYTES];
    path_of(disk, "disk-used", path);
    disk->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_DIRECT | O_DSYNC | O_CLOEXEC, 0600);
    bool refused = disk->file < 0 && errno == EINVAL;
    if (disk->file < 0 && !refused)
        return failed_at(path, error);
    /* Some file systems only say no when the first write comes. */
    refused = refused || !takes_direct(disk, disk->file) ||
              (!write_all(disk->file, disk->content, PS_FILE_DIRECT_BYTES, 0) && errno == EINVAL);
    if (refused) {
        (void)snprintf(disk->why_not, sizeof disk->why_not,
                       "this file system has no direct writes of %d bytes", PS_FILE_DIRECT_BYTES);
        if (disk->file >= 0)
            (void)close(disk->file);
        (void)unlink(path);
        disk->file = -1;
        return PS_OK;
    }
    /* Zeros would do for the file system; the disk below might not keep them. */
    for (uint64_t offset = 0; offset < disk->file_bytes; offset += PS_BENCH_DISK_WRITE_MAX) {
        if (!write_all(disk->file, disk->content, PS_BENCH_DISK_WRITE_MAX, offset))
            return failed_at(path, error);
    }
    return PS_OK;
}

/* Kernels before 6.1 do not answer the question, and tmpfs never does. Of all file systems it is
 * the one that takes the flag without a word; any other is asked by the first write. */
static bool takes_direct(const struct ps_bench_disk *disk, int file)
{
    PS_ASSERT(disk->folder != NULL);
#ifdef STATX_DIOALIGN
    struct statx facts;
    if (statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 &&
        (facts.stx_mask & STATX_DIOALIGN) != 0)
        return facts.stx_dio_offset_align > 0 &&
               facts.stx_dio_offset_align <= PS_FILE_DIRECT_BYTES &&
               facts.stx_dio_mem_align <= PS_FILE_DIRECT_BYTES;
#endif
    struct statfs system;
    return fstatfs(file, &system) != 0 || (uint32_t)system.f_type != TMPFS_MAGIC;
}

/* The file goes at once, not with the folder: a run may go on for minutes, and others use the
 * disk. */
void ps_bench_disk_close(struct ps_bench_disk *disk)
{
    if (disk->folder == NULL)
        return;
    char path[PATH_BYTES];
    path_of(disk, "disk-used", path);
    if (disk->file >= 0) {
        (void)close(disk->file);
        (void)unlink(path);
    }
    ps_release(ps_allocator_heap(), disk->memory);
    *disk = (struct ps_bench_disk){0};
}

/* A new file in each measurement: it grows with every write, so each sync also writes its new
 * length. The folder is the run's own, so the name is free; whatever happens to this process, the
 * folder is removed with all that is in it. */
enum ps_status ps_bench_disk_append(struct ps_bench_disk *disk, size_t size, uint64_t time_ms,
                                    struct ps_bench_figures *figures, struct ps_error *error)
{
    PS_ASSERT(size <= PS_BENCH_DISK_WRITE_MAX);
    char path[PATH_BYTES];
    path_of(disk, "disk-alone", path);
    struct writing writing = {.disk = disk, .size = size, .name = "disk-alone"};
    writing.file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (writing.file < 0)
        return failed_at(path, error);
    enum ps_status status = write_for(&writing, append_once, time_ms, figures, error);
    (void)close(writing.file);
    (void)unlink(path);
    return status;
}

/* At its bound the file is emptied and grows again; the time that takes is not the writes'. */
static bool append_once(struct writing *writing)
{
    if (writing->offset + writing->size > writing->disk->file_bytes) {
        uint64_t before_ns = ps_clock_precise_ns();
        if (ftruncate(writing->file, 0) != 0 || fdatasync(writing->file) != 0)
            return false;
        writing->offset = 0;
        writing->unused_ns += ps_clock_precise_ns() - before_ns;
    }
    return write_all(writing->file, writing->disk->content, writing->size, writing->offset) &&
           fdatasync(writing->file) == 0;
}

/* The file was opened so that each write is durable when it returns. */
enum ps_status ps_bench_disk_direct(struct ps_bench_disk *disk, size_t size, uint64_t time_ms,
                                    struct ps_bench_figures *figures, struct ps_error *error)
{
    PS_ASSERT(size <= PS_BENCH_DISK_WRITE_MAX && size % PS_FILE_DIRECT_BYTES == 0);
    if (disk->file < 0)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "%s", disk->why_not);
    struct writing writing = {.disk = disk, .file = disk->file, .size = size, .name = "disk-used"};
    return write_for(&writing, write_direct_once, time_ms, figures, error);
}

/* Never beyond the end, where blocks would have to be found first. Behind the last write comes the
 * first again: blocks far from those written last, which a cache of the disk may still hold. */
static bool write_direct_once(struct writing *writing)
{
    if (writing->offset + writing->size > writing->disk->file_bytes)
        writing->offset = 0;
    return write_all(writing->file, writing->disk->content, writing->size, writing->offset);
}

/* A push that waits for the disk waits for one such write at least. Memory for the times is taken
 * before the clock starts. The lowest count is for slow disks, on which not even three writes fit
 * into the time. What is not the disk's part comes off the time of its write as well. */
static enum ps_status write_for(struct writing *writing, bool (*once)(struct writing *writing),
                                uint64_t time_ms, struct ps_bench_figures *figures,
                                struct ps_error *error)
{
    struct ps_bench_times *times = ps_zeroed(ps_allocator_heap(), sizeof *times);
    if (times == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for times");
    uint64_t started_ns = ps_clock_precise_ns();
    uint64_t now_ns = started_ns;
    uint64_t count = 0;
    bool whole = true;
    while (whole && (count < PS_BENCH_REFERENCE_COUNT_MIN ||
                     now_ns < started_ns + writing->unused_ns + time_ms * 1000000)) {
        uint64_t unused_ns = writing->unused_ns;
        whole = once(writing);
        writing->offset += writing->size;
        uint64_t then_ns = now_ns;
        now_ns = ps_clock_precise_ns();
        ps_bench_times_note(times, now_ns - then_ns - (writing->unused_ns - unused_ns));
        count++;
    }
    *figures = ps_bench_figures_of(count, now_ns - started_ns - writing->unused_ns, times);
    ps_release(ps_allocator_heap(), times);
    return whole ? PS_OK : failed_at(writing->name, error);
}

/* A signal or a full pipe of the kernel may cut a write short. A write of 0 bytes is taken for a
 * failure, or a full disk would be tried for ever. */
static bool write_all(int file, const uint8_t *bytes, size_t size, uint64_t offset)
{
    while (size > 0) {
        ssize_t put = pwrite(file, bytes, size, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        bytes += put;
        offset += (uint64_t)put;
        size -= (size_t)put;
    }
    return true;
}

/* In the run's own folder, where no file of a server has these names. */
static void path_of(const struct ps_bench_disk *disk, const char *name, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/%s", disk->folder, name);
}

/* errno is taken at once, before anything else can change it. */
static enum ps_status failed_at(const char *path, struct ps_error *error)
{
    return ps_fail(error, PS_ERR_IO, "%s: %s", path, strerror(errno));
}
