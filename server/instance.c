/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a pserver: built (instance_build.c), coordinated by one thread, taken apart. Taking
 * apart goes the other way round than building, and each step can be made when the ones behind it
 * were never built. */
#include "server/instance_parts.h"

#include "base/assert.h"
#include "base/bounds.h"

#include <signal.h>
#include <sysexits.h>
#include <unistd.h>

static void coordinator_main(void *argument);
static void tell_health(struct ps_instance *instance);

/* Everything that can be refused for good is refused before a thread runs: an address, a folder, a
 * device. */
enum ps_status ps_instance_create(const struct ps_pserver_options *options,
                                  const struct ps_log *log, const struct ps_preparation *prepare,
                                  struct ps_instance **out, struct ps_error *error)
{
    struct ps_instance *instance = ps_zeroed(ps_allocator_heap(), sizeof *instance);
    if (instance == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the server");
    /* A copy, since the data directory is replaced by its path from the root. */
    instance->own = *options;
    instance->options = &instance->own;
    instance->log = log;
    PS_LOG(log, PS_LOG_INFO, "server", "starting", PS_FIELD_TEXT("version", PS_VERSION),
           PS_FIELD_UINT("pid", (uint64_t)getpid()), PS_FIELD_TEXT("job", options->job),
           PS_FIELD_TEXT("index", options->index < 0 ? "any" : options->index_text),
           PS_FIELD_TEXT("data_dir", options->data_dir != NULL ? options->data_dir : ""),
           PS_FIELD_TEXT("etcd", options->etcd != NULL ? options->etcd : ""));
    /* A warning and not a refusal: for tests, and for values that are easily computed again, memory
     * is enough. */
    if (options->data_dir == NULL)
        PS_LOG0(log, PS_LOG_WARN, "server",
                "no --data-dir: parameters live in memory only, and end with this process");
    /* Clients of other languages may send as little as they like. */
    if (options->message_bytes < PS_MESSAGE_BYTES_SENT)
        PS_LOG(log, PS_LOG_WARN, "server",
               "--message-bytes is below what pserver's own clients send in one message: larger "
               "content of theirs is refused",
               PS_FIELD_UINT("message_bytes", options->message_bytes),
               PS_FIELD_UINT("needed", PS_MESSAGE_BYTES_SENT));
    /* The coordinator's thread is started after all parts: its first turn may use every one of
     * them. */
    enum ps_status status = ps_instance_build(instance, prepare, error);
    if (status == PS_OK)
        status = ps_instance_start_cluster(instance, error);
    if (status == PS_OK)
        status = ps_thread_start(&instance->coordinator, "coordinator", coordinator_main, instance,
                                 error);
    if (status != PS_OK) {
        ps_instance_destroy(instance);
        return status;
    }
    *out = instance;
    return PS_OK;
}

/* The coordinator's thread first: it starts everything else. The tasks before what they use, the
 * lanes before the service, and the device after the last parameter that lives on it. */
void ps_instance_destroy(struct ps_instance *instance)
{
    if (instance == NULL)
        return;
    /* It has ended by itself when the end is clean; after a failed start there is none. */
    ps_thread_join(&instance->coordinator);
    /* The thread of the HTTP port reads the service, the lanes and the metrics, so it ends while
     * all of them are there. */
    ps_probes_destroy(instance->probes);
    /* A load, save or drain at work uses the lanes, journal and driver, and is waited for here. */
    ps_tasks_destroy(instance->tasks);
    /* Its news wake the lanes. */
    ps_instance_stop_cluster(instance);
    ps_front_errand_fini(&instance->front);
    ps_rpc_server_destroy(instance->rpc);
    ps_instance_end_cluster(instance);
    ps_access_reload_fini(&instance->reload);
    /* The lanes are gone, so no push wakes the journal any more. */
    ps_journal_thread_destroy(instance->journal);
    ps_note_thread_destroy(instance->notes);
    /* From here on a death of the device is told to nobody who is about to go. */
    ps_device_guard_watch(&instance->device, instance->service, NULL);
    /* Its store is closed behind it. */
    ps_coordinator_driver_destroy(instance->driver);
    ps_store_close(instance->store);
    ps_store_close(instance->checkpoint_store);
    ps_store_close(instance->note_store);
    ps_set_wish_fini(&instance->wish);
    /* The values of the service lie in blocks of the pool or on the device; both end after it. */
    ps_service_destroy(instance->service);
    ps_device_guard_close(&instance->device);
    ps_block_pool_destroy(instance->pool);
    ps_touch_errand_fini(&instance->touch);
    ps_metrics_destroy(instance->metrics);
    ps_release(ps_allocator_heap(), instance);
}

/* The probes change first, so that load balancers send nobody new while calls are still
 * answered. */
void ps_instance_announce_stop(struct ps_instance *instance)
{
    PS_ASSERT(instance->probes != NULL && instance->service != NULL);
    PS_LOG0(instance->log, PS_LOG_INFO, "server", "stopping");
    ps_probes_stopping(instance->probes);
    ps_service_announce_stop(instance->service);
}

/* Known since the port was bound. */
const char *ps_instance_address(const struct ps_instance *instance)
{
    PS_ASSERT(instance->address[0] != '\0');
    return instance->address;
}

/* The signal says when it is over; the main thread waits for that and nothing else. */
void ps_instance_stop(struct ps_instance *instance)
{
    PS_ASSERT(instance->driver != NULL);
    ps_coordinator_driver_tell_stop(instance->driver);
}

/* The main thread writes the note, since the disk is waited for: the thread that met the death may
 * hold any lock. */
void ps_instance_note_death(struct ps_instance *instance)
{
    ps_device_guard_note_death(&instance->device);
}

/* Codes of sysexits.h, so that a supervisor can tell what a restart may cure from what it cannot.
 * */
int ps_instance_exit_code(const struct ps_instance *instance)
{
    if (ps_device_guard_died(&instance->device))
        return EX_SOFTWARE;
    switch (instance->outcome.status) {
    case PS_OK:
        return 0;
    /* A restart would read the same damaged files: a person has to look first. */
    case PS_ERR_CORRUPT:
        return EX_DATAERR;
    case PS_ERR_BAD_INPUT:
    case PS_ERR_OUT_OF_RANGE: /* an index that the job does not have */
        return EX_USAGE;
    /* Everything else may be cured by the next start: an address in use, a lost lease, a full
     * disk. */
    default:
        return EX_UNAVAILABLE;
    }
}

/* A turn, then what people and machines are told of it, then the wait. The signal at the end is for
 * the main thread, which alone may take the instance apart. */
static void coordinator_main(void *argument)
{
    struct ps_instance *instance = argument;
    /* "Ready" tells the service manager that the process runs: a spare may wait for a shard for
     * days, which is what /readyz is about. */
    ps_probes_started(instance->probes);
    for (;;) {
        uint64_t next_ms = ps_coordinator_driver_turn(instance->driver);
        ps_probes_turn(instance->probes,
                       ps_coordinator_driver_coordinator(instance->driver)->state);
        /* Behind the turn, which may have changed it. */
        tell_health(instance);
        if (ps_coordinator_driver_ended(instance->driver, &instance->outcome))
            break;
        /* The probes bound the wait: a thread that sleeps too long would look like one that
         * hangs. */
        ps_coordinator_driver_wait(instance->driver,
                                   ps_probes_limit_wait(instance->probes, next_ms));
    }
    if (instance->outcome.status == PS_OK)
        PS_LOG0(instance->log, PS_LOG_INFO, "server", "ended");
    else
        PS_LOG(instance->log, PS_LOG_ERROR, "server", "ended", PS_FIELD_ERROR(&instance->outcome));
    /* The line that an operator sees last is the one that says where to go on reading. */
    if (instance->outcome.status == PS_ERR_CORRUPT)
        PS_LOG0(instance->log, PS_LOG_ERROR, "server",
                "docs/recover.md says what to type; what is wrong is said above");
    /* Nothing may stand behind this line: the main thread begins to take the instance apart. */
    (void)kill(getpid(), PS_INSTANCE_ENDED_SIGNAL);
}

/* Nobody else notices when the proof of ownership runs out by the clock. A wake costs every lane a
 * turn, so the lanes are woken by changes only. */
static void tell_health(struct ps_instance *instance)
{
    PS_ASSERT(instance->service != NULL && instance->rpc != NULL);
    bool serving = ps_service_is_serving(instance->service);
    if (serving == instance->told_serving)
        return;
    instance->told_serving = serving;
    ps_rpc_server_wake(instance->rpc, PS_TOPIC_BIT(PS_TOPIC_LIFE));
}
