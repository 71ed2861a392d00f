/* SPDX-License-Identifier: Apache-2.0 */
/* From a checkpoint back to a shard that is RECOVERING. The parameters are built beside the service
 * and put in at once, when every checksum was right: a shard is never half of one checkpoint and
 * half of another, and a failure has nothing to take back. A checkpoint is input from outside, so
 * that whatever is wrong with it is a status, and only what this program itself promised is
 * asserted. */
#include "server/core/recovery/recovery_fill.h"

#include "base/assert.h"
#include "server/core/recovery/recovery_arrays.h"
#include "server/core/recovery/recovery_rows.h"
#include "server/core/recovery/recovery_sections.h"
#include "server/core/requests/parameter_build.h"
#include "server/core/requests/service_state.h"
#include "server/core/update/parameter_change.h"
#include "server/core/update/parameter_rows.h"
#include "server/core/update/parameter_settings.h"
#include "server/core/update/row_ages_text.h"

#include <inttypes.h>

static enum ps_status check_shard(const struct ps_service *service,
                                  const struct ps_checkpoint_facts *facts, struct ps_error *error);
static enum ps_status check_placement(const struct ps_service *service,
                                      const struct ps_checkpoint_facts *facts,
                                      struct ps_error *error);
static enum ps_status load_table(const struct ps_service *service,
                                 struct ps_checkpoint_reader *reader, const struct ps_crew *crew,
                                 struct ps_parameter_table *table, uint64_t *versions,
                                 struct ps_error *error);
static enum ps_status fill_rows(const struct ps_service *service,
                                struct ps_checkpoint_reader *reader, size_t i,
                                struct ps_parameter *parameter, const struct ps_crew *crew,
                                const struct ps_parameter_table *table, struct ps_error *error);
static void fill_ages(const struct ps_service *service, const struct ps_checkpoint_reader *reader,
                      size_t i, struct ps_parameter *parameter);
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
static enum ps_status make_spec(const struct ps_service *service,
                                const struct ps_checkpoint_parameter *row,
                                const struct ps_optimizer_settings *settings,
                                struct ps_parameter_spec **spec, struct ps_error *error);
static enum ps_status fail_row(const struct ps_checkpoint_parameter *row, enum ps_status status,
                               const struct ps_error *reason, struct ps_error *error);
static enum ps_status make_first(const struct ps_service *service,
                                 const struct ps_checkpoint_parameter *row, struct ps_bytes config,
                                 const struct ps_optimizer_settings *settings,
                                 struct ps_parameter_spec **made, struct ps_error *error);
static enum ps_status build_at(const struct ps_checkpoint_parameter *row,
                               struct ps_parameter_spec *spec, struct ps_resident *resident,
                               uint64_t bytes_left, struct ps_parameter **built,
                               struct ps_error *error);
static void begin_recovering(struct ps_service *service, const struct ps_parameter_table *table,
                             const struct ps_checkpoint_facts *facts, uint64_t versions);

/* Nothing of the service changes until everything was read and verified: a checkpoint that turns
 * out to be damaged at its last byte leaves a shard that is as empty as before, and the next
 * candidate is tried. */
