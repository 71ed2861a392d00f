/* What decoding costs within an update: pushes of one float32 parameter in every encoding, beside
 * the native push, and beside decoding the whole gradient first and pushing that.
 *
 *     bench_encoded_push [MEBIBYTES]        medians of interleaved repeats
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "optimizer/encoded.h"
#include "optimizer/encoding_loops.h"
#include "optimizer/optimizer.h"
#include "server/core/parameter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 9, TOP_K_DIVISOR = 100, SLICE_BYTES = 65536 };

struct bench {
    struct ps_parameter *parameter;
    size_t count;
    float *gradient;
    float *decoded;
    uint8_t *content;
    struct ps_bytes *pieces;
};

static struct ps_parameter *create(enum ps_rule rule, size_t count, const float *start)
{
    const struct ps_optimizer_settings settings = {
        .rule = rule, .learning_rate.rate = 1e-3, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-8};
    struct ps_bytes piece = {(const uint8_t *)start, count * sizeof(float)};
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(ps_allocator_heap(), ps_bytes_of_text("w"), PS_F32, count,
                                 (struct ps_bytes){NULL, 0}, &settings);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    PS_ASSERT(parameter != NULL);
    (void)!ps_parameter_set(parameter, ps_view_of(&piece), NULL); /* on the host it cannot fail */
    ps_parameter_spec_release(spec);
    return parameter;
}

/* Cut as gRPC cuts a message. */
static struct ps_gradient cut(struct bench *bench, const void *content, size_t size,
                              enum ps_encoding encoding)
{
    size_t count = 0;
    for (size_t at = 0; at < size; at += SLICE_BYTES)
        bench->pieces[count++] = (struct ps_bytes){
            (const uint8_t *)content + at, size - at < SLICE_BYTES ? size - at : SLICE_BYTES};
    return (struct ps_gradient){{bench->pieces, count, size}, encoding};
}

static double push_ms(struct bench *bench, const void *content, size_t size,
                      enum ps_encoding encoding)
{
    struct ps_gradient gradient = cut(bench, content, size, encoding);
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

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(double values[REPEATS])
{
    qsort(values, REPEATS, sizeof values[0], by_value);
    return values[REPEATS / 2];
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
    double beside = median(native);
    double decoded_first = median(first);
    double within = median(fused);
    printf("%-9s %10zu bytes  push %8.2f ms  %5.2f of native", ps_encoding_name(encoding), size,
           within, within / beside);
    if (decoded_first > 0)
        printf("  %5.2f of decoding first", within / decoded_first);
    printf("  encode %8.2f ms\n", median(encoding_ms));
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
    bench.pieces = ps_zeroed(heap, (bench.count * 8 / SLICE_BYTES + 1) * sizeof *bench.pieces);
    PS_ASSERT(bench.count > 0 && bench.gradient != NULL && bench.decoded != NULL);
    PS_ASSERT(bench.content != NULL && bench.pieces != NULL);
    for (size_t i = 0; i < bench.count; i++)
        bench.gradient[i] = sinf((float)i) + 1.5F;
    ps_optimizer_enter_thread();
    printf("pserver %s, %s, %zu MiB of float32, medians of %d\n", PS_VERSION,
           ps_encoding_loops_best()->name, mebibytes, REPEATS);
    for (size_t i = 0; i < 2; i++) {
        bench.parameter = create(rules[i], bench.count, bench.gradient);
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
