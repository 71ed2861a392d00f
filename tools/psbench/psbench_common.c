/* What the benchmarks share: wishes made of the options, and the bar. */
#include "tools/psbench/psbench.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 24
#define MESSAGE_BYTES_MIN ((uint64_t)64 << 20)

/* Room for a message's other fields beside the content. */
#define MESSAGE_BYTES_MORE ((uint64_t)1 << 20)

static bool shows_bar(const struct ps_bench *bench);
static enum ps_bench_via via_of(const char *word);

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

static enum ps_bench_via via_of(const char *word)
{
    if (strcmp(word, "threads") == 0)
        return PS_BENCH_VIA_THREADS;
    return strcmp(word, "channel") == 0 ? PS_BENCH_VIA_CHANNEL : PS_BENCH_VIA_CLIENT;
}

uint64_t ps_bench_reference_ms(const struct ps_bench *bench)
{
    uint64_t quarter_ms = bench->options->time_ms / 4;
    return quarter_ms > 0 ? quarter_ms : 1;
}

void ps_bench_progress(struct ps_bench *bench, const char *what)
{
    uint64_t done = bench->steps_done++;
    if (!shows_bar(bench))
        return;
    static const char full[BAR_WIDTH + 1] = "########################";
    int width = bench->steps > 0 ? (int)(done * BAR_WIDTH / bench->steps) : 0;
    if (width > BAR_WIDTH)
        width = BAR_WIDTH;
    (void)fprintf(stderr, "\r[%-*.*s] %3.0f %%  %s\033[K", BAR_WIDTH, width, full,
                  bench->steps > 0 ? 100.0 * (double)done / (double)bench->steps : 0.0, what);
}

void ps_bench_progress_end(const struct ps_bench *bench)
{
    if (shows_bar(bench))
        (void)fputs("\r\033[K", stderr);
}

static bool shows_bar(const struct ps_bench *bench)
{
    return bench->options->progress && isatty(STDERR_FILENO) == 1;
}
