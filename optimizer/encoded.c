/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, refusals, and the loops put together to whole contents. */
#include "optimizer/encoded.h"

#include "base/assert.h"
#include "optimizer/encoding_loops.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void decode_groups(enum ps_dtype dtype, const uint8_t *encoded, size_t count,
                          uint8_t *elements);
static enum ps_status encode_groups(enum ps_dtype dtype, const struct ps_encoded_part *part,
                                    uint8_t *encoded, struct ps_error *error);

/* A float32 parameter's FLOAT32 has the bytes of its NATIVE: such content is taken as it is,
 * without a loop. */
bool ps_encoding_is_native(enum ps_encoding encoding, enum ps_dtype dtype)
{
    return encoding == PS_ENCODING_NATIVE || (encoding == PS_ENCODING_FLOAT32 && dtype == PS_F32) ||
           (encoding == PS_ENCODING_FLOAT64 && dtype == PS_F64);
}

size_t ps_encoding_width(enum ps_encoding encoding, enum ps_dtype dtype)
{
    switch (encoding) {
    case PS_ENCODING_NATIVE:
        return ps_dtype_size(dtype);
    case PS_ENCODING_FLOAT32:
        return 4;
    case PS_ENCODING_FLOAT64:
        return 8;
    case PS_ENCODING_BFLOAT16:
    case PS_ENCODING_FLOAT16:
        return 2;
    case PS_ENCODING_INT8:
        return 1;
    case PS_ENCODING_TOP_K:
        /* An index and its value; the scales of INT8 are not counted here, since they are not
         * per element. */
        return PS_ENCODING_PAIR_BYTES;
    case PS_ENCODING_COUNT:
        break;
    }
    PS_ASSERT(0 && "unknown encoding");
}

uint64_t ps_encoding_groups(uint64_t count)
{
    return count / PS_ENCODING_GROUP + (count % PS_ENCODING_GROUP != 0);
}

uint64_t ps_encoding_bytes(enum ps_encoding encoding, enum ps_dtype dtype, uint64_t count)
{
    /* With at most 8 bytes each the product stays within 64 bits. Counts from the wire are
     * bounded long before. */
    PS_ASSERT(count < UINT64_C(1) << 58);
    uint64_t scales = encoding == PS_ENCODING_INT8 ? ps_encoding_groups(count) * sizeof(float) : 0;
    return scales + count * ps_encoding_width(encoding, dtype);
}

/* Any number of whole pairs is right, up to one for each element: how many a client sends is its
 * affair. */
static enum ps_status check_pairs(uint64_t count, uint64_t bytes, struct ps_error *error)
{
    if (count > UINT64_C(1) << 32)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "top_k names at most 2^32 elements, the parameter has %" PRIu64, count);
    if (bytes % PS_ENCODING_PAIR_BYTES == 0 && bytes / PS_ENCODING_PAIR_BYTES <= count)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "%" PRIu64 " bytes are not at most %" PRIu64 " pairs of 8 bytes (top_k)", bytes,
                   count);
}

/* Everything about a content that can be said without its bytes. It is asked before a byte is
 * copied or a thread is taken, so that a wrong size costs the sender and nobody else. */
enum ps_status ps_encoding_check(enum ps_encoding encoding, enum ps_dtype dtype, uint64_t count,
                                 uint64_t bytes, struct ps_error *error)
{
    if (encoding == PS_ENCODING_ROWS)
        return ps_fail(error, PS_ERR_BAD_INPUT, "encoding rows is for tables");
    /* Whole numbers are counts and indices: an encoding that loses digits would lose them
     * silently. */
    if (encoding != PS_ENCODING_NATIVE && !ps_dtype_is_float(dtype))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "encoding %s is for parameters of float32 and float64; a parameter of %s "
                       "allows native alone",
                       ps_encoding_name(encoding), ps_dtype_name(dtype));
    if (encoding == PS_ENCODING_TOP_K)
        return check_pairs(count, bytes, error);
    uint64_t expected = ps_encoding_bytes(encoding, dtype, count);
    if (bytes == expected)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "%" PRIu64 " elements are %" PRIu64 " bytes (%s), not %" PRIu64, count, expected,
                   ps_encoding_name(encoding), bytes);
}

/* A range is decoded by itself. A group of INT8 shares a scale, so that a range may not cut one;
 * pairs of TOP_K say themselves where they belong, and only their index must be able to name
 * every element. */
