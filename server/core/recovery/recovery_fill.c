/* SPDX-License-Identifier: Apache-2.0 */
/* From a checkpoint back to a shard that is RECOVERING. The parameters are built beside the service
 * and put in at once, when every checksum was right: a shard is never half of one checkpoint and
 * half of another, and a failure has nothing to take back. A checkpoint is input from outside, so
 * that whatever is wrong with it is a status, and only what this program itself promised is
 * asserted. */
#include "server/core/recovery/recovery_fill.h"

#include "base/assert.h"
#include "server/core/recovery/recovery_arrays.h"
#include "server/core/requests/service_state.h"
#include "server/core/update/parameter_settings.h"

#include <inttypes.h>

static enum ps_status check_shard(const struct ps_service *service,
                                  const struct ps_checkpoint_facts *facts, struct ps_error *error);
static enum ps_status load_table(const struct ps_service *service,
                                 struct ps_checkpoint_reader *reader, const struct ps_crew *crew,
                                 struct ps_parameter_table *table, uint64_t *versions,
                                 struct ps_error *error);
static enum ps_status build_table(const struct ps_service *service,
                                  struct ps_checkpoint_reader *reader,
                                  struct ps_parameter_table *table,
                                  struct ps_parameter **parameters, struct ps_error *error);
static enum ps_status build_parameter(const struct ps_service *service,
                                      const struct ps_checkpoint_parameter *row,
                                      struct ps_parameter_table *table, struct ps_parameter **built,
                                      struct ps_error *error);
static enum ps_status check_row(const struct ps_checkpoint_parameter *row,
                                const struct ps_allocator *memory,
                                struct ps_optimizer_settings *settings, struct ps_error *error);
static enum ps_status build(const struct ps_service *service,
                            const struct ps_checkpoint_parameter *row,
                            const struct ps_optimizer_settings *settings, uint64_t bytes_left,
                            struct ps_parameter **built, struct ps_error *error);
static enum ps_status build_at(const struct ps_checkpoint_parameter *row,
                               struct ps_parameter_spec *spec, struct ps_resident *resident,
                               uint64_t bytes_left, struct ps_parameter **built,
                               struct ps_error *error);
static void begin_recovering(struct ps_service *service, const struct ps_parameter_table *table,
                             uint64_t position, uint64_t versions);

/* Nothing of the service changes until everything was read and verified: a checkpoint that turns
 * out to be damaged at its last byte leaves a shard that is as empty as before, and the next
 * candidate is tried. */
enum ps_status ps_recovery_fill(struct ps_service *service, struct ps_checkpoint_reader *reader,
                                const struct ps_crew *crew, struct ps_error *error)
{
    const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    PS_TRY(check_shard(service, facts, error));

    struct ps_parameter_table table;
    uint64_t versions = 0;
    /* On the stack until it is whole; then its contents move into the service. */
    ps_parameter_table_init(&table, service->memory);
    enum ps_status status = load_table(service, reader, crew, &table, &versions, error);
    /* Nobody else looks at sessions while the shard is STARTING. */
    if (status == PS_OK)
        status = ps_sessions_decode(&service->sessions, facts->sessions, facts->position,
                                    facts->unix_ns / 1000, error);
    if (status != PS_OK) {
        ps_parameter_table_fini(&table);
        return status;
    }
    begin_recovering(service, &table, facts->position, versions);
    return PS_OK;
}

/* Parameters are placed by the number of shards: state of another shard would never be asked for,
 * and what belongs here would be missing. */
static enum ps_status check_shard(const struct ps_service *service,
                                  const struct ps_checkpoint_facts *facts, struct ps_error *error)
{
    PS_ASSERT(service->shard_count > 0);
    if (facts->index == service->index && facts->shard_count == service->shard_count)
        return PS_OK;
    return ps_fail(error, PS_ERR_UNSUPPORTED,
                   "the checkpoint is of shard %" PRIu32 " of %" PRIu32
                   ", but this server owns shard %" PRIu32 " of %" PRIu32,
                   facts->index, facts->shard_count, service->index, service->shard_count);
}

