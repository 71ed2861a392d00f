/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP port's answers and the service manager's messages. Both say the same three things
 * (alive, ready, going), from a few atomics that the coordinator's thread sets: no answer here
 * takes a lock that the server works under. */
#include "server/probes.h"

#include "base/assert.h"
#include "server/http.h"
#include "server/http_tls.h"
#include "server/notify.h"

#include <stdatomic.h>
#include <stdlib.h>

/* A coordinator that has not come round for this long is stuck: its own waits are all shorter. */
#define TURN_MS_MAX 60000

/* Before what the service manager had no room for is sent again. */
#define AGAIN_MS 100

struct ps_probes {
    struct ps_probes_options options; /* what it names is borrowed */
    struct ps_http_source source;
    struct ps_http_tls *tls; /* NULL: plaintext */
    struct ps_http *http;
    struct ps_notify notify;
    atomic_ullong turn_ms; /* when the coordinator came round last */
    atomic_uint state;     /* enum ps_coordinator_state */
    atomic_bool stopping;
    atomic_bool stopping_due; /* the service manager is still to be told */
    bool ready_due;           /* the same; this and the rest: coordinator thread */
    uint32_t told_state;
    uint64_t sign_due_ms; /* when the next sign of life is due */
};

static void give_sign(struct ps_probes *probes);
static bool is_live(void *self, struct ps_buffer *reason);
static bool is_ready(void *self, struct ps_buffer *reason);
static void render(void *self, struct ps_buffer *page);

/* With the certificates of the gRPC port, where that has any. Two pairs of options would be twice
 * the files to rotate, and a port left open because only one was thought of. */
static enum ps_status open_http(struct ps_probes *probes, struct ps_error *error)
{
    const struct ps_probes_options *options = &probes->options;
    if (options->access != NULL && ps_access_has_tls(options->access)) {
        const struct ps_http_tls_options secure = {
            .access = options->access,
            .asks = options->client_auth != PS_CLIENT_AUTH_NONE,
            .requires = options->client_auth == PS_CLIENT_AUTH_REQUIRE,
            .memory = options->memory,
            .log = options->log};
        PS_TRY(ps_http_tls_create(&secure, &probes->tls, error));
    }
    const struct ps_http_options wish = {.listen = options->http,
                                         .source = &probes->source,
                                         .memory = options->memory,
                                         .log = options->log,
                                         .tls = probes->tls,
                                         .title = "pserver"};
    return ps_http_create(&wish, &probes->http, error);
}