enum ps_status ps_encoding_check_range(enum ps_encoding encoding, uint64_t first, uint64_t count,
                                       uint64_t total, struct ps_error *error)
{
    PS_ASSERT(first <= total && count <= total - first);
    if (encoding == PS_ENCODING_TOP_K)
        return check_pairs(total, 0, error);
    /* The last group of a parameter may be short, and a range may end there. */
    uint64_t end = first + count;
    if (encoding != PS_ENCODING_INT8 ||
        (first % PS_ENCODING_GROUP == 0 && (end % PS_ENCODING_GROUP == 0 || end == total)))
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "elements %" PRIu64 " to %" PRIu64 " of %" PRIu64
                   ": a range of int8 begins and ends at a multiple of %d, or at the end",
                   first, end, total, PS_ENCODING_GROUP);
}

/* Contents of two kinds of data (scales and quanta, indices and values) have them one behind the
 * other; ranges of a gradient bring a piece of each. */
uint64_t ps_encoding_first_half(enum ps_encoding encoding, uint64_t count, uint64_t bytes)
{
    if (encoding == PS_ENCODING_INT8)
        return ps_encoding_groups(count) * sizeof(float);
    return encoding == PS_ENCODING_TOP_K ? bytes / 2 : bytes;
}

/* One scale that is not finite makes 256 elements so, and the push is judged by scales before it
 * is decoded. The text names the elements, not the group. */
enum ps_status ps_encoding_check_scales(const float *scales, size_t count, uint64_t first,
                                        struct ps_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(scales[i]))
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "the scale of elements %" PRIu64 " and following is not finite (int8)",
                           (first + i) * PS_ENCODING_GROUP);
    return PS_OK;
}

/* Looked at as 16-bit numbers, before decoding: all bits of the exponent set means infinity or
 * NaN. */
bool ps_encoding_run_finite(enum ps_encoding encoding, const void *encoded, size_t count)
{
    PS_ASSERT(encoding == PS_ENCODING_BFLOAT16 || encoding == PS_ENCODING_FLOAT16);
    uint16_t exponent = encoding == PS_ENCODING_BFLOAT16 ? 0x7f80 : 0x7c00;
    return ps_encoding_loops_best()->all_finite_16(encoded, count, exponent);
}

/* No product with -128 to 127 leaves the range of a float.
 * Then decoded elements are finite, and need not be looked at again. */
bool ps_encoding_scales_small(const float *scales, size_t count)
{
    bool small = true;
    for (size_t i = 0; i < count; i++)
        small = small && fabsf(scales[i]) <= FLT_MAX / 128;
    return small;
}

/* Rising indices are what lets an update walk a parameter once, and what keeps two values of one
 * element out. `*least` goes from piece to piece, since a content may come in several. */
enum ps_status ps_encoding_check_indices(const uint32_t *indices, size_t count, uint64_t limit,
                                         uint64_t *least, struct ps_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (indices[i] >= limit)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "index %" PRIu32 " of %" PRIu64 " elements (top_k)", indices[i], limit);
        /* Equal ones are refused, too: an element has one value. */
        if (indices[i] < *least)
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "index %" PRIu32 " behind %" PRIu64 ": indices rise (top_k)", indices[i],
                           *least - 1);
        *least = (uint64_t)indices[i] + 1;
    }
    return PS_OK;
}

/* Where a gradient of 0 changes nothing, elements that TOP_K does not name are not even read: a
 * push of one element in a thousand costs a thousandth. Decay and l2 act on every element, named
 * or not. */
bool ps_encoding_touches_named_only(const struct ps_optimizer_settings *settings)
{
    bool leaves_zeros = ps_rule_uses(settings->rule, PS_LEAVES_ZEROS);
    return leaves_zeros && settings->decay == 0 && settings->l2 == 0;
}

/* Any number of elements of one encoding, in the loop of this processor. */
void ps_decode_run(enum ps_encoding encoding, enum ps_dtype dtype, const void *encoded,
                   size_t count, void *elements)
{
    PS_ASSERT(encoding < PS_ENCODING_COUNT);
    PS_ASSERT(ps_dtype_is_float(dtype));
    /* NULL for INT8 and TOP_K, which have other arguments. */
    ps_convert_fn *decode = ps_encoding_loops_best()->decode[encoding][dtype];
    PS_ASSERT(decode != NULL);
    decode(encoded, count, elements);
}

