/* SPDX-License-Identifier: Apache-2.0 */
/* What the rendezvous needs of the service. It has nothing to do with parameters, so that the
 * shard need not be initialised, and nothing is journaled: a value that is in memory is
 * acknowledged.
 *
 * Whoever waits is told by the topic of its step. All that touches every step tells every topic
 * that has a name: it happens once in the life of a shard, or when somebody forgot to clean up.
 *
 * The clock is read here and handed down: what the rendezvous decides depends on nothing but what
 * it was told. Admission is asked before a request changes anything, and once more before values
 * are given away: between the two a lease may have run out, and another server may have begun.
 *
 * A call that is refused because the shard has moved is sent to the new owner by its client. There
 * the step is another one, and the epoch that the client names says so: the answer is that the
 * step was lost, and not a wait for values that will never come. */
#include "server/core/requests/rendezvous_calls.h"

#include "base/assert.h"
#include "base/random.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>
#include <stdio.h>

/* Every topic that a step may have. */
#define EVERY_STEP (~(PS_TOPIC_BIT(PS_TOPIC_NAMED) - 1))

/* Content of one reply: more stays with its receives for the next. The largest message that a
 * client takes, less what is beside the content. */
#define REPLY_CONTENT_BYTES_MAX ((uint64_t)PS_MESSAGE_BYTES_DEFAULT)

/* What options of 0 stand for. */
#define BYTES_DEFAULT ((uint64_t)1 << 30)
enum { STEPS_DEFAULT = 4096, ENTRIES_DEFAULT = 65536, LIFETIME_MS_DEFAULT = 10 * 60 * 1000 };

/* One step may take all that there is, unless somebody has said otherwise: most jobs have one at a
 * time. */
void ps_service_begin_rendezvous(struct ps_service *service,
                                 const struct ps_service_options *options)
{
    /* Zero stands for a default, as in every other option of the service. */
    uint64_t bytes = options->rendezvous_bytes;
    bytes = bytes != 0 ? bytes : BYTES_DEFAULT;
    const struct ps_rendezvous_bounds bounds = {
        .bytes_max = bytes,
        .step_bytes_max =
            options->rendezvous_step_bytes != 0 ? options->rendezvous_step_bytes : bytes,
        .steps_max = options->rendezvous_steps != 0 ? options->rendezvous_steps : STEPS_DEFAULT,
        .step_entries_max =
            options->rendezvous_keys != 0 ? options->rendezvous_keys : ENTRIES_DEFAULT,
        .lifetime_ms =
            options->rendezvous_idle_ms != 0 ? options->rendezvous_idle_ms : LIFETIME_MS_DEFAULT};
    PS_ASSERT(bounds.steps_max > 0);
    ps_rendezvous_init(&service->rendezvous, service->memory, &bounds,
                       ps_service_new_life(service));
}

/* With the cut held alone, so that no call is admitted meanwhile. Whoever waits hears of the end of
 * the shard in any case, and looks. */
void ps_service_lose_rendezvous(struct ps_service *service)
{
    PS_ASSERT(service->rendezvous.life != 0);
    ps_rendezvous_lose(&service->rendezvous, ps_service_new_life(service));
    ps_gauge_set(service->metrics.rendezvous_steps, 0);
    ps_gauge_set(service->metrics.rendezvous_bytes, 0);
}

/* The gauges are as old as the last turn: whoever looks for memory that nobody gives back looks for
 * longer. */
void ps_service_sweep_rendezvous(struct ps_service *service)
{
    /* Two numbers of one look. */
    uint64_t steps, bytes;
    PS_ASSERT(service->clock != NULL);
    if (ps_rendezvous_sweep(&service->rendezvous, ps_now_ms(service->clock)))
        ps_service_tell_changed(service, EVERY_STEP);
    ps_rendezvous_look(&service->rendezvous, &steps, &bytes);
    ps_gauge_set(service->metrics.rendezvous_steps, (double)steps);
    ps_gauge_set(service->metrics.rendezvous_bytes, (double)bytes);
}

/* The topic goes by a name, as those of parameters and barriers do. */
static uint32_t topic_of_step(uint64_t step)
{
    char name[32];
    /* Twenty digits at most. */
    int length = snprintf(name, sizeof name, "step/%" PRIu64, step);
    PS_ASSERT(length > 0 && (size_t)length < sizeof name);
    return ps_topic_of_name((struct ps_bytes){(const uint8_t *)name, (size_t)length});
}

