/* SPDX-License-Identifier: Apache-2.0 */
/* What joins a parameter and its rows: the layout that follows from its optimizer, the count of
 * bytes, and reading. A push goes through update_rows.c. */
#include "server/core/update/parameter_rows.h"

#include "base/assert.h"
#include "base/partition.h"
#include "optimizer/optimizer.h"
#include "server/core/tables/row_pull.h"

/* One layout for pushes, checkpoints and lists: whoever reads a row elsewhere asks here what it is
 * made of. The states of a row stand beside its values, but for one that the whole row shares. */
struct ps_row_layout ps_parameter_rows_layout(const struct ps_parameter_spec *spec)
{
    const struct ps_optimizer_settings *settings = &spec->settings;
    struct ps_row_layout layout = {.dtype = spec->dtype,
                                   .width = settings->table.width,
                                   .state_count = ps_rule_states(settings->rule)};
    PS_ASSERT(layout.width == spec->count && layout.state_count <= PS_STATES_MAX);
    for (uint32_t i = 0; i < layout.state_count; i++) {
        layout.state_is_one[i] = settings->rule == PS_RULE_ADAGRAD && settings->adagrad_row_wise;
        layout.state_start[i] = ps_optimizer_state_start(settings, i);
    }
    return layout;
}

/* The numbers of the settings, of the wire and of the partition are the same. Bounds are borrowed
 * for as long as it is used: here, for one question. */
static struct ps_partition partition_of(const struct ps_table_settings *settings,
                                        uint32_t shard_count)
{
    PS_ASSERT(settings->bound_count <= PS_TABLE_BOUNDS_MAX);
    return (struct ps_partition){.kind = (enum ps_partition_kind)settings->partition,
                                 .shard_count = shard_count,
                                 .keys_max = settings->keys_max,
                                 .chunk = settings->chunk,
                                 .bounds = settings->bounds,
                                 .bound_count = settings->bound_count};
}

/* A server without a store is a job of one shard for itself, also where clients have a list of
 * several such servers: its clients know which of the given ranges is this server's. */
static bool is_alone_with_bounds(const struct ps_table_settings *settings, uint32_t shard_count)
{
    PS_ASSERT(shard_count > 0);
    return shard_count == 1 && settings->partition == PS_TABLE_GIVEN;
}

/* The configuration alone does not say how many shards there are: bounds that are right for three
 * of them leave a fourth without keys. */
enum ps_status ps_parameter_rows_check_shards(const struct ps_table_settings *settings,
                                              uint32_t shard_count, struct ps_error *error)
{
    const struct ps_partition partition = partition_of(settings, shard_count);
    PS_ASSERT(settings->width > 0 && shard_count > 0);
    if (is_alone_with_bounds(settings, shard_count))
        return PS_OK;
    return ps_partition_check(&partition, error);
}

uint32_t ps_parameter_rows_shard(const struct ps_parameter_spec *spec, uint64_t key)
{
    const struct ps_table_settings *settings = &spec->settings.table;
    PS_ASSERT(settings->width > 0);
    if (settings->partition != PS_TABLE_HASH || spec->shard_count <= 1)
        return spec->shard;
    const struct ps_partition partition = partition_of(settings, spec->shard_count);
    return ps_partition_shard(&partition, key);
}

/* Which keys are this shard's. In ranges a key of another shard is a client's mistake, whose row
 * nobody would find again. Hashed keys have no range: requests are asked for some of theirs, and
 * what a journal brings is kept (ps_service_check_keys). */
static void take_range(const struct ps_parameter_spec *spec, struct ps_row_table_options *options)
{
    if (spec->shard_count == 0 || is_alone_with_bounds(&spec->settings.table, spec->shard_count))
        return;
    PS_ASSERT(spec->shard < spec->shard_count);
    const struct ps_partition partition = partition_of(&spec->settings.table, spec->shard_count);
    const struct ps_key_range range = ps_partition_range(&partition, spec->shard);
    /* An end of 0 is behind the highest key; an empty range is one that ends where it begins. */
    options->key_first = range.is_empty ? 1 : range.first;
    options->key_end = range.is_empty ? 1 : range.last + 1;
}

/* A device is asked for the rows of a table as they come (row_bodies.h): a table without rows needs
 * none. The store outlives all tables, and holds of them. */
static struct ps_row_device device_of(const struct ps_parameter_spec *spec)
{
    const struct ps_device_store *store = spec->row_device;
    if (store == NULL)
        return (struct ps_row_device){0};
    PS_ASSERT(store->plugin != NULL);
    return (struct ps_row_device){.plugin = store->plugin,
                                  .device = store->device,
                                  .log = store->log,
                                  .settings = &spec->settings,
                                  .name = (const char *)spec->name.data,
                                  .min_bytes = store->min_bytes};
}

/* The room counts an empty table as well: a million tables without rows take memory, too. */
bool ps_parameter_rows_create(struct ps_parameter *parameter)
{
    const struct ps_parameter_spec *spec = parameter->spec;
    struct ps_row_table_options options = {.memory = spec->memory,
                                           .layout = ps_parameter_rows_layout(spec),
                                           .settings = spec->settings.table,
                                           .repeats = ps_row_repeats_of(spec->settings.rule),
                                           .id = spec->id,
                                           .ahead = spec->touch_ahead,
                                           .device = device_of(spec)};
    PS_ASSERT(parameter->rows == NULL && parameter->row_bytes == 0);
    take_range(spec, &options);
    parameter->expiry = ps_zeroed(spec->memory, sizeof *parameter->expiry);
    if (parameter->expiry == NULL || ps_row_table_create(&options, &parameter->rows, NULL) != PS_OK)
        return false;
    ps_parameter_rows_count(parameter);
    return true;
}

