/* SPDX-License-Identifier: Apache-2.0 */
/* A look at the clocks, for people and for whoever waits for a minimum: a copy of one moment, which
 * is encoded when the lock is let go of. */
#include "server/core/requests/clock_view.h"

#include "base/assert.h"
#include "server/core/requests/change_wait.h"
#include "server/core/requests/pull_wait.h"
#include "server/core/requests/service_state.h"

#include <string.h>

static enum ps_status list_workers(struct ps_service *service, const struct ps_clock_group *group,
                                   struct ps_clock_view *view, struct ps_error *error);
static enum ps_status list_names(struct ps_service *service, struct ps_clock_view *view,
                                 struct ps_error *error);

/* Who waits for a minimum and is late is told what there is: a question has no answer that is
 * wrong. */
enum ps_status ps_service_progress(struct ps_service *service,
                                   const struct ps_progress_request *request, bool is_late,
                                   struct ps_clock_view *view, struct ps_pull_wait *wait,
                                   struct ps_error *error)
{
    struct ps_clock_group *group = NULL;
    *view = (struct ps_clock_view){0};
    *wait = (struct ps_pull_wait){.topic = PS_TOPIC_LIFE};
    ps_rwlock_read(&service->cut);
    enum ps_status status = ps_change_check_ready(service, request->shard, error);
    PS_ASSERT(view->reply.worker_count == 0);
    /* The mark is left with the lock held, as by a pull that waits. */
    ps_mutex_lock(&service->clocks.lock);
    if (status == PS_OK && request->name.size == 0) {
        status = list_names(service, view, error);
    } else if (status == PS_OK) {
        status = ps_clocks_get(&service->clocks, request->name, &group, error);
        if (status == PS_OK && !is_late && ps_clock_group_minimum(group) < request->at_least) {
            wait->topic = ps_pull_await_name(service, request->name);
            status = PS_ERR_NOT_READY;
        } else if (status == PS_OK) {
            status = list_workers(service, group, view, error);
        }
    }
    ps_mutex_unlock(&service->clocks.lock);
    ps_rwlock_unlock(&service->cut);
    if (status != PS_OK)
        ps_clock_view_release(service, view);
    return status;
}

/* Copied with the lock held, and encoded without: 4,096 rows take a while. */
static enum ps_status list_workers(struct ps_service *service, const struct ps_clock_group *group,
                                   struct ps_clock_view *view, struct ps_error *error)
{
    /* Clocks and silences of one moment: whoever looks compares them. */
    uint64_t now_ms = ps_now_ms(service->clock);
    uint32_t count = group->settings.workers;
    PS_ASSERT(count > 0 && view->workers == NULL);
    view->workers = ps_zeroed_array(service->memory, count, sizeof *view->workers);
    /* The question may be put again; nothing has changed by it. */
    if (view->workers == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a list of workers");
    /* A row for each rank, also of one that takes no part: its place is the rank. */
    for (uint32_t rank = 0; rank < count; rank++)
        if (!ps_clock_group_has(group, rank))
            view->workers[rank].is_absent = true;
        else
            view->workers[rank] = (struct ps_worker_clock){
                .clock = ps_clock_group_clock(group, rank),
                .is_evicted = group->workers[rank].is_evicted,
                .silent_ms = ps_clock_group_silent_ms(group, rank, now_ms)};
    /* Of one moment, as the rows are. */
    view->reply = (struct ps_progress_reply){.minimum = ps_clock_group_minimum(group),
                                             .workers = view->workers,
                                             .worker_count = count,
                                             .consistency = group->settings.consistency,
                                             .staleness = group->settings.staleness,
                                             .straggler = group->settings.straggler,
                                             .ttl_ms = group->settings.ttl_ms,
                                             .evictions = group->evictions,
                                             .speculation = group->settings.speculation,
                                             .task = group->settings.task};
    return PS_OK;
}

/* Copied, since the groups may go as soon as the lock is let go of. */
static enum ps_status list_names(struct ps_service *service, struct ps_clock_view *view,
                                 struct ps_error *error)
{
    const struct ps_clocks *clocks = &service->clocks;
    size_t count = clocks->count;
    PS_ASSERT(count <= PS_CLOCKS_MAX && view->names == NULL);
    if (count == 0)
        return PS_OK;
    view->names = ps_zeroed_array(service->memory, count, sizeof *view->names);
    view->texts = ps_zeroed_array(service->memory, count, PS_CLOCKS_NAME_BYTES_MAX);
    /* What was made of the two goes with the view, which the caller releases. */
    if (view->names == NULL || view->texts == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a list of clocks");
    /* The newest first. Names are not secret: rules guard what is done by them. */
    size_t at = 0;
    for (const struct ps_clock_group *group = clocks->groups; group != NULL; group = group->next) {
        char *text = view->texts + at * PS_CLOCKS_NAME_BYTES_MAX;
        memcpy(text, group->name, group->name_size);
        view->names[at++] = (struct ps_bytes){(const uint8_t *)text, group->name_size};
    }
    PS_ASSERT(at == count);
    view->reply = (struct ps_progress_reply){.names = view->names, .name_count = count};
    return PS_OK;
}

/* Also of a view that was refused half-way. */
void ps_clock_view_release(struct ps_service *service, struct ps_clock_view *view)
{
    /* All three may be NULL. */
    ps_release(service->memory, view->workers);
    ps_release(service->memory, view->names);
    ps_release(service->memory, view->texts);
    *view = (struct ps_clock_view){0};
}
