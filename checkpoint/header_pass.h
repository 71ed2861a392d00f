/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the JSON header of a checkpoint file, shared by the files that read its parts:
 * header_reader.c (facts and parameters) and header_tensors.c. Private to checkpoint/.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   as header_reader.h says.
 * Memory:   a pass borrows all that it points at.
 */
#ifndef PS_CHECKPOINT_HEADER_PASS_H
#define PS_CHECKPOINT_HEADER_PASS_H

#include "checkpoint/header_reader.h"
#include "json/json_reader.h"

struct ps_header_pass {
    struct ps_header *header;
    const struct ps_json *tensor; /* the next top-level member */
    size_t texts_used;
    size_t texts_size;
    uint64_t offset; /* where the next array begins in the file */
    uint64_t file_bytes;
    struct ps_error *error;
};

/* Reads the values' tensor of a parameter and those of its states, which must come next. */
PS_MUST_USE enum ps_status ps_header_read_tensors(struct ps_header_pass *pass,
                                                  struct ps_header_parameter *parameter);

/* Reads the shape of the whole from the entry of a range, behind its tensors. */
PS_MUST_USE enum ps_status ps_header_read_whole_shape(struct ps_header_pass *pass,
                                                      const struct ps_json *entry,
                                                      struct ps_checkpoint_parameter *about);

/* Reads the tensor of the sessions, which must come next if the header has their checksum. */
PS_MUST_USE enum ps_status ps_header_read_sessions(struct ps_header_pass *pass);

/* PS_ERR_CORRUPT, with `reason` behind the words that all such errors begin with. */
PS_MUST_USE enum ps_status ps_header_corrupt(struct ps_error *error, const char *reason);

#endif
