/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, read byte by byte, after table 3-7 of the Unicode standard (and RFC 3629): the shortest
 * form only, no surrogates, nothing above U+10FFFF. Lenient decoders let two different byte
 * sequences be one text, by which a name could pass a check in one place and mean another
 * elsewhere. */
#include "base/utf8.h"

#include "base/assert.h"

#include <string.h>

/* 10xxxxxx: a byte within a character and never its first. */
static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

size_t ps_utf8_first(struct ps_bytes bytes)
{
    if (bytes.size == 0)
        return 0;
    uint8_t first = bytes.data[0];
    if (first < 0x80)
        return 1;
    /* 0xc0 and 0xc1 could only begin overlong forms, above 0xf4 lies nothing. */
    if (first < 0xc2 || first > 0xf4)
        return 0;
    size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    /* A character that the end of the bytes cuts is not valid; the caller may have more bytes
     * later, this function does not. */
    if (bytes.size < length)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(bytes.data[i]))
            return 0;
    }
    /* The second byte decides about overlong forms, surrogates and the end of Unicode. */
    uint8_t second = bytes.data[1];
    bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    bool surrogate = first == 0xed && second >= 0xa0;
    bool beyond = first == 0xf4 && second >= 0x90;
    return overlong || surrogate || beyond ? 0 : length;
}

/* Empty text is valid. Names are ASCII nearly always, and every request has one. */
bool ps_utf8_valid(struct ps_bytes bytes)
{
    while (bytes.size > 0) {
        size_t length = bytes.data[0] < 0x80 ? 1 : ps_utf8_first(bytes);
        if (length == 0)
            return false;
        bytes.data += length;
        bytes.size -= length;
    }
    return true;
}

size_t ps_utf8_cut(struct ps_bytes bytes, size_t size_max)
{
    if (bytes.size <= size_max)
        return bytes.size;
    /* Steps back to the first byte of the character that the bound would cut. In bytes that are not
     * UTF-8 this may go back far, but never below 0, and the result still fits. */
    size_t size = size_max;
    while (size > 0 && is_continuation(bytes.data[size]))
        size--;
    PS_ASSERT(size <= size_max);
    return size;
}

/* Three dots stand for what is left out: whoever looks for the name sees that it goes on. */
void ps_utf8_shorten(char *to, size_t size, const char *from)
{
    static const char dots[] = "...";
    enum { DOTS = sizeof dots - 1, FRONT_SHARE = 4, LEAST = 16 };
    size_t length = strlen(from);
    PS_ASSERT(size >= LEAST);
    if (length < size) {
        memcpy(to, from, length + 1);
        return;
    }
    size_t room = size - 1 - DOTS;
    size_t front = ps_utf8_cut(ps_bytes_of_text(from), room / FRONT_SHARE);
    const char *end = from + length - (room - room / FRONT_SHARE);
    /* The NUL is no such byte, so that this ends also where the text is no UTF-8. */
    while (is_continuation((uint8_t)*end))
        end++;
    memcpy(to, from, front);
    memcpy(to + front, dots, DOTS);
    memcpy(to + front + DOTS, end, (size_t)(from + length - end) + 1);
    PS_ASSERT(strlen(to) < size);
}
