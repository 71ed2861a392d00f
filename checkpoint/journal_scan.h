/* Bad bytes in the last segment of an epoch: a torn end, or damage?
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

/* Sets `*torn` by what follows the hole in the file:
 *
 * - a good record that says that the missing position was durable: damage;
 * - no good record: a torn end;
 * - good records of the same last write: that write was in flight, and the disk may have taken its
 *   pieces in any order. It is a torn end when a disk's sector (512 bytes) before the first of them
 *   was never written (is all zeros), and damage otherwise.
 */
PS_MUST_USE enum ps_status ps_journal_scan(struct ps_journal_window *window,
                                           const struct ps_journal_hole *hole, bool *torn,
                                           struct ps_error *error);

#endif
