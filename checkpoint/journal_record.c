/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the journal to bytes and back, believing nothing (docs/journal-format.md).
 *
 * A head has a fixed part with every number at a fixed place, little-endian, then client id and
 * name, then zeros up to the alignment. Its checksum covers all of that but the magic and itself;
 * the content has a checksum of its own, because it may be large and is verified where it is copied
 * to. Equal records are equal bytes. */
#include "checkpoint/journal_record.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"
#include "checkpoint/little_endian.h"

/* Where the fields of a head stand. The checksum covers all from FORMAT_AT to the content: the
 * magic only finds heads, and a checksum cannot cover itself. */
enum {
    MAGIC_AT = 0,
    HEAD_CRC32C_AT = 4,
    FORMAT_AT = 8,
    TYPE_AT = 9,
    DTYPE_AT = 10,
    ID_BYTES_AT = 11,
    NAME_BYTES_AT = 12,
    ENCODING_AT = 14,
    ZERO_AT = 15,
    CONTENT_CRC32C_AT = 16,
    FINGERPRINT_AT = 20,
    CONTENT_BYTES_AT = 24,
    POSITION_AT = 32,
    EPOCH_AT = 40,
    DURABLE_AT = 48,
    VERSION_AT = 56,
    SESSION_AT = 64,
    SEQUENCE_AT = 72
};
_Static_assert(SEQUENCE_AT + 8 == PS_JOURNAL_HEAD_BYTES, "the head ends with the sequence");

/* No file has more; keeps sums of sizes from wrapping. */
#define CONTENT_BYTES_MAX ((uint64_t)1 << 62)

static uint32_t head_crc32c(const struct ps_journal_life *life, struct ps_bytes covered);
static bool head_whole(struct ps_bytes bytes, const struct ps_journal_life *life,
                       struct ps_journal_head *head);
static void head_fields(const uint8_t *from, struct ps_journal_head *head);
static enum ps_journal_verdict head_judge(const uint8_t *from, const struct ps_journal_head *head);
static size_t segment_content_bytes(uint32_t format);

/* `durable` is the last position known to be on the disk when this record is written. By it a
 * reader can later tell a torn end (nobody claims that the bytes were there) from damage. */
size_t ps_journal_head_write(const struct ps_record *record, const struct ps_journal_life *life,
                             uint64_t durable, uint32_t content_crc32c, uint8_t *to)
{
    PS_ASSERT(life->format == PS_JOURNAL_FORMAT || life->format == PS_JOURNAL_FORMAT_1);
    PS_ASSERT(record->name.size <= PS_NAME_BYTES_MAX);
    PS_ASSERT(record->client_id.size <= PS_CLIENT_ID_BYTES_MAX);
    PS_ASSERT(record->content.size <= CONTENT_BYTES_MAX);
    /* Fields that this version does not use are zeros, which head_judge demands: a later version
     * can give them a meaning that this one then refuses. */
    memset(to, 0, PS_JOURNAL_HEAD_BYTES);
    /* Only to find heads quickly in a scan; what makes a head a head is its checksum. */
    ps_little_put(to + MAGIC_AT, 4, PS_JOURNAL_MAGIC);
    ps_little_put(to + FORMAT_AT, 1, life->format);
    ps_little_put(to + TYPE_AT, 1, (uint64_t)record->type);
    ps_little_put(to + DTYPE_AT, 1, (uint64_t)record->dtype);
    ps_little_put(to + ID_BYTES_AT, 1, record->client_id.size);
    ps_little_put(to + NAME_BYTES_AT, 2, record->name.size);
    ps_little_put(to + ENCODING_AT, 1, (uint64_t)record->encoding);
    ps_little_put(to + CONTENT_CRC32C_AT, 4, content_crc32c);
    ps_little_put(to + FINGERPRINT_AT, 4, record->fingerprint);
    ps_little_put(to + CONTENT_BYTES_AT, 8, record->content.size);
    ps_little_put(to + POSITION_AT, 8, record->position);
    ps_little_put(to + EPOCH_AT, 8, record->epoch);
    ps_little_put(to + DURABLE_AT, 8, durable);
    ps_little_put(to + VERSION_AT, 8, record->version);
    ps_little_put(to + SESSION_AT, 8, record->session);
    ps_little_put(to + SEQUENCE_AT, 8, record->sequence);

    size_t size = PS_JOURNAL_HEAD_BYTES;
    if (record->client_id.size > 0)
        memcpy(to + size, record->client_id.data, record->client_id.size);
    size += record->client_id.size;
    if (record->name.size > 0)
        memcpy(to + size, record->name.data, record->name.size);
    size += record->name.size;
    memset(to + size, 0, ps_journal_padding(size));
    size += ps_journal_padding(size);
    struct ps_bytes covered = {to + FORMAT_AT, size - FORMAT_AT};
    /* The first record of a segment says what the salt is, and so has none in its own checksum. */
    bool salted = record->type != PS_RECORD_SEGMENT;
    ps_little_put(to + HEAD_CRC32C_AT, 4, head_crc32c(salted ? life : NULL, covered));
    return size;
}

