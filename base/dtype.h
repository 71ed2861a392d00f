/* The six element types. This table is the only list of them: every switch, name table, codec and
 * kernel table is generated from it. The enum values are the numbers on the wire.
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

#define PS_DTYPE_ENUM(TAG, suffix, T, SUM, label) TAG,
enum ps_dtype { PS_DTYPE_TABLE(PS_DTYPE_ENUM) PS_DTYPE_COUNT };
#undef PS_DTYPE_ENUM

/* Bytes of one element: 4 or 8. */
size_t ps_dtype_size(enum ps_dtype dtype);

/* "i32" ... "f64". Static. */
const char *ps_dtype_name(enum ps_dtype dtype);

/* The name that safetensors files use: "I32" ... "F64". Static. */
const char *ps_dtype_label(enum ps_dtype dtype);

/* Finds a dtype by its label. False when there is none; `*dtype` is then unchanged. */
bool ps_dtype_from_label(const char *label, enum ps_dtype *dtype);

bool ps_dtype_is_float(enum ps_dtype dtype);

#endif
