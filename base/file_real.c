/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's file system behind the interface of base/file.h.
 *
 * Durability rests on four habits of this file. Data is synced with fdatasync before a name points
 * at it, a new name is durable only after an fsync of its folder, a sync counts only while the file
 * system behind it still answers, and an error of any is reported and never tried again on the same
 * descriptor: Linux marks the pages clean after a failed writeback, so a second sync would report
 * success for data that is lost. */
#include "base/assert.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* One write(2) moves at most this much; the kernel's own limit is just below 2 GiB. */
#define WRITE_BYTES_MAX ((size_t)1 << 30)

/* Only what callers decide on has a status of its own; a full disk and a broken one are the same to
 * them, and the errno's words are in the text for people. */
static enum ps_status fail_with_errno(struct ps_error *error, const char *verb, const char *path)
{
    enum ps_status status = errno == ENOENT   ? PS_ERR_NOT_FOUND
                            : errno == EEXIST ? PS_ERR_EXISTS
                                              : PS_ERR_IO;
    return ps_fail(error, status, "%s %s: %s", verb, path, strerror(errno));
}

/* The same for an open file. The interface passes no path to write and sync, so the kernel is asked
 * for it: an operator who reads "No space left on device" must learn which folder is meant. errno
 * is saved first, because readlink overwrites it. */
static enum ps_status fail_on_file(struct ps_error *error, const char *verb, struct ps_file file)
{
    int reason = errno;
    char link[64];
    char path[256] = "file";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%lld", (long long)file.handle);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size >= 0)
        path[size] = '\0';
    return ps_fail(error, PS_ERR_IO, "%s %s: %s", verb, path, strerror(reason));
}

/* Whatever is read from its start as often as one likes is a file here; a folder says so itself
 * when it is read. */
static bool is_pipe(int descriptor)
{
    struct stat about;
    return fstat(descriptor, &about) == 0 &&
           (S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode) || S_ISSOCK(about.st_mode));
}

static enum ps_status real_open(void *self, const char *path, enum ps_file_mode mode,
                                struct ps_file *file, struct ps_error *error)
{
    (void)self;
    /* O_EXCL for what must be new: the name of a checkpoint or journal is made once, and an
     * existing file under it belongs to somebody else or to a crash. Every descriptor closes on
     * exec. */
    static const int flags[] = {
        [PS_FILE_READ] = O_RDONLY,
        [PS_FILE_CREATE_NEW] = O_WRONLY | O_CREAT | O_EXCL,
        [PS_FILE_CREATE_DIRECT] = O_WRONLY | O_CREAT | O_EXCL | O_DIRECT,
        [PS_FILE_REUSE] = O_WRONLY,
        [PS_FILE_REUSE_DIRECT] = O_WRONLY | O_DIRECT,
        [PS_FILE_APPEND] = O_WRONLY | O_CREAT | O_APPEND,
    };
    /* Without waiting: a pipe that somebody put under the name of a checkpoint would keep the
     * opener until another process writes to it. Of a file the flag says nothing. */
    int descriptor = open(path, flags[mode] | O_CLOEXEC | O_NONBLOCK, 0640);
    /* Not every file system can; some say so only after they have made the file, which O_EXCL would
     * then refuse. */
    if (descriptor < 0 && errno == EINVAL && (flags[mode] & O_DIRECT) != 0)
        descriptor =
            open(path, (flags[mode] & ~(O_DIRECT | O_EXCL)) | O_CLOEXEC | O_NONBLOCK, 0640);
    if (descriptor < 0)
        return fail_with_errno(error, "open", path);
    if (mode == PS_FILE_READ && is_pipe(descriptor)) {
        PS_ASSERT(flags[mode] != O_WRONLY);
        (void)close(descriptor);
        return ps_fail(error, PS_ERR_CORRUPT, "%s is a pipe or a device, not a file", path);
    }
    file->handle = descriptor;
    return PS_OK;
}

/* After a read or write was refused: can the call be repeated? EINVAL from a file opened with
 * O_DIRECT means that the address, offset or size of this piece does not fit the disk's blocks,
 * which is normal for the last piece of a checkpoint and for what a nearly full disk left of a
 * write. The flag is then cleared for good: going back and forth between the cache and the device
 * for one file is slow on every file system. A file that is written over loses nothing by that: the
 * system reads the rest of a block before it changes a part. EINVAL after the flag was cleared is a
 * real error and must not loop. */