/* Every parameter first, and then the bytes of all of them: those may be read by many threads. */
static enum ps_status load_table(const struct ps_service *service,
                                 struct ps_checkpoint_reader *reader, const struct ps_crew *crew,
                                 struct ps_parameter_table *table, uint64_t *versions,
                                 struct ps_error *error)
{
    PS_ASSERT(table->count == 0);
    size_t count = ps_checkpoint_parameter_count(reader);
    struct ps_parameter **parameters = ps_zeroed_array(table->memory, count, sizeof *parameters);
    if (parameters == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu parameters", count);
    enum ps_status status = build_table(service, reader, table, parameters, error);
    if (status == PS_OK)
        status = ps_recovery_fill_arrays(reader, parameters, crew, table->memory, error);
    ps_release(table->memory, parameters);
    /* The sum of all versions, which the position is compared with. */
    for (size_t i = 0; i < count; i++)
        *versions += ps_checkpoint_parameter(reader, i)->version;
    return status;
}

/* The table owns them; `parameters` has them in the reader's order. Memory for all of them is taken
 * here, from what the limit leaves: a shard that does not fit is refused before a byte of it was
 * read. */
static enum ps_status build_table(const struct ps_service *service,
                                  struct ps_checkpoint_reader *reader,
                                  struct ps_parameter_table *table,
                                  struct ps_parameter **parameters, struct ps_error *error)
{
    PS_ASSERT(table->count == 0);
    size_t count = ps_checkpoint_parameter_count(reader);
    for (size_t i = 0; i < count; i++) {
        PS_TRY(build_parameter(service, ps_checkpoint_parameter(reader, i), table, &parameters[i],
                               error));
    }
    return PS_OK;
}

/* Two parameters of one name would be one that loses the other's pushes; no server writes such a
 * file, so it is damage and not a limit. */
static enum ps_status build_parameter(const struct ps_service *service,
                                      const struct ps_checkpoint_parameter *row,
                                      struct ps_parameter_table *table, struct ps_parameter **built,
                                      struct ps_error *error)
{
    PS_ASSERT(*built == NULL);
    PS_ASSERT(table->host_bytes <= service->bytes_max);
    uint64_t bytes_left = service->bytes_max - table->host_bytes;
    struct ps_optimizer_settings settings;
    PS_TRY(check_row(row, table->memory, &settings, error));
    /* Before anything is allocated. */
    if (ps_parameter_table_find(table, row->name) != NULL)
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: two parameters have one name");
    struct ps_parameter *parameter = NULL;
    PS_TRY(build(service, row, &settings, bytes_left, &parameter, error));
    /* Looked up above, so that nothing is replaced; the table would otherwise hand the parameter of
     * that name back. */
    struct ps_parameter *replaced = NULL;
    enum ps_status status = ps_parameter_table_insert(table, parameter, &replaced);
    PS_ASSERT(replaced == NULL);
    if (status != PS_OK) {
        ps_parameter_destroy(parameter);
        return ps_fail(error, status, "no memory for another parameter");
    }
    *built = parameter;
    return PS_OK;
}

/* The same demands as InitParam's: a file may come from anywhere. Each condition has its own text
 * with the name: an operator has to know which tensor of a file that came from elsewhere is
 * refused, and why. */
static enum ps_status check_row(const struct ps_checkpoint_parameter *row,
                                const struct ps_allocator *memory,
                                struct ps_optimizer_settings *settings, struct ps_error *error)
{
    PS_ASSERT(settings != NULL);
    struct ps_error reason = {0};
    if (ps_service_check_name(row->name, &reason) != PS_OK)
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: %.200s", reason.text);
    int name_size = row->name.size < 80 ? (int)row->name.size : 80;
    const char *name = (const char *)row->name.data;
    if ((uint32_t)row->dtype >= PS_DTYPE_COUNT)
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: Name: %.*s, an unknown element type",
                       name_size, name);
    /* Of the widest type, with all states: sizes that are computed from here on cannot overflow. */
    if (row->count == 0 || row->count > SIZE_MAX / 8 / (1 + PS_STATES_MAX))
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: Name: %.*s, %" PRIu64 " elements",
                       name_size, name, row->count);
    if (ps_shape_check(&row->shape, row->name, row->count, &reason) != PS_OK)
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: %.200s", reason.text);
    /* Steps are versions that were not skipped. */
    if (row->step > row->version)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "checkpoint: Name: %.*s, step %" PRIu64 " beyond version %" PRIu64,
                       name_size, name, row->step, row->version);

    /* The configuration is read anew by the program that is running: one that a later version
     * wrote, with a rule or a setting that is not known here, is refused and not guessed at. */
    enum ps_status status =
        ps_parameter_settings_read(row->config, row->dtype, memory, settings, &reason);
    if (status == PS_ERR_NO_MEMORY)
        return ps_fail(error, status, "%.200s", reason.text);
    if (status != PS_OK)
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: Name: %.*s, %.160s", name_size, name,
                       reason.text);
    /* An update would read a state that is not there, or leave one behind that no rule knows. */
    if (row->state_count != ps_rule_states(settings->rule))
        return ps_fail(error, PS_ERR_CORRUPT,
                       "checkpoint: Name: %.*s, %" PRIu32 " states, but %s keeps %" PRIu32,
                       name_size, name, row->state_count, ps_rule_name(settings->rule),
                       ps_rule_states(settings->rule));
    return PS_OK;
}

