/* What the disk alone can do, on the file system that the server writes to.
 *
 * Threads:  one.
 * Blocking: for the disk, each for about its time.
 * Errors:   PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   released before return. Files it makes are removed.
 */
#ifndef PS_TOOLS_PSBENCH_DISK_H
#define PS_TOOLS_PSBENCH_DISK_H

#include "base/status.h"
#include "tools/psbench/psbench_rows.h"

#include <stddef.h>
#include <stdint.h>

#define PS_BENCH_FILES_MAX 512
#define PS_BENCH_FILE_PATH_MAX 512

/* Appends pieces of `size` bytes to a new file in `folder`, with an fdatasync behind every
 * `pieces_per_sync`, for `time_ms`. A piece counts when its fdatasync has returned; the times are
 * those of a write of so many pieces together with its fdatasync. */
PS_MUST_USE enum ps_status ps_bench_disk_append(const char *folder, size_t size,
                                                uint64_t pieces_per_sync, uint64_t time_ms,
                                                struct ps_bench_figures *figures,
                                                struct ps_error *error);

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
