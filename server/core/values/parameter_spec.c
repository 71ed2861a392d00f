/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a parameter that never changes, counted by reference: a pull that is being sent, a
 * snapshot and a hold each need the name and the type after the parameter itself was dropped with
 * its shard. */
#include "server/core/values/parameter_spec.h"

#include "base/assert.h"
#include "base/hash.h"

#include <string.h>

static struct ps_parameter_spec *create(const struct ps_allocator *memory, struct ps_bytes name,
                                        struct ps_bytes config);
static struct ps_bytes place_bytes(uint8_t *destination, struct ps_bytes bytes);

struct ps_parameter_spec *ps_parameter_spec_create(const struct ps_allocator *memory,
                                                   struct ps_bytes name, enum ps_dtype dtype,
                                                   uint64_t count, struct ps_bytes config,
                                                   const struct ps_optimizer_settings *settings)
{
    PS_ASSERT(count > 0);
    PS_ASSERT(dtype < PS_DTYPE_COUNT);
    /* What is set here is the same in every spec of the parameter, but for the settings. */
    struct ps_parameter_spec *spec = create(memory, name, config);
    if (spec == NULL)
        return NULL;
    spec->dtype = dtype;
    spec->count = count;
    /* A loaded parameter gets the id of its file instead, so that its random numbers go on. */
    spec->id = ps_hash_fnv1a32(name);
    spec->settings = *settings;
    return spec;
}

/* Everything but the configuration stays. Each holds the first and none its predecessor, so that a
 * parameter that is configured again and again keeps two. The first is kept since who defines the
 * parameter once more in the same words means this one, and since its address stands for the
 * parameter, whatever the configuration. */
struct ps_parameter_spec *ps_parameter_spec_configured(struct ps_parameter_spec *spec,
                                                       struct ps_bytes config,
                                                       const struct ps_optimizer_settings *settings)
{
    PS_ASSERT(spec->settings.rule == settings->rule);
    struct ps_parameter_spec *other = create(spec->memory, spec->name, config);
    if (other == NULL)
        return NULL;
    /* Never a chain: the first of a configured one is the first of all. */
    other->first = ps_parameter_spec_acquire(spec->first != NULL ? spec->first : spec);
    other->block_source = spec->block_source;
    other->crew = spec->crew;
    other->touch_ahead = spec->touch_ahead;
    other->row_room = spec->row_room;
    other->row_device = spec->row_device;
    other->shard = spec->shard;
    other->shard_count = spec->shard_count;
    other->dtype = spec->dtype;
    other->count = spec->count;
    other->header_bytes = spec->header_bytes;
    other->id = spec->id;
    other->birth = spec->birth;
    other->settings = *settings;
    /* A shape of its own: each spec gives back what it has. */
    if (spec->shape == NULL)
        return other;
    other->shape = ps_plain(other->memory, sizeof *other->shape);
    if (other->shape == NULL) {
        ps_parameter_spec_release(other);
        return NULL;
    }
    *other->shape = *spec->shape;
    return other;
}

/* One allocation with the texts behind the struct, so that one release ends it and nothing in it
 * can outlive the rest. The one reference is the caller's. */
static struct ps_parameter_spec *create(const struct ps_allocator *memory, struct ps_bytes name,
                                        struct ps_bytes config)
{
    PS_ASSERT(name.size > 0);
    size_t text_offset = sizeof(struct ps_parameter_spec);
    struct ps_parameter_spec *spec =
        ps_plain(memory, text_offset + name.size + 1 + config.size + 1);
    if (spec == NULL)
        return NULL;
    uint8_t *text = (uint8_t *)spec + text_offset;
    *spec = (struct ps_parameter_spec){.memory = memory};
    atomic_init(&spec->references, 1);
    /* All else is zero, as callers expect of what they do not set. */
    spec->name = place_bytes(text, name);
    spec->config = place_bytes(text + name.size + 1, config);
    return spec;
}

/* Of one that was never configured it is the spec itself. */
const struct ps_parameter_spec *ps_parameter_spec_first(const struct ps_parameter_spec *spec)
{
    return spec->first != NULL ? spec->first : spec;
}

/* Addresses and not names: a name may be dropped and defined again, or initialised in another life
 * of the shard, while a reader still holds what it stood for. The first lives as long as any that
 * was made of it, so that its address is nobody else's. */
bool ps_parameter_spec_is_same(const struct ps_parameter_spec *one,
                               const struct ps_parameter_spec *other)
{
    return ps_parameter_spec_first(one) == ps_parameter_spec_first(other);
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
    /* Readers of a table learn its width by its shape, whoever made it. */
    if (ps_parameter_spec_is_table(spec))
        settled = (struct ps_shape){.is_given = true, .rank = 1, .lengths = {spec->count}};
    else
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
    struct ps_parameter_spec *first = spec->first;
    ps_release(spec->memory, spec->shape);
    ps_release(spec->memory, spec);
    /* Of depth one: the first has none. */
    ps_parameter_spec_release(first);
}

/* One place says what a checkpoint keeps of a parameter: the header is measured by this row before
 * the parameter comes, and written by it as long as the parameter is there. How many rows a table
 * has is said by whoever holds them. */
struct ps_checkpoint_parameter ps_parameter_spec_row(const struct ps_parameter_spec *spec)
{
    PS_ASSERT(spec->count > 0);
    bool is_table = ps_parameter_spec_is_table(spec);
    /* Of width 1 no file says it: a row would else differ from the one that its file gives back. */
    bool is_one = spec->settings.adagrad_row_wise && spec->settings.table.width > 1;
    return (struct ps_checkpoint_parameter){.name = spec->name,
                                            .dtype = spec->dtype,
                                            .is_table = is_table,
                                            .state_is_one = {is_one},
                                            .width = spec->settings.table.width,
                                            .count = is_table ? 0 : spec->count,
                                            .shape = is_table ? (struct ps_shape){0}
                                                              : *ps_parameter_spec_shape(spec),
                                            .config = spec->config,
                                            .defined = ps_parameter_spec_first(spec)->config,
                                            .birth = spec->birth,
                                            .id = spec->id,
                                            .state_count = ps_rule_states(spec->settings.rule)};
}

/* The width is what makes a table of a parameter: a configuration without one has no table. Both
 * numbers are the same, so that whoever counts elements counts those of a row. */
bool ps_parameter_spec_is_table(const struct ps_parameter_spec *spec)
{
    PS_ASSERT(spec->settings.table.width == 0 || spec->settings.table.width == spec->count);
    return spec->settings.table.width > 0;
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
