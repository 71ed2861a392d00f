/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a gradient in any encoding, cut into pieces: refused, and nothing has changed, or
 * taken, and then the bits are those of the same bytes in one piece.
 *
 * The first five bytes say: encoding, element type, elements (two bytes), rule and size of the
 * pieces. */
#include "fuzz_target.h"

#include "optimizer/encoded.h"
#include "server/core/update/update.h"
#include "tests/support/fault_heap.h"

#include <stdlib.h>
#include <string.h>

enum { STEERING_BYTES = 5, PIECES_MAX = 512 };

static void expect(bool condition)
{
    if (!condition)
        abort();
}

/* Pieces of `size` bytes, each copied into memory of its own, so that a sanitizer sees its end. */
struct cut {
    struct ps_bytes pieces[PIECES_MAX];
    size_t count;
};

static void cut_up(struct cut *cut, struct ps_bytes bytes, size_t size)
{
    cut->count = 0;
    for (size_t at = 0; at < bytes.size;) {
        size_t left = bytes.size - at;
        size_t run = size == 0 || size > left || cut->count == PIECES_MAX - 1 ? left : size;
        uint8_t *copy = malloc(run);
        expect(copy != NULL);
        memcpy(copy, bytes.data + at, run);
        cut->pieces[cut->count++] = (struct ps_bytes){copy, run};
        at += run;
    }
}

static void drop_pieces(struct cut *cut)
{
    for (size_t i = 0; i < cut->count; i++)
        free((void *)(uintptr_t)cut->pieces[i].data);
}

static struct ps_parameter *create(const struct ps_allocator *memory, const uint8_t *steering)
{
    static const enum ps_rule rules[] = {PS_RULE_SGD, PS_RULE_ADAGRAD, PS_RULE_MOMENTUM,
                                         PS_RULE_ASSIGN};
    const struct ps_optimizer_settings settings = {.rule = rules[steering[4] & 3],
                                                   .learning_rate.rate = 0.1,
                                                   .momentum = (steering[4] & 3) == 2 ? 0.9 : 0,
                                                   .epsilon = 1e-6};
    enum ps_dtype dtype = steering[1] % 2 == 0 ? PS_F32 : PS_F64;
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        memory, ps_bytes_of_text("w"), dtype, 1 + steering[2] + 256U * steering[3],
        (struct ps_bytes){NULL, 0}, &settings);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    memset(ps_blocks_write(parameter->values, 0, 0), 0, parameter->values->pieces[0].size);
    for (size_t i = 1; i < parameter->values->block_count; i++)
        memset(ps_blocks_write(parameter->values, i, 0), 0, parameter->values->pieces[i].size);
    ps_parameter_spec_release(spec);
    return parameter;
}

static bool same_values(const struct ps_parameter *a, const struct ps_parameter *b)
{
    for (size_t i = 0; i < a->values->block_count; i++)
        if (memcmp(a->values->pieces[i].data, b->values->pieces[i].data,
                   a->values->pieces[i].size) != 0)
            return false;
    return a->version == b->version;
}

static void push_both(struct ps_parameter *whole, struct ps_parameter *parts,
                      enum ps_encoding encoding, struct ps_bytes bytes, size_t piece_size)
{
    static struct cut cut;
    const struct ps_gradient gradient = {.content = ps_view_of(&bytes), .encoding = encoding};
    uint64_t version = 0;
    enum ps_status status = ps_parameter_push(whole, gradient, NULL, &version, NULL);
    expect(status == PS_OK || status == PS_ERR_BAD_INPUT);
    expect(whole->version == (status == PS_OK ? 1 : 0));
    cut_up(&cut, bytes, piece_size);
    const struct ps_gradient in_parts = {.content = {cut.pieces, cut.count, bytes.size},
                                         .encoding = encoding};
    expect(ps_parameter_push(parts, in_parts, NULL, &version, NULL) == status);
    ps_parameter_check(parts);
    expect(same_values(whole, parts));
    drop_pieces(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < STEERING_BYTES)
        return 0;
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_bytes bytes = {data + STEERING_BYTES, size - STEERING_BYTES};
    enum ps_encoding encoding = (enum ps_encoding)(data[0] % PS_ENCODING_COUNT);
    struct ps_parameter *whole = create(&memory, data);
    struct ps_parameter *parts = create(&memory, data);
    const struct ps_parameter_spec *spec = whole->spec;
    if (ps_encoding_check(encoding, spec->dtype, spec->count, bytes.size, NULL) == PS_OK)
        push_both(whole, parts, encoding, bytes, data[4] >> 2);
    ps_parameter_destroy(whole);
    ps_parameter_destroy(parts);
    expect(heap.live == 0);
    return 0;
}
