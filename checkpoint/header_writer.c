/* SPDX-License-Identifier: Apache-2.0 */
/* Facts and parameters to the JSON header of a safetensors file (docs/checkpoint-format.md).
 *
 * Other programs read the tensors; what only we understand is in "__metadata__", which the format
 * limits to texts. The parameters are therefore described by a JSON document within a JSON text.
 * Equal facts give equal bytes: members stand in a fixed order, numbers have one form. */
#include "checkpoint/header_writer.h"

#include "base/assert.h"
#include "base/base64.h"
#include "base/json_writer.h"
#include "checkpoint/checksum.h"
#include "checkpoint/section.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Digits of the highest 64-bit number, 18446744073709551615. */
#define WIDEST_DIGITS 20

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
static void write_carry(struct ps_json_writer *json,
                        const struct ps_checkpoint_parameter *parameter);
static void write_section_sums(struct ps_json_writer *json,
                               const struct ps_header_section *sections);
static void write_bytes_tensors(struct ps_json_writer *json,
                                const struct ps_checkpoint_facts *facts,
                                const struct ps_header_section *sections, uint64_t *offset);
static void write_parameters(const struct ps_header_slot *slots, size_t slot_count,
                             const struct ps_allocator *memory, struct ps_buffer *text);
static void write_parameter(struct ps_json_writer *json, const struct ps_header_slot *slot,
                            struct ps_buffer *config);
static void write_tensors(struct ps_json_writer *json, const struct ps_header_slot *slots,
                          size_t slot_count, bool wide, uint64_t *offset);
static void write_tensor(struct ps_json_writer *json, const struct ps_checkpoint_parameter *about,
                         uint32_t array, uint64_t *offset);
static void write_array(struct ps_json_writer *json, const char *name, const char *label,
                        const struct ps_shape *shape, uint64_t count, size_t width,
                        uint64_t *offset);
static void write_whole_shape(struct ps_json_writer *json,
                              const struct ps_checkpoint_parameter *parameter);
static void write_origin(struct ps_json_writer *json,
                         const struct ps_checkpoint_parameter *parameter, struct ps_buffer *config);
static void write_number(struct ps_json_writer *json, const char *key, uint64_t number);
static void write_checksum(struct ps_json_writer *json, const char *key, uint32_t checksum);
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
    write_parameters(slots, slot_count, memory, &parameters);
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

/* How many bytes the facts take at most, so that a service can refuse a parameter for which the
 * header would become too large. Measured by writing the widest facts: a sum of its own would have
 * to follow every change of the format, and the one time it did not would be found at a save. */
enum ps_status ps_header_facts_bytes(const char *job, const struct ps_allocator *memory,
                                     uint64_t *bytes, struct ps_error *error)
{
    static const uint8_t session[1] = {0};
    char set[PS_SET_NAME_BYTES_MAX + 1] = "";
    char base[37] = "";
    memset(set, 'f', sizeof set - 1);
    memset(base, 'f', sizeof base - 1);
    struct ps_checkpoint_facts facts = {.index = UINT32_MAX,
                                        .shard_count = UINT32_MAX,
                                        .placement = UINT64_MAX,
                                        .epoch = UINT64_MAX,
                                        .position = UINT64_MAX,
                                        .unix_ns = UINT64_MAX,
                                        .job = job,
                                        .set = set,
                                        .base = base,
                                        .sessions = {session, sizeof session}};
    memset(facts.uuid, 'f', sizeof facts.uuid - 1);
    /* Each of them, since a parameter may get rounds, and the shard clocks, at any time. */
    const struct ps_header_section sections[PS_CHECKPOINT_SECTION_COUNT] = {{.bytes = 1},
                                                                            {.bytes = 1}};
    struct ps_buffer head;
    ps_buffer_init(&head, memory, PS_HEADER_BYTES_MAX);
    enum ps_status status = ps_header_write(&facts, sections, NULL, 0, memory, &head, error);
    /* The tensors of sessions and sections have their place behind all others, where numbers are
     * long. */
    *bytes = head.size + PS_HEADER_ALIGNMENT +
             (1 + PS_CHECKPOINT_SECTION_COUNT) * (uint64_t)(3 * WIDEST_DIGITS);
    ps_buffer_fini(&head);
    return status;
}

/* The same for one parameter: its entry (escaped, as a text in the outer document) and its tensors,
 * all numbers at their widest. */
