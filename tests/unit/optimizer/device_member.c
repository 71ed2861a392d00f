/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's side of a random work load. */
#include "device_member.h"

#include "base/assert.h"
#include "optimizer/encoded.h"
#include "rule_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void member_must(enum ps_status status, const struct ps_error *error)
{
    if (status == PS_OK)
        return;
    (void)fprintf(stderr, "device_loads: %s\n", error->text);
    abort();
}

bool member_is_float(const struct member *member)
{
    return member->dtype == PS_F32 || member->dtype == PS_F64;
}

uint32_t member_arrays(const struct member *member)
{
    return 1 + ps_rule_states(member->settings.rule);
}

static bool is_for_a_device(const struct member *member)
{
    const struct ps_optimizer_settings *settings = &member->settings;
    return settings->rule != PS_RULE_ADD || settings->overflow != PS_OVERFLOW_FAIL;
}

void member_choose(struct member *member, struct ps_random *random, bool floats_only)
{
    size_t cases = 0;
    struct ps_optimizer_settings settings;
    member->dtype = PS_F32;
    if (!floats_only && ps_random_below(random, 2) == 0)
        member->dtype = (enum ps_dtype)ps_random_below(random, PS_DTYPE_COUNT);
    while (rule_case(cases, member->dtype, &settings))
        cases++;
    do {
        (void)rule_case((size_t)ps_random_below(random, cases), member->dtype, &member->settings);
    } while (!is_for_a_device(member));
    member->settings.nonfinite = PS_NONFINITE_REJECT;
    settings = member->settings;
    settings.clip_norm = 10;
    if (ps_random_below(random, 2) == 0 &&
        ps_optimizer_settings_check(&settings, member->dtype, NULL) == PS_OK)
        member->settings = settings;
}

void member_start(struct member *member, struct ps_random *random)
{
    member->step = 0;
    for (uint32_t i = 1; i < member_arrays(member); i++)
        ps_optimizer_fill(member->dtype, ps_optimizer_state_start(&member->settings, i - 1),
                          member->arrays[i], member->count);
    member_fill(member, random, member->arrays[0], member->count);
}

/* Floats are such that every encoding has room for them. */
void member_fill(const struct member *member, struct ps_random *random, void *elements,
                 size_t count)
{
    if (!member_is_float(member)) {
        rule_case_fill(ps_random_next(random), member->dtype, elements, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        double value = (double)((int64_t)(ps_random_next(random) % 4001) - 2000) / 64;
        if (member->dtype == PS_F32)
            ((float *)elements)[i] = (float)value;
        else
            ((double *)elements)[i] = value;
    }
}

static void decode_listed(const struct member *member, const uint8_t *content, size_t kept,
                          void *gradient)
{
    memset(gradient, 0, member->count * ps_dtype_size(member->dtype));
    for (size_t i = 0; i < kept; i++) {
        uint32_t index = 0;
        float value = 0;
        memcpy(&index, content + i * sizeof index, sizeof index);
        memcpy(&value, content + (kept + i) * sizeof value, sizeof value);
        if (member->dtype == PS_F32)
            ((float *)gradient)[index] = value;
        else
            ((double *)gradient)[index] = (double)value;
    }
}

struct ps_bytes member_gradient(const struct member *member, struct ps_random *random,
                                enum ps_encoding *encoding, uint8_t *content, void *gradient)
{
    struct ps_error error = {0};
    member_fill(member, random, gradient, member->count);
    *encoding = PS_ENCODING_NATIVE;
    if (member_is_float(member) && ps_random_below(random, 2) == 0)
        *encoding = (enum ps_encoding)ps_random_below(random, PS_ENCODING_COUNT);
    if (*encoding == PS_ENCODING_TOP_K) {
        size_t kept = 1 + (size_t)ps_random_below(random, (member->count + 3) / 4);
        ps_encode_top_k(member->dtype, gradient, member->count, kept, content);
        decode_listed(member, content, kept, gradient);
        return (struct ps_bytes){content, kept * PS_ENCODING_PAIR_BYTES};
    }
    size_t size = (size_t)ps_encoding_bytes(*encoding, member->dtype, member->count);
    PS_ASSERT(size <= MEMBER_CONTENT_MAX);
    if (!member_is_float(member)) {
        memcpy(content, gradient, size);
        return (struct ps_bytes){content, size};
    }
    member_must(ps_encode_all(*encoding, member->dtype, gradient, member->count, content, &error),
                &error);
    ps_decode_all(*encoding, member->dtype, content, member->count, gradient);
    return (struct ps_bytes){content, size};
}

void member_apply(struct member *member, const struct ps_gradient_scan *scan, const void *gradient,
                  struct ps_optimizer_step *step)
{
    struct ps_error error = {0};
    void *const states[PS_STATES_MAX] = {member->arrays[1], member->arrays[2]};
    member_must(ps_optimizer_prepare(&member->settings, member->dtype, ++member->step, 7, scan,
                                     step, &error),
                &error);
    PS_ASSERT(!step->skip);
    ps_optimizer_apply(step, 0, member->count, member->arrays[0], states, gradient);
}
