/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/update.c: an update gives the same bits however the gradient was cut and
 * whoever holds the version before it. */
#include "optimizer/optimizer.h"
#include "server/core/update/update.h"
#include "tests/unit/core/core_world.h"

#include <math.h>
#include <string.h>

static struct ps_gradient native(struct ps_view content)
{
    return (struct ps_gradient){.content = content};
}

static struct ps_optimizer_settings settings_of(enum ps_rule rule)
{
    return (struct ps_optimizer_settings){.rule = rule,
                                          .learning_rate.rate = 0.1,
                                          .momentum = rule == PS_RULE_MOMENTUM ? 0.9 : 0,
                                          .rho = 0.9,
                                          .beta_1 = 0.9,
                                          .beta_2 = 0.999,
                                          .epsilon = 1e-8};
}

/* A parameter of 24 bytes whose elements count up from 1. */
static struct ps_parameter *create_small(const struct ps_allocator *memory, enum ps_dtype dtype,
                                         const struct ps_optimizer_settings *settings)
{
    static const float floats[] = {1, 2, 3, 4, 5, 6};
    static const double doubles[] = {1, 2, 3};
    struct ps_bytes piece = {dtype == PS_F32 ? (const uint8_t *)floats : (const uint8_t *)doubles,
                             24};
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        memory, text("w"), dtype, 24 / ps_dtype_size(dtype), (struct ps_bytes){NULL, 0}, settings);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    ck_assert_ptr_nonnull(parameter);
    ck_assert_int_eq(ps_parameter_set(parameter, ps_view_of(&piece), NULL), PS_OK);
    ps_parameter_spec_release(spec);
    return parameter;
}

static void push_twice(struct ps_parameter *parameter, struct ps_view gradient)
{
    uint64_t version;
    ck_assert_int_eq(ps_parameter_push(parameter, native(gradient), NULL, &version, NULL), PS_OK);
    ck_assert_int_eq(ps_parameter_push(parameter, native(gradient), NULL, &version, NULL), PS_OK);
    ck_assert_uint_eq(version, 2);
}

static void expect_same_bits(const struct ps_parameter *a, const struct ps_parameter *b)
{
    uint8_t left[24];
    uint8_t right[24];
    ps_view_copy(ps_blocks_view(a->values), 0, left, 24);
    ps_view_copy(ps_blocks_view(b->values), 0, right, 24);
    ck_assert_mem_eq(left, right, 24);
    for (size_t i = 0; i < ps_parameter_state_count(a); i++) {
        ps_view_copy(ps_blocks_view(a->states[i]), 0, left, 24);
        ps_view_copy(ps_blocks_view(b->states[i]), 0, right, 24);
        ck_assert_mem_eq(left, right, 24);
    }
}

/* _i is the place of the second of two cuts, for float32 and float64 under Adam with clip_norm
 * (which also scans). */
START_TEST(a_gradient_cut_at_every_byte_gives_the_same_bits)
{
    static const float floats[] = {0.5f, -1, 2, 0.25f, -0.125f, 3};
    static const double doubles[] = {0.5, -1, 2};
    for (int type = 0; type < 2; type++) {
        enum ps_dtype dtype = type == 0 ? PS_F32 : PS_F64;
        const uint8_t *bytes = type == 0 ? (const uint8_t *)floats : (const uint8_t *)doubles;
        struct ps_optimizer_settings settings = settings_of(PS_RULE_ADAM);
        settings.clip_norm = 1;
        struct ps_bytes whole = {bytes, 24};
        struct ps_parameter *expected = create_small(ps_allocator_heap(), dtype, &settings);
        push_twice(expected, ps_view_of(&whole));
        for (size_t first = 0; first <= (size_t)_i; first++) {
            struct ps_bytes pieces[] = {
                {bytes, first}, {bytes + first, (size_t)_i - first}, {bytes + _i, 24 - (size_t)_i}};
            struct ps_parameter *parameter = create_small(ps_allocator_heap(), dtype, &settings);

            push_twice(parameter, (struct ps_view){pieces, 3, 24});

            expect_same_bits(parameter, expected);
            ps_parameter_destroy(parameter);
        }
        ps_parameter_destroy(expected);
    }
}
END_TEST

