/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON header of a checkpoint file to facts and parameters, believing nothing.
 *
 * The order of the checks is what makes this safe. The stated length is compared with the file
 * before memory is taken; the checksum is compared before anything is parsed; every number is
 * compared with what it is about before it is used; and at the end the arrays must fill the file
 * exactly. A file with a right checksum may still be wrong, or have been made to be: no check
 * relies on another's being superfluous.
 *
 * All texts (job, names, configurations) are copied into one block of the header's size, which is
 * always enough: decoded, a text is shorter than it was in JSON with its quotes. */
#include "checkpoint/header_reader.h"

#include "base/assert.h"
#include "checkpoint/checkpoint_name.h"
#include "checkpoint/header_format.h"
#include "checkpoint/header_pass.h"
#include "checkpoint/section.h"
#include "json/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* No parameter takes fewer bytes in a header: its tensor's entry and its entry in ps.parameters. So
 * the memory for parameters is bounded by the header that describes them. */
#define PARAMETER_BYTES_MIN 100

static enum ps_status read_document(struct ps_header_pass *pass, const struct ps_json *document);
static enum ps_status read_facts(struct ps_header_pass *pass, const struct ps_json *metadata);
static enum ps_status read_parameters(struct ps_header_pass *pass, const struct ps_json *metadata);
static enum ps_status read_list(struct ps_header_pass *pass, const struct ps_json *list,
                                size_t text_size);
static enum ps_status read_sessions_checksum(struct ps_header_pass *pass,
                                             const struct ps_json *metadata);
static enum ps_status read_section_checksums(struct ps_header_pass *pass,
                                             const struct ps_json *metadata,
                                             bool has[PS_CHECKPOINT_SECTION_COUNT]);
static enum ps_status check_order(const struct ps_header *header, struct ps_error *error);
static const char *metadata_text(const struct ps_json *metadata, const char *key);
static bool metadata_number(const struct ps_json *metadata, const char *key, uint64_t *number);
static enum ps_status init(struct ps_header *header, struct ps_bytes head, uint64_t file_bytes,
                           bool is_cut, const struct ps_allocator *memory, struct ps_error *error);

/* The first thing that is read of a file, and the only one that is used without a checksum: it says
 * how much to read for verifying one. */
enum ps_status ps_header_length(struct ps_bytes first, uint64_t file_bytes, size_t *length,
                                struct ps_error *error)
{
    PS_ASSERT(length != NULL);
    if (first.size != PS_HEADER_LENGTH_BYTES || file_bytes < PS_HEADER_LENGTH_BYTES)
        return ps_header_corrupt(error, "the file is shorter than the length of a header");
    uint64_t stated = 0;
    for (size_t i = 0; i < PS_HEADER_LENGTH_BYTES; i++)
        stated |= (uint64_t)first.data[i] << (8 * i);
    /* An absolute limit besides the file's size: a file of a terabyte must not have a header of
     * one. */
    if (stated > PS_HEADER_BYTES_MAX)
        return ps_header_corrupt(error, "the header's length is beyond every limit");
    if (stated > file_bytes - PS_HEADER_LENGTH_BYTES)
        return ps_header_corrupt(error, "the file ends within its header");
    *length = (size_t)stated;
    return PS_OK;
}

/* What a file may say that it was: the sums of its arrays stay far from wrapping. Nothing is asked
 * for by it: whoever takes memory for an array does so when he reads it, and bytes that are not
 * there are damage of that array alone. */
#define CUT_BYTES_MAX (UINT64_C(1) << 46)

enum ps_status ps_header_init(struct ps_header *header, struct ps_bytes head, uint64_t file_bytes,
                              const struct ps_allocator *memory, struct ps_error *error)
{
    return init(header, head, file_bytes, false, memory, error);
}

enum ps_status ps_header_init_cut(struct ps_header *header, struct ps_bytes head,
                                  const struct ps_allocator *memory, struct ps_error *error)
{
    return init(header, head, CUT_BYTES_MAX, true, memory, error);
}

