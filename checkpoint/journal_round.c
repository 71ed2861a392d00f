/* SPDX-License-Identifier: Apache-2.0 */
/* The number of workers, then two sets of them as bits. Equal records are equal bytes, which is why
 * bits that mean nobody are refused. */
#include "checkpoint/journal_round.h"

#include "base/assert.h"
#include "checkpoint/little_endian.h"

enum { WORKERS_AT = 0, SETS_AT = 4 };

/* Bits behind the last worker, and workers in both sets, mean that the writer was wrong: whoever
 * counted has contributed, which takes an eviction back. */
static bool sets_are_possible(const struct ps_round_record *round)
{
    size_t bytes = PS_ROUND_SET_BYTES(round->workers);
    /* How many bits of the last byte stand for workers: all eight when it is full. */
    uint32_t used = round->workers % 8 == 0 ? 8 : round->workers % 8;
    unsigned beyond = 0xffu & ~((1u << used) - 1);
    if (((round->counted[bytes - 1] | round->evicted[bytes - 1]) & beyond) != 0)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if ((round->counted[i] & round->evicted[i]) != 0)
            return false;
    return true;
}

/* Only as many bytes of the sets as the workers need: a job of four writes six bytes a round. */
size_t ps_round_record_write(const struct ps_round_record *round,
                             uint8_t to[PS_ROUND_RECORD_BYTES_MAX])
{
    PS_ASSERT(round->workers > 0 && round->workers <= PS_ROUND_WORKERS_MAX);
    PS_ASSERT(sets_are_possible(round));
    size_t bytes = PS_ROUND_SET_BYTES(round->workers);
    ps_little_put(to + WORKERS_AT, 4, round->workers);
    memcpy(to + SETS_AT, round->counted, bytes);
    memcpy(to + SETS_AT + bytes, round->evicted, bytes);
    return SETS_AT + 2 * bytes;
}

/* The number is held to its bound before any size is made of it. */
enum ps_status ps_round_record_read(struct ps_bytes content, struct ps_round_record *round,
                                    struct ps_error *error)
{
    if (content.size < SETS_AT)
        return ps_fail(error, PS_ERR_CORRUPT, "a round of %zu bytes", content.size);
    struct ps_round_record read = {.workers =
                                       (uint32_t)ps_little_take(content.data + WORKERS_AT, 4)};
    if (read.workers == 0 || read.workers > PS_ROUND_WORKERS_MAX)
        return ps_fail(error, PS_ERR_CORRUPT, "a round of %u workers", read.workers);
    size_t bytes = PS_ROUND_SET_BYTES(read.workers);
    /* Exactly: a later version that says more of a round must not be read as if it had not. */
    if (content.size != SETS_AT + 2 * bytes)
        return ps_fail(error, PS_ERR_CORRUPT, "a round of %u workers in %zu bytes", read.workers,
                       content.size);
    read.counted = content.data + SETS_AT;
    read.evicted = read.counted + bytes;
    if (!sets_are_possible(&read))
        return ps_fail(error, PS_ERR_CORRUPT,
                       "a round of %u workers counts one that is evicted, or that is not there",
                       read.workers);
    *round = read;
    return PS_OK;
}

/* The lowest bit first, so that a set does not depend on how many workers there are. */
bool ps_round_set_has(const uint8_t *set, uint32_t rank)
{
    return (set[rank / 8] >> (rank % 8) & 1) != 0;
}

/* Worker by worker: sets are small, and rounds end seldom beside what their gradients cost. */
uint32_t ps_round_set_count(const uint8_t *set, uint32_t workers)
{
    uint32_t count = 0;
    PS_ASSERT(workers <= PS_ROUND_WORKERS_MAX);
    for (uint32_t rank = 0; rank < workers; rank++)
        count += ps_round_set_has(set, rank);
    return count;
}
