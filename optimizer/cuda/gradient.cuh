/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients as they come: a pack or one element of any encoding becomes the parameter's type.
 *
 * Threads:  those of a kernel.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_OPTIMIZER_CUDA_GRADIENT_CUH
#define PS_OPTIMIZER_CUDA_GRADIENT_CUH

#include "optimizer/cuda/device.cuh"
#include "optimizer/decode.rule.h"

/* As many encoded elements as a pack of the parameter's type has; loaded in one or two accesses. */
#define BATCH(suffix, T, wire, W)                                                                 \
    struct alignas(sizeof(W) * PACK(T) > 16 ? 16 : sizeof(W) * PACK(T)) batch_##wire##_##suffix { \
        W element[PACK(T)];                                                                       \
    };                                                                                            \
    PS_DEVICE struct batch_##wire##_##suffix batch_##wire##_of_##suffix(const void *elements,     \
                                                                        uint64_t pack)            \
    {                                                                                             \
        return ((const struct batch_##wire##_##suffix *)elements)[pack];                          \
    }

#define DECODE_PACK(suffix, T, wire, W)                                                         \
    BATCH(suffix, T, wire, W)                                                                   \
    PS_DEVICE struct pack_##suffix pack_from_##wire##_##suffix(const void *elements,            \
                                                               uint64_t pack)                   \
    {                                                                                           \
        const struct batch_##wire##_##suffix from = batch_##wire##_of_##suffix(elements, pack); \
        struct pack_##suffix to;                                                                \
        PS_UNROLL                                                                               \
        for (unsigned k = 0; k < PACK(T); k++)                                                  \
            to.element[k] = ps_decode_##wire##_##suffix(from.element[k]);                       \
        return to;                                                                              \
    }
#define DECODE_F32(wire, W) DECODE_PACK(f32, float, wire, W)
#define DECODE_F64(wire, W) DECODE_PACK(f64, double, wire, W)
PS_WIRE_TABLE(DECODE_F32)
PS_WIRE_TABLE(DECODE_F64)
#undef DECODE_F32
#undef DECODE_F64
#undef DECODE_PACK

/* A pack never crosses from one scale to the next. */
#define DECODE_INT8(suffix, T, f)                                                                 \
    BATCH(suffix, T, int8, int8_t)                                                                \
    PS_DEVICE struct pack_##suffix pack_from_int8_##suffix(                                       \
        const struct ps_cuda_gradient *gradient, uint64_t pack)                                   \
    {                                                                                             \
        const struct batch_int8_##suffix from = batch_int8_of_##suffix(gradient->elements, pack); \
        const float scale = gradient->scales[pack * PACK(T) / PS_ENCODING_GROUP];                 \
        struct pack_##suffix to;                                                                  \
        PS_UNROLL                                                                                 \
        for (unsigned k = 0; k < PACK(T); k++)                                                    \
            to.element[k] = ps_decode_int8_##suffix(scale, from.element[k]);                      \
        return to;                                                                                \
    }
PS_FLOAT_TABLE(DECODE_INT8)
#undef DECODE_INT8
#undef BATCH

/* Elements that one thread decodes together, which are two packs of the parameter's: 32 bytes, what
 * the memory gives out at once. Of bfloat16 and float16 that is 16 bytes for a float32 parameter and
 * 8 for a float64 one, of int8 half of it. */
#define PAIR_PACKS 2
#define PAIR(T) (PAIR_PACKS * PACK(T))

/* Number `i` of the pieces of sizeof *to bytes, in accesses of 16 bytes or of all there is. */
struct alignas(16) words_4 {
    uint32_t word[4];
};
#define LOAD_WIDE(to, from, i)                                                             \
    do {                                                                                   \
        if (sizeof *(to) < sizeof(struct words_4))                                         \
            *(to) = (from)[i];                                                             \
        PS_UNROLL                                                                          \
        for (unsigned j = 0; (j + 1) * sizeof(struct words_4) <= sizeof *(to); j++) {      \
            const struct words_4 piece =                                                   \
                ((const struct words_4 *)(from))[(i) * (sizeof *(to) / sizeof piece) + j]; \
            memcpy((char *)(to) + j * sizeof piece, &piece,                                \
                   sizeof piece < sizeof *(to) ? sizeof piece : sizeof *(to));             \
        }                                                                                  \
    } while (0)

/* A pair of the parameter's type. */
#define PAIRS(suffix, T, f)                                               \
    struct pair_##suffix {                                                \
        struct pack_##suffix pack[PAIR_PACKS];                            \
    };                                                                    \
    PS_DEVICE T *pair_at_##suffix(struct pair_##suffix *pair, unsigned k) \
    {                                                                     \
        return &pair->pack[k / PACK(T)].element[k % PACK(T)];             \
    }
