/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients (and pulled parameters) in the encodings of base/encoding.h: how long they are, what is
 * refused, and both directions for whole runs of elements. One element is in decode.rule.h and
 * encode.rule.h; which instructions do it can never be seen in a result.
 *
 * Float parameters take every encoding; whole numbers travel as they are. What is decoded is then a
 * gradient of the parameter's type like any other: pushing an encoded gradient gives the bits of
 * decoding it first and pushing that.
 *
 * Threads:  all functions are pure but for the memory they are given.
 * Blocking: never.
 * Errors:   as said at each function.
 * Memory:   nothing is allocated; everything is borrowed for the call. Encoded bytes may have any
 *           alignment; elements are aligned to their type.
 */
#ifndef PS_OPTIMIZER_ENCODED_H
#define PS_OPTIMIZER_ENCODED_H

#include "base/dtype.h"
#include "base/encoding.h"
#include "base/status.h"
#include "optimizer/settings.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of one (index, value) pair of TOP_K. */
#define PS_ENCODING_PAIR_BYTES 8

/* ---- Sizes and what is refused ---- */

/* NATIVE, or the encoding that is the type's own: content that needs no decoding. */
bool ps_encoding_is_native(enum ps_encoding encoding, enum ps_dtype dtype);

/* Bytes of one element as it lies on the wire; of a quantum for INT8, of a pair for TOP_K. */
size_t ps_encoding_width(enum ps_encoding encoding, enum ps_dtype dtype);

/* Bytes of `count` elements; for TOP_K of `count` pairs. `count` is below 2^58. */
uint64_t ps_encoding_bytes(enum ps_encoding encoding, enum ps_dtype dtype, uint64_t count);

/* Scales before the quanta of `count` elements. */
uint64_t ps_encoding_groups(uint64_t count);

/* Could `bytes` bytes be a gradient of `count` elements?
 *
 * PS_OK               yes; scales and indices are yet to be looked at
 * PS_ERR_BAD_INPUT    the text names what the type allows, or which length was expected
 */
PS_MUST_USE enum ps_status ps_encoding_check(enum ps_encoding encoding, enum ps_dtype dtype,
                                             uint64_t count, uint64_t bytes,
                                             struct ps_error *error);

/* Ranges: the contents of the ranges of one gradient, put together, are the content of the whole.
 * What has two halves, scales and quanta or indices and values, is put together half by half: first
 * those of all ranges, then the others of all ranges. Pairs of TOP_K belong to the range that their
 * index lies in, and count from the whole's beginning. */

/* Can [first, first + count), which lies in `total` elements, be encoded by itself? INT8 is cut
 * between groups, and TOP_K counts no further than 2^32.  PS_ERR_BAD_INPUT */
PS_MUST_USE enum ps_status ps_encoding_check_range(enum ps_encoding encoding, uint64_t first,
                                                   uint64_t count, uint64_t total,
                                                   struct ps_error *error);

/* Of a content of `bytes` for `count` elements, those of the first half; all, if it has but one. */
uint64_t ps_encoding_first_half(enum ps_encoding encoding, uint64_t count, uint64_t bytes);

/* Every scale of INT8 is finite; `first` is the group of scales[0].  PS_ERR_BAD_INPUT */
PS_MUST_USE enum ps_status ps_encoding_check_scales(const float *scales, size_t count,
                                                    uint64_t first, struct ps_error *error);

/* Without decoding: elements of BFLOAT16 or FLOAT16, or all that scales of INT8 stand for. When it
 * is true, every decoded element is finite. */
bool ps_encoding_run_finite(enum ps_encoding encoding, const void *encoded, size_t count);
bool ps_encoding_scales_small(const float *scales, size_t count);

/* The indices of TOP_K rise strictly from `*least` on and are below `limit`; `*least` is then what
 * the next one must be at least. Begin with 0.  PS_ERR_BAD_INPUT */
PS_MUST_USE enum ps_status ps_encoding_check_indices(const uint32_t *indices, size_t count,
                                                     uint64_t limit, uint64_t *least,
                                                     struct ps_error *error);

/* Under these settings a TOP_K gradient touches the elements that it names and no other, neither
 * value nor state: SGD, ADAGRAD and ADD without decay and l2, for which 0 changes nothing. Under
 * all others (momenta fade, averages move, ASSIGN assigns) an element not named is pushed a 0. */
bool ps_encoding_touches_named_only(const struct ps_optimizer_settings *settings);

/* ---- Encoded to elements; `dtype` is a float type ---- */

/* FLOAT32, FLOAT64, BFLOAT16, FLOAT16; also TOP_K's values, as FLOAT32. */
void ps_decode_run(enum ps_encoding encoding, enum ps_dtype dtype, const void *encoded,
                   size_t count, void *elements);

/* Quanta of one group. */
void ps_decode_group(enum ps_dtype dtype, float scale, const void *quanta, size_t count,
                     void *elements);

/* A whole content that lies in one piece, of any encoding but TOP_K. */
void ps_decode_all(enum ps_encoding encoding, enum ps_dtype dtype, const void *encoded,
                   size_t count, void *elements);

/* ---- Elements to encoded, rounded to nearest even; `dtype` is a float type ---- */

/* Any encoding but TOP_K: ps_encoding_bytes bytes are written.
 *
 * PS_ERR_BAD_INPUT    INT8 alone: an element is not finite, or (a double) beyond what a scale can
 *                     say; the text names its group. What was written is of no use
 */
PS_MUST_USE enum ps_status ps_encode_all(enum ps_encoding encoding, enum ps_dtype dtype,
                                         const void *elements, size_t count, void *encoded,
                                         struct ps_error *error);

/* The same for a part of a whole that has `total` elements: elements [first, first + count), which
 * begin with a whole group, to their places in `encoded`, which is the whole's. */
struct ps_encoded_part {
    const void *elements; /* the first of the part */
    size_t first;         /* its index in the whole; a multiple of PS_ENCODING_GROUP */
    size_t count;
    size_t total;
};
PS_MUST_USE enum ps_status ps_encode_part(enum ps_encoding encoding, enum ps_dtype dtype,
                                          const struct ps_encoded_part *part, void *encoded,
                                          struct ps_error *error);

/* TOP_K: the `kept` elements of greatest magnitude as a float32, of equals the first; a NaN counts
 * as greater than any number. Always the same choice for the same elements. `kept` is at most
 * `count`, and `count` at most 2^32; kept * PS_ENCODING_PAIR_BYTES bytes are written. */
void ps_encode_top_k(enum ps_dtype dtype, const void *elements, size_t count, size_t kept,
                     void *encoded);

#ifdef __cplusplus
}
#endif

#endif
