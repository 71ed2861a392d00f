/* SPDX-License-Identifier: Apache-2.0 */
/* DropParam and ConfigureParam: the record is made first, without any lock; then, with the cut
 * held alone, sessions, table, the place in the journal, and the change. Behind the place
 * nothing fails. */
#include "server/core/requests/change.h"

#include "base/assert.h"
#include "server/core/requests/change_wait.h"
#include "server/core/requests/parameter_build.h"
#include "server/core/requests/pull_wait.h"
#include "server/core/requests/table_change.h"
#include "server/core/rounds/contributions.h"
#include "server/core/sessions/fingerprint.h"
#include "server/core/update/parameter_change.h"

#include <inttypes.h>

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). Without
 * the position nobody knows any more that the last round of the workers before is not durable
 * yet. */
#ifdef PS_MUTATE_SKIP_ROUND_POSITION
static const bool positions_are_forgotten = true;
#else
static const bool positions_are_forgotten = false;
#endif

/* One change on its way, and what has to be ended whatever becomes of it. */
struct attempt {
    struct ps_service *service;
    const struct ps_change_request *request;
    bool drops;
    uint32_t fingerprint;
    struct ps_parameter_spec *fresh; /* owned; of a ConfigureParam until it is the parameter's */
    struct ps_parameter *dropped;    /* owned; to be destroyed without the cut */
    struct ps_parameter_spec *former;
    bool changes_rounds;
    struct ps_contributions *rounds; /* owned; of `fresh`, where they are others than before */
    struct ps_device_due due;        /* of the device: it reads `former` until then */
};

static enum ps_status change(struct attempt *attempt, struct ps_changed *changed,
                             struct ps_push_wait *wait, struct ps_error *error);
static enum ps_status change_in_cut(struct attempt *attempt, struct ps_changed *changed,
                                    bool *wakes_writer, struct ps_error *error);
static enum ps_status change_once(struct attempt *attempt, struct ps_changed *changed,
                                  bool *wakes_writer, struct ps_error *error);
static enum ps_status apply(struct attempt *attempt, struct ps_parameter *parameter,
                            struct ps_changed *changed, bool *wakes_writer, struct ps_error *error);
static enum ps_status prepare(struct attempt *attempt, struct ps_parameter *parameter,
                              struct ps_error *error);
static enum ps_status check_room(const struct ps_service *service,
                                 const struct ps_parameter *parameter,
                                 const struct ps_parameter_spec *fresh, struct ps_error *error);
static void commit(struct attempt *attempt, struct ps_parameter *parameter);
static void end(struct attempt *attempt);

/* Zeroed, so that a second release does nothing. */
void ps_changed_release(struct ps_changed *changed)
{
    ps_parameter_spec_release(changed->spec);
    *changed = (struct ps_changed){0};
}

/* The fingerprint is of the name alone, as the request is. */
enum ps_status ps_service_drop(struct ps_service *service, const struct ps_change_request *request,
                               struct ps_changed *changed, struct ps_push_wait *wait,
                               struct ps_error *error)
{
    struct attempt attempt = {.service = service,
                              .request = request,
                              .drops = true,
                              .fingerprint = ps_fingerprint_of_change(request, true)};
    return change(&attempt, changed, wait, error);
}

/* The new spec is made with the cut held, since it is made of the present one. */
enum ps_status ps_service_configure(struct ps_service *service,
                                    const struct ps_change_request *request,
                                    struct ps_changed *changed, struct ps_push_wait *wait,
                                    struct ps_error *error)
{
    struct attempt attempt = {.service = service,
                              .request = request,
                              .fingerprint = ps_fingerprint_of_change(request, false)};
    return change(&attempt, changed, wait, error);
}

/* The cut is held alone from the first look to the last: these are rare, and what they read is what
 * they change. What leaves the table is destroyed without it. */
