/* SPDX-License-Identifier: Apache-2.0 */
/* What is given to the writer, before it touches the disk. */
#include "checkpoint/parameter_check.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/header_format.h"

#include <string.h>

static void check_sizes(const struct ps_checkpoint_parameter *parameter);
static enum ps_status check_name(struct ps_bytes name, struct ps_error *error);

/* Two kinds of checks. What the service guarantees (sizes that fit, numbers of states) asserts.
 * What came from clients and operators (names, configurations, the job) is refused: nothing may be
 * written that the reader would not accept, since that would be found out only at the next
 * recovery. */
enum ps_status ps_checkpoint_check_parameters(const struct ps_checkpoint_facts *facts,
                                              const struct ps_checkpoint_parameter *parameters,
                                              size_t count, struct ps_error *error)
{
    PS_ASSERT(memchr(facts->uuid, '\0', sizeof facts->uuid) != NULL);
    PS_ASSERT(ps_checkpoint_uuid_valid(facts->uuid));
    bool has_base = facts->base != NULL && facts->base[0] != '\0';
    PS_ASSERT(!has_base || ps_checkpoint_uuid_valid(facts->base));
    if (!ps_utf8_valid(ps_bytes_of_text(facts->job)))
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: the job's name is not UTF-8");
    for (size_t i = 0; i < count; i++) {
        const struct ps_checkpoint_parameter *parameter = &parameters[i];
        /* Whoever writes a whole checkpoint says nothing of a base; a zeroed parameter is whole. */
        PS_ASSERT(has_base || parameter->carry == PS_CARRY_WHOLE);
        check_sizes(parameter);
        PS_TRY(check_name(parameter->name, error));
        if (parameter->config.size > PS_CONFIG_BYTES_MAX)
            return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: a configuration of %zu bytes",
                           parameter->config.size);
    }
    return PS_OK;
}

/* The views of everything that is not given by a source must have just the bytes that the header
 * will say. */
static void check_sizes(const struct ps_checkpoint_parameter *parameter)
{
    PS_ASSERT(parameter->state_count <= PS_STATES_MAX);
    PS_ASSERT(parameter->carry != PS_CARRY_ROWS || parameter->is_table);
    PS_ASSERT(parameter->carry == PS_CARRY_ROWS || parameter->removed.size == 0);
    PS_ASSERT(parameter->removed.size % sizeof(uint64_t) == 0);
    /* Of what the base has nothing is written, and no view is looked at. */
    if (parameter->carry == PS_CARRY_AS_BASE)
        return;
    if (parameter->is_table) {
        /* The division keeps every product below within 64 bits. */
        PS_ASSERT(parameter->width > 0 && parameter->rows <= UINT64_MAX / 8 / parameter->width);
        PS_ASSERT(parameter->count == parameter->rows * parameter->width);
    }
    if (parameter->source.read != NULL)
        return;
    PS_ASSERT(parameter->count <= UINT64_MAX / 8);
    for (uint32_t array = 0; array < ps_array_count(parameter); array++)
        PS_ASSERT(ps_array_view(parameter, array).size == ps_array_bytes(parameter, array));
}

/* Refuses what a safetensors file could not hold under this name. Reserved names are those of our
 * own entries in the header, which a parameter must not replace. */
static enum ps_status check_name(struct ps_bytes name, struct ps_error *error)
{
    if (name.size == 0 || name.size > PS_NAME_BYTES_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: a parameter's name has %zu bytes",
                       name.size);
    if (memchr(name.data, '\0', name.size) != NULL || !ps_utf8_valid(name))
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: a parameter's name is not UTF-8 text");
    if (ps_header_name_reserved(name))
        return ps_fail(error, PS_ERR_BAD_INPUT, "checkpoint: the parameter name %.*s is reserved",
                       (int)name.size, (const char *)name.data);
    return PS_OK;
}
