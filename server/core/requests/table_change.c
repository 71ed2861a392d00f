/* SPDX-License-Identifier: Apache-2.0 */
/* What a request and its record have in common. Sums of the service follow the table: its bytes,
 * and how positions and versions add up (ps_service_check). */
#include "server/core/requests/table_change.h"

#include "base/assert.h"
#include "server/core/tables/row_table.h"
#include "server/core/update/parameter_rows.h"

#include <string.h>

/* The caller has looked: two of one name would be one that loses the other's pushes. Before the
 * record has its place in the journal, since the table may want memory. */
enum ps_status ps_table_define(struct ps_service *service, struct ps_parameter *parameter,
                               struct ps_error *error)
{
    struct ps_parameter *replaced = NULL;
    PS_ASSERT(ps_parameter_table_find(&service->table, parameter->spec->name) == NULL);
    enum ps_status status = ps_parameter_table_insert(&service->table, parameter, &replaced);
    PS_ASSERT(replaced == NULL);
    if (status != PS_OK)
        return ps_fail(error, status, "no memory for another parameter");
    return PS_OK;
}

/* In the same cut as the record's place. Nobody has seen the parameter yet, so that its spec may
 * still be written to. */
void ps_table_defined(struct ps_service *service, struct ps_parameter *parameter, uint64_t position)
{
    PS_ASSERT(position > 0 && parameter->version == 0);
    PS_ASSERT(parameter->spec->birth == PS_BIRTH_TO_COME);
    PS_ASSERT(service->bytes_used >= service->table.host_bytes);
    parameter->spec->birth = position;
    service->position_at_begin++;
    service->table_changes++;
    ps_service_count_table(service);
}

/* As if it had never been there. Its bytes stay reserved: they are the caller's to give back. */
void ps_table_undefine(struct ps_service *service, struct ps_parameter *parameter)
{
    struct ps_parameter *removed =
        ps_parameter_table_remove(&service->table, parameter->spec->name);
    PS_ASSERT(removed == parameter);
    PS_ASSERT(removed->spec->birth == PS_BIRTH_TO_COME);
}

/* Positions stay, while the versions of the parameter leave the sum. Versions that readers hold are
 * found by the spec: those of the next parameter of the name have another. */
struct ps_parameter *ps_table_drop(struct ps_service *service, struct ps_parameter *parameter)
{
    struct ps_bytes name = parameter->spec->name;
    uint64_t bytes = ps_parameter_host_bytes(parameter);
    PS_ASSERT(service->bytes_used >= bytes);
    struct ps_parameter *removed = ps_parameter_table_remove(&service->table, name);
    PS_ASSERT(removed == parameter);
    /* The position of the drop itself, and of the pushes, which count as versions no more. */
    service->bytes_used -= bytes;
    service->position_at_begin += 1 + removed->version;
    service->table_changes++;
    ps_gauge_add(service->metrics.round_held_bytes, -(double)ps_parameter_held_bytes(removed));
    /* Who sends a range more of such a push is told that there is no such parameter. */
    ps_staging_drop_pushes(&service->staging, name);
    ps_sessions_drop_name(&service->sessions, name);
    ps_service_count_table(service);
    return removed;
}

/* Where rows do not go by themselves as they did, what was due under the former settings is not. */
static void follow_expiry(struct ps_parameter *parameter, const struct ps_parameter_spec *former)
{
    const struct ps_table_settings *before = &former->settings.table;
    const struct ps_table_settings *now = &parameter->spec->settings.table;
    bool is_by_others = strncmp(before->clocks, now->clocks, sizeof now->clocks) != 0;
    PS_ASSERT(before->width == now->width && parameter->expiry != NULL);
    if (before->expire_ms != now->expire_ms || before->expire_clocks != now->expire_clocks ||
        is_by_others)
        ps_parameter_rows_forget_due(parameter);
    /* Clocks that stand far ahead of the former ones would make all rows old at once. */
    if (is_by_others)
        parameter->expiry->by_clock = (struct ps_row_ages){0};
}

/* A configuration counts with the parameter's bytes where that is small: the sum follows. */
struct ps_parameter_spec *ps_table_configure(struct ps_service *service,
                                             struct ps_parameter *parameter,
                                             struct ps_parameter_spec *spec,
                                             struct ps_contributions *rounds)
{
    /* Asked before the exchange, as the table counts. */
    uint64_t before = ps_parameter_host_bytes(parameter);
    struct ps_parameter_spec *former =
        ps_parameter_table_configure(&service->table, parameter, spec);
    if (parameter->rows != NULL)
        follow_expiry(parameter, former);
    /* The change was looked at before it had its place (parameter_change.c): it fits. With the cut
     * held alone no push is at work, so that each push goes by one limit from its look to its
     * end. */
    if (parameter->rows != NULL &&
        ps_row_table_configure(parameter->rows, &spec->settings.table, NULL) != PS_OK)
        PS_ASSERT(0 && "settings that a table cannot take over");
    /* Behind the exchange of specs, by which the table counts what both may take. */
    ps_parameter_take_rounds(parameter, rounds);
    PS_ASSERT((rounds != NULL) == (spec->settings.rounds.workers > 0));
    PS_ASSERT(service->bytes_used >= before);
    PS_ASSERT(former != spec && parameter->spec == spec);
    service->bytes_used = service->bytes_used - before + ps_parameter_host_bytes(parameter);
    /* The record has a position, and makes no version. */
    service->position_at_begin++;
    ps_service_count_table(service);
    return former;
}

/* Another number for each birth: multiplying by an odd number and adding shifted halves keeps
 * different births apart, and life 0 means "none". */
struct ps_chain ps_service_chain_of(const struct ps_service *service,
                                    const struct ps_parameter_spec *spec)
{
    struct ps_chain chain = service->chain;
    if (spec->birth == 0)
        return chain;
    PS_ASSERT(chain.life != 0);
    uint64_t mixed = spec->birth * UINT64_C(0x9e3779b97f4a7c15);
    chain.life ^= mixed ^ mixed >> 32;
    if (chain.life == 0)
        chain.life = service->chain.life;
    return chain;
}
