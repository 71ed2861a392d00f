/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a server meet: the driver starts tasks, the service wakes threads, an operator
 * asks for the end. None of these functions waits or decides anything; each hands over to the
 * thread whose business it is. */
#include "server/instance_parts.h"

#include "base/assert.h"

#include <signal.h>
#include <unistd.h>

static void on_changed(void *self, uint64_t topics);
static void on_cluster_changed(void *self, uint64_t topics);
static void on_checkpoint_wanted(void *self);
static void on_journal_wanted(void *self);
static void on_drain_wanted(void *self);
static void hook_load(void *self, const struct ps_claim *claim, uint32_t shard_count);
static void hook_save(void *self, const struct ps_claim *claim, bool publish);
static void hook_drain(void *self, uint64_t deadline_ms);
static enum ps_status hook_listen(void *self, struct ps_error *error);

/* For the driver, which calls the hooks in the coordinator's thread. */
struct ps_coordinator_hooks ps_instance_hooks(struct ps_instance *instance)
{
    PS_ASSERT(instance->tasks != NULL && instance->rpc != NULL);
    return (struct ps_coordinator_hooks){hook_load, hook_save, hook_drain, hook_listen, instance};
}

/* For the service, which calls these functions in whatever thread caused the event. */
struct ps_service_listener ps_instance_listener(struct ps_instance *instance)
{
    PS_ASSERT(instance->driver != NULL && instance->tasks != NULL);
    return (struct ps_service_listener){.changed = on_changed,
                                        .checkpoint_wanted = on_checkpoint_wanted,
                                        .journal_wanted = on_journal_wanted,
                                        .drain_wanted = on_drain_wanted,
                                        .self = instance};
}

/* Called from the thread that caused it, with no lock held: waking is all that is done here. */
static void on_changed(void *self, uint64_t topics)
{
    struct ps_instance *instance = self;
    /* Parked calls are asked again by their lanes. */
    ps_rpc_server_wake(instance->rpc, topics);
    ps_tasks_wake(instance->tasks);
    ps_note_thread_wake(instance->notes);
    /* A row of a set may be there now, or a shard that has something to save. */
    if ((topics & (PS_TOPIC_BIT(PS_TOPIC_CHECKPOINT) | PS_TOPIC_BIT(PS_TOPIC_LIFE))) != 0)
        ps_cluster_thread_look_again(instance->cluster);
}

/* Before the lanes, which may be asked as soon as they are there. */
enum ps_status ps_instance_build_cluster(struct ps_instance *instance, struct ps_error *error)
{
    const struct ps_cluster_thread_options wish = {
        .memory = ps_allocator_heap(),
        .clock = ps_clock_real(),
        .service = instance->service,
        .registry = ps_store_registry(instance->cluster_store),
        .wish = instance->options->data_dir != NULL ? &instance->wish : NULL,
        .is_alone = instance->options->etcd == NULL,
        .is_in_memory = instance->options->etcd == NULL && instance->options->data_dir == NULL,
        .changed = on_cluster_changed,
        .self = instance,
    };
    PS_TRY(ps_cluster_thread_create(&wish, &instance->cluster, error));
    const struct ps_workers_thread_options workers = {
        .memory = wish.memory,
        .clock = wish.clock,
        .registry = ps_store_registry(instance->workers_store),
        .is_in_memory = wish.is_in_memory,
        .changed = on_cluster_changed,
        .self = instance,
    };
    return ps_workers_thread_create(&workers, &instance->workers, error);
}

/* Two threads, each with a store of its own: what thousands of workers ask must not be in the way
 * of whoever looks for the servers, or of a trainer that initialises the job while others join. */
enum ps_status ps_instance_start_cluster(struct ps_instance *instance, struct ps_error *error)
{
    PS_TRY(ps_cluster_thread_start(instance->cluster, error));
    return ps_workers_thread_start(instance->workers, error);
}

/* Questions that still come are refused from here on. */
void ps_instance_stop_cluster(struct ps_instance *instance)
{
    ps_cluster_thread_stop(instance->cluster);
    ps_workers_thread_stop(instance->workers);
}

/* A store is closed behind its thread. */
void ps_instance_end_cluster(struct ps_instance *instance)
{
    ps_cluster_thread_destroy(instance->cluster);
    ps_store_close(instance->cluster_store);
    ps_workers_thread_destroy(instance->workers);
    ps_store_close(instance->workers_store);
}

/* The threads are started when everything is there, so that there are lanes to wake. */
static void on_cluster_changed(void *self, uint64_t topics)
{
    struct ps_instance *instance = self;
    ps_rpc_server_wake(instance->rpc, topics);
}

/* For every push that finds the queue empty. */
static void on_journal_wanted(void *self)
{
    struct ps_instance *instance = self;
    ps_journal_thread_wake(instance->journal);
}

/* A second signal would end the server at once: however often it is asked, it gets one. */
static void on_drain_wanted(void *self)
{
    struct ps_instance *instance = self;
    if (atomic_exchange(&instance->drain_asked, true))
        return;
    PS_LOG0(instance->log, PS_LOG_INFO, "server", "an operator asks this server to end (Drain)");
    /* The same way as every other request to end, with the same delays. */
    (void)kill(getpid(), SIGTERM);
}

/* The coordinator decides when; here it only learns that somebody waits. */
static void on_checkpoint_wanted(void *self)
{
    struct ps_instance *instance = self;
    ps_coordinator_driver_tell_checkpoint_wanted(instance->driver);
}

/* The coordinator's thread goes on keeping the lease meanwhile. */
static void hook_load(void *self, const struct ps_claim *claim, uint32_t shard_count)
{
    struct ps_instance *instance = self;
    ps_tasks_start_load(instance->tasks, claim, shard_count);
}

/* The snapshot is taken in that thread; pushes go on. */
static void hook_save(void *self, const struct ps_claim *claim, bool publish)
{
    struct ps_instance *instance = self;
    ps_tasks_start_save(instance->tasks, claim, publish);
}

/* The lanes end what is in flight and refuse what is new. */
static void hook_drain(void *self, uint64_t deadline_ms)
{
    struct ps_instance *instance = self;
    ps_tasks_start_drain(instance->tasks, deadline_ms);
}

/* Once for each claim, but the port is opened once. Only the coordinator's thread reads and sets
 * `listening`, so the flag needs no lock. */
static enum ps_status hook_listen(void *self, struct ps_error *error)
{
    struct ps_instance *instance = self;
    /* The next claim of this process finds the port open. */
    if (instance->listening)
        return PS_OK;
    PS_TRY(ps_rpc_server_start(instance->rpc, error));
    instance->listening = true;
    PS_LOG(instance->log, PS_LOG_INFO, "server", "listening",
           PS_FIELD_TEXT("address", instance->address),
           PS_FIELD_UINT("port", ps_rpc_server_port(instance->rpc)));
    return PS_OK;
}

/* ---- Options ---- */
