/* SPDX-License-Identifier: Apache-2.0 */
/* No record in the last segment of an epoch: the end of the journal, or damage?
 *
 * Threads:  those of the window.
 * Blocking: for the disk.
 * Errors:   those of the file system.
 * Memory:   none besides the window's.
 */
#ifndef PS_CHECKPOINT_JOURNAL_SCAN_H
#define PS_CHECKPOINT_JOURNAL_SCAN_H

#include "checkpoint/journal_window.h"

/* Where a record should stand and none does. */
struct ps_journal_hole {
    uint64_t offset;
    uint64_t heads_from; /* from here on another record may begin: behind the content of one whose
                          * head is whole, since content can look like anything */
    uint64_t epoch;
    uint64_t position; /* that should stand there */
};

struct ps_journal_ending {
    bool damaged; /* the missing record was durable once: this is no end */
    uint64_t cut; /* bytes of a torn end, which begins at the hole; 0: a clean one */
};

/* Sets `*ending` by what follows the hole in the window's file:
 *
 * - a good record that says that the missing position was durable: damage;
 * - no good record: the end, which may be torn;
 * - good records of the same last write: that write was in flight, and the disk may have taken its
 *   pieces in any order. It is a torn end. In a file of format 1, which only ever grew, a disk's
 *   sector (512 bytes) before the first of them must be unwritten (all zeros) then; otherwise it is
 *   damage.
 *
 * A first record that is bad in a file of format 2 is damage: it was durable before the file had
 * its name.
 */
PS_MUST_USE enum ps_status ps_journal_scan(struct ps_journal_window *window,
                                           const struct ps_journal_hole *hole,
                                           struct ps_journal_ending *ending,
                                           struct ps_error *error);

#endif
