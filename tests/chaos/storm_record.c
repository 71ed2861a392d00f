/* SPDX-License-Identifier: Apache-2.0 */
/* One write per line: a process that is killed leaves whole lines and at most half of one. */
#include "tests/chaos/storm_record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 512u

void storm_note(int record, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size < 0 || size >= (int)sizeof line ||
        write(record, line, (size_t)size) != (ssize_t)size) {
        fprintf(stderr, "storm_trainer: record: %s\n", strerror(errno));
        abort();
    }
}

uint64_t storm_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
