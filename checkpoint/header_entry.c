/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of ps.parameters, which is all that a file says of a parameter besides its tensors. As
 * header_reader.c: nothing is believed because another member is right. */
#include "checkpoint/header_pass.h"

#include "base/assert.h"
#include "base/base64.h"
#include "base/utf8.h"
#include "checkpoint/header_format.h"

#include <string.h>

static enum ps_status read_name(struct ps_header_pass *pass, const struct ps_json *entry,
                                struct ps_checkpoint_parameter *about);
static enum ps_status read_config(struct ps_header_pass *pass, const struct ps_json *entry,
                                  const char *key, struct ps_bytes *to);
static enum ps_status read_origin(struct ps_header_pass *pass, const struct ps_json *entry,
                                  struct ps_checkpoint_parameter *about);
static enum ps_status read_width(struct ps_header_pass *pass, const struct ps_json *entry,
                                 struct ps_checkpoint_parameter *about);
static enum ps_status read_ages(struct ps_header_pass *pass, const struct ps_json *entry,
                                struct ps_checkpoint_parameter *about);
static enum ps_status read_checksums(struct ps_header_pass *pass, const struct ps_json *entry,
                                     struct ps_header_parameter *parameter);
static enum ps_status read_carry(struct ps_header_pass *pass, const struct ps_json *entry,
                                 struct ps_header_parameter *parameter);
static enum ps_status read_carried_base(struct ps_header_pass *pass, const struct ps_json *entry,
                                        struct ps_checkpoint_parameter *about);
static enum ps_status read_removed(struct ps_header_pass *pass, const struct ps_json *entry,
                                   struct ps_checkpoint_parameter *about);

/* The number of checksums says how many states there are, which ps_header_read_tensors then demands
 * one by one. */
enum ps_status ps_header_read_entry(struct ps_header_pass *pass, const struct ps_json *entry,
                                    struct ps_header_parameter *parameter)
{
    struct ps_checkpoint_parameter *about = &parameter->about;
    if (!ps_json_is_object(entry))
        return ps_header_corrupt(pass->error, "an entry of ps.parameters is not an object");
    PS_TRY(read_name(pass, entry, about));
    PS_TRY(read_config(pass, entry, "config", &about->config));
    PS_TRY(read_origin(pass, entry, about));
    PS_TRY(read_width(pass, entry, about));
    PS_TRY(read_ages(pass, entry, about));
    PS_TRY(read_carry(pass, entry, parameter));
    PS_TRY(read_checksums(pass, entry, parameter));
    /* The writer has them as texts; ps_json_uint_of would take bare numbers as well. */
    if (!ps_json_uint_of(ps_json_member(entry, "id"), &about->id) ||
        !ps_json_uint_of(ps_json_member(entry, "version"), &about->version) ||
        !ps_json_uint_of(ps_json_member(entry, "step"), &about->step))
        return ps_header_corrupt(pass->error, "a number of ps.parameters is missing or malformed");
    return ps_header_read_whole_shape(pass, entry, parameter);
}

/* The rules of the writer again (checkpoint_writer.c, check_name): a name that could not have been
 * written must not be served. */
static enum ps_status read_name(struct ps_header_pass *pass, const struct ps_json *entry,
                                struct ps_checkpoint_parameter *about)
{
    const char *name = ps_json_string(ps_json_member(entry, "name"));
    size_t size = name != NULL ? strlen(name) : 0;
    if (size == 0 || size > PS_NAME_BYTES_MAX || ps_header_name_reserved(ps_bytes_of_text(name)) ||
        !ps_utf8_valid(ps_bytes_of_text(name)))
        return ps_header_corrupt(pass->error, "a parameter's name is missing or malformed");
    /* The size excludes the NUL, which stands behind the name all the same. */
    about->name = (struct ps_bytes){(const uint8_t *)ps_header_keep_text(pass, name, size), size};
    return PS_OK;
}