static enum ps_status init(struct ps_header *header, struct ps_bytes head, uint64_t file_bytes,
                           bool is_cut, const struct ps_allocator *memory, struct ps_error *error)
{
    PS_ASSERT(header != NULL && memory != NULL);
    PS_ASSERT(head.size >= PS_HEADER_LENGTH_BYTES && head.size <= file_bytes);
    *header = (struct ps_header){.memory = memory};
    PS_TRY(ps_header_verify(head, error));
    struct ps_header_pass pass = {.header = header,
                                  .texts_size = head.size,
                                  .offset = head.size,
                                  .file_bytes = file_bytes,
                                  .is_cut = is_cut,
                                  .error = error};
    /* Taken before parsing, as one block that never grows: texts that were handed out stay where
     * they are. */
    header->texts = ps_plain(memory, head.size);
    if (header->texts == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "checkpoint: no memory for a header");

    struct ps_json *document = NULL;
    struct ps_bytes json = {head.data + PS_HEADER_LENGTH_BYTES, head.size - PS_HEADER_LENGTH_BYTES};
    enum ps_status status = ps_json_parse(json, PS_HEADER_BYTES_MAX, &document, error);
    if (status == PS_ERR_BAD_INPUT)
        status = ps_header_corrupt(error, "the header is not JSON");
    if (status == PS_OK)
        status = read_document(&pass, document);
    /* Nothing of the document is kept: every text was copied, every number read. */
    ps_json_destroy(document);
    if (status != PS_OK)
        ps_header_fini(header);
    return status;
}

void ps_header_fini(struct ps_header *header)
{
    if (header == NULL || header->memory == NULL)
        return;
    ps_release(header->memory, header->parameters);
    ps_release(header->memory, header->texts);
    *header = (struct ps_header){.memory = header->memory};
}

/* The checksum stands at a fixed place, so that it is verified before anything is parsed: cJSON
 * never sees bytes that a disk has changed. */
enum ps_status ps_header_verify(struct ps_bytes head, struct ps_error *error)
{
    size_t after = PS_HEADER_CHECKSUM_AT + PS_HEADER_CHECKSUM_DIGITS;
    /* Any other safetensors file is turned away here, by its first bytes. */
    if (head.size < after || memcmp(head.data + PS_HEADER_LENGTH_BYTES, PS_HEADER_START,
                                    sizeof PS_HEADER_START - 1) != 0)
        return ps_header_corrupt(error, "the header does not begin like one of this system");
    char digits[PS_HEADER_CHECKSUM_DIGITS + 1] = {0};
    memcpy(digits, head.data + PS_HEADER_CHECKSUM_AT, PS_HEADER_CHECKSUM_DIGITS);
    uint32_t stated = 0;
    if (!ps_header_checksum_of(digits, &stated) || stated != ps_header_checksum(head))
        return ps_header_corrupt(error, "the header's checksum differs");
    /* The writer pads; an unpadded header would leave every array misaligned. */
    if (head.size % PS_HEADER_ALIGNMENT != 0)
        return ps_header_corrupt(error, "the header is not padded");
    return PS_OK;
}

/* Metadata first, then tensors in the order of the parameters; `pass->tensor` walks along. What is
 * left over at the end, of tensors or of bytes, is as wrong as what is missing: a reader of another
 * program would see arrays that this one does not know. */
static enum ps_status read_document(struct ps_header_pass *pass, const struct ps_json *document)
{
    const struct ps_json *metadata = ps_json_first(document);
    if (!ps_json_is_object(document) || !ps_json_is_object(metadata))
        return ps_header_corrupt(pass->error, "the header is not an object with metadata");
    /* The sums are members of the metadata, which come first; the tensors come last. */
    bool has[PS_CHECKPOINT_SECTION_COUNT] = {false};
    pass->tensor = ps_json_next(metadata);
    PS_TRY(read_facts(pass, metadata));
    PS_TRY(read_sessions_checksum(pass, metadata));
    PS_TRY(read_section_checksums(pass, metadata, has));
    PS_TRY(read_parameters(pass, metadata));
    PS_TRY(ps_header_read_sessions(pass));
    PS_TRY(ps_header_read_sections(pass, has));
    if (pass->tensor != NULL)
        return ps_header_corrupt(pass->error, "the header has a tensor that no parameter owns");
    if (pass->offset != pass->file_bytes && !pass->is_cut)
        return ps_header_corrupt(pass->error, "the file is longer or shorter than its arrays");
    return check_order(pass->header, pass->error);
}

