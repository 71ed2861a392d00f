/* SPDX-License-Identifier: Apache-2.0 */
/* The project's other programs: where they are, and running one to its end.
 *
 * Threads:  one; a program dies with the thread that started it.
 * Blocking: until the program has ended.
 * Errors:   PS_ERR_IO; PS_ERR_UNAVAILABLE with the program's own last words.
 * Memory:   none is kept.
 */
#ifndef PS_TOOLS_PSBENCH_PROGRAM_H
#define PS_TOOLS_PSBENCH_PROGRAM_H

#include "base/status.h"
#include "tools/psbench/psbench_server.h"

#include <stdbool.h>

/* The program of that name beside this one. False: it cannot be run; the path is the one that was
 * tried. */
bool ps_bench_program_beside(const char *name, char path[PS_BENCH_PATH_MAX]);

/* Runs words[0] with the words up to NULL. Its standard output goes to the file `output`, replaced;
 * its standard error to `output` with ".log" behind it. PS_ERR_UNAVAILABLE: it ended with another
 * status than 0. */
PS_MUST_USE enum ps_status ps_bench_program_run(const char *const *words, const char *output,
                                                struct ps_error *error);

#endif
