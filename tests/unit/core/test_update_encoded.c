/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/update.c with encoded gradients: the bits of decoding first, and no block is
 * touched that need not be. */
#include "server/core/update/update.h"
#include "tests/unit/core/core_encoded.h"
#include "tests/unit/core/core_parameter.h"

#include <math.h>
#include <string.h>

#define COUNT 140000 /* three blocks of float32, five of float64 */
#define KEPT 900

static struct encoded encoded;

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

/* One rule in every encoding; _i is the rule. */
static void compare(const struct ps_optimizer_settings *settings, enum ps_dtype dtype)
{
    for (enum ps_encoding encoding = 0; encoding < PS_ENCODING_COUNT; encoding++) {
        struct ps_parameter *plain =
            parameter_create(ps_allocator_heap(), dtype, settings, COUNT, NULL);
        struct ps_parameter *parameter =
            parameter_create(ps_allocator_heap(), dtype, settings, COUNT, NULL);
        for (uint64_t seed = 0; seed < 2; seed++) {
            encoded_make(&encoded, encoding, dtype, COUNT, KEPT, seed);
            ck_assert_int_eq(parameter_push(plain, encoded_native(&encoded), NULL), PS_OK);
            ck_assert_int_eq(parameter_push(parameter, encoded_cut(&encoded, seed), NULL), PS_OK);
        }
        parameter_expect_same(parameter, plain);
        ps_parameter_destroy(plain);
        ps_parameter_destroy(parameter);
    }
}

START_TEST(an_encoded_push_gives_the_bits_of_decoding_it_first)
{
    struct ps_optimizer_settings settings = settings_of((enum ps_rule)_i);
    compare(&settings, PS_F32);
    compare(&settings, PS_F64);
}
END_TEST

START_TEST(clipping_decay_and_l2_see_the_decoded_gradient)
{
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    settings.clip_norm = 1;
    settings.clip_value = 0.5;
    compare(&settings, PS_F32);
    settings.l2 = 0.01;
    compare(&settings, PS_F32);
    settings.l2 = 0;
    settings.decay = 0.01;
    compare(&settings, PS_F64);
}
END_TEST

/* Names elements of the first and the last block alone. */
static struct ps_gradient first_and_last(enum ps_dtype dtype)
{
    const uint32_t indices[] = {0, 17, COUNT - 1};
    const float values[] = {1, 2, 3};
    encoded.encoding = PS_ENCODING_TOP_K;
    encoded.dtype = dtype;
    encoded.bytes = sizeof indices + sizeof values;
    memcpy(encoded.content, indices, sizeof indices);
    memcpy(encoded.content + sizeof indices, values, sizeof values);
    return encoded_whole(&encoded);
}

/* Adagrad has a state, which is left alone as well. */
START_TEST(blocks_that_are_not_named_are_neither_copied_nor_marked)
{
    enum ps_dtype dtype = _i == 0 ? PS_F32 : PS_F64;
    struct ps_optimizer_settings settings = settings_of(PS_RULE_ADAGRAD);
    struct ps_parameter *parameter =
        parameter_create(ps_allocator_heap(), dtype, &settings, COUNT, NULL);
    struct ps_parameter_version held;
    ck_assert_int_eq(ps_parameter_hold(parameter, &held, NULL), PS_OK);

    ck_assert_int_eq(parameter_push(parameter, first_and_last(dtype), NULL), PS_OK);

    size_t last = parameter->values->block_count - 1;
    for (size_t i = 0; i <= last; i++) {
        bool named = i == 0 || i == last;
        ck_assert_int_eq(parameter->values->entries[i].block == held.values->entries[i].block,
                         !named);
        ck_assert_int_eq(parameter->states[0]->entries[i].block == held.states[0]->entries[i].block,
                         !named);
        ck_assert_uint_eq(parameter->values->entries[i].version, named ? 1 : 0);
    }
    ps_parameter_version_release(&held);
    ps_parameter_destroy(parameter);
}
END_TEST

START_TEST(rules_that_a_zero_moves_touch_every_block)
{
    struct ps_optimizer_settings settings = settings_of(PS_RULE_MOMENTUM);
    struct ps_parameter *parameter =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, COUNT, NULL);

    ck_assert_int_eq(parameter_push(parameter, first_and_last(PS_F32), NULL), PS_OK);

    for (size_t i = 0; i < parameter->values->block_count; i++)
        ck_assert_uint_eq(parameter->values->entries[i].version, 1);
    ps_parameter_destroy(parameter);
}
END_TEST