START_TEST(a_held_version_keeps_its_bits)
{
    static const float gradient[] = {1, 1, 1, 1, 1, 1};
    static const float start[] = {1, 2, 3, 4, 5, 6};
    float kept[6];
    float now[6];
    struct ps_bytes piece = {(const uint8_t *)gradient, 24};
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    struct ps_parameter *parameter = create_small(ps_allocator_heap(), PS_F32, &settings);
    uint64_t version;
    struct ps_blocks *held = NULL;
    struct ps_device_due ready;
    ck_assert_int_eq(ps_parameter_hold_values(parameter, &held, &version, &ready, NULL), PS_OK);

    push_twice(parameter, ps_view_of(&piece));

    ck_assert_uint_eq(version, 0);
    ps_view_copy(ps_blocks_view(held), 0, kept, 24);
    ck_assert_mem_eq(kept, start, 24);
    ps_view_copy(ps_blocks_view(parameter->values), 0, now, 24);
    ck_assert_float_lt(now[0], kept[0]);
    ps_blocks_release(held);
    ps_parameter_destroy(parameter);
}
END_TEST

START_TEST(held_or_not_an_update_gives_the_same_bits)
{
    static const float gradient[] = {0.5f, -1, 2, 0.25f, -0.125f, 3};
    struct ps_bytes piece = {(const uint8_t *)gradient, 24};
    struct ps_optimizer_settings settings = settings_of((enum ps_rule)_i);
    struct ps_parameter *in_place = create_small(ps_allocator_heap(), PS_F32, &settings);
    struct ps_parameter *copied = create_small(ps_allocator_heap(), PS_F32, &settings);
    struct ps_parameter_version held[2];
    uint64_t version;

    push_twice(in_place, ps_view_of(&piece));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ps_parameter_hold(copied, &held[i], NULL), PS_OK);
        ck_assert_int_eq(
            ps_parameter_push(copied, native(ps_view_of(&piece)), NULL, &version, NULL), PS_OK);
    }

    expect_same_bits(in_place, copied);
    ps_parameter_version_release(&held[0]);
    ps_parameter_version_release(&held[1]);
    ps_parameter_destroy(in_place);
    ps_parameter_destroy(copied);
}
END_TEST