/* Whose shard it is may change behind this look: then the step has ended, and says so. */
static enum ps_status admit(struct ps_service *service, uint32_t shard, struct ps_error *error)
{
    ps_rwlock_read(&service->cut);
    enum ps_status status = ps_service_admit_for(service, shard, error);
    ps_rwlock_unlock(&service->cut);
    PS_ASSERT(status == PS_OK || error == NULL || error->status == status);
    return status;
}

/* One reading of the clock for each request. */
static struct ps_rendezvous_of of_step(const struct ps_service *service, uint64_t step,
                                       uint64_t epoch)
{
    PS_ASSERT(service->clock != NULL);
    return (struct ps_rendezvous_of){step, epoch, ps_now_ms(service->clock)};
}

/* The value is made before the lock of the rendezvous is taken, and kept where the network has put
 * it if it is large. */
enum ps_status ps_service_send_tensor(struct ps_service *service,
                                      const struct ps_send_tensor_request *request,
                                      const struct ps_hold *hold,
                                      struct ps_send_tensor_reply *reply, struct ps_error *error)
{
    bool wakes;
    struct ps_send_tensor_reply made = {0};
    PS_ASSERT(request->facts.rank <= PS_VALUE_RANK_MAX);
    /* Before the value takes any memory. */
    PS_TRY(admit(service, request->shard, error));
    struct ps_held_value *value =
        ps_held_value_create(service->memory, &request->facts, request->content, hold);
    if (value == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a value of %zu bytes",
                       request->content.size);
    const struct ps_rendezvous_of of = of_step(service, request->step, request->epoch);
    /* Of a part the facts are those of the whole: any part may be the first to come. */
    const struct ps_rendezvous_sent sent = {.key = request->key,
                                            .token = request->token,
                                            .total = request->total,
                                            .offset = request->offset,
                                            .value = value};
    PS_TRY(ps_rendezvous_send(&service->rendezvous, &of, &sent, &made.epoch, &made.is_whole, &wakes,
                              error));
    /* On success only, as every result. */
    *reply = made;
    /* A repeat counts once more: what is counted are calls that were answered. */
    /* Of a value in parts the last counts as one. */
    if (made.is_whole)
        ps_counter_add(service->metrics.tensors_sent, 1);
    ps_counter_add(service->metrics.tensor_bytes, request->content.size);
    if (wakes)
        ps_service_tell_changed(service, PS_TOPIC_BIT(topic_of_step(request->step)));
    return PS_OK;
}

/* What was given back may be for another call: that is told first, even if this one is refused. */
enum ps_status ps_service_recv_tensors(struct ps_service *service,
                                       const struct ps_recv_tensors_request *request,
                                       uint64_t wait_ms, struct ps_tensor_wait *wait,
                                       struct ps_error *error)
{
    bool wakes = false;
    *wait = (struct ps_tensor_wait){.topic = topic_of_step(request->step), .room = request->shared};
    PS_TRY(admit(service, request->shard, error));
    const struct ps_rendezvous_of of = of_step(service, request->step, request->epoch);
    /* The lists are borrowed from the request, which lives as long as this call. */
    const struct ps_rendezvous_asked asked = {.wishes = request->wishes,
                                              .wish_count = request->wish_count,
                                              .done_with = request->done_with,
                                              .done_count = request->done_count,
                                              .give_back = request->give_back,
                                              .give_back_count = request->give_back_count,
                                              .cancel = request->cancel,
                                              .cancel_count = request->cancel_count,
                                              .range_bytes = request->range_bytes};
    enum ps_status status =
        ps_rendezvous_receive(&service->rendezvous, &of, &asked, &wait->receiving, &wakes, error);
    if (wakes)
        ps_service_tell_changed(service, PS_TOPIC_BIT(wait->topic));
    if (status != PS_OK)
        return status;
    PS_ASSERT(wait->receiving.step != NULL);
    /* A call that wants nothing is answered at once: it came to say what it is done with. */
    wait->wanted = request->wanted != 0 ? request->wanted : request->wish_count;
    wait->until_ms = ps_deadline_after(service->clock, wait_ms);
    return ps_service_await_tensors(service, wait, error);
}

/* A step that ended is told whoever has the shard by now. Values are not: a server that cannot
 * prove that it owns the shard may be beside another one that gives the same away. */
