/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows batches are about: numbers of rows drawn at random, and the key of each number.
 *
 * Threads:  pure, but for the memory given.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the caller's.
 */
#ifndef PS_TOOLS_PSBENCH_KEYS_H
#define PS_TOOLS_PSBENCH_KEYS_H

#include <stddef.h>
#include <stdint.h>

/* Every row is drawn as often as any other; or few rows are drawn often, and most seldom (Zipf's
 * law, exponent 1.05). */
enum ps_bench_keys { PS_BENCH_KEYS_RANDOM, PS_BENCH_KEYS_ZIPF, PS_BENCH_KEYS_COUNT };

const char *ps_bench_keys_name(enum ps_bench_keys kind);

/* Draws `count` numbers below `rows`; the same ones in every run. */
void ps_bench_keys_draw(enum ps_bench_keys kind, uint64_t rows, uint64_t *numbers, size_t count);

/* The key of a row number: different for each, and spread over all 64 bits. */
uint64_t ps_bench_key_of(uint64_t number);

#endif