enum ps_status ps_recovery_fill(struct ps_service *service, struct ps_checkpoint_reader *reader,
                                const struct ps_crew *crew, struct ps_error *error)
{
    const struct ps_checkpoint_facts *facts = ps_checkpoint_reader_facts(reader);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    PS_TRY(check_shard(service, facts, error));
    PS_TRY(check_placement(service, facts, error));

    struct ps_parameter_table table;
    uint64_t versions = 0;
    /* On the stack until it is whole; then its contents move into the service. */
    ps_parameter_table_init(&table, service->memory);
    enum ps_status status = load_table(service, reader, crew, &table, &versions, error);
    if (status == PS_OK)
        status = ps_recovery_fill_sections(service, &table, reader, error);
    /* Nobody else looks at sessions while the shard is STARTING. */
    if (status == PS_OK)
        status = ps_sessions_decode(&service->sessions, facts->sessions, facts->position,
                                    facts->unix_ns / 1000, error);
    if (status != PS_OK) {
        ps_parameter_table_fini(&table);
        ps_clocks_clear(&service->clocks);
        return status;
    }
    begin_recovering(service, &table, facts, versions);
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

/* Clients look for parameters by the job's number: those of another would never be found, and a
 * trainer would be told that its model does not exist. Somebody has put the folder of another job
 * here, or has deleted the key and initialised anew. A file without a number is of a time, or of a
 * client, that said none: then the classic rule holds, or nobody knows better. */
static enum ps_status check_placement(const struct ps_service *service,
                                      const struct ps_checkpoint_facts *facts,
                                      struct ps_error *error)
{
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    if (facts->placement == 0 || service->job_placement == 0 ||
        facts->placement == service->job_placement)
        return PS_OK;
    return ps_fail(error, PS_ERR_UNSUPPORTED,
                   "the checkpoint is of placement %" PRIu64 ", but the job's is %" PRIu64
                   " (/ps_placement)",
                   facts->placement, service->job_placement);
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
    for (size_t i = 0; status == PS_OK && i < count; i++)
        if (parameters[i]->rows != NULL)
            status = fill_rows(service, reader, i, parameters[i], crew, table, error);
    ps_release(table->memory, parameters);
    /* The sum of all versions, which the position is compared with. */
    for (size_t i = 0; i < count; i++)
        *versions += ps_checkpoint_parameter(reader, i)->version;
    return status;
}

/* What the rows are read into counts beside the parameters that are built, and beside the rows of
 * the tables before it. */
static enum ps_status fill_rows(const struct ps_service *service,
                                struct ps_checkpoint_reader *reader, size_t i,
                                struct ps_parameter *parameter, const struct ps_crew *crew,
                                const struct ps_parameter_table *table, struct ps_error *error)
{
    /* The service has no parameters yet, so that its own count says nothing of them. */
    uint64_t used = table->host_bytes + atomic_load(&service->row_room.bytes);
    PS_ASSERT(parameter->rows != NULL);
    uint64_t left = used < service->bytes_max ? service->bytes_max - used : 0;
    fill_ages(service, reader, i, parameter);
    return ps_recovery_fill_rows(reader, i, parameter, left, crew, table->memory, error);
}

/* Rows age on from where they were. Those that the journal behind the file has pushes to get later
 * versions than any that is known here: they begin with the first look of the shard that is ready,
 * and never seem older than they are. Nor do the others: what is not known of the time in between
 * does not count.
 *
 * What goes by it goes by a record, when the shard is ready. So two servers that load one file at
 * different times have the same rows until then, and the journal says which of them decided. */
static void fill_ages(const struct ps_service *service, const struct ps_checkpoint_reader *reader,
                      size_t i, struct ps_parameter *parameter)
{
    const struct ps_checkpoint_parameter *row = ps_checkpoint_parameter(reader, i);
    uint64_t span_ms = parameter->spec->settings.table.expire_ms;
    const struct ps_row_ages_read read = {
        .time = ps_service_row_time(service),
        .passed_ms = ps_row_ages_passed(span_ms, ps_checkpoint_reader_facts(reader)->unix_ns,
                                        ps_unix_ns(service->clock)),
        .version = row->version};
    PS_ASSERT(parameter->expiry != NULL && parameter->version == row->version);
    struct ps_error why = {.status = PS_OK};
    /* Older files have none, nor have tables whose rows stay. */
    if (row->ages.size == 0 ||
        ps_row_ages_text_read(row->ages, &read, parameter->expiry, &why) == PS_OK)
        return;
    /* The header's checksum was right: it is how another program says it. Nothing of the state is
     * in it, so that a file is not refused for it. */
    PS_LOG(service->log, PS_LOG_WARN, "loader",
           "rows begin to age anew: this program does not know how the checkpoint has their ages",
           PS_FIELD_TEXT("parameter", (const char *)row->name.data),
           PS_FIELD_TEXT("reason", why.text));
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
    struct ps_error reason = {0};
    /* A file that came from elsewhere may have the bounds of another number of shards: rows would
     * be where nobody looks for them. */
    if (row->is_table &&
        ps_parameter_rows_check_shards(&settings.table, service->shard_count, &reason) != PS_OK)
        return fail_row(row, PS_ERR_CORRUPT, &reason, error);
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
    if ((row->count == 0 && !row->is_table) || row->count > SIZE_MAX / 8 / (1 + PS_STATES_MAX))
        return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: Name: %.*s, %" PRIu64 " elements",
                       name_size, name, row->count);
    if (!row->is_table && ps_shape_check(&row->shape, row->name, row->count, &reason) != PS_OK)
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
    if (status != PS_OK)
        return fail_row(row, status, &reason, error);
    /* What pushes will read is the configuration's width; what the file has is its own. */
    if (row->is_table != (settings->table.width > 0) || row->width != settings->table.width)
        return ps_fail(error, PS_ERR_CORRUPT,
                       "checkpoint: Name: %.*s, rows of %" PRIu32 " elements, but its "
                       "configuration says %" PRIu32,
                       name_size, name, row->width, settings->table.width);
    /* An update would read a state that is not there, or leave one behind that no rule knows. */
    if (row->state_count != ps_rule_states(settings->rule))
        return ps_fail(error, PS_ERR_CORRUPT,
                       "checkpoint: Name: %.*s, %" PRIu32 " states, but %s keeps %" PRIu32,
                       name_size, name, row->state_count, ps_rule_name(settings->rule),
                       ps_rule_states(settings->rule));
    return PS_OK;
}

/* One that was configured since it came has two specs: with the first it is compared by who defines
 * it once more. */