/* Three steps: is the head whole, what does it say, and may this version believe it. BAD means
 * bytes that no writer has made so; UNKNOWN means a whole head of a later version, which must stop
 * a reader instead of passing for damage. */
enum ps_journal_verdict ps_journal_head_read(struct ps_bytes bytes,
                                             const struct ps_journal_life *life,
                                             struct ps_journal_head *head)
{
    struct ps_journal_head read = {0};
    if (!head_whole(bytes, life, &read))
        return PS_JOURNAL_BAD;
    head_fields(bytes.data, &read);
    enum ps_journal_verdict verdict = head_judge(bytes.data, &read);
    if (verdict != PS_JOURNAL_BAD)
        *head = read;
    return verdict;
}

/* Without a salt where the life is not known, and in format 1. A reader that knows the life asks
 * for the salt in every head: content with a first record in it is not taken for a record. */
static uint32_t head_crc32c(const struct ps_journal_life *life, struct ps_bytes covered)
{
    uint8_t salt[4];
    if (life == NULL || life->format == PS_JOURNAL_FORMAT_1)
        return ps_checksum_crc32c(0, covered);
    ps_little_put(salt, sizeof salt, life->salt);
    uint32_t begin = ps_checksum_crc32c(0, (struct ps_bytes){salt, sizeof salt});
    return ps_checksum_crc32c(begin, covered);
}

/* Whether the head is complete and its checksum right; sets the sizes. The sizes of id and name are
 * read before the checksum is verified, because they say what it covers; they are bounded first, so
 * that the bytes of anything at all can be tried as a head (journal_scan.c does). */
static bool head_whole(struct ps_bytes bytes, const struct ps_journal_life *life,
                       struct ps_journal_head *head)
{
    if (bytes.size < PS_JOURNAL_HEAD_BYTES ||
        ps_little_take(bytes.data + MAGIC_AT, 4) != PS_JOURNAL_MAGIC)
        return false;
    size_t id_bytes = (size_t)ps_little_take(bytes.data + ID_BYTES_AT, 1);
    size_t name_bytes = (size_t)ps_little_take(bytes.data + NAME_BYTES_AT, 2);
    if (id_bytes > PS_CLIENT_ID_BYTES_MAX || name_bytes > PS_NAME_BYTES_MAX)
        return false;
    size_t size = PS_JOURNAL_HEAD_BYTES + id_bytes + name_bytes;
    size += ps_journal_padding(size);
    if (size > bytes.size)
        return false;
    struct ps_bytes covered = {bytes.data + FORMAT_AT, size - FORMAT_AT};
    if (ps_little_take(bytes.data + HEAD_CRC32C_AT, 4) != head_crc32c(life, covered))
        return false;
    head->format = (uint32_t)ps_little_take(bytes.data + FORMAT_AT, 1);
    /* A head of the other known format is not a record of this segment: only content looks so. */
    if (life != NULL && head->format <= PS_JOURNAL_FORMAT && head->format != life->format)
        return false;
    head->head_bytes = size;
    head->record.client_id = (struct ps_bytes){bytes.data + PS_JOURNAL_HEAD_BYTES, id_bytes};
    head->record.name =
        (struct ps_bytes){bytes.data + PS_JOURNAL_HEAD_BYTES + id_bytes, name_bytes};
    return true;
}

