/* SPDX-License-Identifier: Apache-2.0 */
/* What psbench is told: its options, checked.
 *
 * Threads:  one, at start.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT with a sentence that names the option and what is allowed.
 * Memory:   texts point into argv, the environment and static tables.
 */
#ifndef PS_TOOLS_PSBENCH_OPTIONS_H
#define PS_TOOLS_PSBENCH_OPTIONS_H

#include "base/busy_poll.h"
#include "base/options.h"

struct ps_bench;

/* One benchmark, as the command line knows it. */
struct ps_bench_kind {
    const char *name;
    enum ps_status (*run)(struct ps_bench *bench, struct ps_error *error);
    uint64_t size;        /* what --size 0 means */
    uint64_t outstanding; /* what --outstanding 0 means */
    uint64_t repeat;      /* what --repeat 0 means */
    bool transfer;        /* measures servers that are there already, too */
};

struct ps_bench_options {
    const struct ps_bench_kind *kind; /* NULL for --help and the like */
    const char *name;                 /* of the kind */
    uint64_t size, outstanding, repeat, time_ms;
    uint64_t shard_size, journal_size, workers, server_count, rows, width, keys;
    const char *servers, *etcd, *job;
    const char *ack, *via, *transport, *part, *program, *folder, *name_space, *cache;
    const char *output; /* a form, or for report a folder */
    const char *plot;
    uint64_t lanes;
    const char *busy_poll_text;
    struct ps_busy_poll_wish busy_poll;
    bool tls, tune_malloc, json, csv, progress, pause, quick;
    bool help, man, version;
};

const struct ps_option_set *ps_bench_option_set(void);

/* NULL: there is none of that name. */
const struct ps_bench_kind *ps_bench_kind_named(const char *name);

/* Reads environment and flags and checks them. */
PS_MUST_USE enum ps_status ps_bench_options_init(struct ps_bench_options *options, int argc,
                                                 char **argv, struct ps_error *error);

#endif
