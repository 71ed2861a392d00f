/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the server together: methods, lanes, slots; and takes it apart in the only order that gRPC
 * forgives: shutdown is told and has completed, then the slots end, then the lanes, then the
 * server, then the queues. A slot that ends before the shutdown is told would be invited again; a
 * queue that goes before the server gets tags that nobody reads.
 *
 * A drain has three parts of patience: calls in flight may finish until the deadline, idle
 * connections have a moment to close after their GOAWAY, and what is left is cancelled. */
#include "server/rpc/rpc_server.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "proto/reflection_codec.h"
#include "server/rpc/front_door.h"
#include "server/rpc/local_listener.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/server_arguments.h"
#include "server/rpc/shared_memory.h"
#include "server/rpc/stream_calls.h"
#include "server/rpc/unary_call.h"

#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LANES_MAX = PS_LANES_MAX,
    WATCH_SLOTS = 4,
    REFLECTION_SLOTS = 4,
    UNKNOWN_SLOTS = 4,
    REFLECTION_VERSIONS = 2,
    REPLY_MS_DEFAULT = 30 * 1000,
    GOAWAY_MS = 500, /* for idle clients to close their connections themselves */
    /* Watches and unknown methods beside the rest. */
    SLOTS_OF_A_LANE = PS_UNARY_METHOD_COUNT + REFLECTION_VERSIONS + 2
};

struct ps_rpc_server {
    struct ps_rpc_context context;
    const struct ps_clock *clock; /* borrowed; outlives this */
    struct ps_front_door front;
    grpc_completion_queue *drained; /* only for the server's own shutdown; owned */
    struct ps_lane *lanes[LANES_MAX];
    uint32_t lane_count;
    uint32_t update_threads;
    void *unary_handles[PS_UNARY_METHOD_COUNT];
    void *watch_handle;
    void *reflection_handles[REFLECTION_VERSIONS]; /* NULL: not offered */
    struct ps_tls_port *tls;                       /* NULL: plaintext */
    enum ps_client_auth client_auth;
    struct ps_local_users local_users;
    char local_name[PS_LOCAL_NAME_MAX]; /* whom rules call them */
    uint16_t port;
    bool started;
    bool stopped;
};

static enum ps_status build(struct ps_rpc_server *server,
                            const struct ps_rpc_server_options *options, struct ps_error *error);
static enum ps_status open_front(struct ps_rpc_server *server,
                                 const struct ps_rpc_server_options *options,
                                 struct ps_error *error);
static enum ps_status register_methods(struct ps_rpc_server *server, bool reflection,
                                       struct ps_error *error);
static enum ps_status build_lanes(struct ps_rpc_server *server, uint32_t lane_count,
                                  struct ps_error *error);
static enum ps_status build_slots(struct ps_rpc_server *server, struct ps_lane *lane,
                                  struct ps_error *error);
static enum ps_status bind_address(struct ps_rpc_server *server, const char *address,
                                   struct ps_error *error);
static enum ps_status offer_shared_memory(struct ps_rpc_server *server,
                                          const struct ps_rpc_server_options *options,
                                          struct ps_error *error);
static uint32_t default_lane_count(void);
static uint32_t job_count(void);
static uint32_t update_thread_count(uint32_t wish);

/* Everything that destroy takes apart is made before the first thing that can fail: destroy is the
 * one way back. */
