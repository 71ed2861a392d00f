/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a checkpoint whose content foreign_reader.py knows, and says where:
 *
 *     write_checkpoint FOLDER COUNT
 *
 * Parameter i of COUNT is called "p<i>", has type i mod 6, i + 1 elements of the value 2 i + 1 and
 * i mod 3 states, whose elements are 1 and 2 more; every fourth has two dimensions. Prints
 * one line: path, CRC-32, bytes. */
#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ARRAYS_MAX (1 + PS_STATES_MAX)

struct content {
    struct ps_checkpoint_parameter *parameters;
    struct ps_bytes *pieces; /* ARRAYS_MAX per parameter */
    char (*names)[24];
    size_t count;
};

static bool content_init(struct content *content, size_t count);
static bool fill_parameter(struct content *content, size_t i);
static void *filled_array(enum ps_dtype dtype, size_t count, size_t value);
static void content_fini(struct content *content);

int main(int argc, char **argv)
{
    struct ps_checkpoint_facts facts = {.uuid = "0f47ac10-58cc-4372-a567-0e02b2c3d479",
                                        .index = 1,
                                        .shard_count = 3,
                                        .epoch = 7,
                                        .position = 9007199254740993,
                                        .unix_ns = 1799999999123456789,
                                        .job = "demo \"job\" ö",
                                        .sessions = ps_bytes_of_text("remembered")};
    struct ps_checkpoint_place place;
    struct ps_error error = {0};
    struct content content;
    if (argc != 3)
        return 2;
    if (!content_init(&content, strtoul(argv[2], NULL, 10)))
        return 3;
    enum ps_status status =
        ps_checkpoint_write(ps_files_real(), argv[1], &facts, content.parameters, content.count,
                            ps_allocator_heap(), &place, &error);
    if (status == PS_OK)
        printf("%s %" PRIu32 " %" PRIu64 "\n", place.path, place.crc32, place.bytes);
    else
        (void)fprintf(stderr, "%s\n", error.text);
    content_fini(&content);
    return status == PS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool content_init(struct content *content, size_t count)
{
    *content = (struct content){.count = count};
    content->parameters = calloc(count + 1, sizeof *content->parameters);
    content->pieces = calloc((count + 1) * ARRAYS_MAX, sizeof *content->pieces);
    content->names = calloc(count + 1, sizeof *content->names);
    bool filled = content->parameters != NULL && content->pieces != NULL && content->names != NULL;
    for (size_t i = 0; i < count && filled; i++)
        filled = fill_parameter(content, i);
    return filled;
}

static bool fill_parameter(struct content *content, size_t i)
{
    struct ps_checkpoint_parameter *parameter = &content->parameters[i];
    (void)snprintf(content->names[i], sizeof content->names[i], "p%zu", i);
    parameter->name = ps_bytes_of_text(content->names[i]);
    parameter->dtype = (enum ps_dtype)(i % PS_DTYPE_COUNT);
    parameter->count = i + 1;
    if (parameter->count % 4 == 0)
        parameter->shape =
            (struct ps_shape){.is_given = true, .rank = 2, .lengths = {2, parameter->count / 2}};
    parameter->config = ps_bytes_of_text("config");
    parameter->id = i;
    parameter->version = 10 + i;
    parameter->step = 20 + i;
    parameter->state_count = (uint32_t)(i % ARRAYS_MAX);
    for (uint32_t array = 0; array <= parameter->state_count; array++) {
        struct ps_bytes *piece = &content->pieces[i * ARRAYS_MAX + array];
        piece->data = filled_array(parameter->dtype, i + 1, 2 * i + 1 + array);
        piece->size = (i + 1) * ps_dtype_size(parameter->dtype);
        struct ps_view view = ps_view_of(piece);
        if (piece->data == NULL)
            return false;
        if (array == 0)
            parameter->values = view;
        else
            parameter->states[array - 1] = view;
    }
    return true;
}

static void *filled_array(enum ps_dtype dtype, size_t count, size_t value)
{
    void *elements = calloc(count, ps_dtype_size(dtype));
    for (size_t k = 0; k < count && elements != NULL; k++) {
        switch (dtype) {
#define SET(TAG, suffix, T, SUM, label) \
    case TAG:                           \
        ((T *)elements)[k] = (T)value;  \
        break;
            PS_DTYPE_TABLE(SET)
#undef SET
        case PS_DTYPE_COUNT:
            break;
        }
    }
    return elements;
}

static void content_fini(struct content *content)
{
    for (size_t i = 0; i < content->count * ARRAYS_MAX; i++)
        free((void *)(uintptr_t)content->pieces[i].data);
    free(content->parameters);
    free(content->pieces);
    free(content->names);
}
