/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a checkpoint whose content foreign_reader.py knows, and says where:
 *
 *     write_checkpoint FOLDER COUNT [sections|tables]
 *
 * Parameter i of COUNT is called "p<i>", has type i mod 6, i + 1 elements of the value 2 i + 1 and
 * i mod 3 states, whose elements are 1 and 2 more; every fourth has two dimensions. With "sections"
 * worker 2 has contributed to p0, with weight 1.5, worker 5 of 9 is evicted there, and the clocks
 * "main" of 2 workers are set, of which the second is at 77. With "tables" every odd parameter is
 * a table of as many rows of 3 elements, but p1 of none; its first state has one element for a row,
 * row r has the key 1000 r and the clock 5 + r, and its rows have ages. Prints one line: path,
 * CRC-32, bytes. */
#include "checkpoint/array_layout.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_candidates.h"
#include "checkpoint/journal_clocks.h"
#include "checkpoint/journal_held.h"
#include "checkpoint/journal_round.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAYS_MAX PS_CHECKPOINT_ARRAYS_MAX
#define TABLE_WIDTH 3

struct content {
    struct ps_checkpoint_parameter *parameters;
    struct ps_bytes *pieces; /* ARRAYS_MAX per parameter */
    char (*names)[24];
    size_t count;
    bool has_tables;
};

/* Two records for each section. */
struct sections {
    struct ps_record records[PS_CHECKPOINT_SECTION_COUNT][2];
    struct ps_bytes pieces[PS_CHECKPOINT_SECTION_COUNT][2];
    uint8_t bytes[PS_CHECKPOINT_SECTION_COUNT][2][PS_ROUND_RECORD_BYTES_MAX];
};

static void sections_init(struct sections *sections, struct ps_checkpoint_facts *facts);
static void give(void *self, size_t i, struct ps_record *record);
static bool content_init(struct content *content, size_t count, bool has_tables);
static bool fill_parameter(struct content *content, size_t i);
static void make_table(struct ps_checkpoint_parameter *parameter, size_t rows);
static void *row_numbers(enum ps_dtype dtype, size_t rows);
static void *filled_array(enum ps_dtype dtype, size_t count, size_t value);
static void content_fini(struct content *content);

