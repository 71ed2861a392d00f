/* SPDX-License-Identifier: Apache-2.0 */
/* One running pserver: all its parts, put together and taken apart in the right order.
 *
 *   coordinator thread   owns the driver and the store: claims, keeps the lease, publishes
 *   checkpointer thread  loads and saves (server/tasks.h); drainer thread: ends calls in flight
 *   lanes                answer gRPC calls (server/rpc)
 *   http thread          /metrics, /livez, /readyz
 *
 * Threads:  create, announce_stop, stop, exit_code and destroy belong to the main thread.
 * Blocking: create until the address is bound; destroy until every thread has ended.
 * Errors:   create: PS_ERR_IO for an address or folder, PS_ERR_BAD_INPUT, PS_ERR_NO_MEMORY.
 * Memory:   the instance owns its parts; options and log are borrowed and outlive it.
 */
#ifndef PS_SERVER_INSTANCE_H
#define PS_SERVER_INSTANCE_H

#include "base/log.h"
#include "base/status.h"
#include "server/pserver_options.h"

#include <signal.h>

/* Sent to the process when the instance has ended by itself; to be blocked by all threads. */
#define PS_INSTANCE_ENDED_SIGNAL SIGUSR1

/* The same when the device has failed. */
#define PS_INSTANCE_BROKEN_SIGNAL SIGUSR2

struct ps_instance;
struct ps_service;

/* What a program does with the service before the first call can come. */
struct ps_preparation {
    enum ps_status (*prepare)(void *self, struct ps_service *service, struct ps_error *error);
    void *self;
};

/* Builds everything and starts the threads. `prepare` may be NULL. */
PS_MUST_USE enum ps_status ps_instance_create(const struct ps_pserver_options *options,
                                              const struct ps_log *log,
                                              const struct ps_preparation *prepare,
                                              struct ps_instance **instance,
                                              struct ps_error *error);

/* Tells probes and the service manager that the server is going; calls are still answered. */
void ps_instance_announce_stop(struct ps_instance *instance);

/* As clients are told; lives as long as the instance. */
const char *ps_instance_address(const struct ps_instance *instance);

/* Begins the clean end: drain, last checkpoint, lease given back. Returns at once; the signal says
 * when it is over. */
void ps_instance_stop(struct ps_instance *instance);

/* After the signal: 0 for a clean end, EX_DATAERR (65) when no checkpoint is whole, EX_SOFTWARE
 * (70) when the device has failed, EX_UNAVAILABLE (69) otherwise. */
int ps_instance_exit_code(const struct ps_instance *instance);

/* After PS_INSTANCE_BROKEN_SIGNAL: notes in the data directory that the device has failed
 * (device_record.h). The instance gives its shard back meanwhile and then ends; what it has in
 * memory must not be touched any more: end the process without destroy, soon. */
void ps_instance_note_death(struct ps_instance *instance);

void ps_instance_destroy(struct ps_instance *instance);

#endif
