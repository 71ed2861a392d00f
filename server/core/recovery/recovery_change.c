/* SPDX-License-Identifier: Apache-2.0 */
/* Through the same functions as the requests (table_change.h): a definition is built by what builds
 * an InitParam's parameter, and a configuration is checked as it was then. */
#include "server/core/recovery/recovery_change.h"

#include "base/assert.h"
#include "checkpoint/journal_definition.h"
#include "checkpoint/journal_rows.h"
#include "server/core/recovery/recovery_clock.h"
#include "server/core/requests/expire_rows.h"
#include "server/core/requests/parameter_build.h"
#include "server/core/requests/table_change.h"
#include "server/core/update/parameter_change.h"
#include "server/core/update/parameter_rows.h"

#include <inttypes.h>

/* Test builds without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_REPLAY_CONFIGURES
static const bool configures_are_left_out = true;
#else
static const bool configures_are_left_out = false;
#endif
#ifdef PS_MUTATE_SKIP_REPLAY_DROP_SESSION
static const bool drop_sessions_are_left_out = true;
#else
static const bool drop_sessions_are_left_out = false;
#endif

static enum ps_status replay_define(struct ps_service *service, const struct ps_record *record,
                                    struct ps_error *reason);
static enum ps_status enter(struct ps_service *service, const struct ps_record *record,
                            struct ps_parameter *parameter, struct ps_error *reason);
static enum ps_status replay_drop(struct ps_service *service, const struct ps_record *record,
                                  struct ps_error *reason);
static enum ps_status replay_configure(struct ps_service *service, const struct ps_record *record,
                                       struct ps_error *reason);
static enum ps_status replay_sweep(struct ps_service *service, const struct ps_record *record,
                                   struct ps_error *reason);
static enum ps_status replay_expire(struct ps_service *service, const struct ps_record *record,
                                    struct ps_error *reason);
static void expire(struct ps_service *service, struct ps_parameter *parameter,
                   struct ps_bytes content, const struct ps_expire_record *expired);
static enum ps_status find_rows(const struct ps_service *service, const struct ps_record *record,
                                uint64_t before_version, struct ps_parameter **parameter,
                                struct ps_error *reason);
static enum ps_status find(const struct ps_service *service, const struct ps_record *record,
                           struct ps_parameter **parameter, struct ps_error *reason);
static enum ps_status replayed(struct ps_service *service, const struct ps_record *record,
                               struct ps_error *reason);

/* A switch without a default: a type that is added and forgotten here does not compile. */
enum ps_status ps_recovery_change(struct ps_service *service, const struct ps_record *record,
                                  struct ps_error *reason)
{
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_RECOVERING);
    PS_ASSERT(record->position > 0);
    if (record->content.piece_count > 1)
        /* The journal's reader gives one; a caller that gives more has made the record itself. */
        return ps_fail(reason, PS_ERR_CORRUPT, "a record in several pieces");
    switch (record->type) {
    case PS_RECORD_DEFINE:
        return replay_define(service, record, reason);
    case PS_RECORD_DROP:
        return replay_drop(service, record, reason);
    case PS_RECORD_CONFIGURE:
        return replay_configure(service, record, reason);
    case PS_RECORD_SWEEP:
        return replay_sweep(service, record, reason);
    case PS_RECORD_EXPIRE:
        return replay_expire(service, record, reason);
    case PS_RECORD_CLOCKS:
    case PS_RECORD_CLOCK:
        return ps_recovery_clock(service, record, reason);
    case PS_RECORD_HELD:
    case PS_RECORD_ROUND:
    case PS_RECORD_SEGMENT:
    case PS_RECORD_PUSH:
    case PS_RECORD_CANDIDATES:
        break;
    }
    /* The first of a segment is never given to callers, pushes go another way, and candidates are
     * written to checkpoints alone. */
    return ps_fail(reason, PS_ERR_UNSUPPORTED, "a record of type %d", (int)record->type);
}

/* A record that the journal's reader gives has its content in one piece. */
static struct ps_bytes content_of(const struct ps_record *record)
{
    PS_ASSERT(record->content.piece_count <= 1);
    return record->content.piece_count == 1 ? record->content.pieces[0] : (struct ps_bytes){0};
}

/* Built without the cut, as the request was; nobody else asks for memory now. */
static enum ps_status replay_define(struct ps_service *service, const struct ps_record *record,
                                    struct ps_error *reason)
{
    struct ps_definition definition;
    PS_TRY(ps_definition_read(content_of(record), &definition, reason));
    /* As the request was, but for what belongs to a call. */
    const struct ps_init_request request = {.name = record->name,
                                            .dtype = record->dtype,
                                            .content = ps_view_of(&definition.values),
                                            .config = definition.config,
                                            .shape = definition.shape};
    /* The generation of a wish is for requests, which may be overtaken by a loss of the shard. */
    struct ps_wish wish = {.defines = true};
    struct ps_parameter *parameter = NULL;
    /* A file may come from anywhere: all that InitParam asks is asked once more. */
    PS_TRY(ps_wish_check(service, &request, &wish, reason));
    PS_TRY(ps_wish_build(service, &wish, &parameter, reason));
    PS_ASSERT(parameter != NULL && wish.bytes > 0);
    ps_rwlock_write(&service->cut);
    enum ps_status status = enter(service, record, parameter, reason);
    ps_rwlock_unlock(&service->cut);
    /* What the table did not take counts nowhere. */
    if (status != PS_OK) {
        ps_parameter_destroy(parameter);
        ps_wish_unreserve(service, wish.bytes);
    }
    return status;
}

