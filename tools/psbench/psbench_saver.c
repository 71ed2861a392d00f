/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that a checkpoint's writer is made of (checkpoint/checkpoint_writer.c), with its sizes:
 * rows are read straight into the buffer that is filled while the other one is written. A file that
 * went through the system's cache would take a gibibyte of memory meanwhile, and would be written
 * by the kernel when it likes: pushes beside that wait longer than they ever do in a server. */
#include "tools/psbench/psbench_saver.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "checkpoint/block_output.h"
#include "checkpoint/checksum.h"
#include "tools/psbench/psbench_server.h"

#include <stdio.h>

#define PIECE_BYTES ((size_t)1 << 20)

static void save(void *argument);
static enum ps_status write_file(struct ps_bench_saver *saver, const char *path,
                                 struct ps_error *error);
static enum ps_status write_arrays(struct ps_bench_saver *saver, struct ps_block_output *blocks,
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
    char path[PS_BENCH_PATH_MAX];
    uint64_t start_ns = ps_clock_precise_ns();
    (void)snprintf(path, sizeof path, "%s/held", saver->folder);
    saver->error.status = write_file(saver, path, &saver->error);
    saver->taken_ns = ps_clock_precise_ns() - start_ns;
    /* It is as large as the table, and the folder is removed only when all is done. */
    (void)files->remove(files->self, path, NULL);
    /* Last of all: the time that was taken is read behind it. */
    atomic_store(&saver->ended, true);
}

/* A sync at the end, as of a checkpoint that somebody is told of; what was begun and failed is
 * closed all the same. */
static enum ps_status write_file(struct ps_bench_saver *saver, const char *path,
                                 struct ps_error *error)
{
    const struct ps_files *files = ps_files_real();
    const struct ps_allocator *heap = ps_allocator_heap();
    struct ps_block_output blocks = {0};
    struct ps_write_behind *behind = NULL;
    struct ps_file file;
    enum ps_status status = ps_write_behind_create(files, "saver write", heap, &behind, error);
    if (status == PS_OK)
        status = ps_block_output_init(&blocks, files, behind, 0, heap, error);
    if (status == PS_OK)
        status = files->open(files->self, path, PS_FILE_CREATE_DIRECT, &file, error);
    if (status == PS_OK) {
        /* From here on the file is the output's. */
        ps_block_output_open(&blocks, file);
        status = write_arrays(saver, &blocks, error);
    }
    if (status == PS_OK)
        status = ps_block_output_end(&blocks, error);
    if (status == PS_OK)
        status = files->sync(files->self, file, error);
    ps_block_output_fini(&blocks);
    ps_write_behind_destroy(behind);
    return status;
}

/* The sums are of no use here, and take their time all the same. */
static enum ps_status write_arrays(struct ps_bench_saver *saver, struct ps_block_output *blocks,
                                   struct ps_error *error)
{
    uint32_t crc32c = 0, crc32 = 0;
    for (uint32_t array = 0; array < ps_row_hold_arrays(saver->hold); array++) {
        uint64_t size = ps_row_hold_rows(saver->hold) * ps_row_hold_row_bytes(saver->hold, array);
        for (uint64_t done = 0; done < size;) {
            size_t room = 0;
            uint8_t *to = ps_block_output_room(blocks, &room);
            room = room < PIECE_BYTES ? room : PIECE_BYTES;
            size_t part = size - done < room ? (size_t)(size - done) : room;
            PS_TRY(ps_row_hold_read(saver->hold, array, done, to, part, error));
            crc32c = ps_checksum_crc32c(crc32c, (struct ps_bytes){to, part});
            crc32 = ps_checksum_crc32(crc32, (struct ps_bytes){to, part});
            PS_TRY(ps_block_output_made(blocks, part, error));
            done += part;
            saver->bytes += part;
        }
    }
    return PS_OK;
}