enum ps_status ps_header_parameter_bytes(const struct ps_checkpoint_parameter *parameter,
                                         const struct ps_allocator *memory, uint64_t *bytes,
                                         struct ps_error *error)
{
    struct ps_checkpoint_parameter widest = *parameter;
    /* These numbers grow while the service runs, and with them the header; names and configurations
     * stay. */
    widest.version = widest.step = widest.id = UINT64_MAX;
    widest.birth = parameter->birth != 0 ? UINT64_MAX : 0;
    /* As many rows as no memory has, so few that the bytes of an array can be counted. */
    if (widest.is_table) {
        widest.rows = (uint64_t)INT64_MAX / 8 / widest.width;
        widest.count = widest.rows * widest.width;
        /* In a file that adds to another it may have one array more than in a whole one. */
        widest.carry = PS_CARRY_ROWS;
        widest.removed.size = (size_t)INT64_MAX / 8 * 8;
    }
    const struct ps_header_slot slot = {.parameter = &widest};
    struct ps_buffer parameters, head;
    ps_buffer_init(&parameters, memory, PS_HEADER_BYTES_MAX);
    ps_buffer_init(&head, memory, PS_HEADER_BYTES_MAX);
    write_parameters(&slot, 1, memory, &parameters);
    struct ps_json_writer json;
    ps_json_writer_init(&json, &head);
    ps_json_begin_object(&json, NULL);
    /* A text, as in the real header: the quotes of the inner document double there. */
    ps_json_text(&json, "p", (struct ps_bytes){(const uint8_t *)parameters.text, parameters.size});
    for (uint32_t array = 0; array < ps_array_carried(&widest); array++) {
        uint64_t offset = UINT64_MAX - ps_array_bytes(&widest, array);
        write_tensor(&json, &widest, array, &offset);
    }
    ps_json_end_object(&json);
    enum ps_status status = ps_buffer_status(&parameters, error);
    if (status == PS_OK)
        status = ps_buffer_status(&head, error);
    *bytes = head.size;
    ps_buffer_fini(&head);
    ps_buffer_fini(&parameters);
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
    write_checksum(&json, "ps.header_crc32c", 0);
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
        write_array(json, PS_HEADER_SESSIONS, PS_HEADER_BYTES_LABEL, &flat, facts->sessions.size, 1,
                    offset);
    /* One dimension of bytes, which every reader of the format knows, if not what they mean. */
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        if (sections[i].bytes > 0)
            write_array(json, ps_section_name(i), PS_HEADER_BYTES_LABEL, &flat, sections[i].bytes,
                        1, offset);
}

/* The presence of a sum says that there is the tensor, as for the sessions: a file without sections
 * has the bytes that it always had. */
static void write_section_sums(struct ps_json_writer *json,
                               const struct ps_header_section *sections)
{
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        if (sections[i].bytes > 0)
            write_checksum(json, ps_section_checksum_key(i), sections[i].crc32c);
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
    write_number(json, "ps.index", facts->index);
    write_number(json, "ps.shard_count", facts->shard_count);
    write_number(json, "ps.epoch", facts->epoch);
    write_number(json, "ps.position", facts->position);
    write_number(json, "ps.unix_ns", facts->unix_ns);
    if (facts->placement != 0)
        write_number(json, PS_HEADER_PLACEMENT, facts->placement);
    ps_json_text(json, "ps.job", ps_bytes_of_text(facts->job));
    /* Left out for most files, as older writers did. */
    if (facts->set != NULL && facts->set[0] != '\0')
        ps_json_text(json, "ps.set", ps_bytes_of_text(facts->set));
    if (has_base(facts))
        ps_json_text(json, PS_HEADER_BASE, ps_bytes_of_text(facts->base));
    if (facts->sessions.size > 0)
        write_checksum(json, PS_HEADER_SESSIONS_CHECKSUM, ps_checksum_crc32c(0, facts->sessions));
}

/* One buffer for all configurations in turn; base64 needs a third more than the bytes. */
static void write_parameters(const struct ps_header_slot *slots, size_t slot_count,
                             const struct ps_allocator *memory, struct ps_buffer *text)
{
    struct ps_buffer config;
    ps_buffer_init(&config, memory, PS_CONFIG_BYTES_MAX * 2);
    struct ps_json_writer json;
    ps_json_writer_init(&json, text);
    ps_json_begin_array(&json, NULL);
    for (size_t i = 0; i < slot_count; i++)
        write_parameter(&json, &slots[i], &config);
    ps_json_end_array(&json);
    /* A configuration without memory would be written empty: worse than no header. */
    text->failed = text->failed || config.failed;
    ps_buffer_fini(&config);
}

