/* SPDX-License-Identifier: Apache-2.0 */
/* One side writes what the other reads, and a program of another year may be on either: what both
 * have to do in the same way is here once. */
#include "checkpoint/header_format.h"

#include "base/assert.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/checksum.h"
#include "checkpoint/section.h"

#include <string.h>

/* Wide elements before narrow ones, as their arrays stand in the file; then by name. Writer and
 * reader share this order. */
int ps_header_order(enum ps_dtype a_dtype, struct ps_bytes a_name, enum ps_dtype b_dtype,
                    struct ps_bytes b_name)
{
    size_t a_size = ps_dtype_size(a_dtype);
    size_t b_size = ps_dtype_size(b_dtype);
    if (a_size != b_size)
        return a_size > b_size ? -1 : 1;
    return ps_bytes_compare(a_name, b_name);
}

/* Names under which a parameter would be taken for something of the format's or ours. */
bool ps_header_name_reserved(struct ps_bytes name)
{
    static const char *prefixes[] = {PS_ARRAY_STATE_PREFIX, PS_ARRAY_KEYS_PREFIX,
                                     PS_ARRAY_CLOCK_PREFIX, PS_ARRAY_REMOVED_PREFIX};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (name.size >= strlen(prefixes[i]) &&
            memcmp(name.data, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return ps_bytes_equal(name, ps_bytes_of_text("__metadata__")) ||
           ps_bytes_equal(name, ps_bytes_of_text(PS_HEADER_SESSIONS)) || ps_section_is_name(name);
}

/* Over the whole head, with the digit 0 in the place of each digit of the checksum itself. */
uint32_t ps_header_checksum(struct ps_bytes head)
{
    /* As the head was when it was summed first; neither side has to copy the head to blank the
     * digits. */
    static const uint8_t zeros[PS_HEADER_CHECKSUM_DIGITS] = {'0', '0', '0', '0',
                                                             '0', '0', '0', '0'};
    size_t after = PS_HEADER_CHECKSUM_AT + PS_HEADER_CHECKSUM_DIGITS;
    PS_ASSERT(head.size >= after);
    struct ps_bytes before = {head.data, PS_HEADER_CHECKSUM_AT};
    struct ps_bytes rest = {head.data + after, head.size - after};
    uint32_t checksum = ps_checksum_crc32c(0, before);
    checksum = ps_checksum_crc32c(checksum, (struct ps_bytes){zeros, sizeof zeros});
    return ps_checksum_crc32c(checksum, rest);
}
