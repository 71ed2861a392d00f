/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a PS_RECORD_SWEEP: which rows of a table are gone (docs/journal-format.md). The
 * record's version is the table's at that moment; it makes none. What time or a clock has decided
 * must be written down, else replay would decide otherwise.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for bytes that no writer has made so.
 * Memory:   copies.
 */
#ifndef PS_CHECKPOINT_JOURNAL_ROWS_H
#define PS_CHECKPOINT_JOURNAL_ROWS_H

#include "base/bytes.h"
#include "base/status.h"

#define PS_SWEEP_RECORD_BYTES ((size_t)8)

struct ps_sweep_record {
    uint64_t before_version; /* rows last pushed to before it; above 0 */
};

void ps_sweep_record_write(const struct ps_sweep_record *sweep, uint8_t to[PS_SWEEP_RECORD_BYTES]);

PS_MUST_USE enum ps_status ps_sweep_record_read(struct ps_bytes content,
                                                struct ps_sweep_record *sweep,
                                                struct ps_error *error);

#endif
