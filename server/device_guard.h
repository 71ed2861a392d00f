/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a server, and what becomes of the server when it dies: first of all nothing is
 * acknowledged any more, then the shard goes back, the main thread is told by a signal, and the
 * death is noted (device_record.h).
 *
 * Threads:  open, watch, note_death and close belong to the main thread; the device may die in any.
 * Blocking: open tries the device, note_death waits for the disk.
 * Errors:   open: what device_choice.h says.
 * Memory:   in place; what was opened ends with close.
 */
#ifndef PS_SERVER_DEVICE_GUARD_H
#define PS_SERVER_DEVICE_GUARD_H

#include "server/core/ownership/coordinator_driver.h"
#include "server/device_choice.h"
#include "server/pserver_options.h"
#include "server/rpc/shared_mapping.h"

#include <stdatomic.h>

struct ps_device_guard {
    struct ps_device_choice choice;
    const struct ps_log *log;             /* borrowed */
    const char *data_dir;                 /* borrowed; may be NULL: nothing is noted */
    int signal;                           /* that the main thread gets */
    struct ps_service *service;           /* borrowed; NULL: not yet */
    struct ps_coordinator_driver *driver; /* borrowed; NULL: not yet, or not any more */
    struct ps_error death;                /* written by the thread that met it, and then: */
    atomic_bool died;
};

/* Chooses and opens the device that the options ask for, if any. The guard stays where it is. */
PS_MUST_USE enum ps_status ps_device_guard_open(struct ps_device_guard *guard,
                                                const struct ps_pserver_options *options,
                                                const struct ps_log *log, int signal,
                                                struct ps_error *error);

/* Everything that lived on the device has ended. Accepts a zeroed one. */
void ps_device_guard_close(struct ps_device_guard *guard);

/* Where parameters live; NULL: on the host. */
struct ps_device_store *ps_device_guard_store(struct ps_device_guard *guard);

/* For memory that clients share: the device copies from it by itself. Nothing where there is no
 * device. */
struct ps_shared_pins ps_device_guard_pins(struct ps_device_guard *guard);

/* For a device's own memory that clients share. Nothing where there is no device. */
struct ps_shared_devices ps_device_guard_devices(struct ps_device_guard *guard);

/* Who is told of a death, from now on; before anything is put on the device. NULL for the driver:
 * it is about to end. */
void ps_device_guard_watch(struct ps_device_guard *guard, struct ps_service *service,
                           struct ps_coordinator_driver *driver);

bool ps_device_guard_died(const struct ps_device_guard *guard);

/* After a death. */
void ps_device_guard_note_death(struct ps_device_guard *guard);

#endif
