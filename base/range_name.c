/* SPDX-License-Identifier: Apache-2.0 */
/* Names are taken apart from the end, since a name may hold '#' and '/' itself. */
#include "base/range_name.h"

#include "base/assert.h"
#include "base/bounds.h"

#include <stddef.h>

static bool read_number(struct ps_bytes text, uint32_t *number);

/* Only a name that a client could have made is taken apart. A trainer may call a parameter
 * "layer#7/extra": the digits, their canonical form and the bounds decide, and whatever does not
 * fit is a whole parameter with a strange name. */
bool ps_range_name_split(struct ps_bytes name, struct ps_bytes *base, uint32_t *k, uint32_t *n)
{
    size_t slash = name.size;
    while (slash > 0 && name.data[slash - 1] != '/')
        slash--;
    size_t hash = slash;
    while (hash > 0 && name.data[hash - 1] != '#')
        hash--;
    /* An empty base name cannot be: a range belongs to something. */
    if (slash == 0 || hash <= 1)
        return false;
    /* Two runs of digits are left, whatever stands in them. */
    struct ps_bytes first = {name.data + hash, slash - 1 - hash};
    struct ps_bytes second = {name.data + slash, name.size - slash};
    uint32_t numbers[2];
    if (!read_number(first, &numbers[0]) || !read_number(second, &numbers[1]))
        return false;
    if (numbers[1] < 2 || numbers[1] > PS_SHARDS_MAX || numbers[0] >= numbers[1])
        return false;
    /* Nothing is copied: the base is the beginning of the name. */
    *base = (struct ps_bytes){name.data, hash - 1};
    PS_ASSERT(base->size > 0);
    *k = numbers[0];
    *n = numbers[1];
    return true;
}

/* Decimal digits without leading zeros. A leading zero is refused, because "w#01/3" is a name that
 * no client makes; four digits are more than there can be shards. */
static bool read_number(struct ps_bytes text, uint32_t *number)
{
    if (text.size == 0 || text.size > 4 || (text.size > 1 && text.data[0] == '0'))
        return false;
    *number = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        *number = *number * 10 + (uint32_t)(text.data[i] - '0');
    }
    return true;
}
