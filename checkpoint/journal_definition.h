/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a PS_RECORD_DEFINE: a head with shape and configuration, then the values
 * (docs/journal-format.md). Name and element type stand in the record's own head.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for a head that no writer has made so.
 * Memory:   what is read borrows from the content.
 */
#ifndef PS_CHECKPOINT_JOURNAL_DEFINITION_H
#define PS_CHECKPOINT_JOURNAL_DEFINITION_H

#include "base/bounds.h"
#include "base/bytes.h"
#include "base/shape.h"
#include "base/status.h"

/* Most that the head takes: its numbers, the lengths, the configuration and zeros. */
#define PS_DEFINITION_HEAD_BYTES_MAX (16 + 8 * PS_SHAPE_RANK_MAX + PS_CONFIG_BYTES_MAX + 8)

struct ps_definition {
    struct ps_shape shape;
    struct ps_bytes config; /* serialized OptimizerConfig */
    struct ps_bytes values; /* of a definition that was read */
};

/* Writes the head to `to` and returns its size, a multiple of 8; the values follow it. */
size_t ps_definition_head_write(const struct ps_definition *definition,
                                uint8_t to[PS_DEFINITION_HEAD_BYTES_MAX]);

PS_MUST_USE enum ps_status ps_definition_read(struct ps_bytes content,
                                              struct ps_definition *definition,
                                              struct ps_error *error);

#endif
