/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times as people write them: the one reader of "2GiB" and "500ms" for all programs.
 *
 *     sizes   4096 or 4096B; 64KiB or 64Ki (1024), 64KB, 64kB, 64K or 64k (1000); so for M, G, T
 *     times   10 or 10s; 50us, 500ms, 5m, 2h
 *
 * A time without a unit is in seconds, as etcdctl and kubectl read it.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   a text that is none of these, or too large for the result: false, and nothing written.
 *           Signs, spaces, fractions and several units at once ("1m30s") are none of these.
 * Memory:   nothing is kept.
 */
#ifndef PS_BASE_QUANTITY_H
#define PS_BASE_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

/* What a text that was refused should have looked like, for messages: "... is not " and this. */
#define PS_QUANTITY_DURATIONS "a duration such as 500ms, 10s, 5m or 2h (10 alone is seconds)"
#define PS_QUANTITY_BYTES "a size such as 4096, 64KiB, 4MiB or 2Gi (1024s), or 64KB or 2G (1000s)"

/* Decimal digits and nothing else. */
bool ps_quantity_number(const char *text, uint64_t *number);

bool ps_quantity_bytes(const char *text, uint64_t *bytes);

/* Whole milliseconds: microseconds are refused. */
bool ps_quantity_milliseconds(const char *text, uint64_t *milliseconds);

bool ps_quantity_nanoseconds(const char *text, uint64_t *nanoseconds);

#endif
