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

/* As many encoded elements as a pack of the parameter's type has: 8 bytes of bfloat16 and float16
 * for a float32 parameter and 4 for a float64 one, half of it of int8. So the threads of a warp store
 * 16 bytes each, one behind the other, whatever was sent. A thread that took 16 bytes of what was
 * sent would have two packs of the parameter side by side, and each of its stores would write half
 * of a sector: what is saved on the smallest array would be lost on the others. */
#define BATCH(suffix, T, wire, W)                                                                 \
    struct alignas(sizeof(W) * PACK(T) > 16 ? 16 : sizeof(W) * PACK(T)) batch_##wire##_##suffix { \
        W element[PACK(T)];                                                                       \
    };                                                                                            \
    PS_DEVICE struct batch_##wire##_##suffix batch_##wire##_of_##suffix(const void *elements,     \
                                                                        uint64_t pack)            \
    {                                                                                             \
        return ((const struct batch_##wire##_##suffix *)elements)[pack];                          \
    }

/* `n` packs (a constant), all loaded before the first is decoded: decoding waits for its load, and
 * the next load would be asked for only when that wait is over. */
#define PACKS_FROM(wire, suffix, source)                                                \
    PS_DEVICE void packs_from_##wire##_##suffix(source, uint64_t pack, uint64_t stride, \
                                                unsigned n, struct pack_##suffix *to)
#define DECODE_PACKS(suffix, T, wire, W)                                            \
    BATCH(suffix, T, wire, W)                                                       \
    PACKS_FROM(wire, suffix, const void *elements)                                  \
    {                                                                               \
        struct batch_##wire##_##suffix from[AT_ONCE_MAX];                           \
        PS_UNROLL                                                                   \
        for (unsigned j = 0; j < n; j++)                                            \
            from[j] = batch_##wire##_of_##suffix(elements, pack + j * stride);      \
        PS_UNROLL                                                                   \
        for (unsigned j = 0; j < n; j++) {                                          \
            PS_UNROLL                                                               \
            for (unsigned k = 0; k < PACK(T); k++)                                  \
                to[j].element[k] = ps_decode_##wire##_##suffix(from[j].element[k]); \
        }                                                                           \
    }
#define DECODE_F32(wire, W) DECODE_PACKS(f32, float, wire, W)
#define DECODE_F64(wire, W) DECODE_PACKS(f64, double, wire, W)
PS_WIRE_TABLE(DECODE_F32)
PS_WIRE_TABLE(DECODE_F64)
#undef DECODE_F32
#undef DECODE_F64
#undef DECODE_PACKS

/* A pack never crosses from one scale to the next. */
#define DECODE_INT8(suffix, T, f)                                                         \
    BATCH(suffix, T, int8, int8_t)                                                        \
    PACKS_FROM(int8, suffix, const struct ps_cuda_gradient *gradient)                     \
    {                                                                                     \
        struct batch_int8_##suffix from[AT_ONCE_MAX];                                     \
        float scale[AT_ONCE_MAX];                                                         \
        PS_UNROLL                                                                         \
        for (unsigned j = 0; j < n; j++) {                                                \
            const uint64_t at = pack + j * stride;                                        \
            from[j] = batch_int8_of_##suffix(gradient->elements, at);                     \
            scale[j] = gradient->scales[at / (PS_ENCODING_GROUP / PACK(T))];              \
        }                                                                                 \
        PS_UNROLL                                                                         \
        for (unsigned j = 0; j < n; j++) {                                                \
            PS_UNROLL                                                                     \
            for (unsigned k = 0; k < PACK(T); k++)                                        \
                to[j].element[k] = ps_decode_int8_##suffix(scale[j], from[j].element[k]); \
        }                                                                                 \
    }
PS_FLOAT_TABLE(DECODE_INT8)
#undef DECODE_INT8
#undef BATCH

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
#define DECODE_TOP_K(suffix, T, f)                                                       \
    PS_DEVICE T named_##suffix(const struct ps_cuda_gradient *gradient, uint64_t at)     \
    {                                                                                    \
        return ps_decode_f32_##suffix(((const float *)gradient->elements)[at]);          \
    }                                                                                    \
    PS_DEVICE T listed_##suffix(const struct ps_cuda_gradient *gradient, uint64_t index, \
                                uint64_t *at)                                            \
    {                                                                                    \
        if (*at >= gradient->kept || gradient->indices[*at] != index)                    \
            return 0;                                                                    \
        return named_##suffix(gradient, (*at)++);                                        \
    }                                                                                    \
    PACKS_FROM(top_k, suffix, const struct ps_cuda_run *run)                             \
    {                                                                                    \
        PS_UNROLL                                                                        \
        for (unsigned j = 0; j < n; j++) {                                               \
            const uint64_t index = run->first + (pack + j * stride) * PACK(T);           \
            uint64_t at = listed_from(&run->gradient, index);                            \
            PS_UNROLL                                                                    \
            for (unsigned k = 0; k < PACK(T); k++)                                       \
                to[j].element[k] = listed_##suffix(&run->gradient, index + k, &at);      \
        }                                                                                \
    }
PS_FLOAT_TABLE(DECODE_TOP_K)
#undef DECODE_TOP_K

/* `n` packs of a run's gradient, and element number i, in whichever encoding. */
#define GRADIENT(suffix, T, f)                                                                    \
    PS_DEVICE void gradient_packs_##suffix(const struct ps_cuda_run *run, uint64_t i,             \
                                           uint64_t stride, unsigned n, struct pack_##suffix *to) \
    {                                                                                             \
        const void *elements = run->gradient.elements;                                            \
        switch (run->gradient.encoding) {                                                         \
        case PS_ENCODING_FLOAT32:                                                                 \
            return packs_from_f32_##suffix(elements, i, stride, n, to);                           \
        case PS_ENCODING_FLOAT64:                                                                 \
            return packs_from_f64_##suffix(elements, i, stride, n, to);                           \
        case PS_ENCODING_BFLOAT16:                                                                \
            return packs_from_bf16_##suffix(elements, i, stride, n, to);                          \
        case PS_ENCODING_FLOAT16:                                                                 \
            return packs_from_f16_##suffix(elements, i, stride, n, to);                           \
        case PS_ENCODING_INT8:                                                                    \
            return packs_from_int8_##suffix(&run->gradient, i, stride, n, to);                    \
        case PS_ENCODING_TOP_K:                                                                   \
            return packs_from_top_k_##suffix(run, i, stride, n, to);                              \
        default:                                                                                  \
            return packs_from_##suffix##_##suffix(elements, i, stride, n, to);                    \
        }                                                                                         \
    }                                                                                             \
    PS_DEVICE T gradient_one_##suffix(const struct ps_cuda_run *run, uint64_t i)                  \
    {                                                                                             \
        const struct ps_cuda_gradient *gradient = &run->gradient;                                 \
        uint64_t at = 0;                                                                          \
        switch (gradient->encoding) {                                                             \
        case PS_ENCODING_FLOAT32:                                                                 \
            return ps_decode_f32_##suffix(((const float *)gradient->elements)[i]);                \
        case PS_ENCODING_FLOAT64:                                                                 \
            return ps_decode_f64_##suffix(((const double *)gradient->elements)[i]);               \
        case PS_ENCODING_BFLOAT16:                                                                \
            return ps_decode_bf16_##suffix(((const uint16_t *)gradient->elements)[i]);            \
        case PS_ENCODING_FLOAT16:                                                                 \
            return ps_decode_f16_##suffix(((const uint16_t *)gradient->elements)[i]);             \
        case PS_ENCODING_INT8:                                                                    \
            return ps_decode_int8_##suffix(gradient->scales[i / PS_ENCODING_GROUP],               \
                                           ((const int8_t *)gradient->elements)[i]);              \
        case PS_ENCODING_TOP_K:                                                                   \
            at = listed_from(gradient, run->first + i);                                           \
            return listed_##suffix(gradient, run->first + i, &at);                                \
        default:                                                                                  \
            return ((const T *)gradient->elements)[i];                                            \
        }                                                                                         \
    }
PS_FLOAT_TABLE(GRADIENT)
#undef GRADIENT
#undef PACKS_FROM

#endif
