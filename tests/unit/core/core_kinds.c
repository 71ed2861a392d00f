/* Parameters of every rule. */
#include "tests/unit/core/core_kinds.h"

#include "base/random.h"

const struct kind kinds[KIND_COUNT] = {
    {PS_CONFIG_SGD, PS_F32, false},      {PS_CONFIG_SGD, PS_F64, false},
    {PS_CONFIG_ADADELTA, PS_F32, false}, {PS_CONFIG_ADADELTA, PS_F64, false},
    {PS_CONFIG_ADAGRAD, PS_F32, false},  {PS_CONFIG_ADAGRAD, PS_F64, false},
    {PS_CONFIG_ADAM, PS_F32, false},     {PS_CONFIG_ADAM, PS_F64, false},
    {PS_CONFIG_ADAMW, PS_F32, false},    {PS_CONFIG_ADAMW, PS_F64, false},
    {PS_CONFIG_RMSPROP, PS_F32, false},  {PS_CONFIG_RMSPROP, PS_F64, false},
    {PS_CONFIG_FTRL, PS_F32, false},     {PS_CONFIG_FTRL, PS_F64, false},
    {PS_CONFIG_ASSIGN, PS_I32, false},   {PS_CONFIG_ADD, PS_U32, false},
    {PS_CONFIG_MAX, PS_I64, false},      {PS_CONFIG_MIN, PS_U64, false},
    {PS_CONFIG_SGD, PS_I32, true},       {PS_CONFIG_SGD, PS_U32, true},
    {PS_CONFIG_SGD, PS_I64, true},       {PS_CONFIG_SGD, PS_U64, true},
    {PS_CONFIG_ASSIGN, PS_F32, false},   {PS_CONFIG_ADD, PS_F64, false},
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
    if (kind->optimizer != PS_CONFIG_SGD)
        return kind->dtype;
    if (kind->dtype == PS_U32)
        return PS_I32;
    return kind->dtype == PS_U64 ? PS_I64 : kind->dtype;
}

struct ps_bytes kind_config(const struct kind *kind)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    config.optimizer = kind->optimizer;
    config.learning_rate = 0.3;
    config.integer_rounding = kind->stochastic ? 1 : 0;
    config.integer_seed = 42;
    if (kind->optimizer == PS_CONFIG_SGD && ps_dtype_is_float(kind->dtype))
        config.sgd.momentum = 0.9;
    return config_bytes(&config);
}
