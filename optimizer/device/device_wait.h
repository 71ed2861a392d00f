/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a device, and a watch over those who do: a device that hangs answers nothing, and who
 * waits for it waits for ever. When a wait lasts longer than the device was opened with, the watch
 * says that the device is dead; who waits goes on waiting, and the process is to end without them.
 *
 * Time counts while the process runs: one that was stopped for an hour has not waited for that.
 *
 * Threads:  a thread of its own, begun by open; begin and end from any.
 * Blocking: close waits for the thread; begin and end never.
 * Errors:   the device's death is told by ps_fault_note.
 * Memory:   in place; a wait lies on the stack of who waits.
 */
#ifndef PS_OPTIMIZER_DEVICE_WAIT_H
#define PS_OPTIMIZER_DEVICE_WAIT_H

#include "base/thread.h"
#include "optimizer/device/fault.h"

/* When none is asked for. Nothing that a server asks of a GPU takes a second. */
#define PS_WAIT_MS 30000

struct ps_wait {
    const char *action; /* borrowed, until its end */
    uint32_t ticks;
    struct ps_wait *next;
    struct ps_wait **link; /* what points here */
};

struct ps_watch {
    struct ps_fault *fault; /* borrowed; NULL: it was not opened */
    uint64_t wait_ms;
    struct ps_mutex lock; /* PS_RANK_LEAF; guards what follows */
    struct ps_condition stopped;
    bool stops;
    struct ps_wait *waits;
    struct ps_thread thread;
};

/* Begins to watch. wait_ms: 0 is PS_WAIT_MS.  PS_ERR_NO_MEMORY: there is no thread to be had. */
PS_MUST_USE enum ps_status ps_watch_open(struct ps_watch *watch, struct ps_fault *fault,
                                         uint64_t wait_ms, struct ps_error *error);

/* Accepts a zeroed one. */
void ps_watch_close(struct ps_watch *watch);

/* What comes between the two may not return. */
void ps_wait_begin(struct ps_watch *watch, struct ps_wait *wait, const char *action);
void ps_wait_end(struct ps_watch *watch, struct ps_wait *wait);

#endif