/* All that were ever written. */
static bool is_known(const char *format)
{
    static const char *const known[] = {PS_HEADER_FORMAT, PS_HEADER_FORMAT_SHAPES,
                                        PS_HEADER_FORMAT_SECTIONS, PS_HEADER_FORMAT_ON_BASE,
                                        PS_HEADER_FORMAT_CANDIDATES};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(format, known[i]) == 0)
            return true;
    return false;
}

/* A format of a later version is named in the message, because there the remedy is a newer program
 * and not an older file. */
static enum ps_status read_facts(struct ps_header_pass *pass, const struct ps_json *metadata)
{
    struct ps_checkpoint_facts *facts = &pass->header->facts;
    const char *format = metadata_text(metadata, "ps.format");
    if (format == NULL)
        return ps_header_corrupt(pass->error, "the header has no ps.format");
    if (!is_known(format))
        return ps_fail(pass->error, PS_ERR_CORRUPT,
                       PS_CHECKPOINT_CORRUPT "format %.20s is unknown to this version", format);

    /* The uuid becomes a part of file names again (recovery names what it found), so its form is
     * checked. */
    const char *uuid = metadata_text(metadata, "ps.uuid");
    if (uuid == NULL || !ps_checkpoint_uuid_valid(uuid))
        return ps_header_corrupt(pass->error, "ps.uuid is missing or malformed");
    memcpy(facts->uuid, uuid, strlen(uuid) + 1);
    const char *job = metadata_text(metadata, "ps.job");
    if (job == NULL)
        return ps_header_corrupt(pass->error, "ps.job is missing or malformed");
    facts->job = ps_header_keep_text(pass, job, strlen(job));
    /* Older files have none, and so have those that no set was asked for. */
    const char *set = metadata_text(metadata, "ps.set");
    facts->set = set != NULL ? ps_header_keep_text(pass, set, strlen(set)) : "";

    /* It becomes a part of a file name as well. The format and the member say the same, so that a
     * program that knows formats alone is right; the fifth is of both kinds of files. */
    const char *base = metadata_text(metadata, PS_HEADER_BASE);
    bool is_either = strcmp(format, PS_HEADER_FORMAT_CANDIDATES) == 0;
    bool wants_base = strcmp(format, PS_HEADER_FORMAT_ON_BASE) == 0;
    if ((!is_either && (base != NULL) != wants_base) ||
        (base != NULL && !ps_checkpoint_uuid_valid(base)))
        return ps_header_corrupt(pass->error, "ps.base is missing or malformed");
    facts->base = base != NULL ? ps_header_keep_text(pass, base, strlen(base)) : "";

    uint64_t index = 0;
    uint64_t shard_count = 0;
    bool whole = metadata_number(metadata, "ps.index", &index) &&
                 metadata_number(metadata, "ps.shard_count", &shard_count) &&
                 metadata_number(metadata, "ps.epoch", &facts->epoch) &&
                 metadata_number(metadata, "ps.position", &facts->position) &&
                 metadata_number(metadata, "ps.unix_ns", &facts->unix_ns);
    /* Files of before there was a choice do not have it. */
    if (ps_json_member(metadata, PS_HEADER_PLACEMENT) != NULL)
        whole = whole && metadata_number(metadata, PS_HEADER_PLACEMENT, &facts->placement);
    /* And one that is no history must not pass for none, which fits everything: whoever has changed
     * it could then have the file loaded among those of any shard. */
    if (ps_json_member(metadata, PS_HEADER_HISTORY) != NULL &&
        !ps_history_read(metadata_text(metadata, PS_HEADER_HISTORY), &facts->history))
        return ps_header_corrupt(pass->error, "ps.history is malformed");
    /* Whether index and shard count are those of this server is for the caller to judge: psckpt
     * reads files of any shard. */
    if (!whole || index > UINT32_MAX || shard_count > UINT32_MAX)
        return ps_header_corrupt(pass->error, "a number of the metadata is missing or malformed");
    facts->index = (uint32_t)index;
    facts->shard_count = (uint32_t)shard_count;
    return PS_OK;
}