static enum ps_status change(struct attempt *attempt, struct ps_changed *changed,
                             struct ps_push_wait *wait, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    struct ps_changed made = {0};
    bool wakes_writer = false;
    PS_ASSERT(changed != NULL && attempt->dropped == NULL);
    ps_rwlock_write(&service->cut);
    enum ps_status status = change_in_cut(attempt, &made, &wakes_writer, error);
    /* Also of a refused one, whose position is 0: nothing reads it then. */
    ps_change_begin_wait(service, made.reply.position, wait, &made.reply.durable_position);
    ps_rwlock_unlock(&service->cut);
    /* Told without the cut, since the listener may take locks of its own. */
    if (wakes_writer)
        ps_service_tell_journal_wanted(service);
    /* A pull that waits for a version hears that there is no such parameter any more. */
    ps_pull_wait_tell(service, attempt->request->name);
    end(attempt);
    /* The configuration of a repeat whose shard is lost is nobody's. */
    if (status != PS_OK) {
        ps_changed_release(&made);
        return status;
    }
    *changed = made;
    return PS_OK;
}

/* As a push: whose shard it is, what state it is in, the change, and whether the shard is still
 * ours. */
static enum ps_status change_in_cut(struct attempt *attempt, struct ps_changed *changed,
                                    bool *wakes_writer, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    PS_TRY(ps_change_check_ready(service, attempt->request->shard, error));
    PS_TRY(change_once(attempt, changed, wakes_writer, error));
    PS_ASSERT(changed->reply.position > 0);
    PS_ASSERT(changed->spec == NULL);
    if (!attempt->drops) {
        /* A repeat may find that the parameter has gone meanwhile: then it is told no
         * configuration. */
        const struct ps_parameter *parameter =
            ps_parameter_table_find(&service->table, attempt->request->name);
        if (parameter != NULL) {
            changed->spec = ps_parameter_spec_acquire(parameter->spec);
            changed->reply.config = changed->spec->config;
            changed->reply.step = parameter->step;
        }
    }
    return ps_service_owns(service, error);
}

/* Sessions first, since a repeat of a drop finds no parameter, and was right. */
static enum ps_status change_once(struct attempt *attempt, struct ps_changed *changed,
                                  bool *wakes_writer, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    const struct ps_request_id *id = &attempt->request->request;
    struct ps_session_call call = {0};
    if (id->present)
        PS_TRY(ps_sessions_begin(&service->sessions, id, attempt->fingerprint,
                                 ps_service_unix_us(service), &call, error));
    /* A repeat waits as the first did: for the position of the change. */
    if (call.is_repeat) {
        /* Nothing is to be ended. */
        changed->reply = (struct ps_change_reply){
            .version = call.answer.version, .duplicate = true, .position = call.answer.position};
        return PS_OK;
    }
    struct ps_parameter *parameter =
        ps_parameter_table_find(&service->table, attempt->request->name);
    /* A name that nobody may have is one that is not there. */
    struct ps_bytes name = attempt->request->name;
    enum ps_status status = parameter != NULL
                                ? apply(attempt, parameter, changed, wakes_writer, error)
                                : ps_fail(error, PS_ERR_NOT_FOUND, "parameter: %.*s does not exist",
                                          ps_service_name_width(name), (const char *)name.data);
    /* Without an id nobody can ask for it again. */
    if (!id->present)
        return status;
    if (status == PS_OK)
        ps_sessions_commit(&service->sessions, &call,
                           (struct ps_session_answer){.version = changed->reply.version,
                                                      .position = changed->reply.position});
    else
        ps_sessions_abort(&service->sessions, &call);
    return status;
}

/* The order of an update: everything that may fail, the place in the journal, the change. */
static enum ps_status apply(struct attempt *attempt, struct ps_parameter *parameter,
                            struct ps_changed *changed, bool *wakes_writer, struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    /* The version at which it is made; a change makes none. */
    uint64_t version = parameter->version;
    PS_ASSERT(attempt->fresh == NULL && attempt->former == NULL);
    PS_TRY(prepare(attempt, parameter, error));
    /* The record has the configuration that comes of the change, so that replay asks nothing. */
    const struct ps_bytes config = attempt->drops ? (struct ps_bytes){0} : attempt->fresh->config;
    const struct ps_journal_draft draft = {.type = attempt->drops ? PS_RECORD_DROP
                                                                  : PS_RECORD_CONFIGURE,
                                           .name = parameter->spec->name,
                                           .request = attempt->request->request,
                                           .content = ps_view_of(&config)};
    /* With the cut held: the record is small, and copied. */
    struct ps_journal_place place;
    PS_TRY(ps_journal_place_draft(&place, &service->queue, &draft, attempt->fingerprint,
                                  service->epoch, error));
    enum ps_status status = ps_journal_queue_put(&place, version, error);
    ps_journal_place_release(&place);
    if (status != PS_OK)
        return status;
    /* In the journal's order: from here on nothing can fail. Who waits for a version that the
     * workers of before have made still waits for its record, which stands before this one. */
    uint64_t position = positions_are_forgotten ? 0 : place.position;
    if (attempt->rounds != NULL)
        attempt->rounds->position = position;
    else if (attempt->changes_rounds)
        parameter->rounds_ended_at = position;
    commit(attempt, parameter);
    *wakes_writer = place.is_first;
    changed->reply = (struct ps_change_reply){.version = version, .position = place.position};
    return PS_OK;
}

