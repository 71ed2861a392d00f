/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9, start again: how long, beside reading and checksumming the same bytes. A job counts the
 * time without its server: until the lease of the dead one has run out, until the state is loaded,
 * until the journal is replayed. Each part is reported by itself, because only the second and third
 * are the program's; the first is a setting. Beside them stands what any program would need:
 * reading and summing the same bytes, and touching as much fresh memory. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/slab.h"
#include "client/psclient.h"
#include "tools/psbench/psbench.h"
#include "tools/psbench/psbench_disk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SAVE_MS 600000
/* A restarted server waits until the lease of the one that was killed has run out. Short, or most
 * of a run would be waiting. */
#define TTL_MS 3000

#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* The smallest page that a system has. */
#define PAGE_BYTES 4096

struct recover_run {
    struct ps_bench *bench;
    struct ps_bench_server_wish wish; /* of every start */
    struct ps_bench_server server;
    struct ps_bench_load *load;
    struct ps_bench_files files; /* that a recovery needs: the checkpoint, then the journal */
    uint64_t bytes, read_ns;
    uint64_t touch_ns; /* of as much fresh memory as the shard has */
};

static enum ps_status open_run(struct recover_run *run, struct ps_error *error);
static enum ps_status measure(struct recover_run *run, struct ps_error *error);
static enum ps_status fill(struct recover_run *run, struct psclient_saved *saved,
                           struct ps_error *error);
static enum ps_status find_files(struct recover_run *run, const struct psclient_saved *saved,
                                 struct ps_error *error);
static uint64_t first_position(const char *path);
static enum ps_status restart(struct recover_run *run, struct ps_error *error);
static enum ps_status note(struct recover_run *run, struct ps_error *error);
static enum ps_status touch_memory(uint64_t bytes, uint64_t *taken_ns, struct ps_error *error);
static int64_t taken_ms(int64_t from_ms, int64_t to_ms);

/* A kill for each repeat, and a check after each: a recovery that loses a push must fail the
 * benchmark. */
enum ps_status ps_bench_recover(struct ps_bench *bench, struct ps_error *error)
{
    struct recover_run run = {.bench = bench};
    bench->steps = bench->options->repeat + 1;
    ps_bench_progress(bench, "starting");
    enum ps_status status = open_run(&run, error);
    for (uint64_t repeat = 0; repeat < bench->options->repeat && status == PS_OK; repeat++)
        status = measure(&run, error);
    ps_bench_load_close(run.load);
    ps_bench_server_kill(&run.server);
    return status;
}

/* Logged acknowledgements, or a kill could lose pushes that were counted. */
static enum ps_status open_run(struct recover_run *run, struct ps_error *error)
{
    const struct ps_bench_options *options = run->bench->options;
    run->wish = ps_bench_server_wish_of(run->bench, "server", "logged");
    run->wish.ttl_ms = TTL_MS;
    PS_TRY(ps_bench_server_start(&run->server, &run->wish, error));
    struct ps_bench_load_wish load = ps_bench_load_wish_of(run->bench, run->server.address);
    load.parameter_count = options->shard_size / options->size;
    return ps_bench_load_open(&load, &run->load, error);
}

/* A checkpoint, a journal behind it, kill -9, and back. The files are read by psbench right before
 * the server reads them, so both find them in the same state of the cache, warm or cold. */
static enum ps_status measure(struct recover_run *run, struct ps_error *error)
{
    bool cold = strcmp(run->bench->options->cache, "cold") == 0;
    ps_bench_progress(run->bench, "recover");
    struct psclient_saved saved;
    PS_TRY(fill(run, &saved, error));
    PS_TRY(find_files(run, &saved, error));
    /* Checkpoints are written past the cache: the first reading warms it. */
    if (cold)
        PS_TRY(ps_bench_disk_forget(&run->files, error));
    else
        PS_TRY(ps_bench_disk_read(&run->files, &run->bytes, &run->read_ns, error));
    PS_TRY(ps_bench_disk_read(&run->files, &run->bytes, &run->read_ns, error));
    if (cold)
        PS_TRY(ps_bench_disk_forget(&run->files, error));
    ps_bench_server_kill(&run->server);
    PS_TRY(restart(run, error));
    /* Afterwards: memory that was touched before would be what the server gets. */
    PS_TRY(touch_memory(run->bench->options->shard_size, &run->touch_ns, error));
    PS_TRY(note(run, error));
    return ps_bench_load_check(run->load, error);
}