static void head_fields(const uint8_t *from, struct ps_journal_head *head)
{
    struct ps_record *record = &head->record;
    /* Values beyond the enums are possible here, and refused by head_judge before anybody uses
     * them. */
    record->type = (enum ps_record_type)ps_little_take(from + TYPE_AT, 1);
    record->dtype = (enum ps_dtype)ps_little_take(from + DTYPE_AT, 1);
    record->encoding = (enum ps_encoding)ps_little_take(from + ENCODING_AT, 1);
    record->position = ps_little_take(from + POSITION_AT, 8);
    record->epoch = ps_little_take(from + EPOCH_AT, 8);
    record->version = ps_little_take(from + VERSION_AT, 8);
    record->session = ps_little_take(from + SESSION_AT, 8);
    record->sequence = ps_little_take(from + SEQUENCE_AT, 8);
    record->fingerprint = (uint32_t)ps_little_take(from + FINGERPRINT_AT, 4);
    head->durable = ps_little_take(from + DURABLE_AT, 8);
    head->content_crc32c = (uint32_t)ps_little_take(from + CONTENT_CRC32C_AT, 4);
    head->content_bytes = ps_little_take(from + CONTENT_BYTES_AT, 8);
    /* The sum wraps for an absurd size, which head_judge refuses before anybody uses the sum. */
    head->record_bytes =
        head->head_bytes + head->content_bytes + ps_journal_padding(head->content_bytes);
}

/* Rows of a table are beside the encodings of elements, not among them (base/encoding.h). A number
 * that is neither is of a later version: the record is refused as unknown, and not as damaged, so
 * that whoever starts an old program over a new journal is told what to do. */
static bool is_encoding(enum ps_encoding encoding)
{
    return encoding < PS_ENCODING_COUNT || encoding == PS_ENCODING_ROWS;
}

/* Bounds hold behind a right checksum too: whoever wrote the head may have been wrong. The order
 * matters: the format is judged before the fields whose meaning depends on it. */
static enum ps_journal_verdict head_judge(const uint8_t *from, const struct ps_journal_head *head)
{
    if (head->content_bytes > CONTENT_BYTES_MAX)
        return PS_JOURNAL_BAD;
    if (head->format != PS_JOURNAL_FORMAT && head->format != PS_JOURNAL_FORMAT_1)
        return PS_JOURNAL_UNKNOWN;
    /* A segment has no name, and its size is known: it is judged by that alone, before what follows
     * asks for fields that it does not have. */
    if (head->record.type == PS_RECORD_SEGMENT)
        return head->content_bytes == segment_content_bytes(head->format) ? PS_JOURNAL_GOOD
                                                                          : PS_JOURNAL_BAD;
    if (head->record.type > PS_RECORD_TYPE_LAST || head->record.type < PS_RECORD_PUSH ||
        head->record.dtype >= PS_DTYPE_COUNT || !is_encoding(head->record.encoding) ||
        ps_little_take(from + ZERO_AT, 1) != 0)
        return PS_JOURNAL_UNKNOWN;
    /* A record without a parameter's name cannot be applied to anything. */
    return head->record.name.size > 0 ? PS_JOURNAL_GOOD : PS_JOURNAL_BAD;
}

