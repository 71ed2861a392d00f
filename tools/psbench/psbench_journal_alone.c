/* SPDX-License-Identifier: Apache-2.0 */
/* Records as a server makes them, handed to the writer as fast as it takes them. Beside LOGGED
 * pushes this says whether the journal or all the rest is the limit; beside the bare disk, what the
 * journal costs. Swept as after a checkpoint, so that the disk does not fill up: the time that
 * takes is the checkpointer's in a server, and is left out here. */
#include "tools/psbench/psbench_journal_alone.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "checkpoint/journal.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Longer than the path of any private folder, which the guard bounds. */
#define PATH_BYTES 1024
/* There is one owner, and nothing to go on from. */
#define EPOCH 1
/* Several segments; more is swept. */
#define KEPT_BYTES ((uint64_t)256 << 20)

struct ps_bench_journal_alone {
    char folder[PATH_BYTES];
    struct ps_journal_writer *writer; /* owned */
    struct ps_record *records;        /* owned; handed over together */
    size_t record_count;              /* as many as are in flight */
    uint8_t *content;                 /* owned; of every record */
    struct ps_bytes piece;            /* the whole of it, which the records view */
    uint64_t kept_bytes;              /* written since the last sweep */
    uint64_t position;                /* of the last record that was appended */
    struct ps_bench_times times;      /* of the present run */
};

static enum ps_status open_writer(struct ps_bench_journal_alone *alone, struct ps_error *error);
static void fill_records(struct ps_bench_journal_alone *alone);
static size_t batch_of(const struct ps_bench_journal_alone *alone);
static enum ps_status write_once(struct ps_bench_journal_alone *alone, struct ps_error *error);
static enum ps_status sweep(struct ps_bench_journal_alone *alone, struct ps_error *error);
static double processor_seconds(void);

/* One content for all records: the writer reads each as if it were another, and a server's records
 * come out of its caches, too. It is not zeros, which a disk might compress or leave out. */
