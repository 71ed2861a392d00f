/* SPDX-License-Identifier: Apache-2.0 */
/* May this server answer for its shard? A lease is proved until a moment (promise P4), and past it
 * nothing is answered, whether anybody has noticed or not: so every call asks the clock, and waits
 * for no word from outside. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"
#include "server/core/update/row_ages.h"

#include <stdio.h>

#define JUMPED \
    "the wall clock was set ahead, or the machine was paused; it will be proved again soon"

static void age_until(struct ps_service *service, uint64_t until_ms);
static enum ps_status fail_fenced(struct ps_service *service, struct ps_error *error);

void ps_service_begin_fence(struct ps_service *service)
{
    ps_mutex_init(&service->fence_lock, PS_RANK_LEAF);
    service->aging_until_ms = PS_DEADLINE_NEVER;
}

/* The wall clock's offset is kept beside the moment: a process that was stopped with its machine
 * finds the monotonic clock where it was, and the wall clock far ahead. */
void ps_service_prove(struct ps_service *service, uint64_t until_ms)
{
    bool before = ps_service_is_proved(service);
    age_until(service, until_ms);
    /* The offset is stored before the moment: whoever sees the new moment compares with the offset
     * that belongs to it. */
    atomic_store(&service->proved_offset_ms, ps_clock_offset_ms(service->clock));
    atomic_store(&service->proved_until_ms, until_ms);
    /* A proof that was only renewed changes nothing for anybody. */
    if (before != ps_service_is_proved(service))
        ps_service_tell_changed(service, PS_TOPIC_BIT(PS_TOPIC_LIFE));
}

/* Without any lock, by every call, some several times: two loads, and each clock is read once. */
bool ps_service_is_proved(const struct ps_service *service)
{
    uint64_t now_ms = ps_now_ms(service->clock);
    int64_t offset_ms = ps_clock_offset_at(service->clock, now_ms);
    return now_ms < atomic_load(&service->proved_until_ms) &&
           offset_ms - atomic_load(&service->proved_offset_ms) <= PS_CLOCK_JUMP_MS;
}

/* What has passed since the former proof ended is taken out. Nothing is known from before the first
 * one, when there are no rows either. */
static void age_until(struct ps_service *service, uint64_t until_ms)
{
    ps_mutex_lock(&service->fence_lock);
    uint64_t now_ms = ps_now_ms(service->clock);
    if (now_ms > service->aging_until_ms)
        service->not_aged_ms += now_ms - service->aging_until_ms;
    /* A proof that is taken back ends now, and not before. */
    service->aging_until_ms = until_ms > now_ms ? until_ms : now_ms;
    PS_ASSERT(service->not_aged_ms <= now_ms);
    ps_mutex_unlock(&service->fence_lock);
}

/* The clock is read under the lock, so that no caller's time is before that of one who asked
 * earlier. */
uint64_t ps_service_row_time(const struct ps_service *service)
{
    struct ps_mutex *lock = &((struct ps_service *)service)->fence_lock;
    ps_mutex_lock(lock);
    uint64_t now_ms = ps_now_ms(service->clock);
    uint64_t aged_ms = now_ms < service->aging_until_ms ? now_ms : service->aging_until_ms;
    PS_ASSERT(service->not_aged_ms <= aged_ms);
    aged_ms -= service->not_aged_ms;
    ps_mutex_unlock(lock);
    return ps_row_ages_time(aged_ms);
}

/* Only told to callers that are refused; it decides nothing. */
void ps_service_note_unkept(struct ps_service *service, const struct ps_error *why)
{
    ps_mutex_lock(&service->fence_lock);
    snprintf(service->fence_reason, sizeof service->fence_reason, "%.159s",
             why != NULL ? why->text : "");
    ps_mutex_unlock(&service->fence_lock);
}

/* In the order of what an operator has to know first. */
const char *ps_service_state_name(const struct ps_service *service)
{
    if (atomic_load(&service->broken))
        return "broken";
    if (atomic_load(&service->draining) || atomic_load(&service->leaving))
        return "draining";
    if (ps_service_phase(service) == PS_PHASE_STARTING)
        return "starting";
    if (ps_service_phase(service) == PS_PHASE_RECOVERING)
        return "recovering";
    if (!ps_service_is_proved(service))
        return "fenced";
    return ps_service_phase(service) == PS_PHASE_READY ? "ready" : "uninitialized";
}

/* A server that goes away says so here before it refuses calls: clients then leave by
 * themselves. */
bool ps_service_is_serving(const struct ps_service *service)
{
    enum ps_phase phase = ps_service_phase(service);
    PS_ASSERT(phase <= PS_PHASE_READY);
    return (phase == PS_PHASE_READY || phase == PS_PHASE_UNINITIALIZED) &&
           ps_service_is_proved(service) && !atomic_load(&service->leaving) &&
           !atomic_load(&service->draining) && !atomic_load(&service->broken);
}

/* A server that drains takes nothing new, and still acknowledges what it has applied: that asks
 * ps_service_owns. */
enum ps_status ps_service_admit(const struct ps_service *service, struct ps_error *error)
{
    if (atomic_load(&service->draining))
        return ps_fail(error, PS_ERR_UNAVAILABLE, "shutting down");
    return ps_service_owns(service, error);
}

/* A server may come back at the address where clients knew it, as the owner of another shard. */
enum ps_status ps_service_admit_for(const struct ps_service *service, uint32_t shard,
                                    struct ps_error *error)
{
    PS_TRY(ps_service_admit(service, error));
    PS_ASSERT(service->index < service->shard_count);
    if (shard == 0 || shard - 1 == service->index)
        return PS_OK;
    return ps_fail(error, PS_ERR_NOT_OWNER,
                   "the request is for shard %u, this server owns shard %u; nothing changed",
                   shard - 1, service->index);
}

/* The device comes first, since its failure is for good; the proof last, since it is the only one
 * that may come back by itself. */
enum ps_status ps_service_owns(const struct ps_service *service, struct ps_error *error)
{
    if (atomic_load(&service->broken))
        return ps_fail(error, PS_ERR_UNAVAILABLE,
                       "broken: the device failed, and this server ends; try again soon");
    if (ps_service_phase(service) == PS_PHASE_STARTING)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "starting: this server does not own a shard yet");
    if (ps_service_phase(service) == PS_PHASE_RECOVERING)
        return ps_fail(error, PS_ERR_UNAVAILABLE,
                       "recovering: this server replays its journal; try again soon");
    if (!ps_service_is_proved(service))
        return fail_fenced((struct ps_service *)service, error);
    return PS_OK;
}

/* With what stands in the way, if it is known: a full disk is to be cleared, not a rival found, and
 * whoever has set the clock is to know that it was that. */
static enum ps_status fail_fenced(struct ps_service *service, struct ps_error *error)
{
    ps_mutex_lock(&service->fence_lock);
    PS_ASSERT(service->fence_reason[sizeof service->fence_reason - 1] == '\0');
    bool known = service->fence_reason[0] != '\0';
    bool jumped = !known && ps_now_ms(service->clock) < atomic_load(&service->proved_until_ms);
    (void)ps_fail(error, PS_ERR_UNAVAILABLE,
                  "fenced: this server cannot prove that it still owns its shard%s%s",
                  known || jumped ? ": " : "", jumped ? JUMPED : service->fence_reason);
    ps_mutex_unlock(&service->fence_lock);
    return PS_ERR_UNAVAILABLE;
}
