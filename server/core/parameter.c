/* A parameter's life, and reading it. Updating it is in parameter_push.c. */
#include "server/core/parameter.h"

#include "base/assert.h"
#include "optimizer/optimizer.h"

static void fill_state(struct ps_blocks *blocks, double start);

struct ps_parameter *ps_parameter_create(struct ps_parameter_spec *spec)
{
    struct ps_parameter *parameter = ps_parameter_create_blank(spec);
    if (parameter == NULL)
        return NULL;
    for (uint32_t i = 0; i < ps_parameter_state_count(parameter); i++)
        fill_state(parameter->states[i], ps_optimizer_state_start(&spec->settings, i));
    return parameter;
}

struct ps_parameter *ps_parameter_create_blank(struct ps_parameter_spec *spec)
{
    struct ps_parameter *parameter = ps_zeroed(spec->memory, sizeof *parameter);
    if (parameter == NULL)
        return NULL;
    ps_mutex_init(&parameter->lock, PS_RANK_PARAMETER);
    parameter->spec = ps_parameter_spec_acquire(spec);

    parameter->values = ps_blocks_create(spec);
    if (parameter->values == NULL)
        goto fail;
    for (uint32_t i = 0; i < ps_parameter_state_count(parameter); i++) {
        parameter->states[i] = ps_blocks_create(spec);
        if (parameter->states[i] == NULL)
            goto fail;
    }
    return parameter;

fail:
    ps_parameter_destroy(parameter);
    return NULL;
}

static void fill_state(struct ps_blocks *blocks, double start)
{
    enum ps_dtype dtype = blocks->spec->dtype;
    for (size_t i = 0; i < blocks->block_count; i++)
        ps_optimizer_fill(dtype, start, ps_blocks_write(blocks, i, 0),
                          blocks->pieces[i].size / ps_dtype_size(dtype));
}

void ps_parameter_destroy(struct ps_parameter *parameter)
{
    if (parameter == NULL)
        return;
    const struct ps_allocator *memory = parameter->spec->memory;
    ps_blocks_release(parameter->values);
    for (size_t i = 0; i < PS_STATES_MAX; i++)
        ps_blocks_release(parameter->states[i]);
    ps_mutex_fini(&parameter->lock);
    ps_parameter_spec_release(parameter->spec);
    ps_release(memory, parameter);
}

void ps_parameter_set(struct ps_parameter *parameter, struct ps_view content)
{
    struct ps_blocks *values = parameter->values;
    PS_ASSERT(content.size == values->size);
    size_t offset = 0;
    for (size_t i = 0; i < values->block_count; i++) {
        ps_view_copy(content, offset, ps_blocks_write(values, i, 0), values->pieces[i].size);
        offset += values->pieces[i].size;
    }
}

struct ps_blocks *ps_parameter_hold_values(struct ps_parameter *parameter, uint64_t *version)
{
    ps_mutex_lock(&parameter->lock);
    struct ps_blocks *values = ps_blocks_acquire(parameter->values);
    *version = parameter->version;
    ps_mutex_unlock(&parameter->lock);
    return values;
}

void ps_parameter_hold(struct ps_parameter *parameter, struct ps_parameter_version *held)
{
    *held = (struct ps_parameter_version){0};
    ps_mutex_lock(&parameter->lock);
    held->spec = ps_parameter_spec_acquire(parameter->spec);
    held->values = ps_blocks_acquire(parameter->values);
    for (uint32_t i = 0; i < ps_parameter_state_count(parameter); i++)
        held->states[i] = ps_blocks_acquire(parameter->states[i]);
    held->version = parameter->version;
    held->step = parameter->step;
    ps_mutex_unlock(&parameter->lock);
}

void ps_parameter_version_release(struct ps_parameter_version *held)
{
    ps_blocks_release(held->values);
    for (size_t i = 0; i < PS_STATES_MAX; i++)
        ps_blocks_release(held->states[i]);
    ps_parameter_spec_release(held->spec);
    *held = (struct ps_parameter_version){0};
}

uint32_t ps_parameter_state_count(const struct ps_parameter *parameter)
{
    return ps_rule_states(parameter->spec->settings.rule);
}

void ps_parameter_check(struct ps_parameter *parameter)
{
    ps_mutex_lock(&parameter->lock);
    const struct ps_parameter_spec *spec = parameter->spec;
    PS_ASSERT(atomic_load(&parameter->spec->references) > 0);
    PS_ASSERT(spec->count > 0);
    PS_ASSERT(spec->name.size > 0);
    PS_ASSERT(parameter->step <= parameter->version);
    PS_ASSERT(parameter->values->size == ps_parameter_spec_bytes(spec));
    PS_ASSERT(parameter->values->spec == spec);
    for (uint32_t i = 0; i < PS_STATES_MAX; i++) {
        bool expected = i < ps_parameter_state_count(parameter);
        PS_ASSERT((parameter->states[i] != NULL) == expected);
        PS_ASSERT(!expected || parameter->states[i]->size == parameter->values->size);
    }
    ps_mutex_unlock(&parameter->lock);
}