/* The device is asked first; a parameter that has no room there is one of the host, as at its
 * InitParam. */
static enum ps_status build(const struct ps_service *service,
                            const struct ps_checkpoint_parameter *row,
                            const struct ps_optimizer_settings *settings, uint64_t bytes_left,
                            struct ps_parameter **built, struct ps_error *error)
{
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        service->memory, row->name, row->dtype, row->count, row->config, settings);
    if (spec == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for another parameter");
    spec->block_source = service->block_source;
    /* Whoever lends threads to pushes lends them to this parameter, too; the pointer is to the
     * service's place, which may be filled in later. */
    spec->crew = &service->crew;
    /* The random numbers go on where they stopped, whatever made the id. */
    spec->id = row->id;
    PS_ASSERT(row->count > 0);
    /* Judged by check_row: of a range it is the whole's. */
    enum ps_status status = ps_parameter_spec_set_shape(spec, &row->shape, error);
    if (status != PS_OK) {
        ps_parameter_spec_release(spec);
        return status;
    }
    struct ps_resident resident;
    struct ps_error spilled = {0};
    /* Without a device every parameter is placed on the host, and that is not a failure. */
    status = ps_resident_place(service->device_store, spec, &resident, &spilled);
    if (status == PS_OK)
        status = build_at(row, spec, &resident, bytes_left, built, error);
    else
        (void)ps_fail(error, status, "%s", spilled.text);
    ps_resident_release(&resident);
    ps_parameter_spec_release(spec);
    return status;
}

/* On success `*resident` is the parameter's, and zeroed. The limit counts the memory of the host
 * only: a device has a budget of its own, which placing the parameter has asked already. */
static enum ps_status build_at(const struct ps_checkpoint_parameter *row,
                               struct ps_parameter_spec *spec, struct ps_resident *resident,
                               uint64_t bytes_left, struct ps_parameter **built,
                               struct ps_error *error)
{
    bool on_device = resident->store != NULL;
    PS_ASSERT(spec->count == row->count && row->step <= row->version);
    uint64_t array_bytes = ps_parameter_spec_bytes(spec);
    /* On a device there is one array on the host: the copy that pulls are answered from. */
    uint32_t array_count = on_device ? 1 : 1 + row->state_count;
    /* Divided, since the product may not fit into 64 bits. */
    if (array_bytes > bytes_left / array_count ||
        ps_parameter_spec_host_bytes(spec, array_count) > bytes_left)
        return ps_fail(error, PS_ERR_BUSY,
                       "memory limit: the checkpoint needs %" PRIu64 " bytes more, %" PRIu64
                       " are left (--memory-bytes)",
                       array_bytes * array_count, bytes_left);
    struct ps_parameter *parameter =
        on_device ? ps_parameter_create_resident(spec, resident) : ps_parameter_create_blank(spec);
    if (parameter == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a parameter of %" PRIu64 " bytes",
                       array_bytes);
    *resident = (struct ps_resident){0};
    parameter->version = row->version;
    parameter->step = row->step;
    *built = parameter;
    return PS_OK;
}

/* With the cut held alone, though nobody pushes: probes and metrics read the table from other
 * threads. The position is that of the file, which is more than its versions add up to where a
 * state was put together of what was whole: ps_service_check knows by `position_at_begin`. */
static void begin_recovering(struct ps_service *service, const struct ps_parameter_table *table,
                             uint64_t position, uint64_t versions)
{
    ps_rwlock_write(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    PS_ASSERT(service->table.count == 0);
    PS_ASSERT(table->host_bytes <= service->bytes_max);
    service->table = *table;
    service->bytes_used += table->host_bytes;
    service->position_at_begin = position - versions;
    ps_journal_queue_begin(&service->queue, position);
    ps_service_begin_chain(service);
    atomic_store(&service->phase, PS_PHASE_RECOVERING);
    ps_service_count_table(service);
    ps_rwlock_unlock(&service->cut);
}
