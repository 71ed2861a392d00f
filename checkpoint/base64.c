/* Base64, both ways; decoding is strict, so that one byte sequence has one text. */
#include "checkpoint/base64.h"

#include "base/assert.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode_group(const uint8_t *bytes, size_t size, char text[4]);
static bool decode_group(const uint8_t *text, size_t characters, uint8_t bytes[3]);
static int32_t value_of(uint8_t character);

size_t ps_base64_encoded_size(size_t size)
{
    return (size + 2) / 3 * 4;
}

void ps_base64_append(struct ps_buffer *buffer, struct ps_bytes bytes)
{
    PS_ASSERT(buffer != NULL);
    while (bytes.size > 0) {
        size_t group = bytes.size < 3 ? bytes.size : 3;
        char text[4];
        encode_group(bytes.data, group, text);
        ps_buffer_append(buffer, (struct ps_bytes){(const uint8_t *)text, sizeof text});
        bytes.data += group;
        bytes.size -= group;
    }
}

static void encode_group(const uint8_t *bytes, size_t size, char text[4])
{
    uint32_t bits = (uint32_t)bytes[0] << 16;
    if (size > 1)
        bits |= (uint32_t)bytes[1] << 8;
    if (size > 2)
        bits |= bytes[2];
    text[0] = alphabet[bits >> 18];
    text[1] = alphabet[(bits >> 12) & 63];
    text[2] = size > 1 ? alphabet[(bits >> 6) & 63] : '=';
    text[3] = size > 2 ? alphabet[bits & 63] : '=';
}

bool ps_base64_decode(struct ps_bytes text, uint8_t *destination, size_t *size)
{
    PS_ASSERT(size != NULL);
    if (text.size % 4 != 0)
        return false;
    size_t done = 0;
    for (size_t at = 0; at < text.size; at += 4) {
        const uint8_t *group = text.data + at;
        bool last = at + 4 == text.size;
        size_t characters = 4;
        if (last && group[3] == '=')
            characters = group[2] == '=' ? 2 : 3;
        uint8_t bytes[3];
        if (!decode_group(group, characters, bytes))
            return false;
        for (size_t i = 0; i + 1 < characters; i++)
            destination[done++] = bytes[i];
    }
    *size = done;
    return true;
}

static bool decode_group(const uint8_t *text, size_t characters, uint8_t bytes[3])
{
    uint32_t bits = 0;
    for (size_t i = 0; i < characters; i++) {
        int32_t value = value_of(text[i]);
        if (value < 0)
            return false;
        bits |= (uint32_t)value << (18 - 6 * i);
    }
    for (size_t i = 0; i < 3; i++)
        bytes[i] = (uint8_t)(bits >> (16 - 8 * i));
    /* Of a cut group, the bytes beyond its end must be zero. */
    for (size_t i = characters - 1; i < 3; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

static int32_t value_of(uint8_t character)
{
    for (int32_t value = 0; value < 64; value++) {
        if (alphabet[value] == (char)character)
            return value;
    }
    return -1;
}
