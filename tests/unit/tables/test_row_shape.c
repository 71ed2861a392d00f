/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_shape.c: parts of a row do not overlap, and pages are what they should
 * be. */
#include "server/core/tables/row_shape.h"
#include "tests/unit/tables/row_model.h"

#include "base/slab.h"

static void check(const struct ps_row_layout *layout)
{
    struct ps_row_shape shape;
    ps_row_shape_init(&shape, layout);
    size_t bytes = 0;
    for (uint32_t i = 0; i < shape.array_count; i++) {
        size_t size = shape.arrays[i].size;
        bytes += size;
        ck_assert_uint_le(shape.arrays[i].offset + size, shape.stride);
        if (i <= layout->state_count)
            ck_assert_uint_eq(shape.arrays[i].offset % shape.element, 0);
        for (uint32_t k = 0; k < i; k++)
            ck_assert(shape.arrays[k].offset + shape.arrays[k].size <= shape.arrays[i].offset ||
                      shape.arrays[i].offset + size <= shape.arrays[k].offset);
    }
    ck_assert_uint_le(shape.stride - bytes, shape.element == 8 ? 4 : 0);
    ck_assert_uint_eq(shape.page_bytes % PS_ROW_PAGE_ALIGN, 0);
    ck_assert_uint_le(shape.stride << shape.page_bits, shape.page_bytes);
    ck_assert_uint_le(shape.stride + PS_ROW_ASIDE_HEAD, shape.page_bytes);
    ck_assert_uint_le(1U << shape.page_bits, PS_ROW_PAGE_ROWS_MAX);
    ck_assert_uint_lt(shape.page_bytes, PS_SLAB_BYTES);
    ck_assert_uint_ge(shape.live_words * 64, 1U << shape.page_bits);
}

START_TEST(parts_are_aligned_and_apart)
{
    for (uint32_t width = 1; width <= PS_TABLE_WIDTH_MAX; width += width / 3 + 1)
        for (uint32_t states = 0; states <= PS_STATES_MAX; states++)
            for (int dtype = 0; dtype < PS_DTYPE_COUNT; dtype++) {
                check(&(struct ps_row_layout){
                    .dtype = (enum ps_dtype)dtype, .width = width, .state_count = states});
                check(&(struct ps_row_layout){.dtype = (enum ps_dtype)dtype,
                                              .width = width,
                                              .state_count = states,
                                              .state_is_one = {true, false}});
            }
}
END_TEST

START_TEST(sixteen_floats_are_76_bytes_and_128_to_a_page)
{
    struct ps_row_shape shape;
    ps_row_shape_init(&shape, &(struct ps_row_layout){.dtype = PS_F32, .width = 16});
    ck_assert_uint_eq(shape.stride, 76);
    ck_assert_uint_eq(shape.page_bits, 7);
    /* A place is one byte, however small the rows are. */
    ps_row_shape_init(&shape, &(struct ps_row_layout){.dtype = PS_F32, .width = 1});
    ck_assert_uint_eq(shape.stride, 16);
    ck_assert_uint_eq(shape.page_bits, 8);
    ps_row_shape_init(&shape,
                      &(struct ps_row_layout){
                          .dtype = PS_F32, .width = 16, .state_count = 1, .state_is_one = {true}});
    ck_assert_uint_eq(shape.stride, 80);
}
END_TEST

/* As long as that takes no more than twice the usual page. */
START_TEST(wide_rows_are_32_to_a_page)
{
    struct ps_row_shape shape;
    struct ps_row_layout layout = {.dtype = PS_F32, .width = 64};
    for (; layout.state_count < 3; layout.state_count++) {
        ps_row_shape_init(&shape, &layout);
        ck_assert_uint_eq(shape.stride, 12 + 256 * (1 + layout.state_count));
        ck_assert_uint_eq(shape.page_bits, layout.state_count < 2 ? 5 : 4);
        ck_assert_uint_le(shape.page_bytes, 2 * (PS_ROW_PAGE_BYTES + PS_ROW_PAGE_BYTES / 4));
    }
}
END_TEST

/* What a table of so many rows has beside values and states, by arithmetic: of each stripe the head
 * of its rows, an index that is full by one part in nine less than it may be, as indexes that grow
 * by a quarter are in the middle, lists of pages that grow by an eighth, and half of its last page.
 */
static double overhead(const struct ps_row_shape *shape, double rows)
{
    double stripe_rows = rows / PS_ROW_STRIPES;
    double page_rows = 1U << shape->page_bits;
    uint32_t pages = (uint32_t)(stripe_rows / page_rows) + 1;
    double index = (double)ps_row_index_bytes((uint64_t)(stripe_rows * 1.125));
    double lists = 1.0625 * (double)(pages * sizeof(uint8_t *) + ps_row_words(shape, pages) * 8);
    return 12 + (index + lists + (double)shape->page_bytes / 2) / stripe_rows;
}

/* Ten million rows, or as many as 14 GiB have. */
START_TEST(a_row_has_twenty_bytes_beside_values_and_states)
{
    for (uint32_t width = 1; width <= 256; width *= 2)
        for (uint32_t states = 0; states <= 2; states++) {
            struct ps_row_shape shape;
            ps_row_shape_init(&shape, &(struct ps_row_layout){
                                          .dtype = PS_F32, .width = width, .state_count = states});
            double most = 14.0 * 1024 * 1024 * 1024 / (double)shape.stride;
            ck_assert_double_le(overhead(&shape, most < 1e7 ? most : 1e7), 20);
        }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_shape");
    tcase_add_test(tests, parts_are_aligned_and_apart);
    tcase_add_test(tests, sixteen_floats_are_76_bytes_and_128_to_a_page);
    tcase_add_test(tests, wide_rows_are_32_to_a_page);
    tcase_add_test(tests, a_row_has_twenty_bytes_beside_values_and_states);
    return run_tests("row_shape", tests);
}
