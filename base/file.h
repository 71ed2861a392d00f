/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the file system that we need, as an interface: the real one, and in tests one that
 * fails the n-th call or forgets what was not synced.
 *
 * Threads:  the real one is safe from any thread; one open file belongs to one thread, but that
 *           several may read it at once.
 * Blocking: every call may wait for the disk. None takes a deadline.
 * Errors:   PS_ERR_IO with the path and the reason (errno's words) in the text; PS_ERR_NOT_FOUND
 *           when the path is not there; PS_ERR_NO_MEMORY.
 * Memory:   paths are borrowed for the call. An open file is closed with `close`.
 */
#ifndef PS_BASE_FILE_H
#define PS_BASE_FILE_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* One open file; a type of its own so that the compiler refuses a mix-up with other numbers. */
struct ps_file {
    int64_t handle;
};

/* A mode of DIRECT goes past the cache of the system where that can be: for large pieces that are
 * moved once. A file stays so while the address, the offset and the size of each piece are
 * multiples of PS_FILE_DIRECT_BYTES; from the first other piece on the file is like any. */
enum ps_file_mode {
    PS_FILE_READ,       /* must exist */
    PS_FILE_CREATE_NEW, /* must not exist (PS_ERR_EXISTS); opened for writing at 0 */
    PS_FILE_CREATE_DIRECT,
    /* Must exist, and keeps its bytes and its size: writing begins at 0, goes over what is there,
     * and makes the file longer from its end on. */
    PS_FILE_REUSE,
    PS_FILE_REUSE_DIRECT,
    PS_FILE_APPEND /* made when missing; every write goes to the end */
};

#define PS_FILE_DIRECT_BYTES 4096

/* Called once per entry of a folder, with its name (not its path). `context` is the caller's. */
typedef void (*ps_file_entry_fn)(void *context, const char *name);

struct ps_files {
    enum ps_status (*open)(void *self, const char *path, enum ps_file_mode mode,
                           struct ps_file *file, struct ps_error *error);
    /* Writes every byte or fails; what a failed write left in the file is undefined. */
    enum ps_status (*write)(void *self, struct ps_file file, struct ps_bytes bytes,
                            struct ps_error *error);
    /* The same for many pieces in order, with as few system calls as it takes. */
    enum ps_status (*write_view)(void *self, struct ps_file file, struct ps_view view,
                                 struct ps_error *error);
    /* Writes over bytes that were written before, or behind the end of the file, and leaves the
     * place of the next `write` alone. What it leaves out behind the end is zeros. */
    enum ps_status (*write_over)(void *self, struct ps_file file, uint64_t offset,
                                 struct ps_bytes bytes, struct ps_error *error);
    /* Reads `size` bytes at `offset`; `*got` is less only at the end of the file. */
    enum ps_status (*read)(void *self, struct ps_file file, uint64_t offset, void *destination,
                           size_t size, size_t *got, struct ps_error *error);
    /* A hint: what was read there will not be read again soon, so the system may use the memory in
     * which it keeps it for something else. Later reads give the same bytes, only slower. */
    void (*forget)(void *self, struct ps_file file, uint64_t offset, uint64_t size);
    enum ps_status (*size)(void *self, struct ps_file file, uint64_t *size, struct ps_error *error);
    /* Makes a file that is open for writing shorter: it ends at `size`. */
    enum ps_status (*cut)(void *self, struct ps_file file, uint64_t size, struct ps_error *error);
    /* Is this the only way to a file that is open for writing: nobody else has it open or mapped,
     * and it has one name? False also when nobody can tell. */
    bool (*is_alone)(void *self, struct ps_file file);
    /* Data and length are on the disk. After a failure the file must be given up: never sync the
     * same one again and call it saved (PostgreSQL's lesson of 2018). */
    enum ps_status (*sync)(void *self, struct ps_file file, struct ps_error *error);
    void (*close)(void *self, struct ps_file file);
    /* Replaces `to` if it exists. Durable only after sync_folder of the folder of `to`. */
    enum ps_status (*rename)(void *self, const char *from, const char *to, struct ps_error *error);
    enum ps_status (*remove)(void *self, const char *path, struct ps_error *error);
    enum ps_status (*sync_folder)(void *self, const char *path, struct ps_error *error);
    /* Makes the folder and its parents, durably; an existing folder is fine. */
    enum ps_status (*make_folder)(void *self, const char *path, struct ps_error *error);
    /* Calls `entry` for every entry except "." and "..", in no order. */
    enum ps_status (*list)(void *self, const char *path, ps_file_entry_fn entry, void *context,
                           struct ps_error *error);
    /* Do files in this folder go past the cache of the system when they are opened DIRECT? False
     * also when nobody can tell: then DIRECT works all the same, only through the cache. */
    bool (*can_go_direct)(void *self, const char *folder);
    void *self;
};

/* The machine's file system. Static; lives for ever. */
const struct ps_files *ps_files_real(void);

/* Reads a whole file of at most `size_max` bytes. On PS_OK `*content` belongs to the caller, who
 * gives it back to `memory`; a NUL follows the last byte. PS_ERR_OUT_OF_RANGE when larger. */
PS_MUST_USE enum ps_status ps_file_read_all(const struct ps_files *files, const char *path,
                                            size_t size_max, const struct ps_allocator *memory,
                                            uint8_t **content, size_t *size,
                                            struct ps_error *error);

/* Puts `content` at `path` so that after a crash there is the old file or the new one, whole:
 * writes `path`.tmp, syncs it, renames it, syncs `folder` (the folder that holds `path`). */
PS_MUST_USE enum ps_status ps_file_replace(const struct ps_files *files, const char *folder,
                                           const char *path, struct ps_bytes content,
                                           struct ps_error *error);

#endif
