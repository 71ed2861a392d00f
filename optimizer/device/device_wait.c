/* SPDX-License-Identifier: Apache-2.0 */
/* The watch over waits, and the wait for an event: by looking again for a moment, then asleep. */
#include "optimizer/device/device_wait.h"

#include "base/assert.h"
#include "optimizer/device/runtime.h"

#include <stdio.h>

/* A wait that the watch has seen so often has lasted for wait_ms. */
#define TICKS 8

/* Going to sleep and waking costs as much as what is waited for most often. */
#define LOOK_NS 30000

static void watch_waits(void *argument);
static const char *find_too_long(struct ps_watch *watch);
static int look_again(struct ps_device *device, struct ps_driver_event *event);

/* A driver call that waits cannot be given a deadline. A thread of its own looks at how long the
 * others have been waiting, and declares the device dead; the waits themselves may then never
 * end, and the server goes on without them. */
enum ps_status ps_watch_open(struct ps_watch *watch, struct ps_fault *fault, uint64_t wait_ms,
                             struct ps_error *error)
{
    *watch = (struct ps_watch){.fault = fault, .wait_ms = wait_ms > 0 ? wait_ms : PS_WAIT_MS};
    ps_mutex_init(&watch->lock, PS_RANK_LEAF);
    ps_condition_init(&watch->stopped);
    return ps_thread_start(&watch->thread, "ps-device-watch", watch_waits, watch, error);
}

void ps_watch_close(struct ps_watch *watch)
{
    /* Never opened, or closed already: a device that failed to open is closed by the same way. */
    if (watch->fault == NULL)
        return;
    PS_ASSERT(watch->waits == NULL);
    ps_mutex_lock(&watch->lock);
    watch->stops = true;
    ps_condition_signal_all(&watch->stopped);
    ps_mutex_unlock(&watch->lock);
    /* The watch holds no lock while it tells of a fault, so that joining it cannot hang. */
    ps_thread_join(&watch->thread);
    ps_condition_fini(&watch->stopped);
    ps_mutex_fini(&watch->lock);
    *watch = (struct ps_watch){0};
}

/* Wakes eight times in wait_ms: a wait is found between wait_ms and an eighth more after its
 * beginning. One report is enough, since a device that is dead stays so. */
static void watch_waits(void *argument)
{
    struct ps_watch *watch = argument;
    const char *action = NULL;
    ps_mutex_lock(&watch->lock);
    while (!watch->stops && action == NULL) {
        bool signalled =
            ps_condition_wait(&watch->stopped, &watch->lock, (watch->wait_ms + TICKS - 1) / TICKS);
        if (!signalled)
            action = find_too_long(watch);
    }
    ps_mutex_unlock(&watch->lock);
    if (action == NULL)
        return;
    /* The action is what the longest waiter was doing: it is in the log, and tells a hanging
     * copy from a hanging kernel. */
    char name[64];
    (void)snprintf(name, sizeof name, "no answer within %llu ms",
                   (unsigned long long)watch->wait_ms);
    ps_fault_note(watch->fault, PS_FAULT_TIMEOUT, name, action);
}

/* Ticks are counted and no clock is read: a machine that was suspended would otherwise find
 * every wait too long. */
static const char *find_too_long(struct ps_watch *watch)
{
    for (struct ps_wait *wait = watch->waits; wait != NULL; wait = wait->next)
        if (++wait->ticks > TICKS)
            return wait->action;
    return NULL;
}

/* The record lies on the waiting thread's stack; `link` is the pointer that points to it, so
 * that it is taken out without a search. */
void ps_wait_begin(struct ps_watch *watch, struct ps_wait *wait, const char *action)
{
    ps_mutex_lock(&watch->lock);
    *wait = (struct ps_wait){.action = action, .next = watch->waits, .link = &watch->waits};
    if (wait->next != NULL)
        wait->next->link = &wait->next;
    watch->waits = wait;
    ps_mutex_unlock(&watch->lock);
}

void ps_wait_end(struct ps_watch *watch, struct ps_wait *wait)
{
    ps_mutex_lock(&watch->lock);
    *wait->link = wait->next;
    if (wait->next != NULL)
        wait->next->link = wait->link;
    ps_mutex_unlock(&watch->lock);
}

/* Looks for a moment before it goes to sleep: most waits are for a copy of microseconds, and the
 * driver's sleep costs tens of them. */
enum ps_status ps_device_await_event(struct ps_device *device, struct ps_driver_event *event,
                                     const char *action, struct ps_error *error)
{
    struct ps_wait wait;
    atomic_fetch_add(&device->wait_count, 1);
    int code = look_again(device, event);
    if (code == PS_FAULT_NOT_READY) {
        ps_wait_begin(&device->watch, &wait, action);
        code = device->driver.event_synchronize(device->driver.self, event);
        ps_wait_end(&device->watch, &wait);
    }
    PS_TRY(ps_device_check_code(device, code, action, error));
    /* Another thread may have met an error in work of its own: nothing is to be trusted then. */
    return ps_fault_check(&device->fault, error);
}

/* An answer other than "not ready", also an error, ends the looking. */
static int look_again(struct ps_device *device, struct ps_driver_event *event)
{
    struct ps_driver *driver = &device->driver;
    int code = driver->event_query(driver->self, event);
    if (code != PS_FAULT_NOT_READY)
        return code;
    uint64_t until_ns = ps_clock_precise_ns() + LOOK_NS;
    while (code == PS_FAULT_NOT_READY && ps_clock_precise_ns() < until_ns)
        code = driver->event_query(driver->self, event);
    return code;
}
