/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of a shard take of its memory. A table grows with its pushes, so that nothing can
 * be reserved for it when it comes, as for other parameters: each push asks what is left.
 *
 * Threads:  `bytes` from any; `others` changes while nobody pushes.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the service owns it; specs borrow it.
 */
#ifndef PS_SERVER_CORE_ROW_ROOM_H
#define PS_SERVER_CORE_ROW_ROOM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Counts of rows are for metrics alone; what is refused goes by bytes. */
struct ps_row_room {
    uint64_t bytes_max;     /* of all parameters; UINT64_MAX: no limit */
    const uint64_t *others; /* borrowed: bytes that count for all that are not rows */
    _Atomic uint64_t bytes; /* of all rows, with their index */
    _Atomic uint64_t rows;
    _Atomic uint64_t seated;     /* of them, those whose bodies are on a device */
    _Atomic uint64_t candidates; /* keys that are counted until they get a row */
    _Atomic uint64_t evicted;    /* rows that went for others, since the process began */
    _Atomic uint64_t expired;
};

/* What rows may still take. Of pushes to several tables at once each is told all of it: together
 * they may pass the limit by what is under way. NULL: there is no limit. */
static inline uint64_t ps_row_room_left(const struct ps_row_room *room)
{
    if (room == NULL || room->bytes_max == UINT64_MAX)
        return UINT64_MAX;
    uint64_t used = *room->others + atomic_load(&room->bytes);
    return used < room->bytes_max ? room->bytes_max - used : 0;
}

#endif