/* The last group of a parameter may be short; no group is longer. */
void ps_decode_group(enum ps_dtype dtype, float scale, const void *quanta, size_t count,
                     void *elements)
{
    PS_ASSERT(ps_dtype_is_float(dtype));
    PS_ASSERT(count <= PS_ENCODING_GROUP);
    ps_encoding_loops_best()->decode_group[dtype](scale, quanta, count, elements);
}

/* For contents that are in one piece, as in tests and tools; the server decodes run by run as
 * the message lies. */
void ps_decode_all(enum ps_encoding encoding, enum ps_dtype dtype, const void *encoded,
                   size_t count, void *elements)
{
    if (ps_encoding_is_native(encoding, dtype))
        memcpy(elements, encoded, count * ps_dtype_size(dtype));
    else if (encoding == PS_ENCODING_INT8)
        decode_groups(dtype, encoded, count, elements);
    else
        ps_decode_run(encoding, dtype, encoded, count, elements);
}

static void decode_groups(enum ps_dtype dtype, const uint8_t *encoded, size_t count,
                          uint8_t *elements)
{
    /* All scales come first, then all quanta: a range of a gradient is two pieces of the
     * message. */
    const uint8_t *quanta = encoded + ps_encoding_groups(count) * sizeof(float);
    for (size_t first = 0; first < count; first += PS_ENCODING_GROUP) {
        float scale;
        /* Copied out: scales have the alignment of the message, which is none. */
        memcpy(&scale, encoded + first / PS_ENCODING_GROUP * sizeof scale, sizeof scale);
        size_t rest = count - first < PS_ENCODING_GROUP ? count - first : PS_ENCODING_GROUP;
        ps_decode_group(dtype, scale, quanta + first, rest,
                        elements + first * ps_dtype_size(dtype));
    }
}

enum ps_status ps_encode_all(enum ps_encoding encoding, enum ps_dtype dtype, const void *elements,
                             size_t count, void *encoded, struct ps_error *error)
{
    const struct ps_encoded_part all = {.elements = elements, .count = count, .total = count};
    return ps_encode_part(encoding, dtype, &all, encoded, error);
}

/* Parts of one gradient may be encoded side by side by several threads: each writes where the
 * whole would have its elements, and reads nothing of the others. */
enum ps_status ps_encode_part(enum ps_encoding encoding, enum ps_dtype dtype,
                              const struct ps_encoded_part *part, void *encoded,
                              struct ps_error *error)
{
    PS_ASSERT(encoding < PS_ENCODING_COUNT);
    PS_ASSERT(ps_dtype_is_float(dtype));
    PS_ASSERT(part->first <= part->total);
    PS_ASSERT(part->count <= part->total - part->first);
    if (encoding == PS_ENCODING_INT8)
        return encode_groups(dtype, part, encoded, error);
    uint8_t *to = (uint8_t *)encoded + part->first * ps_encoding_width(encoding, dtype);
    if (ps_encoding_is_native(encoding, dtype)) {
        memcpy(to, part->elements, part->count * ps_dtype_size(dtype));
        return PS_OK;
    }
    ps_convert_fn *encode = ps_encoding_loops_best()->encode[encoding][dtype];
    PS_ASSERT(encode != NULL);
    encode(part->elements, part->count, to);
    return PS_OK;
}

/* A group that has no finite scale refuses the whole gradient: an encoder that made zeros of it
 * would hide what a trainer must see. */
static enum ps_status encode_groups(enum ps_dtype dtype, const struct ps_encoded_part *part,
                                    uint8_t *encoded, struct ps_error *error)
{
    PS_ASSERT(part->first % PS_ENCODING_GROUP == 0);
    ps_narrow_group_fn *encode_group = ps_encoding_loops_best()->encode_group[dtype];
    const uint8_t *elements = part->elements;
    uint8_t *scales = encoded + part->first / PS_ENCODING_GROUP * sizeof(float);
    uint8_t *quanta = encoded + ps_encoding_groups(part->total) * sizeof(float) + part->first;
    for (size_t at = 0; at < part->count; at += PS_ENCODING_GROUP) {
        size_t rest = part->count - at;
        size_t count = rest < PS_ENCODING_GROUP ? rest : PS_ENCODING_GROUP;
        if (!encode_group(elements + at * ps_dtype_size(dtype), count,
                          scales + at / PS_ENCODING_GROUP * sizeof(float), quanta + at))
            return ps_fail(error, PS_ERR_BAD_INPUT,
                           "of elements %zu to %zu one is not finite or too large for int8",
                           part->first + at, part->first + at + count - 1);
    }
    return PS_OK;
}
