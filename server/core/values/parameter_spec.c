/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a parameter that never changes, counted by reference: a pull that is being sent, a
 * snapshot and a hold each need the name and the type after the parameter itself was dropped with
 * its shard. */
#include "server/core/values/parameter_spec.h"

#include "base/assert.h"
#include "base/hash.h"

#include <string.h>

static struct ps_bytes place_bytes(uint8_t *destination, struct ps_bytes bytes);

/* One allocation with the texts behind the struct, so that one release ends it and nothing in it
 * can outlive the rest. */
struct ps_parameter_spec *ps_parameter_spec_create(const struct ps_allocator *memory,
                                                   struct ps_bytes name, enum ps_dtype dtype,
                                                   uint64_t count, struct ps_bytes config,
                                                   const struct ps_optimizer_settings *settings)
{
    PS_ASSERT(name.size > 0);
    PS_ASSERT(count > 0);
    PS_ASSERT(dtype < PS_DTYPE_COUNT);
    size_t text_offset = sizeof(struct ps_parameter_spec);
    struct ps_parameter_spec *spec =
        ps_plain(memory, text_offset + name.size + 1 + config.size + 1);
    if (spec == NULL)
        return NULL;
    uint8_t *text = (uint8_t *)spec + text_offset;

    /* The caller's. */
    atomic_init(&spec->references, 1);
    spec->memory = memory;
    spec->block_source = NULL;
    spec->crew = NULL;
    spec->name = place_bytes(text, name);
    spec->config = place_bytes(text + name.size + 1, config);
    spec->dtype = dtype;
    spec->count = count;
    spec->shape = NULL;
    spec->header_bytes = 0;
    /* A loaded parameter gets the id of its file instead, so that its random numbers go on. */
    spec->id = ps_hash_fnv1a32(name);
    spec->settings = *settings;
    return spec;
}

/* The NUL behind the bytes is for texts of errors, which print names; sizes never count it. */
static struct ps_bytes place_bytes(uint8_t *destination, struct ps_bytes bytes)
{
    PS_ASSERT(destination != NULL);
    if (bytes.size > 0)
        memcpy(destination, bytes.data, bytes.size);
    destination[bytes.size] = 0;
    return (struct ps_bytes){destination, bytes.size};
}

/* Beside the spec, since most small parameters have one dimension: a million of them would each
 * have room for sixteen. */
enum ps_status ps_parameter_spec_set_shape(struct ps_parameter_spec *spec,
                                           const struct ps_shape *shape, struct ps_error *error)
{
    struct ps_shape settled = *shape;
    PS_ASSERT(spec->shape == NULL);
    ps_shape_settle(&settled, spec->count);
    if (!settled.is_given)
        return PS_OK;
    spec->shape = ps_plain(spec->memory, sizeof settled);
    if (spec->shape == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a shape");
    *spec->shape = settled;
    return PS_OK;
}

const struct ps_shape *ps_parameter_spec_shape(const struct ps_parameter_spec *spec)
{
    static const struct ps_shape none = {0};
    return spec->shape != NULL ? spec->shape : &none;
}

/* From any thread that has a reference. */
struct ps_parameter_spec *ps_parameter_spec_acquire(struct ps_parameter_spec *spec)
{
    /* Relaxed: whoever acquires has a reference already, through which it came to know the spec. */
    uint32_t before = atomic_fetch_add_explicit(&spec->references, 1, memory_order_relaxed);
    PS_ASSERT(before > 0);
    return spec;
}

void ps_parameter_spec_release(struct ps_parameter_spec *spec)
{
    if (spec == NULL)
        return;
    uint32_t before = atomic_fetch_sub_explicit(&spec->references, 1, memory_order_acq_rel);
    PS_ASSERT(before > 0);
    /* The release of every other holder comes before this one's acquire: no byte is read after the
     * free. */
    if (before > 1)
        return;
    ps_release(spec->memory, spec->shape);
    ps_release(spec->memory, spec);
}

size_t ps_parameter_spec_bytes(const struct ps_parameter_spec *spec)
{
    PS_ASSERT(spec->count > 0 && spec->count <= SIZE_MAX / ps_dtype_size(spec->dtype));
    return (size_t)spec->count * ps_dtype_size(spec->dtype);
}

/* Integer SGD subtracts, so that a gradient of an unsigned parameter is a signed number unless its
 * configuration says otherwise; all other rules take gradients of the parameter's own type. */
enum ps_dtype ps_parameter_spec_gradient(const struct ps_parameter_spec *spec)
{
    PS_ASSERT(spec->dtype < PS_DTYPE_COUNT);
    bool own_type = spec->settings.rule != PS_RULE_SGD || spec->settings.gradient_unsigned;
    return own_type ? spec->dtype : ps_dtype_signed_twin(spec->dtype);
}