PS_FLOAT_TABLE(PAIRS)
#undef PAIRS

/* The same as it is sent. */
#define WIRED(suffix, T, wire, W)                                                                 \
    struct alignas(sizeof(W) * PAIR(T) > 16 ? 16 : sizeof(W) * PAIR(T)) wired_##wire##_##suffix { \
        W element[PAIR(T)];                                                                       \
    };
#define DECODE_PAIR(suffix, T, wire, W)                                                          \
    WIRED(suffix, T, wire, W)                                                                    \
    PS_DEVICE struct pair_##suffix pair_from_##wire##_##suffix(const void *elements, uint64_t i) \
    {                                                                                            \
        struct wired_##wire##_##suffix from;                                                     \
        struct pair_##suffix to;                                                                 \
        LOAD_WIDE(&from, (const struct wired_##wire##_##suffix *)elements, i);                   \
        PS_UNROLL                                                                                \
        for (unsigned k = 0; k < PAIR(T); k++)                                                   \
            *pair_at_##suffix(&to, k) = ps_decode_##wire##_##suffix(from.element[k]);            \
        return to;                                                                               \
    }
#define PAIR_F32(wire, W) DECODE_PAIR(f32, float, wire, W)
#define PAIR_F64(wire, W) DECODE_PAIR(f64, double, wire, W)
PS_WIRE_TABLE(PAIR_F32)
PS_WIRE_TABLE(PAIR_F64)
#undef PAIR_F32
#undef PAIR_F64
#undef DECODE_PAIR

/* A pair has one scale. */
#define PAIR_INT8(suffix, T, f)                                                          \
    WIRED(suffix, T, int8, int8_t)                                                       \
    PS_DEVICE struct pair_##suffix pair_from_int8_##suffix(                              \
        const struct ps_cuda_gradient *gradient, uint64_t i)                             \
    {                                                                                    \
        struct wired_int8_##suffix from;                                                 \
        struct pair_##suffix to;                                                         \
        LOAD_WIDE(&from, (const struct wired_int8_##suffix *)gradient->elements, i);     \
        const float scale = gradient->scales[i / (PS_ENCODING_GROUP / PAIR(T))];         \
        PS_UNROLL                                                                        \
        for (unsigned k = 0; k < PAIR(T); k++)                                           \
            *pair_at_##suffix(&to, k) = ps_decode_int8_##suffix(scale, from.element[k]); \
        return to;                                                                       \
    }
PS_FLOAT_TABLE(PAIR_INT8)
#undef PAIR_INT8
#undef WIRED

/* Where in the list of a TOP_K the first element at or behind `index` stands. */
PS_DEVICE uint64_t listed_from(const struct ps_cuda_gradient *gradient, uint64_t index)
{
    uint64_t low = 0;
    uint64_t high = gradient->kept;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (gradient->indices[middle] < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Are the elements that a TOP_K does not name left alone? */
PS_DEVICE bool leaves_unnamed(const struct ps_cuda_gradient *gradient)
{
    return gradient->encoding == PS_ENCODING_TOP_K && gradient->named_only;
}

/* Element `index` of a TOP_K, which is at place `*at` of the list if it is listed at all. */
#define DECODE_TOP_K(suffix, T, f)                                                         \
    PS_DEVICE T named_##suffix(const struct ps_cuda_gradient *gradient, uint64_t at)       \
    {                                                                                      \
        return ps_decode_f32_##suffix(((const float *)gradient->elements)[at]);            \
    }                                                                                      \
    PS_DEVICE T listed_##suffix(const struct ps_cuda_gradient *gradient, uint64_t index,   \
                                uint64_t *at)                                              \
    {                                                                                      \
        if (*at >= gradient->kept || gradient->indices[*at] != index)                      \
            return 0;                                                                      \
        return named_##suffix(gradient, (*at)++);                                          \
    }                                                                                      \
    PS_DEVICE struct pack_##suffix pack_from_top_k_##suffix(const struct ps_cuda_run *run, \
                                                            uint64_t pack)                 \
    {                                                                                      \
        uint64_t index = run->first + pack * PACK(T);                                      \
        uint64_t at = listed_from(&run->gradient, index);                                  \
        struct pack_##suffix to;                                                           \
        PS_UNROLL                                                                          \
        for (unsigned k = 0; k < PACK(T); k++)                                             \
            to.element[k] = listed_##suffix(&run->gradient, index + k, &at);               \
        return to;                                                                         \
    }
PS_FLOAT_TABLE(DECODE_TOP_K)
#undef DECODE_TOP_K

#define PAIR_TOP_K(suffix, T, f)                                                           \
    PS_DEVICE struct pair_##suffix pair_from_top_k_##suffix(const struct ps_cuda_run *run, \
                                                            uint64_t i)                    \
    {                                                                                      \
        const uint64_t index = run->first + i * PAIR(T);                                   \
        uint64_t at = listed_from(&run->gradient, index);                                  \
        struct pair_##suffix to;                                                           \
        PS_UNROLL                                                                          \
        for (unsigned k = 0; k < PAIR(T); k++)                                             \
            *pair_at_##suffix(&to, k) = listed_##suffix(&run->gradient, index + k, &at);   \
        return to;                                                                         \
    }
PS_FLOAT_TABLE(PAIR_TOP_K)
#undef PAIR_TOP_K

/* Pair, pack and element number i of a run's gradient, in whichever encoding. */
#define GRADIENT(suffix, T, f)                                                           \
    PS_DEVICE struct pair_##suffix gradient_pair_##suffix(const struct ps_cuda_run *run, \
                                                          uint64_t i)                    \
    {                                                                                    \
        const void *elements = run->gradient.elements;                                   \
        switch (run->gradient.encoding) {                                                \
        case PS_ENCODING_FLOAT32:                                                        \
            return pair_from_f32_##suffix(elements, i);                                  \
        case PS_ENCODING_FLOAT64:                                                        \
            return pair_from_f64_##suffix(elements, i);                                  \
        case PS_ENCODING_BFLOAT16:                                                       \
            return pair_from_bf16_##suffix(elements, i);                                 \
        case PS_ENCODING_FLOAT16:                                                        \
            return pair_from_f16_##suffix(elements, i);                                  \
        case PS_ENCODING_INT8:                                                           \
            return pair_from_int8_##suffix(&run->gradient, i);                           \
        case PS_ENCODING_TOP_K:                                                          \
            return pair_from_top_k_##suffix(run, i);                                     \
        default:                                                                         \
            return pair_from_##suffix##_##suffix(elements, i);                           \
        }                                                                                \
    }                                                                                    \
    PS_DEVICE struct pack_##suffix gradient_pack_##suffix(const struct ps_cuda_run *run, \
                                                          uint64_t i)                    \
    {                                                                                    \
        const void *elements = run->gradient.elements;                                   \
        switch (run->gradient.encoding) {                                                \
        case PS_ENCODING_FLOAT32:                                                        \
            return pack_from_f32_##suffix(elements, i);                                  \
        case PS_ENCODING_FLOAT64:                                                        \
            return pack_from_f64_##suffix(elements, i);                                  \
        case PS_ENCODING_BFLOAT16:                                                       \
            return pack_from_bf16_##suffix(elements, i);                                 \
        case PS_ENCODING_FLOAT16:                                                        \
            return pack_from_f16_##suffix(elements, i);                                  \
        case PS_ENCODING_INT8:                                                           \
            return pack_from_int8_##suffix(&run->gradient, i);                           \
        case PS_ENCODING_TOP_K:                                                          \
            return pack_from_top_k_##suffix(run, i);                                     \
        default:                                                                         \
            return load_##suffix(elements, i);                                           \
        }                                                                                \
    }                                                                                    \
    PS_DEVICE T gradient_one_##suffix(const struct ps_cuda_run *run, uint64_t i)         \
    {                                                                                    \
        const struct ps_cuda_gradient *gradient = &run->gradient;                        \
        uint64_t at = 0;                                                                 \
        switch (gradient->encoding) {                                                    \
        case PS_ENCODING_FLOAT32:                                                        \
            return ps_decode_f32_##suffix(((const float *)gradient->elements)[i]);       \
        case PS_ENCODING_FLOAT64:                                                        \
            return ps_decode_f64_##suffix(((const double *)gradient->elements)[i]);      \
        case PS_ENCODING_BFLOAT16:                                                       \
            return ps_decode_bf16_##suffix(((const uint16_t *)gradient->elements)[i]);   \
        case PS_ENCODING_FLOAT16:                                                        \
            return ps_decode_f16_##suffix(((const uint16_t *)gradient->elements)[i]);    \
        case PS_ENCODING_INT8:                                                           \
            return ps_decode_int8_##suffix(gradient->scales[i / PS_ENCODING_GROUP],      \
                                           ((const int8_t *)gradient->elements)[i]);     \
        case PS_ENCODING_TOP_K:                                                          \
            at = listed_from(gradient, run->first + i);                                  \
            return listed_##suffix(gradient, run->first + i, &at);                       \
        default:                                                                         \
            return ((const T *)gradient->elements)[i];                                   \
        }                                                                                \
    }
PS_FLOAT_TABLE(GRADIENT)
#undef GRADIENT

#endif