static bool may_try_again(struct ps_file file, bool *cleared)
{
    if (errno == EINTR)
        return true;
    int descriptor = (int)file.handle;
    int flags = errno == EINVAL && !*cleared ? fcntl(descriptor, F_GETFL) : -1;
    *cleared = true;
    return flags >= 0 && fcntl(descriptor, F_SETFL, flags & ~O_DIRECT) == 0;
}

static enum ps_status real_write(void *self, struct ps_file file, struct ps_bytes bytes,
                                 struct ps_error *error)
{
    (void)self;
    bool cleared = false;
    while (bytes.size > 0) {
        size_t part = bytes.size < WRITE_BYTES_MAX ? bytes.size : WRITE_BYTES_MAX;
        ssize_t wrote = write((int)file.handle, bytes.data, part);
        /* A write may be short (a signal, a nearly full disk), which is not an error; the rest is
         * written by the next turn, and a disk that is really full then says so through errno. */
        if (wrote < 0 && may_try_again(file, &cleared))
            continue;
        if (wrote < 0)
            return fail_on_file(error, "write", file);
        bytes.data += wrote;
        bytes.size -= (size_t)wrote;
    }
    return PS_OK;
}

/* Pieces that one writev(2) takes; far below the system's IOV_MAX. */
#define PIECES_AT_ONCE 256

/* Fills `vectors` from the cursor, and returns how many it took. */
static size_t take_vectors(struct ps_view_cursor *cursor, struct iovec vectors[PIECES_AT_ONCE])
{
    size_t count = 0;
    while (count < PIECES_AT_ONCE) {
        /* The bound per piece keeps the sum of all vectors below the kernel's limit for one
         * call. */
        struct ps_bytes piece = ps_view_next(cursor, WRITE_BYTES_MAX / PIECES_AT_ONCE);
        if (piece.size == 0)
            break;
        /* The cast drops const: iovec serves readv as well. writev does not write to it. */
        vectors[count].iov_base = (void *)(uintptr_t)piece.data;
        vectors[count++].iov_len = piece.size;
    }
    return count;
}

/* A journal record is its header and the message's slices, each where gRPC received it: one call
 * for 256 of them instead of a copy into one piece or a call for each. */
static enum ps_status real_write_view(void *self, struct ps_file file, struct ps_view view,
                                      struct ps_error *error)
{
    bool cleared = false;
    struct ps_view_cursor cursor = {.view = view};
    struct iovec vectors[PIECES_AT_ONCE];
    for (size_t count = take_vectors(&cursor, vectors); count > 0;
         count = take_vectors(&cursor, vectors)) {
        ssize_t wrote = writev((int)file.handle, vectors, (int)count);
        /* Nothing was written: the whole round then goes through real_write below, piece by
         * piece. */
        if (wrote < 0 && may_try_again(file, &cleared))
            wrote = 0;
        if (wrote < 0)
            return fail_on_file(error, "write", file);
        /* The rest of a short write goes piece by piece: it is rare. */
        for (size_t i = 0; i < count; i++) {
            size_t done = (size_t)wrote < vectors[i].iov_len ? (size_t)wrote : vectors[i].iov_len;
            wrote -= (ssize_t)done;
            struct ps_bytes rest = {(const uint8_t *)vectors[i].iov_base + done,
                                    vectors[i].iov_len - done};
            if (rest.size > 0)
                PS_TRY(real_write(self, file, rest, error));
        }
    }
    return PS_OK;
}

/* pwrite leaves the file's own position alone, so that appending goes on where it was. */
static enum ps_status real_write_over(void *self, struct ps_file file, uint64_t offset,
                                      struct ps_bytes bytes, struct ps_error *error)
{
    (void)self;
    bool cleared = false;
    while (bytes.size > 0) {
        size_t part = bytes.size < WRITE_BYTES_MAX ? bytes.size : WRITE_BYTES_MAX;
        ssize_t wrote = pwrite((int)file.handle, bytes.data, part, (off_t)offset);
        if (wrote < 0 && may_try_again(file, &cleared))
            continue;
        if (wrote < 0)
            return fail_on_file(error, "write", file);
        bytes.data += wrote;
        bytes.size -= (size_t)wrote;
        offset += (uint64_t)wrote;
    }
    return PS_OK;
}

static enum ps_status real_read(void *self, struct ps_file file, uint64_t offset, void *destination,
                                size_t size, size_t *got, struct ps_error *error)
{
    (void)self;
    bool cleared = false;
    size_t done = 0;
    while (done < size) {
        ssize_t part = pread((int)file.handle, (char *)destination + done, size - done,
                             (off_t)(offset + done));
        if (part < 0 && may_try_again(file, &cleared))
            continue;
        if (part < 0)
            return fail_on_file(error, "read", file);
        /* The end of the file, not an error: a torn journal ends wherever the power failed, and the
         * reader judges the short piece by its checksum. */
        if (part == 0)
            break;
        done += (size_t)part;
    }
    *got = done;
    return PS_OK;
}