/* A push to every parameter makes the checkpoint full of values that are not those of the start;
 * the pushes behind it are the journal's part. */
static enum ps_status fill(struct recover_run *run, struct psclient_saved *saved,
                           struct ps_error *error)
{
    const struct ps_bench_options *options = run->bench->options;
    uint64_t parameter_count = options->shard_size / options->size;
    uint64_t behind_count = options->journal_size / options->size;
    struct ps_bench_figures unused;
    PS_TRY(ps_bench_load_do(run->load, PS_BENCH_PUSH, parameter_count, &unused, error));
    const struct psclient_options wish = {.servers = run->server.address};
    struct psclient *client = NULL;
    struct psclient_error reason = {0};
    int status = psclient_open(&wish, &client, &reason);
    if (status == PSCLIENT_OK)
        status = psclient_save(client, 0, SAVE_MS, saved, &reason);
    psclient_close(client);
    if (status != PSCLIENT_OK)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "checkpoint: %.200s", reason.text);
    if (behind_count == 0)
        return PS_OK;
    return ps_bench_load_do(run->load, PS_BENCH_PUSH, behind_count, &unused, error);
}

/* The checkpoint, and of the journal's segments those with anything behind it. A recovery reads one
 * checkpoint and the segments that go beyond it; other files are in the folder, and counting them
 * would make the reference slower than what the server does. */
static enum ps_status find_files(struct recover_run *run, const struct psclient_saved *saved,
                                 struct ps_error *error)
{
    struct ps_bench_files *files = &run->files;
    files->count = 0;
    PS_TRY(ps_bench_disk_find(run->server.data, ".safetensors", files, error));
    size_t kept = 0;
    for (size_t i = 0; i < files->count; i++) {
        if (strstr(files->paths[i], saved->uuid) != NULL)
            memmove(files->paths[kept++], files->paths[i], sizeof files->paths[i]);
    }
    if (kept != 1)
        return ps_fail(error, PS_ERR_NOT_FOUND, "the checkpoint %s is not in %s", saved->uuid,
                       run->server.data);
    files->count = kept;
    PS_TRY(ps_bench_disk_find(run->server.data, ".journal", files, error));
    for (size_t i = 1; i < files->count; i++) {
        bool last = i + 1 == files->count;
        /* A segment is needed when the next one begins behind the checkpoint's end. */
        if (last || first_position(files->paths[i + 1]) > saved->position + 1)
            memmove(files->paths[kept++], files->paths[i], sizeof files->paths[i]);
    }
    files->count = kept;
    return PS_OK;
}

/* A segment is called EPOCH-POSITION.journal, in hexadecimal digits. The format of names is
 * docs/journal-format.md's. */
static uint64_t first_position(const char *path)
{
    const char *dash = strrchr(path, '-');
    return dash != NULL ? strtoull(dash + 1, NULL, 16) : 0;
}

/* A new process on a new port, with the data of the old one. The clock of the recovery begins with
 * the start of the process. */
static enum ps_status restart(struct recover_run *run, struct ps_error *error)
{
    PS_TRY(ps_bench_server_start(&run->server, &run->wish, error));
    return ps_bench_load_reconnect(run->load, run->server.address, error);
}

/* Detecting is all the time before the server owns the shard: most of it waits for the lease of the
 * one that was killed. Recovering is from there to the line in its log that says that it serves;
 * the log itself names the larger parts. Its times are in milliseconds. The rate is of nominal
 * bytes, shard and journal, so that runs of different overhead compare; `share` corrects it for
 * what the files really hold. The log's lines have milliseconds, hence at least one. */
