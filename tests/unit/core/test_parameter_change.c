/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/parameter_change.c: the present configuration with a change behind it. */
#include "core_world.h"
#include "server/core/update/parameter_change.h"
#include "server/core/update/parameter_settings.h"

static struct fault_heap heap = {.refuse_at = -1};
static struct ps_allocator memory;

static struct ps_parameter_spec *spec_of(struct ps_bytes config, enum ps_dtype dtype)
{
    struct ps_optimizer_settings settings;
    memory = fault_heap_allocator(&heap);
    ck_assert_int_eq(ps_parameter_settings_read(config, dtype, &memory, &settings, NULL), PS_OK);
    return ps_parameter_spec_create(&memory, text("w"), dtype, 4, config, &settings);
}

START_TEST(what_the_change_does_not_name_stays)
{
    /* learning_rate 0.5 of const_lr alone: field 12, a message of 9 bytes. */
    static const uint8_t rate[] = {0x62, 9, 9, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f};
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    ck_assert(ps_optimizer_config_choose(&config, "adam"));
    ps_optimizer_config_set(&config, "epsilon", 0.125);
    config.clip_norm = 3;
    struct ps_parameter_spec *spec = spec_of(config_bytes(&config), PS_F32);
    struct ps_parameter_spec *changed = NULL;

    ck_assert_int_eq(
        ps_parameter_change(spec, (struct ps_bytes){rate, sizeof rate}, &changed, NULL), PS_OK);

    ck_assert_double_eq(changed->settings.learning_rate.rate, 0.5);
    ck_assert_double_eq(changed->settings.epsilon, 0.125);
    ck_assert_double_eq(changed->settings.clip_norm, 3);
    ck_assert_ptr_eq(ps_parameter_spec_first(changed), spec);
    ps_parameter_spec_release(changed);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(seed_and_accumulator_cannot_change)
{
    struct ps_error error;
    struct ps_optimizer_config config;
    struct ps_parameter_spec *changed = NULL;
    struct ps_parameter_spec *whole = spec_of(config_of("sgd", 1), PS_I32);
    ps_optimizer_config_defaults(&config);
    config.integer_seed = 7;
    ck_assert_int_eq(ps_parameter_change(whole, config_bytes(&config), &changed, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "seed"));
    ps_parameter_spec_release(whole);

    struct ps_parameter_spec *adagrad = spec_of(config_of("adagrad", 1), PS_F32);
    ps_optimizer_config_defaults(&config);
    ck_assert(ps_optimizer_config_choose(&config, "adagrad"));
    ps_optimizer_config_set(&config, "initial_accumulator", 1);
    ck_assert_int_eq(ps_parameter_change(adagrad, config_bytes(&config), &changed, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "initial_accumulator"));
    ps_parameter_spec_release(adagrad);
    ck_assert_ptr_null(changed);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(a_configuration_does_not_grow_with_its_changes)
{
    /* A field that nobody knows, number 1000. */
    static const uint8_t unknown[] = {0xc0, 0x3e, 1};
    struct ps_parameter_spec *spec = spec_of(config_of("adam", 1), PS_F32);
    size_t size = 0;
    for (int i = 0; i < 50; i++) {
        struct ps_parameter_spec *changed = NULL;
        ck_assert_int_eq(
            ps_parameter_change(spec, (struct ps_bytes){unknown, sizeof unknown}, &changed, NULL),
            PS_OK);
        ck_assert(i == 0 || changed->config.size == size);
        size = changed->config.size;
        ps_parameter_spec_release(spec);
        spec = changed;
    }
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(the_same_in_other_bytes_is_the_same)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    memory = fault_heap_allocator(&heap);
    static const uint8_t malformed[] = {0xff};

    ck_assert(ps_parameter_config_is_same(config_bytes(&config), (struct ps_bytes){0}, &memory));
    config.l2 = 1;
    ck_assert(!ps_parameter_config_is_same(config_bytes(&config), (struct ps_bytes){0}, &memory));
    ck_assert(!ps_parameter_config_is_same(
        config_bytes(&config), (struct ps_bytes){malformed, sizeof malformed}, &memory));
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* In the order in which a person would look: the rule, then its numbers, then the table's. */
START_TEST(a_difference_is_named_as_people_set_it)
{
    char said[PS_CONFIG_DIFFERENCE_BYTES];
    static const uint8_t malformed[] = {0xff};
    static char bytes[256];
    struct ps_optimizer_config config;
    struct ps_buffer there;
    memory = fault_heap_allocator(&heap);
    ps_optimizer_config_defaults(&config);
    config.table.width = 8;
    ps_buffer_init_fixed(&there, bytes, sizeof bytes);
    ps_optimizer_config_encode(&config, &there);
    const struct ps_bytes present = {(const uint8_t *)bytes, there.size};

    config.table.width = 16;
    ck_assert_str_eq(ps_parameter_config_difference(present, config_bytes(&config), &memory, said),
                     "table.width=8 and not 16");
    config.learning_rate = 0.25;
    ck_assert_str_eq(ps_parameter_config_difference(present, config_bytes(&config), &memory, said),
                     "lr=1 and not 0.25");
    ck_assert(ps_optimizer_config_choose(&config, "adam"));
    ck_assert_str_eq(ps_parameter_config_difference(present, config_bytes(&config), &memory, said),
                     "rule=sgd and not adam");
    ck_assert_str_eq(ps_parameter_config_difference(present, present, &memory, said),
                     "another configuration");
    ck_assert_str_eq(
        ps_parameter_config_difference(present, (struct ps_bytes){malformed, 1}, &memory, said),
        "another configuration");
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("parameter_change");
    tcase_add_test(tests, what_the_change_does_not_name_stays);
    tcase_add_test(tests, seed_and_accumulator_cannot_change);
    tcase_add_test(tests, a_configuration_does_not_grow_with_its_changes);
    tcase_add_test(tests, the_same_in_other_bytes_is_the_same);
    tcase_add_test(tests, a_difference_is_named_as_people_set_it);
    return run_tests("parameter_change", tests);
}