enum ps_status ps_rpc_server_create(const struct ps_rpc_server_options *options,
                                    struct ps_rpc_server **out, struct ps_error *error)
{
    PS_ASSERT(options->service != NULL && options->memory != NULL && options->clock != NULL);
    struct ps_rpc_server *server = ps_zeroed(options->memory, sizeof *server);
    if (server == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "rpc: no server");
    grpc_init();
    server->clock = options->clock;
    server->context.service = options->service;
    server->context.memory = options->memory;
    server->context.log = options->log;
    server->context.clock = options->clock;
    server->context.busy_poll = options->busy_poll;
    server->context.reply_ms_max =
        options->reply_ms_max != 0 ? options->reply_ms_max : REPLY_MS_DEFAULT;
    atomic_init(&server->context.draining, false);
    ps_mutex_init(&server->context.idle_lock, PS_RANK_QUEUE);
    ps_condition_init(&server->context.idle);
    ps_helpers_init(&server->context.helpers);
    server->update_threads = update_thread_count(options->update_threads);
    server->client_auth = options->client_auth;
    /* Copied, since the gate and the listener speak of them for as long as the server lives. */
    if (options->local_users != NULL)
        server->local_users = *options->local_users;
    ps_local_users_name(&server->local_users, server->local_name);
    ps_gate_init(&server->context.gate, options->access, options->client_auth,
                 options->job != NULL ? options->job : "", server->local_name);
    const struct ps_crew crew = ps_helpers_crew(&server->context.helpers);
    /* The crew stands in the service before any call can come, and goes in destroy after the last
     * one. */
    if (server->update_threads > 1)
        ps_service_set_crew(options->service, &crew);
    server->context.cluster =
        (struct ps_cluster_facts){.cluster = options->cluster,
                                  .workers = options->workers,
                                  .job = options->job != NULL ? options->job : "",
                                  .unix_path = options->listen_file,
                                  .alone = options->is_alone,
                                  .in_memory = options->is_in_memory};
    ps_budgets_init(&server->context.budgets);
    server->context.client_bytes_max = options->client_bytes_max;
    ps_refusals_init(&server->context.refusals, options->metrics, options->log, options->clock);
    ps_waiting_init(
        &server->context.waiting,
        options->waiting_calls_max != 0 ? options->waiting_calls_max : PS_WAITING_CALLS_DEFAULT,
        options->client_calls_max != 0 ? options->client_calls_max : PS_CLIENT_CALLS_DEFAULT);
    ps_rpc_metrics_register(&server->context.metrics, options->metrics);

    enum ps_status status = build(server, options, error);
    if (status != PS_OK) {
        ps_rpc_server_destroy(server);
        return status;
    }
    *out = server;
    return PS_OK;
}

/* Methods and queues must be there before the server starts, as gRPC demands; addresses come last,
 * so that a port is taken only by a server that is whole but for them. */
static enum ps_status build(struct ps_rpc_server *server,
                            const struct ps_rpc_server_options *options, struct ps_error *error)
{
    uint64_t message_bytes_max = options->message_bytes_max;
    struct ps_server_arguments arguments;
    server->context.message_bytes_max =
        message_bytes_max != 0 ? message_bytes_max : PS_MESSAGE_BYTES_DEFAULT;
    (void)snprintf(server->context.message_bytes_text, sizeof server->context.message_bytes_text,
                   "%" PRIu64, server->context.message_bytes_max);
    PS_TRY(open_front(server, options, error));
    ps_server_arguments_init(&arguments, server->context.message_bytes_max,
                             options->client_calls_max);
    server->context.server = grpc_server_create(&arguments.arguments, NULL);
    /* The shutdown's tag has a queue of its own, read by the thread that drains. In a lane's queue
     * it would need that lane to be alive until the very end. */
    server->drained = grpc_completion_queue_create_for_pluck(NULL);
    uint32_t lane_count = options->lane_count != 0 ? options->lane_count : default_lane_count();
    PS_TRY(offer_shared_memory(server, options, error));
    PS_TRY(register_methods(server, options->reflection, error));
    PS_TRY(build_lanes(server, lane_count < LANES_MAX ? lane_count : LANES_MAX, error));
    /* gRPC asks for the first certificate while the address is bound, so the port is there
     * before. */
    if (options->access != NULL && ps_access_has_tls(options->access))
        PS_TRY(ps_tls_port_create(options->access, options->memory, &server->tls, error));
    PS_TRY(bind_address(server, options->listen, error));
    if (options->listen_file == NULL)
        return PS_OK;
    return ps_local_listener_open(server->context.server, options->listen_file,
                                  &server->local_users, error);
}

/* Before the first address is bound: no connection comes in unseen. Where the library does not
 * let itself be looked at, a server that only this machine or holders of certificates reach goes
 * on, and says so; one that is open to strangers would be a server that any of them can fill. */
static enum ps_status open_front(struct ps_rpc_server *server,
                                 const struct ps_rpc_server_options *options,
                                 struct ps_error *error)
{
    /* Bounds that nobody has set follow from those that somebody has (front_door.c). */
    const struct ps_front_door_options wish = {
        .refusals = &server->context.refusals,
        .metrics = &server->context.metrics,
        .registry = options->metrics,
        .message_bytes_max = server->context.message_bytes_max,
        .client_bytes_max = options->client_bytes_max,
        .unfinished_bytes_max = options->unfinished_bytes_max,
        .local_users = options->local_users,
        .client_calls_max = options->client_calls_max,
        .open_calls_max = options->open_calls_max,
        .connections_max = options->connections_max,
        .patience_ms = server->context.reply_ms_max,
    };
    if (ps_front_door_open(&server->front, &wish))
        return PS_OK;
    if (options->front_required)
        return ps_fail(
            error, PS_ERR_UNAVAILABLE,
            "this gRPC library does not let connections be bounded: listen on 127.0.0.1, "
            "use TLS, or say --insecure");
    PS_LOG0(options->log, PS_LOG_ERROR, "rpc",
            "connections are not bounded: this gRPC library calls other functions of the system");
    return PS_OK;
}