static enum ps_status note(struct recover_run *run, struct ps_error *error)
{
    struct ps_bench *bench = run->bench;
    const struct ps_bench_options *options = bench->options;
    const struct ps_bench_server *server = &run->server;
    int64_t claimed_ms = ps_bench_server_event_ms(server, "index claimed");
    int64_t serving_ms = ps_bench_server_event_ms(server, "serving index=");
    int64_t load_ms = ps_bench_server_event_field(server, "checkpoint loaded", "duration_ms");
    int64_t replay_ms = ps_bench_server_event_field(server, "journal replayed", "duration_ms");
    int64_t records = ps_bench_server_event_field(server, "journal replayed", "records");
    /* The names of events are part of the server's interface for logs; an older server may not have
     * them. */
    if (claimed_ms < 0 || serving_ms < 0 || load_ms < 0 || replay_ms < 0)
        return ps_fail(error, PS_ERR_INTERNAL, "the server's log does not say how it recovered");
    int64_t recover_ms = taken_ms(claimed_ms, serving_ms);
    double recover_s = (double)(recover_ms > 0 ? recover_ms : 1) / 1e3;
    double total_ms = (double)(server->serving_ns - server->started_ns) / 1e6;
    uint64_t nominal = options->shard_size + options->journal_size;
    double share = (double)run->bytes / (double)nominal;
    const struct ps_bench_figures recovered = {.per_second = share / recover_s};
    const struct ps_bench_figures read = {.per_second = share / ((double)run->read_ns / 1e9)};
    struct ps_bench_row *row = ps_bench_report_row(&bench->report, "recover", nominal, 1);
    ps_bench_row_add(row, &recovered);
    ps_bench_row_detail(row, "detect_ms", total_ms - (double)recover_ms);
    ps_bench_row_detail(row, "load_ms", (double)load_ms);
    ps_bench_row_detail(row, "replay_ms", (double)replay_ms);
    ps_bench_row_detail(row, "recover_ms", (double)recover_ms);
    ps_bench_row_detail(row, "total_ms", total_ms);
    ps_bench_row_detail(row, "lease_ms", TTL_MS);
    ps_bench_row_detail(row, "file_bytes", (double)run->bytes);
    ps_bench_row_detail(row, "replayed_records", (double)records);
    ps_bench_row_detail(row, "cold_cache", strcmp(options->cache, "cold") == 0);
    ps_bench_row_detail(row, "first_touch_ms", (double)run->touch_ns / 1e6);
    ps_bench_report_beside(&bench->report, row, "read_and_checksum", "read_and_checksum", 1, &read);
    uint64_t with_memory_ns = run->read_ns + run->touch_ns;
    const struct ps_bench_figures fresh = {.per_second = share / ((double)with_memory_ns / 1e9)};
    ps_bench_report_beside(&bench->report, row, "read_into_fresh_memory", "read_into_fresh_memory",
                           1, &fresh);
    return PS_OK;
}

/* Logs have the time of day only: a run across midnight would otherwise be negative. */
static int64_t taken_ms(int64_t from_ms, int64_t to_ms)
{
    int64_t taken = to_ms - from_ms;
    return taken < 0 ? taken + DAY_MS : taken;
}

/* volatile, or the compiler would leave the write out: nobody reads it. */
static void touch(uint8_t *slab)
{
    for (size_t at = 0; at < PS_SLAB_BYTES; at += PAGE_BYTES)
        *(volatile uint8_t *)(slab + at) = 1;
}

/* A server that recovers has to find memory for the whole shard before it can fill it. In a virtual
 * machine the host may have to find each page, which can cost more than reading the same bytes from
 * a file; without this reference a slow recovery would be blamed on the server. Slabs are taken as
 * a server takes them, with large pages where the system has some, and given back afterwards. */
static enum ps_status touch_memory(uint64_t bytes, uint64_t *taken_ns, struct ps_error *error)
{
    size_t count = (size_t)((bytes + PS_SLAB_BYTES - 1) / PS_SLAB_BYTES);
    uint8_t **slabs = ps_zeroed_array(ps_allocator_heap(), count, sizeof slabs[0]);
    if (slabs == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a list of %zu slabs", count);
    uint64_t started_ns = ps_clock_precise_ns();
    size_t taken = 0;
    while (taken < count && (slabs[taken] = ps_slab_take()) != NULL)
        touch(slabs[taken++]);
    *taken_ns = ps_clock_precise_ns() - started_ns;
    for (size_t i = 0; i < taken; i++)
        ps_slab_give(slabs[i]);
    ps_release(ps_allocator_heap(), slabs);
    if (taken < count)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %" PRIu64 " bytes", bytes);
    return PS_OK;
}
