/* SPDX-License-Identifier: Apache-2.0 */
/* What no push changes about a parameter: its name, type, length and optimizer. It is shared by the
 * parameter and by everything that holds one of its versions (a pull being sent, a snapshot). A
 * parameter that is configured anew gets another one, and whoever holds the former keeps that.
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
#include "checkpoint/checkpoint.h"
#include "optimizer/settings.h"
#include "server/core/values/block_source.h"
#include "server/core/values/row_room.h"

#include <stdatomic.h>

/* The birth of a parameter whose definition has no position yet. */
#define PS_BIRTH_TO_COME UINT64_MAX

struct ps_device_store;

struct ps_parameter_spec {
    _Atomic uint32_t references;
    const struct ps_allocator *memory; /* borrowed; outlives this */
    /* Of whole blocks; borrowed, outlives this. NULL, as create leaves it: `memory`. */
    const struct ps_block_source *block_source;
    /* Lends threads to large updates, if it has a run; borrowed, outlives the last push. NULL, as
     * create leaves it: whoever pushes is alone. */
    const struct ps_crew *crew;
    /* Touches memory that a table is about to grow into; borrowed, outlives the last hold. NULL, as
     * create leaves it: nobody does. */
    struct ps_touch_ahead *touch_ahead;
    /* What tables may take; borrowed, outlives this. NULL, as create leaves it: as much as there
     * is. */
    struct ps_row_room *row_room;
    /* The device on which rows of a table may have their bodies; borrowed, outlives the last hold.
     * NULL, as create leaves it: all is the host's. */
    struct ps_device_store *row_device;
    /* Whose keys a table has. 0 shards, as create leaves it: it has every key. */
    uint32_t shard;
    uint32_t shard_count;
    struct ps_bytes name;   /* a NUL follows it */
    struct ps_bytes config; /* serialized OptimizerConfig, as it came or was configured */
    enum ps_dtype dtype;
    uint64_t count;         /* elements, of a table those of one row; never 0 */
    struct ps_shape *shape; /* owned; NULL, as create leaves it: none is given */
    /* Most that it takes of a checkpoint's header. 0, as create leaves it: not counted, as for what
     * was loaded from a checkpoint, which has held it. */
    uint64_t header_bytes;
    /* Part of the random counter of stochastic rounding. The hash of the name, so that it depends
     * neither on the order of InitParam calls nor on the server. */
    uint64_t id;
    /* The position of its definition; 0: of InitParam. A name that is defined again has another. */
    uint64_t birth;
    /* A reference to the one that the parameter was made with; NULL: this is that one. */
    struct ps_parameter_spec *first;
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

/* Returns the spec that the same parameter has under another configuration, with one reference;
 * `spec` stays as it was. NULL when memory is refused.
 *
 * config, settings   borrowed; copied
 */
struct ps_parameter_spec *
ps_parameter_spec_configured(struct ps_parameter_spec *spec, struct ps_bytes config,
                             const struct ps_optimizer_settings *settings);

/* The one that the parameter was made with; borrowed from `spec`. */
const struct ps_parameter_spec *ps_parameter_spec_first(const struct ps_parameter_spec *spec);

/* Are both of one parameter, configured or not? */
bool ps_parameter_spec_is_same(const struct ps_parameter_spec *one,
                               const struct ps_parameter_spec *other);

/* Gives it a shape that ps_shape_check has taken; a table gets that of one row. Before anybody else
 * has the spec. PS_ERR_NO_MEMORY */
PS_MUST_USE enum ps_status ps_parameter_spec_set_shape(struct ps_parameter_spec *spec,
                                                       const struct ps_shape *shape,
                                                       struct ps_error *error);

/* Its shape, perhaps one that is not given; borrowed from the spec. */
const struct ps_shape *ps_parameter_spec_shape(const struct ps_parameter_spec *spec);

/* One more reference; returns `spec`. */
struct ps_parameter_spec *ps_parameter_spec_acquire(struct ps_parameter_spec *spec);
void ps_parameter_spec_release(struct ps_parameter_spec *spec);

/* Its row of a checkpoint, without what changes with pushes: version, step and arrays. Borrows from
 * the spec. */
struct ps_checkpoint_parameter ps_parameter_spec_row(const struct ps_parameter_spec *spec);

/* Is it a table (server/core/tables), whose elements are rows? */
bool ps_parameter_spec_is_table(const struct ps_parameter_spec *spec);

/* Bytes of the values, and of each state array; of a table, of one row. */
size_t ps_parameter_spec_bytes(const struct ps_parameter_spec *spec);

/* The type that a gradient must have: the parameter's own, or the signed twin of an unsigned
 * parameter under integer SGD (unless its configuration says otherwise). */
enum ps_dtype ps_parameter_spec_gradient(const struct ps_parameter_spec *spec);

#endif