/* A checkpoint read at recovery would otherwise push the pages out of memory that are used. */
static void real_forget(void *self, struct ps_file file, uint64_t offset, uint64_t size)
{
    (void)self;
    /* A size of 0 would be the whole file. What the system makes of it is its own affair. */
    if (size > 0)
        (void)posix_fadvise((int)file.handle, (off_t)offset, (off_t)size, POSIX_FADV_DONTNEED);
}

static enum ps_status real_size(void *self, struct ps_file file, uint64_t *size,
                                struct ps_error *error)
{
    (void)self;
    struct stat facts;
    if (fstat((int)file.handle, &facts) != 0)
        return fail_on_file(error, "stat", file);
    *size = (uint64_t)facts.st_size;
    return PS_OK;
}

/* The new end is durable with the next sync, as everything that was written is. */
static enum ps_status real_cut(void *self, struct ps_file file, uint64_t size,
                               struct ps_error *error)
{
    (void)self;
    PS_ASSERT(size <= INT64_MAX);
    if (ftruncate((int)file.handle, (off_t)size) != 0)
        return fail_on_file(error, "cut", file);
    return PS_OK;
}

/* The kernel gives a lease for writing only to who alone has the file open or mapped, and tells
 * whoever has one, by a signal, when somebody else opens the file: by one here that does nothing
 * when nobody has asked for it. The lease is given back at once. */
static bool real_is_alone(void *self, struct ps_file file)
{
    (void)self;
    int descriptor = (int)file.handle;
    struct stat facts;
    PS_ASSERT(descriptor >= 0);
    /* Another name may be a backup's, made to keep what the file has. */
    if (fstat(descriptor, &facts) != 0 || facts.st_nlink != 1 ||
        fcntl(descriptor, F_SETSIG, SIGURG) != 0 || fcntl(descriptor, F_SETLEASE, F_WRLCK) != 0)
        return false;
    (void)fcntl(descriptor, F_SETLEASE, F_UNLCK);
    return true;
}

/* XFS that shuts itself down after an I/O error forgets what was not in its log yet, and then fsync
 * of a folder finds nothing left to do and says success: a rename of before was acknowledged and
 * lost. fdatasync has the same gap behind its own look. Every other call on such a file system
 * fails, so a sync counts when one succeeds behind it; this one costs less than a microsecond. */
static bool has_not_shut_down(int descriptor)
{
    struct stat facts;
    return fstat(descriptor, &facts) == 0;
}

/* fdatasync writes the length, too, when it changed (it is needed to find the data), and saves the
 * journal's second write for the times of the inode, which nobody reads. */
static enum ps_status real_sync(void *self, struct ps_file file, struct ps_error *error)
{
    (void)self;
    if (fdatasync((int)file.handle) != 0 || !has_not_shut_down((int)file.handle))
        return fail_on_file(error, "sync", file);
    return PS_OK;
}

static void real_close(void *self, struct ps_file file)
{
    (void)self;
    /* What must be durable was synced before; nothing is left for close to report. */
    (void)close((int)file.handle);
}

/* Both names must be in one file system; all of ours are in one folder. */
static enum ps_status real_rename(void *self, const char *from, const char *to,
                                  struct ps_error *error)
{
    (void)self;
    if (rename(from, to) != 0)
        return fail_with_errno(error, "rename to", to);
    return PS_OK;
}

static enum ps_status real_remove(void *self, const char *path, struct ps_error *error)
{
    (void)self;
    if (unlink(path) != 0)
        return fail_with_errno(error, "remove", path);
    return PS_OK;
}

/* A folder is synced through a descriptor of its own: fsync of a file inside says nothing about the
 * entry that names it (POSIX leaves that to the folder). */
static enum ps_status real_sync_folder(void *self, const char *path, struct ps_error *error)
{
    (void)self;
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return fail_with_errno(error, "open folder", path);
    /* fsync and not fdatasync: some file systems treat a folder's entries as metadata. */
    bool failed = fsync(descriptor) != 0 || !has_not_shut_down(descriptor);
    enum ps_status status = failed ? fail_with_errno(error, "sync folder", path) : PS_OK;
    (void)close(descriptor);
    return status;
}

/* stat and not lstat: a data folder may be a symbolic link to a larger disk. */
static bool is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

