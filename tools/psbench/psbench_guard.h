/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the measuring in a process of its own under a watch that cleans up whatever happens: the
 * private folder goes and no server stays behind, also after Ctrl-C or a crash.
 *
 * Threads:  one, before any other is started.
 * Blocking: until the measuring has ended, or a signal to end came.
 * Errors:   the exit code says.
 * Memory:   none.
 */
#ifndef PS_TOOLS_PSBENCH_GUARD_H
#define PS_TOOLS_PSBENCH_GUARD_H

#include "base/status.h"

/* Makes a private folder in `parent`, calls `measure` with it in a child process, and returns its
 * exit code: what `measure` returned, or 128 and the signal that ended it. */
int ps_bench_guard(const char *parent, int (*measure)(void *context, const char *folder),
                   void *context);

/* Removes a folder with everything in it, as far as that is possible. */
void ps_bench_remove_folder(const char *folder);

/* Moves this process and its future children into a new network namespace with loopback up and the
 * given TCP congestion control. It is gone when the last of them has ended.
 *
 * PS_ERR_DENIED       only root (CAP_SYS_ADMIN) may do that
 * PS_ERR_UNSUPPORTED  this kernel has no such congestion control, or does not let it be chosen
 * PS_ERR_IO           loopback did not come up
 */
PS_MUST_USE enum ps_status ps_bench_enter_namespace(const char *congestion_control,
                                                    struct ps_error *error);

#endif
