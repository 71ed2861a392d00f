/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a checkpoint file: length, JSON header, padding (docs/checkpoint-format.md).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY, also for a header beyond PS_HEADER_BYTES_MAX.
 * Memory:   the result is in the caller's buffer.
 */
#ifndef PS_CHECKPOINT_HEADER_WRITER_H
#define PS_CHECKPOINT_HEADER_WRITER_H

#include "base/buffer.h"
#include "checkpoint/array_layout.h"
#include "checkpoint/checkpoint.h"

/* Largest JSON header, written or read: about 150,000 parameters. */
#define PS_HEADER_BYTES_MAX (64u * 1024 * 1024)

/* Before the JSON stands its length, eight bytes, little-endian. */
#define PS_HEADER_LENGTH_BYTES 8u

/* The data begins at a multiple of this, so that a mapped file has aligned arrays. */
#define PS_HEADER_ALIGNMENT 64u

/* Every header begins so; the eight hexadecimal digits of its checksum follow. The checksum is the
 * CRC-32C of the length and the whole header with these digits as zeros. */
#define PS_HEADER_START "{\"__metadata__\":{\"ps.header_crc32c\":\""
#define PS_HEADER_CHECKSUM_AT (PS_HEADER_LENGTH_BYTES + sizeof PS_HEADER_START - 1)
#define PS_HEADER_CHECKSUM_DIGITS 8u

/* The formats. The first, which older programs read, knows tensors of one dimension only: the
 * second is written where a tensor has another shape. All are read. */
#define PS_HEADER_FORMAT "1"
#define PS_HEADER_FORMAT_SHAPES "2"

/* And a third, of files with sections or tables: a program that passed over the former would lose
 * contributions that were acknowledged, and one that took a table for a matrix its keys. */
#define PS_HEADER_FORMAT_SECTIONS "3"

/* And a fourth, of files that add to another: alone they are not the state. */
#define PS_HEADER_FORMAT_ON_BASE "4"

/* And a fifth, of files with keys that are counted until they get a row, whether they add to
 * another or not: the programs that know sections, but not this one, would let every such key begin
 * anew. */
#define PS_HEADER_FORMAT_CANDIDATES "5"

/* The uuid of that other one; absent of whole ones. */
#define PS_HEADER_BASE "ps.base"

/* In the entry of a parameter of such a file: which of its arrays stand in it. Absent: all. Of one
 * that has none the entry says what its tensors would. */
#define PS_HEADER_CARRY "carry"
#define PS_HEADER_CARRY_AS_BASE "as-base"
#define PS_HEADER_CARRY_ROWS "rows"
#define PS_HEADER_CARRY_DTYPE "dtype"
#define PS_HEADER_CARRY_STATES "states"

/* How many keys went, of a table that carries rows. Absent: none. */
#define PS_HEADER_REMOVED "removed"

/* In the entry of a range of a cut parameter: the shape of the whole, which its tensor cannot
 * have. */
#define PS_HEADER_WHOLE_SHAPE "whole_shape"

/* Members that most parameters have no need of; programs that do not know them pass over them. */
#define PS_HEADER_BIRTH "birth"
#define PS_HEADER_DEFINED "defined"
#define PS_HEADER_AGES "ages" /* of tables alone */

/* In the entry of a table, and in no other: how many elements a row has. */
#define PS_HEADER_WIDTH "width"

/* The tensor behind all others: what is remembered of the clients' requests. It has no element type
 * of a parameter's. */
#define PS_HEADER_SESSIONS "ps.sessions"
/* The sections, behind them. */
#define PS_HEADER_ROUNDS "ps.rounds"
#define PS_HEADER_CLOCKS "ps.clocks"
#define PS_HEADER_CANDIDATES "ps.candidates"
/* Absent where nobody has said it. */
#define PS_HEADER_PLACEMENT "ps.placement"

#define PS_HEADER_SESSIONS_CHECKSUM "ps.sessions_crc32c"
#define PS_HEADER_BYTES_LABEL "U8"

/* A parameter of this name could not be told from something of our own. */
bool ps_header_name_reserved(struct ps_bytes name);

/* A parameter in its place in the file. */
struct ps_header_slot {
    const struct ps_checkpoint_parameter *parameter; /* borrowed */
    uint32_t crc32c[PS_ARRAYS_CARRIED_MAX];          /* of each array */
};

/* A section in its place in the file: 0 bytes, there is none. */
struct ps_header_section {
    uint64_t bytes;
    uint32_t crc32c;
};

/* Sets `head`, which must be empty and allow 8 more bytes than PS_HEADER_BYTES_MAX, to everything
 * before the data. `slots` are sorted by ps_header_order and complete. `sections` has one entry for
 * each section. */
PS_MUST_USE enum ps_status ps_header_write(const struct ps_checkpoint_facts *facts,
                                           const struct ps_header_section *sections,
                                           const struct ps_header_slot *slots, size_t slot_count,
                                           const struct ps_allocator *memory,
                                           struct ps_buffer *head, struct ps_error *error);

/* Most bytes that a header takes besides its parameters: the facts of `job` with the widest
 * numbers, the sessions, and the padding. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_header_facts_bytes(const char *job, const struct ps_allocator *memory,
                                                 uint64_t *bytes, struct ps_error *error);

/* Most bytes that a parameter adds to a header, whatever its version, its step and its place in the
 * file become, and of a table its rows. Only name, dtype, count, config, state_count, is_table,
 * width and ages are looked at; of ages it counts the text that is given, which is to be the widest
 * that the table will ever have. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status
ps_header_parameter_bytes(const struct ps_checkpoint_parameter *parameter,
                          const struct ps_allocator *memory, uint64_t *bytes,
                          struct ps_error *error);

/* The order of parameters in a file: wide elements first, then by name. <0, 0, >0. */
int ps_header_order(enum ps_dtype a_dtype, struct ps_bytes a_name, enum ps_dtype b_dtype,
                    struct ps_bytes b_name);

/* The checksum that a head should carry: `head` from the length on, at least up to the digits. */
uint32_t ps_header_checksum(struct ps_bytes head);

#endif
