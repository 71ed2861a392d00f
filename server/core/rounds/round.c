/* SPDX-License-Identifier: Apache-2.0 */
/* Everything is counted from two sets, so that what a journal brings back, the sets, is all that
 * there is to know. */
#include "server/core/rounds/round.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

/* So many missing workers are named. */
enum { NAMED_MAX = 8 };

/* A worker that has never been seen is waited for like any other: what a round has to have is known
 * from its settings, and not from who came first. */
void ps_round_init(struct ps_round *round, uint32_t workers)
{
    PS_ASSERT(workers > 0 && workers <= PS_ROUND_WORKERS_MAX);
    *round = (struct ps_round){.workers = workers};
}

/* Sets of ranks as the journal's records have them (journal_round.h). */
static void put(uint8_t *set, uint32_t rank)
{
    set[rank / 8] = (uint8_t)(set[rank / 8] | 1u << rank % 8);
}

static void take(uint8_t *set, uint32_t rank)
{
    set[rank / 8] = (uint8_t)(set[rank / 8] & ~(1u << rank % 8));
}

/* A late one is judged by its round alone; one that counts late takes the place of the worker's
 * contribution to the open round, which is then the second. */
enum ps_round_verdict ps_round_judge(const struct ps_round *round,
                                     const struct ps_round_settings *settings, uint64_t version,
                                     uint32_t worker, uint64_t wanted)
{
    bool is_late = wanted != 0 && wanted <= version;
    PS_ASSERT(worker < round->workers && settings->workers == round->workers);
    if (wanted > version + 1)
        return PS_ROUND_IS_AHEAD;
    if (is_late && settings->late == PS_LATE_DROP)
        return PS_ROUND_IS_LATE;
    if (ps_round_set_has(round->counted, worker))
        return PS_ROUND_IS_SECOND;
    return is_late ? PS_ROUND_COUNTS_LATE : PS_ROUND_COUNTS;
}

/* The grace time begins with the first contribution and not with the round: a job that pauses
 * evicts nobody. */
void ps_round_join(struct ps_round *round, uint32_t worker, uint64_t now_ms)
{
    PS_ASSERT(worker < round->workers && !ps_round_set_has(round->counted, worker));
    if (round->counted_count++ == 0)
        round->first_ms = now_ms;
    put(round->counted, worker);
    if (!ps_round_set_has(round->evicted, worker))
        return;
    take(round->evicted, worker);
    round->evicted_count--;
}

/* A quorum of more workers than are left would never be reached. */
uint32_t ps_round_needed(const struct ps_round *round, const struct ps_round_settings *settings)
{
    uint32_t present = round->workers - round->evicted_count;
    PS_ASSERT(present > 0 && round->counted_count <= present);
    return settings->quorum != 0 && settings->quorum < present ? settings->quorum : present;
}

/* A round that has what it needs is complete, however late that is: nobody is evicted for what
 * was not missing. */
enum ps_round_end ps_round_look(const struct ps_round *round,
                                const struct ps_round_settings *settings, uint64_t now_ms,
                                uint64_t *again_ms)
{
    *again_ms = 0;
    if (round->counted_count >= ps_round_needed(round, settings))
        return PS_ROUND_IS_COMPLETE;
    if (round->counted_count == 0 || settings->grace_ms == 0)
        return PS_ROUND_GOES_ON;
    /* The clock never goes back; a contribution may have been counted a moment after `now_ms`. */
    uint64_t passed_ms = now_ms > round->first_ms ? now_ms - round->first_ms : 0;
    if (passed_ms >= settings->grace_ms)
        return PS_ROUND_IS_OVERDUE;
    /* Nothing else would tell whoever waits of the end. */
    *again_ms = settings->grace_ms - passed_ms;
    return PS_ROUND_GOES_ON;
}

/* Of a quorum that was reached nobody is evicted: the others were only slower. Whoever is evicted
 * already stays so, however the round has ended. */
void ps_round_evicted_by(const struct ps_round *round, enum ps_round_end end,
                         uint8_t evicted[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)])
{
    PS_ASSERT(end != PS_ROUND_GOES_ON && round->counted_count > 0);
    memcpy(evicted, round->evicted, sizeof round->evicted);
    if (end == PS_ROUND_IS_COMPLETE)
        return;
    for (uint32_t rank = 0; rank < round->workers; rank++)
        if (!ps_round_set_has(round->counted, rank))
            put(evicted, rank);
}

/* The set comes from outside, of the round that ended here or of a record that is replayed; the
 * counts are made of it. */
void ps_round_next(struct ps_round *round, const uint8_t *evicted)
{
    size_t size = PS_ROUND_SET_BYTES(round->workers);
    memset(round->counted, 0, sizeof round->counted);
    memmove(round->evicted, evicted, size);
    round->counted_count = 0;
    round->evicted_count = ps_round_set_count(round->evicted, round->workers);
    /* Somebody is always waited for: who contributes is not evicted. */
    PS_ASSERT(round->evicted_count < round->workers);
}

/* Those that are evicted are not waited for, and not named. A few are enough: whoever reads the
 * text looks for the first of them, and how many are missing stands beside it. A text that is full
 * ends with a whole number. */
void ps_round_name_missing(const struct ps_round *round, char *text, size_t size)
{
    size_t used = 0;
    uint32_t named = 0;
    PS_ASSERT(size > 0);
    text[0] = '\0';
    for (uint32_t rank = 0; rank < round->workers && named <= NAMED_MAX; rank++) {
        if (ps_round_set_has(round->counted, rank) || ps_round_set_has(round->evicted, rank))
            continue;
        int more = named == NAMED_MAX ? snprintf(text + used, size - used, " ...")
                                      : snprintf(text + used, size - used, " %u", (unsigned)rank);
        used += more > 0 && (size_t)more < size - used ? (size_t)more : 0;
        named++;
    }
}

/* The counts are of the sets, nobody is in both, and somebody is left to be waited for. */
void ps_round_check(const struct ps_round *round)
{
    PS_ASSERT(round->workers > 0 && round->workers <= PS_ROUND_WORKERS_MAX);
    PS_ASSERT(ps_round_set_count(round->counted, round->workers) == round->counted_count);
    PS_ASSERT(ps_round_set_count(round->evicted, round->workers) == round->evicted_count);
    PS_ASSERT(round->evicted_count < round->workers);
    for (size_t i = 0; i < sizeof round->counted; i++)
        PS_ASSERT((round->counted[i] & round->evicted[i]) == 0);
}
