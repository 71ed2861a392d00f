/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor that says that operations are finished, for programs with a loop of their own.
 * Without one, operations make progress while some caller waits; behind one, the channel's own
 * thread takes outcomes, ticks the engine and sends what is next while no caller does. The work is
 * the same, under the same mutex (ps_client_pump): callers may wait beside that thread.
 *
 * The descriptor is readable exactly while there are finished operations to be fetched: the library
 * writes it and reads it, so that the program need not. */
#include "client/client_state.h"

#include <sys/eventfd.h>
#include <unistd.h>

/* On the channel's thread. The engine may be gone: psclient_close destroys it before that thread
 * has ended. */
static uint64_t work(void *owner)
{
    struct psclient *client = owner;
    uint64_t wake_ms = PS_DEADLINE_NEVER;
    ps_mutex_lock(&client->mutex);
    if (!client->is_closing) {
        ps_client_pump(client);
        wake_ms = ps_engine_wake_ms(client->engine);
    }
    ps_mutex_unlock(&client->mutex);
    return wake_ms;
}

/* Asked for a second time: the same descriptor. Operations that were finished before are told
 * through it as well. */
int ps_client_event_fd(struct psclient *client)
{
    ps_mutex_lock(&client->mutex);
    int fd = client->event_fd;
    if (fd < 0) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        client->event_fd = fd;
        if (fd >= 0)
            client->channel.employ(client->channel.self, work, client);
        ps_client_tell_event(client);
    }
    ps_mutex_unlock(&client->mutex);
    return fd;
}

/* Neither call blocks: one writes to a counter of 0, the other reads one that is not 0, unless the
 * program has read it. */
void ps_client_tell_event(struct psclient *client)
{
    uint64_t count = 1;
    ssize_t done = sizeof count;
    bool is_there = client->finished != NULL;
    if (client->event_fd < 0 || is_there == client->event_told)
        return;
    client->event_told = is_there;
    if (is_there)
        done = write(client->event_fd, &count, sizeof count);
    else
        done = read(client->event_fd, &count, sizeof count);
    (void)done;
}

/* With a poll of no time a loop that only fetches would keep the channel's thread out of the queue:
 * callers that poll have it for themselves for a while. */
bool ps_client_leaves_it(const struct psclient *client, uint64_t deadline_ms)
{
    return client->event_fd >= 0 && ps_time_left_ms(client->clock, deadline_ms) == 0;
}

/* The channel's thread works under the mutex, so that it is not in the middle of anything here. */
void ps_client_stop_working(struct psclient *client)
{
    ps_mutex_lock(&client->mutex);
    client->is_closing = true;
    ps_mutex_unlock(&client->mutex);
}