int main(int argc, char **argv)
{
    struct ps_checkpoint_facts facts = {
        .uuid = "0f47ac10-58cc-4372-a567-0e02b2c3d479",
        .index = 1,
        .shard_count = 3,
        .epoch = 7,
        .position = 9007199254740993,
        .unix_ns = 1799999999123456789,
        .history = {{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x7c, 0xde, 0x8f, 0x01, 0x23, 0x45, 0x67,
                     0x89, 0xab, 0xcd}},
        .job = "demo \"job\" ö",
        .sessions = ps_bytes_of_text("remembered")};
    struct ps_checkpoint_place place;
    struct ps_error error = {0};
    struct content content;
    struct sections sections;
    if (argc != 3 && argc != 4)
        return 2;
    bool has_tables = argc == 4 && strcmp(argv[3], "tables") == 0;
    if (argc == 4 && !has_tables)
        sections_init(&sections, &facts);
    if (!content_init(&content, strtoul(argv[2], NULL, 10), has_tables))
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

/* Keys, counts and versions of two candidates, as a record has them: twice, for two records. */
static struct ps_bytes two_candidates(uint8_t *bytes, uint64_t first)
{
    const uint64_t keys[] = {first, UINT64_MAX - first};
    const uint32_t counts_and_versions[] = {1, 2, 30, 40};
    memcpy(bytes, keys, sizeof keys);
    memcpy(bytes + PS_CANDIDATES_COUNTS_AT(2), counts_and_versions, sizeof counts_and_versions);
    return (struct ps_bytes){bytes, 2 * PS_CANDIDATE_BYTES};
}

static void sections_init(struct sections *sections, struct ps_checkpoint_facts *facts)
{
    static const char *const names[] = {"p0", "main", "p1"};
    static const enum ps_record_type types[][2] = {{PS_RECORD_ROUND, PS_RECORD_HELD},
                                                   {PS_RECORD_CLOCKS, PS_RECORD_CLOCK},
                                                   {PS_RECORD_CANDIDATES, PS_RECORD_CANDIDATES}};
    _Static_assert(sizeof names / sizeof names[0] == PS_CHECKPOINT_SECTION_COUNT,
                   "records for each section");
    static const uint8_t nobody[2] = {0};
    static const uint8_t fifth[2] = {1u << 5};
    *sections = (struct sections){0};
    struct ps_bytes(*pieces)[2] = sections->pieces;
    uint8_t(*bytes)[2][PS_ROUND_RECORD_BYTES_MAX] = sections->bytes;
    size_t size = ps_round_record_write(&(struct ps_round_record){9, nobody, fifth}, bytes[0][0]);
    pieces[0][0] = (struct ps_bytes){bytes[0][0], size};
    ps_held_head_write(&(struct ps_held_head){2, 1.5f}, bytes[0][1]);
    memcpy(bytes[0][1] + PS_HELD_HEAD_BYTES, "grad", 4);
    pieces[0][1] = (struct ps_bytes){bytes[0][1], PS_HELD_HEAD_BYTES + 4};
    ps_clocks_record_write(
        &(struct ps_clocks_record){
            .workers = 2, .consistency = 1, .staleness = 3, .straggler = 1, .ttl_ms = 30000},
        bytes[1][0]);
    pieces[1][0] = (struct ps_bytes){bytes[1][0], PS_CLOCKS_RECORD_BYTES};
    ps_clock_record_write(&(struct ps_clock_record){1, false, 77}, bytes[1][1]);
    pieces[1][1] = (struct ps_bytes){bytes[1][1], PS_CLOCK_RECORD_BYTES};
    for (size_t j = 0; j < 2; j++)
        pieces[2][j] = two_candidates(bytes[2][j], 5 + j);
    for (size_t i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++) {
        for (size_t j = 0; j < 2; j++)
            sections->records[i][j] =
                (struct ps_record){.type = types[i][j],
                                   .name = ps_bytes_of_text(names[i]),
                                   .version = i == PS_CHECKPOINT_CLOCKS ? 0 : 10,
                                   .content = ps_view_of(&pieces[i][j])};
        facts->sections[i] = (struct ps_checkpoint_records){2, give, sections->records[i]};
    }
}

static void give(void *self, size_t i, struct ps_record *record)
{
    *record = ((const struct ps_record *)self)[i];
}

static bool content_init(struct content *content, size_t count, bool has_tables)
{
    *content = (struct content){.count = count, .has_tables = has_tables};
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
    parameter->state_count = (uint32_t)(i % (1 + PS_STATES_MAX));
    if (content->has_tables && i % 2 == 1)
        make_table(parameter, i == 1 ? 0 : i + 1);
    for (uint32_t array = 0; array < ps_array_count(parameter); array++) {
        struct ps_bytes *piece = &content->pieces[i * ARRAYS_MAX + array];
        enum ps_dtype dtype = ps_array_dtype(parameter, array);
        size_t elements = (size_t)ps_array_elements(parameter, array);
        bool is_of_rows = array > parameter->state_count;
        piece->data = is_of_rows ? row_numbers(dtype, elements)
                                 : filled_array(dtype, elements, 2 * i + 1 + array);
        piece->size = (size_t)ps_array_bytes(parameter, array);
        if (piece->data == NULL)
            return false;
        ps_array_set_view(parameter, array, ps_view_of(piece));
    }
    return true;
}

static void make_table(struct ps_checkpoint_parameter *parameter, size_t rows)
{
    parameter->is_table = true;
    parameter->state_is_one[0] = true;
    parameter->width = TABLE_WIDTH;
    parameter->rows = rows;
    parameter->count = rows * TABLE_WIDTH;
    parameter->shape = (struct ps_shape){0};
    if (rows > 0)
        parameter->ages = ps_bytes_of_text("due 2 time 61000 3 59000 9 clocks 5 3 6 9");
}

/* Keys, which are of 8 bytes, or clocks. */
static void *row_numbers(enum ps_dtype dtype, size_t rows)
{
    void *numbers = calloc(rows + 1, ps_dtype_size(dtype));
    for (size_t row = 0; row < rows && numbers != NULL; row++) {
        if (dtype == PS_U64)
            ((uint64_t *)numbers)[row] = 1000 * row;
        else
            ((uint32_t *)numbers)[row] = (uint32_t)(5 + row);
    }
    return numbers;
}

static void *filled_array(enum ps_dtype dtype, size_t count, size_t value)
{
    void *elements = calloc(count + 1, ps_dtype_size(dtype));
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
