/* SPDX-License-Identifier: Apache-2.0 */
/* Facts and parameters to the JSON header of a safetensors file (docs/checkpoint-format.md).
 *
 * Other programs read the tensors; what only we understand is in "__metadata__", which the format
 * limits to texts. The parameters are therefore described by a JSON document within a JSON text.
 * Equal facts give equal bytes: members stand in a fixed order, numbers have one form. */
#include "checkpoint/header_writer.h"

#include "base/assert.h"
#include "base/json_writer.h"
#include "checkpoint/checksum.h"
#include "checkpoint/header_entry_writer.h"
#include "checkpoint/section.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void write_json(const struct ps_checkpoint_facts *facts,
                       const struct ps_header_section *sections, const struct ps_header_slot *slots,
                       size_t slot_count, const struct ps_buffer *parameters,
                       struct ps_buffer *head);
static void write_facts(struct ps_json_writer *json, const struct ps_checkpoint_facts *facts,
                        const char *format);
static const char *format_of(const struct ps_checkpoint_facts *facts,
                             const struct ps_header_section *sections,
                             const struct ps_header_slot *slots, size_t slot_count);
static bool has_base(const struct ps_checkpoint_facts *facts);
static void write_section_sums(struct ps_json_writer *json,
                               const struct ps_header_section *sections);
static void write_bytes_tensors(struct ps_json_writer *json,
                                const struct ps_checkpoint_facts *facts,
                                const struct ps_header_section *sections, uint64_t *offset);
static void write_tensors(struct ps_json_writer *json, const struct ps_header_slot *slots,
                          size_t slot_count, bool wide, uint64_t *offset);
static void finish_head(struct ps_buffer *head);

/* The inner document first, because as a text in the outer one it must be known as a whole. Length
 * and checksum stand at fixed places and are filled in at the end. */
enum ps_status ps_header_write(const struct ps_checkpoint_facts *facts,
                               const struct ps_header_section *sections,
                               const struct ps_header_slot *slots, size_t slot_count,
                               const struct ps_allocator *memory, struct ps_buffer *head,
                               struct ps_error *error)
{
    PS_ASSERT(facts != NULL && head != NULL);
    PS_ASSERT(head->size == 0);
    struct ps_buffer parameters;
    ps_buffer_init(&parameters, memory, PS_HEADER_BYTES_MAX);
    ps_header_write_parameters(slots, slot_count, memory, &parameters);
    enum ps_status status = ps_buffer_status(&parameters, error);
    if (status == PS_OK) {
        write_json(facts, sections, slots, slot_count, &parameters, head);
        status = ps_buffer_status(head, error);
    }
    ps_buffer_fini(&parameters);
    if (status == PS_OK)
        finish_head(head);
    return status;
}

/* The checksum is the first member of all, so that it stands at a fixed offset and can be verified
 * before anything is parsed. Tensors follow in the order of their bytes in the file, without gaps,
 * as the safetensors format demands. */
static void write_json(const struct ps_checkpoint_facts *facts,
                       const struct ps_header_section *sections, const struct ps_header_slot *slots,
                       size_t slot_count, const struct ps_buffer *parameters,
                       struct ps_buffer *head)
{
    static const uint8_t no_length[PS_HEADER_LENGTH_BYTES] = {0};
    ps_buffer_append(head, (struct ps_bytes){no_length, sizeof no_length});
    struct ps_json_writer json;
    ps_json_writer_init(&json, head);
    ps_json_begin_object(&json, NULL);
    ps_json_begin_object(&json, "__metadata__");
    /* Zeros for now: eight digits that finish_head writes over. */
    ps_header_write_sum(&json, "ps.header_crc32c", 0);
    write_facts(&json, facts, format_of(facts, sections, slots, slot_count));
    write_section_sums(&json, sections);
    struct ps_bytes text = {(const uint8_t *)parameters->text, parameters->size};
    ps_json_text(&json, "ps.parameters", text);
    ps_json_end_object(&json);

    /* Offsets count from the end of the header and run on through all arrays: what one ends at, the
     * next begins at. */
    uint64_t offset = 0;
    /* Arrays of eight bytes come first of all parameters, so that those of four behind them are
     * aligned whatever their number is. */
    write_tensors(&json, slots, slot_count, true, &offset);
    write_tensors(&json, slots, slot_count, false, &offset);
    write_bytes_tensors(&json, facts, sections, &offset);
    ps_json_end_object(&json);
    /* Spaces behind the document align the first array; the format allows them. */
    while (head->size % PS_HEADER_ALIGNMENT != 0 && !head->failed)
        ps_buffer_append_text(head, " ");
}

/* Behind all parameters, whose elements so stay aligned; the sections last, as they came last. */
static void write_bytes_tensors(struct ps_json_writer *json,
                                const struct ps_checkpoint_facts *facts,
                                const struct ps_header_section *sections, uint64_t *offset)
{
    const struct ps_shape flat = {0};
    if (facts->sessions.size > 0)
        ps_header_write_array(json, PS_HEADER_SESSIONS, PS_HEADER_BYTES_LABEL, &flat,
                              facts->sessions.size, 1, offset);
    /* One dimension of bytes, which every reader of the format knows, if not what they mean. */
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        if (sections[i].bytes > 0)
            ps_header_write_array(json, ps_section_name(i), PS_HEADER_BYTES_LABEL, &flat,
                                  sections[i].bytes, 1, offset);
}

