/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that two processes of one machine see: made by one, handed to the other as a descriptor.
 *
 * Its size is sealed when it is made. So whoever maps it can rely on every page for as long as the
 * mapping lasts, whatever the other process does: nobody can cut the memory short under a reader,
 * which would end it with a bus error. What the bytes are is another matter: the other process may
 * change them at any moment, also between two reads.
 *
 * Threads:  a segment is constant once it is mapped; who reads and writes the bytes is the users'
 *           business.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT for a descriptor that is not such memory, PS_ERR_NO_MEMORY,
 *           PS_ERR_UNSUPPORTED from a system that has no such thing.
 * Memory:   the mapping; pages exist from the first touch on.
 */
#ifndef PS_BASE_SHARED_SEGMENT_H
#define PS_BASE_SHARED_SEGMENT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ps_shared_segment {
    uint8_t *bytes; /* NULL: none */
    size_t size;
};

/* Makes and maps `size` bytes (a multiple of 4096, not 0) of zeros. `*descriptor` is for the other
 * process; close it when it was sent. */
PS_MUST_USE enum ps_status ps_shared_segment_create(size_t size, struct ps_shared_segment *segment,
                                                    int *descriptor, struct ps_error *error);

/* Maps what another process made. The descriptor stays the caller's and may be closed afterwards.
 *
 * PS_ERR_BAD_INPUT  not memory of this kind, not sealed, not writable, or not of `size` bytes
 */
PS_MUST_USE enum ps_status ps_shared_segment_open(int descriptor, uint64_t size,
                                                  struct ps_shared_segment *segment,
                                                  struct ps_error *error);

/* Ends the mapping. Accepts a zeroed segment. */
void ps_shared_segment_close(struct ps_shared_segment *segment);

#endif
