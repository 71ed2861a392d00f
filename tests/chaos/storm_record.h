/* SPDX-License-Identifier: Apache-2.0 */
/* The record file of a storm's process: one line per event, written before the next thing is done.
 *
 * Threads:  one.
 * Blocking: on the file.
 * Errors:   a line that cannot be written would make the record a lie: the process ends instead.
 * Memory:   none is kept.
 */
#ifndef PS_TESTS_CHAOS_STORM_RECORD_H
#define PS_TESTS_CHAOS_STORM_RECORD_H

#include <stdint.h>

void storm_note(int record, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* CLOCK_MONOTONIC, which all processes of a machine share. */
uint64_t storm_now_ns(void);

#endif
