/* SPDX-License-Identifier: Apache-2.0 */
/* Copying and both sums read memory once: in steps, of which the second sum finds the bytes where
 * the copy left them. */
#include "checkpoint/summed_output.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"

#include <string.h>

/* Fits the processor's first or second cache. */
#define STEP_BYTES ((size_t)64 << 10)

/* Each part that is left out has what is before it for another one. */
enum ps_status ps_summed_output_init(struct ps_summed_output *output,
                                     struct ps_block_output *blocks, size_t left_out,
                                     const struct ps_allocator *memory, struct ps_error *error)
{
    PS_ASSERT(left_out <= SIZE_MAX / 2);
    *output = (struct ps_summed_output){
        .blocks = blocks, .memory = memory, .part_capacity = 2 * left_out};
    if (left_out == 0)
        return PS_OK;
    output->parts = ps_zeroed_array(memory, output->part_capacity, sizeof *output->parts);
    return output->parts != NULL
               ? PS_OK
               : ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %zu parts of a file", left_out);
}

/* The output that it fills is the caller's. */
void ps_summed_output_fini(struct ps_summed_output *output)
{
    if (output->memory == NULL)
        return;
    PS_ASSERT(output->part_count <= output->part_capacity);
    ps_release(output->memory, output->parts);
    *output = (struct ps_summed_output){0};
}

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

/* Behind the place of the head, which is written last and joined before all others. */
void ps_summed_output_begin(struct ps_summed_output *output)
{
    PS_ASSERT(output->part_count == 0);
    output->begin = output->bytes;
    output->crc32 = 0;
}

/* The next part in the order of the file. */
static size_t add_part(struct ps_summed_output *output, uint64_t bytes, uint32_t crc32)
{
    PS_ASSERT(output->part_count < output->part_capacity);
    output->parts[output->part_count] = (struct ps_summed_part){bytes, crc32};
    return output->part_count++;
}

/* Nothing was put between two parts that stand right behind each other. */
size_t ps_summed_output_leave_out(struct ps_summed_output *output, uint64_t bytes)
{
    if (output->bytes > output->begin)
        (void)add_part(output, output->bytes - output->begin, output->crc32);
    output->bytes += bytes;
    output->begin = output->bytes;
    output->crc32 = 0;
    return add_part(output, bytes, 0);
}

/* By arithmetic: no byte is read again. */
uint32_t ps_summed_output_crc32(const struct ps_summed_output *output)
{
    uint32_t crc32 = 0;
    PS_ASSERT(output->begin <= output->bytes);
    for (size_t i = 0; i < output->part_count; i++)
        crc32 = ps_checksum_crc32_join(crc32, output->parts[i].crc32, output->parts[i].bytes);
    return ps_checksum_crc32_join(crc32, output->crc32, output->bytes - output->begin);
}
