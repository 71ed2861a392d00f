/* SPDX-License-Identifier: Apache-2.0 */
/* How often a device has failed at work, kept in a small file of the data directory,
 * device-<uuid>.failures: a line for each failure, "<seconds since 1970> <what it said>", the
 * newest last. One that has failed three times within ten minutes is bad, and stays bad until
 * somebody removes the file.
 *
 * Threads:  one at a time; servers of one device that share the folder may lose a line to each
 *           other.
 * Blocking: for the disk.
 * Errors:   PS_ERR_IO. A file that cannot be read is as good as none.
 * Memory:   nothing is kept.
 */
#ifndef PS_SERVER_DEVICE_RECORD_H
#define PS_SERVER_DEVICE_RECORD_H

#include "base/file.h"

/* So many failures within so many seconds. */
#define PS_DEVICE_FAILURES_MAX 3
#define PS_DEVICE_FAILURES_SECONDS 600

/* Adds a failure; only the newest PS_DEVICE_FAILURES_MAX are kept. */
PS_MUST_USE enum ps_status ps_device_record_add(const struct ps_files *files, const char *folder,
                                                const char *uuid, uint64_t unix_seconds,
                                                const char *text, struct ps_error *error);

/* PS_ERR_UNAVAILABLE: the device is bad; the text says what it said last, and which file to remove.
 */
PS_MUST_USE enum ps_status ps_device_record_check(const struct ps_files *files, const char *folder,
                                                  const char *uuid, struct ps_error *error);

#endif
