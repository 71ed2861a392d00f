/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations: defaults of the .proto, round trips, and what is not a configuration. */
#include "proto/optimizer_config.h"

#include "base/bounds.h"
#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20260103 };

static enum ps_status decode(const void *bytes, size_t size, struct ps_optimizer_config *config,
                             struct ps_error *error)
{
    return ps_optimizer_config_decode((struct ps_bytes){bytes, size}, ps_allocator_heap(), config,
                                      error);
}

START_TEST(an_empty_configuration_is_sgd_with_rate_1)
{
    struct ps_optimizer_config config;
    memset(&config, 0xff, sizeof config);

    ck_assert_int_eq(decode("", 0, &config, NULL), PS_OK);

    ck_assert_str_eq(config.optimizer, "sgd");
    ck_assert_int_eq(config.policy, PS_POLICY_CONST);
    ck_assert_double_eq(config.learning_rate, 1.0);
    ck_assert_double_eq(ps_optimizer_config_get(&config, "momentum"), 0.0);
    ck_assert_double_eq(config.clip_norm, 0.0);
    ck_assert_uint_eq(config.steps_per_pass, 1);
    ck_assert_uint_eq(config.samples_per_step, 1);
    ck_assert_str_eq(config.segments, "");
}
END_TEST

START_TEST(defaults_equal_an_empty_configuration)
{
    struct ps_optimizer_config decoded;
    struct ps_optimizer_config defaults;
    memset(&decoded, 0, sizeof decoded);
    memset(&defaults, 0, sizeof defaults);

    ck_assert_int_eq(decode("", 0, &decoded, NULL), PS_OK);
    ps_optimizer_config_defaults(&defaults);

    ck_assert_str_eq(defaults.optimizer, decoded.optimizer);
    ck_assert_double_eq(defaults.learning_rate, decoded.learning_rate);
}
END_TEST

START_TEST(the_old_systems_bytes_are_understood)
{
    /* OptimizerConfig{optimizer: SGD, sgd{momentum: 0.5}, lr_policy: Const, const_lr{0.25}} */
    const uint8_t bytes[] = {0x08, 1, 0x1a, 10, 0xa9, 0x01, 0, 0, 0, 0, 0, 0,    0xe0, 0x3f,
                             0x58, 0, 0x62, 9,  0x09, 0,    0, 0, 0, 0, 0, 0xd0, 0x3f};
    struct ps_optimizer_config config;

    ck_assert_int_eq(decode(bytes, sizeof bytes, &config, NULL), PS_OK);

    ck_assert_double_eq(ps_optimizer_config_get(&config, "momentum"), 0.5);
    ck_assert_double_eq(config.learning_rate, 0.25);
}
END_TEST

static struct ps_optimizer_config full_config(enum ps_config_policy policy)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    (void)ps_optimizer_config_choose(&config, "adamw");
    ps_optimizer_config_set(&config, "weight_decay", 0.125);
    config.add_overflow = 2;
    config.integer_rounding = 1;
    config.integer_seed = UINT64_MAX;
    config.integer_gradient_unsigned = true;
    config.policy = policy;
    config.learning_rate = 0.0625;
    config.decay_a = policy == PS_POLICY_CONST ? 0.0 : 7.0;
    config.decay_b = policy == PS_POLICY_CONST ? 0.0 : -8.0;
    if (policy == PS_POLICY_MANUAL)
        strcpy(config.segments, "10:1,20:0.5");
    config.steps_per_pass = 12;
    config.clip_norm = 1.5;
    config.clip_value = 2.5;
    config.nonfinite = 2;
    config.l2 = 0.5;
    config.samples_per_step = 32;
    return config;
}

static void assert_same_numbers(const struct ps_optimizer_config *a,
                                const struct ps_optimizer_config *b)
{
    ck_assert_str_eq(a->optimizer, b->optimizer);
    ck_assert_uint_eq(a->number_count, b->number_count);
    for (uint32_t i = 0; i < a->number_count; i++) {
        ck_assert_str_eq(a->numbers[i].name, b->numbers[i].name);
        ck_assert_double_eq(a->numbers[i].value, b->numbers[i].value);
    }
}

