/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a server wrote: to be found, read and forgotten by the system's cache.
 *
 * Threads:  one.
 * Blocking: for the disk, each for about its time.
 * Errors:   PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   released before return.
 */
#ifndef PS_TOOLS_PSBENCH_DISK_H
#define PS_TOOLS_PSBENCH_DISK_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define PS_BENCH_FILES_MAX 512
#define PS_BENCH_FILE_PATH_MAX 512

/* Some files, by path. */
struct ps_bench_files {
    char paths[PS_BENCH_FILES_MAX][PS_BENCH_FILE_PATH_MAX];
    size_t count;
};

/* Adds every regular file below `folder` whose name ends with `ending`, sorted by path.
 * PS_ERR_OUT_OF_RANGE when there are too many. */
PS_MUST_USE enum ps_status ps_bench_disk_find(const char *folder, const char *ending,
                                              struct ps_bench_files *files, struct ps_error *error);

/* Reads every byte of the files and computes its CRC-32C. `*bytes` and `*taken_ns` say how many
 * and how long. */
PS_MUST_USE enum ps_status ps_bench_disk_read(const struct ps_bench_files *files, uint64_t *bytes,
                                              uint64_t *taken_ns, struct ps_error *error);

/* Asks the kernel to forget the files, so that the next reading is from the disk. What is not there
 * yet is written first. */
PS_MUST_USE enum ps_status ps_bench_disk_forget(const struct ps_bench_files *files,
                                                struct ps_error *error);

#endif