/* gRPC gives a handle for each path: a slot of that handle gets calls of this method only, so that
 * a flood of one method leaves the invitations of the others where they are. */
static enum ps_status register_method(struct ps_rpc_server *server, const char *path,
                                      grpc_server_register_method_payload_handling payload,
                                      void **handle, struct ps_error *error)
{
    *handle = grpc_server_register_method(server->context.server, path, NULL, payload, 0);
    if (*handle == NULL)
        return ps_fail(error, PS_ERR_INTERNAL, "rpc: cannot register %s", path);
    return PS_OK;
}

/* Messages of unary methods are read by gRPC with their request; a stream reads for itself. */
static enum ps_status register_methods(struct ps_rpc_server *server, bool reflection,
                                       struct ps_error *error)
{
    static const char *const reflection_paths[REFLECTION_VERSIONS] = {PS_REFLECTION_V1_PATH,
                                                                      PS_REFLECTION_V1ALPHA_PATH};
    for (size_t i = 0; i < PS_UNARY_METHOD_COUNT; i++)
        PS_TRY(register_method(server, ps_unary_methods[i].path,
                               GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, &server->unary_handles[i],
                               error));
    PS_TRY(register_method(server, PS_HEALTH_WATCH_PATH, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
                           &server->watch_handle, error));
    for (size_t i = 0; reflection && i < REFLECTION_VERSIONS; i++)
        PS_TRY(register_method(server, reflection_paths[i], GRPC_SRM_PAYLOAD_NONE,
                               &server->reflection_handles[i], error));
    return PS_OK;
}

/* Each lane has slots of every method: which connection ends up on which lane is decided by
 * gRPC. */
static enum ps_status build_lanes(struct ps_rpc_server *server, uint32_t lane_count,
                                  struct ps_error *error)
{
    while (server->lane_count < lane_count) {
        struct ps_lane *lane;
        PS_TRY(ps_lane_create(&server->context, SLOTS_OF_A_LANE, &lane, error));
        server->lanes[server->lane_count++] = lane;
        PS_TRY(build_slots(server, lane, error));
    }
    return PS_OK;
}

/* Every lane has slots of every method. gRPC prefers the queue that it has chosen for a connection
 * and takes another when no slot of the method is free there: so a lane that is full delays nobody
 * while another has room. */
static enum ps_status build_slots(struct ps_rpc_server *server, struct ps_lane *lane,
                                  struct ps_error *error)
{
    for (size_t i = 0; i < PS_UNARY_METHOD_COUNT; i++)
        PS_TRY(ps_unary_calls_add(lane, &ps_unary_methods[i], server->unary_handles[i], error));
    PS_TRY(ps_watch_calls_add(lane, WATCH_SLOTS, server->watch_handle, error));
    for (size_t i = 0; i < REFLECTION_VERSIONS; i++) {
        if (server->reflection_handles[i] != NULL)
            PS_TRY(ps_reflection_calls_add(lane, REFLECTION_SLOTS, server->reflection_handles[i],
                                           error));
    }
    return ps_unknown_calls_add(lane, UNKNOWN_SLOTS, error);
}

/* Without certificates there is no encryption: SECURITY.md says where such a server may be reached
 * from. Port 0 has become a real one here. */
static enum ps_status bind_address(struct ps_rpc_server *server, const char *address,
                                   struct ps_error *error)
{
    grpc_server_credentials *credentials =
        server->tls != NULL ? ps_tls_port_credentials(server->tls, server->client_auth)
                            : grpc_insecure_server_credentials_create();
    /* 0 also where gRPC cannot use the certificate, which was checked before; the text names the
     * address, and the caller finds out whether that is to blame. */
    int port = grpc_server_add_http2_port(server->context.server, address, credentials);
    grpc_server_credentials_release(credentials);
    if (port <= 0 || port > UINT16_MAX)
        return ps_fail(error, PS_ERR_IO, "cannot listen on %s", address);
    server->port = (uint16_t)port;
    return PS_OK;
}

