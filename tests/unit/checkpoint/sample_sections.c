/* SPDX-License-Identifier: Apache-2.0 */
/* The same few records, given to a writer and compared with what a reader gives. */
#include "sample_sections.h"

#include <check.h>
#include <string.h>

static const uint8_t bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const struct ps_bytes pieces[] = {{bytes, 8}, {NULL, 0}, {bytes + 3, 5}};
static const struct ps_bytes odd[] = {{bytes, 13}};

static const struct {
    enum ps_record_type type;
    const char *name;
    uint64_t version;
    enum ps_dtype dtype;
    struct ps_view content;
} records[PS_CHECKPOINT_SECTION_COUNT][SAMPLE_ROUND_RECORDS] = {
    [PS_CHECKPOINT_ROUNDS] = {{PS_RECORD_ROUND, "w", 7, 0, {odd, 1, 13}},
                              {PS_RECORD_HELD, "w", 7, PS_F64, {pieces, 3, 13}},
                              {PS_RECORD_HELD, "a name of 17 byte", 0, PS_F32, {pieces, 1, 8}},
                              {PS_RECORD_HELD, "w", 7, PS_F64, {NULL, 0, 0}}},
    [PS_CHECKPOINT_CLOCKS] = {{PS_RECORD_CLOCKS, "c", 0, 0, {pieces, 3, 13}},
                              {PS_RECORD_CLOCK, "c", 0, 0, {odd, 1, 13}}},
    [PS_CHECKPOINT_CANDIDATES] = {{PS_RECORD_CANDIDATES, "w", 7, 0, {pieces, 3, 13}}},
};

static void give(void *self, size_t i, struct ps_record *record)
{
    size_t section = *(const size_t *)self;
    ck_assert_uint_lt(i, SAMPLE_ROUND_RECORDS);
    *record = (struct ps_record){.type = records[section][i].type,
                                 .name = ps_bytes_of_text(records[section][i].name),
                                 .version = records[section][i].version,
                                 .dtype = records[section][i].dtype,
                                 .content = records[section][i].content};
}

void sample_sections(struct ps_checkpoint_facts *facts)
{
    static size_t numbers[] = {PS_CHECKPOINT_ROUNDS, PS_CHECKPOINT_CLOCKS,
                               PS_CHECKPOINT_CANDIDATES};
    facts->sections[PS_CHECKPOINT_ROUNDS] =
        (struct ps_checkpoint_records){SAMPLE_ROUND_RECORDS, give, &numbers[PS_CHECKPOINT_ROUNDS]};
    facts->sections[PS_CHECKPOINT_CLOCKS] =
        (struct ps_checkpoint_records){SAMPLE_CLOCK_RECORDS, give, &numbers[PS_CHECKPOINT_CLOCKS]};
    facts->sections[PS_CHECKPOINT_CANDIDATES] = (struct ps_checkpoint_records){
        SAMPLE_CANDIDATE_RECORDS, give, &numbers[PS_CHECKPOINT_CANDIDATES]};
}

static void assert_is(const struct ps_record *found, size_t section, size_t i,
                      const struct ps_checkpoint_facts *facts)
{
    struct ps_record expected;
    uint8_t content[16] = {0};
    give(&section, i, &expected);
    ck_assert_int_eq(found->type, expected.type);
    ck_assert(ps_bytes_equal(found->name, expected.name));
    ck_assert_uint_eq(found->version, expected.version);
    ck_assert_int_eq(found->dtype, expected.dtype);
    ck_assert_uint_eq(found->position, facts->position);
    ck_assert_uint_eq(found->epoch, facts->epoch);
    ck_assert_uint_eq(found->content.size, expected.content.size);
    ck_assert_uint_eq(found->content.piece_count, 1);
    ps_view_copy(expected.content, 0, content, expected.content.size);
    if (expected.content.size > 0)
        ck_assert_mem_eq(found->content.pieces[0].data, content, expected.content.size);
}

static enum ps_status read_section(struct ps_checkpoint_reader *reader, size_t section,
                                   const struct ps_checkpoint_facts *facts, struct ps_error *error)
{
    struct ps_checkpoint_walk walk = {0};
    size_t count = 0;
    for (bool more = true; more; count += more) {
        struct ps_journal_row row = {0};
        PS_TRY(ps_checkpoint_next_record(reader, (enum ps_checkpoint_section)section, &walk, &row,
                                         &more, error));
        if (more)
            assert_is(&row.record, section, count, facts);
        ps_journal_row_release(&row);
    }
    ck_assert_uint_eq(count, facts->sections[section].count);
    return PS_OK;
}

enum ps_status sample_sections_read(const struct ps_checkpoint_facts *facts,
                                    const struct ps_files *files, const char *path,
                                    const struct ps_allocator *memory, struct ps_error *error)
{
    struct ps_checkpoint_reader *reader = NULL;
    PS_TRY(ps_checkpoint_open(files, path, memory, &reader, error));
    enum ps_status status = PS_OK;
    for (size_t section = 0; section < PS_CHECKPOINT_SECTION_COUNT && status == PS_OK; section++)
        status = read_section(reader, section, facts, error);
    ps_checkpoint_close(reader);
    return status;
}
