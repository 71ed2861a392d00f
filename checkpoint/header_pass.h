/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the JSON header of a checkpoint file, shared by the files that read its parts:
 * header_reader.c (facts), header_entry.c (parameters) and header_tensors.c. Private to
 * checkpoint/.
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
    uint64_t offset;     /* where the next array begins in the file */
    uint64_t file_bytes; /* that arrays may have */
    bool is_cut;         /* the file has another length, which is no matter here */
    struct ps_error *error;
};

/* Reads what an entry of ps.parameters says of one parameter, without its tensors. */
PS_MUST_USE enum ps_status ps_header_read_entry(struct ps_header_pass *pass,
                                                const struct ps_json *entry,
                                                struct ps_header_parameter *parameter);

/* A checksum out of its digits. False when `text` is NULL or no checksum. */
bool ps_header_checksum_of(const char *text, uint32_t *checksum);

/* Copies a text, with a NUL behind it, into the memory of the header. */
char *ps_header_keep_text(struct ps_header_pass *pass, const char *text, size_t size);

/* Reads the tensors of all parameters, whose entries were read: they must come next, in the order
 * of the file. */
PS_MUST_USE enum ps_status ps_header_read_tensors(struct ps_header_pass *pass);

/* Reads the shape of the whole from the entry of a range, before its tensors. */
PS_MUST_USE enum ps_status ps_header_read_whole_shape(struct ps_header_pass *pass,
                                                      const struct ps_json *entry,
                                                      struct ps_header_parameter *parameter);

/* Reads the tensor of the sessions, which must come next if the header has their checksum. */
PS_MUST_USE enum ps_status ps_header_read_sessions(struct ps_header_pass *pass);

/* Reads the tensors of the sections whose checksums the header has. They come last. */
PS_MUST_USE enum ps_status ps_header_read_sections(struct ps_header_pass *pass,
                                                   const bool has[PS_CHECKPOINT_SECTION_COUNT]);

/* PS_ERR_CORRUPT, with `reason` behind the words that all such errors begin with. */
PS_MUST_USE enum ps_status ps_header_corrupt(struct ps_error *error, const char *reason);

#endif