enum ps_status ps_service_await_tensors(struct ps_service *service, struct ps_tensor_wait *wait,
                                        struct ps_error *error)
{
    PS_ASSERT(wait->receiving.step != NULL);
    /* The last look takes whatever there is. */
    bool is_late = ps_now_ms(service->clock) >= wait->until_ms;
    enum ps_status status =
        ps_rendezvous_collect(&service->rendezvous, &wait->receiving, wait->wanted,
                              REPLY_CONTENT_BYTES_MAX, is_late, error);
    if (status == PS_OK || status == PS_ERR_NOT_READY) {
        enum ps_status admitted = admit(service, 0, error);
        if (admitted != PS_OK)
            return admitted;
    }
    if (status == PS_OK)
        ps_counter_add(service->metrics.tensors_received, wait->receiving.count);
    return status;
}

/* Never 0, which would say that the call has all the time there is. */
uint64_t ps_service_tensors_again_ms(const struct ps_service *service,
                                     const struct ps_tensor_wait *wait)
{
    PS_ASSERT(wait->receiving.step != NULL);
    uint64_t left_ms = ps_time_left_ms(service->clock, wait->until_ms);
    return left_ms > 0 ? left_ms : 1;
}

/* Left for every call, of whatever method: the service may be none in a test that serves no
 * rendezvous. */
void ps_service_leave_tensors(struct ps_service *service, struct ps_tensor_wait *wait)
{
    PS_ASSERT(wait->receiving.rows == NULL || service != NULL);
    if (wait->receiving.rows != NULL)
        ps_rendezvous_release(&service->rendezvous, &wait->receiving);
}

/* ---- Steps ---- */

/* A step that becomes strict may end receives that waited: their calls are told. */
static enum ps_status begin_step(struct ps_service *service, const struct ps_step_request *request,
                                 uint64_t *epoch, struct ps_error *error)
{
    bool wakes;
    const struct ps_rendezvous_of of = of_step(service, request->step, request->epoch);
    PS_ASSERT(request->act == PS_STEP_BEGIN);
    enum ps_status status =
        ps_rendezvous_begin(&service->rendezvous, &of, request->session, request->is_strict,
                            request->lifetime_ms, epoch, &wakes, error);
    if (wakes)
        ps_service_tell_changed(service, PS_TOPIC_BIT(topic_of_step(request->step)));
    return status;
}

/* Told whether or not anybody waits: an abort is rare, and its hurry is not. */
static enum ps_status abort_step(struct ps_service *service, const struct ps_step_request *request,
                                 uint64_t *epoch, struct ps_error *error)
{
    const struct ps_rendezvous_of of = of_step(service, request->step, request->epoch);
    PS_ASSERT(request->reason != NULL);
    PS_TRY(ps_rendezvous_abort(
        &service->rendezvous, &of, request->is_internal ? PS_ERR_INTERNAL : PS_ERR_ABORTED,
        request->reason[0] != '\0' ? request->reason : "aborted", epoch, error));
    ps_service_tell_changed(service, PS_TOPIC_BIT(topic_of_step(request->step)));
    return PS_OK;
}

/* Cleaning up changes only what is there: a repeat does no harm. */
enum ps_status ps_service_control_step(struct ps_service *service,
                                       const struct ps_step_request *request, uint64_t *epoch,
                                       struct ps_error *error)
{
    *epoch = 0;
    PS_TRY(admit(service, request->shard, error));
    PS_ASSERT(ps_service_phase(service) != PS_PHASE_STARTING || service->shard_count > 0);
    /* Each act is safe to repeat: the client does so when an answer was lost. */
    switch (request->act) {
    case PS_STEP_BEGIN:
        return begin_step(service, request, epoch, error);
    case PS_STEP_ABORT:
        return abort_step(service, request, epoch, error);
    case PS_STEP_CLEANUP:
        ps_rendezvous_cleanup(&service->rendezvous, request->step);
        ps_service_tell_changed(service, PS_TOPIC_BIT(topic_of_step(request->step)));
        return PS_OK;
    case PS_STEP_CLEANUP_ALL:
        ps_rendezvous_cleanup_all(&service->rendezvous);
        ps_service_tell_changed(service, EVERY_STEP);
        return PS_OK;
    case PS_STEP_NOTHING:
        break;
    }
    return ps_fail(error, PS_ERR_BAD_INPUT, "a step is begun, aborted or cleaned up");
}