enum ps_status ps_bench_journal_alone_open(const char *folder, const char *name, size_t size,
                                           uint64_t outstanding,
                                           struct ps_bench_journal_alone **out,
                                           struct ps_error *error)
{
    const struct ps_allocator *memory = ps_allocator_heap();
    struct ps_bench_journal_alone *alone = ps_zeroed(memory, sizeof *alone);
    if (alone == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a journal");
    (void)snprintf(alone->folder, sizeof alone->folder, "%s/%s", folder, name);
    alone->content = ps_plain(memory, size);
    alone->records = ps_zeroed_array(memory, outstanding, sizeof *alone->records);
    alone->record_count = outstanding;
    enum ps_status status = PS_OK;
    if (alone->content == NULL || alone->records == NULL)
        status = ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a journal");
    if (status == PS_OK) {
        memset(alone->content, 0xa5, size);
        alone->piece = (struct ps_bytes){alone->content, size};
        fill_records(alone);
        status = open_writer(alone, error);
    }
    if (status != PS_OK) {
        ps_bench_journal_alone_close(alone);
        return status;
    }
    *out = alone;
    return PS_OK;
}

/* As a server does: past the cache where the file system can, with a thread that writes while the
 * next records are copied. */
static enum ps_status open_writer(struct ps_bench_journal_alone *alone, struct ps_error *error)
{
    const struct ps_files *files = ps_files_real();
    const struct ps_journal_facts facts = {.shard_count = 1, .epoch = EPOCH};
    PS_TRY(files->make_folder(files->self, alone->folder, error));
    const struct ps_journal_setup setup = {
        .direct = files->can_go_direct(files->self, alone->folder), .behind = true, .ahead = true};
    return ps_journal_writer_open(files, alone->folder, &facts, &setup, ps_allocator_heap(),
                                  &alone->writer, error);
}

/* All but positions, which every write gives anew. A request id belongs to the bytes of each
 * record, since clients send one. */
static void fill_records(struct ps_bench_journal_alone *alone)
{
    for (size_t i = 0; i < alone->record_count; i++)
        alone->records[i] = (struct ps_record){.type = PS_RECORD_PUSH,
                                               .epoch = EPOCH,
                                               .name = ps_bytes_of_text("psbench/0"),
                                               .dtype = PS_F32,
                                               .client_id = ps_bytes_of_text("psbench-journal"),
                                               .session = 1,
                                               .content = ps_view_of(&alone->piece)};
}

/* Accepts what a failed open left. */
void ps_bench_journal_alone_close(struct ps_bench_journal_alone *alone)
{
    if (alone == NULL)
        return;
    ps_journal_writer_close(alone->writer);
    ps_release(ps_allocator_heap(), alone->records);
    ps_release(ps_allocator_heap(), alone->content);
    ps_release(ps_allocator_heap(), alone);
}

/* What is swept between two writes is not the writer's time, nor its processor's. */
enum ps_status ps_bench_journal_alone_run(struct ps_bench_journal_alone *alone, uint64_t time_ms,
                                          struct ps_bench_figures *figures, double *processor,
                                          struct ps_error *error)
{
    memset(&alone->times, 0, sizeof alone->times);
    uint64_t spent_ns = 0, count = 0;
    double seconds = 0;
    while (spent_ns < time_ms * 1000000 || alone->times.count < PS_BENCH_REFERENCE_COUNT_MIN) {
        double before = processor_seconds();
        uint64_t started_ns = ps_clock_precise_ns();
        PS_TRY(write_once(alone, error));
        uint64_t taken_ns = ps_clock_precise_ns() - started_ns;
        seconds += processor_seconds() - before;
        ps_bench_times_note(&alone->times, taken_ns);
        spent_ns += taken_ns;
        count += batch_of(alone);
        if (alone->kept_bytes > KEPT_BYTES)
            PS_TRY(sweep(alone, error));
    }
    PS_TRY(ps_journal_wait(alone->writer, error));
    *figures = ps_bench_figures_of(count, spent_ns, &alone->times);
    *processor = seconds / ((double)count * (double)alone->piece.size / 1e9);
    return PS_OK;
}

/* Half of what is in flight is on its way to the disk while the other half is copied; of a single
 * record nothing can be. */
static size_t batch_of(const struct ps_bench_journal_alone *alone)
{
    return alone->record_count > 1 ? alone->record_count / 2 : 1;
}

/* One batch, which is durable when the next one is flushed; a lone record at once. */
static enum ps_status write_once(struct ps_bench_journal_alone *alone, struct ps_error *error)
{
    uint64_t position = alone->position;
    size_t count = batch_of(alone);
    for (size_t i = 0; i < count; i++) {
        alone->records[i].position = position + 1 + i;
        alone->records[i].version = position + 1 + i;
        alone->records[i].sequence = position + 1 + i;
    }
    PS_TRY(ps_journal_append(alone->writer, alone->records, count, error));
    PS_TRY(ps_journal_flush(alone->writer, error));
    if (alone->record_count == 1)
        PS_TRY(ps_journal_wait(alone->writer, error));
    PS_ASSERT(ps_journal_writer_position(alone->writer) >= position);
    alone->position += count;
    alone->kept_bytes += count * alone->piece.size;
    return PS_OK;
}

/* All but the newest segment: as after a checkpoint of everything. */
static enum ps_status sweep(struct ps_bench_journal_alone *alone, struct ps_error *error)
{
    size_t removed = 0;
    alone->kept_bytes = 0;
    return ps_journal_sweep(ps_files_real(), alone->folder, EPOCH,
                            ps_journal_writer_position(alone->writer), PS_JOURNAL_KEEP,
                            ps_allocator_heap(), &removed, error);
}

/* Of all threads, in the system and out of it: a writer may have threads of its own. */
static double processor_seconds(void)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        return 0;
    return (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
           ((double)used.ru_utime.tv_usec + (double)used.ru_stime.tv_usec) / 1e6;
}
