/* SPDX-License-Identifier: Apache-2.0 */
/* How records stand in a section. They are asked for twice: once for their sizes, which the header
 * must know before the first byte is written, and once to be written. So nothing of them is
 * copied, and a round's contributions take no memory for being saved. */
#include "checkpoint/section.h"

#include "base/assert.h"
#include "checkpoint/checksum.h"
#include "checkpoint/header_format.h"

#include <string.h>

/* A salt tells lives of one file apart that follow each other over the same blocks. A checkpoint
 * that is written over a spare is cut behind its end, and its sums say what belongs to it. */
const struct ps_journal_life ps_section_life = {.format = PS_JOURNAL_FORMAT};

/* The order is that of the enum and of the file. Names are those of tensors, which other programs
 * list: so they tell whose they are. */
static const struct {
    const char *name;
    const char *checksum_key;
    enum ps_record_type types[2];
} sections[PS_CHECKPOINT_SECTION_COUNT] = {
    [PS_CHECKPOINT_ROUNDS] = {PS_HEADER_ROUNDS,
                              PS_HEADER_ROUNDS "_crc32c",
                              {PS_RECORD_HELD, PS_RECORD_ROUND}},
    [PS_CHECKPOINT_CLOCKS] = {PS_HEADER_CLOCKS,
                              PS_HEADER_CLOCKS "_crc32c",
                              {PS_RECORD_CLOCKS, PS_RECORD_CLOCK}},
    [PS_CHECKPOINT_CANDIDATES] = {PS_HEADER_CANDIDATES,
                                  PS_HEADER_CANDIDATES "_crc32c",
                                  {PS_RECORD_CANDIDATES, PS_RECORD_CANDIDATES}},
};

static uint32_t content_crc32c(struct ps_view content);

const char *ps_section_name(enum ps_checkpoint_section section)
{
    PS_ASSERT(section < PS_CHECKPOINT_SECTION_COUNT);
    return sections[section].name;
}

const char *ps_section_checksum_key(enum ps_checkpoint_section section)
{
    PS_ASSERT(section < PS_CHECKPOINT_SECTION_COUNT);
    return sections[section].checksum_key;
}

/* A parameter of such a name could not be told from the section, neither by a reader of ours nor by
 * one that knows safetensors alone. */
bool ps_section_is_name(struct ps_bytes name)
{
    for (size_t i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        if (ps_bytes_equal(name, ps_bytes_of_text(sections[i].name)))
            return true;
    return false;
}

/* At most two types each: what a section is made of is said once, for writer and reader. */
bool ps_section_takes(enum ps_checkpoint_section section, enum ps_record_type type)
{
    PS_ASSERT(section < PS_CHECKPOINT_SECTION_COUNT);
    return type == sections[section].types[0] || type == sections[section].types[1];
}

/* In 64 bits: contributions of all parameters of a shard may be more than the shard itself. Without
 * a look at the contents: sizes alone, so that a header is made before anything is read. */
uint64_t ps_section_bytes(const struct ps_checkpoint_records *records)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < records->count; i++) {
        struct ps_record record = {0};
        records->give(records->self, i, &record);
        /* The head as ps_journal_head_write makes it of a record without a client; the writer
         * asserts that both came to the same. */
        bytes += PS_JOURNAL_HEAD_BYTES + record.name.size;
        bytes += ps_journal_padding(record.name.size);
        bytes += record.content.size + ps_journal_padding(record.content.size);
    }
    return bytes;
}

/* Position and epoch are those of the file: the records were made then, and a reader sees by them
 * that the section belongs to the parameters before it. Nobody repeats a request by them, since the
 * sessions are in the file, so they have no client. */
size_t ps_section_record(const struct ps_checkpoint_facts *facts,
                         enum ps_checkpoint_section section, size_t i, struct ps_record *record,
                         uint8_t head[PS_JOURNAL_HEAD_BYTES_MAX])
{
    const struct ps_checkpoint_records *records = &facts->sections[section];
    PS_ASSERT(i < records->count);
    /* Whoever gives the record sets what it knows; all else is zero, as the format says. */
    *record = (struct ps_record){0};
    records->give(records->self, i, record);
    record->position = facts->position;
    record->epoch = facts->epoch;
    PS_ASSERT(ps_section_takes(section, record->type));
    PS_ASSERT(record->name.size > 0 && record->client_id.size == 0);
    return ps_journal_head_write(record, &ps_section_life, facts->position,
                                 content_crc32c(record->content), head);
}

/* Before the content is written, because the head stands first and carries it: contents are read
 * twice, which costs little beside the disk. */
static uint32_t content_crc32c(struct ps_view content)
{
    uint32_t crc32c = 0;
    for (size_t i = 0; i < content.piece_count; i++)
        crc32c = ps_checksum_crc32c(crc32c, content.pieces[i]);
    return crc32c;
}
