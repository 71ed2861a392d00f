/* SPDX-License-Identifier: Apache-2.0 */
/* Row numbers from a seed, so that two runs measure the same. The distribution is the continuous
 * one, cut to whole numbers: the first ranks are a little rarer than in Zipf's, which makes no
 * difference to a table, and drawing takes no list of all ranks. */
#include "tools/psbench/psbench_keys.h"

#include "base/assert.h"
#include "base/random.h"

#include <math.h>

#define SEED 13
#define EXPONENT 1.05

static uint64_t draw_rank(struct ps_random *random, uint64_t rows);

/* The names are parts of rows of the report, which scripts read. */
const char *ps_bench_keys_name(enum ps_bench_keys kind)
{
    return kind == PS_BENCH_KEYS_ZIPF ? "zipf" : "random";
}

/* Frequent rows are scattered over the array: neighbours would share lines that no table of hashed
 * keys can share. */
void ps_bench_keys_draw(enum ps_bench_keys kind, uint64_t rows, uint64_t *numbers, size_t count)
{
    struct ps_random random;
    PS_ASSERT(rows > 0);
    ps_random_init(&random, SEED);
    for (size_t i = 0; i < count; i++) {
        if (kind == PS_BENCH_KEYS_ZIPF)
            numbers[i] = draw_rank(&random, rows) * 0x9e3779b1u % rows;
        else
            numbers[i] = ps_random_below(&random, rows);
    }
}

/* The continuous law, inverted: a rank is drawn with a probability that falls with its power. */
static uint64_t draw_rank(struct ps_random *random, uint64_t rows)
{
    double power = 1 - EXPONENT;
    double top = pow((double)rows, power) - 1;
    double rank = pow(top * ps_random_unit(random) + 1, 1 / power) - 1;
    uint64_t whole = rank > 0 ? (uint64_t)rank : 0;
    return whole < rows ? whole : rows - 1;
}

/* A product with an odd number is different for each number. */
uint64_t ps_bench_key_of(uint64_t number)
{
    return number * 0x9e3779b97f4a7c15u + 12345;
}
