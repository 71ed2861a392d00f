/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a PS_RECORD_EXPIRE, which says of some keys of a table that their rows are gone,
 * and of a PS_RECORD_SWEEP, which former programs have written for a whole table at a time
 * (docs/journal-format.md). The record's version is the table's at that moment; it makes none. What
 * time or a clock has decided must be written down, else replay would decide otherwise.
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

#include <stdbool.h>

#define PS_SWEEP_RECORD_BYTES ((size_t)8)

struct ps_sweep_record {
    uint64_t before_version; /* rows last pushed to before it; above 0 */
};

void ps_sweep_record_write(const struct ps_sweep_record *sweep, uint8_t to[PS_SWEEP_RECORD_BYTES]);

PS_MUST_USE enum ps_status ps_sweep_record_read(struct ps_bytes content,
                                                struct ps_sweep_record *sweep,
                                                struct ps_error *error);

/* In front of the keys, which are 8 bytes each. */
#define PS_EXPIRE_RECORD_HEAD_BYTES ((size_t)16)
#define PS_EXPIRE_RECORD_KEYS_MAX 65536

struct ps_expire_record {
    uint64_t before_version; /* of these keys, those that were last pushed to before it; above 0 */
    bool counts;             /* they are counted, and have no rows: candidates */
    uint32_t count;          /* of keys; 1 at least, PS_EXPIRE_RECORD_KEYS_MAX at most */
};

/* The head alone; the keys follow (ps_expire_keys_write). */
void ps_expire_record_write(const struct ps_expire_record *expire,
                            uint8_t to[PS_EXPIRE_RECORD_HEAD_BYTES]);
void ps_expire_keys_write(const uint64_t *keys, uint32_t count, uint8_t *to);

/* `content` has all keys that `*expire` counts. */
PS_MUST_USE enum ps_status ps_expire_record_read(struct ps_bytes content,
                                                 struct ps_expire_record *expire,
                                                 struct ps_error *error);

/* Some of the keys of a content that was read: from number `first` on. */
void ps_expire_keys_read(struct ps_bytes content, uint32_t first, uint32_t count, uint64_t *keys);

#endif
