/* SPDX-License-Identifier: Apache-2.0 */
/* One record of the journal as bytes: a fixed head, the client's id and the parameter's name,
 * zeros to a multiple of 8; then the content and zeros again (docs/journal-format.md).
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none; a head that cannot be read says why it cannot.
 * Memory:   a head that was read borrows from the bytes it was read from.
 */
#ifndef PS_CHECKPOINT_JOURNAL_RECORD_H
#define PS_CHECKPOINT_JOURNAL_RECORD_H

#include "base/bounds.h"
#include "checkpoint/journal.h"

/* Every part of a segment begins at a multiple of this. */
#define PS_JOURNAL_ALIGNMENT 8u

#define PS_JOURNAL_MAGIC 0x524a5350u /* "PSJR" */

/* The format that this code writes, and the older one that it also reads. A segment is of one
 * format: that of its first record. */
#define PS_JOURNAL_FORMAT 2u
#define PS_JOURNAL_FORMAT_1 1u

/* Every write to a segment of format 2 begins and ends at a multiple of this, and the zeros behind
 * its last record are up to the next one: a block that was acknowledged is never written again. */
#define PS_JOURNAL_BLOCK_BYTES ((size_t)4096)

/* Which heads belong to a segment. A file may have been a segment before (journal_spares.h), so
 * heads of its former life may stand behind the end of this one. The salt is drawn when a life
 * begins; the checksums of all heads behind the first begin with it, so that no head of another
 * life is good: of equal bytes, checksums that begin differently differ. Clients do not know the
 * salt either, and cannot send a content that passes for records. */
struct ps_journal_life {
    uint32_t format;
    uint32_t salt; /* 0 in format 1 */
};

/* The fixed part, and the most with id, name and zeros. */
#define PS_JOURNAL_HEAD_BYTES ((size_t)80)
#define PS_JOURNAL_HEAD_BYTES_MAX \
    (PS_JOURNAL_HEAD_BYTES + PS_CLIENT_ID_BYTES_MAX + PS_NAME_BYTES_MAX)

_Static_assert(PS_JOURNAL_HEAD_BYTES_MAX % PS_JOURNAL_ALIGNMENT == 0, "zeros have room");
_Static_assert(PS_CLIENT_ID_BYTES_MAX <= UINT8_MAX, "the size of an id is one byte");
_Static_assert(PS_NAME_BYTES_MAX <= UINT16_MAX, "the size of a name is two bytes");

/* What stands before the content. */
struct ps_journal_head {
    struct ps_record record; /* its content is empty */
    uint64_t durable;        /* the last position that was durable when this was written */
    uint64_t content_bytes;
    uint32_t content_crc32c;
    uint32_t format;       /* PS_JOURNAL_FORMAT, or the older one */
    size_t head_bytes;     /* to where the content begins */
    uint64_t record_bytes; /* to where the next record begins */
};

enum ps_journal_verdict {
    PS_JOURNAL_GOOD,
    PS_JOURNAL_BAD,    /* no head, or a damaged one */
    PS_JOURNAL_UNKNOWN /* a whole one of a format, a type or an element type of later versions */
};

/* Writes the head of `record`, whose content has that checksum, to `to`
 * (PS_JOURNAL_HEAD_BYTES_MAX). Returns its size. Names beyond base/bounds.h abort. */
size_t ps_journal_head_write(const struct ps_record *record, const struct ps_journal_life *life,
                             uint64_t durable, uint32_t content_crc32c, uint8_t *to);

/* Reads a head of that life from the beginning of `bytes`, which may be longer or shorter than it.
 * NULL: any life, as for the first record of a segment; a push of format 2 is bad then. `*head` is
 * set when it is good, and for an unknown one as far as this version understands it. */
enum ps_journal_verdict ps_journal_head_read(struct ps_bytes bytes,
                                             const struct ps_journal_life *life,
                                             struct ps_journal_head *head);

/* Whether a word begins like a head, and bytes like a head of that format: good or bad. */
bool ps_journal_head_begins(const uint8_t word[PS_JOURNAL_ALIGNMENT]);
bool ps_journal_head_is_of(struct ps_bytes bytes, uint32_t format);

/* The zeros that follow `size` bytes. */
size_t ps_journal_padding(uint64_t size);

/* The content of a segment's first record: in format 2, and in format 1, which has no salt. The
 * record's position is that of the segment's first push. */
#define PS_JOURNAL_SEGMENT_CONTENT_BYTES ((size_t)32)
#define PS_JOURNAL_SEGMENT_CONTENT_BYTES_1 ((size_t)24)

/* `facts` and the life to `to`, as the life's format wants it; returns the size. */
size_t ps_journal_segment_write(const struct ps_journal_facts *facts,
                                const struct ps_journal_life *life,
                                uint8_t to[PS_JOURNAL_SEGMENT_CONTENT_BYTES]);

/* The history of `facts` to `record`, the first of a segment: it stands where other records have
 * the session and the sequence of their request id. */
void ps_journal_segment_history(const struct ps_journal_facts *facts, struct ps_record *record);

/* And back, from `head` and the content that stands behind it; epoch and first position stand in
 * the head as well, and are not set. */
void ps_journal_segment_read(const struct ps_journal_head *head,
                             const uint8_t from[PS_JOURNAL_SEGMENT_CONTENT_BYTES],
                             struct ps_journal_facts *facts, struct ps_journal_life *life);

#endif
