/* SPDX-License-Identifier: Apache-2.0 */
/* Turns go on until a time has passed or a file is written. They are counted by both clocks: on the
 * wall a turn also waits for whoever has its processor. */
#include "tools/psbench/psbench_turns.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "tools/psbench/psbench_server.h"
#include "tools/psbench/psbench_table_alone.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 64
#define PIECE_BYTES ((size_t)1 << 20)

/* What the thread that writes is given, and what it says. */
struct writer {
    const char *folder;
    uint64_t bytes;
    atomic_bool ended;
    struct ps_error error;
    struct ps_thread thread;
};

static void turn_until(uint8_t *plain, size_t bytes, uint64_t length_ns, const atomic_bool *ended,
                       struct ps_bench_turns *turns);
static void write_file(void *argument);

/* The first touch is no part of a turn: a table's is looked at by itself. */
static uint8_t *touched_memory(size_t bytes, struct ps_error *error)
{
    uint8_t *plain = ps_plain(ps_allocator_heap(), bytes);
    if (plain == NULL)
        (void)ps_fail(error, PS_ERR_NO_MEMORY, "no memory for plain turns");
    else
        memset(plain, 1, bytes);
    return plain;
}

/* A look that is shorter than the one at the pushes would miss what happens now and then. */
enum ps_status ps_bench_turns_alone(size_t bytes, uint64_t length_ns, struct ps_bench_turns *turns,
                                    struct ps_error *error)
{
    const atomic_bool never = false;
    uint8_t *plain = touched_memory(bytes, error);
    if (plain == NULL)
        return PS_ERR_NO_MEMORY;
    /* No file to wait for. */
    turn_until(plain, bytes, length_ns, &never, turns);
    ps_release(ps_allocator_heap(), plain);
    return PS_OK;
}

/* Writing takes memory for the kernel's copy of the file, which a virtual machine may have to ask
 * its host for while everybody on it waits. */
enum ps_status ps_bench_turns_beside_file(size_t bytes, const char *folder, uint64_t file_bytes,
                                          struct ps_bench_turns *turns, struct ps_error *error)
{
    struct writer writer = {.folder = folder, .bytes = file_bytes};
    uint8_t *plain = touched_memory(bytes, error);
    if (plain == NULL)
        return PS_ERR_NO_MEMORY;
    enum ps_status status =
        ps_thread_start(&writer.thread, "plain saver", write_file, &writer, error);
    if (status == PS_OK) {
        /* The file ends it, however long that takes. */
        turn_until(plain, bytes, UINT64_MAX, &writer.ended, turns);
        ps_thread_join(&writer.thread);
    }
    ps_release(ps_allocator_heap(), plain);
    if (status == PS_OK && writer.error.status != PS_OK)
        status = ps_fail(error, writer.error.status, "%s", writer.error.text);
    return status;
}

/* One turn at least. */
static void turn_until(uint8_t *plain, size_t bytes, uint64_t length_ns, const atomic_bool *ended,
                       struct ps_bench_turns *turns)
{
    struct ps_random random;
    uint64_t begun_ns = ps_clock_precise_ns();
    uint64_t now_ns = begun_ns;
    uint64_t longest_ns = 0, longest_processor_ns = 0;
    /* Other lines in each run, so that no run has lucky ones. */
    ps_random_init(&random, begun_ns);
    do {
        uint64_t start_ns = now_ns;
        uint64_t processor_ns = ps_clock_thread_ns();
        for (size_t i = 0; i < PS_BENCH_TABLE_KEYS; i++)
            plain[ps_random_below(&random, bytes / LINE_BYTES) * LINE_BYTES]++;
        processor_ns = ps_clock_thread_ns() - processor_ns;
        now_ns = ps_clock_precise_ns();
        /* A turn begins where the one before ended, so that no moment is left out. */
        if (now_ns - start_ns > longest_ns)
            longest_ns = now_ns - start_ns;
        if (processor_ns > longest_processor_ns)
            longest_processor_ns = processor_ns;
        /* One of the two ends it: the time, or the file. */
    } while (now_ns - begun_ns < length_ns && !atomic_load(ended));
    *turns = (struct ps_bench_turns){.longest_us = (double)longest_ns / 1e3,
                                     .longest_processor_us = (double)longest_processor_ns / 1e3};
}

/* In pieces, through the kernel's copy, as the saver of a hold does it. The bytes are zeros, which
 * usual file systems write like others; one that packs them has less to do than with a table, so
 * that a long turn is still the machine's. */
static void write_file(void *argument)
{
    struct writer *writer = argument;
    char path[PS_BENCH_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/plain", writer->folder);
    FILE *file = fopen(path, "we");
    uint8_t *piece = ps_zeroed(ps_allocator_heap(), PIECE_BYTES);
    bool good = file != NULL && piece != NULL;
    /* The last piece may be longer than what is left of the file: a mebibyte of a gigabyte. */
    for (uint64_t written = 0; good && written < writer->bytes; written += PIECE_BYTES)
        good = fwrite(piece, 1, PIECE_BYTES, file) == PIECE_BYTES;
    /* Closing writes the last of it, and may be what fails. */
    if (file != NULL && fclose(file) != 0)
        good = false;
    if (!good)
        (void)ps_fail(&writer->error, PS_ERR_IO, "write %s: %s", path, strerror(errno));
    (void)remove(path);
    ps_release(ps_allocator_heap(), piece);
    /* Whatever came of it: turns go on until then. */
    atomic_store(&writer->ended, true);
}
