/* SPDX-License-Identifier: Apache-2.0 */
/* A service and its phases: what it is made of, from starting to ready, drained at the end, and
 * what always holds of it. May it answer, says service_fence.c. */
#include "server/core/requests/service.h"

#include "base/assert.h"
#include "checkpoint/header_bytes.h"
#include "optimizer/optimizer.h"
#include "server/core/requests/expire_rows.h"
#include "server/core/requests/program_calls.h"
#include "server/core/requests/rendezvous_calls.h"
#include "server/core/requests/service_state.h"

#include <inttypes.h>
#include <stdio.h>

#define CLIENTS_MAX_DEFAULT 16384
#define IDLE_MS_DEFAULT ((uint64_t)3600 * 1000)
#define STAGING_BYTES_DEFAULT ((uint64_t)1 << 30)
#define QUEUE_BYTES_DEFAULT ((uint64_t)64 << 20)

static void drop_state(struct ps_service *service);

/* Everything that can fail comes first, while there is nothing to take apart: the header's size is
 * measured before the parts are made. */
enum ps_status ps_service_create(const struct ps_service_options *options,
                                 struct ps_service **service, struct ps_error *error)
{
    PS_ASSERT(options->memory != NULL && options->clock != NULL);
    PS_ASSERT(options->saves || !options->journals);
    PS_ASSERT(options->ack <= PS_ACK_MEMORY ||
              (options->ack == PS_ACK_LOGGED && options->journals));
    struct ps_service *created = ps_zeroed(options->memory, sizeof *created);
    if (created == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the service");
    created->memory = options->memory;
    if (options->saves) {
        enum ps_status status =
            ps_header_facts_bytes(options->job != NULL ? options->job : "", options->memory,
                                  &created->header_bytes, error);
        if (status != PS_OK) {
            ps_release(options->memory, created);
            return status;
        }
    }
    created->block_source = options->block_source;
    created->touch_ahead = options->touch_ahead;
    created->device_store = options->device_store;
    created->clock = options->clock;
    created->log = options->log;
    /* No limit is the largest number, so that no later comparison has to ask whether there is a
     * limit. */
    created->bytes_max = options->bytes_max > 0 ? options->bytes_max : UINT64_MAX;
    created->row_room.bytes_max = created->bytes_max;
    created->row_room.others = &created->bytes_used;
    atomic_init(&created->row_room.bytes, 0);
    created->saves = options->saves;
    created->journal_bytes_max = options->checkpoint_journal_bytes;
    created->ack = options->ack == PS_ACK_DEFAULT ? PS_ACK_MEMORY : options->ack;
    created->device = options->device != NULL ? options->device : "cpu";
    created->job = options->job != NULL ? options->job : "";
    created->random = options->random;
    created->started_ms = ps_now_ms(options->clock);
    ps_core_metrics_init(&created->metrics, options->metrics);
    ps_rwlock_init(&created->cut, PS_RANK_TABLE);
    ps_service_begin_fence(created);
    ps_parameter_table_init(&created->table, options->memory);
    ps_tickets_init(&created->tickets);
    ps_clocks_init(&created->clocks, options->memory);
    ps_meetings_init(&created->meetings, options->memory);
    ps_service_begin_rendezvous(created, options);
    ps_service_begin_programs(created, options);
    ps_sessions_init(&created->sessions, options->memory,
                     options->clients_max > 0 ? options->clients_max : CLIENTS_MAX_DEFAULT,
                     options->client_idle_ms > 0 ? options->client_idle_ms : IDLE_MS_DEFAULT);
    ps_journal_queue_init(&created->queue, options->memory, options->journals,
                          options->journal_queue_bytes > 0 ? options->journal_queue_bytes
                                                           : QUEUE_BYTES_DEFAULT);
    ps_staging_init(&created->staging, options->memory,
                    options->staging_bytes > 0 ? options->staging_bytes : STAGING_BYTES_DEFAULT);
    ps_version_holds_init(&created->version_holds);
    PS_ASSERT(created->ack != PS_ACK_DEFAULT && created->bytes_max > 0);
    *service = created;
    return PS_OK;
}

/* No call is under way any more. Pulls in flight keep what they hold by references of their own. */
void ps_service_destroy(struct ps_service *service)
{
    if (service == NULL)
        return;
    ps_version_holds_fini(&service->version_holds);
    ps_parameter_table_fini(&service->table);
    ps_journal_queue_fini(&service->queue);
    ps_staging_fini(&service->staging);
    ps_sessions_fini(&service->sessions);
    ps_meetings_fini(&service->meetings);
    ps_mailbox_fini(&service->mailbox);
    ps_rendezvous_fini(&service->rendezvous);
    ps_clocks_fini(&service->clocks);
    ps_tickets_fini(&service->tickets);
    ps_mutex_fini(&service->fence_lock);
    ps_rwlock_fini(&service->cut);
    ps_release(service->memory, service);
}

void ps_service_listen(struct ps_service *service, const struct ps_service_listener *listener)
{
    PS_ASSERT(listener != NULL);
    service->listener = *listener;
}

/* Read by pushes without a lock: set before they come, taken back when none can be in flight. */
void ps_service_set_crew(struct ps_service *service, const struct ps_crew *crew)
{
    service->crew = crew != NULL ? *crew : (struct ps_crew){NULL, NULL};
}

void ps_service_enter_thread(void)
{
    ps_optimizer_enter_thread();
}

/* With the topics in one word: whoever hears it puts several changes together and loses none.
 * Never with a lock held: a listener may wake a thread that wants it at once. */
void ps_service_tell_changed(const struct ps_service *service, uint64_t topics)
{
    if (service->listener.changed != NULL)
        service->listener.changed(service->listener.self, topics);
}

void ps_service_tell_checkpoint_wanted(const struct ps_service *service)
{
    if (service->listener.checkpoint_wanted != NULL)
        service->listener.checkpoint_wanted(service->listener.self);
}

void ps_service_tell_journal_wanted(const struct ps_service *service)
{
    if (service->listener.journal_wanted != NULL)
        service->listener.journal_wanted(service->listener.self);
}

/* With the cut held alone, since the four numbers are one fact: a status that was read between two
 * of them would name the wrong owner. */
void ps_service_own(struct ps_service *service, uint32_t index, uint32_t shard_count,
                    uint64_t epoch, const char *address)
{
    PS_ASSERT(index < shard_count);
    ps_rwlock_write(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    service->index = index;
    service->shard_count = shard_count;
    service->epoch = epoch;
    ps_rendezvous_own(&service->rendezvous, index);
    ps_mailbox_own(&service->mailbox, index);
    /* Status replies point to it, so it is written once. */
    if (service->address[0] == '\0' && address != NULL)
        snprintf(service->address, sizeof service->address, "%s", address);
    ps_rwlock_unlock(&service->cut);
}

/* The journal begins before the phase changes: the first push must find its place. */
void ps_service_begin_empty(struct ps_service *service)
{
    ps_rwlock_write(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    PS_ASSERT(service->shard_count > 0 && service->table.count == 0);
    /* Position 0 with no checkpoint behind it: nothing is durable before the first save. */
    ps_journal_queue_begin(&service->queue, 0);
    ps_service_begin_chain(service);
    atomic_store(&service->phase, PS_PHASE_UNINITIALIZED);
    ps_rwlock_unlock(&service->cut);
    ps_service_tell_changed(service, PS_TOPIC_BIT(PS_TOPIC_LIFE));
}

/* The epoch alone would do if no store were ever lost with all that it had counted. */
void ps_service_begin_chain(struct ps_service *service)
{
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_STARTING);
    uint64_t life = 0;
    /* Life 0 is left free, since a request that names no life says 0. */
    while (life == 0) {
        if (service->random != NULL)
            life = ps_random_next(service->random);
        else
            ps_random_system(&life, sizeof life);
    }
    service->chain = (struct ps_chain){service->epoch, life};
}

/* Where files are written first, and not where the service begins: one that saves nothing has no
 * history. Until the shard is lost the same is given, so that its journal and its checkpoints
 * agree. */
struct ps_history ps_service_draw_history(struct ps_service *service)
{
    PS_ASSERT(service->clock != NULL);
    if (!ps_history_known(&service->history))
        ps_history_draw(service->random, ps_unix_ns(service->clock), &service->history);
    return service->history;
}

struct ps_history ps_service_history(struct ps_service *service)
{
    ps_rwlock_write(&service->cut);
    struct ps_history history = ps_service_draw_history(service);
    ps_rwlock_unlock(&service->cut);
    PS_ASSERT(ps_history_known(&history));
    return history;
}

void ps_service_keep_history(struct ps_service *service, const struct ps_history *history)
{
    PS_ASSERT(history != NULL);
    ps_rwlock_write(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_RECOVERING);
    service->history = *history;
    ps_rwlock_unlock(&service->cut);
}

/* Of a copy of the service's numbers: what else is drawn from them in a simulation stays as it is.
 * Half of a number is enough to tell two lives apart. */
uint32_t ps_service_new_life(const struct ps_service *service)
{
    uint32_t life = 0;
    PS_ASSERT(service->memory != NULL);
    if (service->random == NULL) {
        ps_random_system(&life, sizeof life);
        return life;
    }
    struct ps_random numbers = *service->random;
    return (uint32_t)ps_random_next(&numbers);
}

uint64_t ps_service_unix_us(const struct ps_service *service)
{
    return ps_unix_ns(service->clock) / 1000;
}

/* Any thread, without the cut: a caller that needs the phase to stay must hold it. */
enum ps_phase ps_service_phase(const struct ps_service *service)
{
    return (enum ps_phase)atomic_load(&service->phase);
}

/* The proof goes first: calls that hold no lock are refused from this moment on. The cut then waits
 * for the pushes that are under way. */
void ps_service_reset(struct ps_service *service)
{
    ps_rwlock_write(&service->cut);
    atomic_store(&service->proved_until_ms, 0);
    drop_state(service);
    ps_rwlock_unlock(&service->cut);
    ps_service_tell_changed(service, PS_TOPIC_BIT(PS_TOPIC_LIFE));
}

/* Nothing was served from this state, so that there is nobody to tell. */
void ps_service_give_up_recovery(struct ps_service *service)
{
    ps_rwlock_write(&service->cut);
    PS_ASSERT(ps_service_phase(service) == PS_PHASE_RECOVERING);
    drop_state(service);
    ps_rwlock_unlock(&service->cut);
}

/* With the cut held alone. The phase goes first, for those that look without the cut. Journal and
 * tickets begin another generation: what waits for this one is told that it is over. */
static void drop_state(struct ps_service *service)
{
    atomic_store(&service->phase, PS_PHASE_STARTING);
    /* What InitParam calls in flight have reserved stays counted until they give it back. */
    PS_ASSERT(service->bytes_used >= service->table.host_bytes);
    service->bytes_used -= service->table.host_bytes;
    ps_version_holds_clear(&service->version_holds);
    ps_gauge_set(service->metrics.round_held_bytes, 0);
    ps_parameter_table_fini(&service->table);
    ps_staging_clear(&service->staging);
    ps_clocks_clear(&service->clocks);
    ps_service_lose_rendezvous(service);
    ps_service_lose_programs(service);
    ps_sessions_clear(&service->sessions);
    ps_journal_queue_reset(&service->queue);
    ps_tickets_reset(&service->tickets);
    PS_ASSERT(service->table.count == 0);
    service->position_at_begin = 0;
    PS_ASSERT(service->table.host_bytes == 0);
    ps_service_count_clocks(service);
    service->finish_ticket = (struct ps_ticket){0};
    service->placement = 0;
    service->history = (struct ps_history){{0}};
    ps_service_count_table(service);
}

/* Calls are still served: clients that watch the health leave before any call of theirs fails. */
void ps_service_announce_stop(struct ps_service *service)
{
    atomic_store(&service->leaving, true);
    ps_service_tell_changed(service, PS_TOPIC_BIT(PS_TOPIC_LIFE));
}

/* The epoch protects the next server at this address: an operator's call may arrive late. A server
 * that owns nothing has none, and cannot be meant. */
enum ps_status ps_service_want_drain(struct ps_service *service, uint64_t epoch,
                                     struct ps_error *error)
{
    if (epoch == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Drain needs the epoch of the server that is meant, as GetStatus says");
    ps_rwlock_read(&service->cut);
    uint64_t ours = ps_service_phase(service) == PS_PHASE_STARTING ? 0 : service->epoch;
    ps_rwlock_unlock(&service->cut);
    if (epoch != ours)
        return ps_fail(error, PS_ERR_STALE_EPOCH,
                       "another server was meant (epoch given: %" PRIu64 ", this one's: %" PRIu64
                       "); nothing changed",
                       epoch, ours);
    PS_ASSERT(ours > 0);
    if (service->listener.drain_wanted == NULL)
        return ps_fail(error, PS_ERR_UNSUPPORTED, "this server does not end by a call");
    service->listener.drain_wanted(service->listener.self);
    return PS_OK;
}

/* From here on new calls are refused, and those that wait are asked again to hear of it. */
void ps_service_drain(struct ps_service *service)
{
    atomic_store(&service->draining, true);
    ps_service_tell_changed(service, PS_TOPIC_BIT(PS_TOPIC_LIFE));
}

/* Nothing clears it: a device that failed has values that nobody knows, and this process ends. */
void ps_service_break(struct ps_service *service)
{
    atomic_store(&service->broken, true);
}

/* A name that is too long is refused by its length; the refusal's text must not carry all of it. */
int ps_service_name_width(struct ps_bytes name)
{
    return name.size < PS_NAME_BYTES_MAX ? (int)name.size : PS_NAME_BYTES_MAX;
}

/* Rows come with pushes, which hold the cut shared: their part is of one moment, and no more. With
 * the cut held alone it is exact. */
uint64_t ps_service_bytes_counted(const struct ps_service *service)
{
    PS_ASSERT(service->bytes_used >= service->table.host_bytes);
    return service->bytes_used + atomic_load(&service->row_room.bytes);
}

/* Of all clocks the slowest: a gauge cannot be made for a name that comes
 * while the server runs. */
void ps_service_count_clocks(struct ps_service *service)
{
    const struct ps_clocks *clocks = &service->clocks;
    PS_ASSERT(clocks->count <= PS_CLOCKS_MAX);
    PS_ASSERT((clocks->count == 0) == (clocks->groups == NULL));
    /* A few groups are looked at for each minimum that moves, which is once for an iteration of all
     * workers. */
    uint64_t lowest = UINT64_MAX;
    for (const struct ps_clock_group *group = clocks->groups; group != NULL; group = group->next)
        if (ps_clock_group_minimum(group) < lowest)
            lowest = ps_clock_group_minimum(group);
    /* Behind the last of them nobody is slow. In an old journal a task may begin at the highest
     * number there is. */
    if (clocks->count == 0)
        lowest = 0;
    ps_gauge_set(service->metrics.clocks, (double)clocks->count);
    ps_gauge_set(service->metrics.clock_minimum, (double)lowest);
}

/* Without the parameters' own locks: what is shown may be a push behind. */
void ps_service_count_table(struct ps_service *service)
{
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(service->bytes_used >= service->table.host_bytes);
    PS_ASSERT(service->table.resident_count <= service->table.count);
    atomic_store(&service->shard_bytes, service->table.value_bytes + service->table.state_bytes);
    /* The gauge is set here as well as by pushes, since a load or a reset changes the position
     * without a push. */
    ps_gauge_set(service->metrics.position, (double)state.position);
    ps_service_count_clients(service);
    ps_gauge_set(service->metrics.parameters, (double)service->table.count);
    ps_gauge_set(service->metrics.parameter_bytes, (double)service->table.value_bytes);
    ps_gauge_set(service->metrics.counted_bytes, (double)service->table.host_bytes);
    ps_gauge_set(service->metrics.state_bytes, (double)service->table.state_bytes);
    ps_gauge_set(service->metrics.device_parameters, (double)service->table.resident_count);
}

/* Forgotten clients are counted until somebody takes the count: two callers get parts of it. */
void ps_service_count_clients(struct ps_service *service)
{
    struct ps_sessions_tally tally;
    ps_sessions_tally(&service->sessions, &tally);
    ps_gauge_set(service->metrics.clients, (double)tally.remembered);
    ps_counter_add(service->metrics.clients_forgotten, tally.newly_forgotten);
    ps_counter_add(service->metrics.clients_forgotten_early, tally.newly_forgotten_early);
}

/* After every range that came or went: they are read by whoever looks for memory that is held. */
void ps_service_count_ranges(struct ps_service *service)
{
    uint64_t bytes, newly_expired;
    size_t count;
    ps_staging_look(&service->staging, &bytes, &count, &newly_expired);
    ps_gauge_set(service->metrics.staged_bytes, (double)bytes);
    ps_gauge_set(service->metrics.staged, (double)count);
    ps_counter_add(service->metrics.staged_expired, newly_expired);
    ps_version_holds_look(&service->version_holds, &bytes, &count);
    ps_gauge_set(service->metrics.pinned_bytes, (double)bytes);
}

/* With the cut held alone no push is under way, so that numbers of different rooms must fit each
 * other: every position of the journal is a version of some parameter. */
void ps_service_check(const struct ps_service *constant)
{
    /* Looking takes the lock, which is part of the service. */
    struct ps_service *service = (struct ps_service *)constant;
    ps_rwlock_write(&service->cut);
    const struct ps_parameter_table *table = &service->table;
    ps_parameter_table_check(table);
    PS_ASSERT(service->bytes_used >= table->host_bytes);

    uint64_t versions = 0;
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(table); entry != NULL;
         entry = ps_parameter_table_next(entry))
        versions += ps_parameter_entry_parameter(entry)->version;
    struct ps_journal_state state;
    ps_journal_queue_look(&service->queue, &state);
    PS_ASSERT(state.position == service->position_at_begin + versions);
    PS_ASSERT(state.durable <= state.written && state.written <= state.position);
    PS_ASSERT(service->saves || !service->queue.journals);
    ps_journal_queue_check(&service->queue);
    ps_sessions_check(&service->sessions);
    ps_staging_check(&service->staging);
    ps_meetings_check(&service->meetings);
    ps_rendezvous_check(&service->rendezvous);
    ps_mailbox_check(&service->mailbox);
    ps_clocks_check(&service->clocks);

    enum ps_phase phase = ps_service_phase(service);
    PS_ASSERT(phase <= PS_PHASE_READY);
    PS_ASSERT(phase != PS_PHASE_STARTING || table->count == 0);
    PS_ASSERT(phase >= PS_PHASE_RECOVERING || versions == 0);
    PS_ASSERT(phase == PS_PHASE_STARTING || service->shard_count > 0);
    PS_ASSERT(phase != PS_PHASE_READY || service->chain.life != 0);
    PS_ASSERT(phase == PS_PHASE_STARTING || service->index < service->shard_count);
    ps_tickets_check(&service->tickets);
    ps_rwlock_unlock(&service->cut);
}
