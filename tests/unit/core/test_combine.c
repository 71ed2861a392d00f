/* SPDX-License-Identifier: Apache-2.0 */
/* core/rounds/combine.c: the order of the sum is that of ranks, in the parameter's type. */
#include "server/core/rounds/combine.h"

#include "core_world.h"

#include <string.h>

static struct ps_contributions *contributions;
static struct ps_parameter_spec *spec;

static void begin(enum ps_dtype dtype, enum ps_combine combine, uint64_t count)
{
    const struct ps_optimizer_settings settings = {.rounds = {.workers = 5, .combine = combine}};
    spec = ps_parameter_spec_create(ps_allocator_heap(), text("m"), dtype, count,
                                    (struct ps_bytes){0}, &settings);
    contributions = ps_contributions_create(ps_allocator_heap(), 5);
    ck_assert(spec != NULL && contributions != NULL);
}

static void end(void)
{
    ps_contributions_destroy(contributions);
    ps_parameter_spec_release(spec);
}

/* A contribution of the same bytes in every block. */
static void hold(uint32_t rank, const void *element, size_t size, float weight)
{
    struct ps_blocks *values = ps_blocks_create(spec);
    for (size_t i = 0; i < values->block_count; i++) {
        uint8_t *to = ps_blocks_write(values, i, 0);
        for (size_t done = 0; done < values->pieces[i].size; done += size)
            memcpy(to + done, element, size);
    }
    const struct ps_contribution one = {.values = values, .weight = weight};
    ps_contributions_hold(contributions, rank, &one, 0);
}

static void hold_f32(uint32_t rank, float value, float weight)
{
    hold(rank, &value, sizeof value, weight);
}

static float combined(size_t block, size_t size)
{
    static float sum[PS_BLOCK_BYTES / sizeof(float)];
    ps_combine_block(contributions, spec, block, sum);
    for (size_t i = 1; i < size / sizeof(float); i++)
        ck_assert_mem_eq(&sum[i], &sum[0], sizeof(float));
    return sum[0];
}

/* 1e8 and -1e8 leave 1 only where they meet before it. */
START_TEST(gradients_are_added_in_the_order_of_ranks_whenever_they_came)
{
    begin(PS_F32, PS_COMBINE_SUM, 100);
    hold_f32(4, 1, 1);
    hold_f32(2, -1e8f, 1);
    hold_f32(0, 1e8f, 1);
    ck_assert_float_eq(combined(0, 400), 1);
    end();
    begin(PS_F32, PS_COMBINE_SUM, 100);
    hold_f32(4, -1e8f, 1);
    hold_f32(2, 1, 1);
    hold_f32(0, 1e8f, 1);
    ck_assert_float_eq(combined(0, 400), 0);
    end();
}
END_TEST

START_TEST(an_average_is_divided_by_how_many_there_are)
{
    begin(PS_F32, PS_COMBINE_AVERAGE, 3);
    hold_f32(0, 1, 9);
    hold_f32(1, 2, 9);
    hold_f32(3, 4, 9);
    ck_assert_float_eq(combined(0, 12), 7.0f / 3.0f);
    end();
}
END_TEST

START_TEST(weights_are_multiplied_added_and_divided_by)
{
    volatile float first = 0.3f * 0.7f;
    volatile float second = 1.7f * 0.9f;
    begin(PS_F32, PS_COMBINE_WEIGHTED, 3);
    hold_f32(1, 0.7f, 0.3f);
    hold_f32(2, 0.9f, 1.7f);
    ck_assert_float_eq(combined(0, 12), (first + second) / (0.3f + 1.7f));
    end();
}
END_TEST

START_TEST(doubles_are_added_as_doubles_in_every_block)
{
    const double tenth = 0.1;
    double *sum = ps_zeroed(ps_allocator_heap(), PS_BLOCK_BYTES);
    begin(PS_F64, PS_COMBINE_SUM, PS_BLOCK_BYTES / sizeof(double) + 2);
    for (uint32_t rank = 0; rank < 3; rank++)
        hold(rank, &tenth, sizeof tenth, 1);
    for (size_t block = 0; block < 2; block++) {
        ps_combine_block(contributions, spec, block, sum);
        ck_assert_double_eq(sum[1], 0.1 + 0.1 + 0.1);
    }
    ps_release(ps_allocator_heap(), sum);
    end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("combine");
    tcase_add_test(tests, gradients_are_added_in_the_order_of_ranks_whenever_they_came);
    tcase_add_test(tests, an_average_is_divided_by_how_many_there_are);
    tcase_add_test(tests, weights_are_multiplied_added_and_divided_by);
    tcase_add_test(tests, doubles_are_added_as_doubles_in_every_block);
    return run_tests("combine", tests);
}
