/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/parameter.c: a parameter's life, and holding one of its versions. */
#include "server/core/update/parameter.h"
#include "tests/unit/core/core_world.h"

#include <string.h>

static struct ps_parameter_spec *spec_of(const struct ps_allocator *memory, enum ps_rule rule,
                                         uint64_t count)
{
    struct ps_optimizer_settings settings = {
        .rule = rule, .learning_rate.rate = 1, .epsilon = 1e-8, .initial_accumulator = 0.5};
    return ps_parameter_spec_create(memory, text("w"), PS_F32, count, (struct ps_bytes){NULL, 0},
                                    &settings);
}

START_TEST(values_are_what_was_set_although_cut_anywhere)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), PS_RULE_SGD, PS_BLOCK_BYTES / 2);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    size_t size = ps_parameter_spec_bytes(spec);
    uint8_t *content = ps_plain(ps_allocator_heap(), size);
    uint8_t *copy = ps_plain(ps_allocator_heap(), size);
    for (size_t i = 0; i < size; i++)
        content[i] = (uint8_t)(i * 31);
    struct ps_bytes pieces[] = {{content, 3},
                                {content + 3, PS_BLOCK_BYTES},
                                {NULL, 0},
                                {content + 3 + PS_BLOCK_BYTES, size - 3 - PS_BLOCK_BYTES}};

    ck_assert_int_eq(ps_parameter_set(parameter, (struct ps_view){pieces, 4, size}, NULL), PS_OK);

    ps_view_copy(ps_blocks_view(parameter->values), 0, copy, size);
    ck_assert_mem_eq(copy, content, size);
    ps_parameter_check(parameter);
    ps_release(ps_allocator_heap(), content);
    ps_release(ps_allocator_heap(), copy);
    ps_parameter_destroy(parameter);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(states_start_as_the_rule_says)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), PS_RULE_FTRL, 5);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    float first[5];
    float second[5];

    ck_assert_uint_eq(ps_parameter_state_count(parameter), 2);
    ps_view_copy(ps_blocks_view(parameter->states[0]), 0, first, sizeof first);
    ps_view_copy(ps_blocks_view(parameter->states[1]), 0, second, sizeof second);

    for (size_t i = 0; i < 5; i++) {
        ck_assert_float_eq(first[i], 0.5f);
        ck_assert_float_eq(second[i], 0);
    }
    ps_parameter_destroy(parameter);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(a_held_version_outlives_the_parameter)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = spec_of(&memory, PS_RULE_ADAM, 4);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    struct ps_parameter_version held;
    ck_assert_int_eq(ps_parameter_hold(parameter, &held, NULL), PS_OK);

    ps_parameter_destroy(parameter);
    ps_parameter_spec_release(spec);

    ck_assert_str_eq((const char *)held.values->spec->name.data, "w");
    ck_assert_uint_eq(held.states[1]->size, 16);
    ps_parameter_version_release(&held);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(create_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = spec_of(&memory, PS_RULE_ADAM, 4);
    heap.refuse_at = heap.seen + _i;

    struct ps_parameter *parameter = ps_parameter_create(spec);

    /* The parameter, and two allocations for each of its three arrays. */
    ck_assert((parameter == NULL) == (_i < 7));
    ps_parameter_destroy(parameter);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("parameter");
    tcase_add_test(tests, values_are_what_was_set_although_cut_anywhere);
    tcase_add_test(tests, states_start_as_the_rule_says);
    tcase_add_test(tests, a_held_version_outlives_the_parameter);
    tcase_add_loop_test(tests, create_survives_any_refused_allocation, 0, 8);
    return run_tests("parameter", tests);
}
