/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and verifies the head of a checkpoint file. Nothing in it is believed before the checksum
 * of the whole head is right, and after that every bound is checked all the same.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT with the reason; PS_ERR_NO_MEMORY.
 * Memory:   a header owns everything in it until ps_header_fini.
 */
#ifndef PS_CHECKPOINT_HEADER_READER_H
#define PS_CHECKPOINT_HEADER_READER_H

#include "checkpoint/array_layout.h"
#include "checkpoint/checkpoint.h"

/* Begins the text of every PS_ERR_CORRUPT of a checkpoint file. Part of the contract. */
#define PS_CHECKPOINT_CORRUPT "checkpoint file checksum validation failed: "

struct ps_header_parameter {
    struct ps_checkpoint_parameter about;   /* texts belong to the header; views are empty, but the
                                           * size of the keys that went */
    uint64_t offset[PS_ARRAYS_CARRIED_MAX]; /* of each array from the beginning of the file; 0:
                                                * not read yet */
    uint32_t crc32c[PS_ARRAYS_CARRIED_MAX];
    bool
        has_whole; /* the entry of a range says the shape of the whole, of `whole_count` elements */
    uint64_t whole_count;
};

struct ps_header {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_checkpoint_facts facts;
    struct ps_header_parameter *parameters; /* owned, in the order of the file */
    size_t count;
    char *texts; /* owned: job, names and configurations */
    bool has_sessions;
    uint32_t sessions_crc32c;
    uint64_t sessions_offset; /* from the beginning of the file */
    uint64_t sessions_bytes;
    struct ps_header_range {
        uint64_t offset; /* from the beginning of the file */
        uint64_t bytes;  /* 0: there is no such section */
        uint32_t crc32c;
    } sections[PS_CHECKPOINT_SECTION_COUNT];
};

/* The length of the JSON header by a file's first 8 bytes, when a file of `file_bytes` can have
 * it. Only then is memory asked for. */
PS_MUST_USE enum ps_status ps_header_length(struct ps_bytes first, uint64_t file_bytes,
                                            size_t *length, struct ps_error *error);

/* Compares the checksum of `head`, the length and the JSON header, with its bytes; then they are
 * what was written. PS_ERR_CORRUPT. */
PS_MUST_USE enum ps_status ps_header_verify(struct ps_bytes head, struct ps_error *error);

/* Parses `head`: the length and the JSON header, of a file of `file_bytes`. */
PS_MUST_USE enum ps_status ps_header_init(struct ps_header *header, struct ps_bytes head,
                                          uint64_t file_bytes, const struct ps_allocator *memory,
                                          struct ps_error *error);
/* The same of a file that is shorter or longer than its header says, as one whose copying was
 * broken off: the header's checksum is right, and arrays are whose own are. Whoever reads one has
 * to see whether the file goes so far. For those who look for what can be saved; nobody trains on
 * it. */
PS_MUST_USE enum ps_status ps_header_init_cut(struct ps_header *header, struct ps_bytes head,
                                              const struct ps_allocator *memory,
                                              struct ps_error *error);
void ps_header_fini(struct ps_header *header);

#endif
