/* SPDX-License-Identifier: Apache-2.0 */
/* What writer and reader of a header agree on (docs/checkpoint-format.md): members, formats, the
 * order of parameters, the checksum.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_CHECKPOINT_HEADER_FORMAT_H
#define PS_CHECKPOINT_HEADER_FORMAT_H

#include "base/bytes.h"
#include "base/dtype.h"

#include <stdbool.h>

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
/* Which life of the shard the file is of; absent of files of older programs, which pass over it. */
#define PS_HEADER_HISTORY "ps.history"

#define PS_HEADER_SESSIONS_CHECKSUM "ps.sessions_crc32c"
#define PS_HEADER_BYTES_LABEL "U8"

/* A parameter of this name could not be told from something of our own. */
bool ps_header_name_reserved(struct ps_bytes name);

/* The order of parameters in a file: wide elements first, then by name. <0, 0, >0. */
int ps_header_order(enum ps_dtype a_dtype, struct ps_bytes a_name, enum ps_dtype b_dtype,
                    struct ps_bytes b_name);

/* The checksum that a head should carry: `head` from the length on, at least up to the digits. */
uint32_t ps_header_checksum(struct ps_bytes head);

#endif