/* The presence of a sum says that there is the tensor, as for the sessions: a file without sections
 * has the bytes that it always had. */
static void write_section_sums(struct ps_json_writer *json,
                               const struct ps_header_section *sections)
{
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        if (sections[i].bytes > 0)
            ps_header_write_sum(json, ps_section_checksum_key(i), sections[i].crc32c);
}

/* A program that knows the first format alone would take a tensor of several dimensions for damage;
 * of a format that it does not know it says so. */
static const char *format_of(const struct ps_checkpoint_facts *facts,
                             const struct ps_header_section *sections,
                             const struct ps_header_slot *slots, size_t slot_count)
{
    /* Before the base: whoever knows this format knows of bases. */
    if (sections[PS_CHECKPOINT_CANDIDATES].bytes > 0)
        return PS_HEADER_FORMAT_CANDIDATES;
    /* Whatever is in it: a program that took it for whole would serve a part of the state. */
    if (has_base(facts))
        return PS_HEADER_FORMAT_ON_BASE;
    /* The highest format that anything in the file needs: who reads sections reads shapes. */
    for (size_t i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        if (sections[i].bytes > 0)
            return PS_HEADER_FORMAT_SECTIONS;
    /* A table without rows counts as well: whoever reads the file has to make it. */
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].parameter->is_table)
            return PS_HEADER_FORMAT_SECTIONS;
    for (size_t i = 0; i < slot_count; i++)
        if (ps_shape_is_of(&slots[i].parameter->shape, slots[i].parameter->count))
            return PS_HEADER_FORMAT_SHAPES;
    return PS_HEADER_FORMAT;
}

/* Callers that know of no bases leave it NULL. */
static bool has_base(const struct ps_checkpoint_facts *facts)
{
    return facts->base != NULL && facts->base[0] != '\0';
}

/* Read back by read_facts in header_reader.c; the two lists change together. */
static void write_facts(struct ps_json_writer *json, const struct ps_checkpoint_facts *facts,
                        const char *format)
{
    /* The loaders of some frameworks want to be told whose arrays these are. */
    ps_json_text(json, "format", ps_bytes_of_text("pt"));
    ps_json_text(json, "ps.format", ps_bytes_of_text(format));
    ps_json_text(json, "ps.uuid", ps_bytes_of_text(facts->uuid));
    ps_header_write_number(json, "ps.index", facts->index);
    ps_header_write_number(json, "ps.shard_count", facts->shard_count);
    ps_header_write_number(json, "ps.epoch", facts->epoch);
    ps_header_write_number(json, "ps.position", facts->position);
    ps_header_write_number(json, "ps.unix_ns", facts->unix_ns);
    if (facts->placement != 0)
        ps_header_write_number(json, PS_HEADER_PLACEMENT, facts->placement);
    char history[PS_UUID_BYTES];
    ps_history_write(&facts->history, history);
    if (history[0] != '\0')
        ps_json_text(json, PS_HEADER_HISTORY, ps_bytes_of_text(history));
    ps_json_text(json, "ps.job", ps_bytes_of_text(facts->job));
    /* Left out for most files, as older writers did. */
    if (facts->set != NULL && facts->set[0] != '\0')
        ps_json_text(json, "ps.set", ps_bytes_of_text(facts->set));
    if (has_base(facts))
        ps_json_text(json, PS_HEADER_BASE, ps_bytes_of_text(facts->base));
    if (facts->sessions.size > 0)
        ps_header_write_sum(json, PS_HEADER_SESSIONS_CHECKSUM,
                            ps_checksum_crc32c(0, facts->sessions));
}

/* Those of one width, in the order of the slots: the file has all wide ones first. */
static void write_tensors(struct ps_json_writer *json, const struct ps_header_slot *slots,
                          size_t slot_count, bool wide, uint64_t *offset)
{
    for (size_t i = 0; i < slot_count; i++)
        for (uint32_t array = 0; array < ps_array_carried(slots[i].parameter); array++)
            if (ps_array_is_wide(slots[i].parameter, array) == wide)
                ps_header_write_tensor(json, slots[i].parameter, array, offset);
}

/* Fills in what is only known at the end: the length, then the checksum over everything, in this
 * order, since the checksum covers the length too. */
static void finish_head(struct ps_buffer *head)
{
    PS_ASSERT(head->size % PS_HEADER_ALIGNMENT == 0);
    PS_ASSERT(memcmp(head->text + PS_HEADER_LENGTH_BYTES, PS_HEADER_START,
                     sizeof PS_HEADER_START - 1) == 0);
    /* Little-endian, as the safetensors format begins. */
    uint64_t length = head->size - PS_HEADER_LENGTH_BYTES;
    for (size_t i = 0; i < PS_HEADER_LENGTH_BYTES; i++)
        head->text[i] = (char)(uint8_t)(length >> (8 * i));
    char digits[PS_HEADER_CHECKSUM_DIGITS + 1];
    struct ps_bytes bytes = {(const uint8_t *)head->text, head->size};
    (void)snprintf(digits, sizeof digits, "%08" PRIx32, ps_header_checksum(bytes));
    memcpy(head->text + PS_HEADER_CHECKSUM_AT, digits, PS_HEADER_CHECKSUM_DIGITS);
}