/* With the cut held alone, as the definition did. Two of one name mean that a drop is missing. */
static enum ps_status enter(struct ps_service *service, const struct ps_record *record,
                            struct ps_parameter *parameter, struct ps_error *reason)
{
    /* A request that finds one is answered without a record, so that no journal has this. */
    if (ps_parameter_table_find(&service->table, record->name) != NULL)
        return ps_fail(reason, PS_ERR_CORRUPT, "parameter: %.*s exists already",
                       ps_service_name_width(record->name), (const char *)record->name.data);
    /* What can fail comes first: a session that is remembered stays, and the record is not counted
     * then, with which the recovery ends. */
    PS_TRY(ps_table_define(service, parameter, reason));
    enum ps_status status = replayed(service, record, reason);
    if (status != PS_OK) {
        ps_table_undefine(service, parameter);
        return status;
    }
    PS_ASSERT(ps_parameter_table_find(&service->table, record->name) == parameter);
    ps_table_defined(service, parameter, record->position);
    return PS_OK;
}

/* Only what is there can go, in the version that the record says. */
static enum ps_status replay_drop(struct ps_service *service, const struct ps_record *record,
                                  struct ps_error *reason)
{
    struct ps_parameter *parameter = NULL;
    PS_ASSERT(record->type == PS_RECORD_DROP);
    ps_rwlock_write(&service->cut);
    enum ps_status status = find(service, record, &parameter, reason);
    if (status == PS_OK)
        status = replayed(service, record, reason);
    /* Its session is remembered before, while it may still fail. */
    if (status == PS_OK)
        parameter = ps_table_drop(service, parameter);
    ps_rwlock_unlock(&service->cut);
    if (status == PS_OK)
        ps_parameter_destroy(parameter);
    return status;
}

/* The record has the whole configuration and not the change: so replay needs no word for how the
 * two were put together, which a later program may do in another way. */
static enum ps_status replay_configure(struct ps_service *service, const struct ps_record *record,
                                       struct ps_error *reason)
{
    struct ps_parameter *parameter = NULL;
    struct ps_parameter_spec *spec = NULL;
    struct ps_contributions *rounds = NULL;
    struct ps_device_due due = {0};
    PS_ASSERT(record->type == PS_RECORD_CONFIGURE);
    ps_rwlock_write(&service->cut);
    enum ps_status status = find(service, record, &parameter, reason);
    /* Checked as the change was: what could not be configured cannot be replayed either. */
    if (status == PS_OK)
        status = ps_parameter_change_to(
            parameter->spec, configures_are_left_out ? parameter->spec->config : content_of(record),
            &spec, reason);
    if (status == PS_OK)
        /* Measured and not compared with the room: the service that took it has looked. */
        status = ps_service_measure_header(service, spec, reason);
    if (status == PS_OK)
        status = replayed(service, record, reason);
    /* Of a record that does not fit the recovery ends, and what was remembered goes with it. */
    if (status == PS_OK)
        status = ps_parameter_rounds_under(parameter, spec, &rounds, reason);
    if (status == PS_OK) {
        PS_ASSERT(spec != parameter->spec);
        due = ps_parameter_due(parameter);
        spec = ps_table_configure(service, parameter, spec, rounds);
    }
    ps_rwlock_unlock(&service->cut);
    /* Here `spec` is the former one, or the one that was not taken. A device may still read it. */
    if (ps_device_store_wait(service->device_store, due, NULL) == PS_OK)
        ps_parameter_spec_release(spec);
    return status;
}

/* The rows that went then go now: neither the time nor a clock is asked once more. */
static enum ps_status replay_sweep(struct ps_service *service, const struct ps_record *record,
                                   struct ps_error *reason)
{
    struct ps_parameter *parameter = NULL;
    struct ps_sweep_record sweep;
    PS_TRY(ps_sweep_record_read(content_of(record), &sweep, reason));
    /* With the cut held alone, as all that is no push: nobody else looks at the position then. */
    ps_rwlock_write(&service->cut);
    enum ps_status status = find_rows(service, record, sweep.before_version, &parameter, reason);
    if (status == PS_OK) {
        ps_service_expired(service, ps_parameter_rows_sweep(parameter, sweep.before_version));
        ps_journal_queue_replayed(&service->queue);
    }
    ps_rwlock_unlock(&service->cut);
    return status;
}

/* The same of some keys. Which of them were pushed to between the look and the record, and so have
 * stayed, is asked again, of the same versions. */
