/* SPDX-License-Identifier: Apache-2.0 */
/* What each caller has taken of what all callers share: sums that go up and down, and paces (so
 * many at once, then so many a minute).
 *
 * The table has whole keys, so that no two callers share a sum by accident, and a fixed number of
 * entries. An entry is given to another key only when its sums are zero and its paces are full
 * again: nothing is forgotten that still counts. When every entry is in use, the callers that come
 * then share one: each of them is bounded more tightly, never more loosely.
 *
 * Threads:  any; one lock, held for a look into the table.
 * Blocking: never.
 * Errors:   none; what does not fit is said by a bool, and worded where the bound is known.
 * Memory:   in place, fixed.
 */
#ifndef PS_SERVER_RPC_BUDGETS_H
#define PS_SERVER_RPC_BUDGETS_H

#include "base/bytes.h"
#include "base/thread.h"
#include "base/token_bucket.h"
#include "server/rpc/caller.h"

#include <stdint.h>

#define PS_BUDGET_ENTRIES 1024

/* Below this, a call is small: its bytes are not counted. */
#define PS_BUDGET_COUNTED_BYTES ((size_t)64 * 1024)

enum ps_sum {
    PS_SUM_BYTES,   /* on their way: requests not answered, replies not taken */
    PS_SUM_WAITING, /* calls that wait for another client */
    PS_SUM_COUNT
};

/* X(name, at once, a minute). A connection brings the clients of one process, mostly one; a host
 * those of a whole machine, or of all machines behind one address. */
#define PS_PACE_TABLE(X)                  \
    X(PS_PACE_SESSIONS, 64, 240)          \
    X(PS_PACE_HOST_SESSIONS, 4096, 15360) \
    X(PS_PACE_SAVES, 64, 6)

#define PS_PACE_ENUM(name, at_once, a_minute) name,
enum ps_pace { PS_PACE_TABLE(PS_PACE_ENUM) PS_PACE_COUNT };
#undef PS_PACE_ENUM

struct ps_budget_entry {
    char key[PS_CALLER_KEY_BYTES_MAX + 1];
    size_t key_size;
    uint32_t next; /* in the chain of its hash: its index + 1; 0: the last */
    uint64_t sums[PS_SUM_COUNT];
    struct ps_bucket paces[PS_PACE_COUNT];
};

struct ps_budgets {
    struct ps_mutex lock;
    uint32_t chains[PS_BUDGET_ENTRIES]; /* by hash: index + 1 of the first; 0: empty */
    uint32_t used;                      /* entries that have a key */
    uint32_t hand;                      /* where the search for one to give away goes on */
    struct ps_budget_entry entries[PS_BUDGET_ENTRIES + 1]; /* the last: shared by the others */
};

void ps_budgets_init(struct ps_budgets *budgets);
void ps_budgets_fini(struct ps_budgets *budgets);

/* Counts `amount` more under the key, if that makes no more than `max` (0: no limit), or if nothing
 * was counted: one of any size goes, alone. On true `*entry` is to be given to ps_budgets_leave
 * with the same amount. `*before`: what was counted; may be NULL. */
PS_MUST_USE bool ps_budgets_enter(struct ps_budgets *budgets, struct ps_bytes key, enum ps_sum sum,
                                  uint64_t amount, uint64_t max, uint64_t now_ms, uint32_t *entry,
                                  uint64_t *before);

/* Counts more in an entry that has something of that sum already; with a question, or without one,
 * for what was done and must be answered. */
PS_MUST_USE bool ps_budgets_more(struct ps_budgets *budgets, uint32_t entry, enum ps_sum sum,
                                 uint64_t amount, uint64_t max, uint64_t *before);
void ps_budgets_leave(struct ps_budgets *budgets, uint32_t entry, enum ps_sum sum, uint64_t amount);

/* Takes one of a pace, if one is left; else `*wait_ms` says when there will be one. */
PS_MUST_USE bool ps_budgets_take(struct ps_budgets *budgets, struct ps_bytes key, enum ps_pace pace,
                                 uint64_t now_ms, uint32_t *wait_ms);

/* Entries in use, and the largest of a sum; for metrics. */
uint32_t ps_budgets_count(struct ps_budgets *budgets, enum ps_sum sum, uint64_t *largest);

/* Asserts every invariant. */
void ps_budgets_check(struct ps_budgets *budgets);

#endif