/* The parameters are described by a second document, held as text in the first: metadata of a
 * safetensors file may hold nothing but texts. */
static enum ps_status read_parameters(struct ps_header_pass *pass, const struct ps_json *metadata)
{
    const char *text = metadata_text(metadata, "ps.parameters");
    if (text == NULL)
        return ps_header_corrupt(pass->error, "ps.parameters is missing or no text");
    struct ps_bytes bytes = ps_bytes_of_text(text);
    struct ps_json *list = NULL;
    enum ps_status status = ps_json_parse(bytes, PS_HEADER_BYTES_MAX, &list, pass->error);
    if (status == PS_ERR_BAD_INPUT)
        status = ps_header_corrupt(pass->error, "ps.parameters is not JSON");
    if (status == PS_OK)
        status = read_list(pass, list, bytes.size);
    ps_json_destroy(list);
    return status;
}

static enum ps_status read_list(struct ps_header_pass *pass, const struct ps_json *list,
                                size_t text_size)
{
    struct ps_header *header = pass->header;
    if (!ps_json_is_array(list))
        return ps_header_corrupt(pass->error, "ps.parameters is not an array");
    /* The count decides about an allocation, so it is compared with the size of the texts that it
     * was counted in: each entry takes a hundred bytes at least. */
    size_t count = ps_json_count(list);
    if (count > (pass->texts_size + text_size) / PARAMETER_BYTES_MIN)
        return ps_header_corrupt(pass->error, "ps.parameters has more entries than can be whole");
    header->parameters = ps_zeroed_array(header->memory, count, sizeof *header->parameters);
    if (header->parameters == NULL)
        return ps_fail(pass->error, PS_ERR_NO_MEMORY, "checkpoint: no memory for %zu parameters",
                       count);
    /* Walked along and not indexed: each look-up by index would walk from the first. */
    const struct ps_json *entry = ps_json_first(list);
    for (; entry != NULL; entry = ps_json_next(entry)) {
        /* ps_json_count counted the same list. */
        PS_ASSERT(header->count < count);
        PS_TRY(ps_header_read_entry(pass, entry, &header->parameters[header->count]));
        /* Counted after it was read, so that a failure in the middle leaves only whole entries. */
        header->count++;
    }
    return ps_header_read_tensors(pass);
}

/* Without a checksum there are no sessions. */
static enum ps_status read_sessions_checksum(struct ps_header_pass *pass,
                                             const struct ps_json *metadata)
{
    struct ps_header *header = pass->header;
    const char *text = metadata_text(metadata, PS_HEADER_SESSIONS_CHECKSUM);
    header->has_sessions = ps_json_member(metadata, PS_HEADER_SESSIONS_CHECKSUM) != NULL;
    if (header->has_sessions && !ps_header_checksum_of(text, &header->sessions_crc32c))
        return ps_header_corrupt(pass->error, "the checksum of the sessions is malformed");
    return PS_OK;
}

/* As for the sessions: the sum decides whether the tensor has to be there. Whether the file says
 * format 3 is not compared, since a tensor that nobody announced is refused anyway. */
