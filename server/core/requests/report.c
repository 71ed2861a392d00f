/* SPDX-License-Identifier: Apache-2.0 */
/* What operators ask: status and the list of parameters. Both answer in every phase: an operator
 * asks because something is wrong. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"
#include "server/core/rounds/contributions.h"
#include "server/core/update/parameter_rows.h"

#include <stdlib.h>
#include <string.h>

/* Entries of a list reply when the request does not say, and the most that one reply has. */
#define ROWS_DEFAULT 1000
#define ROWS_MAX 10000
/* Of configurations in one reply; one goes in any case. */
#define CONFIG_BYTES_MAX ((size_t)1 << 20)

/* A list reply points to `rows`, which stand in here. */
struct listing {
    size_t count;
    struct ps_parameter_spec **specs; /* a reference each: keeps the names alive */
    struct ps_param_info rows[];
};

static size_t collect_after(const struct ps_parameter_table *table,
                            const struct ps_list_request *request, struct ps_parameter **found);
static int compare_names(const void *a, const void *b);
static struct listing *create_listing(const struct ps_allocator *memory, size_t count);
static void release_listing(const struct ps_allocator *memory, struct listing *listing);
static void add_row(struct listing *listing, struct ps_parameter *parameter, bool with_config);

/* Tickets and journal have locks of their own and are read before the cut is taken: an answer of
 * two instants is good enough for people, and no lock is held over another. */
void ps_service_status(struct ps_service *service, struct ps_status_reply *reply, char uuid[37])
{
    struct ps_checkpoint_place place = {0};
    uuid[0] = '\0';
    /* The uuid is copied to the caller, since the place changes with the next save. */
    if (ps_tickets_place(&service->tickets, &place))
        memcpy(uuid, place.uuid, sizeof place.uuid);

    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    ps_rwlock_read(&service->cut);
    PS_ASSERT(service->index <= service->shard_count);
    *reply = (struct ps_status_reply){
        .program_version = PS_VERSION,
        .index = service->index,
        .shard_count = service->shard_count,
        .epoch = service->epoch,
        .state = ps_service_state_name(service),
        .parameter_count = service->table.count,
        .parameter_bytes = service->table.value_bytes + atomic_load(&service->row_room.bytes),
        .state_bytes = service->table.state_bytes,
        .push_count = atomic_load(&service->push_count),
        .pull_count = atomic_load(&service->pull_count),
        .position = state.position,
        .checkpoint_uuid = uuid,
        .checkpoint_position = place.position,
        .checkpoint_unix_ns = place.unix_ns,
        .uptime_ms = ps_now_ms(service->clock) - service->started_ms,
        .device = service->device,
        .job = service->job,
        .address = service->address,
        .lost_count = atomic_load(&service->lost_count),
    };
    ps_rwlock_unlock(&service->cut);
    /* Behind the cut, which it takes itself. */
    reply->placement = ps_service_placement(service);
}

/* An error in the log and a counter that stays: a loss of what was acknowledged must not depend on
 * somebody reading logs. */
void ps_service_note_lost(struct ps_service *service, uint64_t pushes)
{
    if (pushes == 0)
        return;
    /* The sum stays for the life of the process: a server that serves again after a loss still
     * shows the loss. */
    uint64_t before = atomic_fetch_add(&service->lost_count, pushes);
    ps_counter_add(service->metrics.lost_pushes, pushes);
    PS_LOG(service->log, PS_LOG_ERROR, "service", "acknowledged pushes are lost",
           PS_FIELD_UINT("pushes", pushes), PS_FIELD_UINT("in_all", before + pushes));
}

/* Of rows that went the counters get what came since they were shown last, too. */
static void count_rows(struct ps_service *service)
{
    struct ps_row_room *room = &service->row_room;
    const struct ps_core_metrics *metrics = &service->metrics;
    uint64_t evicted = atomic_load(&room->evicted);
    uint64_t expired = atomic_load(&room->expired);
    PS_ASSERT(evicted >= service->evicted_counted && expired >= service->expired_counted);
    ps_gauge_set(metrics->table_rows, (double)atomic_load(&room->rows));
    ps_gauge_set(metrics->table_device_rows, (double)atomic_load(&room->seated));
    ps_gauge_set(metrics->table_candidates, (double)atomic_load(&room->candidates));
    ps_gauge_set(metrics->table_bytes, (double)atomic_load(&room->bytes));
    ps_counter_add(metrics->table_evicted, evicted - service->evicted_counted);
    ps_counter_add(metrics->table_expired, expired - service->expired_counted);
    service->evicted_counted = evicted;
    service->expired_counted = expired;
}

