/* SPDX-License-Identifier: Apache-2.0 */
/* The mark comes before the look, and the change before the look for marks: of a pull and a push at
 * one moment at least one sees the other. */
#include "server/core/requests/pull_wait.h"

#include "base/assert.h"

#include <inttypes.h>

/* A test build without a safeguard: the tests of the promises must notice (see PS_MUTATE). */
#ifdef PS_MUTATE_SKIP_ROUND_JOURNAL
static const bool rounds_are_told_early = true;
#else
static const bool rounds_are_told_early = false;
#endif
/* Another one: what a round made behind the first look is told with the values that were taken. The
 * simulator's other lanes end such rounds. */
#ifdef PS_MUTATE_SKIP_ROUND_TAKEN
static const bool what_was_taken_is_told = true;
#else
static const bool what_was_taken_is_told = false;
#endif

/* Leaves the mark of a name. A mark may outlive its waiter, whose client has gone: the next change
 * then wakes nobody, and takes the mark away. */
uint32_t ps_pull_await_name(struct ps_service *service, struct ps_bytes name)
{
    uint32_t topic = ps_topic_of_name(name);
    PS_ASSERT(topic >= PS_TOPIC_NAMED && topic < PS_TOPIC_COUNT);
    atomic_fetch_or(&service->awaited, PS_TOPIC_BIT(topic));
    return topic;
}

/* What a round made is told when its record, or one behind it, is durable. Most parameters have no
 * such position. */
static enum ps_status check_journal(struct ps_service *service, struct ps_parameter *parameter,
                                    uint64_t position, struct ps_pull_wait *wait,
                                    struct ps_error *error)
{
    struct ps_journal_state state;
    PS_ASSERT(wait != NULL);
    if (position == 0 || !service->queue.journals || rounds_are_told_early)
        return PS_OK;
    ps_journal_queue_look(&service->queue, &state);
    if (position <= state.durable)
        return PS_OK;
    /* What clocks have left in it stays: others are told of that. */
    wait->topic = PS_TOPIC_JOURNAL;
    wait->again_ms = 0;
    return ps_fail(error, PS_ERR_NOT_READY,
                   "parameter: %.64s, version %" PRIu64 " is not in the journal yet",
                   (const char *)parameter->spec->name.data, ps_parameter_version(parameter));
}

/* The second look sees a contribution that came before the mark was left, and told nobody. A pull
 * that waits for the journal leaves no mark: every write of the journal asks such pulls again. Who
 * is missing is what people want to know of a round that does not end. */
static enum ps_status check_round(struct ps_service *service, struct ps_parameter *parameter,
                                  uint64_t wanted, struct ps_pull_wait *wait,
                                  struct ps_round_effects *effects, struct ps_error *error)
{
    struct ps_round_view view;
    struct ps_bytes name = parameter->spec->name;
    PS_ASSERT(wanted > 0 && parameter->rounds != NULL);
    ps_rounds_look(service, parameter, &view, effects);
    if (view.version < wanted) {
        wait->topic = ps_pull_await_name(service, name);
        ps_rounds_look(service, parameter, &view, effects);
    }
    wait->again_ms = effects->again_ms;
    if (view.version < wanted)
        return ps_fail(error, PS_ERR_NOT_READY,
                       "parameter: %.64s is at version %" PRIu64 ", waited for: %" PRIu64
                       "; round %" PRIu64 " has %u of %u contributions, missing:%s",
                       (const char *)name.data, view.version, wanted, view.version + 1,
                       (unsigned)view.there, (unsigned)view.needed, view.missing);
    return check_journal(service, parameter, view.position, wait, error);
}

/* Looked at twice: most pulls that name a version find it there, and leave no mark for a push to
 * clear away. */
enum ps_status ps_pull_wait_check(struct ps_service *service, struct ps_parameter *parameter,
                                  const struct ps_pull_request *request, struct ps_pull_wait *wait,
                                  struct ps_round_effects *effects, struct ps_error *error)
{
    uint64_t wanted = request->version == 0 ? request->at_least_version : 0;
    PS_ASSERT(wait != NULL && !effects->tells);
    if (wanted != 0 && parameter->rounds != NULL)
        return check_round(service, parameter, wanted, wait, effects, error);
    if (wanted == 0)
        return PS_OK;
    if (ps_parameter_version(parameter) >= wanted)
        return check_journal(service, parameter, parameter->rounds_ended_at, wait, error);
    uint32_t topic = ps_pull_await_name(service, request->name);
    /* A push that came before the mark was left tells nobody, and is seen here. */
    uint64_t version = ps_parameter_version(parameter);
    if (version >= wanted)
        return check_journal(service, parameter, parameter->rounds_ended_at, wait, error);
    *wait = (struct ps_pull_wait){.topic = topic};
    return ps_fail(
        error, PS_ERR_NOT_READY, "parameter: %.*s is at version %" PRIu64 ", waited for: %" PRIu64,
        ps_service_name_width(request->name), (const char *)request->name.data, version, wanted);
}

/* Under the lock, so that a round that is just ending is waited for: rows of its version may be
 * held already. What has ended rounds for good has the cut alone, and does not come in between. */
enum ps_status ps_pull_wait_check_held(struct ps_service *service, struct ps_parameter *parameter,
                                       const struct ps_pull_request *request,
                                       struct ps_pull_wait *wait, struct ps_error *error)
{
    struct ps_contributions *rounds = parameter->rounds;
    PS_ASSERT(wait != NULL);
    if (request->version != 0 || request->at_least_version == 0 || rounds == NULL ||
        what_was_taken_is_told)
        return PS_OK;
    ps_mutex_lock(&rounds->lock);
    uint64_t position = rounds->position;
    ps_mutex_unlock(&rounds->lock);
    return check_journal(service, parameter, position, wait, error);
}

/* The name is hashed only while some pull waits for something. Taken away together with the
 * telling: of two changes at one moment one tells, and whoever is asked then sees both. A name that
 * shares the topic loses its mark as well, and its waiters, who are asked, leave another. */
void ps_pull_wait_tell(struct ps_service *service, struct ps_bytes name)
{
    if (atomic_load(&service->awaited) == 0)
        return;
    uint64_t topic = PS_TOPIC_BIT(ps_topic_of_name(name));
    PS_ASSERT(name.data != NULL || name.size == 0);
    if ((atomic_fetch_and(&service->awaited, ~topic) & topic) != 0)
        ps_service_tell_changed(service, topic);
}
