/* SPDX-License-Identifier: Apache-2.0 */
/* Records out of the sections of a checkpoint, believing nothing: head, place and content of each
 * are verified before it is handed out, and the section's own checksum behind the last. */
#include "base/assert.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_reader_state.h"
#include "checkpoint/checksum.h"
#include "checkpoint/section.h"

#include <string.h>

static enum ps_status read_head(const struct ps_checkpoint_reader *reader,
                                enum ps_checkpoint_section section, uint64_t offset,
                                uint8_t bytes[PS_JOURNAL_HEAD_BYTES_MAX],
                                struct ps_journal_head *head, struct ps_error *error);
static enum ps_status judge(const struct ps_checkpoint_reader *reader,
                            enum ps_checkpoint_section section, const struct ps_journal_head *head,
                            uint64_t left, struct ps_error *error);
static enum ps_status read_row(const struct ps_checkpoint_reader *reader, uint64_t offset,
                               const struct ps_journal_head *head, uint32_t *crc32c,
                               struct ps_journal_row *row, struct ps_error *error);
static enum ps_status read_content(const struct ps_checkpoint_reader *reader, uint64_t offset,
                                   const struct ps_journal_head *head, uint8_t *to,
                                   uint32_t *crc32c, struct ps_error *error);
static enum ps_status corrupt(enum ps_checkpoint_section section, const char *reason,
                              struct ps_error *error);

/* By the header, which was verified when the file was opened: nothing of the section is read. */
uint64_t ps_checkpoint_section_bytes(const struct ps_checkpoint_reader *reader,
                                     enum ps_checkpoint_section section)
{
    PS_ASSERT(reader != NULL && section < PS_CHECKPOINT_SECTION_COUNT);
    return reader->header.sections[section].bytes;
}

/* The name of the section is the whole reason, as the name of an array is: what is left to know is
 * in `psckpt verify`. */
enum ps_status ps_checkpoint_check_section(const struct ps_checkpoint_reader *reader,
                                           enum ps_checkpoint_section section, uint32_t crc32c,
                                           struct ps_error *error)
{
    PS_ASSERT(reader->header.sections[section].bytes > 0);
    return crc32c == reader->header.sections[section].crc32c
               ? PS_OK
               : ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "%s",
                         ps_section_name(section));
}

/* The walk moves on only when the record is whole, so that an error can be asked for again. */
enum ps_status ps_checkpoint_next_record(struct ps_checkpoint_reader *reader,
                                         enum ps_checkpoint_section section,
                                         struct ps_checkpoint_walk *walk,
                                         struct ps_journal_row *row, bool *more,
                                         struct ps_error *error)
{
    PS_ASSERT(reader != NULL && section < PS_CHECKPOINT_SECTION_COUNT);
    const struct ps_header_range *range = &reader->header.sections[section];
    PS_ASSERT(walk->offset <= range->bytes);
    /* The sum is compared when it is complete. A caller that stops before has relied on the sums of
     * the records alone, which are as good for each of them, but say nothing of one that is
     * missing. */
    *more = walk->offset < range->bytes;
    if (!*more)
        return range->bytes == 0
                   ? PS_OK
                   : ps_checkpoint_check_section(reader, section, walk->crc32c, error);
    uint8_t bytes[PS_JOURNAL_HEAD_BYTES_MAX];
    struct ps_journal_head head;
    /* Sum and place of the walk change together, at the end. */
    struct ps_checkpoint_walk next = *walk;
    PS_TRY(read_head(reader, section, walk->offset, bytes, &head, error));
    next.crc32c = ps_checksum_crc32c(next.crc32c, (struct ps_bytes){bytes, head.head_bytes});
    PS_TRY(read_row(reader, range->offset + walk->offset, &head, &next.crc32c, row, error));
    next.offset += head.record_bytes;
    *walk = next;
    return PS_OK;
}

