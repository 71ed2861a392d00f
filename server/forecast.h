/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the shard will need that this server is going to load, before it knows which one
 * that is.
 *
 * Threads:  any.
 * Blocking: for the disk.
 * Errors:   none: what cannot be read counts as nothing.
 * Memory:   nothing is kept.
 */
#ifndef PS_SERVER_FORECAST_H
#define PS_SERVER_FORECAST_H

#include "base/alloc.h"
#include "base/file.h"

#include <stdint.h>

/* Of the shards in `folder` (its folders shard-<i>) the largest: bytes of its newest checkpoint.
 * 0 when there is none. */
uint64_t ps_forecast_bytes(const struct ps_files *files, const char *folder,
                           const struct ps_allocator *memory);

#endif
