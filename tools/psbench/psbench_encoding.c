/* encoding: pushes of one parameter in every encoding, beside those of float32. The rate is one of
 * whole gradients, so an encoding that sends a quarter of the bytes shows here only what that gains
 * in time: on loopback little, since the network is memory. The wire bytes stand beside it, for
 * whoever has a network to calculate with. Server and client decode and encode within what is
 * measured. */
#include "optimizer/encoded.h"
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_load.h"

/* The share of a gradient that the client sends in top-k unless told otherwise. The row says how
 * many bytes that makes of a gradient. */
#define TOP_K_DIVISOR 100

struct encoding_run {
    struct ps_bench *bench;
    struct ps_bench_server server;
    struct ps_bench_load *load;
};

static enum ps_status open_run(struct encoding_run *run, struct ps_error *error);
static enum ps_status measure(struct encoding_run *run, enum ps_encoding encoding,
                              struct ps_bench_figures *figures, struct ps_error *error);
static enum ps_status measure_all(struct encoding_run *run, struct ps_error *error);

/* The first is what the others are compared with. FLOAT32 is native here. Native is float32 for a
 * parameter of float32, so it stands in the first row and is what the others are held against. int8
 * and top-k lose information; what a model makes of that is not psbench's question. */
static const struct {
    enum ps_encoding encoding;
    const char *row;
} rows[] = {{PS_ENCODING_NATIVE, "encoding_float32"},    {PS_ENCODING_FLOAT64, "encoding_float64"},
            {PS_ENCODING_BFLOAT16, "encoding_bfloat16"}, {PS_ENCODING_FLOAT16, "encoding_float16"},
            {PS_ENCODING_INT8, "encoding_int8"},         {PS_ENCODING_TOP_K, "encoding_top_k"}};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* All encodings go through one server and one parameter, so that its blocks are in the same place
 * for all. The first encoding is native, so the warm-up is of the one that the others are compared
 * with. */
enum ps_status ps_bench_encoding(struct ps_bench *bench, struct ps_error *error)
{
    struct encoding_run run = {.bench = bench};
    struct ps_bench_figures warm_up;
    bench->steps = bench->options->repeat * ROWS + 1;
    ps_bench_progress(bench, "starting");
    enum ps_status status = open_run(&run, error);
    if (status == PS_OK)
        status = ps_bench_load_run(run.load, PS_BENCH_PUSH, ps_bench_reference_ms(bench), &warm_up,
                                   error);
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++)
        status = measure_all(&run, error);
    if (status == PS_OK)
        status = ps_bench_load_check(run.load, error);
    ps_bench_load_close(run.load);
    ps_bench_server_kill(&run.server);
    return status;
}

/* No data folder: the disk has no part in this. */
static enum ps_status open_run(struct encoding_run *run, struct ps_error *error)
{
    const struct ps_bench_server_wish wish = ps_bench_server_wish_of(run->bench, "server", NULL);
    PS_TRY(ps_bench_server_start(&run->server, &wish, error));
    struct ps_bench_load_wish load = ps_bench_load_wish_of(run->bench, run->server.address);
    return ps_bench_load_open(&load, &run->load, error);
}

/* Bytes of one gradient as they travel. Top-k sends an index and a value for each element that it
 * sends. */
static uint64_t wire_bytes(enum ps_encoding encoding, uint64_t size)
{
    uint64_t count = size / sizeof(float);
    if (encoding == PS_ENCODING_TOP_K)
        count = (count + TOP_K_DIVISOR - 1) / TOP_K_DIVISOR;
    return ps_encoding_bytes(encoding, PS_F32, count);
}

/* Each repeat measures float32 first and then the others against it. */
static enum ps_status measure_all(struct encoding_run *run, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    double float32 = 0;
    for (size_t i = 0; i < ROWS; i++) {
        struct ps_bench_figures figures;
        ps_bench_progress(bench, rows[i].row);
        PS_TRY(measure(run, rows[i].encoding, &figures, error));
        float32 = i == 0 ? figures.per_second : float32;
        struct ps_bench_row *row = ps_bench_report_row(
            &bench->report, rows[i].row, bench->options->size, bench->options->outstanding);
        ps_bench_row_add(row, &figures);
        ps_bench_row_detail(row, "wire_bytes",
                            (double)wire_bytes(rows[i].encoding, bench->options->size));
        if (i > 0)
            ps_bench_row_ratio(row, "float32", figures.per_second / float32);
    }
    return PS_OK;
}

/* A change of encoding connects anew, outside of the time. */
static enum ps_status measure(struct encoding_run *run, enum ps_encoding encoding,
                              struct ps_bench_figures *figures, struct ps_error *error)
{
    PS_TRY(ps_bench_load_encode(run->load, encoding, error));
    return ps_bench_load_run(run->load, PS_BENCH_PUSH, run->bench->options->time_ms, figures,
                             error);
}
