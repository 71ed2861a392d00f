/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/update_arrays.c: what is read and what is written, in one go or range by range. */
#include "server/core/update/update_arrays.h"

#include "server/core/update/parameter.h"
#include "tests/unit/core/core_world.h"

#include <math.h>
#include <string.h>

/* Two blocks and a bit. */
enum { COUNT = 2 * PS_BLOCK_BYTES / 4 + 4321 };

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_parameter_spec *spec;
static struct ps_parameter *parameter;
static struct ps_update_arrays arrays;
static float numbers[COUNT];

static void begin(void)
{
    const struct ps_optimizer_settings settings = {
        .rule = PS_RULE_MOMENTUM, .learning_rate.rate = 0.5, .momentum = 0.5};
    const struct ps_gradient_scan nothing_found = {0};
    struct ps_bytes piece = {(const uint8_t *)numbers, sizeof numbers};
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = (float)(i % 977);
    spec = ps_parameter_spec_create(&memory, text("w"), PS_F32, COUNT, (struct ps_bytes){NULL, 0},
                                    &settings);
    parameter = ps_parameter_create(spec);
    ck_assert_int_eq(ps_parameter_set(parameter, ps_view_of(&piece), NULL), PS_OK);
    arrays = (struct ps_update_arrays){0};
    ck_assert_int_eq(ps_optimizer_prepare(&spec->settings, PS_F32, 1, spec->id, &nothing_found,
                                          &arrays.step, NULL),
                     PS_OK);
    ps_update_arrays_read(&arrays, parameter->values, parameter->states, 1);
}

static void end(void)
{
    ps_parameter_destroy(parameter);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}

static struct ps_gradient gradient_of(struct ps_bytes *piece, size_t first, size_t count)
{
    *piece = (struct ps_bytes){(const uint8_t *)(numbers + first), count * sizeof *numbers};
    return (struct ps_gradient){.content = ps_view_of(piece)};
}

START_TEST(what_nobody_reads_is_written_in_place)
{
    begin();
    struct ps_blocks *held = _i == 1 ? ps_blocks_acquire(parameter->values) : NULL;
    ck_assert(ps_update_arrays_take(&arrays, NULL));
    ck_assert((arrays.to[0] == arrays.from[0]) == (_i == 0));
    ck_assert_ptr_eq(arrays.to[1], arrays.from[1]);
    ps_update_arrays_give_back(&arrays);
    ps_blocks_release(held);
    end();
}
END_TEST

START_TEST(ranges_in_any_order_give_the_bits_of_the_whole)
{
    static const size_t cuts[] = {0, 30001, PS_BLOCK_BYTES / 4, COUNT - 7, COUNT};
    static const size_t order[] = {2, 0, 3, 1};
    struct ps_bytes piece;
    begin();
    struct ps_update_arrays ranges = arrays;
    ck_assert(ps_update_arrays_take_new(&ranges));
    for (size_t i = 0; i < 4; i++) {
        const struct ps_elements range = {cuts[order[i]], cuts[order[i] + 1] - cuts[order[i]]};
        ck_assert(ps_update_arrays_apply_range(&ranges, range,
                                               gradient_of(&piece, range.first, range.count)));
    }
    ck_assert(ps_update_arrays_take(&arrays, NULL));
    ps_update_arrays_apply(&arrays, gradient_of(&piece, 0, COUNT), NULL);

    for (size_t i = 0; i < arrays.count; i++)
        for (size_t block = 0; block < arrays.to[i]->block_count; block++) {
            ck_assert_mem_eq(arrays.to[i]->pieces[block].data, ranges.to[i]->pieces[block].data,
                             arrays.to[i]->pieces[block].size);
            ck_assert_uint_eq(ranges.to[i]->entries[block].version, 1);
        }
    ps_update_arrays_give_back(&ranges);
    ps_update_arrays_put(&arrays, &parameter->values, parameter->states);
    ps_parameter_check(parameter);
    end();
}
END_TEST

START_TEST(a_range_that_is_not_finite_leaves_what_was_read)
{
    struct ps_bytes piece;
    float before[2];
    begin();
    memcpy(before, parameter->values->pieces[0].data, sizeof before);
    numbers[1] = NAN;
    ck_assert(ps_update_arrays_take_new(&arrays));

    ck_assert(!ps_update_arrays_apply_range(&arrays, (struct ps_elements){0, 5000},
                                            gradient_of(&piece, 0, 5000)));

    ps_update_arrays_give_back(&arrays);
    ck_assert_mem_eq(before, parameter->values->pieces[0].data, sizeof before);
    end();
}
END_TEST

START_TEST(memory_that_is_refused_takes_nothing)
{
    begin();
    int64_t live = heap.live;
    heap.refuse_at = heap.seen + _i;
    ck_assert(!ps_update_arrays_take_new(&arrays));
    ck_assert_int_eq(heap.live, live);
    ck_assert_ptr_null(arrays.to[0]);
    end();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("update_arrays");
    tcase_add_loop_test(t, what_nobody_reads_is_written_in_place, 0, 2);
    tcase_add_test(t, ranges_in_any_order_give_the_bits_of_the_whole);
    tcase_add_test(t, a_range_that_is_not_finite_leaves_what_was_read);
    tcase_add_loop_test(t, memory_that_is_refused_takes_nothing, 0, 8); /* two lists, six blocks */
    return run_tests("update_arrays", t);
}
