/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the journal go the way that the pushes went: the same arithmetic, the same order for
 * each parameter, and so the same bits (promise P5). What a push asks besides (lease,
 * acknowledgement, room in the queue) was asked when it came; what it leaves besides (its session)
 * is left again, so that a repeat which comes after the crash is still recognised. */
#include "server/core/recovery/recovery_apply.h"

#include "base/assert.h"
#include "server/core/recovery/recovery_change.h"
#include "server/core/recovery/recovery_round.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>

static enum ps_status replay_update(struct ps_service *service, const struct ps_record *record,
                                    struct ps_error *reason);
static enum ps_status replay_push(struct ps_service *service, const struct ps_record *record,
                                  struct ps_error *reason);
static enum ps_status check_version(struct ps_parameter *parameter, uint64_t version,
                                    struct ps_error *reason);

/* The cut is held shared as by a push, so that records of different parameters are applied by
 * several threads at once, and each parameter's lock orders those of one. */
enum ps_status ps_recovery_apply(struct ps_service *service, const struct ps_record *record,
                                 struct ps_error *error)
{
    struct ps_error reason = {0};
    bool is_of_update = record->type == PS_RECORD_PUSH || record->type == PS_RECORD_HELD ||
                        record->type == PS_RECORD_ROUND;
    enum ps_status status = is_of_update ? replay_update(service, record, &reason)
                                         : ps_recovery_change(service, record, &reason);
    if (status == PS_OK)
        return PS_OK;
    /* Whatever refuses a record that was once applied: they do not belong together. A parameter
     * that fits no more is the limit's fault. */
    if (status != PS_ERR_NO_MEMORY && status != PS_ERR_UNSUPPORTED && status != PS_ERR_BUSY)
        status = PS_ERR_CORRUPT;
    return ps_fail(error, status,
                   "journal: the record at position %" PRIu64 " does not fit the state: %.180s",
                   record->position, reason.text);
}

/* Counted with the cut held, so that whoever looks at positions and versions sees both or none. */
static enum ps_status replay_update(struct ps_service *service, const struct ps_record *record,
                                    struct ps_error *reason)
{
    ps_rwlock_read(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_RECOVERING);
    enum ps_status status = record->type == PS_RECORD_PUSH
                                ? replay_push(service, record, reason)
                                : ps_recovery_round(service, record, reason);
    if (status == PS_OK)
        ps_journal_queue_replayed(&service->queue);
    ps_rwlock_unlock(&service->cut);
    return status;
}

/* Nobody is served yet, so what is looked at between the locks stays as it is. A state that was put
 * together of parts may have some parameters at later versions than others. A record that a
 * parameter has seen already, or that belongs to a parameter which is not there, is skipped; the
 * position counts it all the same, since positions are the journal's and not the state's. So does
 * the request: the sessions are of the oldest part, and its client may ask once more. */
enum ps_status ps_recovery_apply_missing(struct ps_service *service, const struct ps_record *record,
                                         struct ps_error *error)
{
    ps_rwlock_write(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_RECOVERING);
    /* A contribution makes no version by which it could be told from one that was seen. */
    bool is_missing =
        ps_recovery_is_missing(service, record) && !ps_recovery_round_is_held(service, record);
    enum ps_status status = PS_OK;
    if (!is_missing)
        status = ps_recovery_remember(service, record, error);
    if (!is_missing && status == PS_OK) {
        ps_journal_queue_replayed(&service->queue);
        service->position_at_begin++;
    }
    ps_rwlock_unlock(&service->cut);
    return is_missing ? ps_recovery_apply(service, record, error) : status;
}

/* The same questions that a push is asked, in the same words, since the answer goes into one text
 * with the position: which record does not fit is the first thing that whoever looks at the damage
 * needs. */
static enum ps_status replay_push(struct ps_service *service, const struct ps_record *record,
                                  struct ps_error *reason)
{
    struct ps_parameter *parameter = ps_parameter_table_find(&service->table, record->name);
    if (parameter == NULL)
        return ps_fail(reason, PS_ERR_NOT_FOUND, "parameter: %.*s does not exist",
                       ps_service_name_width(record->name), (const char *)record->name.data);
    PS_TRY(ps_service_check_gradient(parameter->spec, record->dtype, record->encoding,
                                     record->content.size, reason));
    PS_TRY(check_version(parameter, record->version, reason));
    uint64_t version = 0;
    /* No place in the journal (NULL): the record has one, and the queue counts it when it was
     * applied. */
    const struct ps_gradient gradient = {.content = record->content, .encoding = record->encoding};
    PS_TRY(ps_parameter_push(parameter, gradient, NULL, &version, reason));
    PS_ASSERT(version == record->version);
    return ps_recovery_remember(service, record, reason);
}

/* Records of one parameter come one at a time, so the version stays what it is here. */
static enum ps_status check_version(struct ps_parameter *parameter, uint64_t version,
                                    struct ps_error *reason)
{
    PS_ASSERT(parameter->spec != NULL);
    uint64_t present = ps_parameter_version(parameter);
    if (version == present + 1)
        return PS_OK;
    return ps_fail(reason, PS_ERR_CORRUPT,
                   "Name: %s has version %" PRIu64 ", the record makes version %" PRIu64,
                   (const char *)parameter->spec->name.data, present, version);
}

/* A record without a client id was a push that nobody can repeat. The time is that of the replay:
 * no client is forgotten for its silence while the server was down. */
enum ps_status ps_recovery_remember(struct ps_service *service, const struct ps_record *record,
                                    struct ps_error *reason)
{
    bool is_held = record->type == PS_RECORD_HELD;
    bool is_push = record->type == PS_RECORD_PUSH || is_held;
    PS_ASSERT(!is_push || is_held || record->version > 0);
    if (record->client_id.size == 0)
        return PS_OK;
    const struct ps_request_id request = {.present = true,
                                          .client_id = record->client_id,
                                          .session = record->session,
                                          .sequence = record->sequence,
                                          .pushed_to =
                                              is_push ? record->name : (struct ps_bytes){0}};
    /* The version that a contribution was answered with is that of its round. */
    const struct ps_session_answer answer = {.version = record->version + (is_held ? 1 : 0),
                                             .position = record->position};
    return ps_sessions_remember(&service->sessions, &request, record->fingerprint,
                                ps_service_unix_us(service), answer, reason);
}

/* The queue is told that there is a base to recover from, of generation 0, the present: from here
 * on what is written is durable. Then the phase opens the shard, and parked calls are asked again.
 * */
void ps_recovery_finish(struct ps_service *service, uint64_t position)
{
    ps_rwlock_write(&service->cut);
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_RECOVERING);
    PS_ASSERT(state.position == position);
    PS_ASSERT(state.written == position && !state.failed);
    ps_journal_queue_saved(&service->queue, 0, 0);
    atomic_store(&service->phase, PS_PHASE_READY);
    ps_service_count_table(service);
    ps_service_count_clocks(service);
    ps_rwlock_unlock(&service->cut);
    ps_service_count_durable(service);
    ps_service_tell_changed(service, PS_TOPIC_BIT(PS_TOPIC_LIFE));
}
