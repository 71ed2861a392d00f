/* SPDX-License-Identifier: Apache-2.0 */
/* Which life of a shard a file is of. A number is drawn where a shard begins with nothing, and
 * every checkpoint, every segment of the journal and the pointer in the store carry it from then
 * on, over all owners, restarts and epochs. Two files with different numbers were never parts of
 * one state, however well their epochs and positions fit. (Databases whose logs are shipped have
 * such a number: PostgreSQL's system identifier is one.)
 *
 * Files of programs from before there were histories have none: that is "not known", and fits
 * everything. A folder that was copied whole has the number of what it was copied from: two copies
 * that both went on are not told apart.
 *
 * Threads:  pure, but for the drawing, which uses `random`.
 * Blocking: never, but for ps_random_system.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_CHECKPOINT_HISTORY_H
#define PS_CHECKPOINT_HISTORY_H

#include "base/random.h"
#include "base/uuid.h"

#include <stdbool.h>
#include <stdint.h>

#define PS_HISTORY_BYTES 16

/* Zeroed: not known. */
struct ps_history {
    uint8_t bytes[PS_HISTORY_BYTES];
};

bool ps_history_known(const struct ps_history *history);

/* Are both known, and not the same? The one comparison by which files are refused. */
bool ps_history_differ(const struct ps_history *a, const struct ps_history *b);

/* A number that no other shard has, known at once: a uuid of version 7. `random` as there. */
void ps_history_draw(struct ps_random *random, uint64_t unix_ns, struct ps_history *history);

/* As a uuid in lower case, "" when it is not known; and back. False: `text` is none, and `*history`
 * is not known then. */
void ps_history_write(const struct ps_history *history, char text[PS_UUID_BYTES]);
bool ps_history_read(const char *text, struct ps_history *history);

#endif
