/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a checkpoint file: as they are, and with length and checksum of the header put
 * right, since no fuzzer guesses those. */
#include "fuzz_target.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/header_writer.h"
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

static void verify(const uint8_t *data, size_t size)
{
    struct memory_files *disk = memory_files_create(1);
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
