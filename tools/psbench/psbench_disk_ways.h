/* SPDX-License-Identifier: Apache-2.0 */
/* The two ways in which bytes become durable on the disk that the server writes to: appended to a
 * file through the system's cache and synced, or written past the cache over blocks that were
 * written before. Which one is faster depends on machine and file system, so both are measured.
 *
 * Threads:  one.
 * Blocking: for the disk, each for about its time.
 * Errors:   PS_ERR_IO, PS_ERR_NO_MEMORY, PS_ERR_UNSUPPORTED.
 * Memory:   buffer and file are held from open to close; no file grows beyond the bound.
 */
#ifndef PS_TOOLS_PSBENCH_DISK_WAYS_H
#define PS_TOOLS_PSBENCH_DISK_WAYS_H

#include "base/status.h"
#include "tools/psbench/psbench_rows.h"

#include <stddef.h>
#include <stdint.h>

/* The largest write that can be measured. */
#define PS_BENCH_DISK_WRITE_MAX ((size_t)8 << 20)

struct ps_bench_disk {
    const char *folder;  /* borrowed; NULL: not open */
    uint64_t file_bytes; /* no file that is written is larger; whole largest writes */
    uint8_t *memory;     /* owned */
    uint8_t *content;    /* in `memory`, at a multiple of PS_FILE_DIRECT_BYTES */
    int file;            /* for direct writes, every block of which was written; negative: none */
    char why_not[96];    /* direct writes are not possible; empty: they are */
};

/* Makes the file for direct writes in `folder`, which is borrowed, where they are possible, and
 * writes it once: `file_bytes`, rounded up to whole largest writes. On failure it is closed. */
PS_MUST_USE enum ps_status ps_bench_disk_open(struct ps_bench_disk *disk, const char *folder,
                                              uint64_t file_bytes, struct ps_error *error);

/* Removes the file. Accepts a zeroed disk. */
void ps_bench_disk_close(struct ps_bench_disk *disk);

/* Appends `size` bytes to a file that grows and makes them durable with fdatasync, again and again
 * for `time_ms`. The times are those of a write with its fdatasync. The file is removed. */
PS_MUST_USE enum ps_status ps_bench_disk_append(struct ps_bench_disk *disk, size_t size,
                                                uint64_t time_ms, struct ps_bench_figures *figures,
                                                struct ps_error *error);

/* Writes `size` bytes, a multiple of PS_FILE_DIRECT_BYTES, past the cache, each write durable when
 * it returns, one behind the other in the file that was written before.
 *
 * PS_ERR_UNSUPPORTED   disk->why_not says why there are no direct writes here
 */
PS_MUST_USE enum ps_status ps_bench_disk_direct(struct ps_bench_disk *disk, size_t size,
                                                uint64_t time_ms, struct ps_bench_figures *figures,
                                                struct ps_error *error);

#endif
