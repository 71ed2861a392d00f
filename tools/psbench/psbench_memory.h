/* What fresh memory costs on this machine, without a server between.
 *
 * Threads:  one.
 * Blocking: for the system, which has to find the memory.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   given back before return.
 */
#ifndef PS_TOOLS_PSBENCH_MEMORY_H
#define PS_TOOLS_PSBENCH_MEMORY_H

#include "base/status.h"

#include <stdint.h>

/* Touches every page of `bytes` of fresh memory once, in slabs as a server takes them, in one
 * thread. In a virtual machine the host may have to find each page: then it takes 10 to 20 times as
 * long as where the machine has the memory already. `*taken_ns` says how long. */
PS_MUST_USE enum ps_status ps_bench_memory_touch(uint64_t bytes, uint64_t *taken_ns,
                                                 struct ps_error *error);

#endif
