/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a data directory: the real ones, made on one file system only.
 *
 * A disk that is taken away from under a server (umount -l, a volume that was detached) leaves the
 * folder on which it was mounted, and that one can be written to: what a server acknowledged into
 * it would be hidden when the disk is mounted again, and nothing there would tell. So neither a
 * file nor a folder is made while the data directory is on another file system than at the start. A
 * folder that was removed is made anew: the one above it is on the same disk.
 *
 * Threads:  as base/file.h; nothing changes after ps_data_files_init.
 * Blocking: as base/file.h.
 * Errors:   PS_ERR_IO where the file system is another one; else as base/file.h.
 * Memory:   nothing is owned; the struct outlives all that uses `files`.
 */
#ifndef PS_SERVER_DATA_FILES_H
#define PS_SERVER_DATA_FILES_H

#include "base/file.h"

struct ps_data_files {
    struct ps_files files; /* for whoever works in the data directory */
    const char *folder;    /* private, as the next; borrowed */
    uint64_t device;       /* where it was at the start; 0: nobody could tell */
};

/* `folder` is there already, and its name outlives this. Where its file system cannot be found out,
 * none is refused. */
void ps_data_files_init(struct ps_data_files *data, const char *folder);

#endif
