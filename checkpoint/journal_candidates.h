/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a PS_RECORD_CANDIDATES: keys of a table that were pushed to less often than it
 * takes to get a row (docs/checkpoint-format.md). Of n keys first the keys, of 8 bytes each; then
 * how often each was pushed to, of 4 bytes; then of each the low 32 bits of the version of its last
 * push. All are little-endian. Name and version in the record's head are the table's. A table may
 * have several such records.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for bytes that no writer has made so.
 * Memory:   none.
 */
#ifndef PS_CHECKPOINT_JOURNAL_CANDIDATES_H
#define PS_CHECKPOINT_JOURNAL_CANDIDATES_H

#include "base/bytes.h"
#include "base/status.h"

/* One candidate; a record of a server has at most so many: a mebibyte. */
#define PS_CANDIDATE_BYTES ((size_t)16)
#define PS_CANDIDATES_RECORD_MAX ((size_t)65536)

/* Where the arrays of `count` candidates begin in the content; the keys begin it. */
#define PS_CANDIDATES_COUNTS_AT(count) ((size_t)8 * (count))
#define PS_CANDIDATES_VERSIONS_AT(count) ((size_t)12 * (count))

/* How many there are, 1 at least. Nothing is said of the keys and counts. */
PS_MUST_USE enum ps_status ps_candidates_record_read(struct ps_bytes content, size_t *count,
                                                     struct ps_error *error);

#endif
