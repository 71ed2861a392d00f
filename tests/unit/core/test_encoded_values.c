/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/encoded_values.c: the bytes of encoding all values at once, whatever the blocks. */
#include "server/core/values/encoded_values.h"
#include "tests/unit/core/core_encoded.h"

#include <math.h>
#include <string.h>

#define COUNT 140001 /* three blocks of float32, five of float64 */

static const struct ps_elements all = {0, COUNT};
static double elements[COUNT];
static uint8_t expected[COUNT * 8];

static struct ps_blocks *create(const struct ps_allocator *memory, enum ps_dtype dtype)
{
    const struct ps_optimizer_settings settings = {.learning_rate.rate = 1};
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        memory, text("w"), dtype, COUNT, (struct ps_bytes){NULL, 0}, &settings);
    struct ps_blocks *values = ps_blocks_create(spec);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < COUNT; i++) {
        double element = sin((double)i) * 3;
        if (dtype == PS_F32)
            ((float *)elements)[i] = (float)element;
        else
            elements[i] = element;
    }
    const uint8_t *from = (const uint8_t *)elements;
    for (size_t i = 0; i < values->block_count; i++) {
        memcpy(ps_blocks_write(values, i, 0), from, values->pieces[i].size);
        from += values->pieces[i].size;
    }
    ps_parameter_spec_release(spec);
    return values;
}

START_TEST(blocks_do_not_show_in_the_bytes)
{
    enum ps_encoding encoding = (enum ps_encoding)_i;
    for (enum ps_dtype dtype = PS_F32; dtype <= PS_F64; dtype++) {
        struct ps_blocks *values = create(ps_allocator_heap(), dtype);
        struct ps_encoded_values *encoded;
        ck_assert_int_eq(ps_encode_all(encoding, dtype, elements, COUNT, expected, NULL), PS_OK);

        ck_assert_int_eq(ps_encoded_values_create(values, all, encoding, &encoded, NULL), PS_OK);

        ps_blocks_release(values);
        ck_assert_uint_eq(encoded->piece.size, ps_encoding_bytes(encoding, dtype, COUNT));
        ck_assert_mem_eq(encoded->piece.data, expected, encoded->piece.size);
        ck_assert(ps_bytes_equal(encoded->spec->name, text("w")));
        ps_encoded_values_release(encoded);
    }
}
END_TEST

/* Across blocks, and where elements of two bytes are cut at no group's end. */
START_TEST(a_range_has_the_bytes_of_encoding_it_alone)
{
    static const struct ps_elements ranges[] = {
        {0, 256},      {65280, 512}, {139776, COUNT - 139776},
        {512, 131072}, {65535, 2},   {70001, 70000}};
    enum ps_encoding encoding = (enum ps_encoding)_i;
    struct ps_blocks *values = create(ps_allocator_heap(), PS_F32);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct ps_encoded_values *encoded = NULL;
        bool fits = encoding != PS_ENCODING_INT8 || i < 4;
        ck_assert_int_eq(ps_encoded_values_create(values, ranges[i], encoding, &encoded, NULL),
                         fits ? PS_OK : PS_ERR_BAD_INPUT);
        if (!fits)
            continue;
        const float *from = (const float *)elements + ranges[i].first;
        size_t size = (size_t)ps_encoding_bytes(encoding, PS_F32, ranges[i].count);
        ck_assert_int_eq(
            ps_encode_all(encoding, PS_F32, from, (size_t)ranges[i].count, expected, NULL), PS_OK);
        ck_assert_uint_eq(encoded->piece.size, size);
        ck_assert_mem_eq(encoded->piece.data, expected, size);
        ps_encoded_values_release(encoded);
    }
    ps_blocks_release(values);
}
END_TEST

START_TEST(what_int8_cannot_say_in_a_range_is_named_from_its_begin)
{
    const struct ps_elements range = {65536, 1024};
    struct ps_blocks *values = create(ps_allocator_heap(), PS_F32);
    struct ps_encoded_values *encoded = NULL;
    struct ps_error error;
    ((float *)ps_blocks_write(values, 1, 0))[300] = INFINITY;

    ck_assert_int_eq(ps_encoded_values_create(values, range, PS_ENCODING_INT8, &encoded, &error),
                     PS_ERR_OUT_OF_RANGE);

    ck_assert_str_eq(error.text, "parameter: w, counted from element 65536: of elements 256 to 511 "
                                 "one is not finite or too large for int8");
    ps_blocks_release(values);
}
END_TEST

START_TEST(values_that_int8_cannot_say_are_named)
{
    struct ps_blocks *values = create(ps_allocator_heap(), PS_F32);
    struct ps_encoded_values *encoded = NULL;
    struct ps_error error;
    ((float *)ps_blocks_write(values, 1, 0))[300] = INFINITY;

    ck_assert_int_eq(ps_encoded_values_create(values, all, PS_ENCODING_INT8, &encoded, &error),
                     PS_ERR_OUT_OF_RANGE);

    ck_assert_str_eq(error.text,
                     "parameter: w, of elements 65792 to 66047 one is not finite or too "
                     "large for int8");
    ck_assert_ptr_null(encoded);
    ps_blocks_release(values);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_blocks *values = create(&memory, PS_F64);
    struct ps_encoded_values *encoded = NULL;
    heap.refuse_at = heap.seen;

    ck_assert_int_eq(ps_encoded_values_create(values, all, PS_ENCODING_INT8, &encoded, NULL),
                     PS_ERR_NO_MEMORY);

    ps_encoded_values_release(encoded);
    ps_blocks_release(values);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("encoded_values");
    tcase_add_loop_test(tests, blocks_do_not_show_in_the_bytes, 0, PS_ENCODING_TOP_K);
    tcase_add_loop_test(tests, a_range_has_the_bytes_of_encoding_it_alone, 0, PS_ENCODING_TOP_K);
    tcase_add_test(tests, what_int8_cannot_say_in_a_range_is_named_from_its_begin);
    tcase_add_test(tests, values_that_int8_cannot_say_are_named);
    tcase_add_test(tests, a_refused_allocation_leaves_nothing);
    return run_tests("encoded_values", tests);
}
