/* SPDX-License-Identifier: Apache-2.0 */
/* How old a table's rows are, as a text that a checkpoint keeps (docs/checkpoint-format.md, "Ages
 * of rows").
 *
 * Ages of time are said as of the instant, since the clock that they are measured by begins anew
 * with each machine; minima of clocks as they are. A reader may only err in one direction: rows
 * that seem younger than they are live longer, rows that seem older are lost.
 *
 * Threads:  pure; the expiry belongs to whoever calls.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT, said at the function.
 * Memory:   the caller's.
 */
#ifndef PS_SERVER_CORE_ROW_AGES_TEXT_H
#define PS_SERVER_CORE_ROW_AGES_TEXT_H

#include "base/bytes.h"
#include "checkpoint/checkpoint.h"
#include "server/core/update/parameter_rows.h"

/* With the NUL behind it. */
#define PS_ROW_AGES_TEXT_BYTES (PS_CHECKPOINT_AGES_MAX + 1)

/* Sets `text` to what is known at `time` (ps_row_ages_time) of a table with these settings, and
 * returns its length; 0: nothing is. */
size_t ps_row_ages_text_write(const struct ps_row_expiry *expiry,
                              const struct ps_table_settings *settings, uint64_t time,
                              char text[PS_ROW_AGES_TEXT_BYTES]);

/* The longest that it becomes for such a table, for measuring; 0: its rows do not expire. */
size_t ps_row_ages_text_widest(const struct ps_table_settings *settings,
                               char text[PS_ROW_AGES_TEXT_BYTES]);

/* How many milliseconds of those between two times of the wall clock count, for rows that may
 * become `span_ms` old: none of a clock that was put back, and a step of the span at most. In most
 * of a longer time no server had the table, or nobody pushed to it; or the file is one of long ago
 * that somebody has put back; or one of the two clocks was wrong. In none of these are rows to go
 * by the thousand before anybody could push to them. */
uint64_t ps_row_ages_passed(uint64_t span_ms, uint64_t from_unix_ns, uint64_t to_unix_ns);

/* Where and when a text is read. */
struct ps_row_ages_read {
    uint64_t time;      /* ps_row_ages_time */
    uint64_t passed_ms; /* by which rows are older than the text says */
    uint64_t version;   /* of the table at the instant of the text */
};

/* Sets `*expiry`, zeroed, to what the text says; it then keeps every promise that ps_row_ages_look
 * asks for at `time` and later, and at `version` and above. PS_ERR_CORRUPT: the text is of another
 * form, as a later program may write it, and `*expiry` is still zeroed: nothing is known. The
 * error says which part, and what is wrong there: servers log it, and psckpt verify shows it. */
PS_MUST_USE enum ps_status ps_row_ages_text_read(struct ps_bytes text,
                                                 const struct ps_row_ages_read *read,
                                                 struct ps_row_expiry *expiry,
                                                 struct ps_error *error);

#endif
