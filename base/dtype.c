/* SPDX-License-Identifier: Apache-2.0 */
/* The element type table turned into look-ups. Each is an index into one array that is generated
 * from the table, so a new type needs no line here. */
#include "base/dtype.h"

#include "base/assert.h"

#include <string.h>

struct dtype_row {
    size_t size;
    const char *name;
    const char *label;
};

/* A type that is in two kinds, or in none, would be missed by half of the code. */
#define ONE_FLOAT(suffix, T, f) +1
#define ONE_SIGNED(suffix, T, U, least, greatest) +1
#define ONE_UNSIGNED(suffix, T, twin, TWIN, greatest) +1
_Static_assert(PS_DTYPE_COUNT == 0 PS_FLOAT_TABLE(ONE_FLOAT) PS_SIGNED_TABLE(ONE_SIGNED)
                                     PS_UNSIGNED_TABLE(ONE_UNSIGNED),
               "each type is of exactly one kind");
#undef ONE_FLOAT
#undef ONE_SIGNED
#undef ONE_UNSIGNED

static const struct dtype_row rows[PS_DTYPE_COUNT] = {
#define ROW(TAG, suffix, T, SUM, label) [TAG] = {sizeof(T), #suffix, label},
    PS_DTYPE_TABLE(ROW)
#undef ROW
};

/* A type from outside was held to the table where it was read (proto/decode.c, journal_record.c,
 * header_reader.c); one beyond it here is a bug. */
size_t ps_dtype_size(enum ps_dtype dtype)
{
    PS_ASSERT(dtype < PS_DTYPE_COUNT);
    return rows[dtype].size;
}

const char *ps_dtype_name(enum ps_dtype dtype)
{
    PS_ASSERT(dtype < PS_DTYPE_COUNT);
    return rows[dtype].name;
}

const char *ps_dtype_label(enum ps_dtype dtype)
{
    PS_ASSERT(dtype < PS_DTYPE_COUNT);
    return rows[dtype].label;
}

/* By a checkpoint file's label ("F32"); six comparisons are as quick as anything. */
bool ps_dtype_from_label(const char *label, enum ps_dtype *dtype)
{
    PS_ASSERT(label != NULL);
    for (size_t i = 0; i < PS_DTYPE_COUNT; i++) {
        if (strcmp(rows[i].label, label) != 0)
            continue;
        *dtype = (enum ps_dtype)i;
        return true;
    }
    return false;
}

bool ps_dtype_is_float(enum ps_dtype dtype)
{
#define IS_FLOAT(suffix, T, f) dtype == PS_DTYPE_##suffix ||
    return PS_FLOAT_TABLE(IS_FLOAT) false;
#undef IS_FLOAT
}

bool ps_dtype_is_unsigned(enum ps_dtype dtype)
{
    return ps_dtype_signed_twin(dtype) != dtype;
}

enum ps_dtype ps_dtype_signed_twin(enum ps_dtype dtype)
{
#define TWIN_OF(suffix, T, twin, TWIN, greatest) \
    if (dtype == PS_DTYPE_##suffix)              \
        return PS_DTYPE_##twin;
    PS_UNSIGNED_TABLE(TWIN_OF)
#undef TWIN_OF
    return dtype;
}
