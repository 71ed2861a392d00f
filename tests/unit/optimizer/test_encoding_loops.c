/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that encode and decode: whatever the instruction set and the optimisation, the bits of
 * the same loops without any; and those of the rules, element by element. */
#include "expect.h"

#include "optimizer/decode.rule.h"
#include "optimizer/encoding_loops.h"

#include <stdlib.h>

#define COUNT 4099

extern const struct ps_encoding_loops ps_encoding_loops_plain; /* the same file at -O0 */

static const size_t counts[] = {0, 1, 2, 3, 7, 8, 15, 17, 31, 33, 64, 65, 255, 257, 1023, COUNT};

/* Random bits: of all kinds of numbers, NaN and infinities among them. */
static void fill_bits(uint64_t seed, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(seed >> 56);
    }
}

/* Numbers of ordinary and of extreme size. */
static void fill_elements(uint64_t seed, enum ps_dtype dtype, void *elements, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double value = ldexp((double)(int64_t)seed, -63 - (int)(seed >> 9 & 31));
        value = i % 97 == 5 ? ldexp(value, i % 2 == 0 ? 100 : -140) : value;
        value = i % 1013 == 7 ? (double)NAN : value;
        if (dtype == PS_F32)
            ((float *)elements)[i] = (float)value;
        else
            ((double *)elements)[i] = value;
    }
}

/* NaN equals NaN. */
static bool equal(enum ps_dtype dtype, const void *left, const void *right, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i * ps_dtype_size(dtype);
        if (memcmp((const char *)left + at, (const char *)right + at, ps_dtype_size(dtype)) == 0)
            continue;
        if (dtype == PS_F32
                ? !isnan(((const float *)left)[i]) || !isnan(((const float *)right)[i])
                : !isnan(((const double *)left)[i]) || !isnan(((const double *)right)[i]))
            return false;
    }
    return true;
}

static void every_instruction_set_decodes_to_the_bits_of_the_plain_loops(struct expect *expect)
{
    static uint8_t encoded[COUNT * 8 + 1];
    static double plain[COUNT];
    static double wide[COUNT];
    fill_bits(1, encoded, sizeof encoded);
    for (enum ps_encoding encoding = PS_ENCODING_FLOAT32; encoding < PS_ENCODING_INT8; encoding++) {
        for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
            for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
                memset(plain, 0, sizeof plain);
                ps_encoding_loops_plain.decode[encoding][dtype](encoded + 1, counts[j], plain);
                for (size_t i = 0; ps_encoding_loops_at(i) != NULL; i++) {
                    memset(wide, 0, sizeof wide);
                    ps_encoding_loops_at(i)->decode[encoding][dtype](encoded + 1, counts[j], wide);
                    EXPECT(expect, equal(dtype, plain, wide, COUNT));
                }
            }
        }
    }
}

static void every_instruction_set_encodes_to_the_bytes_of_the_plain_loops(struct expect *expect)
{
    static double elements[COUNT];
    static uint8_t plain[COUNT * 8 + 1];
    static uint8_t wide[COUNT * 8 + 1];
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        fill_elements(2, dtype, elements, COUNT);
        for (enum ps_encoding to = PS_ENCODING_BFLOAT16; to <= PS_ENCODING_FLOAT16; to++) {
            for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
                memset(plain, 0, sizeof plain);
                ps_encoding_loops_plain.encode[to][dtype](elements, counts[j], plain + 1);
                for (size_t i = 0; ps_encoding_loops_at(i) != NULL; i++) {
                    memset(wide, 0, sizeof wide);
                    ps_encoding_loops_at(i)->encode[to][dtype](elements, counts[j], wide + 1);
                    EXPECT(expect, memcmp(plain, wide, sizeof plain) == 0);
                }
            }
        }
    }
}

static void every_instruction_set_makes_the_groups_of_the_plain_loops(struct expect *expect)
{
    static double elements[COUNT];
    uint8_t plain[5 + PS_ENCODING_GROUP];
    uint8_t wide[5 + PS_ENCODING_GROUP];
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        fill_elements(3, dtype, elements, COUNT);
        for (size_t first = 0; first + PS_ENCODING_GROUP < COUNT; first += 61) {
            size_t count = first % (PS_ENCODING_GROUP + 1);
            const char *from = (const char *)elements + first * ps_dtype_size(dtype);
            memset(plain, 0, sizeof plain);
            bool good =
                ps_encoding_loops_plain.encode_group[dtype](from, count, plain + 1, plain + 5);
            for (size_t i = 0; ps_encoding_loops_at(i) != NULL; i++) {
                memset(wide, 0, sizeof wide);
                EXPECT(expect, ps_encoding_loops_at(i)->encode_group[dtype](from, count, wide + 1,
                                                                            wide + 5) == good);
                EXPECT(expect, !good || memcmp(plain, wide, sizeof plain) == 0);
            }
        }
    }
}

static void every_instruction_set_decodes_groups_to_the_same_bits(struct expect *expect)
{
    uint8_t quanta[PS_ENCODING_GROUP + 1];
    double plain[PS_ENCODING_GROUP];
    double wide[PS_ENCODING_GROUP];
    const float scales[] = {0.017F, 1e-41F, 3e38F, -2.5F, 0};
    fill_bits(4, quanta, sizeof quanta);
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        for (size_t j = 0; j < sizeof scales / sizeof scales[0]; j++) {
            ps_encoding_loops_plain.decode_group[dtype](scales[j], quanta + 1, PS_ENCODING_GROUP,
                                                        plain);
            for (size_t i = 0; ps_encoding_loops_at(i) != NULL; i++) {
                ps_encoding_loops_at(i)->decode_group[dtype](scales[j], quanta + 1,
                                                             PS_ENCODING_GROUP, wide);
                EXPECT(expect, equal(dtype, plain, wide, PS_ENCODING_GROUP));
            }
        }
    }
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* A change of this number changes what old journals are replayed to. */
static void results_are_these_bits_on_every_machine(struct expect *expect)
{
    static uint8_t encoded[65536 * 2];
    static double elements[65536];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t pattern = (uint16_t)i;
        bool is_nan = (i & 0x7fff) > 0x7c00;
        pattern = is_nan ? 0 : pattern; /* which bits of a NaN survive is not promised */
        memcpy(encoded + i * 2, &pattern, sizeof pattern);
    }
    for (enum ps_encoding from = PS_ENCODING_BFLOAT16; from <= PS_ENCODING_FLOAT16; from++) {
        for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
            ps_encoding_loops_best()->decode[from][dtype](encoded, 65536, elements);
            hash = hash_bytes(hash, elements, 65536 * ps_dtype_size(dtype));
        }
    }
    printf("  hash %016llx, widest loops %s\n", (unsigned long long)hash,
           ps_encoding_loops_best()->name);
    EXPECT(expect, hash == UINT64_C(0xd1207714281b6085));
}

int main(void)
{
    struct expect expect = {0};
    ps_optimizer_enter_thread();
    EXPECT_RUN(&expect, every_instruction_set_decodes_to_the_bits_of_the_plain_loops);
    EXPECT_RUN(&expect, every_instruction_set_encodes_to_the_bytes_of_the_plain_loops);
    EXPECT_RUN(&expect, every_instruction_set_makes_the_groups_of_the_plain_loops);
    EXPECT_RUN(&expect, every_instruction_set_decodes_groups_to_the_same_bits);
    EXPECT_RUN(&expect, results_are_these_bits_on_every_machine);
    return expect_end(&expect);
}
