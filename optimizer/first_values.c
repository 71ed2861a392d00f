/* SPDX-License-Identifier: Apache-2.0 */
/* First values, four elements at a time: that many words a call of Philox gives. */
#include "optimizer/first_values.h"

#include "optimizer/philox.h"

#include <string.h>

#define WORDS 4
#define NORMAL_TERMS 12

/* The middle of the 2^32 parts of [0, 1): never 0 and never 1, and exact in a double, so that no
 * rounding has to be agreed upon. */
static void add_uniform(const struct ps_table_settings *settings, uint64_t key, uint32_t group,
                        uint32_t turn, double sums[WORDS])
{
    /* The counter never comes twice for one seed: key, place in the row, and turn are all of it. */
    struct ps_philox counter = {{(uint32_t)key, (uint32_t)(key >> 32), group, turn}};
    struct ps_philox random = ps_philox_random(counter, settings->seed);
    for (size_t i = 0; i < WORDS; i++)
        sums[i] += ((double)random.word[i] + 0.5) * 0x1p-32;
}

/* The four elements from 4 * group on. */
static void make_group(const struct ps_table_settings *settings, uint64_t key, uint32_t group,
                       double values[WORDS])
{
    /* One number for a uniform value: its sum has a single term. */
    double sums[WORDS] = {0};
    uint32_t terms = settings->init == PS_TABLE_NORMAL ? NORMAL_TERMS : 1;
    for (uint32_t turn = 0; turn < terms; turn++)
        add_uniform(settings, key, group, turn, sums);
    /* The sum of twelve uniform numbers has the variance 1 and is as good as normal within three
     * deviations, which is all that first weights are asked for. */
    for (size_t i = 0; i < WORDS; i++) {
        if (settings->init == PS_TABLE_NORMAL)
            values[i] = settings->low + settings->high * (sums[i] - NORMAL_TERMS / 2.0);
        else
            values[i] = settings->low + (settings->high - settings->low) * sums[i];
    }
}

/* A constant of a whole type was checked to be in its range (optimizer/table_check.h); random first
 * values are of floats alone. */
static void store(enum ps_dtype dtype, double value, char *to)
{
    switch (dtype) {
#define STORE(TAG, suffix, T, SUM, label)     \
    case TAG: {                               \
        T element = (T)value;                 \
        memcpy(to, &element, sizeof element); \
        return;                               \
    }
        PS_DTYPE_TABLE(STORE)
#undef STORE
    case PS_DTYPE_COUNT:
        break;
    }
}

/* Element by element into bytes: the row may lie in a page, or in a reply, at any alignment. Zero
 * is by far the most common, and costs no random number. */
void ps_first_values(const struct ps_table_settings *settings, enum ps_dtype dtype, uint64_t key,
                     size_t width, void *values)
{
    size_t size = ps_dtype_size(dtype);
    if (settings->init == PS_TABLE_ZERO) {
        memset(values, 0, width * size);
        return;
    }
    /* A constant needs no group made: it is in all four places. */
    double group[WORDS] = {settings->low, settings->low, settings->low, settings->low};
    for (size_t i = 0; i < width; i++) {
        if (i % WORDS == 0 && settings->init != PS_TABLE_CONSTANT)
            make_group(settings, key, (uint32_t)(i / WORDS), group);
        store(dtype, group[i % WORDS], (char *)values + i * size);
    }
}
