/* SPDX-License-Identifier: Apache-2.0 */
/* Settings and waiting of the bare gRPC echo. The echo must have what our servers and clients have,
 * or the comparison would be unfair: no bound on messages, no retries, the lean stack of filters,
 * busy polling as asked for. */
#include "tools/psbench/psbench_echo_common.h"

#include "base/clock.h"

#include <grpc/support/time.h>

#include <stdint.h>

/* Everything that gRPC does beside carrying a message (retries, channelz, extra filters) is
 * switched off: the reference is gRPC at its leanest. */
grpc_channel_args ps_bench_echo_arguments(grpc_arg list[PS_BENCH_ECHO_ARGUMENTS])
{
    static const struct {
        const char *key;
        int value;
    } settings[PS_BENCH_ECHO_ARGUMENTS] = {
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1},
        {GRPC_ARG_MINIMAL_STACK, 1},
        {GRPC_ARG_ENABLE_RETRIES, 0},
        {GRPC_ARG_ENABLE_CHANNELZ, 0},
    };
    for (size_t i = 0; i < PS_BENCH_ECHO_ARGUMENTS; i++)
        list[i] = (grpc_arg){.type = GRPC_ARG_INTEGER,
                             .key = (char *)(uintptr_t)settings[i].key, /* only read */
                             .value.integer = settings[i].value};
    return (grpc_channel_args){PS_BENCH_ECHO_ARGUMENTS, list};
}

/* The same busy polling as in server and client (base/busy_poll.h): it looks for a while without
 * sleeping, and then sleeps. */
grpc_event ps_bench_echo_next(grpc_completion_queue *queue, struct ps_busy_poll *poll)
{
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    uint64_t until_ns = ps_busy_poll_begin(poll);
    if (until_ns != 0) {
        do
            event = grpc_completion_queue_next(queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
        while (event.type == GRPC_QUEUE_TIMEOUT && ps_busy_poll_again(poll, until_ns));
        ps_busy_poll_end(poll, event.type != GRPC_QUEUE_TIMEOUT);
    }
    if (event.type == GRPC_QUEUE_TIMEOUT)
        event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    return event;
}
