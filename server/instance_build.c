/* SPDX-License-Identifier: Apache-2.0 */
/* Building a pserver of its parts. The order of building is that of need: what a part borrows is
 * there before it. */
#include "server/instance_parts.h"

#include "base/assert.h"
#include "base/attributes.h"
#include "base/bounds.h"
#include "server/address.h"
#include "server/data_folder.h"

#include <string.h>

static enum ps_status check_data_dir(struct ps_instance *instance, struct ps_error *error);
static enum ps_status build_service(struct ps_instance *instance, struct ps_error *error);
static void bound_rendezvous(const struct ps_pserver_options *options,
                             struct ps_service_options *service);
static enum ps_status build_pool(struct ps_instance *instance, struct ps_error *error);
static enum ps_status build_stores(struct ps_instance *instance, struct ps_error *error);
static enum ps_status build_rpc(struct ps_instance *instance, struct ps_error *error);
static enum ps_status build_journal(struct ps_instance *instance, struct ps_error *error);
static enum ps_status build_tasks(struct ps_instance *instance, struct ps_error *error);
static enum ps_status build_driver(struct ps_instance *instance, struct ps_error *error);
static enum ps_status build_probes(struct ps_instance *instance, struct ps_error *error);

/* In the order of need; a failure leaves what is built to destroy. The device comes before the
 * service, which places parameters on it, and the RPC port before the driver, which publishes the
 * address that was bound. */
enum ps_status ps_instance_build(struct ps_instance *instance, const struct ps_preparation *prepare,
                                 struct ps_error *error)
{
    PS_TRY(check_data_dir(instance, error));
    PS_TRY(ps_device_guard_open(&instance->device, instance->options, instance->log,
                                PS_INSTANCE_BROKEN_SIGNAL, error));
    PS_TRY(build_service(instance, error));
    /* Before the port is bound: no request is there before its handler. */
    if (prepare != NULL)
        PS_TRY(prepare->prepare(prepare->self, instance->service, error));
    PS_TRY(ps_access_reload_init(&instance->reload, instance->options, instance->log,
                                 instance->metrics, error));
    PS_TRY(build_stores(instance, error));
    PS_TRY(ps_instance_build_cluster(instance, error));
    PS_TRY(build_rpc(instance, error));
    PS_TRY(build_journal(instance, error));
    PS_TRY(build_tasks(instance, error));
    PS_TRY(build_driver(instance, error));
    return build_probes(instance, error);
}

/* The copy of the options has the path from the root: that is what other servers are told. */
static enum ps_status check_data_dir(struct ps_instance *instance, struct ps_error *error)
{
    const char *folder = instance->options->data_dir;
    if (folder == NULL)
        return PS_OK;
    PS_TRY(ps_data_folder_check(folder, instance->data_dir, sizeof instance->data_dir, error));
    instance->own.data_dir = instance->data_dir;
    ps_data_files_init(&instance->data_files, instance->data_dir);
    return PS_OK;
}

/* What is not said is the service's own default: the options of the command line are the one place
 * where defaults are for people. */
static enum ps_status build_service(struct ps_instance *instance, struct ps_error *error)
{
    const struct ps_pserver_options *options = instance->options;
    instance->metrics = ps_metrics_create(ps_allocator_heap());
    /* The pool before the service, whose blocks come from it. */
    PS_TRY(build_pool(instance, error));
    PS_TRY(ps_touch_errand_init(&instance->touch, error));
    struct ps_service_options wish = {
        .memory = ps_allocator_heap(),
        .block_source = instance->pool != NULL ? ps_block_pool_source(instance->pool) : NULL,
        .touch_ahead = &instance->touch.ahead,
        .device_store = ps_device_guard_store(&instance->device),
        .clock = ps_clock_real(),
        .log = instance->log,
        .metrics = instance->metrics,
        .bytes_max = options->memory_bytes,
        /* Without a folder there is nothing to save to; the service then promises no more than
         * memory. */
        .saves = options->data_dir != NULL,
        .journals = options->journal,
        /* The check of the options has filled the level in, so that it is never NULL here. */
        .ack = strcmp(options->ack, "logged") == 0 ? PS_ACK_LOGGED : PS_ACK_MEMORY,
        .journal_queue_bytes = options->journal_queue_bytes,
        .checkpoint_journal_bytes = options->checkpoint_journal_bytes,
        .staging_bytes = options->staging_bytes,
        /* The options allow 2^24 at most, so the cast loses nothing. */
        .clients_max = (uint32_t)options->clients_max,
        .client_idle_ms = options->client_idle_ms,
        .device = instance->device.choice.text,
        .job = options->job,
    };
    bound_rendezvous(options, &wish);
    PS_TRY(ps_service_create(&wish, &instance->service, error));
    /* Also where nothing is saved: nobody looks for sets there, and the wish stays empty. */
    ps_set_wish_init(&instance->wish, instance->service, options->model_checkpoints_keep,
                     options->model_checkpoint_interval_ms);
    return PS_OK;
}