/* Element type and count stand in the tensor's own entry and are not repeated here, where they
 * could disagree with it. */
static void write_parameter(struct ps_json_writer *json, const struct ps_header_slot *slot,
                            struct ps_buffer *config)
{
    const struct ps_checkpoint_parameter *parameter = slot->parameter;
    /* A configuration that could not be encoded fails the whole list at its end; nothing more needs
     * to be written. */
    if (config->failed)
        return;
    ps_buffer_clear(config);
    ps_base64_append(config, parameter->config);
    struct ps_bytes config_text = {(const uint8_t *)config->text, config->size};
    PS_ASSERT(parameter->defined.size <= PS_CONFIG_BYTES_MAX);

    ps_json_begin_object(json, NULL);
    ps_json_text(json, "name", parameter->name);
    write_number(json, "id", parameter->id);
    write_number(json, "version", parameter->version);
    write_number(json, "step", parameter->step);
    /* The bytes as the client sent them, in base64: JSON holds no bytes, and only the optimizer
     * reads them. */
    ps_json_text(json, "config", config_text);
    /* Also in the shape of the values, where a reader compares it. The member says that there is a
     * table, since an ordinary parameter may have a shape of two lengths as well. */
    if (parameter->is_table)
        write_number(json, PS_HEADER_WIDTH, parameter->width);
    /* With it or without it a table is the same: rows of older files begin to age at the load. */
    if (parameter->ages.size > 0)
        ps_json_text(json, PS_HEADER_AGES, parameter->ages);
    write_carry(json, parameter);
    /* Values first, then the states in their order, then what a table has besides. */
    ps_json_begin_array(json, "crc32c");
    for (uint32_t array = 0; array < ps_array_carried(parameter); array++)
        write_checksum(json, NULL, slot->crc32c[array]);
    ps_json_end_array(json);
    /* Without tensors there is nothing that a shape could differ from. */
    if (parameter->carry != PS_CARRY_AS_BASE)
        write_whole_shape(json, parameter);
    write_origin(json, parameter, config);
    ps_json_end_object(json);
}

/* Element type and number of states are otherwise learned from the tensors: a parameter that has
 * none needs them for its place among the others, and for comparing it with what the base has. */
static void write_carry(struct ps_json_writer *json,
                        const struct ps_checkpoint_parameter *parameter)
{
    if (parameter->carry == PS_CARRY_WHOLE)
        return;
    bool as_base = parameter->carry == PS_CARRY_AS_BASE;
    ps_json_text(json, PS_HEADER_CARRY,
                 ps_bytes_of_text(as_base ? PS_HEADER_CARRY_AS_BASE : PS_HEADER_CARRY_ROWS));
    if (parameter->removed.size > 0)
        write_number(json, PS_HEADER_REMOVED, parameter->removed.size / sizeof(uint64_t));
    if (!as_base)
        return;
    ps_json_text(json, PS_HEADER_CARRY_DTYPE, ps_bytes_of_text(ps_dtype_label(parameter->dtype)));
    write_number(json, PS_HEADER_CARRY_STATES, parameter->state_count);
}

/* Only of a parameter that was defined while training, or configured since it came: so files of all
 * others are what they always were. */
static void write_origin(struct ps_json_writer *json,
                         const struct ps_checkpoint_parameter *parameter, struct ps_buffer *config)
{
    if (parameter->birth != 0)
        write_number(json, PS_HEADER_BIRTH, parameter->birth);
    if (parameter->defined.data == NULL || ps_bytes_equal(parameter->defined, parameter->config))
        return;
    /* The buffer of the other configuration, which was written by now. */
    ps_buffer_clear(config);
    ps_base64_append(config, parameter->defined);
    ps_json_text(json, PS_HEADER_DEFINED,
                 (struct ps_bytes){(const uint8_t *)config->text, config->size});
}

/* Only where the tensor does not say it: of a range, whose tensor is a part of the shape. Programs
 * that know no shapes pass over the member. */
static void write_whole_shape(struct ps_json_writer *json,
                              const struct ps_checkpoint_parameter *parameter)
{
    const struct ps_shape *shape = &parameter->shape;
    if (!shape->is_given || ps_shape_is_of(shape, parameter->count))
        return;
    ps_json_begin_array(json, PS_HEADER_WHOLE_SHAPE);
    for (uint32_t i = 0; i < shape->rank; i++)
        write_number(json, NULL, shape->lengths[i]);
    ps_json_end_array(json);
}

