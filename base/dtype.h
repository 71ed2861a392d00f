/* SPDX-License-Identifier: Apache-2.0 */
/* The six element types. The tables here are the only lists of them: every switch, name table,
 * codec and kernel table is generated from them. The enum values are the numbers on the wire, so
 * that a new type goes to the end (docs/add-an-element-type.md).
 *
 * Threads:  constant data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_DTYPE_H
#define PS_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(TAG, suffix, element type, type that adds without undefined behaviour, safetensors name) */
#define PS_DTYPE_TABLE(X)                     \
    X(PS_I32, i32, int32_t, uint32_t, "I32")  \
    X(PS_U32, u32, uint32_t, uint32_t, "U32") \
    X(PS_I64, i64, int64_t, uint64_t, "I64")  \
    X(PS_U64, u64, uint64_t, uint64_t, "U64") \
    X(PS_F32, f32, float, float, "F32")       \
    X(PS_F64, f64, double, double, "F64")

/* The same types by kind; each is in one of the three.
 *
 * X(suffix, element type, suffix of its math functions) */
#define PS_FLOAT_TABLE(X) \
    X(f32, float, f)      \
    X(f64, double, )

/* X(suffix, element type, type of the same width that wraps, least, greatest) */
#define PS_SIGNED_TABLE(X)                          \
    X(i32, int32_t, uint32_t, INT32_MIN, INT32_MAX) \
    X(i64, int64_t, uint64_t, INT64_MIN, INT64_MAX)

/* X(suffix, element type, suffix and type of the signed twin of that width, greatest) */
#define PS_UNSIGNED_TABLE(X)                   \
    X(u32, uint32_t, i32, int32_t, UINT32_MAX) \
    X(u64, uint64_t, i64, int64_t, UINT64_MAX)

/* PS_F32 and the others; PS_DTYPE_f32 is the same, for whoever has the suffix alone. */
#define PS_DTYPE_ENUM(TAG, suffix, T, SUM, label) TAG,
#define PS_DTYPE_ALIAS(TAG, suffix, T, SUM, label) PS_DTYPE_##suffix = TAG,
enum ps_dtype { PS_DTYPE_TABLE(PS_DTYPE_ENUM) PS_DTYPE_COUNT, PS_DTYPE_TABLE(PS_DTYPE_ALIAS) };
#undef PS_DTYPE_ENUM
#undef PS_DTYPE_ALIAS

/* Bytes of one element. */
size_t ps_dtype_size(enum ps_dtype dtype);

/* "i32" ... "f64". Static. */
const char *ps_dtype_name(enum ps_dtype dtype);

/* The name that safetensors files use: "I32" ... "F64". Static. */
const char *ps_dtype_label(enum ps_dtype dtype);

/* Finds a dtype by its label. False when there is none; `*dtype` is then unchanged. */
bool ps_dtype_from_label(const char *label, enum ps_dtype *dtype);

bool ps_dtype_is_float(enum ps_dtype dtype);
bool ps_dtype_is_unsigned(enum ps_dtype dtype);

/* The signed type of the same width; of every type that is not unsigned the type itself. */
enum ps_dtype ps_dtype_signed_twin(enum ps_dtype dtype);

#endif
