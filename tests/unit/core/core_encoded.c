/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in every encoding, for tests. */
#include "tests/unit/core/core_encoded.h"

#include <string.h>

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 16;
}

/* What TOP_K stands for: zeros, and what is named. */
static void decode_pairs(struct encoded *encoded, size_t kept)
{
    memset(encoded->decoded, 0, encoded->count * ps_dtype_size(encoded->dtype));
    for (size_t i = 0; i < kept; i++) {
        uint32_t index;
        float value;
        memcpy(&index, encoded->content + i * 4, 4);
        memcpy(&value, encoded->content + kept * 4 + i * 4, 4);
        if (encoded->dtype == PS_F32)
            ((float *)encoded->decoded)[index] = value;
        else
            encoded->decoded[index] = (double)value;
    }
}

/* In place, since a structure of megabytes has no room on the stack. */
void encoded_clear(struct encoded *encoded, enum ps_encoding encoding, enum ps_dtype dtype,
                   size_t count)
{
    memset(encoded, 0, sizeof *encoded);
    encoded->encoding = encoding;
    encoded->dtype = dtype;
    encoded->count = count;
}

void encoded_make(struct encoded *encoded, enum ps_encoding encoding, enum ps_dtype dtype,
                  size_t count, size_t kept, uint64_t seed)
{
    static double elements[ENCODED_MAX];
    ck_assert_uint_le(count, ENCODED_MAX);
    encoded->encoding = encoding;
    encoded->dtype = dtype;
    encoded->count = count;
    for (size_t i = 0; i < count; i++) {
        double value = (double)(int64_t)(next(&seed) << 16) / 0x1p63;
        if (dtype == PS_F32)
            ((float *)elements)[i] = (float)value;
        else
            elements[i] = value;
    }
    if (encoding == PS_ENCODING_TOP_K) {
        ps_encode_top_k(dtype, elements, count, kept, encoded->content);
        encoded->bytes = kept * PS_ENCODING_PAIR_BYTES;
        decode_pairs(encoded, kept);
        return;
    }
    encoded->bytes = (size_t)ps_encoding_bytes(encoding, dtype, count);
    ck_assert_int_eq(ps_encode_all(encoding, dtype, elements, count, encoded->content, NULL),
                     PS_OK);
    ps_decode_all(encoding, dtype, encoded->content, count, encoded->decoded);
}

struct ps_gradient encoded_whole(struct encoded *encoded)
{
    encoded->piece = (struct ps_bytes){encoded->content, encoded->bytes};
    return (struct ps_gradient){.content = ps_view_of(&encoded->piece),
                                .encoding = encoded->encoding};
}

struct ps_gradient encoded_native(struct encoded *encoded)
{
    encoded->piece = (struct ps_bytes){(const uint8_t *)encoded->decoded,
                                       encoded->count * ps_dtype_size(encoded->dtype)};
    return (struct ps_gradient){.content = ps_view_of(&encoded->piece)};
}

/* Half of the pieces are of a few bytes, some are empty. */
struct ps_gradient encoded_cut(struct encoded *encoded, uint64_t seed)
{
    size_t at = 0;
    for (size_t i = 0; i < ENCODED_PIECES; i++) {
        size_t rest = encoded->bytes - at;
        size_t size = next(&seed) % 2 == 0 ? next(&seed) % 6 : next(&seed) % (rest / 4 + 1);
        if (i + 1 == ENCODED_PIECES || size > rest)
            size = rest;
        encoded->pieces[i] = (struct ps_bytes){encoded->content + at, size};
        at += size;
    }
    return (struct ps_gradient){.content = {encoded->pieces, ENCODED_PIECES, encoded->bytes},
                                .encoding = encoded->encoding};
}

/* The first pair whose index is at least `index`. */
static size_t pair_at(const struct encoded *encoded, uint64_t index)
{
    size_t pair = 0;
    for (; pair < encoded->bytes / PS_ENCODING_PAIR_BYTES; pair++) {
        uint32_t named;
        memcpy(&named, encoded->content + pair * sizeof named, sizeof named);
        if (named >= index)
            break;
    }
    return pair;
}

struct ps_view encoded_range(const struct encoded *encoded, uint64_t first, uint64_t count,
                             struct ps_bytes pieces[2])
{
    const uint8_t *content = encoded->content;
    if (encoded->encoding == PS_ENCODING_TOP_K) {
        size_t begin = pair_at(encoded, first);
        size_t pairs = pair_at(encoded, first + count) - begin;
        pieces[0] = (struct ps_bytes){content + begin * 4, pairs * 4};
        pieces[1] = (struct ps_bytes){content + encoded->bytes / 2 + begin * 4, pairs * 4};
    } else if (encoded->encoding == PS_ENCODING_INT8) {
        size_t scales = (size_t)ps_encoding_groups(encoded->count) * sizeof(float);
        pieces[0] = (struct ps_bytes){content + first / PS_ENCODING_GROUP * sizeof(float),
                                      (size_t)ps_encoding_groups(count) * sizeof(float)};
        pieces[1] = (struct ps_bytes){content + scales + first, (size_t)count};
    } else {
        size_t width = ps_encoding_width(encoded->encoding, encoded->dtype);
        size_t half = (size_t)count / 2 * width;
        pieces[0] = (struct ps_bytes){content + first * width, half};
        pieces[1] = (struct ps_bytes){pieces[0].data + half, (size_t)count * width - half};
    }
    return (struct ps_view){pieces, 2, pieces[0].size + pieces[1].size};
}