/* The head says how long it is; up to the longest is read, or to the section's end. */
static enum ps_status read_head(const struct ps_checkpoint_reader *reader,
                                enum ps_checkpoint_section section, uint64_t offset,
                                uint8_t bytes[PS_JOURNAL_HEAD_BYTES_MAX],
                                struct ps_journal_head *head, struct ps_error *error)
{
    const struct ps_header_range *range = &reader->header.sections[section];
    /* Not zero: the caller has asked whether there is more. */
    uint64_t left = range->bytes - offset;
    uint32_t unused = 0;
    /* The bytes of the next record may be read with it; they are summed when it is their turn. */
    struct ps_checkpoint_piece piece = {
        bytes, left < PS_JOURNAL_HEAD_BYTES_MAX ? (size_t)left : PS_JOURNAL_HEAD_BYTES_MAX};
    PS_TRY(ps_checkpoint_read_piece(reader, range->offset + offset, piece, &unused, error));
    switch (ps_journal_head_read((struct ps_bytes){bytes, piece.size}, &ps_section_life, head)) {
    case PS_JOURNAL_BAD:
        return corrupt(section, "the head of a record is damaged", error);
    /* A newer program wrote the file. To pass over the record would lose what it says. */
    case PS_JOURNAL_UNKNOWN:
        return ps_fail(error, PS_ERR_UNSUPPORTED,
                       "checkpoint: %s has a record that this version does not know",
                       ps_section_name(section));
    case PS_JOURNAL_GOOD:
        break;
    }
    return judge(reader, section, head, left, error);
}

/* The checksum was right, which the record of another file has as well, and so has one that a tool
 * has put there. What makes it belong to this file is its position and epoch. */
static enum ps_status judge(const struct ps_checkpoint_reader *reader,
                            enum ps_checkpoint_section section, const struct ps_journal_head *head,
                            uint64_t left, struct ps_error *error)
{
    const struct ps_record *record = &head->record;
    const struct ps_checkpoint_facts *facts = &reader->header.facts;
    if (!ps_section_takes(section, record->type))
        return corrupt(section, "a record of another type stands in it", error);
    if (record->position != facts->position || record->epoch != facts->epoch)
        return corrupt(section, "a record is of another checkpoint", error);
    /* A request that is remembered is so by the sessions; twice would be one time too many. */
    if (record->client_id.size > 0)
        return corrupt(section, "a record has a client", error);
    /* Before memory is taken for the content. */
    if (head->record_bytes > left)
        return corrupt(section, "it ends within a record", error);
    return PS_OK;
}

/* One block as a journal's reader makes it, the content first, where it is aligned. */
static enum ps_status read_row(const struct ps_checkpoint_reader *reader, uint64_t offset,
                               const struct ps_journal_head *head, uint32_t *crc32c,
                               struct ps_journal_row *row, struct ps_error *error)
{
    const struct ps_record *record = &head->record;
    size_t content_bytes = (size_t)head->content_bytes;
    uint8_t *block = ps_plain(reader->memory, content_bytes + record->name.size);
    if (block == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for a record of %zu bytes",
                       content_bytes);
    /* The head lies on the stack of the caller, and the row outlives that. */
    uint8_t *name = block + content_bytes;
    memcpy(name, record->name.data, record->name.size);
    enum ps_status status =
        read_content(reader, offset + head->head_bytes, head, block, crc32c, error);
    if (status != PS_OK) {
        ps_release(reader->memory, block);
        return status;
    }
    /* The row is as a journal's: whoever applies records need not know where they came from, and
     * may keep the memory. */
    *row = (struct ps_journal_row){.record = *record,
                                   .piece = {block, content_bytes},
                                   .memory = reader->memory,
                                   .block = block};
    row->record.name.data = name;
    row->record.client_id = (struct ps_bytes){0};
    row->record.content = ps_view_of(&row->piece);
    return PS_OK;
}

/* With the zeros behind it, which belong to the section's checksum. */
static enum ps_status read_content(const struct ps_checkpoint_reader *reader, uint64_t offset,
                                   const struct ps_journal_head *head, uint8_t *to,
                                   uint32_t *crc32c, struct ps_error *error)
{
    size_t size = (size_t)head->content_bytes;
    uint8_t zeros[PS_JOURNAL_ALIGNMENT];
    struct ps_checkpoint_piece padding = {zeros, ps_journal_padding(size)};
    PS_TRY(ps_checkpoint_read_piece(reader, offset, (struct ps_checkpoint_piece){to, size}, crc32c,
                                    error));
    /* Summed where it will be used, as all that is read of a checkpoint. The second sum goes
     * on over the section; to join both from one pass would save nothing that can be measured
     * here. */
    if (ps_checksum_crc32c(0, (struct ps_bytes){to, size}) != head->content_crc32c)
        return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "a record of %.*s",
                       (int)head->record.name.size, (const char *)head->record.name.data);
    return ps_checkpoint_read_piece(reader, offset + size, padding, crc32c, error);
}

/* Every text begins as the contract of checkpoint files says, then names the section, so that an
 * operator knows what of the file is lost: the parameters may be whole. */
static enum ps_status corrupt(enum ps_checkpoint_section section, const char *reason,
                              struct ps_error *error)
{
    return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "%s: %s", ps_section_name(section),
                   reason);
}