/* The new spec is checked as a parameter that comes is. A configuration takes room in a
 * checkpoint's header, as the one before did. */
static enum ps_status prepare(struct attempt *attempt, struct ps_parameter *parameter,
                              struct ps_error *error)
{
    struct ps_service *service = attempt->service;
    /* What goes needs nothing. */
    if (attempt->drops)
        return PS_OK;
    PS_TRY(ps_parameter_change(parameter->spec, attempt->request->change, &attempt->fresh, error));
    PS_ASSERT(attempt->fresh->settings.rule == parameter->spec->settings.rule);
    PS_TRY(ps_service_measure_header(service, attempt->fresh, error));
    PS_TRY(ps_service_check_header(service, attempt->fresh, error));
    PS_TRY(check_room(service, parameter, attempt->fresh, error));
    struct ps_contributions *rounds;
    /* Those of the parameter itself are not the attempt's to destroy. */
    PS_TRY(ps_parameter_rounds_under(parameter, attempt->fresh, &rounds, error));
    PS_ASSERT(attempt->rounds == NULL);
    attempt->changes_rounds = rounds != parameter->rounds;
    attempt->rounds = attempt->changes_rounds ? rounds : NULL;
    return PS_OK;
}

/* The gradients of more workers may have to be held at once, which is asked for here and never at a
 * push: a worker that is refused for want of room would hold up all others. Fewer workers are
 * always possible, also beyond the limit. The text is that of a parameter that has no room. */
static enum ps_status check_room(const struct ps_service *service,
                                 const struct ps_parameter *parameter,
                                 const struct ps_parameter_spec *fresh, struct ps_error *error)
{
    /* Reserved with the parameter; without rounds both are 0, and the rest of its bytes stays what
     * it is. */
    uint64_t before = ps_contributions_bytes_max(parameter->spec);
    uint64_t after = ps_contributions_bytes_max(fresh);
    uint64_t used = ps_service_bytes_counted(service) - before;
    PS_ASSERT(service->bytes_used >= before);
    if (after <= before || (used <= service->bytes_max && after <= service->bytes_max - used))
        return PS_OK;
    return ps_refuse(error, PS_ERR_BUSY, PS_REFUSED_MEMORY, 0,
                     "memory limit: %" PRIu64 " bytes needed for contributions to rounds, %" PRIu64
                     " used, limit %" PRIu64 " (--memory-bytes)",
                     after, used, service->bytes_max);
}

/* What the device has queued so far goes by the former settings, and is known only now that no push
 * is under way. */
static void commit(struct attempt *attempt, struct ps_parameter *parameter)
{
    PS_ASSERT(attempt->drops == (attempt->fresh == NULL));
    if (attempt->drops) {
        attempt->dropped = ps_table_drop(attempt->service, parameter);
        return;
    }
    attempt->due = ps_parameter_due(parameter);
    attempt->former =
        ps_table_configure(attempt->service, parameter, attempt->fresh,
                           attempt->changes_rounds ? attempt->rounds : parameter->rounds);
    attempt->fresh = NULL;
    attempt->rounds = NULL;
}

/* Without the cut. What a device has queued reads the former settings: it is waited for, and where
 * the device is dead they stay until the process ends. */
static void end(struct attempt *attempt)
{
    PS_ASSERT(attempt->dropped == NULL || attempt->former == NULL);
    ps_parameter_destroy(attempt->dropped);
    ps_parameter_spec_release(attempt->fresh);
    ps_contributions_destroy(attempt->rounds);
    if (attempt->former != NULL &&
        ps_device_store_wait(attempt->service->device_store, attempt->due, NULL) == PS_OK)
        ps_parameter_spec_release(attempt->former);
}
