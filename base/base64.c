/* Three bytes in four characters and back; decoding is strict, so that one byte sequence has one
 * text. */
#include "base/base64.h"

#include "base/assert.h"

static int digit_of(uint8_t character);
static bool decode_four(const uint8_t *four, bool last, uint8_t *bytes, size_t *size);

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void ps_base64_append(struct ps_buffer *buffer, struct ps_bytes bytes)
{
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
        if (used == sizeof run || left <= 3) {
            ps_buffer_append(buffer, (struct ps_bytes){(const uint8_t *)run, used});
            used = 0;
        }
    }
    PS_ASSERT(used == 0);
}

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
    uint32_t unused = padding == 0 ? 0 : padding == 1 ? group & 0xff : group & 0xffff;
    *size = count;
    return unused == 0;
}

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
