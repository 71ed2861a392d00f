/* SPDX-License-Identifier: Apache-2.0 */
/* Distances between words: Damerau and Levenshtein in the restricted form, in which two neighbours
 * are swapped at most once and not edited again. A swap is the most frequent slip on a keyboard,
 * and plain Levenshtein would count it as two. */
#include "base/nearest.h"

#include "base/assert.h"

#include <string.h>

/* Bounds the rows on the stack and the work (63 x 63 steps). No option or command is longer. */
#define TEXT_BYTES_MAX 63

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Row i, column j: the distance of the first i bytes of a and the first j of b. Three rows are
 * enough, since a swap looks two rows back. */
size_t ps_text_distance(const char *a, const char *b)
{
    PS_ASSERT(a != NULL && b != NULL);
    size_t a_size = strnlen(a, TEXT_BYTES_MAX);
    size_t b_size = strnlen(b, TEXT_BYTES_MAX);
    size_t rows[3][TEXT_BYTES_MAX + 1];
    for (size_t j = 0; j <= b_size; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            /* The cheapest of: keep or replace, remove, insert; below, swap with the neighbour. */
            size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(replaced, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[a_size % 3][b_size];
}

bool ps_text_is_near(const char *typed, size_t distance)
{
    PS_ASSERT(typed != NULL);
    /* One slip for a short word and one more for each three letters: "hlep" finds help, while a
     * word that has little in common with any name gets no advice, which is better than bad
     * advice. */
    return distance <= 1 + strnlen(typed, TEXT_BYTES_MAX) / 3;
}
