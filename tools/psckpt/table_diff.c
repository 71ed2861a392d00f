/* SPDX-License-Identifier: Apache-2.0 */
/* A merge of two sorted lists of keys: where a row lies in either file does not count. A row that
 * one side lacks has no counterpart to be compared with, not even its initial value, which pulls of
 * the other side would be answered with: it is a row that somebody has pushed to. */
#include "tools/psckpt/table_diff.h"

#include <string.h>

/* Called for keys in rising order, so that the first is the lowest. */
static void note_key(struct table_diff *diff, uint64_t key)
{
    bool is_first = diff->added + diff->removed + diff->changed == 0;
    if (is_first)
        diff->first_key = key;
}

/* Both have the key. A row is compared as a whole first, since most are equal. */
static void compare_row(const struct ps_checkpoint_parameter *table, uint32_t array,
                        const uint8_t *a, const uint8_t *b, uint64_t key, struct table_diff *diff)
{
    size_t bytes = table_row_bytes(table, array);
    if (memcmp(a, b, bytes) == 0)
        return;
    note_key(diff, key);
    if (diff->changed++ == 0)
        diff->first_changed = key;
    array_distance_add(ps_array_dtype(table, array), a, b, bytes, 0, &diff->distance);
}

/* Keys rise in both, so the first key that is noted is the lowest. */
struct table_diff table_diff_of(const struct ps_checkpoint_parameter *a,
                                const struct ps_checkpoint_parameter *b, uint32_t array)
{
    struct table_diff diff = {0};
    const uint8_t *left = table_array(a, array);
    const uint8_t *right = table_array(b, array);
    size_t bytes = table_row_bytes(a, array);
    uint64_t i = 0;
    uint64_t j = 0;
    /* The lower of the two next keys, and of equal keys both: one of the sides goes on each
     * time. */
    while (i < a->rows || j < b->rows) {
        bool has_a = i < a->rows && (j == b->rows || table_key(a, i) <= table_key(b, j));
        bool has_b = j < b->rows && (i == a->rows || table_key(b, j) <= table_key(a, i));
        uint64_t key = has_a ? table_key(a, i) : table_key(b, j);
        if (has_a && has_b) {
            compare_row(a, array, left + i * bytes, right + j * bytes, key, &diff);
        } else {
            note_key(&diff, key);
            *(has_a ? &diff.removed : &diff.added) += 1;
        }
        i += has_a;
        j += has_b;
    }
    return diff;
}