static enum ps_status replay_expire(struct ps_service *service, const struct ps_record *record,
                                    struct ps_error *reason)
{
    struct ps_parameter *parameter = NULL;
    struct ps_expire_record expired;
    PS_ASSERT(record->type == PS_RECORD_EXPIRE);
    PS_TRY(ps_expire_record_read(content_of(record), &expired, reason));
    /* As above; and a table without admission has nothing to forget a count of. */
    ps_rwlock_write(&service->cut);
    enum ps_status status = find_rows(service, record, expired.before_version, &parameter, reason);
    if (status == PS_OK && expired.counts && ps_row_table_candidates(parameter->rows) == NULL)
        status = ps_fail(reason, PS_ERR_CORRUPT, "Name: %s counts no keys",
                         (const char *)parameter->spec->name.data);
    if (status == PS_OK) {
        expire(service, parameter, content_of(record), &expired);
        ps_journal_queue_replayed(&service->queue);
    }
    ps_rwlock_unlock(&service->cut);
    return status;
}

/* As many keys at a time as there is room for here, whatever the writer had: one record all the
 * same. Each is looked up, so that a replay costs what went and not what stayed: a table of any
 * size is replayed without a walk over it, and a record that is replayed is never more work than
 * the server had with it. */
static void expire(struct ps_service *service, struct ps_parameter *parameter,
                   struct ps_bytes content, const struct ps_expire_record *expired)
{
    uint64_t keys[PS_ROW_FOUND_MAX];
    struct ps_row_removal removal = {keys, 0, expired->counts, expired->before_version};
    uint64_t gone = 0;
    PS_ASSERT(expired->count > 0);
    for (uint32_t at = 0; at < expired->count; at += removal.count) {
        /* Keys in the file need no alignment, and have one order of bytes on every machine. */
        uint32_t rest = expired->count - at;
        removal.count = rest < PS_ROW_FOUND_MAX ? rest : PS_ROW_FOUND_MAX;
        ps_expire_keys_read(content, at, removal.count, keys);
        gone += ps_parameter_rows_remove(parameter, &removal);
    }
    ps_service_expired(service, gone);
}

/* No row can be of a later version than the present one. */
static enum ps_status find_rows(const struct ps_service *service, const struct ps_record *record,
                                uint64_t before_version, struct ps_parameter **parameter,
                                struct ps_error *reason)
{
    PS_ASSERT(before_version > 0);
    /* The version that the parameter has is the record's, or find has refused it. */
    PS_TRY(find(service, record, parameter, reason));
    if ((*parameter)->rows != NULL && before_version <= record->version + 1)
        return PS_OK;
    return ps_fail(reason, PS_ERR_CORRUPT, "Name: %s has no rows of version %" PRIu64,
                   (const char *)(*parameter)->spec->name.data, before_version);
}

/* The version is that at which the change was made, which is looked at as a push's is: state and
 * journal belong together, or they do not. */
static enum ps_status find(const struct ps_service *service, const struct ps_record *record,
                           struct ps_parameter **parameter, struct ps_error *reason)
{
    /* Nobody pushes now, so the version is read without the parameter's lock. */
    struct ps_parameter *found = ps_parameter_table_find(&service->table, record->name);
    if (found == NULL)
        return ps_fail(reason, PS_ERR_NOT_FOUND, "parameter: %.*s does not exist",
                       ps_service_name_width(record->name), (const char *)record->name.data);
    if (found->version != record->version)
        return ps_fail(reason, PS_ERR_CORRUPT,
                       "Name: %s has version %" PRIu64 ", the record was made at version %" PRIu64,
                       (const char *)found->spec->name.data, found->version, record->version);
    *parameter = found;
    return PS_OK;
}

/* Its session, and its position. */
static enum ps_status replayed(struct ps_service *service, const struct ps_record *record,
                               struct ps_error *reason)
{
    PS_ASSERT(record->type != PS_RECORD_PUSH);
    if (!drop_sessions_are_left_out || record->type != PS_RECORD_DROP)
        PS_TRY(ps_recovery_remember(service, record, reason));
    ps_journal_queue_replayed(&service->queue);
    return PS_OK;
}

/* Of a parameter that came at a later position than the record the record says nothing: it is of
 * another one that had the name. */
bool ps_recovery_is_missing(struct ps_service *service, const struct ps_record *record)
{
    /* Clocks have names of their own, which say nothing of a parameter. */
    if (record->type == PS_RECORD_CLOCKS || record->type == PS_RECORD_CLOCK)
        return ps_recovery_clock_fits(service, record);
    const struct ps_parameter *parameter = ps_parameter_table_find(&service->table, record->name);
    /* What a definition brings is whole, wherever the other parts of the state come from; whatever
     * else is said of a parameter that is not there has nothing to be applied to. */
    if (parameter == NULL)
        return record->type == PS_RECORD_DEFINE;
    PS_ASSERT(record->position > 0);
    if (parameter->spec->birth >= record->position || record->type == PS_RECORD_DEFINE)
        return false;
    /* A push and a round make the version that they name; a change, and a contribution, are made at
     * the version that they name. */
    return ps_record_makes_version(record->type) ? record->version > parameter->version
                                                 : record->version >= parameter->version;
}
