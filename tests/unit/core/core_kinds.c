/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of every rule. */
#include "tests/unit/core/core_kinds.h"

#include "base/random.h"

const struct kind kinds[KIND_COUNT] = {
    {"sgd", PS_F32, false},      {"sgd", PS_F64, false},     {"adadelta", PS_F32, false},
    {"adadelta", PS_F64, false}, {"adagrad", PS_F32, false}, {"adagrad", PS_F64, false},
    {"adam", PS_F32, false},     {"adam", PS_F64, false},    {"adamw", PS_F32, false},
    {"adamw", PS_F64, false},    {"rmsprop", PS_F32, false}, {"rmsprop", PS_F64, false},
    {"ftrl", PS_F32, false},     {"ftrl", PS_F64, false},    {"assign", PS_I32, false},
    {"add", PS_U32, false},      {"max", PS_I64, false},     {"min", PS_U64, false},
    {"sgd", PS_I32, true},       {"sgd", PS_U32, true},      {"sgd", PS_I64, true},
    {"sgd", PS_U64, true},       {"assign", PS_F32, false},  {"add", PS_F64, false},
    {"outer", PS_F32, false},    {"outer", PS_F64, false},
};

/* Gradients of every type: small whole numbers, halves for floats. */
size_t make_elements(enum ps_dtype dtype, uint64_t seed, void *elements)
{
    struct ps_random random;
    ps_random_init(&random, seed);
    for (size_t i = 0; i < ELEMENTS; i++) {
        uint64_t number = ps_random_below(&random, 1000);
        switch (dtype) {
        case PS_F32:
            ((float *)elements)[i] = (float)number / 7;
            break;
        case PS_F64:
            ((double *)elements)[i] = (double)number / 7;
            break;
        case PS_I32:
        case PS_U32:
            ((uint32_t *)elements)[i] = (uint32_t)number;
            break;
        default:
            ((uint64_t *)elements)[i] = number;
            break;
        }
    }
    return ELEMENTS * ps_dtype_size(dtype);
}

enum ps_dtype gradient_of(const struct kind *kind)
{
    if (strcmp(kind->optimizer, "sgd") != 0)
        return kind->dtype;
    if (kind->dtype == PS_U32)
        return PS_I32;
    return kind->dtype == PS_U64 ? PS_I64 : kind->dtype;
}

struct ps_bytes kind_config(const struct kind *kind)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    ck_assert(ps_optimizer_config_choose(&config, kind->optimizer));
    config.learning_rate = 0.3;
    config.integer_rounding = kind->stochastic ? 1 : 0;
    config.integer_seed = 42;
    if (strcmp(kind->optimizer, "sgd") == 0 && ps_dtype_is_float(kind->dtype))
        ps_optimizer_config_set(&config, "momentum", 0.9);
    return config_bytes(&config);
}
