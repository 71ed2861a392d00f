/* SPDX-License-Identifier: Apache-2.0 */
/* Three bytes in four characters and back (RFC 4648, section 4). Decoding is strict, so that one
 * byte sequence has exactly one text: texts are compared as texts, and etcd keys are made of them.
 * Hence no line breaks, no missing padding, and no bits set where a short group has none to
 * carry. */
#include "base/base64.h"

#include "base/assert.h"

static int digit_of(uint8_t character);
static bool decode_four(const uint8_t *four, bool last, uint8_t *bytes, size_t *size);

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void ps_base64_append(struct ps_buffer *buffer, struct ps_bytes bytes)
{
    /* Characters are collected and appended 256 at a time: an append checks for room, and one check
     * for each group of four would cost more than the encoding. 256 is a multiple of 4, so the run
     * is full exactly at the end of a group. */
    char run[256];
    size_t used = 0;
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t group = (uint32_t)bytes.data[i] << 16;
        group |= left > 1 ? (uint32_t)bytes.data[i + 1] << 8 : 0;
        group |= left > 2 ? (uint32_t)bytes.data[i + 2] : 0;
        run[used++] = digits[group >> 18];
        run[used++] = digits[group >> 12 & 63];
        run[used++] = left > 1 ? digits[group >> 6 & 63] : '=';
        run[used++] = left > 2 ? digits[group & 63] : '=';
        /* The last group always flushes, whatever the fill; this is why nothing can be left over
         * below. */
        if (used == sizeof run || left <= 3) {
            ps_buffer_append(buffer, (struct ps_bytes){(const uint8_t *)run, used});
            used = 0;
        }
    }
    PS_ASSERT(used == 0);
}

/* Sizes come from buffers that exist, so the sum cannot wrap. */
size_t ps_base64_encoded_size(size_t size)
{
    return (size + 2) / 3 * 4;
}

size_t ps_base64_decoded_max(size_t text_size)
{
    return text_size / 4 * 3;
}

bool ps_base64_decode(struct ps_bytes text, uint8_t *bytes, size_t *size)
{
    if (text.size % 4 != 0)
        return false;
    size_t total = 0;
    for (size_t i = 0; i < text.size; i += 4) {
        size_t got = 0;
        if (!decode_four(text.data + i, i + 4 == text.size, bytes + total, &got))
            return false;
        total += got;
    }
    *size = total;
    return true;
}

/* Padding is looked for in the last group only. Elsewhere '=' is not a digit and is refused by
 * digit_of, which is what keeps two encodings joined end to end from being read as one. */
static bool decode_four(const uint8_t *four, bool last, uint8_t *bytes, size_t *size)
{
    size_t padding = 0;
    if (last && four[3] == '=')
        padding = four[2] == '=' ? 2 : 1;
    uint32_t group = 0;
    for (size_t i = 0; i < 4 - padding; i++) {
        int digit = digit_of(four[i]);
        if (digit < 0)
            return false;
        group |= (uint32_t)digit << (18 - 6 * i);
    }
    size_t count = 3 - padding;
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(group >> (16 - 8 * i));
    /* The bits behind the last whole byte must be 0: "QQ==" and "QR==" would otherwise decode to
     * the same byte, and one value would have sixteen texts. */
    uint32_t unused = padding == 0 ? 0 : padding == 1 ? group & 0xff : group & 0xffff;
    *size = count;
    return unused == 0;
}

/* Comparisons instead of a table of 256 entries: decoding is for small values out of the store, and
 * a mistake in a table is harder to see. The order of the tests is free, the ranges do not
 * overlap. */
static int digit_of(uint8_t character)
{
    if (character >= 'A' && character <= 'Z')
        return character - 'A';
    if (character >= 'a' && character <= 'z')
        return character - 'a' + 26;
    if (character >= '0' && character <= '9')
        return character - '0' + 52;
    if (character == '+')
        return 62;
    return character == '/' ? 63 : -1;
}
