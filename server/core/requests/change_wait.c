/* SPDX-License-Identifier: Apache-2.0 */
/* The questions of a push, for requests that are none. */
#include "server/core/requests/change_wait.h"

#include "base/assert.h"

/* Whose shard it is comes before what state it is in, as for a push. */
enum ps_status ps_change_check_ready(const struct ps_service *service, uint32_t shard,
                                     struct ps_error *error)
{
    PS_ASSERT(service->queue.journals || !service->saves || service->ack != PS_ACK_LOGGED);
    PS_TRY(ps_service_admit_for(service, shard, error));
    if (ps_service_phase(service) != PS_PHASE_READY)
        return ps_fail(error, PS_ERR_NOT_READY, "pserver not fully initialized");
    return PS_OK;
}

/* No level is asked for by such a request: what the server was started with holds. One look for
 * all: positions and generation are of one instant. */
void ps_change_begin_wait(struct ps_service *service, uint64_t position, struct ps_push_wait *wait,
                          uint64_t *durable)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(position <= state.position);
    PS_ASSERT(state.generation > 0);
    /* As for a push: a journal that lags holds every answer back, so that its senders slow down. */
    if (wait != NULL)
        *wait = (struct ps_push_wait){.position = service->ack == PS_ACK_LOGGED ? position : 0,
                                      .lagging = state.lags ? position : 0,
                                      .generation = state.generation};
    *durable = state.durable;
}