/* A minus zero plus zero would be plus zero: what is not named keeps even that. */
START_TEST(elements_that_are_not_named_keep_their_bits)
{
    const struct ps_optimizer_settings settings = settings_of(PS_RULE_ADD);
    struct ps_parameter *parameter =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, 4, NULL);
    const float values[] = {-0.0F, -0.0F, NAN, INFINITY};
    const float expected[] = {-0.0F, 2, NAN, INFINITY};
    const uint32_t content[] = {1, 0x40000000};
    struct ps_bytes piece = {(const uint8_t *)values, sizeof values};
    struct ps_bytes pushed = {(const uint8_t *)content, sizeof content};
    ck_assert_int_eq(ps_parameter_set(parameter, ps_view_of(&piece), NULL), PS_OK);

    ck_assert_int_eq(parameter_push(parameter,
                                    (struct ps_gradient){.content = ps_view_of(&pushed),
                                                         .encoding = PS_ENCODING_TOP_K},
                                    NULL),
                     PS_OK);

    ck_assert_mem_eq(parameter->values->pieces[0].data, expected, sizeof expected);
    ps_parameter_destroy(parameter);
}
END_TEST

START_TEST(a_gradient_that_names_nothing_is_a_push)
{
    const struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    struct ps_parameter *parameter =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, 4, NULL);

    ck_assert_int_eq(
        parameter_push(parameter, (struct ps_gradient){.encoding = PS_ENCODING_TOP_K}, NULL),
        PS_OK);

    ck_assert_uint_eq(parameter->version, 1);
    ck_assert_uint_eq(parameter->values->entries[0].version, 0);
    ps_parameter_destroy(parameter);
}
END_TEST

START_TEST(what_cannot_be_changes_nothing)
{
    const struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    struct ps_parameter *plain =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, 600, NULL);
    struct ps_parameter *parameter =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, 600, NULL);
    const uint16_t infinity = 0x7c00;
    const float nan = NAN;
    const uint32_t high = 600;

    encoded_make(&encoded, PS_ENCODING_INT8, PS_F32, 600, 0, 1);
    memcpy(encoded.content + 8, &nan, 4);
    ck_assert_int_eq(parameter_push(parameter, encoded_whole(&encoded), NULL), PS_ERR_BAD_INPUT);
    encoded_make(&encoded, PS_ENCODING_FLOAT16, PS_F32, 600, 0, 1);
    memcpy(encoded.content + 1198, &infinity, 2);
    ck_assert_int_eq(parameter_push(parameter, encoded_whole(&encoded), NULL), PS_ERR_BAD_INPUT);
    encoded_make(&encoded, PS_ENCODING_TOP_K, PS_F32, 600, 9, 1);
    memcpy(encoded.content + 32, &high, 4);
    ck_assert_int_eq(parameter_push(parameter, encoded_whole(&encoded), NULL), PS_ERR_BAD_INPUT);

    parameter_expect_same(parameter, plain);
    ps_parameter_destroy(plain);
    ps_parameter_destroy(parameter);
}
END_TEST

START_TEST(a_refused_allocation_changes_nothing)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_optimizer_settings settings = settings_of(PS_RULE_ADAGRAD);
    struct ps_parameter *plain = parameter_create(&memory, PS_F32, &settings, COUNT, NULL);
    struct ps_parameter *parameter = parameter_create(&memory, PS_F32, &settings, COUNT, NULL);
    struct ps_parameter_version held;
    enum ps_status status = PS_ERR_NO_MEMORY;
    int refused = 0;
    ck_assert_int_eq(ps_parameter_hold(parameter, &held, NULL), PS_OK);

    while (status != PS_OK) {
        heap.refuse_at = heap.seen + refused;
        status = parameter_push(parameter, first_and_last(PS_F32), NULL);
        heap.refuse_at = -1;
        if (status == PS_OK)
            break;
        ck_assert_int_eq(status, PS_ERR_NO_MEMORY);
        parameter_expect_same(parameter, plain);
        refused++;
    }

    /* The flags, and a list with two blocks for values and state. */
    ck_assert_int_eq(refused, 1 + 2 * 3);
    ps_parameter_version_release(&held);
    ps_parameter_destroy(plain);
    ps_parameter_destroy(parameter);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("update_encoded");
    tcase_add_loop_test(tests, an_encoded_push_gives_the_bits_of_decoding_it_first, 0,
                        PS_RULE_COUNT);
    tcase_add_test(tests, clipping_decay_and_l2_see_the_decoded_gradient);
    tcase_add_loop_test(tests, blocks_that_are_not_named_are_neither_copied_nor_marked, 0, 2);
    tcase_add_test(tests, rules_that_a_zero_moves_touch_every_block);
    tcase_add_test(tests, elements_that_are_not_named_keep_their_bits);
    tcase_add_test(tests, a_gradient_that_names_nothing_is_a_push);
    tcase_add_test(tests, what_cannot_be_changes_nothing);
    tcase_add_test(tests, a_refused_allocation_changes_nothing);
    return run_tests("update_encoded", tests);
}