START_TEST(an_update_nobody_watches_allocates_nothing)
{
    static const float gradient[] = {1, 1, 1, 1, 1, 1};
    struct ps_bytes piece = {(const uint8_t *)gradient, 24};
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_optimizer_settings settings = settings_of(PS_RULE_ADAM);
    struct ps_parameter *parameter = create_small(&memory, PS_F32, &settings);
    int64_t seen = heap.seen;

    push_twice(parameter, ps_view_of(&piece));

    ck_assert_int_eq(heap.seen, seen);
    ps_parameter_destroy(parameter);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* Adam has three arrays of two allocations each. */
START_TEST(a_refused_allocation_changes_nothing)
{
    static const float gradient[] = {1, 1, 1, 1, 1, 1};
    struct ps_bytes piece = {(const uint8_t *)gradient, 24};
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_optimizer_settings settings = settings_of(PS_RULE_ADAM);
    struct ps_parameter *parameter = create_small(&memory, PS_F32, &settings);
    struct ps_parameter *untouched = create_small(&memory, PS_F32, &settings);
    struct ps_parameter_version held;
    uint64_t version = 77;
    ck_assert_int_eq(ps_parameter_hold(parameter, &held, NULL), PS_OK);
    heap.refuse_at = heap.seen + _i;

    enum ps_status status =
        ps_parameter_push(parameter, native(ps_view_of(&piece)), NULL, &version, NULL);

    ck_assert_int_eq(status, _i < 6 ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_uint_eq(version, _i < 6 ? 77 : 1);
    if (status != PS_OK)
        expect_same_bits(parameter, untouched);
    ps_parameter_check(parameter);
    ps_parameter_version_release(&held);
    ps_parameter_destroy(parameter);
    ps_parameter_destroy(untouched);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* Three blocks and a bit, cut where it hurts: the step must see each element once, at its place. */
START_TEST(elements_of_every_block_are_updated_once)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    size_t count = 3 * PS_BLOCK_BYTES / 4 + 17;
    struct ps_optimizer_settings settings = settings_of(PS_RULE_ADD);
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        heap, text("w"), PS_U32, count, (struct ps_bytes){NULL, 0}, &settings);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    uint32_t *numbers = ps_plain(heap, count * 4);
    uint32_t *sums = ps_plain(heap, count * 4);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (uint32_t)i;
    const uint8_t *bytes = (const uint8_t *)numbers;
    struct ps_bytes whole = {bytes, count * 4};
    struct ps_bytes pieces[] = {{bytes, PS_BLOCK_BYTES - 1},
                                {bytes + PS_BLOCK_BYTES - 1, 2},
                                {bytes + PS_BLOCK_BYTES + 1, count * 4 - PS_BLOCK_BYTES - 1}};
    uint64_t version;
    ck_assert_int_eq(ps_parameter_set(parameter, ps_view_of(&whole), NULL), PS_OK);

    ck_assert_int_eq(ps_parameter_push(parameter, native((struct ps_view){pieces, 3, count * 4}),
                                       NULL, &version, NULL),
                     PS_OK);

    ps_view_copy(ps_blocks_view(parameter->values), 0, sums, count * 4);
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(sums[i], 2 * (uint32_t)i);
    ps_release(heap, numbers);
    ps_release(heap, sums);
    ps_parameter_destroy(parameter);
    ps_parameter_spec_release(spec);
}
END_TEST

/* Stochastic rounding depends on the place of an element in the parameter, not in its block. */
START_TEST(blocks_and_cuts_do_not_show_in_the_random_numbers)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    size_t count = 2 * PS_BLOCK_BYTES / 4 + 5;
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    settings.rounding = PS_ROUNDING_STOCHASTIC;
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        heap, text("w"), PS_I32, count, (struct ps_bytes){NULL, 0}, &settings);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    int32_t *expected = ps_zeroed(heap, count * 4);
    int32_t *values = ps_plain(heap, count * 4);
    int32_t *gradient = ps_plain(heap, count * 4);
    for (size_t i = 0; i < count; i++)
        gradient[i] = 5;
    struct ps_bytes zeros = {(const uint8_t *)expected, count * 4};
    ck_assert_int_eq(ps_parameter_set(parameter, ps_view_of(&zeros), NULL), PS_OK);
    struct ps_bytes pieces[] = {{(const uint8_t *)gradient, 101},
                                {(const uint8_t *)gradient + 101, count * 4 - 101}};
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    void *const no_states[PS_STATES_MAX] = {NULL};
    uint64_t version;

    ck_assert_int_eq(ps_parameter_push(parameter, native((struct ps_view){pieces, 2, count * 4}),
                                       NULL, &version, NULL),
                     PS_OK);

    ck_assert_int_eq(ps_optimizer_prepare(&settings, PS_I32, 1, spec->id, &scan, &step, NULL),
                     PS_OK);
    ps_optimizer_apply(&step, 0, count, expected, no_states, gradient);
    ps_view_copy(ps_blocks_view(parameter->values), 0, values, count * 4);
    ck_assert_mem_eq(values, expected, count * 4);
    ps_release(heap, expected);
    ps_release(heap, values);
    ps_release(heap, gradient);
    ps_parameter_destroy(parameter);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(an_overflow_in_the_last_block_is_found_first)
{
    const struct ps_allocator *heap = ps_allocator_heap();
    size_t count = PS_BLOCK_BYTES / 4 + 3;
    struct ps_optimizer_settings settings = settings_of(PS_RULE_ADD);
    settings.overflow = PS_OVERFLOW_FAIL;
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        heap, text("w"), PS_U32, count, (struct ps_bytes){NULL, 0}, &settings);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    uint32_t *numbers = ps_zeroed(heap, count * 4);
    uint32_t *sums = ps_plain(heap, count * 4);
    struct ps_bytes whole = {(const uint8_t *)numbers, count * 4};
    struct ps_error error;
    uint64_t version;
    numbers[count - 2] = UINT32_MAX;
    ck_assert_int_eq(ps_parameter_set(parameter, ps_view_of(&whole), NULL), PS_OK);
    numbers[count - 2] = 1;
    numbers[0] = 5;

    enum ps_status status =
        ps_parameter_push(parameter, native(ps_view_of(&whole)), NULL, &version, &error);

    ck_assert_int_eq(status, PS_ERR_OUT_OF_RANGE);
    ck_assert_str_eq(error.text, "Name: w, element 65537 would overflow; nothing was changed");
    ps_view_copy(ps_blocks_view(parameter->values), 0, sums, count * 4);
    ck_assert_uint_eq(sums[0], 0);
    ck_assert_uint_eq(parameter->version, 0);
    ps_release(heap, numbers);
    ps_release(heap, sums);
    ps_parameter_destroy(parameter);
    ps_parameter_spec_release(spec);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("update");
    tcase_add_loop_test(tests, a_gradient_cut_at_every_byte_gives_the_same_bits, 0, 25);
    tcase_add_test(tests, a_held_version_keeps_its_bits);
    tcase_add_loop_test(tests, held_or_not_an_update_gives_the_same_bits, 0, PS_RULE_COUNT);
    tcase_add_test(tests, an_update_nobody_watches_allocates_nothing);
    tcase_add_loop_test(tests, a_refused_allocation_changes_nothing, 0, 7);
    tcase_add_test(tests, elements_of_every_block_are_updated_once);
    tcase_add_test(tests, blocks_and_cuts_do_not_show_in_the_random_numbers);
    tcase_add_test(tests, an_overflow_in_the_last_block_is_found_first);
    return run_tests("update", tests);
}
