/* LOGGED beside MEMORY, and both beside the disk alone. Three servers of one size of pushes:
 * without a journal, with one that nobody waits for, and with one that each push waits for; and two
 * of small pushes, where the wait for the disk is nearly everything. All run at once but are
 * measured in turn, so that no measurement shares the disk with another. The bound is whichever is
 * slower, the server without a journal or the disk alone. */
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_disk.h"

#include <stdio.h>

#define SMALL_BYTES 4096

/* One server with one load. `bytes` 0 stands for what the options say. */
struct variant {
    const char *name; /* of its row, and of its server's folder */
    const char *ack;
    bool no_journal;
    uint64_t bytes, outstanding;
    struct ps_bench_server server;
    struct ps_bench_load *load;
    struct ps_bench_figures last;
};

/* The names of the acknowledgement levels; JOURNALED is MEMORY with a journal that nobody waits
 * for, which shows what writing alone costs. */
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

/* The order of the variants is that of the rows. */
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

/* A server that cannot keep a journal (an older one that was named with --pserver) is not a
 * failure: its rows say why they are empty. The warm-up makes the journal's first segment, too. */
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
    /* The row was made before the server is started, so that rows keep their order whatever
     * fails. */
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

/* Accepts a variant that was never opened. */
static void close_variant(struct variant *variant)
{
    ps_bench_load_close(variant->load);
    ps_bench_server_kill(&variant->server);
}

/* Throughput: against MEMORY, against the disk, and against whichever of the two is slower. The
 * disk gets as many pieces to a sync as there are pushes in flight, since a journal's thread writes
 * what has queued up in one go. The disk is measured last in each repeat, when the journals'
 * threads have nothing left to write. */
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
    /* The higher ratio is the one to the lower bound: 1 means that nothing is lost beside what
     * machine and disk cannot do. */
    ps_bench_row_ratio(row, "lower_of_both", to_memory > to_disk ? to_memory : to_disk);
    return PS_OK;
}

/* Cost of one small push, beside one bare write with its fdatasync. The median of one push is
 * taken, not the rate: what a trainer waits for is one push. A push of 4 KiB and one in flight,
 * which is how a trainer with a small model waits. */
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
    /* The cost that the journal adds to a push, beside one bare write with its fdatasync. */
    double cost_us = logged->last.p50_us - memory->last.p50_us;
    ps_bench_row_detail(row, "p50_over_memory_us", cost_us);
    ps_bench_row_detail(row, "fdatasync_p50_us", disk.p50_us);
    /* Near 1 when the journal adds nothing to what the disk takes anyway. */
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

/* Asked for again each time: the report keeps rows in the order in which they first came. */
static struct ps_bench_row *row_of(struct ps_bench *bench, const struct variant *variant)
{
    return ps_bench_report_row(&bench->report, variant->name, variant->bytes, variant->outstanding);
}
