/* SPDX-License-Identifier: Apache-2.0 */
/* What never changes about a parameter: its name, type, length and optimizer. It is shared by the
 * parameter and by everything that holds one of its versions (a pull being sent, a snapshot).
 *
 * Threads:  immutable after create; references are counted atomically, from any thread.
 * Blocking: never.
 * Errors:   NULL when memory is refused.
 * Memory:   one allocation, given back with the last reference.
 */
#ifndef PS_SERVER_CORE_PARAMETER_SPEC_H
#define PS_SERVER_CORE_PARAMETER_SPEC_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "optimizer/settings.h"
#include "server/core/values/block_source.h"

#include <stdatomic.h>

struct ps_parameter_spec {
    _Atomic uint32_t references;
    const struct ps_allocator *memory; /* borrowed; outlives this */
    /* Of whole blocks; borrowed, outlives this. NULL, as create leaves it: `memory`. */
    const struct ps_block_source *block_source;
    /* Lends threads to large updates, if it has a run; borrowed, outlives the last push. NULL, as
     * create leaves it: whoever pushes is alone. */
    const struct ps_crew *crew;
    struct ps_bytes name;   /* a NUL follows it */
    struct ps_bytes config; /* serialized OptimizerConfig, as it came */
    enum ps_dtype dtype;
    uint64_t count;         /* elements; never 0 */
    struct ps_shape *shape; /* owned; NULL, as create leaves it: none is given */
    /* Most that it takes of a checkpoint's header. 0, as create leaves it: not counted, as for what
     * was loaded from a checkpoint, which has held it. */
    uint64_t header_bytes;
    /* Part of the random counter of stochastic rounding. The hash of the name, so that it depends
     * neither on the order of InitParam calls nor on the server. */
    uint64_t id;
    struct ps_optimizer_settings settings;
};

/* Returns a spec with one reference; end it with ps_parameter_spec_release.
 *
 * name, config, settings   borrowed; copied
 */
struct ps_parameter_spec *ps_parameter_spec_create(const struct ps_allocator *memory,
                                                   struct ps_bytes name, enum ps_dtype dtype,
                                                   uint64_t count, struct ps_bytes config,
                                                   const struct ps_optimizer_settings *settings);

/* Gives it a shape that ps_shape_check has taken; before anybody else has the spec.
 * PS_ERR_NO_MEMORY */
PS_MUST_USE enum ps_status ps_parameter_spec_set_shape(struct ps_parameter_spec *spec,
                                                       const struct ps_shape *shape,
                                                       struct ps_error *error);

/* Its shape, perhaps one that is not given; borrowed from the spec. */
const struct ps_shape *ps_parameter_spec_shape(const struct ps_parameter_spec *spec);

/* One more reference; returns `spec`. */
struct ps_parameter_spec *ps_parameter_spec_acquire(struct ps_parameter_spec *spec);
void ps_parameter_spec_release(struct ps_parameter_spec *spec);

/* Bytes of the values, and of each state array. */
size_t ps_parameter_spec_bytes(const struct ps_parameter_spec *spec);

/* The type that a gradient must have: the parameter's own, or the signed twin of an unsigned
 * parameter under integer SGD (unless its configuration says otherwise). */
enum ps_dtype ps_parameter_spec_gradient(const struct ps_parameter_spec *spec);

#endif