/* Numbers that belong together and concern nothing else of the instance. The rules of the options
 * have held each of them to its bounds, so that a cast loses nothing; a lifetime of 0 is the
 * service's own, as every other setting that is not said. */
static void bound_rendezvous(const struct ps_pserver_options *options,
                             struct ps_service_options *service)
{
    PS_ASSERT(options->rendezvous_steps <= UINT32_MAX && options->rendezvous_keys <= UINT32_MAX);
    service->rendezvous_bytes = options->rendezvous_bytes;
    service->rendezvous_step_bytes = options->rendezvous_step_bytes;
    service->rendezvous_steps = (uint32_t)options->rendezvous_steps;
    service->rendezvous_keys = (uint32_t)options->rendezvous_keys;
    service->rendezvous_idle_ms = options->rendezvous_idle_ms;
    service->program_bytes = options->program_bytes;
    service->program_requests = (uint32_t)options->program_requests;
}

/* Under a sanitizer blocks come from the heap, where it finds an overrun. A sanitizer knows the
 * borders of pieces from the heap, and none within a slab of the pool. */
static enum ps_status build_pool(struct ps_instance *instance, struct ps_error *error)
{
    if (PS_SANITIZED)
        return PS_OK;
    instance->pool = ps_block_pool_create(ps_allocator_heap(), instance->metrics);
    if (instance->pool == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the pool of blocks");
    return PS_OK;
}

/* One for each thread that asks: a store belongs to one thread at a time, and a keepalive must not
 * wait behind the pointer of a checkpoint. */
static enum ps_status build_stores(struct ps_instance *instance, struct ps_error *error)
{
    const struct ps_pserver_options *options = instance->options;
    struct ps_store_options wish = {
        .etcd = options->etcd,
        .access = options->etcd_access,
        .data_dir = options->data_dir,
        .job = options->job,
        .clock = ps_clock_real(),
        .memory = ps_allocator_heap(),
    };
    PS_TRY(ps_store_open(&wish, &instance->store, error));
    /* In memory this is another store than the coordinator's: the right to initialise lies in it,
     * whose holder may go away. */
    wish.leases_end = true;
    PS_TRY(ps_store_open(&wish, &instance->cluster_store, error));
    PS_TRY(ps_store_open(&wish, &instance->workers_store, error));
    if (options->data_dir == NULL)
        return PS_OK;
    /* The checkpointer's and the noter's are only there when something is saved. */
    PS_TRY(ps_store_open(&wish, &instance->checkpoint_store, error));
    return options->journal ? ps_store_open(&wish, &instance->note_store, error) : PS_OK;
}

/* The port is bound now and answered later: the address that clients are told has to be known
 * first. */
static enum ps_status build_rpc(struct ps_instance *instance, struct ps_error *error)
{
    const struct ps_pserver_options *options = instance->options;
    const struct ps_rpc_server_options wish = {
        .service = instance->service,
        .cluster = ps_cluster_thread_cluster(instance->cluster),
        .workers = ps_workers_thread_workers(instance->workers),
        .is_alone = options->etcd == NULL,
        .is_in_memory = options->etcd == NULL && options->data_dir == NULL,
        .memory = ps_allocator_heap(),
        .clock = ps_clock_real(),
        .log = instance->log,
        .metrics = instance->metrics,
        .listen = options->listen,
        .listen_file = options->listen_unix,
        .access = instance->reload.access,
        .client_auth = options->tls_client_auth,
        .job = options->job,
        .local_users = &options->local_users,
        .lane_count = (uint32_t)options->lanes, /* 0: as processors allow */
        .update_threads = options->update_threads,
        .busy_poll = options->busy_poll,
        .client_bytes_max = options->client_bytes,
        .client_calls_max = (uint32_t)options->client_calls,
        .waiting_calls_max = (uint32_t)options->waiting_calls,
        .front_required = instance->reload.is_open,
        .connections_max = (uint32_t)options->connections,
        .open_calls_max = (uint32_t)options->open_calls,
        .unfinished_bytes_max = options->unfinished_bytes,
        .message_bytes_max = options->message_bytes,
        .reply_ms_max = options->reply_ms,
        .reflection = options->reflection,
        .shared_memory_bytes =
            strcmp(options->shared_memory, "off") == 0 ? 0 : options->shared_memory_bytes,
        /* Where there is no shared memory, "auto" is a line in the log, "on" a failed start. */
        /* What a client on this host shares is copied by a device from where it lies. */
        .shared_pins = ps_device_guard_pins(&instance->device),
        .shared_devices = ps_device_guard_devices(&instance->device),
        .shared_memory_required = strcmp(options->shared_memory, "on") == 0,
    };
    enum ps_status status = ps_rpc_server_create(&wish, &instance->rpc, error);
    if (status == PS_OK)
        status = ps_front_errand_init(&instance->front, error);
    /* The port is taken, or the address is not this machine's: the system's words say which. */
    if (status == PS_ERR_IO)
        ps_address_explain(options->listen, error);
    /* Only the bound socket knows the port behind port 0. */
    return status != PS_OK ? status
                           : ps_address_to_advertise(options->advertise, options->listen,
                                                     ps_rpc_server_port(instance->rpc),
                                                     instance->address, error);
}

static enum ps_journal_way way_of(const char *word)
{
    if (strcmp(word, "direct") == 0)
        return PS_JOURNAL_DIRECT;
    return strcmp(word, "buffered") == 0 ? PS_JOURNAL_BUFFERED : PS_JOURNAL_AUTO;
}

/* Two threads, so that no push waits for a note, which may have to wait for the store. */
static enum ps_status build_journal(struct ps_instance *instance, struct ps_error *error)
{
    if (!instance->options->journal)
        return PS_OK;
    const struct ps_journal_thread_options wish = {
        .files = &instance->data_files.files,
        .memory = ps_allocator_heap(),
        .clock = ps_clock_real(),
        .log = instance->log,
        .metrics = instance->metrics,
        .service = instance->service,
        .segment_bytes = instance->options->journal_segment_bytes,
        .way = way_of(instance->options->journal_sync),
    };
    PS_TRY(ps_journal_thread_create(&wish, &instance->journal, error));
    /* A note in the store says how far the journal is durable, so that the next owner notices files
     * that end before that. */
    const struct ps_note_thread_options noted = {
        .files = &instance->data_files.files,
        .memory = ps_allocator_heap(),
        .clock = ps_clock_real(),
        .log = instance->log,
        .service = instance->service,
        .registry = ps_store_registry(instance->note_store),
    };
    return ps_note_thread_create(&noted, &instance->notes, error);
}

/* They have a store of their own: a slow read of a pointer must not hold up a keepalive. */
static enum ps_status build_tasks(struct ps_instance *instance, struct ps_error *error)
{
    const struct ps_tasks_options wish = {
        .memory = ps_allocator_heap(),
        .clock = ps_clock_real(),
        .log = instance->log,
        .service = instance->service,
        .rpc = instance->rpc,
        .registry = ps_store_registry(instance->checkpoint_store),
        .journal = instance->journal,
        .notes = instance->notes,
        .wish = &instance->wish,
        .journal_keep = instance->options->journal_keep,
        .increments = (uint32_t)instance->options->increments,
        .data_dir = instance->options->data_dir,
        .files = &instance->data_files.files,
        .job = instance->options->job,
        /* What is loaded goes to the device: no memory of the host is made ready for it. */
        .pool = ps_device_guard_store(&instance->device) == NULL ? instance->pool : NULL,
        .memory_bytes = instance->options->memory_bytes,
    };
    return ps_tasks_create(&wish, &instance->tasks, error);
}

/* Whoever may tell the driver something learns of it here, when it can be told. */
static enum ps_status build_driver(struct ps_instance *instance, struct ps_error *error)
{
    const struct ps_pserver_options *options = instance->options;
    uint64_t seed = 0;
    /* So that servers which were started together do not ask the store together for ever. */
    ps_random_system(&seed, sizeof seed);
    const struct ps_coordinator_driver_options wish = {
        .coordinator =
            {
                .ttl_ms = options->etcd_ttl_ms,
                /* The options say -1 for any shard, and the coordinator has a name for that. */
                .index_wish = options->index < 0 ? PS_INDEX_ANY : (uint32_t)options->index,
                .saves = options->data_dir != NULL,
                .save_interval_ms = options->checkpoint_interval_ms,
                .drain_ms = options->drain_ms,
                .seed = seed,
            },
        .shard_count_wish = (uint32_t)options->num_pservers,
        .address = instance->address,
        .registry = ps_store_registry(instance->store),
        .service = instance->service,
        .memory = ps_allocator_heap(),
        .clock = ps_clock_real(),
        .log = instance->log,
        .hooks = ps_instance_hooks(instance),
    };
    PS_TRY(ps_coordinator_driver_create(&wish, &instance->driver, error));
    /* A device that dies from here on gives the shard back. */
    ps_device_guard_watch(&instance->device, instance->service, instance->driver);
    /* The tasks are older than the driver, since the hooks name them, and learn of the driver only
     * now. */
    ps_tasks_report_to(instance->tasks, instance->driver);
    /* The listener is set last: its functions use the driver and the tasks. */
    const struct ps_service_listener listener = ps_instance_listener(instance);
    ps_service_listen(instance->service, &listener);
    return PS_OK;
}

/* Last, so that a probe that answers means that everything else is there. Without --http only the
 * service manager is told. */
static enum ps_status build_probes(struct ps_instance *instance, struct ps_error *error)
{
    const struct ps_probes_options wish = {
        .http = instance->options->http,
        .memory = ps_allocator_heap(),
        .clock = ps_clock_real(),
        .log = instance->log,
        .metrics = instance->metrics,
        .service = instance->service,
        .rpc = instance->rpc,
        .access = instance->reload.access,
        .client_auth = instance->options->tls_client_auth,
    };
    return ps_probes_create(&wish, &instance->probes, error);
}
