/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/sparse_apply.c: named elements get what they would get alone, others nothing. */
#include "server/core/update/sparse_apply.h"
#include "tests/unit/core/core_encoded.h"

#include <string.h>

#define COUNT 5000

static struct encoded encoded;

struct arrays {
    double values[COUNT];
    double states[PS_STATES_MAX][COUNT];
};

static void fill(enum ps_dtype dtype, struct arrays *arrays)
{
    ps_optimizer_fill(dtype, 1.25, arrays->values, COUNT);
    ps_optimizer_fill(dtype, 0.5, arrays->states[0], COUNT);
    ps_optimizer_fill(dtype, 0.75, arrays->states[1], COUNT);
}

/* The rule, for one element after the other. */
static void apply_alone(const struct ps_optimizer_step *step, struct arrays *arrays, size_t kept)
{
    size_t size = ps_dtype_size(step->dtype);
    for (size_t i = 0; i < kept; i++) {
        uint32_t index;
        memcpy(&index, encoded.content + i * 4, 4);
        void *const states[] = {(char *)arrays->states[0] + index * size,
                                (char *)arrays->states[1] + index * size};
        ps_optimizer_apply(step, index, 1, (char *)arrays->values + index * size, states,
                           (char *)encoded.decoded + index * size);
    }
}

static void check(const struct ps_optimizer_settings *settings, enum ps_dtype dtype, size_t kept)
{
    static struct arrays expected;
    static struct arrays arrays;
    struct ps_gradient_scan scan = {0};
    struct ps_optimizer_step step;
    struct ps_gradient_pairs pairs;
    encoded_make(&encoded, PS_ENCODING_TOP_K, dtype, COUNT, kept, 8);
    ck_assert_int_eq(ps_optimizer_prepare(settings, dtype, 3, 0, &scan, &step, NULL), PS_OK);
    memset(&arrays, 0, sizeof arrays);
    fill(dtype, &arrays);
    expected = arrays;

    apply_alone(&step, &expected, kept);
    ps_gradient_pairs_init(&pairs, encoded_cut(&encoded, 2).content);
    for (size_t first = 0; first < COUNT; first += 1700) {
        size_t at = first * ps_dtype_size(dtype);
        void *const parts[PS_ARRAYS_MAX] = {(char *)arrays.values + at,
                                            (char *)arrays.states[0] + at,
                                            (char *)arrays.states[1] + at};
        ps_sparse_apply(&step, first, 1700, parts, 1 + ps_rule_states(settings->rule), &pairs);
    }

    ck_assert_mem_eq(&arrays, &expected, sizeof arrays);
}

START_TEST(named_elements_get_what_they_would_get_alone)
{
    static const size_t kept[] = {0, 1, 600, COUNT};
    const struct ps_optimizer_settings settings = {.rule = (enum ps_rule)_i,
                                                   .learning_rate.rate = 0.1,
                                                   .rho = 0.9,
                                                   .beta_1 = 0.9,
                                                   .beta_2 = 0.999,
                                                   .epsilon = 1e-8};
    for (size_t i = 0; i < 4; i++) {
        check(&settings, PS_F32, kept[i]);
        check(&settings, PS_F64, kept[i]);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sparse_apply");
    tcase_add_loop_test(tests, named_elements_get_what_they_would_get_alone, 0, PS_RULE_COUNT);
    return run_tests("sparse_apply", tests);
}
