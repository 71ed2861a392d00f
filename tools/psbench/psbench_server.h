/* SPDX-License-Identifier: Apache-2.0 */
/* A pserver that psbench starts for itself: on loopback, on a free port, on a private folder.
 *
 * When one that serves ends without having been killed here, nothing more can be measured, and
 * clients would look for it for a long time: the process says so and ends at once.
 *
 * Threads:  one; the server dies with the thread that started it. Another waits for its end.
 * Blocking: start waits until it serves, stop and kill until it is gone, at most a minute.
 * Errors:   PS_ERR_UNAVAILABLE with the server's own last words.
 * Memory:   in place; a server that runs stays where it is.
 */
#ifndef PS_TOOLS_PSBENCH_SERVER_H
#define PS_TOOLS_PSBENCH_SERVER_H

#include "base/status.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PS_BENCH_PATH_MAX 512
#define PS_BENCH_SERVER_ARGUMENTS_MAX 40

struct ps_bench_server_wish {
    const char *program;
    const char *folder; /* its log goes here as "<name>.log", its data into "<name>" */
    const char *name;
    const char *ack; /* NULL: no data folder, so that nothing is written to disk */
    uint64_t message_bytes;
    uint64_t lanes;
    uint64_t rendezvous_bytes; /* that may wait to be received; 0: the server's default */
    const char *busy_poll;
    uint64_t ttl_ms;       /* of its lease on the shard; 0: the server's default */
    uint64_t index, count; /* shard of a job; count 0: the only one */
    bool no_journal;       /* with `ack`: nothing is written but checkpoints */
    bool tune_malloc;
    const char *certificate, *key; /* paths; NULL: plaintext */
};

struct ps_bench_server {
    pid_t pid; /* 0: not running */
    char address[64];
    char log[PS_BENCH_PATH_MAX];
    char data[PS_BENCH_PATH_MAX]; /* empty: none */
    uint64_t started_ns;          /* when the process was made, on the precise clock */
    uint64_t serving_ns;          /* when its log said that it serves */
    struct ps_thread warden;      /* waits for its end, while it serves */
    atomic_bool ending;           /* as it is meant to */
};

/* Starts one and waits until it serves. A zeroed server, or one that was killed: then it goes on
 * with the data that it had. On failure it is not running. */
PS_MUST_USE enum ps_status ps_bench_server_start(struct ps_bench_server *server,
                                                 const struct ps_bench_server_wish *wish,
                                                 struct ps_error *error);

/* SIGKILL, and waits for its end. Accepts one that is not running. */
void ps_bench_server_kill(struct ps_bench_server *server);

/* The milliseconds of the day at which its log says `event` for the last time; negative: never.
 * `event` is the text between the level and the fields, with the component. */
int64_t ps_bench_server_event_ms(const struct ps_bench_server *server, const char *event);

/* The number behind "<field>=" in the last line with `event`; negative: there is none. */
int64_t ps_bench_server_event_field(const struct ps_bench_server *server, const char *event,
                                    const char *field);

#endif
