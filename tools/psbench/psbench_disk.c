/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, reading and forgetting files, without a server between. A recovery is held against
 * reading the same files with a checksum, done with plain system calls in the file system that the
 * server uses. No cleverness is added, so that the quotient shows what the server adds or saves. */
#include "tools/psbench/psbench_disk.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "checkpoint/checksum.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* As much as a recovery reads at a time. */
#define READ_BYTES ((size_t)1 << 20)

struct reading {
    uint8_t *buffer;
    uint64_t bytes;
    uint32_t checksum;
};

static int by_name(const FTSENT **left, const FTSENT **right);
static bool ends_with(const char *path, const char *ending);
static enum ps_status add_file(struct ps_bench_files *files, const char *path,
                               struct ps_error *error);
static enum ps_status read_one(struct reading *reading, const char *path, struct ps_error *error);
static enum ps_status forget_one(const char *path, struct ps_error *error);
static enum ps_status failed_at(const char *path, struct ps_error *error);

/* Below a data folder the files stand two or three levels deep, by job and shard. Links are not
 * followed: below a data folder there are none. */
enum ps_status ps_bench_disk_find(const char *folder, const char *ending,
                                  struct ps_bench_files *files, struct ps_error *error)
{
    /* fts takes the path without const and does not write to it. */
    char *const roots[] = {(char *)(uintptr_t)folder, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (walk == NULL)
        return failed_at(folder, error);
    enum ps_status status = PS_OK;
    FTSENT *entry = NULL;
    while (status == PS_OK && (entry = fts_read(walk)) != NULL) {
        if (entry->fts_info == FTS_F && ends_with(entry->fts_path, ending))
            status = add_file(files, entry->fts_path, error);
    }
    (void)fts_close(walk);
    return status;
}

/* Without an order, which of two journal segments comes first would depend on the file system. The
 * names of journal segments are hexadecimal and padded, so the order of names is that of
 * positions. */
static int by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

/* By the ending, since names of segments and checkpoints begin with numbers. */
static bool ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), size = strlen(ending);
    return length >= size && strcmp(path + length - size, ending) == 0;
}

/* A fixed list keeps the file names out of what is measured. */
static enum ps_status add_file(struct ps_bench_files *files, const char *path,
                               struct ps_error *error)
{
    if (files->count == PS_BENCH_FILES_MAX || strlen(path) >= PS_BENCH_FILE_PATH_MAX)
        return ps_fail(error, PS_ERR_OUT_OF_RANGE, "more than %d files, or a path too long: %s",
                       PS_BENCH_FILES_MAX, path);
    (void)snprintf(files->paths[files->count++], PS_BENCH_FILE_PATH_MAX, "%s", path);
    return PS_OK;
}

/* A recovery cannot be faster than reading its bytes and summing them once, in one thread. The time
 * covers opening the files as well, as a recovery's does. */
enum ps_status ps_bench_disk_read(const struct ps_bench_files *files, uint64_t *bytes,
                                  uint64_t *taken_ns, struct ps_error *error)
{
    struct reading reading = {.buffer = ps_plain(ps_allocator_heap(), READ_BYTES)};
    if (reading.buffer == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for reading");
    uint64_t started_ns = ps_clock_precise_ns();
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < files->count && status == PS_OK; i++)
        status = read_one(&reading, files->paths[i], error);
    *taken_ns = ps_clock_precise_ns() - started_ns;
    *bytes = reading.bytes;
    ps_release(ps_allocator_heap(), reading.buffer);
    return status;
}

/* CRC-32C, the sum that checkpoints and the journal are checked with. The file is opened anew in
 * each run; the kernel's cache decides whether its bytes come from the disk, which is what --cache
 * chooses. */
static enum ps_status read_one(struct reading *reading, const char *path, struct ps_error *error)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return failed_at(path, error);
    ssize_t got = 0;
    while ((got = read(file, reading->buffer, READ_BYTES)) > 0) {
        reading->checksum =
            ps_checksum_crc32c(reading->checksum, (struct ps_bytes){reading->buffer, (size_t)got});
        reading->bytes += (uint64_t)got;
    }
    enum ps_status status = got < 0 ? failed_at(path, error) : PS_OK;
    (void)close(file);
    return status;
}

/* The next reading is then the disk's; without it a "cold" figure would be memory's. */
enum ps_status ps_bench_disk_forget(const struct ps_bench_files *files, struct ps_error *error)
{
    for (size_t i = 0; i < files->count; i++)
        PS_TRY(forget_one(files->paths[i], error));
    return PS_OK;
}

/* Only clean pages are forgotten, so what is not written yet is
 * written first. The kernel may refuse without saying so; the read afterwards then shows a rate
 * that no disk has. */
static enum ps_status forget_one(const char *path, struct ps_error *error)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return failed_at(path, error);
    enum ps_status status = PS_OK;
    if (fdatasync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
        status = failed_at(path, error);
    (void)close(file);
    return status;
}

/* errno is taken at once, before anything else can change it. */
static enum ps_status failed_at(const char *path, struct ps_error *error)
{
    return ps_fail(error, PS_ERR_IO, "%s: %s", path, strerror(errno));
}
