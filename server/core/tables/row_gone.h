/* SPDX-License-Identifier: Apache-2.0 */
/* The keys whose rows went last, for who follows a table: a bounded list, in the order in which
 * they went. A follower has a mark, which says how far it has been told; one whose mark is further
 * back than the list needs the table anew. Private to this room, but for the numbers.
 *
 * Nothing is noted before somebody follows: a table without followers pays one look at a flag for
 * each row that goes.
 *
 * Threads:  any. `note` under the lock of the row's stripe, by which a follower who looks at the
 *           stripe afterwards has either seen the row go or is told with the next mark.
 * Blocking: for a lock that is held for some ten nanoseconds, or a copy of PS_ROW_GONE_MAX keys.
 * Errors:   ps_row_gone_begin says false when memory is refused; nothing else can fail.
 * Memory:   8 bytes for each of PS_ROW_GONE_MAX keys, from begin to fini.
 */
#ifndef PS_SERVER_CORE_ROW_GONE_H
#define PS_SERVER_CORE_ROW_GONE_H

#include "base/alloc.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keys that are remembered. Smaller in tests. */
#ifndef PS_ROW_GONE_MAX
#define PS_ROW_GONE_MAX 65536
#endif

struct ps_row_gone {
    struct ps_mutex lock; /* PS_RANK_LEAF; guards all but the flag */
    _Atomic bool is_followed;
    uint64_t *keys; /* owned; key n lies at n % PS_ROW_GONE_MAX; NULL: nobody follows */
    uint64_t count; /* keys that were noted since begin */
};

void ps_row_gone_init(struct ps_row_gone *gone);
void ps_row_gone_fini(struct ps_row_gone *gone, const struct ps_allocator *memory);

/* From now on keys are noted; `*is_new` says whether they were not before, and then the memory of
 * PS_ROW_GONE_MAX keys has been had. False: memory was refused, and nothing has changed. */
bool ps_row_gone_begin(struct ps_row_gone *gone, const struct ps_allocator *memory, bool *is_new);

void ps_row_gone_note(struct ps_row_gone *gone, uint64_t key);

/* The mark of who has been told everything: 1 or more. */
uint64_t ps_row_gone_mark(struct ps_row_gone *gone);

/* How many keys have gone since that mark, at most PS_ROW_GONE_MAX; false: more than are
 * remembered, or the mark is none of this list's. */
bool ps_row_gone_count(struct ps_row_gone *gone, uint64_t mark, uint64_t *count);

/* Copies the keys that went since `*mark`, the first of them first, at most `count_max` of 8 bytes
 * each at any address, and puts the mark behind them. `*count` says how many. False as above. */
bool ps_row_gone_since(struct ps_row_gone *gone, uint64_t *mark, size_t count_max, void *to,
                       size_t *count);

#endif