/* Launches are counted by the device from its start on; the counter gets what came since it was
 * shown last. */
void ps_service_count(struct ps_service *service)
{
    const struct ps_device_store *store = service->device_store;
    count_rows(service);
    if (store == NULL)
        return;
    struct ps_device_stats stats;
    store->plugin->stats(store->device, &stats);
    ps_gauge_set(service->metrics.device_used, (double)stats.used_bytes);
    ps_gauge_set(service->metrics.device_budget, (double)stats.budget_bytes);
    ps_gauge_set(service->metrics.device_pinned, (double)stats.pinned_bytes);
    ps_gauge_set(service->metrics.device_pinned_max, (double)ps_device_store_pinned_max(store));
    PS_ASSERT(stats.launch_count >= service->launches_counted);
    ps_counter_add(service->metrics.device_launches,
                   stats.launch_count - service->launches_counted);
    service->launches_counted = stats.launch_count;
    ps_counter_add(service->metrics.device_copies, stats.copy_count - service->copies_counted);
    service->copies_counted = stats.copy_count;
    ps_counter_add(service->metrics.device_direct, stats.direct_bytes - service->direct_counted);
    service->direct_counted = stats.direct_bytes;
    ps_counter_add(service->metrics.device_in_place,
                   stats.in_place_bytes - service->in_place_counted);
    service->in_place_counted = stats.in_place_bytes;
    ps_counter_add(service->metrics.device_waits, stats.wait_count - service->waits_counted);
    service->waits_counted = stats.wait_count;
}

/* The table is a hash: names are sorted here, all of those behind `after`, so that pages neither
 * overlap nor miss a name. Rows hold their names by a reference, since a parameter may be replaced
 * once the cut is released. */
enum ps_status ps_service_list(struct ps_service *service, const struct ps_list_request *request,
                               struct ps_list_reply *reply, struct ps_error *error)
{
    size_t limit = request->limit > 0 ? request->limit : ROWS_DEFAULT;
    limit = limit < ROWS_MAX ? limit : ROWS_MAX;
    PS_ASSERT(limit > 0);
    struct ps_parameter **found = NULL;
    struct listing *listing = NULL;
    size_t found_count = 0;

    ps_rwlock_read(&service->cut);
    /* The array is made with the cut held, since the table may grow as soon as the cut is free. An
     * empty table gives an array that is empty, and not NULL. */
    found = ps_zeroed_array(service->memory, service->table.count, sizeof *found);
    if (found == NULL)
        goto out;
    found_count = collect_after(&service->table, request, found);
    if (found_count > 0)
        qsort(found, found_count, sizeof *found, compare_names);
    PS_ASSERT(found_count <= service->table.count);
    size_t count = found_count < limit ? found_count : limit;
    listing = create_listing(service->memory, count);
    if (listing == NULL)
        goto out;
    size_t config_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        /* As they came: a client may have given one of 64 KiB. */
        config_bytes += request->with_config ? found[i]->spec->config.size : 0;
        /* A page of long configurations is shorter, so that the answer keeps to its bound. */
        if (i > 0 && config_bytes > CONFIG_BYTES_MAX)
            count = i;
        else
            add_row(listing, found[i], request->with_config);
    }
    PS_ASSERT(listing->count == count);
    *reply = (struct ps_list_reply){
        .params = listing->rows, .param_count = count, .more = found_count > count};

out:
    ps_rwlock_unlock(&service->cut);
    ps_release(service->memory, found);
    if (listing == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the list of parameters");
    return PS_OK;
}

/* Every name begins with nothing, which is what a request without a prefix asks for. */
static bool begins_with(struct ps_bytes name, struct ps_bytes prefix)
{
    return name.size >= prefix.size &&
           ps_bytes_equal((struct ps_bytes){name.data, prefix.size}, prefix);
}

/* There is room for all entries of the table, which cannot change while the cut is held. */
static size_t collect_after(const struct ps_parameter_table *table,
                            const struct ps_list_request *request, struct ps_parameter **found)
{
    size_t count = 0;
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(table); entry != NULL;
         entry = ps_parameter_table_next(entry)) {
        struct ps_parameter *parameter = ps_parameter_entry_parameter(entry);
        struct ps_bytes name = parameter->spec->name;
        if (ps_bytes_compare(name, request->after) > 0 && begins_with(name, request->prefix))
            found[count++] = parameter;
    }
    PS_ASSERT(count <= table->count);
    return count;
}

