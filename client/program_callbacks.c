/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a customer's callbacks. ps-lite calls back on the thread that receives, so that a
 * callback which waits for another request waits for itself. Here answers are taken by whoever
 * waits, or by the channel's own thread, and this thread only calls back; and when a callback
 * waits for a request that has a callback, too, that one is called from within the wait.
 *
 * So waits within callbacks nest on one stack, and a deadlock needs a wait for something that is
 * further up: that is a request whose callback has begun, all of whose answers are there, and such
 * a wait returns at once.
 *
 * Threads of the program that wait for a request with a callback are woken when it has returned.
 * So "the callback is done" comes before "the wait returns", as in ps-lite, and the callback may
 * write what the waiting thread reads, without a lock of their own. */
#include "client/program_customer.h"

#include "base/assert.h"
#include "client/status_map.h"

#include <utlist.h>

/* The first that is over and was not called back yet. With the lock. */
static struct ps_asked *first_due(const struct ps_customer *customer)
{
    struct ps_asked *asked;
    DL_FOREACH(customer->over, asked)
    {
        if (!asked->is_called && !asked->is_calling)
            return asked;
    }
    return NULL;
}

/* The result is copied before: within the callback other requests may push it out of memory. A
 * request that is being called back is never collected. */
void ps_asking_call_back(struct ps_customer *customer, struct ps_asked *asked)
{
    PS_ASSERT(asked->is_over && !asked->is_called);
    struct ps_error why;
    const struct ps_kv_call how = asked->how;
    int64_t timestamp = asked->timestamp;
    (void)ps_request_tracker_look(&customer->tracker, timestamp, &why);
    asked->is_calling = true;
    ps_mutex_unlock(&customer->lock);
    how.callback(how.user, timestamp, (int)ps_client_status_of(why.status), why.text);
    ps_mutex_lock(&customer->lock);
    asked->is_calling = false;
    asked->is_called = true;
    ps_condition_signal_all(&customer->changed);
}

/* Everything that is due is called before the thread ends: a request that was given up at the end
 * has its callback, too. */
static void run(void *argument)
{
    struct ps_customer *customer = argument;
    ps_mutex_lock(&customer->lock);
    customer->caller = pthread_self();
    customer->is_running = true;
    for (;;) {
        struct ps_asked *due = first_due(customer);
        if (due != NULL)
            ps_asking_call_back(customer, due);
        else if (customer->is_closing && customer->open == NULL)
            break;
        else
            (void)ps_condition_wait(&customer->changed, &customer->lock, PS_DEADLINE_NEVER);
    }
    ps_mutex_unlock(&customer->lock);
}

/* From the first callback on the channel's own thread takes answers while nobody waits: otherwise a
 * program that only waits for its callbacks would wait for ever. */
enum ps_status ps_asking_start_callbacks(struct ps_customer *customer, struct ps_error *error)
{
    if (ps_client_event_fd(customer->client) < 0)
        return ps_fail(error, PS_ERR_BUSY, "no file descriptor is left for callbacks");
    ps_mutex_lock(&customer->lock);
    enum ps_status status = PS_OK;
    if (!customer->has_thread)
        status = ps_thread_start(&customer->thread, "ps-callbacks", run, customer, error);
    customer->has_thread = customer->has_thread || status == PS_OK;
    ps_mutex_unlock(&customer->lock);
    return status;
}

/* Asked with the lock held, so that a thread that has just begun to run is known by its number. */
bool ps_asking_is_caller(const struct ps_customer *customer)
{
    return customer->is_running && pthread_equal(customer->caller, pthread_self()) != 0;
}

/* A callback that waits for its own request, or for one whose callback is further up on this
 * thread's stack, has nothing to wait for: the answers are there. */
bool ps_asking_await_callback(struct ps_customer *customer, struct ps_asked *asked,
                              uint64_t deadline_ms)
{
    PS_ASSERT(asked->is_over);
    if (!asked->is_called && ps_asking_is_caller(customer)) {
        if (!asked->is_calling)
            ps_asking_call_back(customer, asked);
        return true;
    }
    while (!asked->is_called) {
        uint64_t left_ms = ps_time_left_ms(customer->client->clock, deadline_ms);
        if (left_ms == 0)
            return false;
        (void)ps_condition_wait(&customer->changed, &customer->lock, left_ms);
    }
    return true;
}

/* Woken without a request, the thread looks whether it is to end. */
void ps_asking_stop_callbacks(struct ps_customer *customer)
{
    ps_mutex_lock(&customer->lock);
    customer->is_closing = true;
    ps_condition_signal_all(&customer->changed);
    ps_mutex_unlock(&customer->lock);
    if (customer->has_thread)
        ps_thread_join(&customer->thread);
}
