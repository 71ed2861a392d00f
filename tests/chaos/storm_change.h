/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter of a trainer's own, which the trainer defines, pushes to, gives another learning rate
 * and drops, again and again, while the storm goes on.
 *
 * Every life of a trainer has the name of its slot, "own/SLOT", to itself, and takes numbered steps
 * from 1: eight of them make a cycle, and the number of a step says all that the step does. So the
 * checker (storm_changes.py has the same rules) knows every state that may be there, and a run
 * without faults can take the same steps. In cycle c, from 0:
 *
 *     define   values 0, c, 0, 0, SGD with rate 1
 *     push     twice: takes -1, 0, -(step / 64), -(step mod 64) from the values, times the rate
 *     set      the learning rate becomes c + 1
 *     push     twice
 *     pull     the values go to the record
 *     drop
 *
 * All numbers stay below 2^24 and are exact.
 *
 * Threads:  one.
 * Blocking: each step at most `timeout_ms`.
 * Errors:   after a step that failed none follows: nobody knows whether it was done.
 * Memory:   a changer owns nothing.
 */
#ifndef PS_TESTS_CHAOS_STORM_CHANGE_H
#define PS_TESTS_CHAOS_STORM_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psclient;

struct storm_changer {
    struct psclient *client; /* borrowed */
    uint64_t timeout_ms;
    int record; /* descriptor; see storm_record.h */
    size_t slot;
    uint64_t step; /* the last one that was begun */
    bool failed;
};

/* Takes the next step, and notes it before and after. */
void storm_change_step(struct storm_changer *changer);

/* One line for each slot below `slot_count` whose parameter is there: slot, version, values. The
 * exit status. */
int storm_change_dump(struct psclient *client, size_t slot_count, uint64_t timeout_ms);

/* Takes the steps of the lines "SLOT STEP" on standard input. The exit status. */
int storm_change_replay(struct psclient *client, uint64_t timeout_ms);

#endif
