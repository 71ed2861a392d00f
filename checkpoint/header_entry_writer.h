/* SPDX-License-Identifier: Apache-2.0 */
/* What a header says of parameters: the list of them, which only we read, and the entry of each
 * tensor, which every program does.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   a buffer without memory says so itself (ps_buffer_status).
 * Memory:   the result is in the caller's buffer.
 */
#ifndef PS_CHECKPOINT_HEADER_ENTRY_WRITER_H
#define PS_CHECKPOINT_HEADER_ENTRY_WRITER_H

#include "base/json_writer.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/header_format.h"

/* A parameter in its place in the file. */
struct ps_header_slot {
    const struct ps_checkpoint_parameter *parameter; /* borrowed */
    uint32_t crc32c[PS_ARRAYS_CARRIED_MAX];          /* of each array */
};

/* Appends the list of the parameters, a JSON document of its own. */
void ps_header_write_parameters(const struct ps_header_slot *slots, size_t slot_count,
                                const struct ps_allocator *memory, struct ps_buffer *text);

/* The entry of one array of a parameter, whose bytes begin at `*offset` of the data; `*offset`
 * becomes where they end. */
void ps_header_write_tensor(struct ps_json_writer *json,
                            const struct ps_checkpoint_parameter *about, uint32_t array,
                            uint64_t *offset);

/* The same of any array of `count` elements of `width` bytes each; `label` is the format's word for
 * their type. */
void ps_header_write_array(struct ps_json_writer *json, const char *name, const char *label,
                           const struct ps_shape *shape, uint64_t count, size_t width,
                           uint64_t *offset);

/* A number as text: metadata holds nothing else, and readers that turn numbers into doubles lose
 * digits. */
void ps_header_write_number(struct ps_json_writer *json, const char *key, uint64_t number);

/* A checksum, always in eight digits: a header must not change its length when the sums become
 * known. */
void ps_header_write_sum(struct ps_json_writer *json, const char *key, uint32_t checksum);

#endif