/* A server that cannot share memory serves all the same, unless its operator insists: clients then
 * send content in messages. */
static enum ps_status offer_shared_memory(struct ps_rpc_server *server,
                                          const struct ps_rpc_server_options *options,
                                          struct ps_error *error)
{
    const struct ps_shared_memory_options wish = {.memory = options->memory,
                                                  .clock = options->clock,
                                                  .log = options->log,
                                                  .metrics = options->metrics,
                                                  .bytes_max = options->shared_memory_bytes,
                                                  .pins = options->shared_pins,
                                                  .devices = options->shared_devices};
    struct ps_error why = {0};
    if (options->shared_memory_bytes == 0)
        return PS_OK;
    enum ps_status status = ps_shared_memory_create(&wish, &server->context.shared, &why);
    if (status == PS_OK)
        return PS_OK;
    if (options->shared_memory_required)
        return ps_fail(error, status, "%s", why.text);
    PS_LOG(options->log, PS_LOG_WARN, "shared memory", "not offered", PS_FIELD_ERROR(&why));
    return PS_OK;
}

/* The other half of the cores is for clients, checkpoints and the kernel's side of the network. */
static uint32_t default_lane_count(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores >= 4 ? (uint32_t)(cores / 2) : 1;
}

/* As many large updates at once as leave the lanes their processors. */
static uint32_t job_count(void)
{
    uint32_t count = default_lane_count();
    return count < PS_HELPER_JOBS_MAX ? count : PS_HELPER_JOBS_MAX;
}

/* More than four find the memory busy on most machines: who has others says so. */
static uint32_t update_thread_count(uint32_t wish)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (wish == 0)
        wish = cores < 1 ? 1 : cores < 4 ? (uint32_t)cores : 4;
    return wish < PS_UPDATE_THREADS_MAX ? wish : PS_UPDATE_THREADS_MAX;
}

uint16_t ps_rpc_server_port(const struct ps_rpc_server *server)
{
    return server->port;
}

/* Helpers come first: a lane may submit to them with its first event. */
enum ps_status ps_rpc_server_start(struct ps_rpc_server *server, struct ps_error *error)
{
    PS_ASSERT(!server->started);
    server->started = true;
    PS_TRY(ps_helpers_start(&server->context.helpers, job_count(), server->update_threads, error));
    grpc_server_start(server->context.server);
    for (uint32_t i = 0; i < server->lane_count; i++)
        PS_TRY(ps_lane_start(server->lanes[i], error));
    return PS_OK;
}

/* Every lane is woken: the service does not know on which of them the calls are parked that its
 * change concerns. Where no call is parked the wake-up is for nothing, and costs some
 * microseconds. */
void ps_rpc_server_wake(struct ps_rpc_server *server, uint64_t topics)
{
    for (uint32_t i = 0; i < server->lane_count; i++)
        ps_lane_wake(server->lanes[i], topics);
}

/* Gauges are set when somebody looks, so that the way of a call is not burdened with them. */
void ps_rpc_server_count(struct ps_rpc_server *server)
{
    ps_front_door_count(&server->front);
    /* Beside the connections: those of them that hold much, and how much the greediest holds. */
    uint64_t most;
    uint32_t callers = ps_budgets_count(&server->context.budgets, PS_SUM_BYTES, &most);
    ps_rpc_metrics_callers(&server->context.metrics, callers, most);
}

/* Counted even while draining: gRPC may have taken the call before it knew. */
void ps_rpc_call_came(struct ps_rpc_context *context)
{
    atomic_fetch_add(&context->in_flight, 1);
}

/* The condition is signalled under its lock only by the last call of a draining server: no other
 * pays for it. */
void ps_rpc_call_went(struct ps_rpc_context *context)
{
    unsigned before = atomic_fetch_sub(&context->in_flight, 1);
    PS_ASSERT(before > 0);
    if (before > 1 || !atomic_load(&context->draining))
        return;
    ps_mutex_lock(&context->idle_lock);
    ps_condition_signal_all(&context->idle);
    ps_mutex_unlock(&context->idle_lock);
}

/* Waits until no call is in flight; false at the deadline. The condition's wait is relative, and
 * may end early: so what is left is asked again of the clock each time. */
