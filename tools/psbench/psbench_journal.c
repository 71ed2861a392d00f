/* SPDX-License-Identifier: Apache-2.0 */
/* LOGGED beside MEMORY, both beside the journal's writer alone, and all beside the bare disk. Four
 * shapes of pushes, from large ones, where the disk's rate counts, to a lone small one, where the
 * wait for the disk is nearly everything. Every shape has a server without a journal and one whose
 * pushes wait for it; the large one also has one whose journal nobody waits for. All servers run at
 * once but are measured in turn, so that no measurement shares the disk with another. */
#include "tools/psbench/psbench_disk_best.h"
#include "tools/psbench/psbench_journal_alone.h"

#include <stdio.h>

/* Pushes of one size, so many at a time. Rows have the names; NULL: there is none. */
struct shape {
    const char *alone, *memory, *journaled, *logged;
    uint64_t bytes, outstanding; /* 0: what the options say */
    bool single;                 /* the time of one counts, not the rate */
};

/* The sizes are those of a large layer, of a bias beside others, and of a small model: alone, where
 * nothing shares the price of a sync, and with so many workers that group commit has to carry
 * them. Names are read by scripts and stay. */
static const struct shape shapes[] = {
    /* A large layer: the rate of the disk. */
    {"journal_alone", "push_memory", "push_memory_journaled", "push_logged", 0, 0, false},
    /* Many middle ones, joined to a write of a mebibyte. */
    {"medium_journal_alone", "medium_push_memory", NULL, "medium_push_logged", 64 << 10, 16, false},
    /* A lone small push: the time of one write. */
    {"small_journal_alone", "small_push_memory", NULL, "small_push_logged", PS_BENCH_SMALL_BYTES, 1,
     true},
    /* Many small ones, which share it. */
    {"small_journal_alone_64", "small_push_memory_64", NULL, "small_push_logged_64",
     PS_BENCH_SMALL_BYTES, 64, false},
};
enum { LARGE, MEDIUM, SINGLE, MANY, SHAPES };
_Static_assert(sizeof shapes / sizeof shapes[0] == SHAPES, "each shape has its number");

/* One server with one load. */
struct variant {
    const char *name; /* of its row, and of its server's folder; NULL: not measured */
    const char *ack;  /* of the server */
    bool no_journal;  /* a data folder all the same, as the other variants have */
    uint64_t bytes, outstanding;
    struct ps_bench_server server;
    struct ps_bench_load *load;   /* owned; NULL: the server cannot keep a journal */
    struct ps_bench_figures last; /* of the present repeat */
};

/* What is measured of one shape. MEMORY with a journal that nobody waits for is JOURNALED, which
 * shows what writing alone costs. */
enum { MEMORY, LOGGED, JOURNALED, VARIANTS };
struct measured {
    const struct shape *shape;
    struct variant variants[VARIANTS];
    struct ps_bench_journal_alone *alone;
};

static enum ps_status open_measured(struct ps_bench *bench, struct measured *measured,
                                    struct ps_error *error);
static enum ps_status open_variant(struct ps_bench *bench, struct variant *variant,
                                   struct ps_error *error);
static enum ps_status close_measured(struct measured *measured, enum ps_status status,
                                     struct ps_error *error);
static enum ps_status measure_all(struct ps_bench *bench, struct measured all[SHAPES],
                                  struct ps_error *error);
static enum ps_status measure_variant(struct ps_bench *bench, struct variant *variant,
                                      struct ps_error *error);
static enum ps_status measure_alone(struct ps_bench *bench, struct measured *measured,
                                    struct ps_error *error);
static void compare(struct ps_bench *bench, const struct measured *measured,
                    const struct ps_bench_disk_best *best);
static struct ps_bench_row *row_of(struct ps_bench *bench, const struct variant *variant,
                                   const char *name);

/* The order of the shapes is that of the rows. */
enum ps_status ps_bench_journal(struct ps_bench *bench, struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    /* Zeroed, so that what was never opened can be closed. */
    struct measured all[SHAPES] = {0};
    bench->steps = (SHAPES * 3 + 1) * options->repeat + SHAPES;
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < SHAPES && status == PS_OK; i++) {
        all[i].shape = &shapes[i];
        status = open_measured(bench, &all[i], error);
    }
    for (uint64_t repeat = 0; repeat < options->repeat && status == PS_OK; repeat++)
        status = measure_all(bench, all, error);
    for (size_t i = 0; i < SHAPES; i++)
        status = close_measured(&all[i], status, error);
    return status;
}

/* Everything that a shape needs, with its own servers: a job is initialised once, with parameters
 * of one size, so two shapes cannot share a server. */
static enum ps_status open_measured(struct ps_bench *bench, struct measured *measured,
                                    struct ps_error *error)
{
    const struct ps_bench_options *options = bench->options;
    const struct shape *shape = measured->shape;
    struct variant *variants = measured->variants;
    ps_bench_progress(bench, "starting");
    variants[MEMORY] = (struct variant){.name = shape->memory, .ack = "memory", .no_journal = true};
    variants[LOGGED] = (struct variant){.name = shape->logged, .ack = "logged"};
    variants[JOURNALED] = (struct variant){.name = shape->journaled, .ack = "memory"};
    for (int i = 0; i < VARIANTS; i++) {
        variants[i].bytes = shape->bytes > 0 ? shape->bytes : options->size;
        variants[i].outstanding =
            shape->outstanding > 0 ? shape->outstanding : options->outstanding;
        if (variants[i].name != NULL)
            PS_TRY(open_variant(bench, &variants[i], error));
    }
    return ps_bench_journal_alone_open(bench->folder, shape->alone, variants[MEMORY].bytes,
                                       variants[MEMORY].outstanding, &measured->alone, error);
}

