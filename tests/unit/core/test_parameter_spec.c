/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/parameter_spec.c: the facts of a parameter outlive whoever gave them. */
#include "base/hash.h"
#include "server/core/values/parameter_spec.h"
#include "tests/unit/core/core_world.h"

#include <string.h>

static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD};

START_TEST(name_and_config_are_copied)
{
    char name[] = "layer.weight";
    uint8_t config[] = {1, 2, 3};
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        ps_allocator_heap(), text(name), PS_F64, 7, (struct ps_bytes){config, sizeof config}, &sgd);

    memset(name, 'x', sizeof name - 1);
    memset(config, 0, sizeof config);

    ck_assert_str_eq((const char *)spec->name.data, "layer.weight");
    ck_assert_uint_eq(spec->config.size, 3);
    ck_assert_uint_eq(spec->config.data[2], 3);
    ck_assert_uint_eq(ps_parameter_spec_bytes(spec), 56);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(the_id_depends_on_the_name_alone)
{
    struct ps_bytes none = {NULL, 0};
    struct ps_parameter_spec *a =
        ps_parameter_spec_create(ps_allocator_heap(), text("a"), PS_F64, 7, none, &sgd);
    struct ps_parameter_spec *again =
        ps_parameter_spec_create(ps_allocator_heap(), text("a"), PS_I32, 1, none, &sgd);

    ck_assert_uint_eq(a->id, again->id);
    ck_assert_uint_eq(a->id, ps_hash_fnv1a32(text("a")));
    ps_parameter_spec_release(a);
    ps_parameter_spec_release(again);
}
END_TEST

START_TEST(the_last_reference_frees_it)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(&memory, text("a"), PS_F32, 1, (struct ps_bytes){NULL, 0}, &sgd);

    ck_assert_ptr_eq(ps_parameter_spec_acquire(spec), spec);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 1);
    ps_parameter_spec_release(spec);

    ck_assert_int_eq(heap.live, 0);
    ps_parameter_spec_release(NULL);
}
END_TEST

START_TEST(a_refused_allocation_gives_null)
{
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);

    ck_assert_ptr_null(
        ps_parameter_spec_create(&memory, text("a"), PS_F32, 1, (struct ps_bytes){NULL, 0}, &sgd));
}
END_TEST

START_TEST(a_shape_takes_memory_only_where_there_is_one)
{
    static const struct ps_shape two = {.is_given = true, .rank = 2, .lengths = {2, 3}};
    static const struct ps_shape flat = {.is_given = true, .rank = 1, .lengths = {6}};
    for (int64_t n = 0; n < 3; n++) {
        struct fault_heap heap = {.refuse_at = n};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct ps_parameter_spec *spec = ps_parameter_spec_create(&memory, text("a"), PS_F32, 6,
                                                                  (struct ps_bytes){NULL, 0}, &sgd);
        if (spec == NULL)
            continue;
        ck_assert_int_eq(ps_parameter_spec_set_shape(spec, &flat, NULL), PS_OK);
        ck_assert(!ps_parameter_spec_shape(spec)->is_given);
        ck_assert_int_eq(heap.live, 1);

        enum ps_status status = ps_parameter_spec_set_shape(spec, &two, NULL);

        ck_assert_int_eq(status, n == 1 ? PS_ERR_NO_MEMORY : PS_OK);
        ck_assert(ps_parameter_spec_shape(spec)->is_given == (status == PS_OK));
        ps_parameter_spec_release(spec);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

/* {parameter's type, rule, gradient_unsigned, gradient's type} */
static const struct {
    enum ps_dtype dtype;
    enum ps_rule rule;
    bool gradient_unsigned;
    enum ps_dtype expected;
} gradients[] = {
    {PS_U32, PS_RULE_SGD, false, PS_I32}, {PS_U64, PS_RULE_SGD, false, PS_I64},
    {PS_U32, PS_RULE_SGD, true, PS_U32},  {PS_U64, PS_RULE_SGD, true, PS_U64},
    {PS_U32, PS_RULE_ADD, false, PS_U32}, {PS_I32, PS_RULE_SGD, false, PS_I32},
    {PS_F32, PS_RULE_SGD, false, PS_F32}, {PS_F64, PS_RULE_ADAM, false, PS_F64},
};

START_TEST(the_gradients_type_follows_rule_and_type)
{
    struct ps_optimizer_settings settings = {.rule = gradients[_i].rule,
                                             .gradient_unsigned = gradients[_i].gradient_unsigned};
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(ps_allocator_heap(), text("a"), gradients[_i].dtype, 1,
                                 (struct ps_bytes){NULL, 0}, &settings);

    ck_assert_int_eq(ps_parameter_spec_gradient(spec), gradients[_i].expected);
    ps_parameter_spec_release(spec);
}
END_TEST

/* A file of a table of width 1 does not say it, and its row would differ from the parameter's. */
START_TEST(a_state_of_one_element_is_said_where_it_differs)
{
    for (uint32_t width = 1; width <= 2; width++) {
        const struct ps_optimizer_settings settings = {
            .rule = PS_RULE_ADAGRAD, .adagrad_row_wise = true, .table = {.width = width}};
        struct ps_parameter_spec *spec = ps_parameter_spec_create(
            ps_allocator_heap(), text("a"), PS_F32, width, (struct ps_bytes){NULL, 0}, &settings);
        ck_assert(ps_parameter_spec_row(spec).state_is_one[0] == (width > 1));
        ps_parameter_spec_release(spec);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("parameter_spec");
    tcase_add_test(tests, name_and_config_are_copied);
    tcase_add_test(tests, the_id_depends_on_the_name_alone);
    tcase_add_test(tests, the_last_reference_frees_it);
    tcase_add_test(tests, a_refused_allocation_gives_null);
    tcase_add_test(tests, a_shape_takes_memory_only_where_there_is_one);
    tcase_add_test(tests, a_state_of_one_element_is_said_where_it_differs);
    tcase_add_loop_test(tests, the_gradients_type_follows_rule_and_type, 0,
                        (int)PS_ARRAY_COUNT(gradients));
    return run_tests("parameter_spec", tests);
}
