/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a checkpoint file: as they are, and with length and checksum of the header put
 * right, since no fuzzer guesses those. Bytes that name a base find one: two parameters, of which
 * one is a table, that never change. */
#include "fuzz_target.h"

#include "checkpoint/array_layout.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/header_format.h"
#include "checkpoint/journal.h"
#include "tests/support/memory_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every record, by a reader that may have been opened over a section of any sort. */
static void read_section(const struct ps_files *files, enum ps_checkpoint_section section)
{
    struct ps_checkpoint_reader *reader = NULL;
    struct ps_checkpoint_walk walk = {0};
    if (ps_checkpoint_open(files, "file", ps_allocator_heap(), &reader, NULL) != PS_OK)
        return;
    for (bool more = true; more;) {
        struct ps_journal_row row = {0};
        enum ps_status status =
            ps_checkpoint_next_record(reader, section, &walk, &row, &more, NULL);
        more = more && status == PS_OK;
        if (status == PS_ERR_BUSY || (more && row.record.content.size > walk.offset))
            abort();
        ps_journal_row_release(&row);
    }
    ps_checkpoint_close(reader);
}

/* The base "u-0" in the folder of the input: "t" with keys 1, 2 and 3 and a width of 2, and "w". */
static void put_base(const struct ps_files *files)
{
    static const uint64_t keys[] = {1, 2, 3};
    static const uint32_t clock[] = {1, 1, 1};
    static const float values[] = {1, 2, 3, 4, 5, 6};
    static const struct ps_bytes pieces[] = {{(const uint8_t *)values, sizeof values},
                                             {(const uint8_t *)keys, sizeof keys},
                                             {(const uint8_t *)clock, sizeof clock},
                                             {(const uint8_t *)values, 8}};
    const struct ps_checkpoint_facts facts = {
        .uuid = "u-0", .shard_count = 2, .epoch = 1, .job = "j"};
    const struct ps_checkpoint_parameter parameters[] = {{.name = ps_bytes_of_text("t"),
                                                          .dtype = PS_F32,
                                                          .count = 6,
                                                          .id = 1,
                                                          .is_table = true,
                                                          .width = 2,
                                                          .rows = 3,
                                                          .values = ps_view_of(&pieces[0]),
                                                          .keys = ps_view_of(&pieces[1]),
                                                          .clock = ps_view_of(&pieces[2])},
                                                         {.name = ps_bytes_of_text("w"),
                                                          .dtype = PS_F32,
                                                          .count = 2,
                                                          .id = 1,
                                                          .values = ps_view_of(&pieces[3])}};
    struct ps_checkpoint_place place;
    if (ps_checkpoint_write(files, ".", &facts, parameters, 2, ps_allocator_heap(), &place, NULL) !=
        PS_OK)
        abort();
}

/* Every array of what was merged, in halves, and its sum. */
static void read_arrays(const struct ps_files *files)
{
    struct ps_checkpoint_reader *reader = NULL;
    if (ps_checkpoint_open(files, "./file", ps_allocator_heap(), &reader, NULL) != PS_OK)
        return;
    for (size_t i = 0; i < ps_checkpoint_parameter_count(reader); i++) {
        const struct ps_checkpoint_parameter *about = ps_checkpoint_parameter(reader, i);
        for (uint32_t array = 0; array < ps_array_count(about); array++) {
            size_t size = (size_t)ps_array_bytes(about, array);
            uint8_t *bytes = malloc(size + 1);
            const struct ps_checkpoint_piece pieces[] = {{bytes, size / 2},
                                                         {bytes + size / 2, size - size / 2}};
            if (bytes == NULL)
                abort();
            enum ps_status status =
                ps_checkpoint_read_array(reader, i, (int32_t)array - 1, pieces, 2, NULL);
            if (status != PS_OK && status != PS_ERR_CORRUPT)
                abort();
            free(bytes);
        }
    }
    ps_checkpoint_close(reader);
}

static void verify(const uint8_t *data, size_t size)
{
    struct memory_files *disk = memory_files_create(1);
    /* Only for those that want it: it takes as long as everything else. */
    if (memmem(data, size, "ps.base", 7) != NULL) {
        put_base(memory_files_files(disk));
        memory_files_put(disk, "./file", (struct ps_bytes){data, size});
        read_arrays(memory_files_files(disk));
    }
    memory_files_put(disk, "file", (struct ps_bytes){data, size});
    struct ps_error error;
    enum ps_status status =
        ps_checkpoint_verify(memory_files_files(disk), "file", ps_allocator_heap(), &error);
    if ((status != PS_OK && status != PS_ERR_CORRUPT) || memory_files_open_count(disk) != 0)
        abort();
    for (size_t section = 0; section < PS_CHECKPOINT_SECTION_COUNT; section++)
        read_section(memory_files_files(disk), (enum ps_checkpoint_section)section);
    memory_files_destroy(disk);
}

/* A stated length that the input has is kept; any other becomes the longest that is aligned. */
static void repair(uint8_t *data, size_t size)
{
    uint64_t length = 0;
    for (size_t i = 0; i < 8; i++)
        length |= (uint64_t)data[i] << (8 * i);
    if (length > size - 8)
        length = size - size % PS_HEADER_ALIGNMENT - 8;
    for (size_t i = 0; i < 8; i++)
        data[i] = (uint8_t)(length >> (8 * i));
    memcpy(data + 8, PS_HEADER_START, sizeof PS_HEADER_START - 1);
    struct ps_bytes head = {data, (size_t)length + 8};
    if (head.size < PS_HEADER_CHECKSUM_AT + PS_HEADER_CHECKSUM_DIGITS)
        return;
    char digits[9];
    (void)snprintf(digits, sizeof digits, "%08" PRIx32, ps_header_checksum(head));
    memcpy(data + PS_HEADER_CHECKSUM_AT, digits, PS_HEADER_CHECKSUM_DIGITS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    verify(data, size);
    if (size < 2 * PS_HEADER_ALIGNMENT)
        return 0;
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    repair(copy, size);
    verify(copy, size);
    free(copy);
    return 0;
}
