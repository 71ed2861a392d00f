/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of one shard by name.
 *
 * Threads:  none inside; the service's cut guards it.
 * Blocking: never.
 * Errors:   said at each function.
 * Memory:   the table owns its parameters.
 */
#ifndef PS_SERVER_CORE_PARAMETER_TABLE_H
#define PS_SERVER_CORE_PARAMETER_TABLE_H

#include "server/core/update/parameter.h"

struct ps_parameter_entry;

struct ps_parameter_table {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_parameter_entry *entries;
    size_t count;
    uint64_t value_bytes; /* of all parameters */
    uint64_t state_bytes;
    uint64_t host_bytes;   /* of the host's memory that they count for */
    size_t resident_count; /* how many live on a device */
    size_t expiring_count; /* how many are tables whose rows expire */
    uint64_t header_bytes; /* most that they take of a checkpoint's header, where it is counted */
};

void ps_parameter_table_init(struct ps_parameter_table *table, const struct ps_allocator *memory);

/* Destroys every parameter. */
void ps_parameter_table_fini(struct ps_parameter_table *table);

/* NULL when there is none of that name. */
struct ps_parameter *ps_parameter_table_find(const struct ps_parameter_table *table,
                                             struct ps_bytes name);

/* These will be looked up soon: a lookup waits for memory several times, one wait after the other,
 * but those of PS_EXPECTED_NAMES_MAX names can wait together. Changes nothing. */
void ps_parameter_table_expect(const struct ps_parameter_table *table, const struct ps_bytes *names,
                               size_t count);

/* Takes `parameter`. One of the same name that was there before is handed back in `*replaced`
 * (else NULL), for the caller to destroy. PS_ERR_NO_MEMORY: the table is as before. */
PS_MUST_USE enum ps_status ps_parameter_table_insert(struct ps_parameter_table *table,
                                                     struct ps_parameter *parameter,
                                                     struct ps_parameter **replaced);

/* Takes the parameter of that name out; the caller owns it then. NULL: there is none. */
struct ps_parameter *ps_parameter_table_remove(struct ps_parameter_table *table,
                                               struct ps_bytes name);

/* Gives a parameter of the table the spec that ps_parameter_spec_configured made of its own; takes
 * that reference and returns the former one, which the caller releases. */
struct ps_parameter_spec *ps_parameter_table_configure(struct ps_parameter_table *table,
                                                       struct ps_parameter *parameter,
                                                       struct ps_parameter_spec *spec);

/* In the order of insertion; NULL at the end. */
struct ps_parameter_entry *ps_parameter_table_first(const struct ps_parameter_table *table);
struct ps_parameter_entry *ps_parameter_table_next(const struct ps_parameter_entry *entry);
struct ps_parameter *ps_parameter_entry_parameter(const struct ps_parameter_entry *entry);

/* Asserts every invariant, also those of the parameters. */
void ps_parameter_table_check(const struct ps_parameter_table *table);

#endif
