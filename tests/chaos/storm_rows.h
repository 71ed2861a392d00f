/* SPDX-License-Identifier: Apache-2.0 */
/* Tables to which trainers add rows while the storm goes on: one of each trainer's own, and one
 * that all of them share.
 *
 * Every life of a trainer has the table "rows/SLOT" to itself and takes numbered steps: the first
 * defines the table (width 4, SGD with rate 1, all 0), each other one is one call that adds to the
 * rows of four keys, one of them twice. Every fourth step goes to "rows/shared" instead, beside
 * those of all other trainers. Step n takes -1, -(SLOT + 1), -(n / 64), -(n mod 64) from each:
 *
 *     n mod 32, 1000 + n mod 7, n mod 32 again, and n * 0x9E3779B97F4A7C15, a row that is new
 *
 * Keys are of several shards, each of which has all of its rows of a step or none. So the checker
 * (storm_rows.py has the same rules) knows every row, and a run without faults can take the same
 * steps. All numbers stay below 2^24 and are exact.
 *
 * Threads:  one.
 * Blocking: each step at most `timeout_ms`.
 * Errors:   after a step that failed none follows: nobody knows whether it was done.
 * Memory:   an adder owns its tables; storm_rows_close ends that.
 */
#ifndef PS_TESTS_CHAOS_STORM_ROWS_H
#define PS_TESTS_CHAOS_STORM_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psclient;
struct psclient_table;

struct storm_rows {
    struct psclient *client; /* borrowed */
    uint64_t timeout_ms;
    int record; /* descriptor; see storm_record.h */
    size_t slot;
    uint64_t step; /* the last one that was begun */
    bool failed;
    struct psclient_table *table;  /* owned; NULL until it is defined */
    struct psclient_table *shared; /* the same */
};

/* Takes the next step, and notes it before and after. */
void storm_rows_step(struct storm_rows *rows);
void storm_rows_close(struct storm_rows *rows);

/* One line for each row of each slot below `slot_count` that is not 0: slot, key, values; and of
 * the table that is shared, with the word "shared". A table that is missing at some server is
 * defined there. In the end 0 is added to all rows of the shared one: which of them was pushed to
 * last depends on who came first, and two storms could not be compared. The exit status. */
int storm_rows_dump(struct psclient *client, size_t slot_count, uint64_t timeout_ms);

/* Defines the tables of all slots, and takes the steps of the lines "SLOT STEP KEYS KEY ..." on
 * standard input, with those keys alone; ends as storm_rows_dump does. The exit status. */
int storm_rows_replay(struct psclient *client, size_t slot_count, uint64_t timeout_ms);

#endif
