/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that follow from options that are there anyway: an operator who allows larger messages or
 * more calls must not have to know that something else counts them, too.
 *
 * The bounds of the door are looser than those of the calls behind it, each of which answers in
 * words that a client understands and repeats. A connection is ended only for what no such answer
 * can bound: bytes that are no call yet, calls that are gone before they are answered, answers that
 * nobody takes. */
#include "server/rpc/front_door.h"

#include "base/assert.h"
#include "base/memory_limit.h"
#include "server/front/front.h"
#include "server/rpc/front_self_test.h"

#include <string.h>

/* gRPC holds about 11 KiB for a call, so this is 180 MiB. */
enum { OPEN_CALLS_DEFAULT = 16384 };

/* Bounds are raised to what must always fit, never lowered. */
static uint64_t larger_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A fixed size would be too much for a small machine and a trap for a large one, on which many
 * clients send the largest messages at once. */
static uint64_t quarter_of_memory(void)
{
    return ps_memory_limit() / 4;
}

/* By a thread of gRPC's or of HTTP's, in the middle of a read: counted, and perhaps one line. */
static void on_refused(void *self, enum ps_front_reason reason, const char *peer)
{
    /* The door stays where it is until it was closed, and closing waits for this call. */
    struct ps_front_door *door = self;
    ps_refusals_note(door->refusals, ps_front_reason_refusal(reason), 1,
                     (struct ps_bytes){(const uint8_t *)peer, strlen(peer)},
                     ps_front_reason_text(reason));
}

/* A client may begin calls before it has heard how many it may have, hence twice as many. Two of
 * the largest messages always fit, so that one of them is never refused for the rest of another. */
bool ps_front_door_open(struct ps_front_door *door, const struct ps_front_door_options *options)
{
    PS_ASSERT(options->refusals != NULL && options->metrics != NULL);
    *door = (struct ps_front_door){.refusals = options->refusals, .metrics = options->metrics};
    if (options->registry != NULL) {
        door->open_calls = ps_metrics_gauge(options->registry, "ps_front_open_calls",
                                            "Calls that are open on all connections, answers that "
                                            "were not written included.",
                                            NULL);
        door->unfinished_bytes =
            ps_metrics_gauge(options->registry, "ps_front_unfinished_bytes",
                             "Bytes of requests that have begun to come and are not whole.", NULL);
        /* For an alarm: a log line at the start is soon out of sight. */
        door->guarded = ps_metrics_gauge(options->registry, "ps_front_guarded",
                                         "1 when the trial at the start found that connections are "
                                         "bounded.",
                                         NULL);
    }
    /* The same default as that of the setting that the client is told (server_arguments.c). */
    uint32_t calls =
        options->client_calls_max != 0 ? options->client_calls_max : PS_CLIENT_CALLS_DEFAULT;
    /* A client that is never refused for its bytes is bounded by what all may have. */
    uint64_t least = 2 * options->message_bytes_max;
    uint64_t all =
        options->unfinished_bytes_max != 0 ? options->unfinished_bytes_max : quarter_of_memory();
    all = larger_of(all, least);
    uint64_t one = options->client_bytes_max != 0 ? options->client_bytes_max : all;
    /* Who gave a time in milliseconds meant at least that; whole seconds are what is counted. */
    struct ps_front_options wish = {
        .connection = {.streams_max = calls < UINT32_MAX / 2 ? 2 * calls : UINT32_MAX,
                       .unfinished_bytes_max = larger_of(one, least),
                       .patience_s = (uint32_t)((options->patience_ms + 999) / 1000)},
        .connections_max = options->connections_max,
        .local_users =
            options->local_users != NULL ? *options->local_users : (struct ps_local_users){0},
        .open_calls_max =
            options->open_calls_max != 0 ? options->open_calls_max : OPEN_CALLS_DEFAULT,
        .unfinished_bytes_max = all,
        .self = door,
    };
    /* Tried before anybody is told of refusals: the trial is none. */
    ps_front_open(&wish);
    bool holds = ps_front_self_test();
    ps_gauge_set(door->guarded, holds ? 1 : 0);
    wish.refused = on_refused;
    ps_front_open(&wish);
    /* Opened the second time with the listener: from here on refusals are real. */
    return holds;
}

/* Another server of the same process may have opened the door meanwhile, and keeps it. After the
 * gRPC server is gone, so that the last of its connections are still counted. */
void ps_front_door_close(struct ps_front_door *door)
{
    ps_front_close(door);
}

/* Set when somebody looks: a gauge that followed every frame would be written by all lanes at
 * once. */
void ps_front_door_count(struct ps_front_door *door)
{
    struct ps_front_counts counts = ps_front_count();
    ps_gauge_set(door->open_calls, counts.open_calls);
    ps_gauge_set(door->unfinished_bytes, (double)counts.unfinished_bytes);
    ps_rpc_metrics_connections(door->metrics, counts.tcp, counts.local);
    ps_rpc_metrics_dropped(door->metrics, counts.dropped);
}
