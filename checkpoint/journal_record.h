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

/* The format that this code writes and the only one it reads. */
#define PS_JOURNAL_FORMAT 1u

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
size_t ps_journal_head_write(const struct ps_record *record, uint64_t durable,
                             uint32_t content_crc32c, uint8_t *to);

/* Reads a head from the beginning of `bytes`, which may be longer or shorter than it. `*head` is
 * set when it is good, and for an unknown one as far as this version understands it. */
enum ps_journal_verdict ps_journal_head_read(struct ps_bytes bytes, struct ps_journal_head *head);

/* The zeros that follow `size` bytes. */
size_t ps_journal_padding(uint64_t size);

/* The content of a segment's first record. Its position is that of the segment's first push. */
#define PS_JOURNAL_SEGMENT_CONTENT_BYTES ((size_t)24)

/* `facts` to `to`, and back; epoch and first position stand in the record's head. */
void ps_journal_segment_write(const struct ps_journal_facts *facts,
                              uint8_t to[PS_JOURNAL_SEGMENT_CONTENT_BYTES]);
void ps_journal_segment_read(const uint8_t from[PS_JOURNAL_SEGMENT_CONTENT_BYTES],
                             struct ps_journal_facts *facts);

#endif