static enum ps_status read_section_checksums(struct ps_header_pass *pass,
                                             const struct ps_json *metadata,
                                             bool has[PS_CHECKPOINT_SECTION_COUNT])
{
    for (enum ps_checkpoint_section i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++) {
        const char *key = ps_section_checksum_key(i);
        has[i] = ps_json_member(metadata, key) != NULL;
        if (has[i] &&
            !ps_header_checksum_of(metadata_text(metadata, key), &pass->header->sections[i].crc32c))
            return ps_fail(pass->error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "%s is malformed",
                           key);
    }
    return PS_OK;
}

/* Parameters stand in their order, so that no name can be there twice: not within the wide ones,
 * not within the narrow ones (both strictly rising), and not in both, which a merge of the two runs
 * shows. Sorting or hashing would need memory in proportion to a number out of the file. */
static enum ps_status check_order(const struct ps_header *header, struct ps_error *error)
{
    size_t wide = 0;
    for (size_t i = 0; i < header->count; i++) {
        const struct ps_checkpoint_parameter *about = &header->parameters[i].about;
        wide += ps_dtype_size(about->dtype) == 8;
        if (i == 0)
            continue;
        const struct ps_checkpoint_parameter *before = &header->parameters[i - 1].about;
        if (ps_header_order(before->dtype, before->name, about->dtype, about->name) >= 0)
            return ps_header_corrupt(error, "parameters are out of order");
    }
    /* Both runs are sorted by name, so one walk along both finds a name that is in either. */
    size_t narrow = wide;
    for (size_t i = 0; i < wide && narrow < header->count;) {
        int order = ps_bytes_compare(header->parameters[i].about.name,
                                     header->parameters[narrow].about.name);
        if (order == 0)
            return ps_header_corrupt(error, "a parameter is there twice");
        i += order < 0;
        narrow += order > 0;
    }
    return PS_OK;
}

/* The text under `key`, when it is there exactly once. Of two members with one name cJSON gives the
 * first, other readers the last; a file that reads differently elsewhere is refused. */
static const char *metadata_text(const struct ps_json *metadata, const char *key)
{
    const struct ps_json *found = NULL;
    const struct ps_json *member = ps_json_first(metadata);
    for (; member != NULL; member = ps_json_next(member)) {
        const char *name = ps_json_key(member);
        if (name == NULL || strcmp(name, key) != 0)
            continue;
        if (found != NULL)
            return NULL;
        found = member;
    }
    return ps_json_string(found);
}

/* As text, exact to all 64 bits; a bare number is refused, since the format knows none here. */
static bool metadata_number(const struct ps_json *metadata, const char *key, uint64_t *number)
{
    const char *text = metadata_text(metadata, key);
    if (text == NULL)
        return false;
    return ps_json_uint_of(ps_json_member(metadata, key), number);
}

/* Eight lower-case hexadecimal digits, one form for each checksum. */
bool ps_header_checksum_of(const char *text, uint32_t *checksum)
{
    static const char digits[] = "0123456789abcdef";
    if (text == NULL || strlen(text) != PS_HEADER_CHECKSUM_DIGITS)
        return false;
    uint32_t value = 0;
    for (size_t i = 0; i < PS_HEADER_CHECKSUM_DIGITS; i++) {
        const char *digit = strchr(digits, text[i]);
        if (digit == NULL)
            return false;
        value = value << 4 | (uint32_t)(digit - digits);
    }
    *checksum = value;
    return true;
}

/* Copies a text behind the ones before it, with a NUL. Decoded texts are never longer than the
 * header that they were read from, quotes included, so there is always room. */
char *ps_header_keep_text(struct ps_header_pass *pass, const char *text, size_t size)
{
    PS_ASSERT(size < pass->texts_size - pass->texts_used);
    char *kept = pass->header->texts + pass->texts_used;
    memcpy(kept, text, size);
    kept[size] = '\0';
    pass->texts_used += size + 1;
    return kept;
}

enum ps_status ps_header_corrupt(struct ps_error *error, const char *reason)
{
    return ps_fail(error, PS_ERR_CORRUPT, PS_CHECKPOINT_CORRUPT "%s", reason);
}
