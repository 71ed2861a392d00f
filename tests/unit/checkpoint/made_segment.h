/* SPDX-License-Identifier: Apache-2.0 */
/* One segment of format 2, byte by byte: what lies where, and put into its file with more behind.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a difference fails the test.
 * Memory:   made_fini gives back the bytes.
 */
#ifndef PS_TESTS_UNIT_CHECKPOINT_MADE_SEGMENT_H
#define PS_TESTS_UNIT_CHECKPOINT_MADE_SEGMENT_H

#include "journal_disk.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK PS_JOURNAL_BLOCK_BYTES
#define RECORDS 6

static char path[128];

/* The bytes of a segment of epoch 7 from position 1 on, and where each record, its content and its
 * end are; 0 is the segment's own. */
struct made {
    struct journal_maker maker;
    size_t begins[32];
    size_t contents[32];
    size_t ends[32];
};

static inline void note_record(struct made *made, size_t record, size_t begin)
{
    struct ps_journal_head head = {0};
    struct ps_bytes rest = {made->maker.bytes + begin, made->maker.size - begin};
    ck_assert_int_eq(ps_journal_head_read(rest, record == 0 ? NULL : &made->maker.life, &head),
                     PS_JOURNAL_GOOD);
    made->begins[record] = begin;
    made->contents[record] = begin + head.head_bytes;
    made->ends[record] = begin + (size_t)head.record_bytes;
}

static inline void made_init(struct made *made, uint32_t salt)
{
    sample_maker(&made->maker, files, &small, 6, 0, PS_JOURNAL_SEGMENT_BYTES);
    if (salt != 0) {
        /* The same segment in another life. */
        uint8_t bytes[PS_JOURNAL_SEGMENT_CONTENT_BYTES];
        made->maker.life.salt = salt;
        struct ps_bytes content = {
            bytes, ps_journal_segment_write(&made->maker.facts, &made->maker.life, bytes)};
        const struct ps_record first = {
            .type = PS_RECORD_SEGMENT, .position = 1, .epoch = 7, .content = ps_view_of(&content)};
        made->maker.size = 0;
        journal_maker_add(&made->maker, &first, 0);
        journal_maker_pad(&made->maker);
    }
    note_record(made, 0, 0);
}

/* Adds records in flushes of `batch`. */
static inline void made_add(struct made *made, uint64_t first, uint64_t last, size_t batch)
{
    for (uint64_t position = first; position <= last;) {
        size_t begin = made->maker.size;
        uint64_t end = position + batch - 1 < last ? position + batch - 1 : last;
        sample_make(&made->maker, &small, position, end, batch);
        for (; position <= end; position++) {
            note_record(made, position, begin);
            begin = made->ends[position];
        }
    }
}

/* RECORDS records, each a flush. */
static inline void made_short(struct made *made)
{
    made_init(made, 0);
    made_add(made, 1, RECORDS, 1);
}

static inline void made_fini(struct made *made)
{
    free(made->maker.bytes);
}

static inline void put(const void *bytes, size_t size)
{
    memory_files_put(disk, path, (struct ps_bytes){bytes, size});
}

/* Puts the segment with `behind` from its end on. */
static inline void put_with(const struct made *made, const void *behind, size_t size)
{
    uint8_t *bytes = malloc(made->maker.size + size);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, made->maker.bytes, made->maker.size);
    memcpy(bytes + made->maker.size, behind, size);
    put(bytes, made->maker.size + size);
    free(bytes);
}

/* Puts the first `size` bytes in a file that has those of `former` behind. */
static inline void put_over(const struct made *made, size_t size, const struct made *former)
{
    uint8_t *bytes = malloc(former->maker.size + size);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, former->maker.bytes, former->maker.size);
    memcpy(bytes, made->maker.bytes, size);
    put(bytes, size > former->maker.size ? size : former->maker.size);
    free(bytes);
}

static inline void note(uint64_t position)
{
    static const struct ps_journal_note none;
    const struct ps_journal_note noted = {7, position};
    ck_assert_int_eq(ps_journal_note_put(files, SAMPLE_FOLDER, &none, &noted, NULL), PS_OK);
}

static inline struct sample_result read_all(void)
{
    return sample_read_on(files, &small, 0, ps_allocator_heap());
}

static inline void assert_end(uint64_t last, uint64_t cut)
{
    struct sample_result result = read_all();
    ck_assert_msg(result.status == PS_ERR_NOT_FOUND, "%s", result.error.text);
    ck_assert_uint_eq(result.last, last);
    ck_assert_uint_eq(result.cut, cut);
}

static inline void assert_damage(uint64_t position)
{
    struct sample_result result = read_all();
    ck_assert_msg(result.status == PS_ERR_CORRUPT, "ended at %llu",
                  (unsigned long long)result.last);
    ck_assert_uint_eq(result.last, position - 1);
}

static inline void set_up_segment(void)
{
    set_up_format_2();
    (void)sample_segment(7, 1, path);
}

#endif
