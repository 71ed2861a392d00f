/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a benchmark will need, touched beforehand and given back. On a virtual machine the
 * first touch of memory that the host has not given yet takes milliseconds for 2 MiB, the second
 * one tenths of that; without this the first table of a run would be measured as the host's.
 *
 * Threads:  any.
 * Blocking: for the kernel and for what it runs on.
 * Errors:   none; less memory than asked for is touched when there is no more.
 * Memory:   all of it is given back.
 */
#ifndef PS_TOOLS_PSBENCH_TOUCH_H
#define PS_TOOLS_PSBENCH_TOUCH_H

#include <stdint.h>

/* Of the last time that memory was touched, after it was touched before: what a slab of 2 MiB takes
 * of whoever needs one. */
struct ps_bench_touch {
    double mean_us, longest_us;
};

/* Touches so many bytes twice, in slabs as the server's. */
struct ps_bench_touch ps_bench_touch_memory(double bytes);

#endif
