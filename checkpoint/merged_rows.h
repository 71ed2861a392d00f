/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a table's base are still there in a checkpoint that adds to the base, and where.
 *
 * The merged table has the rows of the base that survive, in the base's order, and behind them the
 * rows that the checkpoint itself has. A row survives when its key is neither among the keys that
 * went nor among those of the checkpoint's own rows. Private to checkpoint/.
 *
 * Threads:  any number may ask once it is sealed; before that one.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   a set of keys takes 17 to 34 bytes for each, survivors 9 bits for each 8 rows of the
 *           base; both until their fini.
 */
#ifndef PS_CHECKPOINT_MERGED_ROWS_H
#define PS_CHECKPOINT_MERGED_ROWS_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keys by their hash, each once. */
struct ps_key_set {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint64_t *slots;                   /* owned; 0: free */
    uint64_t mask;                     /* their number, a power of two, less one */
    uint64_t *marks;                   /* owned; a bit is set where a key of that hash is */
    unsigned marks_shift;              /* makes the number of a bit out of a hash */
    bool has_zero;                     /* key 0, which no slot can say */
};

/* Room for `count` keys. */
PS_MUST_USE enum ps_status ps_key_set_init(struct ps_key_set *set, uint64_t count,
                                           const struct ps_allocator *memory,
                                           struct ps_error *error);
void ps_key_set_fini(struct ps_key_set *set);

/* Once more than there was room for aborts. */
void ps_key_set_add(struct ps_key_set *set, uint64_t key);
bool ps_key_set_has(const struct ps_key_set *set, uint64_t key);

struct ps_merged_rows {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    uint64_t base_rows;
    uint64_t survivors; /* of them; known when sealed */
    uint64_t *bits;     /* owned; a bit for each row of the base, 1: it survives */
    uint64_t *ranks;    /* owned; survivors before each group of words */
};

/* Of `base_rows` rows, which all survive as yet. */
PS_MUST_USE enum ps_status ps_merged_rows_init(struct ps_merged_rows *rows, uint64_t base_rows,
                                               const struct ps_allocator *memory,
                                               struct ps_error *error);
void ps_merged_rows_fini(struct ps_merged_rows *rows);

/* That row of the base does not survive. */
void ps_merged_rows_drop(struct ps_merged_rows *rows, uint64_t row);

/* Nor do those of the rows from `first` on whose keys are in the set. `keys` has `count` of them,
 * in the order of the rows. */
void ps_merged_rows_drop_keys(struct ps_merged_rows *rows, uint64_t first, const uint64_t *keys,
                              size_t count, const struct ps_key_set *changed);

/* No more rows are dropped; what is below may be asked from now on. */
void ps_merged_rows_seal(struct ps_merged_rows *rows);

/* The row of the base that is the survivor of that number, which is below `survivors`. */
uint64_t ps_merged_rows_place(const struct ps_merged_rows *rows, uint64_t survivor);

/* Does that row of the base survive? */
bool ps_merged_rows_has(const struct ps_merged_rows *rows, uint64_t row);

/* How many rows from `row` of the base on, up to `end`, fare as that one does; `*survives` says
 * how. `row` is below `end`, and `end` at most the base's rows. */
uint64_t ps_merged_rows_run(const struct ps_merged_rows *rows, uint64_t row, uint64_t end,
                            bool *survives);

#endif