/* Makes one folder and, when it is new, its entry in `parent` durable: files synced inside it are
 * worth nothing while the way to them can be lost. */
static enum ps_status make_one_folder(void *self, const char *path, const char *parent,
                                      struct ps_error *error)
{
    if (mkdir(path, 0750) == 0)
        return real_sync_folder(self, parent, error);
    if (errno == EEXIST && is_folder(path))
        return PS_OK;
    if (errno == EEXIST)
        return ps_fail(error, PS_ERR_EXISTS, "make folder %s: what is there is not a folder", path);
    return fail_with_errno(error, "make folder", path);
}

/* Makes each missing folder from the root on, as `mkdir -p`, and syncs the parent of each new one:
 * a data folder that vanishes with the power takes the checkpoints in it along. `partial` is the
 * path cut at each slash in turn; `parent` trails one step behind. A doubled slash gives the same
 * folder twice, which exists by then and passes. */
static enum ps_status real_make_folder(void *self, const char *path, struct ps_error *error)
{
    char partial[4096];
    char parent[4096] = ".";
    size_t length = strlen(path);
    if (length >= sizeof partial)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s: path too long", path);
    memcpy(partial, path, length + 1);
    if (path[0] == '/')
        memcpy(parent, "/", 2);
    for (size_t i = 1; i <= length; i++) {
        if (partial[i] != '/' && partial[i] != '\0')
            continue;
        char kept = partial[i];
        partial[i] = '\0';
        PS_TRY(make_one_folder(self, partial, parent, error));
        memcpy(parent, partial, i + 1);
        partial[i] = kept;
    }
    return PS_OK;
}

static enum ps_status real_list(void *self, const char *path, ps_file_entry_fn entry, void *context,
                                struct ps_error *error)
{
    (void)self;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return fail_with_errno(error, "open folder", path);
    errno = 0;
    struct dirent *next = readdir(folder);
    while (next != NULL) {
        if (strcmp(next->d_name, ".") != 0 && strcmp(next->d_name, "..") != 0)
            entry(context, next->d_name);
        /* readdir returns NULL both at the end and on failure; only errno tells them apart, and the
         * callback may have set it. */
        errno = 0;
        next = readdir(folder);
    }
    /* Half a list must not pass for a whole one. */
    enum ps_status status = errno != 0 ? fail_with_errno(error, "list", path) : PS_OK;
    (void)closedir(folder);
    return status;
}

/* The kernel is asked first (Linux 6.1), and where it says nothing a write of one block tells.
 * tmpfs is known by its type: the kernel says nothing of it, takes O_DIRECT and ignores it. Blocks
 * larger than ours count as no: the first write would be refused and go through the cache. */
static bool file_goes_direct(int descriptor)
{
    struct statfs system;
    if (fstatfs(descriptor, &system) != 0 || system.f_type == TMPFS_MAGIC)
        return false;
#ifdef STATX_DIOALIGN
    struct statx facts;
    if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 &&
        (facts.stx_mask & STATX_DIOALIGN) != 0)
        return facts.stx_dio_mem_align >= 1 && facts.stx_dio_mem_align <= PS_FILE_DIRECT_BYTES &&
               facts.stx_dio_offset_align >= 1 &&
               facts.stx_dio_offset_align <= PS_FILE_DIRECT_BYTES;
#endif
    static const _Alignas(PS_FILE_DIRECT_BYTES) uint8_t block[PS_FILE_DIRECT_BYTES];
    return write(descriptor, block, sizeof block) == (ssize_t)sizeof block;
}

/* The question needs a file, since the kernel answers it for files and not for folders. A file
 * without a name leaves nothing behind, whatever happens; a file system that has none gets a no,
 * which costs speed and nothing else. */
static bool real_can_go_direct(void *self, const char *folder)
{
    (void)self;
    int descriptor = open(folder, O_TMPFILE | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
    if (descriptor < 0)
        return false;
    bool direct = file_goes_direct(descriptor);
    (void)close(descriptor);
    return direct;
}

static const struct ps_files real_files = {
    .open = real_open,
    .write = real_write,
    .write_view = real_write_view,
    .write_over = real_write_over,
    .read = real_read,
    .forget = real_forget,
    .size = real_size,
    .cut = real_cut,
    .is_alone = real_is_alone,
    .sync = real_sync,
    .close = real_close,
    .rename = real_rename,
    .remove = real_remove,
    .sync_folder = real_sync_folder,
    .make_folder = real_make_folder,
    .list = real_list,
    .can_go_direct = real_can_go_direct,
};

const struct ps_files *ps_files_real(void)
{
    return &real_files;
}
