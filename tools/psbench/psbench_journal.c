/* LOGGED beside MEMORY, and both beside the disk alone. */
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_disk.h"

#include <stdio.h>

#define SMALL_BYTES 4096

/* One server with one load. */
struct variant {
    const char *name; /* of its row, and of its server's folder */
    const char *ack;
    bool no_journal;
    uint64_t bytes, outstanding;
    struct ps_bench_server server;
    struct ps_bench_load *load;
    struct ps_bench_figures last;
};

enum { MEMORY, JOURNALED, LOGGED, SMALL_MEMORY, SMALL_LOGGED, VARIANT_COUNT };

static enum ps_status open_variant(struct ps_bench *bench, struct variant *variant,
                                   struct ps_error *error);
static void close_variant(struct variant *variant);
static enum ps_status measure_large(struct ps_bench *bench, struct variant variants[VARIANT_COUNT],
                                    struct ps_error *error);
static enum ps_status measure_small(struct ps_bench *bench, struct variant variants[VARIANT_COUNT],
                                    struct ps_error *error);
static enum ps_status measure_variant(struct ps_bench *bench, struct variant *variant,
                                      struct ps_error *error);
static struct ps_bench_row *row_of(struct ps_bench *bench, const struct variant *variant);

enum ps_status ps_bench_journal(struct ps_bench *bench, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    struct variant variants[VARIANT_COUNT] = {
        {.name = "push_memory", .ack = "memory", .no_journal = true},
        {.name = "push_memory_journaled", .ack = "memory"},
        {.name = "push_logged", .ack = "logged"},
        {.name = "small_push_memory",
         .ack = "memory",
         .no_journal = true,
         .bytes = SMALL_BYTES,
         .outstanding = 1},
        {.name = "small_push_logged", .ack = "logged", .bytes = SMALL_BYTES, .outstanding = 1},
    };
    bench->steps = VARIANT_COUNT * (options->repeat + 1);
    enum ps_status status = PS_OK;
    for (int i = 0; i < VARIANT_COUNT && status == PS_OK; i++)
        status = open_variant(bench, &variants[i], error);
    for (uint64_t repeat = 0; repeat < options->repeat && status == PS_OK; repeat++) {
        status = measure_large(bench, variants, error);
        if (status == PS_OK)
            status = measure_small(bench, variants, error);
    }
    for (int i = 0; i < VARIANT_COUNT; i++) {
        if (status == PS_OK && variants[i].load != NULL)
            status = ps_bench_load_check(variants[i].load, error);
        close_variant(&variants[i]);
    }
    return status;
}

/* A server that cannot keep a journal is not a failure: its rows say why they are empty. */
static enum ps_status open_variant(struct ps_bench *bench, struct variant *variant,
                                   struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    ps_bench_progress(bench, "starting");
    if (variant->bytes == 0) {
        variant->bytes = options->size;
        variant->outstanding = options->outstanding;
    }
    struct ps_bench_row *row = row_of(bench, variant);
    struct ps_bench_server_wish wish = ps_bench_server_wish_of(bench, variant->name, variant->ack);
    wish.no_journal = variant->no_journal;
    struct ps_error why = {0};
    enum ps_status status = ps_bench_server_start(&variant->server, &wish, &why);
    if (status == PS_ERR_UNAVAILABLE && variant->ack[0] == 'l') {
        (void)snprintf(row->unsupported, sizeof row->unsupported, "%.250s", why.text);
        return PS_OK;
    }
    if (status != PS_OK)
        return ps_fail(error, status, "%s", why.text);
    struct ps_bench_load_wish load = ps_bench_load_wish_of(bench, variant->server.address);
    load.size = variant->bytes;
    load.outstanding = variant->outstanding;
    PS_TRY(ps_bench_load_open(&load, &variant->load, error));
    struct ps_bench_figures warm_up;
    return ps_bench_load_run(variant->load, PS_BENCH_PUSH, ps_bench_reference_ms(bench), &warm_up,
                             error);
}

static void close_variant(struct variant *variant)
{
    ps_bench_load_close(variant->load);
    ps_bench_server_kill(&variant->server);
}

/* Throughput: against MEMORY, against the disk, and against whichever of the two is slower. */
static enum ps_status measure_large(struct ps_bench *bench, struct variant variants[VARIANT_COUNT],
                                    struct ps_error *error)
{
    struct ps_bench_figures disk;
    struct variant *logged = &variants[LOGGED], *memory = &variants[MEMORY];
    PS_TRY(measure_variant(bench, memory, error));
    PS_TRY(measure_variant(bench, &variants[JOURNALED], error));
    PS_TRY(measure_variant(bench, logged, error));
    PS_TRY(ps_bench_disk_append(bench->folder, memory->bytes, memory->outstanding,
                                bench->options->time_ms, &disk, error));
    ps_bench_row_add(
        ps_bench_report_row(&bench->report, "disk_append", memory->bytes, memory->outstanding),
        &disk);
    if (logged->load == NULL)
        return PS_OK;
    struct ps_bench_row *row = row_of(bench, logged);
    double to_memory = logged->last.per_second / memory->last.per_second;
    double to_disk = logged->last.per_second / disk.per_second;
    ps_bench_row_ratio(row, "memory", to_memory);
    ps_bench_row_ratio(row, "disk", to_disk);
    ps_bench_row_ratio(row, "lower_of_both", to_memory > to_disk ? to_memory : to_disk);
    return PS_OK;
}

/* Cost of one small push, beside one bare write with its fdatasync. */
static enum ps_status measure_small(struct ps_bench *bench, struct variant variants[VARIANT_COUNT],
                                    struct ps_error *error)
{
    struct ps_bench_figures disk;
    struct variant *logged = &variants[SMALL_LOGGED], *memory = &variants[SMALL_MEMORY];
    PS_TRY(measure_variant(bench, memory, error));
    PS_TRY(measure_variant(bench, logged, error));
    PS_TRY(
        ps_bench_disk_append(bench->folder, SMALL_BYTES, 1, bench->options->time_ms, &disk, error));
    ps_bench_row_add(ps_bench_report_row(&bench->report, "small_fdatasync", SMALL_BYTES, 1), &disk);
    if (logged->load == NULL)
        return PS_OK;
    struct ps_bench_row *row = row_of(bench, logged);
    double cost_us = logged->last.p50_us - memory->last.p50_us;
    ps_bench_row_detail(row, "p50_over_memory_us", cost_us);
    ps_bench_row_detail(row, "fdatasync_p50_us", disk.p50_us);
    ps_bench_row_ratio(row, "cost_to_fdatasync", cost_us / disk.p50_us);
    return PS_OK;
}

/* A variant without a server is passed by. */
static enum ps_status measure_variant(struct ps_bench *bench, struct variant *variant,
                                      struct ps_error *error)
{
    ps_bench_progress(bench, variant->name);
    if (variant->load == NULL)
        return PS_OK;
    PS_TRY(ps_bench_load_run(variant->load, PS_BENCH_PUSH, bench->options->time_ms, &variant->last,
                             error));
    ps_bench_row_add(row_of(bench, variant), &variant->last);
    ps_bench_row_detail(row_of(bench, variant), "longest_us", variant->last.longest_us);
    return PS_OK;
}

static struct ps_bench_row *row_of(struct ps_bench *bench, const struct variant *variant)
{
    return ps_bench_report_row(&bench->report, variant->name, variant->bytes, variant->outstanding);
}
