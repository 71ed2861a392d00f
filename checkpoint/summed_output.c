/* SPDX-License-Identifier: Apache-2.0 */
/* Copying and both sums read memory once: in steps, of which the second sum finds the bytes where
 * the copy left them. */
#include "checkpoint/summed_output.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"

#include <string.h>

/* Fits the processor's first or second cache. */
#define STEP_BYTES ((size_t)64 << 10)

enum ps_status ps_summed_output_put(struct ps_summed_output *output, struct ps_bytes bytes,
                                    uint32_t *crc32c, struct ps_error *error)
{
    while (bytes.size > 0) {
        size_t room = 0;
        uint8_t *to = ps_block_output_room(output->blocks, &room);
        size_t part = bytes.size < STEP_BYTES ? bytes.size : STEP_BYTES;
        part = part < room ? part : room;
        memcpy(to, bytes.data, part);
        PS_TRY(ps_summed_output_made(output, (struct ps_bytes){to, part}, crc32c, error));
        bytes.data += part;
        bytes.size -= part;
    }
    return PS_OK;
}

/* These bytes stand in the buffer, which is written when it is full. */
enum ps_status ps_summed_output_made(struct ps_summed_output *output, struct ps_bytes made,
                                     uint32_t *crc32c, struct ps_error *error)
{
    PS_ASSERT(output->blocks != NULL);
    *crc32c = ps_checksum_crc32c(*crc32c, made);
    output->crc32 = ps_checksum_crc32(output->crc32, made);
    output->bytes += made.size;
    return ps_block_output_made(output->blocks, made.size, error);
}