static bool wait_until_idle(struct ps_rpc_server *server, uint64_t deadline_ms)
{
    struct ps_rpc_context *context = &server->context;
    uint64_t left_ms = ps_time_left_ms(server->clock, deadline_ms);
    ps_mutex_lock(&context->idle_lock);
    while (atomic_load(&context->in_flight) > 0 && left_ms > 0) {
        (void)ps_condition_wait(&context->idle, &context->idle_lock, left_ms);
        left_ms = ps_time_left_ms(server->clock, deadline_ms);
    }
    ps_mutex_unlock(&context->idle_lock);
    return atomic_load(&context->in_flight) == 0;
}

/* Waits for the server's own shutdown, which is complete when every connection has closed; false
 * after `wait_ms`. */
static bool wait_for_shutdown(struct ps_rpc_server *server, uint64_t wait_ms)
{
    gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    if (wait_ms != PS_DEADLINE_NEVER)
        deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                gpr_time_from_millis((int64_t)wait_ms, GPR_TIMESPAN));
    grpc_event event =
        grpc_completion_queue_pluck(server->drained, &server->drained, deadline, NULL);
    return event.type == GRPC_OP_COMPLETE;
}

/* `draining` is set and the lanes are woken before gRPC is told. Parked calls then answer by
 * themselves, in words; of those that gRPC ends the client cannot know whether they were applied.
 *
 * Once no call is in flight, what is left are clients that may take seconds to notice the GOAWAY,
 * because nothing of theirs reads the connection: they are not waited for. */
void ps_rpc_server_drain(struct ps_rpc_server *server, uint64_t deadline_ms)
{
    if (server->stopped)
        return;
    server->stopped = true;
    atomic_store(&server->context.draining, true);
    ps_rpc_server_wake(server, PS_TOPIC_BIT(PS_TOPIC_LIFE));
    grpc_server_shutdown_and_notify(server->context.server, server->drained, &server->drained);

    if (!wait_until_idle(server, deadline_ms))
        PS_LOG(server->context.log, PS_LOG_WARN, "rpc", "calls in flight are cancelled",
               PS_FIELD_UINT("calls", atomic_load(&server->context.in_flight)));
    uint64_t left_ms = ps_time_left_ms(server->clock, deadline_ms);
    if (wait_for_shutdown(server, left_ms < GOAWAY_MS ? left_ms : GOAWAY_MS))
        return;
    /* Cancelled calls give their tags back, and the shutdown is complete when the last has: this
     * wait needs no deadline, because the lanes are alive and serve the tags. */
    grpc_server_cancel_all_calls(server->context.server);
    bool complete = wait_for_shutdown(server, PS_DEADLINE_NEVER);
    PS_ASSERT(complete);
}

/* Lanes stop before helpers do, since a lane may wait for a helper to hand a call back; the server
 * goes before its queues, as gRPC demands; shared memory goes when no call can use it. */
void ps_rpc_server_destroy(struct ps_rpc_server *server)
{
    if (server == NULL)
        return;
    if (server->context.server != NULL)
        ps_rpc_server_drain(server, 0);
    for (uint32_t i = 0; i < server->lane_count; i++)
        ps_lane_stop(server->lanes[i]);
    ps_service_set_crew(server->context.service, NULL);
    ps_helpers_stop(&server->context.helpers);
    if (server->context.server != NULL)
        grpc_server_destroy(server->context.server);
    ps_front_door_close(&server->front);
    for (uint32_t i = 0; i < server->lane_count; i++)
        ps_lane_destroy(server->lanes[i]);
    if (server->drained != NULL) {
        grpc_completion_queue_shutdown(server->drained);
        grpc_completion_queue_destroy(server->drained);
    }
    /* Handshakes ask the port for certificates until the server is gone. */
    ps_tls_port_destroy(server->tls);
    ps_budgets_fini(&server->context.budgets);
    ps_helpers_fini(&server->context.helpers);
    ps_shared_memory_destroy(server->context.shared);
    ps_condition_fini(&server->context.idle);
    ps_mutex_fini(&server->context.idle_lock);
    const struct ps_allocator *memory = server->context.memory;
    ps_release(memory, server);
    grpc_shutdown();
}

/* A server that waits for its first InitParam is healthy: the trainer that is to initialise it asks
 * first. */
enum ps_health ps_rpc_health(const struct ps_rpc_context *context, const char *service)
{
    if (service[0] != '\0' && strcmp(service, PS_HEALTH_OF_PARAMETERS) != 0)
        return PS_HEALTH_SERVICE_UNKNOWN;
    if (atomic_load(&context->draining) || !ps_service_is_serving(context->service))
        return PS_HEALTH_NOT_SERVING;
    return PS_HEALTH_SERVING;
}