static void assert_same(const struct ps_optimizer_config *a, const struct ps_optimizer_config *b)
{
    assert_same_numbers(a, b);
    ck_assert_int_eq(a->add_overflow, b->add_overflow);
    ck_assert_int_eq(a->integer_rounding, b->integer_rounding);
    ck_assert_uint_eq(a->integer_seed, b->integer_seed);
    ck_assert_int_eq(a->integer_gradient_unsigned, b->integer_gradient_unsigned);
    ck_assert_int_eq(a->policy, b->policy);
    ck_assert_double_eq(a->learning_rate, b->learning_rate);
    ck_assert_double_eq(a->decay_a, b->decay_a);
    ck_assert_double_eq(a->decay_b, b->decay_b);
    ck_assert_uint_eq(a->steps_per_pass, b->steps_per_pass);
    ck_assert_str_eq(a->segments, b->segments);
    ck_assert_double_eq(a->clip_norm, b->clip_norm);
    ck_assert_double_eq(a->clip_value, b->clip_value);
    ck_assert_int_eq(a->nonfinite, b->nonfinite);
    ck_assert_double_eq(a->l2, b->l2);
    ck_assert_uint_eq(a->samples_per_step, b->samples_per_step);
}

START_TEST(configurations_come_back_under_every_policy)
{
    const enum ps_config_policy policies[] = {PS_POLICY_CONST, PS_POLICY_LINEAR, PS_POLICY_POLY,
                                              PS_POLICY_MANUAL};
    struct ps_optimizer_config sent = full_config(policies[_i]);
    struct ps_optimizer_config read;
    struct ps_buffer bytes;
    ps_buffer_init(&bytes, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);

    ps_optimizer_config_encode(&sent, &bytes);

    ck_assert_int_eq(ps_buffer_status(&bytes, NULL), PS_OK);
    ck_assert_int_eq(decode(bytes.text, bytes.size, &read, NULL), PS_OK);
    assert_same(&sent, &read);
    ps_buffer_fini(&bytes);
}
END_TEST

static const struct {
    const char *optimizer;
    const char *number; /* NULL: the optimizer has none */
    double fallback;
} optimizers[] = {
    {"sgd", "nesterov", 0},
    {"adadelta", "rho", 0.9},
    {"adagrad", "epsilon", 1e-5},
    {"adam", "beta_2", 0.999},
    {"adamw", "weight_decay", 0.01},
    {"rmsprop", "rho", 0.99},
    {"ftrl", "initial_accumulator", 0.1},
    {"assign", NULL, 0},
    {"add", NULL, 0},
    {"max", NULL, 0},
    {"min", NULL, 0},
    {"outer", "momentum", 0.9},
};

START_TEST(each_optimizer_comes_back_with_its_numbers)
{
    struct ps_optimizer_config sent;
    struct ps_optimizer_config read;
    struct ps_buffer bytes;
    ps_buffer_init(&bytes, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);
    ps_optimizer_config_defaults(&sent);
    ck_assert(ps_optimizer_config_choose(&sent, optimizers[_i].optimizer));
    if (optimizers[_i].number != NULL)
        ck_assert_double_eq(ps_optimizer_config_get(&sent, optimizers[_i].number),
                            optimizers[_i].fallback);
    for (uint32_t i = 0; i < sent.number_count; i++)
        sent.numbers[i].value = 1.0;

    ps_optimizer_config_encode(&sent, &bytes);

    ck_assert_int_eq(decode(bytes.text, bytes.size, &read, NULL), PS_OK);
    assert_same(&sent, &read);
    ps_buffer_fini(&bytes);
}
END_TEST

START_TEST(an_optimizer_that_the_proto_has_not_is_neither_chosen_nor_written)
{
    struct ps_optimizer_config config;
    char room[256];
    struct ps_buffer bytes;
    ps_buffer_init_fixed(&bytes, room, sizeof room);
    ps_optimizer_config_defaults(&config);

    ck_assert(!ps_optimizer_config_choose(&config, "nonesuch"));
    ck_assert_str_eq(config.optimizer, "sgd");
    strcpy(config.optimizer, "nonesuch");
    ps_optimizer_config_encode(&config, &bytes);

    ck_assert_int_ne(ps_buffer_status(&bytes, NULL), PS_OK);
}
END_TEST