/* Those of one width, in the order of the slots: the file has all wide ones first. */
static void write_tensors(struct ps_json_writer *json, const struct ps_header_slot *slots,
                          size_t slot_count, bool wide, uint64_t *offset)
{
    for (size_t i = 0; i < slot_count; i++)
        for (uint32_t array = 0; array < ps_array_carried(slots[i].parameter); array++)
            if (ps_array_is_wide(slots[i].parameter, array) == wide)
                write_tensor(json, slots[i].parameter, array, offset);
}

/* The values' own tensor has the parameter's name: that is the array other programs look for. */
static void write_tensor(struct ps_json_writer *json, const struct ps_checkpoint_parameter *about,
                         uint32_t array, uint64_t *offset)
{
    char name[PS_ARRAY_NAME_BYTES];
    (void)ps_array_name(about, array, name);
    struct ps_shape shape = ps_array_shape(about, array);
    enum ps_dtype dtype = ps_array_dtype(about, array);
    write_array(json, name, ps_dtype_label(dtype), &shape, ps_array_elements(about, array),
                ps_dtype_size(dtype), offset);
}

/* One entry of the header as the safetensors format has it, for parameters, states and sessions. */
static void write_array(struct ps_json_writer *json, const char *name, const char *label,
                        const struct ps_shape *shape, uint64_t count, size_t width,
                        uint64_t *offset)
{
    uint64_t end = *offset + count * width;
    ps_json_begin_object(json, name);
    ps_json_text(json, "dtype", ps_bytes_of_text(label));
    ps_shape_json(shape, count, json, "shape");
    ps_json_begin_array(json, "data_offsets");
    ps_json_uint(json, NULL, *offset);
    ps_json_uint(json, NULL, end);
    ps_json_end_array(json);
    ps_json_end_object(json);
    *offset = end;
}

/* As text: metadata holds nothing else, and readers that turn numbers into doubles lose digits. */
static void write_number(struct ps_json_writer *json, const char *key, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    ps_json_text(json, key, ps_bytes_of_text(text));
}

/* Always eight digits: the header must not change its length when the sums become known. */
static void write_checksum(struct ps_json_writer *json, const char *key, uint32_t checksum)
{
    char text[PS_HEADER_CHECKSUM_DIGITS + 1];
    (void)snprintf(text, sizeof text, "%08" PRIx32, checksum);
    ps_json_text(json, key, ps_bytes_of_text(text));
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

/* Wide elements before narrow ones, as their arrays stand in the file; then by name. Writer and
 * reader share this order. */
int ps_header_order(enum ps_dtype a_dtype, struct ps_bytes a_name, enum ps_dtype b_dtype,
                    struct ps_bytes b_name)
{
    size_t a_size = ps_dtype_size(a_dtype);
    size_t b_size = ps_dtype_size(b_dtype);
    if (a_size != b_size)
        return a_size > b_size ? -1 : 1;
    return ps_bytes_compare(a_name, b_name);
}

/* Names under which a parameter would be taken for something of the format's or ours. */
bool ps_header_name_reserved(struct ps_bytes name)
{
    static const char *prefixes[] = {PS_ARRAY_STATE_PREFIX, PS_ARRAY_KEYS_PREFIX,
                                     PS_ARRAY_CLOCK_PREFIX, PS_ARRAY_REMOVED_PREFIX};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (name.size >= strlen(prefixes[i]) &&
            memcmp(name.data, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return ps_bytes_equal(name, ps_bytes_of_text("__metadata__")) ||
           ps_bytes_equal(name, ps_bytes_of_text(PS_HEADER_SESSIONS)) || ps_section_is_name(name);
}

/* Over the whole head, with the digit 0 in the place of each digit of the checksum itself. */
uint32_t ps_header_checksum(struct ps_bytes head)
{
    /* As the head was when it was summed first; neither side has to copy the head to blank the
     * digits. */
    static const uint8_t zeros[PS_HEADER_CHECKSUM_DIGITS] = {'0', '0', '0', '0',
                                                             '0', '0', '0', '0'};
    size_t after = PS_HEADER_CHECKSUM_AT + PS_HEADER_CHECKSUM_DIGITS;
    PS_ASSERT(head.size >= after);
    struct ps_bytes before = {head.data, PS_HEADER_CHECKSUM_AT};
    struct ps_bytes rest = {head.data + after, head.size - after};
    uint32_t checksum = ps_checksum_crc32c(0, before);
    checksum = ps_checksum_crc32c(checksum, (struct ps_bytes){zeros, sizeof zeros});
    return ps_checksum_crc32c(checksum, rest);
}
