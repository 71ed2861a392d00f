/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the encodings. */
#include "base/encoding.h"

#include "base/assert.h"

#include <string.h>

/* In the order of the table, which is the order of the enum; both are the contract's numbers. */
#define NAME(TAG, name) name,
static const char *const names[] = {PS_ENCODING_TABLE(NAME)};
#undef NAME

const char *ps_encoding_name(enum ps_encoding encoding)
{
    /* Of a push to a table, in logs and in what tools show of a journal. */
    if (encoding == PS_ENCODING_ROWS)
        return "rows";
    PS_ASSERT(encoding < PS_ENCODING_COUNT);
    return names[encoding];
}

/* For options and configuration; on the wire encodings are numbers. */
bool ps_encoding_from_name(const char *name, enum ps_encoding *encoding)
{
    for (enum ps_encoding i = 0; i < PS_ENCODING_COUNT; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *encoding = i;
        return true;
    }
    return false;
}
