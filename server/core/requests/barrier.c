/* SPDX-License-Identifier: Apache-2.0 */
/* What a meeting of members needs of the service: whether this server may answer at all, how late
 * it is, and somebody to tell when all are there. */
#include "server/core/requests/barrier.h"

#include "base/assert.h"
#include "server/core/requests/service_state.h"

/* The last member is answered at once; the others are told without any lock, and hear of it on
 * their own lanes. */
enum ps_status ps_service_arrive(struct ps_service *service, const struct ps_arrival *arrival,
                                 uint64_t wait_ms, struct ps_barrier_wait *wait,
                                 struct ps_error *error)
{
    bool all_are_there;
    *wait = (struct ps_barrier_wait){.until_ms = PS_DEADLINE_NEVER};
    /* The shard's owner is the meeting's: without this, members that believe in two owners would
     * wait for each other at both. */
    PS_TRY(ps_service_admit(service, error));
    enum ps_status status =
        ps_meetings_arrive(&service->meetings, arrival, &wait->place, &all_are_there, error);
    /* A repeat that is let go has nothing to tell. */
    if (status == PS_OK && all_are_there)
        ps_service_tell_changed(service, PS_TOPIC_BIT(ps_topic_of_name(arrival->name)));
    if (status != PS_ERR_NOT_READY)
        return status;
    wait->topic = ps_topic_of_name(arrival->name);
    if (wait_ms != 0)
        wait->until_ms = ps_deadline_after(service->clock, wait_ms);
    return status;
}

/* A round that is over is over, whatever became of the server since: its other members may have
 * heard of it. The text of who is missing is made only for who gives up. */
enum ps_status ps_service_await_members(struct ps_service *service,
                                        const struct ps_barrier_wait *wait, struct ps_error *error)
{
    bool is_late = ps_now_ms(service->clock) >= wait->until_ms;
    PS_ASSERT(wait->place.meeting != NULL);
    enum ps_status status =
        ps_meetings_look(&service->meetings, &wait->place, is_late ? error : NULL);
    if (status == PS_OK)
        return PS_OK;
    PS_TRY(ps_service_admit(service, error));
    /* The text stands; only its word is another: late is what the member is, and not what the
     * meeting is, which goes on for those who wait longer. */
    if (is_late && error != NULL)
        error->status = PS_ERR_TIMEOUT;
    return is_late ? PS_ERR_TIMEOUT : status;
}

/* Never 0 for a wait that has an end: that would say that there is none. */
uint64_t ps_service_again_ms(const struct ps_service *service, const struct ps_barrier_wait *wait)
{
    PS_ASSERT(wait->place.meeting != NULL);
    if (wait->until_ms == PS_DEADLINE_NEVER)
        return 0;
    uint64_t left_ms = ps_time_left_ms(service->clock, wait->until_ms);
    return left_ms > 0 ? left_ms : 1;
}

/* Whoever serves calls leaves for every call, of whatever method: the service may be none in a test
 * that serves no barrier. */
void ps_service_leave(struct ps_service *service, struct ps_barrier_wait *wait)
{
    PS_ASSERT(wait->place.meeting == NULL || service != NULL);
    if (wait->place.meeting != NULL)
        ps_meetings_leave(&service->meetings, &wait->place);
}
