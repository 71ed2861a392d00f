/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks are compared as they lie: two parameters of one type and count are cut alike. */
#include "tests/unit/core/core_parameter.h"

#include "tests/unit/core/core_encoded.h"

#include <string.h>

struct ps_parameter *parameter_create(const struct ps_allocator *memory, enum ps_dtype dtype,
                                      const struct ps_optimizer_settings *settings, size_t count,
                                      const struct ps_crew *crew)
{
    static double values[ENCODED_MAX];
    for (size_t i = 0; i < count; i++) {
        if (dtype == PS_F32)
            ((float *)values)[i] = 1 + (float)i / 4;
        else
            values[i] = 1 + (double)i / 4;
    }
    struct ps_bytes piece = {(const uint8_t *)values, count * ps_dtype_size(dtype)};
    struct ps_parameter_spec *spec = ps_parameter_spec_create(memory, text("w"), dtype, count,
                                                              (struct ps_bytes){NULL, 0}, settings);
    spec->crew = crew;
    struct ps_parameter *parameter = ps_parameter_create(spec);
    ck_assert_ptr_nonnull(parameter);
    ck_assert_int_eq(ps_parameter_set(parameter, ps_view_of(&piece), NULL), PS_OK);
    ps_parameter_spec_release(spec);
    return parameter;
}

enum ps_status parameter_push(struct ps_parameter *parameter, struct ps_gradient gradient,
                              struct ps_error *error)
{
    uint64_t version;
    enum ps_status status = ps_parameter_push(parameter, gradient, NULL, &version, error);
    ps_parameter_check(parameter);
    return status;
}

static bool same_blocks(const struct ps_blocks *a, const struct ps_blocks *b)
{
    for (size_t i = 0; i < a->block_count; i++)
        if (memcmp(a->pieces[i].data, b->pieces[i].data, a->pieces[i].size) != 0)
            return false;
    return true;
}

void parameter_expect_same(const struct ps_parameter *a, const struct ps_parameter *b)
{
    ck_assert(same_blocks(a->values, b->values));
    for (size_t i = 0; i < ps_parameter_state_count(a); i++)
        ck_assert(same_blocks(a->states[i], b->states[i]));
    ck_assert_uint_eq(a->version, b->version);
    ck_assert_uint_eq(a->step, b->step);
}
