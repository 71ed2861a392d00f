/* SPDX-License-Identifier: Apache-2.0 */
/* What was decided is applied and not decided again: whoever is evicted in the journal is evicted
 * here, whatever this server's clock says. Every worker is heard of by its recovery, so that nobody
 * is evicted for the time in which there was no server to hear it. */
#include "server/core/recovery/recovery_clock.h"

#include "base/assert.h"
#include "server/core/recovery/recovery_change.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_REPLAY_CLOCK_EVICTIONS
static const bool evictions_are_left_out = true;
#else
static const bool evictions_are_left_out = false;
#endif
#ifdef PS_MUTATE_SKIP_REPLAY_CLOCK_REMOVALS
static const bool removals_are_left_out = true;
#else
static const bool removals_are_left_out = false;
#endif

static enum ps_status apply(struct ps_service *service, const struct ps_record *record,
                            bool may_remove, struct ps_error *reason);
static enum ps_status set(struct ps_service *service, const struct ps_record *record,
                          struct ps_error *reason);
static enum ps_status drop(struct ps_service *service, const struct ps_record *record);
static enum ps_status say(struct ps_service *service, const struct ps_record *record,
                          struct ps_error *reason);

/* The session comes last: what was refused leaves none, and the recovery ends with it. */
enum ps_status ps_recovery_clock(struct ps_service *service, const struct ps_record *record,
                                 struct ps_error *reason)
{
    /* Shared, as the request held it: parameters are not touched. */
    ps_rwlock_read(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_RECOVERING);
    enum ps_status status = apply(service, record, true, reason);
    if (status == PS_OK)
        status = ps_recovery_remember(service, record, reason);
    /* One position of the journal, and no version of any parameter. */
    if (status == PS_OK) {
        ps_journal_queue_replayed(&service->queue);
        service->position_at_begin++;
    }
    ps_rwlock_unlock(&service->cut);
    return status;
}

/* A checkpoint has the clocks that there were, and so none that went. */
enum ps_status ps_recovery_clock_state(struct ps_service *service, const struct ps_record *record,
                                       struct ps_error *reason)
{
    PS_ASSERT(service != NULL);
    return apply(service, record, false, reason);
}

/* Both readers give contents in one piece; an empty one is refused by its codec. */
static struct ps_bytes content_of(const struct ps_record *record)
{
    PS_ASSERT(record->content.piece_count <= 1);
    return record->content.piece_count == 1 ? record->content.pieces[0] : (struct ps_bytes){0};
}

/* Of a journal's record and of a checkpoint's nearly the same: state, and nothing else. */
static enum ps_status apply(struct ps_service *service, const struct ps_record *record,
                            bool may_remove, struct ps_error *reason)
{
    struct ps_clocks_record settings;
    bool sets = record->type == PS_RECORD_CLOCKS;
    PS_ASSERT(sets || record->type == PS_RECORD_CLOCK);
    if (sets && !may_remove)
        PS_TRY(ps_clocks_record_read_kept(content_of(record), &settings, reason));
    ps_mutex_lock(&service->clocks.lock);
    enum ps_status status = sets ? set(service, record, reason) : say(service, record, reason);
    ps_mutex_unlock(&service->clocks.lock);
    return status;
}

/* With the clocks' lock, as the request did. Settings that come again, over those of a checkpoint
 * that has them already, change nothing: so the order of both does not matter. */
static enum ps_status set(struct ps_service *service, const struct ps_record *record,
                          struct ps_error *reason)
{
    struct ps_clocks_record settings;
    struct ps_clock_group *group = NULL;
    PS_ASSERT(record->type == PS_RECORD_CLOCKS);
    /* A file may come from anywhere: all that the request was asked is asked once more. */
    PS_TRY(ps_clocks_record_read(content_of(record), &settings, reason));
    if (ps_clocks_record_removes(&settings))
        return drop(service, record);
    PS_TRY(ps_clock_settings_check(&settings, reason));
    PS_TRY(ps_clocks_prepare(&service->clocks, record->name, settings.workers, &group, reason));
    /* Ranks that come begin at the minimum of this moment, which is that of the request: all
     * records before it are applied by now. Of a checkpoint's settings there is nothing before. */
    ps_clock_group_configure(group, &settings, ps_now_ms(service->clock));
    group->position = record->position;
    ps_clocks_keep(&service->clocks, group);
    return PS_OK;
}

/* Only what was there was removed; in a state that was put together of parts it may be missing, and
 * then nothing is to be done. */
static enum ps_status drop(struct ps_service *service, const struct ps_record *record)
{
    struct ps_clock_group *group = ps_clocks_find(&service->clocks, record->name);
    PS_ASSERT(record->position > 0);
    if (group != NULL && !removals_are_left_out)
        ps_clocks_remove(&service->clocks, group, record->position);
    return PS_OK;
}

/* A clock of a worker that its settings do not have is damage, or a state without its clocks. */
static enum ps_status say(struct ps_service *service, const struct ps_record *record,
                          struct ps_error *reason)
{
    struct ps_clock_record becomes;
    struct ps_clock_group *group = NULL;
    PS_ASSERT(record->type == PS_RECORD_CLOCK);
    PS_TRY(ps_clock_record_read(content_of(record), &becomes, reason));
    /* Others have read because of an eviction: a worker that is waited for again would hold back
     * those who are ahead of it already. */
    becomes.evicted = becomes.evicted && !evictions_are_left_out;
    PS_TRY(ps_clocks_get(&service->clocks, record->name, &group, reason));
    if (!ps_clock_group_has(group, becomes.worker))
        return ps_fail(reason, PS_ERR_CORRUPT,
                       "clocks %.*s: worker %" PRIu32 " is not among the %" PRIu32 " there are",
                       (int)group->name_size, group->name, becomes.worker, group->settings.workers);
    /* Also a clock that is lower than the present one, in a state that was put together of parts:
     * the records that raised it come behind this one. */
    ps_clock_group_apply(group, &becomes, ps_now_ms(service->clock));
    group->workers[becomes.worker].position = record->position;
    return PS_OK;
}

/* Settings make what they need, and clocks need their settings. */
bool ps_recovery_clock_fits(struct ps_service *service, const struct ps_record *record)
{
    struct ps_clock_record becomes;
    PS_ASSERT(record->type == PS_RECORD_CLOCKS || record->type == PS_RECORD_CLOCK);
    if (record->type == PS_RECORD_CLOCKS)
        return true;
    /* Damage is not what this question is about; a record that cannot be read fits nothing. */
    if (ps_clock_record_read(content_of(record), &becomes, NULL) != PS_OK)
        return false;
    ps_mutex_lock(&service->clocks.lock);
    const struct ps_clock_group *group = ps_clocks_find(&service->clocks, record->name);
    bool fits = group != NULL && ps_clock_group_has(group, becomes.worker);
    ps_mutex_unlock(&service->clocks.lock);
    return fits;
}
