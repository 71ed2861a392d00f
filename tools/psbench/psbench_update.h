/* Update loops and the memory they run through, by several threads, without any server.
 *
 * Threads:  one uses it; it starts threads of its own and joins them.
 * Blocking: for as long as measuring takes.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   slabs as the server's blocks have them, given back by close.
 */
#ifndef PS_TOOLS_PSBENCH_UPDATE_H
#define PS_TOOLS_PSBENCH_UPDATE_H

#include "base/status.h"
#include "tools/psbench/psbench_rows.h"

#include <stddef.h>
#include <stdint.h>

/* Values, a gradient and two states. */
#define PS_BENCH_UPDATE_ARRAYS 4

struct ps_bench_update {
    void **slabs[PS_BENCH_UPDATE_ARRAYS]; /* owned */
    size_t slab_count;                    /* of each array */
    uint64_t thread_count;
};

/* What is done to every element. */
enum ps_bench_update_kind {
    PS_BENCH_UPDATE_SGD,
    PS_BENCH_UPDATE_ADAM,
    PS_BENCH_UPDATE_SGD_MEMORY, /* as SGD reads and writes, without its arithmetic */
    PS_BENCH_UPDATE_ADAM_MEMORY,
    PS_BENCH_UPDATE_KIND_COUNT
};

/* Arrays of `size` bytes, rounded up to whole slabs, filled with numbers. */
PS_MUST_USE enum ps_status ps_bench_update_open(struct ps_bench_update *update, uint64_t size,
                                                uint64_t thread_count, struct ps_error *error);
void ps_bench_update_close(struct ps_bench_update *update);

/* Passes over all elements for `time_ms`, at least two. `figures` counts passes. */
PS_MUST_USE enum ps_status ps_bench_update_run(struct ps_bench_update *update,
                                               enum ps_bench_update_kind kind, uint64_t time_ms,
                                               struct ps_bench_figures *figures,
                                               struct ps_error *error);

/* Bytes read and written for each byte of a parameter. */
uint64_t ps_bench_update_traffic(enum ps_bench_update_kind kind);

#endif
