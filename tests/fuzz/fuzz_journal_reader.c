/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a journal of up to three segments and two epochs: as they are, and with the
 * checksums put right, since no fuzzer guesses those: in the format that a head says, with the salt
 * of the first record before it.
 *
 * The first six bytes say where the second and the third segment begin: in the rest, counted in
 * units of 8 bytes, two bytes each; and with which positions, one byte each, 0 for no segment. */
#include "fuzz_target.h"

#include "checkpoint/checksum.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_record.h"
#include "checkpoint/journal_segments.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <stdlib.h>
#include <string.h>

#define STEERING_BYTES 6

static void put_segment(struct memory_files *disk, struct ps_journal_segment segment,
                        struct ps_bytes content)
{
    char path[PS_JOURNAL_PATH_BYTES];
    if (ps_journal_path_write("j", segment, path, NULL) != PS_OK)
        abort();
    memory_files_put(disk, path, content);
}

static struct memory_files *make_disk(const uint8_t *data, size_t size)
{
    struct memory_files *disk = memory_files_create(1);
    const uint8_t *bytes = data + STEERING_BYTES;
    size -= STEERING_BYTES;
    size_t second = (data[0] + 256u * data[1]) * PS_JOURNAL_ALIGNMENT;
    size_t third = (data[2] + 256u * data[3]) * PS_JOURNAL_ALIGNMENT;
    second = second < size ? second : size;
    third = third < size ? third : size;
    third = third > second ? third : second;
    put_segment(disk, (struct ps_journal_segment){7, 1}, (struct ps_bytes){bytes, second});
    if (data[4] != 0)
        put_segment(disk, (struct ps_journal_segment){7, data[4]},
                    (struct ps_bytes){bytes + second, third - second});
    if (data[5] != 0)
        put_segment(disk, (struct ps_journal_segment){9, data[5]},
                    (struct ps_bytes){bytes + third, size - third});
    return disk;
}

/* Positions rise by one, the end stays the end, and nothing is left behind. No end comes before
 * what was noted. */
static void read_all(const struct ps_files *files, uint64_t position, uint64_t noted)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_journal_reader *reader = NULL;
    enum ps_status status =
        ps_journal_reader_open(files, "j", position, UINT64_MAX, &memory, &reader, NULL);
    if (status != PS_OK && status != PS_ERR_CORRUPT && status != PS_ERR_UNSUPPORTED)
        abort();
    while (status == PS_OK) {
        struct ps_journal_row row = {0};
        uint64_t cut = 0;
        status = ps_journal_next(reader, &row, &cut, NULL, NULL);
        if (status == PS_OK && row.record.position != ++position)
            abort();
        if (status != PS_OK && status != ps_journal_next(reader, &row, &cut, NULL, NULL))
            abort();
        if (status != PS_OK && status != PS_ERR_NOT_FOUND && status != PS_ERR_CORRUPT &&
            status != PS_ERR_UNSUPPORTED)
            abort();
        if (status == PS_ERR_NOT_FOUND && position < noted)
            abort();
        ps_journal_row_release(&row);
    }
    ps_journal_reader_close(reader);
    if (heap.live != 0)
        abort();
}

static void read_disk(const uint8_t *data, size_t size)
{
    struct memory_files *disk = make_disk(data, size);
    const struct ps_files *files = memory_files_files(disk);
    const struct ps_journal_note none = {0};
    const struct ps_journal_note noted = {9, data[5] / 2u + 1};
    read_all(files, 0, 0);
    read_all(files, data[4], 0);
    if (ps_journal_note_put(files, "j", &none, &noted, NULL) != PS_OK)
        abort();
    read_all(files, 0, noted.position);
    read_all(files, data[4], noted.position);
    if (memory_files_open_count(disk) != 0)
        abort();
    memory_files_destroy(disk);
}

static void put_checksum(uint8_t *to, uint32_t checksum)
{
    for (size_t i = 0; i < 4; i++)
        to[i] = (uint8_t)(checksum >> (8 * i));
}

/* The segment whose heads are being repaired. */
struct segment {
    size_t begin;
    bool salted;
    uint8_t salt[4];
};

/* The checksum of a head, whose segment begins with it when it is a first record. */
static uint32_t sum_head(struct segment *segment, size_t at, const uint8_t *head, size_t head_bytes,
                         uint64_t content_held)
{
    uint32_t begin = 0;
    if (head[9] == PS_RECORD_SEGMENT) {
        *segment = (struct segment){.begin = at};
        segment->salted =
            head[8] == PS_JOURNAL_FORMAT && content_held >= PS_JOURNAL_SEGMENT_CONTENT_BYTES;
        if (segment->salted)
            memcpy(segment->salt, head + head_bytes + 24, sizeof segment->salt);
    } else if (segment->salted) {
        begin = ps_checksum_crc32c(0, (struct ps_bytes){segment->salt, sizeof segment->salt});
    }
    return ps_checksum_crc32c(begin, (struct ps_bytes){head + 8, head_bytes - 8});
}

/* Behind the zeros of a flush, when such stand at `at`. */
static size_t pass_zeros(const struct segment *segment, const uint8_t *data, size_t size, size_t at)
{
    size_t rest = -(at - segment->begin) % PS_JOURNAL_BLOCK_BYTES;
    if (!segment->salted || at > size || rest > size - at)
        return at;
    for (size_t i = 0; i < rest; i++)
        if (data[at + i] != 0)
            return at;
    return at + rest;
}

/* Makes a head of what stands at `at`, and puts the content's checksum right where it is all there.
 * Returns where the next record would begin. */
static size_t repair(struct segment *segment, uint8_t *data, size_t size, size_t at)
{
    uint8_t *head = data + at;
    size_t left = size - at;
    uint64_t content = 0;
    static const uint8_t magic[] = {'P', 'S', 'J', 'R'};
    memcpy(head, magic, sizeof magic);
    size_t head_bytes = PS_JOURNAL_HEAD_BYTES + head[11] + head[12] + 256u * head[13];
    head_bytes += ps_journal_padding(head_bytes);
    for (size_t i = 0; i < 8; i++)
        content |= (uint64_t)head[24 + i] << (8 * i);
    if (head_bytes > left)
        return size;
    bool held = content <= left - head_bytes;
    if (held)
        put_checksum(head + 16,
                     ps_checksum_crc32c(0, (struct ps_bytes){head + head_bytes, (size_t)content}));
    put_checksum(head + 4, sum_head(segment, at, head, head_bytes, held ? content : 0));
    if (!held)
        return size;
    size_t end = at + head_bytes + (size_t)content + ps_journal_padding(content);
    return pass_zeros(segment, data, size, end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < STEERING_BYTES)
        return 0;
    read_disk(data, size);
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    struct segment segment = {0};
    for (size_t at = STEERING_BYTES; at < size && size - at >= PS_JOURNAL_HEAD_BYTES;)
        at = repair(&segment, copy, size, at);
    read_disk(copy, size);
    free(copy);
    return 0;
}