/* Decoded straight into the block of texts; the decoded bytes are fewer than the encoded ones, for
 * which there is room. */
static enum ps_status read_config(struct ps_header_pass *pass, const struct ps_json *entry,
                                  const char *key, struct ps_bytes *to)
{
    const char *text = ps_json_string(ps_json_member(entry, key));
    struct ps_bytes encoded = ps_bytes_of_text(text);
    PS_ASSERT(encoded.size <= pass->texts_size - pass->texts_used);
    uint8_t *config = (uint8_t *)pass->header->texts + pass->texts_used;
    size_t size = 0;
    if (text == NULL || encoded.size > ps_base64_encoded_size(PS_CONFIG_BYTES_MAX) ||
        !ps_base64_decode(encoded, config, &size))
        return ps_header_corrupt(pass->error,
                                 "a parameter's configuration is missing or malformed");
    pass->texts_used += size;
    /* Opaque here; the optimizer judges it when the parameter is made. */
    *to = (struct ps_bytes){config, size};
    return PS_OK;
}

/* Absent of a parameter of InitParam that was never configured, and in files of older programs. */
static enum ps_status read_origin(struct ps_header_pass *pass, const struct ps_json *entry,
                                  struct ps_checkpoint_parameter *about)
{
    const struct ps_json *birth = ps_json_member(entry, PS_HEADER_BIRTH);
    /* Of most parameters the two are the same, and the file says one. */
    about->defined = about->config;
    if (birth != NULL && !ps_json_uint_of(birth, &about->birth))
        return ps_header_corrupt(pass->error, "the birth of a parameter is malformed");
    if (ps_json_member(entry, PS_HEADER_DEFINED) == NULL)
        return PS_OK;
    /* Judged with the other when the parameter is made, as one that the other came from. */
    return read_config(pass, entry, PS_HEADER_DEFINED, &about->defined);
}

/* Of tables alone. Whether the width is one that tables may have is asked by whoever makes one. */
static enum ps_status read_width(struct ps_header_pass *pass, const struct ps_json *entry,
                                 struct ps_checkpoint_parameter *about)
{
    const struct ps_json *member = ps_json_member(entry, PS_HEADER_WIDTH);
    uint64_t width = 0;
    if (member == NULL)
        return PS_OK;
    if (!ps_json_uint_of(member, &width) || width == 0 || width > UINT32_MAX)
        return ps_header_corrupt(pass->error, "the width of a table is malformed");
    about->is_table = true;
    about->width = (uint32_t)width;
    return PS_OK;
}

/* Opaque here, as configurations are: who makes the table of it judges the text. Absent of tables
 * whose rows stay, of new ones, and in files of older programs. Of a parameter that has no rows it
 * is refused, since no server could have meant it. */
static enum ps_status read_ages(struct ps_header_pass *pass, const struct ps_json *entry,
                                struct ps_checkpoint_parameter *about)
{
    const struct ps_json *member = ps_json_member(entry, PS_HEADER_AGES);
    const char *text = ps_json_string(member);
    size_t size = text != NULL ? strlen(text) : 0;
    if (member == NULL)
        return PS_OK;
    if (!about->is_table || size == 0 || size > PS_CHECKPOINT_AGES_MAX)
        return ps_header_corrupt(pass->error, "the ages of a table's rows are malformed");
    about->ages = (struct ps_bytes){(const uint8_t *)ps_header_keep_text(pass, text, size), size};
    return PS_OK;
}

