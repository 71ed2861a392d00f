/* SPDX-License-Identifier: Apache-2.0 */
/* Time and clocks decide here, and nowhere else in a table's life. What they decide is a record of
 * the journal before it is done, with the version that a row must have been pushed to since. Two
 * servers that read the same journal so have the same rows, whatever their clocks show.
 *
 * A sweep walks through a whole table with the parameter's lock, and its pushes wait for that long:
 * about a tenth of a second for ten million rows, sixteen times in the life of a row. Pulls do not
 * wait for it. */
#include "server/core/requests/expire_rows.h"

#include "base/assert.h"
#include "checkpoint/journal_rows.h"
#include "server/core/requests/rendezvous_calls.h"
#include "server/core/update/parameter_rows.h"

static uint64_t due(struct ps_service *service, struct ps_parameter *parameter);
static uint64_t minimum_of(struct ps_service *service, const struct ps_table_settings *settings);
static void sweep(struct ps_service *service, struct ps_parameter *parameter, uint64_t before,
                  bool *wakes_writer);

/* The coordinator comes by with each turn, so that most looks find that no step of any table's span
 * is over, and a shard without such tables pays one comparison.
 *
 * As a push: only while the shard is ours by the clock, and with the cut held shared, so that a
 * snapshot sees the rows and the position of one moment. */
void ps_service_expire_rows(struct ps_service *service)
{
    bool wakes_writer = false;
    ps_rwlock_read(&service->cut);
    bool looks = service->table.expiring_count > 0 && ps_service_phase(service) == PS_PHASE_READY &&
                 ps_service_owns(service, NULL) == PS_OK;
    struct ps_parameter_entry *entry = looks ? ps_parameter_table_first(&service->table) : NULL;
    for (; entry != NULL; entry = ps_parameter_table_next(entry)) {
        struct ps_parameter *parameter = ps_parameter_entry_parameter(entry);
        uint64_t before = ps_parameter_rows_expire(parameter) ? due(service, parameter) : 0;
        if (before > 0)
            sweep(service, parameter, before, &wakes_writer);
    }
    ps_rwlock_unlock(&service->cut);
    if (wakes_writer)
        ps_service_tell_journal_wanted(service);
}

/* The version is read before time and clocks: what was pushed meanwhile counts as younger than it
 * is, and never as older. What a record could not be written of stays due. */
static uint64_t due(struct ps_service *service, struct ps_parameter *parameter)
{
    const struct ps_table_settings *settings = &parameter->spec->settings.table;
    struct ps_row_expiry *expiry = parameter->expiry;
    uint64_t version = ps_parameter_version(parameter);
    uint64_t by_time = 0, by_clock = 0;
    PS_ASSERT(expiry->swept <= version + 1);
    if (settings->expire_ms > 0)
        by_time = ps_row_ages_look(&expiry->by_time, settings->expire_ms, ps_now_ms(service->clock),
                                   version);
    if (settings->expire_clocks > 0)
        by_clock = ps_row_ages_look(&expiry->by_clock, settings->expire_clocks,
                                    minimum_of(service, settings), version);
    uint64_t before = by_time > by_clock ? by_time : by_clock;
    if (before > expiry->due)
        expiry->due = before;
    return expiry->due > expiry->swept ? expiry->due : 0;
}

/* Of clocks that are not there nobody has ended an iteration. The lock of the clocks is taken
 * alone: it has the rank of a parameter's. */
static uint64_t minimum_of(struct ps_service *service, const struct ps_table_settings *settings)
{
    ps_mutex_lock(&service->clocks.lock);
    const struct ps_clock_group *group =
        ps_clocks_find(&service->clocks, ps_bytes_of_text(settings->clocks));
    uint64_t minimum = group != NULL ? ps_clock_group_minimum(group) : 0;
    ps_mutex_unlock(&service->clocks.lock);
    return minimum;
}

/* The order of a push: the place in the journal under the parameter's lock, then the change. The
 * version of the record is the present one, by which replay sees that state and journal belong
 * together. A record that gets no room is no failure of anybody's request: the rows stay until the
 * next look. */
static void sweep(struct ps_service *service, struct ps_parameter *parameter, uint64_t before,
                  bool *wakes_writer)
{
    uint8_t content[PS_SWEEP_RECORD_BYTES];
    const struct ps_sweep_record record = {.before_version = before};
    ps_sweep_record_write(&record, content);
    const struct ps_bytes bytes = {content, sizeof content};
    const struct ps_journal_draft draft = {
        .type = PS_RECORD_SWEEP, .name = parameter->spec->name, .content = ps_view_of(&bytes)};
    struct ps_journal_place place;
    PS_ASSERT(before > parameter->expiry->swept);
    PS_ASSERT(parameter->expiry->due == before);
    if (ps_journal_place_draft(&place, &service->queue, &draft, 0, service->epoch, NULL) != PS_OK)
        return;
    ps_mutex_lock(&parameter->lock);
    bool is_put = ps_journal_queue_put(&place, parameter->version, NULL) == PS_OK;
    if (is_put)
        ps_service_swept(service, parameter, before);
    ps_mutex_unlock(&parameter->lock);
    *wakes_writer |= is_put && place.is_first;
    ps_journal_place_release(&place);
}

/* The record has a position, and makes no version: pulls that wait for one are not told. What was
 * swept is remembered, so that a table to which nobody pushes writes no record again. */
void ps_service_swept(struct ps_service *service, struct ps_parameter *parameter,
                      uint64_t before_version)
{
    PS_ASSERT(parameter->expiry != NULL);
    uint64_t gone = ps_parameter_rows_sweep(parameter, before_version);
    parameter->expiry->swept = before_version;
    service->position_at_begin++;
    atomic_fetch_add(&service->row_room.expired, gone);
}

/* ---- Everything that time ends ---- */

/* The coordinator comes by with each turn, at the latest with the next keepalive. */
void ps_service_sweep(struct ps_service *service)
{
    ps_service_expire_rows(service);
    ps_service_sweep_rendezvous(service);
    ps_service_sweep_programs(service);
    if (atomic_load(&service->staging.count) == 0)
        return;
    ps_staging_sweep(&service->staging, ps_now_ms(service->clock));
    ps_service_count_ranges(service);
}