static enum ps_status make_spec(const struct ps_service *service,
                                const struct ps_checkpoint_parameter *row,
                                const struct ps_optimizer_settings *settings,
                                struct ps_parameter_spec **spec, struct ps_error *error)
{
    /* A file of a program that knew no changes says nothing of it. */
    bool is_configured = row->defined.data != NULL && !ps_bytes_equal(row->defined, row->config);
    struct ps_optimizer_settings first_settings = *settings;
    struct ps_error reason = {0};
    enum ps_status status = PS_OK;
    if (is_configured)
        status = ps_parameter_settings_read(row->defined, row->dtype, service->memory,
                                            &first_settings, &reason);
    if (status != PS_OK)
        return fail_row(row, status, &reason, error);
    /* Most parameters were never configured, and have one spec. */
    struct ps_parameter_spec *first = NULL;
    PS_TRY(make_first(service, row, is_configured ? row->defined : row->config, &first_settings,
                      &first, error));
    PS_ASSERT(first != NULL && first->first == NULL);
    if (!is_configured) {
        *spec = first;
        return PS_OK;
    }
    /* With the checks of a change: a file whose two configurations have different rules was not
     * written by a server. */
    status = ps_parameter_change_to(first, row->config, spec, &reason);
    ps_parameter_spec_release(first);
    return status == PS_OK ? PS_OK : fail_row(row, status, &reason, error);
}

/* What is wrong with a configuration of a file is damage, but for a lack of memory. */
static enum ps_status fail_row(const struct ps_checkpoint_parameter *row, enum ps_status status,
                               const struct ps_error *reason, struct ps_error *error)
{
    int name_size = row->name.size < 80 ? (int)row->name.size : 80;
    PS_ASSERT(status != PS_OK);
    if (status == PS_ERR_NO_MEMORY)
        return ps_fail(error, status, "%.200s", reason->text);
    return ps_fail(error, PS_ERR_CORRUPT, "checkpoint: Name: %.*s, %.160s", name_size,
                   (const char *)row->name.data, reason->text);
}

/* What the service lends to its parameters, and what the file says of this one. Placed on a device
 * by the caller: the spec that the parameter has in the end is the one that is placed. Both specs
 * of a configured parameter are made of the same row, so that they differ in nothing but the
 * configuration. */
static enum ps_status make_first(const struct ps_service *service,
                                 const struct ps_checkpoint_parameter *row, struct ps_bytes config,
                                 const struct ps_optimizer_settings *settings,
                                 struct ps_parameter_spec **made, struct ps_error *error)
{
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(service->memory, row->name, row->dtype,
                                 row->is_table ? row->width : row->count, config, settings);
    if (spec == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for another parameter");
    spec->block_source = service->block_source;
    /* Whoever lends threads to pushes lends them to this parameter, too; the pointer is to the
     * service's place, which may be filled in later. */
    spec->crew = &service->crew;
    spec->touch_ahead = service->touch_ahead;
    /* The service's own, as for a parameter that comes later. Recovery fills the service, though it
     * changes nothing of it before all is read: what rows take is counted as they come, and given
     * back with them when the file turns out to be damaged. */
    spec->row_room = (struct ps_row_room *)&service->row_room;
    spec->row_device = service->device_store;
    if (row->is_table) {
        spec->shard = service->index;
        spec->shard_count = service->shard_count;
    }
    /* The random numbers go on where they stopped, whatever made the id. */
    spec->id = row->id;
    spec->birth = row->birth;
    /* Judged by check_row: of a range it is the whole's. */
    enum ps_status status = ps_parameter_spec_set_shape(spec, &row->shape, error);
    if (status != PS_OK) {
        ps_parameter_spec_release(spec);
        return status;
    }
    *made = spec;
    return PS_OK;
}

/* The device is asked first; a parameter that has no room there is one of the host, as at its
 * InitParam. */
static enum ps_status build(const struct ps_service *service,
                            const struct ps_checkpoint_parameter *row,
                            const struct ps_optimizer_settings *settings, uint64_t bytes_left,
                            struct ps_parameter **built, struct ps_error *error)
{
    struct ps_parameter_spec *spec = NULL;
    PS_TRY(make_spec(service, row, settings, &spec, error));
    PS_ASSERT(spec != NULL && spec->count == (row->is_table ? row->width : row->count));
    struct ps_resident resident;
    struct ps_error spilled = {0};
    /* Without a device every parameter is placed on the host, and that is not a failure. */
    enum ps_status status =
        ps_resident_place(ps_service_device_for(service, spec), spec, &resident, &spilled);
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
    PS_ASSERT(row->step <= row->version);
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
    atomic_store(&parameter->row_version, row->version);
    parameter->step = row->step;
    *built = parameter;
    return PS_OK;
}

/* With the cut held alone, though nobody pushes: probes and metrics read the table from other
 * threads. The position is that of the file, which is more than its versions add up to where a
 * state was put together of what was whole: ps_service_check knows by `position_at_begin`. */
static void begin_recovering(struct ps_service *service, const struct ps_parameter_table *table,
                             const struct ps_checkpoint_facts *facts, uint64_t versions)
{
    ps_rwlock_write(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    PS_ASSERT(service->table.count == 0);
    PS_ASSERT(table->host_bytes <= service->bytes_max);
    service->table = *table;
    service->bytes_used += table->host_bytes;
    service->position_at_begin = facts->position - versions;
    service->placement = facts->placement;
    ps_journal_queue_begin(&service->queue, facts->position);
    ps_service_begin_chain(service);
    atomic_store(&service->phase, PS_PHASE_RECOVERING);
    ps_service_count_table(service);
    ps_rwlock_unlock(&service->cut);
}