/* What it has not of its own it has of the base, so only a file that names one may say so. */
static enum ps_status read_carry(struct ps_header_pass *pass, const struct ps_json *entry,
                                 struct ps_header_parameter *parameter)
{
    const struct ps_json *member = ps_json_member(entry, PS_HEADER_CARRY);
    struct ps_checkpoint_parameter *about = &parameter->about;
    const char *carry = ps_json_string(member);
    if (member == NULL)
        return PS_OK;
    /* In a whole file nobody would look for what is not there. */
    if (carry == NULL || pass->header->facts.base[0] == '\0')
        return ps_header_corrupt(pass->error, "what is carried of a parameter is malformed");
    if (strcmp(carry, PS_HEADER_CARRY_AS_BASE) == 0)
        return read_carried_base(pass, entry, about);
    if (strcmp(carry, PS_HEADER_CARRY_ROWS) != 0 || !about->is_table)
        return ps_header_corrupt(pass->error, "what is carried of a parameter is malformed");
    about->carry = PS_CARRY_ROWS;
    return read_removed(pass, entry, about);
}

/* Without tensors the entry says what they would, to be compared with what the base has. How many
 * elements there are it does not say: of one id that never changes. */
static enum ps_status read_carried_base(struct ps_header_pass *pass, const struct ps_json *entry,
                                        struct ps_checkpoint_parameter *about)
{
    const char *label = ps_json_string(ps_json_member(entry, PS_HEADER_CARRY_DTYPE));
    uint64_t states = 0;
    about->carry = PS_CARRY_AS_BASE;
    /* Of the sort that a tensor has: the place of the parameter among the others depends on it. */
    if (label == NULL || !ps_dtype_from_label(label, &about->dtype))
        return ps_header_corrupt(pass->error, "a parameter of the base has no element type");
    if (!ps_json_uint_of(ps_json_member(entry, PS_HEADER_CARRY_STATES), &states) ||
        states > PS_STATES_MAX)
        return ps_header_corrupt(pass->error, "a parameter of the base has no number of states");
    about->state_count = (uint32_t)states;
    return PS_OK;
}

/* Says how many sums there are, and whether a tensor of keys that went has to be there. */
static enum ps_status read_removed(struct ps_header_pass *pass, const struct ps_json *entry,
                                   struct ps_checkpoint_parameter *about)
{
    const struct ps_json *member = ps_json_member(entry, PS_HEADER_REMOVED);
    uint64_t removed = 0;
    if (member == NULL)
        return PS_OK;
    /* The bound keeps the bytes of the keys within a number; the tensor is compared later. */
    if (!ps_json_uint_of(member, &removed) || removed == 0 ||
        removed > pass->file_bytes / sizeof(uint64_t))
        return ps_header_corrupt(pass->error, "the number of keys that went is malformed");
    about->removed.size = (size_t)removed * sizeof(uint64_t);
    return PS_OK;
}

/* Sums of the values, of each state, of a table's keys and clock, and of the keys that went, in the
 * order of the arrays. */
static enum ps_status read_checksums(struct ps_header_pass *pass, const struct ps_json *entry,
                                     struct ps_header_parameter *parameter)
{
    struct ps_checkpoint_parameter *about = &parameter->about;
    const struct ps_json *list = ps_json_member(entry, "crc32c");
    size_t count = ps_json_count(list);
    /* All of a parameter without states; what a parameter of the base has is said already. */
    size_t least = about->is_table ? 3 : 1;
    least += about->removed.size > 0;
    size_t most = least + PS_STATES_MAX;
    if (about->carry == PS_CARRY_AS_BASE)
        least = most = 0;
    /* The bound keeps the loop within the array of the struct. */
    if (!ps_json_is_array(list) || count < least || count > most)
        return ps_header_corrupt(pass->error, "a parameter's checksums are missing or too many");
    const struct ps_json *sum = ps_json_first(list);
    /* A sum that is null or a number is refused by its NULL text. */
    for (size_t array = 0; array < count; array++, sum = ps_json_next(sum)) {
        if (!ps_header_checksum_of(ps_json_string(sum), &parameter->crc32c[array]))
            return ps_header_corrupt(pass->error, "a parameter's checksum is malformed");
    }
    /* Without sums it has been said before. */
    if (about->carry != PS_CARRY_AS_BASE)
        about->state_count = (uint32_t)(count - least);
    return PS_OK;
}