static int compare_names(const void *a, const void *b)
{
    const struct ps_parameter *const *left = a;
    const struct ps_parameter *const *right = b;
    return ps_bytes_compare((*left)->spec->name, (*right)->spec->name);
}

/* Rows and references are two arrays: the first goes to the codec as it is. */
static struct listing *create_listing(const struct ps_allocator *memory, size_t count)
{
    struct listing *listing = ps_zeroed(memory, sizeof *listing + count * sizeof listing->rows[0]);
    if (listing == NULL)
        return NULL;
    listing->specs = ps_zeroed_array(memory, count, sizeof(struct ps_parameter_spec *));
    if (listing->specs == NULL) {
        ps_release(memory, listing);
        return NULL;
    }
    return listing;
}

/* A table is shown as the matrix that it would be: so lists, their sums and the tools that read
 * them know tables without a word for them. */
static void add_rows(struct ps_param_info *row, const struct ps_parameter *parameter)
{
    /* Without the parameter's lock: a push may be at work, and what is shown is of a moment. */
    uint64_t rows = ps_row_table_rows(parameter->rows);
    const struct ps_row_layout layout = ps_parameter_rows_layout(parameter->spec);
    uint64_t state_elements = 0;
    for (uint32_t i = 0; i < layout.state_count; i++)
        state_elements += layout.state_is_one[i] ? 1 : layout.width;
    row->element_count = rows * layout.width;
    row->state_bytes = rows * state_elements * ps_dtype_size(layout.dtype);
    row->shape = (struct ps_shape){.is_given = true, .rank = 2, .lengths = {rows, layout.width}};
    PS_ASSERT(row->shape.rank <= PS_SHAPE_RANK_MAX);
}

/* The lock of the contributions comes before the parameter's, which is not held here: the version
 * that is shown beside may be of another moment. */
static void add_round(struct ps_param_info *row, struct ps_contributions *rounds)
{
    ps_mutex_lock(&rounds->lock);
    PS_ASSERT(rounds->round.workers > 0);
    row->round_workers = rounds->round.workers;
    row->round_counted = rounds->round.counted_count;
    ps_round_name_missing(&rounds->round, row->round_missing, sizeof row->round_missing);
    ps_mutex_unlock(&rounds->lock);
}

/* The parameter's lock is held for two numbers only: a push to it may be under way. */
static void add_row(struct listing *listing, struct ps_parameter *parameter, bool with_config)
{
    struct ps_parameter_spec *spec = parameter->spec;
    ps_mutex_lock(&parameter->lock);
    /* Both numbers change in one update, and the lock makes them a pair. */
    uint64_t version = parameter->version;
    uint64_t step = parameter->step;
    ps_mutex_unlock(&parameter->lock);

    listing->rows[listing->count] = (struct ps_param_info){
        .name = spec->name,
        .dtype = spec->dtype,
        .element_count = spec->count,
        .version = version,
        .rule = ps_rule_name(spec->settings.rule),
        .learning_rate = ps_learning_rate_at(&spec->settings.learning_rate, step + 1),
        .state_bytes = ps_parameter_spec_bytes(spec) * ps_parameter_state_count(parameter),
        .shape = *ps_parameter_spec_shape(spec),
        .config = with_config ? spec->config : (struct ps_bytes){0},
    };
    if (parameter->rows != NULL)
        add_rows(&listing->rows[listing->count], parameter);
    if (parameter->rounds != NULL)
        add_round(&listing->rows[listing->count], parameter->rounds);
    PS_ASSERT(listing->specs[listing->count] == NULL);
    listing->specs[listing->count] = ps_parameter_spec_acquire(spec);
    listing->count++;
}

/* The reply points into the listing, which begins before its rows. */
void ps_service_list_release(struct ps_service *service, struct ps_list_reply *reply)
{
    if (reply->params != NULL) {
        char *rows = (char *)reply->params;
        struct listing *listing = (struct listing *)(void *)(rows - offsetof(struct listing, rows));
        PS_ASSERT(listing->count == reply->param_count);
        release_listing(service->memory, listing);
    }
    *reply = (struct ps_list_reply){0};
}

/* The references go first: they stand in the listing. */
static void release_listing(const struct ps_allocator *memory, struct listing *listing)
{
    PS_ASSERT(listing->specs != NULL);
    for (size_t i = 0; i < listing->count; i++)
        ps_parameter_spec_release(listing->specs[i]);
    ps_release(memory, listing->specs);
    ps_release(memory, listing);
}
