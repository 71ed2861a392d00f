/* SPDX-License-Identifier: Apache-2.0 */
/* What decoding costs within an update: pushes of one float32 parameter in every encoding, beside
 * the native push, and beside decoding the whole gradient first and pushing that.
 *
 *     bench_encoded_push [MEBIBYTES]        medians of interleaved repeats
 */
#include "bench_common.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "optimizer/encoded.h"
#include "optimizer/encoding_loops.h"
#include "optimizer/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 9, TOP_K_DIVISOR = 100 };

struct bench {
    struct ps_parameter *parameter;
    size_t count;
    float *gradient;
    float *decoded;
    uint8_t *content;
    struct ps_bytes *pieces;
};

static double push_ms(struct bench *bench, const void *content, size_t size,
                      enum ps_encoding encoding)
{
    struct ps_gradient gradient = bench_cut(content, size, encoding, bench->pieces);
    uint64_t version;
    uint64_t started_ns = ps_clock_precise_ns();
    enum ps_status status = ps_parameter_push(bench->parameter, gradient, NULL, &version, NULL);
    PS_ASSERT(status == PS_OK);
    return (double)(ps_clock_precise_ns() - started_ns) / 1e6;
}

static double decode_ms(struct bench *bench, enum ps_encoding encoding)
{
    uint64_t started_ns = ps_clock_precise_ns();
    ps_decode_all(encoding, PS_F32, bench->content, bench->count, bench->decoded);
    return (double)(ps_clock_precise_ns() - started_ns) / 1e6;
}

static size_t encode(struct bench *bench, enum ps_encoding encoding)
{
    size_t sent = encoding == PS_ENCODING_TOP_K ? bench->count / TOP_K_DIVISOR : bench->count;
    if (encoding == PS_ENCODING_TOP_K)
        ps_encode_top_k(PS_F32, bench->gradient, bench->count, sent, bench->content);
    else
        PS_ASSERT(ps_encode_all(encoding, PS_F32, bench->gradient, bench->count, bench->content,
                                NULL) == PS_OK);
    return (size_t)ps_encoding_bytes(encoding, PS_F32, sent);
}

static void measure(struct bench *bench, enum ps_encoding encoding)
{
    double native[REPEATS];
    double fused[REPEATS];
    double first[REPEATS];
    double encoding_ms[REPEATS];
    size_t size = 0;
    for (int i = 0; i < REPEATS; i++) {
        uint64_t started_ns = ps_clock_precise_ns();
        size = encode(bench, encoding);
        encoding_ms[i] = (double)(ps_clock_precise_ns() - started_ns) / 1e6;
        native[i] =
            push_ms(bench, bench->gradient, bench->count * sizeof(float), PS_ENCODING_NATIVE);
        fused[i] = push_ms(bench, bench->content, size, encoding);
        first[i] = 0;
        if (encoding == PS_ENCODING_TOP_K)
            continue;
        first[i] = decode_ms(bench, encoding);
        first[i] +=
            push_ms(bench, bench->decoded, bench->count * sizeof(float), PS_ENCODING_NATIVE);
    }
    double beside = bench_median(native, REPEATS);
    double decoded_first = bench_median(first, REPEATS);
    double within = bench_median(fused, REPEATS);
    printf("%-9s %10zu bytes  push %8.2f ms  %5.2f of native", ps_encoding_name(encoding), size,
           within, within / beside);
    if (decoded_first > 0)
        printf("  %5.2f of decoding first", within / decoded_first);
    printf("  encode %8.2f ms\n", bench_median(encoding_ms, REPEATS));
}

int main(int argc, char **argv)
{
    static const enum ps_rule rules[] = {PS_RULE_SGD, PS_RULE_ADAM};
    size_t mebibytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
    struct bench bench = {.count = (mebibytes << 20) / sizeof(float)};
    const struct ps_allocator *heap = ps_allocator_heap();
    bench.gradient = ps_plain(heap, bench.count * sizeof(float));
    bench.decoded = ps_zeroed(heap, bench.count * sizeof(float));
    bench.content = ps_zeroed(heap, bench.count * 8);
    bench.pieces =
        ps_zeroed(heap, (bench.count * 8 / BENCH_SLICE_BYTES + 1) * sizeof *bench.pieces);
    PS_ASSERT(bench.count > 0 && bench.gradient != NULL && bench.decoded != NULL);
    PS_ASSERT(bench.content != NULL && bench.pieces != NULL);
    for (size_t i = 0; i < bench.count; i++)
        bench.gradient[i] = sinf((float)i) + 1.5F;
    ps_optimizer_enter_thread();
    printf("pserver %s, %s, %zu MiB of float32, medians of %d\n", PS_VERSION,
           ps_encoding_loops_best()->name, mebibytes, REPEATS);
    for (size_t i = 0; i < 2; i++) {
        bench.parameter = bench_parameter(rules[i], bench.count, bench.gradient);
        printf("%s\n", ps_rule_name(rules[i]));
        for (enum ps_encoding encoding = PS_ENCODING_FLOAT32; encoding < PS_ENCODING_COUNT;
             encoding++)
            measure(&bench, encoding);
        ps_parameter_destroy(bench.parameter);
    }
    ps_release(heap, bench.pieces);
    ps_release(heap, bench.content);
    ps_release(heap, bench.decoded);
    ps_release(heap, bench.gradient);
    return EXIT_SUCCESS;
}
