/* SPDX-License-Identifier: Apache-2.0 */
/* The table is the one parameter of a checkpoint, and the writer is that of a server
 * (checkpoint/checkpoint.h): its rows are read and let go as a snapshot's are. */
#include "tools/psbench/psbench_saver.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "checkpoint/checkpoint.h"
#include "tools/psbench/psbench_server.h"

static void save(void *argument);
static enum ps_status write_file(struct ps_bench_saver *saver, struct ps_checkpoint_place *place,
                                 struct ps_error *error);

/* As the thread of a server that saves: it has no more of a processor than those that push. */
enum ps_status ps_bench_saver_start(struct ps_bench_saver *saver, struct ps_error *error)
{
    return ps_thread_start(&saver->thread, "saver", save, saver, error);
}

/* The text of the failure was the thread's, which is gone. */
enum ps_status ps_bench_saver_join(struct ps_bench_saver *saver, struct ps_error *error)
{
    ps_thread_join(&saver->thread);
    if (saver->error.status == PS_OK)
        return PS_OK;
    return ps_fail(error, saver->error.status, "%s", saver->error.text);
}

/* Whatever goes wrong is kept for the thread that measures, and the flag is set in any case: pushes
 * go on until then. */
static void save(void *argument)
{
    struct ps_bench_saver *saver = argument;
    const struct ps_files *files = ps_files_real();
    struct ps_checkpoint_place place = {0};
    uint64_t start_ns = ps_clock_precise_ns();
    saver->error.status = write_file(saver, &place, &saver->error);
    saver->taken_ns = ps_clock_precise_ns() - start_ns;
    saver->bytes = place.bytes;
    /* It is as large as the table, and the folder is removed only when all is done. */
    if (saver->error.status == PS_OK)
        (void)files->remove(files->self, place.path, NULL);
    /* Last of all: the time that was taken is read behind it. */
    atomic_store(&saver->ended, true);
}

static enum ps_status read_rows(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                struct ps_error *error)
{
    return ps_row_hold_read(self, array, offset, to, size, error);
}

/* With the last array of some rows all of them is in the file's buffers. */
static void let_go(void *self, size_t parameter, uint32_t array, uint64_t bytes)
{
    struct ps_row_hold *hold = self;
    (void)parameter;
    if (array + 1 == ps_row_hold_arrays(hold))
        ps_row_hold_let_go(hold, bytes / ps_row_hold_row_bytes(hold, array));
}

/* The states are as wide as the values. Nothing else of a shard is in the file: no sessions, and no
 * clocks. */
static enum ps_status write_file(struct ps_bench_saver *saver, struct ps_checkpoint_place *place,
                                 struct ps_error *error)
{
    const struct ps_files *files = ps_files_real();
    const struct ps_allocator *heap = ps_allocator_heap();
    const struct ps_checkpoint_facts facts = {
        .uuid = "saved", .shard_count = 1, .epoch = 1, .job = "psbench"};
    uint64_t rows = ps_row_hold_rows(saver->hold);
    uint32_t width = (uint32_t)(ps_row_hold_row_bytes(saver->hold, 0) / sizeof(float));
    const struct ps_checkpoint_parameter table = {.name = ps_bytes_of_text("table"),
                                                  .dtype = PS_F32,
                                                  .count = rows * width,
                                                  .state_count =
                                                      ps_row_hold_arrays(saver->hold) - 3,
                                                  .is_table = true,
                                                  .width = width,
                                                  .rows = rows,
                                                  .source = {read_rows, saver->hold}};
    const struct ps_checkpoint_watcher watcher = {let_go, saver->hold};
    struct ps_checkpoint_setup setup = {.watcher = &watcher};
    PS_TRY(ps_write_behind_create(files, "saver write", heap, &setup.behind, error));
    enum ps_status status =
        ps_checkpoint_write_as(files, saver->folder, &facts, &table, 1, &setup, heap, place, error);
    ps_write_behind_destroy(setup.behind);
    return status;
}
