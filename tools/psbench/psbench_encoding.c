/* SPDX-License-Identifier: Apache-2.0 */
/* encoding: pushes of one parameter in every encoding, beside those of float32. The rate is one of
 * whole gradients, so an encoding that sends a quarter of the bytes shows here only what that gains
 * in time: on loopback little, since the network is memory. The wire bytes stand beside it, for
 * whoever has a network to calculate with. Server and client decode and encode within what is
 * measured. */
#include "optimizer/encoded.h"
#include "tools/psbench/psbench_disk_best.h"
#include "tools/psbench/psbench_promise.h"

/* The share of a gradient that the client sends in top-k unless told otherwise. The row says how
 * many bytes that makes of a gradient. */
#define TOP_K_DIVISOR 100

struct encoding_run {
    struct ps_bench *bench;
    enum ps_bench_promise promise;
    struct ps_bench_server server;
    struct ps_bench_load *load;
};

static enum ps_status open_run(struct encoding_run *run, struct ps_error *error);
static enum ps_status measure(struct encoding_run *run, enum ps_encoding encoding,
                              struct ps_bench_figures *figures, struct ps_error *error);
static enum ps_status measure_all(struct encoding_run *run, struct ps_error *error);

/* Native is float32 for a parameter of float32, so it stands in the first row and is what the
 * others are held against. int8 and top-k lose information; what a model makes of that is not
 * psbench's question. */
static const struct {
    enum ps_encoding encoding;
    const char *row;
} rows[] = {{PS_ENCODING_NATIVE, "encoding_float32"},    {PS_ENCODING_FLOAT64, "encoding_float64"},
            {PS_ENCODING_BFLOAT16, "encoding_bfloat16"}, {PS_ENCODING_FLOAT16, "encoding_float16"},
            {PS_ENCODING_INT8, "encoding_int8"},         {PS_ENCODING_TOP_K, "encoding_top_k"}};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* All encodings go through one server and one parameter of each promise, so that its blocks are in
 * the same place for all. The first encoding is native, so the warm-up is of the one that the
 * others are compared with. */
enum ps_status ps_bench_encoding(struct ps_bench *bench, struct ps_error *error)
{
    struct encoding_run runs[2] = {{.bench = bench}, {.bench = bench}};
    struct ps_bench_promises promises = ps_bench_promises_of(bench->options);
    bench->steps = bench->options->repeat * ROWS * promises.count + promises.count;
    enum ps_status status = PS_OK;
    for (size_t i = 0; i < promises.count && status == PS_OK; i++) {
        ps_bench_progress(bench, "starting");
        runs[i].promise = promises.list[i];
        status = open_run(&runs[i], error);
    }
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++) {
        for (size_t i = 0; i < promises.count && status == PS_OK; i++)
            status = measure_all(&runs[i], error);
    }
    for (size_t i = 0; i < promises.count; i++) {
        if (status == PS_OK)
            status = ps_bench_load_check(runs[i].load, error);
        ps_bench_load_close(runs[i].load);
        ps_bench_server_kill(&runs[i].server);
    }
    return status;
}

/* The load encodes nothing yet, so that the warm-up is of float32. */
static enum ps_status open_run(struct encoding_run *run, struct ps_error *error)
{
    char name[PS_BENCH_ROW_NAME_BYTES];
    ps_bench_promised_name("server", run->promise, name);
    const struct ps_bench_server_wish wish =
        ps_bench_server_wish_of(run->bench, name, ps_bench_promise_ack(run->promise));
    struct ps_bench_figures unused;
    PS_TRY(ps_bench_server_start(&run->server, &wish, error));
    struct ps_bench_load_wish load = ps_bench_load_wish_of(run->bench, run->server.address);
    PS_TRY(ps_bench_load_open(&load, &run->load, error));
    return ps_bench_load_run(run->load, PS_BENCH_PUSH, ps_bench_reference_ms(run->bench), &unused,
                             error);
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

/* Each repeat measures float32 first and then the others against it. What is LOGGED is held against
 * the disk by the bytes that travel, since those are what the journal writes: halving them doubles
 * what the disk takes. */
static enum ps_status measure_all(struct encoding_run *run, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    bool logged = run->promise == PS_BENCH_LOGGED;
    double float32 = 0;
    struct ps_bench_disk_best best;
    if (logged)
        PS_TRY(ps_bench_disk_measure(bench, &best, error));
    for (size_t i = 0; i < ROWS; i++) {
        struct ps_bench_figures figures;
        uint64_t bytes = wire_bytes(rows[i].encoding, bench->options->size);
        struct ps_bench_row *row = ps_bench_promised_row(
            bench, rows[i].row, run->promise, bench->options->size, bench->options->outstanding);
        ps_bench_progress(bench, row->name);
        PS_TRY(measure(run, rows[i].encoding, &figures, error));
        float32 = i == 0 ? figures.per_second : float32;
        ps_bench_row_add(row, &figures);
        ps_bench_row_detail(row, "wire_bytes", (double)bytes);
        if (i > 0)
            ps_bench_row_ratio(row, "float32", figures.per_second / float32);
        if (logged)
            ps_bench_disk_compare(bench, row, &best, bytes);
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