/* A server that cannot keep a journal (an older one that was named with --pserver) is not a
 * failure: its rows say why they are empty. The row is made before the server is started, so that
 * rows keep their order whatever fails. The warm-up makes the journal's first segment, too. */
static enum ps_status open_variant(struct ps_bench *bench, struct variant *variant,
                                   struct ps_error *error)
{
    struct ps_bench_row *row = row_of(bench, variant, variant->name);
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

/* Checks the results while all is well. Accepts what was never opened. */
static enum ps_status close_measured(struct measured *measured, enum ps_status status,
                                     struct ps_error *error)
{
    for (int i = 0; i < VARIANTS; i++) {
        struct variant *variant = &measured->variants[i];
        if (status == PS_OK && variant->load != NULL)
            status = ps_bench_load_check(variant->load, error);
        ps_bench_load_close(variant->load);
        ps_bench_server_kill(&variant->server);
    }
    ps_bench_journal_alone_close(measured->alone);
    return status;
}

/* One repeat. The disk stands between lone pushes, whose price is that of its small writes, which
 * it begins with, and large ones, which are held against its rate, which it ends with; nothing that
 * does not write comes between. Pushes that nobody waits for come last: what is still queued then
 * is written while the next repeat pushes without a journal. */
static enum ps_status measure_all(struct ps_bench *bench, struct measured all[SHAPES],
                                  struct ps_error *error)
{
    struct ps_bench_disk_best best;
    PS_TRY(measure_variant(bench, &all[SINGLE].variants[MEMORY], error));
    PS_TRY(measure_alone(bench, &all[SINGLE], error));
    PS_TRY(measure_variant(bench, &all[SINGLE].variants[LOGGED], error));
    ps_bench_progress(bench, "disk");
    PS_TRY(ps_bench_disk_measure(bench, &best, error));
    for (size_t i = 0; i < SHAPES; i++) {
        if (i == SINGLE)
            continue;
        PS_TRY(measure_alone(bench, &all[i], error));
        PS_TRY(measure_variant(bench, &all[i].variants[LOGGED], error));
        PS_TRY(measure_variant(bench, &all[i].variants[MEMORY], error));
    }
    for (size_t i = 0; i < SHAPES; i++)
        compare(bench, &all[i], &best);
    return measure_variant(bench, &all[LARGE].variants[JOURNALED], error);
}

/* A variant without a server is passed by. The longest push is kept exactly: no percentile would
 * show a single stall. */
static enum ps_status measure_variant(struct ps_bench *bench, struct variant *variant,
                                      struct ps_error *error)
{
    ps_bench_progress(bench, variant->name);
    if (variant->load == NULL)
        return PS_OK;
    PS_TRY(ps_bench_load_run(variant->load, PS_BENCH_PUSH, bench->options->time_ms, &variant->last,
                             error));
    struct ps_bench_row *row = row_of(bench, variant, variant->name);
    ps_bench_row_add(row, &variant->last);
    ps_bench_row_detail(row, "longest_us", variant->last.longest_us);
    return PS_OK;
}

/* Half of a server's time: nothing but the disk moves here. */
static enum ps_status measure_alone(struct ps_bench *bench, struct measured *measured,
                                    struct ps_error *error)
{
    struct ps_bench_figures figures;
    double processor = 0;
    ps_bench_progress(bench, measured->shape->alone);
    PS_TRY(ps_bench_journal_alone_run(measured->alone, bench->options->time_ms / 2 + 1, &figures,
                                      &processor, error));
    struct ps_bench_row *row = row_of(bench, &measured->variants[MEMORY], measured->shape->alone);
    ps_bench_row_add(row, &figures);
    ps_bench_row_detail(row, "processor_seconds_per_gigabyte", processor);
    return PS_OK;
}

/* Rates against the disk, against MEMORY and against whichever is slower. Of a lone push what the
 * promise costs it: its rate says nothing about the disk's. */
static void compare(struct ps_bench *bench, const struct measured *measured,
                    const struct ps_bench_disk_best *best)
{
    const struct variant *memory = &measured->variants[MEMORY];
    const struct variant *logged = &measured->variants[LOGGED];
    struct ps_bench_row *alone = row_of(bench, memory, measured->shape->alone);
    if (!measured->shape->single)
        ps_bench_disk_compare(bench, alone, best, memory->bytes);
    if (logged->load == NULL)
        return;
    struct ps_bench_row *row = row_of(bench, logged, logged->name);
    if (measured->shape->single)
        ps_bench_logged_cost(row, memory->last.p50_us, logged->last.p50_us, best);
    else
        ps_bench_logged_compare(bench, row, &memory->last, best, logged->bytes);
    /* What gRPC, the update and the wake-ups of a server take from what its journal could do. */
    double alone_per_second = alone->per_second.values[alone->per_second.count - 1];
    ps_bench_row_ratio(row, "journal_alone", logged->last.per_second / alone_per_second);
}

/* Asked for again each time: the report keeps rows in the order in which they first came. */
static struct ps_bench_row *row_of(struct ps_bench *bench, const struct variant *variant,
                                   const char *name)
{
    return ps_bench_report_row(&bench->report, name, variant->bytes, variant->outstanding);
}