/* A snapshot that holds rows keeps what it holds of them. */
void ps_parameter_rows_destroy(struct ps_parameter *parameter)
{
    struct ps_row_room *room = parameter->spec->row_room;
    ps_release(parameter->spec->memory, parameter->expiry);
    parameter->expiry = NULL;
    if (parameter->rows == NULL)
        return;
    ps_row_table_destroy(parameter->rows);
    parameter->rows = NULL;
    if (room != NULL) {
        atomic_fetch_sub(&room->bytes, parameter->row_bytes);
        atomic_fetch_sub(&room->rows, parameter->row_count);
        atomic_fetch_sub(&room->seated, parameter->seated_count);
        atomic_fetch_sub(&room->candidates, parameter->candidate_count);
    }
    parameter->row_bytes = 0;
    parameter->row_count = 0;
    parameter->seated_count = 0;
    parameter->candidate_count = 0;
}

/* Asked with each change of the table of names, so that nobody looks for old rows in a shard that
 * has no such table. */
bool ps_parameter_rows_expire(const struct ps_parameter *parameter)
{
    const struct ps_table_settings *settings = &parameter->spec->settings.table;
    PS_ASSERT(parameter->rows == NULL || settings->width > 0);
    return parameter->rows != NULL && (settings->expire_ms > 0 || settings->expire_clocks > 0);
}

/* A walk that has begun ends here: what it has left is looked at again when the settings that are
 * there by then say so. */
void ps_parameter_rows_forget_due(struct ps_parameter *parameter)
{
    struct ps_row_expiry *expiry = parameter->expiry;
    PS_ASSERT(expiry != NULL && expiry->due >= expiry->walk.before);
    expiry->due = expiry->swept;
    expiry->walk = (struct ps_row_walk){0};
}

/* The difference to the last count, since all tables of the shard count in one place. It may be
 * less than nothing: unsigned numbers wrap, and so does the sum, back to what is right. */
void ps_parameter_rows_count(struct ps_parameter *parameter)
{
    struct ps_row_room *room = parameter->spec->row_room;
    uint64_t bytes = ps_row_table_bytes(parameter->rows);
    uint64_t rows = ps_row_table_rows(parameter->rows);
    const struct ps_row_table *counted = ps_row_table_candidates(parameter->rows);
    /* For the metrics alone: what a device has counts in its own budget. */
    uint64_t seated = ps_row_table_seated(parameter->rows);
    uint64_t candidates = counted != NULL ? ps_row_table_rows(counted) : 0;
    if (room != NULL) {
        atomic_fetch_add(&room->bytes, bytes - parameter->row_bytes);
        atomic_fetch_add(&room->rows, rows - parameter->row_count);
        atomic_fetch_add(&room->seated, seated - parameter->seated_count);
        atomic_fetch_add(&room->candidates, candidates - parameter->candidate_count);
    }
    parameter->row_bytes = bytes;
    parameter->row_count = rows;
    parameter->seated_count = seated;
    parameter->candidate_count = candidates;
}

/* The spec of a table counts the elements of one row: so its bytes are those of a row. */
size_t ps_parameter_rows_row_bytes(const struct ps_parameter_spec *spec)
{
    PS_ASSERT(ps_parameter_spec_is_table(spec));
    return ps_parameter_spec_bytes(spec);
}

/* The version is read first: a push that ends meanwhile may be in some of the rows and not in
 * others, and the answer then speaks of the version before it. So a reader that waits for a version
 * has every push up to there, and no reader waits for a push that is at work. */
enum ps_status ps_parameter_rows_get(struct ps_parameter *parameter, struct ps_view keys,
                                     struct ps_encoded_values **rows, uint64_t *version,
                                     struct ps_error *error)
{
    struct ps_parameter_spec *spec = parameter->spec;
    PS_ASSERT(parameter->rows != NULL && keys.size % PS_ROW_KEY_BYTES == 0);
    size_t count = keys.size / PS_ROW_KEY_BYTES;
    size_t size = count * ps_parameter_rows_row_bytes(spec);
    *version = atomic_load(&parameter->row_version);
    struct ps_encoded_values *made = ps_encoded_values_blank(spec, size);
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "table: %s, no memory for %zu rows",
                       (const char *)spec->name.data, count);
    enum ps_status status = ps_row_table_get(parameter->rows, keys, made->content, error);
    if (status != PS_OK) {
        ps_encoded_values_release(made);
        return status;
    }
    *rows = made;
    return PS_OK;
}

/* Pulls run beside it: a reader of a row that goes gets its values or its first values, as it would
 * have got them a moment before or behind the sweep. Counted back from the version to come: rows of
 * the present one may be old, too. */
uint64_t ps_parameter_rows_remove(struct ps_parameter *parameter,
                                  const struct ps_row_removal *removal)
{
    PS_ASSERT(parameter->rows != NULL && removal->before <= parameter->version + 1);
    uint64_t gone = ps_row_table_remove(parameter->rows, removal, parameter->version + 1);
    ps_parameter_rows_count(parameter);
    return gone;
}

/* As it was done by former programs, whose journals are replayed. */
uint64_t ps_parameter_rows_sweep(struct ps_parameter *parameter, uint64_t before_version)
{
    PS_ASSERT(parameter->rows != NULL && before_version <= parameter->version + 1);
    uint64_t gone = ps_row_table_sweep(parameter->rows, before_version, parameter->version + 1);
    ps_parameter_rows_count(parameter);
    return gone;
}
