/* SPDX-License-Identifier: Apache-2.0 */
/* What a disk in memory consists of: memory_files.c keeps it, memory_files_calls.c works on it.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   as memory_files.h says.
 */
#ifndef PS_TESTS_SUPPORT_MEMORY_DISK_H
#define PS_TESTS_SUPPORT_MEMORY_DISK_H

#include "base/random.h"
#include "tests/support/memory_files.h"
#include "tests/support/memory_names.h"

/* A change of names that no sync_folder has made durable. `from` is gone, `to` is `inode`; either
 * may be NULL. */
struct memory_change {
    char *from;
    char *to;
    struct memory_inode *inode;
};

struct memory_handle {
    char *path; /* NULL: closed, or lost in a crash */
    struct memory_inode *inode;
    enum ps_file_mode mode;
    size_t place; /* of the next write, when the mode is not PS_FILE_APPEND */
};

struct memory_files {
    struct ps_files files;
    struct memory_files_knobs knobs;
    struct ps_random random;
    struct memory_names now;
    struct memory_names durable;
    struct memory_change *changes;
    size_t change_count;
    size_t change_capacity;
    struct memory_handle *handles; /* the number of a handle is its index, never used twice */
    size_t handle_count;
    size_t handle_capacity;
    char **folders;
    size_t folder_count;
    size_t folder_capacity;
};

/* The calls of base/file.h; `self` is to be filled in. */
extern const struct ps_files memory_disk_calls;

/* Adds a change that is in doubt: `from` is gone, `to` is `inode`; any may be NULL. */
void memory_disk_note_change(struct memory_files *disk, const char *from, const char *to,
                             struct memory_inode *inode);
/* Makes the changes of names in `folder` durable. */
void memory_disk_settle_names(struct memory_files *disk, const char *folder);
bool memory_disk_has_folder(const struct memory_files *disk, const char *path);
void memory_disk_add_folder(struct memory_files *disk, const char *path);

#endif
