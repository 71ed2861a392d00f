/* SPDX-License-Identifier: Apache-2.0 */
/* A file system over another one that fails the n-th call of the kinds that a test chooses: for
 * sweeping every refused write, sync and rename of a function (STYLE.md, rule 53).
 *
 *     struct fault_files fault = {.under = ps_files_real(), .calls = FAULT_CHANGES, .fail_at = n};
 *     struct ps_files files = fault_files_files(&fault);
 *
 * Threads:  one.
 * Blocking: what the file system below does.
 * Errors:   PS_ERR_IO "injected: ..." for the failed call.
 * Memory:   `fault` is borrowed by the files made from it.
 */
#ifndef PS_TESTS_SUPPORT_FAULT_FILES_H
#define PS_TESTS_SUPPORT_FAULT_FILES_H

#include "base/file.h"

enum fault_call {
    FAULT_OPEN = 1 << 0,
    FAULT_WRITE = 1 << 1,
    FAULT_READ = 1 << 2,
    FAULT_SIZE = 1 << 3,
    FAULT_SYNC = 1 << 4,
    FAULT_RENAME = 1 << 5,
    FAULT_REMOVE = 1 << 6,
    FAULT_SYNC_FOLDER = 1 << 7,
    FAULT_MAKE_FOLDER = 1 << 8,
    FAULT_LIST = 1 << 9,
    FAULT_CHANGES = FAULT_OPEN | FAULT_WRITE | FAULT_SYNC | FAULT_RENAME | FAULT_REMOVE |
                    FAULT_SYNC_FOLDER | FAULT_MAKE_FOLDER,
    FAULT_ANY = (1 << 10) - 1
};

struct fault_files {
    const struct ps_files *under; /* borrowed */
    uint32_t calls;               /* kinds that are counted: FAULT_... joined with | */
    int64_t fail_at;              /* 0-based number of the counted call to fail; -1: none */
    bool stays_down; /* every call after the failed one fails too, of any kind: a crash, after
                      * which not even cleaning up happens */
    bool tears;      /* a failed write leaves the first half of its bytes in the file */
    int64_t seen;    /* counted calls so far */
    int64_t open;    /* files opened and not closed */
    bool fired;      /* a call was failed */
};

/* A file system over `fault`, which it borrows. */
struct ps_files fault_files_files(struct fault_files *fault);

#endif
