/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs read the tensors; what only we understand of a parameter stands beside them, in a
 * list that is a text to everybody else. header_entry.c reads it back. */
#include "checkpoint/header_entry_writer.h"

#include "base/assert.h"
#include "base/base64.h"

#include <inttypes.h>
#include <stdio.h>

static void write_parameter(struct ps_json_writer *json, const struct ps_header_slot *slot,
                            struct ps_buffer *config);
static void write_carry(struct ps_json_writer *json,
                        const struct ps_checkpoint_parameter *parameter);
static void write_origin(struct ps_json_writer *json,
                         const struct ps_checkpoint_parameter *parameter, struct ps_buffer *config);
static void write_whole_shape(struct ps_json_writer *json,
                              const struct ps_checkpoint_parameter *parameter);

/* One buffer for all configurations in turn; base64 needs a third more than the bytes. */
void ps_header_write_parameters(const struct ps_header_slot *slots, size_t slot_count,
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
    ps_header_write_number(json, "id", parameter->id);
    ps_header_write_number(json, "version", parameter->version);
    ps_header_write_number(json, "step", parameter->step);
    /* The bytes as the client sent them, in base64: JSON holds no bytes, and only the optimizer
     * reads them. */
    ps_json_text(json, "config", config_text);
    /* Also in the shape of the values, where a reader compares it. The member says that there is a
     * table, since an ordinary parameter may have a shape of two lengths as well. */
    if (parameter->is_table)
        ps_header_write_number(json, PS_HEADER_WIDTH, parameter->width);
    /* With it or without it a table is the same: rows of older files begin to age at the load. */
    if (parameter->ages.size > 0)
        ps_json_text(json, PS_HEADER_AGES, parameter->ages);
    write_carry(json, parameter);
    /* Values first, then the states in their order, then what a table has besides. */
    ps_json_begin_array(json, "crc32c");
    for (uint32_t array = 0; array < ps_array_carried(parameter); array++)
        ps_header_write_sum(json, NULL, slot->crc32c[array]);
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
        ps_header_write_number(json, PS_HEADER_REMOVED, parameter->removed.size / sizeof(uint64_t));
    if (!as_base)
        return;
    ps_json_text(json, PS_HEADER_CARRY_DTYPE, ps_bytes_of_text(ps_dtype_label(parameter->dtype)));
    ps_header_write_number(json, PS_HEADER_CARRY_STATES, parameter->state_count);
}

/* Only of a parameter that was defined while training, or configured since it came: so files of all
 * others are what they always were. */
static void write_origin(struct ps_json_writer *json,
                         const struct ps_checkpoint_parameter *parameter, struct ps_buffer *config)
{
    if (parameter->birth != 0)
        ps_header_write_number(json, PS_HEADER_BIRTH, parameter->birth);
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
        ps_header_write_number(json, NULL, shape->lengths[i]);
    ps_json_end_array(json);
}

/* The values' own tensor has the parameter's name: that is the array other programs look for. */
void ps_header_write_tensor(struct ps_json_writer *json,
                            const struct ps_checkpoint_parameter *about, uint32_t array,
                            uint64_t *offset)
{
    char name[PS_ARRAY_NAME_BYTES];
    (void)ps_array_name(about, array, name);
    struct ps_shape shape = ps_array_shape(about, array);
    enum ps_dtype dtype = ps_array_dtype(about, array);
    ps_header_write_array(json, name, ps_dtype_label(dtype), &shape,
                          ps_array_elements(about, array), ps_dtype_size(dtype), offset);
}

/* One entry of the header as the safetensors format has it, for parameters, states and sessions. */
void ps_header_write_array(struct ps_json_writer *json, const char *name, const char *label,
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

void ps_header_write_number(struct ps_json_writer *json, const char *key, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    ps_json_text(json, key, ps_bytes_of_text(text));
}

void ps_header_write_sum(struct ps_json_writer *json, const char *key, uint32_t checksum)
{
    char text[PS_HEADER_CHECKSUM_DIGITS + 1];
    (void)snprintf(text, sizeof text, "%08" PRIx32, checksum);
    ps_json_text(json, key, ps_bytes_of_text(text));
}
