/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that encode and decode, compiled several times from encoding_loops.c for different
 * instruction sets, as the rules' loops are. Which set runs can never be seen in a result.
 *
 * Threads:  constant tables.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_ENCODING_LOOPS_H
#define PS_OPTIMIZER_ENCODING_LOOPS_H

#include "base/dtype.h"
#include "base/encoding.h"

#include <stddef.h>
#include <stdint.h>

/* From and to memory that does not overlap; the encoded side may have any alignment. */
typedef void ps_convert_fn(const void *from, size_t count, void *to);
typedef void ps_widen_group_fn(float scale, const void *quanta, size_t count, void *elements);
/* Writes the scale and the quanta of one group; false when an element cannot be encoded. */
typedef bool ps_narrow_group_fn(const void *elements, size_t count, void *scale, void *quanta);

/* Has none of these 16-bit elements all bits of `exponent` set? */
typedef bool ps_all_finite_fn(const void *encoded, size_t count, uint16_t exponent);

struct ps_encoding_loops {
    const char *name; /* "ps_encoding_loops_avx2" ... */
    /* NULL for NATIVE, INT8 and TOP_K, and for whole numbers. */
    ps_convert_fn *decode[PS_ENCODING_COUNT][PS_DTYPE_COUNT];
    ps_convert_fn *encode[PS_ENCODING_COUNT][PS_DTYPE_COUNT];
    ps_all_finite_fn *all_finite_16;
    ps_widen_group_fn *decode_group[PS_DTYPE_COUNT];
    ps_narrow_group_fn *encode_group[PS_DTYPE_COUNT];
};

extern const struct ps_encoding_loops ps_encoding_loops_baseline;
#ifdef PS_LOOPS_X86
extern const struct ps_encoding_loops ps_encoding_loops_avx2;
extern const struct ps_encoding_loops ps_encoding_loops_avx512;
#endif

/* The fastest that this processor can run. */
const struct ps_encoding_loops *ps_encoding_loops_best(void);

/* All that it can run, from the slowest on: 0 is the baseline, NULL ends them. */
const struct ps_encoding_loops *ps_encoding_loops_at(size_t index);

#endif