/* The service manager is optional, and so is the port. */
enum ps_status ps_probes_create(const struct ps_probes_options *options, struct ps_probes **out,
                                struct ps_error *error)
{
    struct ps_probes *probes = ps_zeroed(options->memory, sizeof *probes);
    if (probes == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the probes");
    probes->options = *options;
    probes->notify.descriptor = -1;
    /* No state, so that the first one is told. */
    probes->told_state = PS_COORDINATOR_STATE_COUNT;
    atomic_store(&probes->turn_ms, ps_now_ms(options->clock));
    enum ps_status status = ps_notify_init(&probes->notify, getenv("NOTIFY_SOCKET"),
                                           getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"), error);
    probes->source = (struct ps_http_source){is_live, is_ready, render, probes};
    if (status == PS_OK && options->http != NULL)
        status = open_http(probes, error);
    if (status != PS_OK) {
        ps_probes_destroy(probes);
        return status;
    }
    if (probes->http != NULL)
        PS_LOG(options->log, PS_LOG_INFO, "http", "http listening",
               PS_FIELD_UINT("port", ps_http_port(probes->http)));
    *out = probes;
    return PS_OK;
}

void ps_probes_destroy(struct ps_probes *probes)
{
    if (probes == NULL)
        return;
    /* The port ends first: its thread asks the source, which lies in here. */
    ps_http_destroy(probes->http);
    ps_http_tls_destroy(probes->tls);
    ps_notify_fini(&probes->notify);
    ps_release(probes->options.memory, probes);
}

/* What the manager had no room for is owed, and sent with a later turn. */
void ps_probes_started(struct ps_probes *probes)
{
    PS_ASSERT(probes != NULL);
    probes->ready_due = !ps_notify_ready(&probes->notify);
}

/* Every message is tried once for each turn until it went out. */
void ps_probes_turn(struct ps_probes *probes, enum ps_coordinator_state state)
{
    PS_ASSERT(state < PS_COORDINATOR_STATE_COUNT);
    /* What /livez looks at: a coordinator that waits in here is alive. */
    atomic_store(&probes->turn_ms, ps_now_ms(probes->options.clock));
    atomic_store(&probes->state, state);
    if (probes->ready_due)
        probes->ready_due = !ps_notify_ready(&probes->notify);
    if (atomic_load(&probes->stopping_due) && ps_notify_stopping(&probes->notify))
        atomic_store(&probes->stopping_due, false);
    give_sign(probes);
    if (probes->told_state != state &&
        ps_notify_status(&probes->notify, ps_coordinator_state_word(state)))
        probes->told_state = state;
}

/* One for each interval: more would crowd out what the manager has not read yet. By this thread, so
 * that the manager restarts a server whose coordinator hangs, and not only one that is gone. */
static void give_sign(struct ps_probes *probes)
{
    uint64_t watchdog_ms = probes->notify.watchdog_ms;
    if (watchdog_ms == 0 || ps_now_ms(probes->options.clock) < probes->sign_due_ms)
        return;
    bool given = ps_notify_watchdog(&probes->notify);
    probes->sign_due_ms = ps_deadline_after(probes->options.clock, given ? watchdog_ms : AGAIN_MS);
}

/* Half of the time after which it would count as stuck. */
uint64_t ps_probes_limit_wait(const struct ps_probes *probes, uint64_t until_ms)
{
    /* What the manager had no room for is sent again soon. */
    bool owes = probes->ready_due || atomic_load(&probes->stopping_due) ||
                probes->told_state != atomic_load(&probes->state);
    uint64_t turn_ms = ps_deadline_after(probes->options.clock, owes ? AGAIN_MS : TURN_MS_MAX / 2);
    if (probes->notify.watchdog_ms != 0 && probes->sign_due_ms < turn_ms)
        turn_ms = probes->sign_due_ms;
    return until_ms < turn_ms ? until_ms : turn_ms;
}

/* At once, by the main thread: load balancers are to send nobody here while calls are still
 * answered. */
void ps_probes_stopping(struct ps_probes *probes)
{
    atomic_store(&probes->stopping, true);
    atomic_store(&probes->stopping_due, !ps_notify_stopping(&probes->notify));
}

/* Looks at the server's own threads only: a dead etcd is not a reason to kill a server. */
static bool is_live(void *self, struct ps_buffer *reason)
{
    struct ps_probes *probes = self;
    uint64_t silent_ms = ps_now_ms(probes->options.clock) - atomic_load(&probes->turn_ms);
    ps_buffer_append_format(reason, "the coordinator came round %llu ms ago",
                            (unsigned long long)silent_ms);
    return silent_ms < TURN_MS_MAX;
}

/* Both have to agree: the coordinator that the shard is ours and published, the service that it
 * would answer at this moment. */
static bool is_ready(void *self, struct ps_buffer *reason)
{
    struct ps_probes *probes = self;
    if (atomic_load(&probes->stopping)) {
        ps_buffer_append_text(reason, "stopping");
        return false;
    }
    enum ps_coordinator_state state = (enum ps_coordinator_state)atomic_load(&probes->state);
    const char *service = ps_service_state_name(probes->options.service);
    ps_buffer_append_format(reason, "%s, %s", ps_coordinator_state_word(state), service);
    /* Calls go on with the former files, so that this is no reason to send clients away. */
    ps_access_complaint(probes->options.access, reason);
    return state == PS_COORDINATOR_SERVING && ps_service_is_serving(probes->options.service);
}

/* Gauges are brought up to date when somebody looks. */
static void render(void *self, struct ps_buffer *page)
{
    struct ps_probes *probes = self;
    ps_service_count(probes->options.service);
    ps_rpc_server_count(probes->options.rpc);
    ps_metrics_render(probes->options.metrics, page);
}