START_TEST(b15_malformed_configurations_are_refused)
{
    const uint8_t cut[] = {0x1a, 10, 0xa9};
    const uint8_t wrong_type[] = {0x18, 1};
    struct ps_optimizer_config config;
    struct ps_error error = {0};

    ck_assert_int_eq(decode(cut, sizeof cut, &config, &error), PS_ERR_BAD_INPUT);
    ck_assert_uint_gt(strlen(error.text), 0);
    ck_assert_int_eq(decode(wrong_type, sizeof wrong_type, &config, &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode("not a config", 12, &config, &error), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(b24_unknown_enum_numbers_are_refused)
{
    const uint8_t optimizer[] = {0x08, 9};
    const uint8_t policy[] = {0x58, 0xe7, 0x07};
    const uint8_t nonfinite[] = {0xf8, 0x0c, 3};
    const uint8_t overflow[] = {0xe2, 0x0c, 2, 0x08, 3};
    struct ps_optimizer_config config;

    ck_assert_int_eq(decode(optimizer, sizeof optimizer, &config, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode(policy, sizeof policy, &config, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode(nonfinite, sizeof nonfinite, &config, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(decode(overflow, sizeof overflow, &config, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(configurations_that_are_too_long_are_refused)
{
    uint8_t *bytes = calloc(1, PS_CONFIG_BYTES_MAX + 1);
    ck_assert_ptr_nonnull(bytes);
    struct ps_optimizer_config config;

    ck_assert_int_eq(decode(bytes, PS_CONFIG_BYTES_MAX + 1, &config, NULL), PS_ERR_BAD_INPUT);
    free(bytes);
}
END_TEST

START_TEST(segments_that_are_too_long_are_refused)
{
    uint8_t bytes[3000];
    size_t size = PS_CONFIG_SEGMENTS_BYTES_MAX;
    const uint8_t head[] = {0x58, 0xcd, 0x01, 0xf2, 0x0c, 0x83, 0x10, 0x22, 0x80, 0x10};
    memcpy(bytes, head, sizeof head);
    memset(bytes + sizeof head, '1', size);
    struct ps_optimizer_config config;

    ck_assert_int_eq(decode(bytes, sizeof head + size, &config, NULL), PS_ERR_BAD_INPUT);
}
END_TEST

/* Two-byte unknown fields: protobuf-c wants 44 times their size. */
START_TEST(configurations_that_blow_up_are_refused)
{
    uint8_t bytes[PS_CONFIG_BYTES_MAX];
    for (size_t i = 0; i < sizeof bytes; i += 2) {
        bytes[i] = 0x78;
        bytes[i + 1] = 1;
    }
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_optimizer_config config;

    enum ps_status status =
        ps_optimizer_config_decode((struct ps_bytes){bytes, sizeof bytes}, &memory, &config, NULL);

    ck_assert_int_eq(status, PS_ERR_NO_MEMORY);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(decoding_survives_any_refused_allocation)
{
    struct ps_optimizer_config sent = full_config(PS_POLICY_MANUAL);
    struct ps_buffer bytes;
    ps_buffer_init(&bytes, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);
    ps_optimizer_config_encode(&sent, &bytes);
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_optimizer_config config;

    enum ps_status status = ps_optimizer_config_decode(
        (struct ps_bytes){(const uint8_t *)bytes.text, bytes.size}, &memory, &config, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert(_i < 39 || status == PS_OK);
    ck_assert_int_eq(heap.live, 0);
    ps_buffer_fini(&bytes);
}
END_TEST

START_TEST(random_bytes_are_read_or_refused_but_never_more)
{
    struct ps_random random;
    ps_random_init(&random, SEED + (uint64_t)_i);
    struct ps_optimizer_config sent = full_config(PS_POLICY_MANUAL);
    struct ps_buffer bytes;
    ps_buffer_init(&bytes, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);
    ps_optimizer_config_encode(&sent, &bytes);
    for (int i = 0; i < 1 + _i % 4; i++)
        bytes.text[ps_random_below(&random, bytes.size)] = (char)ps_random_next(&random);
    struct ps_optimizer_config config;

    enum ps_status status =
        decode(bytes.text, (size_t)ps_random_below(&random, bytes.size + 1), &config, NULL);

    ck_assert(status == PS_OK || status == PS_ERR_BAD_INPUT || status == PS_ERR_NO_MEMORY);
    ps_buffer_fini(&bytes);
}
END_TEST

int main(void)
{
    printf("seed %d\n", SEED);
    Suite *suite = suite_create("optimizer config");
    TCase *tests = tcase_create("optimizer config");
    tcase_add_test(tests, an_empty_configuration_is_sgd_with_rate_1);
    tcase_add_test(tests, defaults_equal_an_empty_configuration);
    tcase_add_test(tests, the_old_systems_bytes_are_understood);
    tcase_add_loop_test(tests, configurations_come_back_under_every_policy, 0, 4);
    tcase_add_loop_test(tests, each_optimizer_comes_back_with_its_numbers, 0,
                        PS_ARRAY_COUNT(optimizers));
    tcase_add_test(tests, an_optimizer_that_the_proto_has_not_is_neither_chosen_nor_written);
    tcase_add_test(tests, b15_malformed_configurations_are_refused);
    tcase_add_test(tests, b24_unknown_enum_numbers_are_refused);
    tcase_add_test(tests, configurations_that_are_too_long_are_refused);
    tcase_add_test(tests, segments_that_are_too_long_are_refused);
    tcase_add_test(tests, configurations_that_blow_up_are_refused);
    tcase_add_loop_test(tests, decoding_survives_any_refused_allocation, 0, 40);
    tcase_add_loop_test(tests, random_bytes_are_read_or_refused_but_never_more, 0, 300);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
