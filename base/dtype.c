/* The element type table turned into look-ups. */
#include "base/dtype.h"

#include "base/assert.h"

#include <string.h>

struct dtype_row {
    size_t size;
    const char *name;
    const char *label;
};

static const struct dtype_row rows[PS_DTYPE_COUNT] = {
#define ROW(TAG, suffix, T, SUM, label) [TAG] = {sizeof(T), #suffix, label},
    PS_DTYPE_TABLE(ROW)
#undef ROW
};

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
    return dtype == PS_F32 || dtype == PS_F64;
}
