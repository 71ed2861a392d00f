/* SPDX-License-Identifier: Apache-2.0 */
/* Floats and doubles by one text. */
#include "tests/sim/sim_round_sums.h"

#include "base/assert.h"
#include "optimizer/encoded.h"

#define STEP(suffix, T)                                                                   \
    static T combine_##suffix(enum sim_combine combine, const struct sim_round_sum *of)   \
    {                                                                                     \
        T sum = 0, weights = 0;                                                           \
        for (size_t i = 0; i < of->count; i++) {                                          \
            T weight = combine == SIM_COMBINE_WEIGHTED ? (T)of->terms[i].weight : (T)1;   \
            sum += weight * (T)of->terms[i].gradient;                                     \
            weights += weight;                                                            \
        }                                                                                 \
        return combine == SIM_COMBINE_SUM ? sum : sum / weights;                          \
    }                                                                                     \
    static void step_##suffix(enum sim_rule rule, T gradient, struct sim_round_value *of) \
    {                                                                                     \
        T value = (T)of->value, momentum = (T)of->momentum;                               \
        if (rule == SIM_RULE_MOMENTUM)                                                    \
            momentum = (T)0.5 * momentum - gradient;                                      \
        of->momentum = (double)momentum;                                                  \
        of->value = (double)(rule == SIM_RULE_MOMENTUM ? value + momentum                 \
                             : rule == SIM_RULE_ADD    ? value + gradient                 \
                                                       : value - gradient);                  \
    }
STEP(f32, float)
STEP(f64, double)
#undef STEP

void sim_round_step(const struct sim_round_rules *rules, enum ps_dtype dtype,
                    const struct sim_round_sum *sum, struct sim_round_value *value)
{
    /* How a push without a round would be combined does not matter: its weight is not asked for. */
    enum sim_combine combine = sum->is_alone ? SIM_COMBINE_SUM : rules->combine;
    if (dtype == PS_F32)
        step_f32(rules->rule, combine_f32(combine, sum), value);
    else
        step_f64(rules->rule, combine_f64(combine, sum), value);
}

/* All elements of a gradient are equal, also when it came in ranges; so are all values. */
double sim_round_first(struct ps_view view, enum ps_dtype dtype)
{
    float single = 0;
    double real = 0;
    ps_view_copy(view, 0, dtype == PS_F32 ? (void *)&single : (void *)&real, ps_dtype_size(dtype));
    return dtype == PS_F32 ? (double)single : real;
}

bool sim_rounds_can_read(enum ps_encoding encoding)
{
    return encoding != PS_ENCODING_INT8 && encoding != PS_ENCODING_TOP_K;
}

/* Decoded as the server does it: only the adding up is the model's own. */
double sim_round_gradient(const struct ps_push_request *request)
{
    uint8_t encoded[8] = {0}, element[8];
    size_t width = ps_encoding_width(request->encoding, request->dtype);
    if (ps_encoding_is_native(request->encoding, request->dtype))
        return sim_round_first(request->content, request->dtype);
    PS_ASSERT(sim_rounds_can_read(request->encoding) && width <= sizeof encoded);
    ps_view_copy(request->content, 0, encoded, width);
    ps_decode_run(request->encoding, request->dtype, encoded, 1, element);
    const struct ps_bytes decoded = {element, ps_dtype_size(request->dtype)};
    return sim_round_first(ps_view_of(&decoded), request->dtype);
}