/* The magic finds heads quickly and proves nothing. */
bool ps_journal_head_begins(const uint8_t word[PS_JOURNAL_ALIGNMENT])
{
    return ps_little_take(word + MAGIC_AT, 4) == PS_JOURNAL_MAGIC;
}

/* For heads whose checksum cannot be tried, because the salt is lost. */
bool ps_journal_head_is_of(struct ps_bytes bytes, uint32_t format)
{
    return bytes.size > FORMAT_AT && ps_journal_head_begins(bytes.data) &&
           ps_little_take(bytes.data + FORMAT_AT, 1) == format;
}

/* The number of zeros up to the next multiple; negating an unsigned number is its complement to
 * 2^64, of which the alignment is a divisor. */
size_t ps_journal_padding(uint64_t size)
{
    return (size_t)(-size % PS_JOURNAL_ALIGNMENT);
}

/* The size tells the formats apart beside the format itself, so that a head of one whose format was
 * damaged into the other is not believed. */
static size_t segment_content_bytes(uint32_t format)
{
    return format == PS_JOURNAL_FORMAT_1 ? PS_JOURNAL_SEGMENT_CONTENT_BYTES_1
                                         : PS_JOURNAL_SEGMENT_CONTENT_BYTES;
}

/* In the head and not in the content, whose size older programs demand: they look at no request id
 * of a segment's first record, which has none. */
void ps_journal_segment_history(const struct ps_journal_facts *facts, struct ps_record *record)
{
    PS_ASSERT(record->type == PS_RECORD_SEGMENT);
    record->session = ps_little_take(facts->history.bytes, 8);
    record->sequence = ps_little_take(facts->history.bytes + 8, 8);
}

/* The content of a segment's first record: five numbers, which the record's own checksums guard. */
size_t ps_journal_segment_write(const struct ps_journal_facts *facts,
                                const struct ps_journal_life *life,
                                uint8_t to[PS_JOURNAL_SEGMENT_CONTENT_BYTES])
{
    ps_little_put(to, 4, facts->index);
    ps_little_put(to + 4, 4, facts->shard_count);
    ps_little_put(to + 8, 8, facts->position);
    ps_little_put(to + 16, 8, facts->previous_epoch);
    ps_little_put(to + 24, 8, life->salt); /* four bytes more than it needs, for later versions */
    return segment_content_bytes(life->format);
}

void ps_journal_segment_read(const struct ps_journal_head *head,
                             const uint8_t from[PS_JOURNAL_SEGMENT_CONTENT_BYTES],
                             struct ps_journal_facts *facts, struct ps_journal_life *life)
{
    PS_ASSERT(head->content_bytes == segment_content_bytes(head->format));
    /* Zeros where an older program wrote it, which is "not known". */
    ps_little_put(facts->history.bytes, 8, head->record.session);
    ps_little_put(facts->history.bytes + 8, 8, head->record.sequence);
    facts->index = (uint32_t)ps_little_take(from, 4);
    facts->shard_count = (uint32_t)ps_little_take(from + 4, 4);
    facts->position = ps_little_take(from + 8, 8);
    facts->previous_epoch = ps_little_take(from + 16, 8);
    *life = (struct ps_journal_life){.format = head->format};
    if (head->format != PS_JOURNAL_FORMAT_1)
        life->salt = (uint32_t)ps_little_take(from + 24, 4);
}

/* Zeroed afterwards, so that a second release does nothing. */
void ps_journal_row_release(struct ps_journal_row *row)
{
    if (row == NULL || row->memory == NULL)
        return;
    ps_release(row->memory, row->block);
    *row = (struct ps_journal_row){0};
}

/* The record's content views the piece within the row itself, so a row that is copied has to point
 * at its own. */
void ps_journal_row_move(struct ps_journal_row *to, struct ps_journal_row *from)
{
    PS_ASSERT(to != NULL && from != NULL && to != from);
    *to = *from;
    if (to->memory != NULL)
        to->record.content = ps_view_of(&to->piece);
    *from = (struct ps_journal_row){0};
}
