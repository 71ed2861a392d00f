/* SPDX-License-Identifier: Apache-2.0 */
/* The shared part of all benchmarks: wishes by the options, and the bar. Every benchmark starts its
 * servers and loads through these functions, so that an option has one meaning in all of them. */
#include "tools/psbench/psbench.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 24
/* As large as a server's own default, which small sizes should not go below. */
#define MESSAGE_BYTES_MIN ((uint64_t)64 << 20)

/* Room for a message's other fields beside the content. */
#define MESSAGE_BYTES_MORE ((uint64_t)1 << 20)

static bool shows_bar(const struct ps_bench *bench);
static enum ps_bench_via via_of(const char *word);

/* What a benchmark leaves open is closed here, whatever came of it. */
enum ps_status ps_bench_run(struct ps_bench *bench, struct ps_error *error)
{
    enum ps_status status = bench->options->kind->run(bench, error);
    ps_bench_disk_close(&bench->disk);
    ps_bench_progress_end(bench);
    return status;
}

/* A message must be allowed to be as large as one parameter and a little more, whatever the
 * server's own bound is. */
struct ps_bench_server_wish ps_bench_server_wish_of(const struct ps_bench *bench, const char *name,
                                                    const char *ack)
{
    const struct ps_bench_options *options = bench->options;
    uint64_t message_bytes = options->size + MESSAGE_BYTES_MORE;
    return (struct ps_bench_server_wish){
        .program = bench->program,
        .folder = bench->folder,
        .name = name,
        .ack = ack,
        .message_bytes = message_bytes > MESSAGE_BYTES_MIN ? message_bytes : MESSAGE_BYTES_MIN,
        .lanes = options->lanes,
        .busy_poll = options->busy_poll_text,
        .tune_malloc = options->tune_malloc,
    };
}

/* One parameter is the default: what is measured is a message of the size asked for. "auto" and
 * "shared" both allow shared memory; that it was really used is checked by the benchmark that was
 * asked for it. */
struct ps_bench_load_wish ps_bench_load_wish_of(const struct ps_bench *bench, const char *servers)
{
    const struct ps_bench_options *options = bench->options;
    return (struct ps_bench_load_wish){
        .servers = servers,
        .size = options->size,
        .parameter_count = 1,
        .prefix = "psbench",
        .outstanding = options->outstanding,
        .via = via_of(options->via),
        .busy_poll_text = options->busy_poll_text,
        .busy_poll = options->busy_poll,
        .shares = strcmp(options->transport, "tcp") != 0,
        .initialise = true,
    };
}

/* The option's table has refused other words. */
static enum ps_bench_via via_of(const char *word)
{
    if (strcmp(word, "threads") == 0)
        return PS_BENCH_VIA_THREADS;
    return strcmp(word, "channel") == 0 ? PS_BENCH_VIA_CHANNEL : PS_BENCH_VIA_CLIENT;
}

/* References run in every repeat as well, several of them, so each gets a quarter of the time; they
 * are steadier than a server and need less. */
uint64_t ps_bench_reference_ms(const struct ps_bench *bench)
{
    uint64_t quarter_ms = bench->options->time_ms / 4;
    return quarter_ms > 0 ? quarter_ms : 1;
}

/* The bar says what is being measured now; it is drawn between measurements only, never during
 * one. */
void ps_bench_progress(struct ps_bench *bench, const char *what)
{
    bench->steps_done++;
    ps_bench_progress_name(bench, what);
}

/* For what belongs to a step and takes long enough to be named. */
void ps_bench_progress_name(struct ps_bench *bench, const char *what)
{
    uint64_t done = bench->steps_done > 0 ? bench->steps_done - 1 : 0;
    if (!shows_bar(bench))
        return;
    static const char full[BAR_WIDTH + 1] = "########################";
    /* A benchmark that miscounts its steps must not write past the bar. */
    int width = bench->steps > 0 ? (int)(done * BAR_WIDTH / bench->steps) : 0;
    if (width > BAR_WIDTH)
        width = BAR_WIDTH;
    (void)fprintf(stderr, "\r[%-*.*s] %3.0f %%  %s\033[K", BAR_WIDTH, width, full,
                  bench->steps > 0 ? 100.0 * (double)done / (double)bench->steps : 0.0, what);
}

/* What is printed next begins on an empty line. */
void ps_bench_progress_end(const struct ps_bench *bench)
{
    if (shows_bar(bench))
        (void)fputs("\r\033[K", stderr);
}

/* Nobody watches a log file. */
static bool shows_bar(const struct ps_bench *bench)
{
    return bench->options->progress && isatty(STDERR_FILENO) == 1;
}
