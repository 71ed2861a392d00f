/* SPDX-License-Identifier: Apache-2.0 */
/* Digits, and a unit out of a table. Whole numbers only: "1.5GiB" is refused, because a fraction of
 * a unit would have to be rounded, and somebody who writes a limit means that limit. */
#include "base/quantity.h"

#include "base/assert.h"
#include "base/attributes.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A suffix and how many of the smallest unit it stands for. The factors of a table are exact, so
 * the conversion is one multiplication. */
struct unit {
    const char *suffix;
    uint64_t factor;
};

#define KIBI UINT64_C(1024)
#define KILO UINT64_C(1000)

static const struct unit no_units[] = {{"", 1}};
/* Kubernetes writes "Ki" and "k", drives are sold in "GB"; each spelling means what its users mean
 * by it. A bare "K" is 1000, as in Kubernetes and in SI, although some programs read it as 1024. */
static const struct unit byte_units[] = {
    {"", 1},
    {"B", 1},
    {"Ki", KIBI},
    {"KiB", KIBI},
    {"Mi", KIBI *KIBI},
    {"MiB", KIBI *KIBI},
    {"Gi", KIBI *KIBI *KIBI},
    {"GiB", KIBI *KIBI *KIBI},
    {"Ti", KIBI *KIBI *KIBI *KIBI},
    {"TiB", KIBI *KIBI *KIBI *KIBI},
    {"k", KILO},
    {"K", KILO},
    {"kB", KILO},
    {"KB", KILO},
    {"M", KILO *KILO},
    {"MB", KILO *KILO},
    {"G", KILO *KILO *KILO},
    {"GB", KILO *KILO *KILO},
    {"T", KILO *KILO *KILO *KILO},
    {"TB", KILO *KILO *KILO *KILO},
};
/* A time without a unit is in seconds, whatever the field is kept in. */
static const struct unit millisecond_units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}};
/* Nanoseconds are for busy polling, where a setting is some microseconds. */
static const struct unit nanosecond_units[] = {
    {"", KILO *KILO *KILO},       {"us", KILO},
    {"ms", KILO *KILO},           {"s", KILO *KILO *KILO},
    {"m", 60 * KILO *KILO *KILO}, {"h", 60 * 60 * KILO *KILO *KILO}};

static bool read_quantity(const char *text, const struct unit *units, size_t unit_count,
                          uint64_t *value);

bool ps_quantity_number(const char *text, uint64_t *number)
{
    return read_quantity(text, no_units, PS_ARRAY_COUNT(no_units), number);
}

bool ps_quantity_bytes(const char *text, uint64_t *bytes)
{
    return read_quantity(text, byte_units, PS_ARRAY_COUNT(byte_units), bytes);
}

bool ps_quantity_milliseconds(const char *text, uint64_t *milliseconds)
{
    return read_quantity(text, millisecond_units, PS_ARRAY_COUNT(millisecond_units), milliseconds);
}

bool ps_quantity_nanoseconds(const char *text, uint64_t *nanoseconds)
{
    return read_quantity(text, nanosecond_units, PS_ARRAY_COUNT(nanosecond_units), nanoseconds);
}

/* strtoull alone would take spaces and signs before the digits, and wrap "-1" to the largest
 * number; the first character must therefore be a digit. The unit is compared as a whole, so
 * "10sec" and "10 s" are refused. The product is judged before it is formed. */
static bool read_quantity(const char *text, const struct unit *units, size_t unit_count,
                          uint64_t *value)
{
    PS_ASSERT(text != NULL && value != NULL);
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end = NULL;
    /* ERANGE is how strtoull reports a number beyond 64 bits; its return value alone is a valid
     * number. */
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    for (size_t i = 0; i < unit_count; i++) {
        if (strcmp(units[i].suffix, end) != 0)
            continue;
        /* 20,000,000T is more bytes than 64 bits count; wrapped around, it would be a small
         * limit. */
        if (number > UINT64_MAX / units[i].factor)
            return false;
        *value = number * units[i].factor;
        return true;
    }
    return false;
}
