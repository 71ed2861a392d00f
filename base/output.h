/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a program's standard output.
 *
 * Threads:  the main thread, when no other prints.
 * Blocking: as standard output does.
 * Errors:   the result says them.
 * Memory:   none.
 */
#ifndef PS_BASE_OUTPUT_H
#define PS_BASE_OUTPUT_H

/* Flushes standard output. Returns `code`, or EX_IOERR (74), with a line on standard error, for a
 * program that succeeded and whose output did not arrive whole. */
int ps_output_end(const char *program, int code);

#endif
