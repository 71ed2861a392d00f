/* SPDX-License-Identifier: Apache-2.0 */
/* How the elements of a gradient (or of a pulled parameter) are written on the wire. This table is
 * the only list of the encodings; the enum values are the numbers on the wire and in the journal.
 *
 *   native    the parameter's own type
 *   float32   4 bytes each
 *   float64   8 bytes each
 *   bfloat16  2 bytes each: the upper half of a float32
 *   float16   2 bytes each: IEEE 754 binary16
 *   int8      one float32 scale per 256 elements, then one signed byte each: scale * byte
 *   top_k     k rising uint32 indices, then k float32 values; every other element is 0
 *   rows      of tables alone: k keys of 8 bytes, then k rows of the table's type
 *
 * All of it little-endian and packed. What the elements become is in optimizer/decode.rule.h.
 *
 * Threads:  constant data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_ENCODING_H
#define PS_BASE_ENCODING_H

#include <stdbool.h>

/* X(TAG, name for people) */
#define PS_ENCODING_TABLE(X)            \
    X(PS_ENCODING_NATIVE, "native")     \
    X(PS_ENCODING_FLOAT32, "float32")   \
    X(PS_ENCODING_FLOAT64, "float64")   \
    X(PS_ENCODING_BFLOAT16, "bfloat16") \
    X(PS_ENCODING_FLOAT16, "float16")   \
    X(PS_ENCODING_INT8, "int8")         \
    X(PS_ENCODING_TOP_K, "top_k")

#define PS_ENCODING_ENUM(TAG, name) TAG,
enum ps_encoding { PS_ENCODING_TABLE(PS_ENCODING_ENUM) PS_ENCODING_COUNT };
#undef PS_ENCODING_ENUM

/* The rows of a table are no way to write the elements of a parameter: what walks through the
 * encodings ends before this number, which leaves room for more of them. A macro, since a value of
 * the enum would have to be a case wherever elements are converted. */
#define PS_ENCODING_ROWS ((enum ps_encoding)16)

/* Elements that share a scale of PS_ENCODING_INT8. */
#define PS_ENCODING_GROUP 256

/* "native" ... "top_k", "rows". Static. */
const char *ps_encoding_name(enum ps_encoding encoding);

/* Finds an encoding of elements by its name. False when there is none; `*encoding` is then
 * unchanged. */
bool ps_encoding_from_name(const char *name, enum ps_encoding *encoding);

#endif
