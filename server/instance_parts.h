/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of an instance: its parts, shared by what builds them (instance_build.c), what lets them
 * call each other (instance_hooks.c) and what begins and ends them all (instance.c). Nobody else
 * includes this.
 *
 * Threads:  said at the fields; what is not said there is set before the threads run.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the instance owns every part; ps_instance_destroy ends them in their order.
 */
#ifndef PS_SERVER_INSTANCE_PARTS_H
#define PS_SERVER_INSTANCE_PARTS_H

#include "base/metrics.h"
#include "base/thread.h"
#include "server/access_reload.h"
#include "server/cluster_thread.h"
#include "server/core/ownership/coordinator_driver.h"
#include "server/core/values/block_pool.h"
#include "server/data_files.h"
#include "server/device_guard.h"
#include "server/front_errand.h"
#include "server/instance.h"
#include "server/probes.h"
#include "server/rpc/rpc_server.h"
#include "server/store.h"
#include "server/tasks.h"
#include "server/touch_errand.h"
#include "server/workers_thread.h"

#include <stdatomic.h>

struct ps_instance {
    const struct ps_pserver_options *options; /* `own` */
    struct ps_pserver_options own;            /* a copy; its texts are borrowed */
    char data_dir[4096];                      /* as a path from the root */
    struct ps_data_files data_files;          /* where there is a data_dir */
    const struct ps_log *log;                 /* borrowed */
    struct ps_metrics *metrics;
    struct ps_device_guard device;
    struct ps_block_pool *pool;   /* NULL: blocks come from the heap */
    struct ps_touch_errand touch; /* touches memory that tables grow into */
    struct ps_access_reload reload;
    struct ps_service *service;
    struct ps_store *store;            /* of the coordinator thread */
    struct ps_store *checkpoint_store; /* of the checkpointer thread */
    struct ps_store *note_store;       /* of the thread that notes */
    struct ps_store *cluster_store;    /* of the thread that knows the servers */
    struct ps_set_wish wish;           /* of sets that this server's shard is to be saved for */
    struct ps_cluster_thread *cluster;
    struct ps_store *workers_store; /* of the thread that knows the workers */
    struct ps_workers_thread *workers;
    struct ps_rpc_server *rpc;
    struct ps_front_errand front;      /* looks after connections that stand still */
    struct ps_journal_thread *journal; /* NULL: none is kept */
    struct ps_note_thread *notes;      /* NULL: no journal is kept */
    struct ps_tasks *tasks;
    struct ps_coordinator_driver *driver;
    struct ps_probes *probes;
    char address[PS_ADDRESS_BYTES_MAX]; /* as clients are told */
    struct ps_thread coordinator;
    atomic_bool drain_asked;
    bool listening;          /* coordinator thread */
    bool told_serving;       /* coordinator thread: what health watchers know */
    struct ps_error outcome; /* written by the coordinator thread before it ends */
};

/* Builds all of them; the threads of the cluster and the coordinator's are started behind it. A
 * failure leaves what is built to ps_instance_destroy. `prepare` as of ps_instance_create. */
PS_MUST_USE enum ps_status ps_instance_build(struct ps_instance *instance,
                                             const struct ps_preparation *prepare,
                                             struct ps_error *error);

/* What the coordinator's driver starts through this instance. */
struct ps_coordinator_hooks ps_instance_hooks(struct ps_instance *instance);

/* The threads that know the servers and the workers, whose news wake calls. */
PS_MUST_USE enum ps_status ps_instance_build_cluster(struct ps_instance *instance,
                                                     struct ps_error *error);

PS_MUST_USE enum ps_status ps_instance_start_cluster(struct ps_instance *instance,
                                                     struct ps_error *error);
/* Before the lanes are destroyed, whose calls they wake; and behind that. */
void ps_instance_stop_cluster(struct ps_instance *instance);
void ps_instance_end_cluster(struct ps_instance *instance);

/* What the service tells this instance. */
struct ps_service_listener ps_instance_listener(struct ps_instance *instance);

#endif
