/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_record.c: heads to bytes and back. */
#include "checkpoint/checksum.h"
#include "checkpoint/journal_record.h"
#include "run_suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static uint8_t bytes[PS_JOURNAL_HEAD_BYTES_MAX];
static const struct ps_journal_life old = {.format = PS_JOURNAL_FORMAT_1};
static const struct ps_journal_life life = {PS_JOURNAL_FORMAT, 0xa1b2c3d4};

static struct ps_record push_of(const char *name, const char *client_id)
{
    return (struct ps_record){.type = PS_RECORD_PUSH,
                              .position = 0x1112131415161718,
                              .epoch = 0x2122232425262728,
                              .name = ps_bytes_of_text(name),
                              .dtype = PS_F64,
                              .version = 0x4142434445464748,
                              .client_id = ps_bytes_of_text(client_id),
                              .session = 0x5152535455565758,
                              .sequence = 0x6162636465666768,
                              .content = {NULL, 0, 0x0102030405}};
}

/* The head in `bytes` has the checksum of its bytes behind `begin`. */
static void assert_checksum(uint32_t begin, size_t size)
{
    uint32_t crc32c = ps_checksum_crc32c(begin, (struct ps_bytes){bytes + 8, size - 8});
    for (size_t i = 0; i < 4; i++)
        ck_assert_uint_eq(bytes[4 + i], (crc32c >> (8 * i)) & 0xff);
}

/* Byte by byte, so that the format cannot drift. */
START_TEST(a_head_is_exactly_these_bytes)
{
    static const uint8_t expected[] = {
        'P',  'S',  'J',  'R',  0,    0,    0,    0,    2,    2,    5,    2,    1,    0,    0,
        0,    0xdd, 0xcc, 0xbb, 0xaa, 0,    0,    0,    0,    5,    4,    3,    2,    1,    0,
        0,    0,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24,
        0x23, 0x22, 0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, 0x48, 0x47, 0x46, 0x45,
        0x44, 0x43, 0x42, 0x41, 0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, 0x68, 0x67, 0x66,
        0x65, 0x64, 0x63, 0x62, 0x61, 'i',  'd',  'w',  0,    0,    0,    0,    0};
    struct ps_record record = push_of("w", "id");

    size_t size = ps_journal_head_write(&record, &life, 0x3132333435363738, 0xaabbccdd, bytes);

    ck_assert_uint_eq(size, sizeof expected);
    ck_assert_mem_eq(bytes, expected, 4);
    ck_assert_mem_eq(bytes + 8, expected + 8, sizeof expected - 8);
    static const uint8_t salt[] = {0xd4, 0xc3, 0xb2, 0xa1};
    assert_checksum(ps_checksum_crc32c(0, (struct ps_bytes){salt, 4}), size);
}
END_TEST

START_TEST(a_head_of_format_1_differs_in_the_format_and_has_no_salt)
{
    uint8_t former[sizeof bytes];
    struct ps_record record = push_of("w", "id");
    size_t size = ps_journal_head_write(&record, &life, 99, 7, bytes);
    memcpy(former, bytes, size);

    ck_assert_uint_eq(ps_journal_head_write(&record, &old, 99, 7, bytes), size);

    ck_assert_uint_eq(bytes[8], 1);
    ck_assert_mem_eq(bytes + 9, former + 9, size - 9);
    assert_checksum(0, size);
}
END_TEST

START_TEST(the_first_record_of_a_segment_has_no_salt)
{
    struct ps_record record = {.type = PS_RECORD_SEGMENT, .position = 1, .epoch = 7};

    size_t size = ps_journal_head_write(&record, &life, 0, 0, bytes);

    assert_checksum(0, size);
}
END_TEST

/* Whoever knows the life asks for its salt in every head. */
START_TEST(a_head_of_another_life_is_bad)
{
    static const struct ps_journal_life other = {PS_JOURNAL_FORMAT, 0xa1b2c3d5};
    static const struct ps_journal_life zero = {PS_JOURNAL_FORMAT, 0};
    const struct ps_journal_life *lives[] = {&old, &life, &other, &zero, NULL};
    struct ps_bytes whole = {bytes, sizeof bytes};
    struct ps_record record = push_of("w", "id");
    struct ps_journal_head head;
    for (size_t i = 0; i < 4; i++) {
        (void)ps_journal_head_write(&record, lives[i], 99, 7, bytes);
        for (size_t k = 0; k < PS_ARRAY_COUNT(lives); k++) {
            bool good = i == k || (lives[i] == &old && lives[k] == NULL);
            ck_assert_int_eq(ps_journal_head_read(whole, lives[k], &head),
                             good ? PS_JOURNAL_GOOD : PS_JOURNAL_BAD);
        }
    }
}
END_TEST

START_TEST(a_first_record_within_a_segment_of_a_known_life_is_bad)
{
    static const uint8_t facts[PS_JOURNAL_SEGMENT_CONTENT_BYTES] = {0};
    struct ps_bytes content = {facts, sizeof facts};
    struct ps_record record = {
        .type = PS_RECORD_SEGMENT, .position = 1, .content = ps_view_of(&content)};
    struct ps_journal_head head;
    (void)ps_journal_head_write(&record, &life, 0, 0, bytes);
    struct ps_bytes whole = {bytes, sizeof bytes};

    ck_assert_int_eq(ps_journal_head_read(whole, NULL, &head), PS_JOURNAL_GOOD);
    ck_assert_int_eq(ps_journal_head_read(whole, &life, &head), PS_JOURNAL_BAD);
    ck_assert_int_eq(ps_journal_head_read(whole, &old, &head), PS_JOURNAL_BAD);
}
END_TEST

START_TEST(what_begins_like_a_head_need_not_be_good)
{
    struct ps_record record = push_of("w", "id");
    (void)ps_journal_head_write(&record, &life, 0, 0, bytes);
    bytes[20] ^= 1;

    ck_assert(ps_journal_head_is_of((struct ps_bytes){bytes, 9}, 2));
    ck_assert(!ps_journal_head_is_of((struct ps_bytes){bytes, 8}, 2));
    ck_assert(!ps_journal_head_is_of((struct ps_bytes){bytes, 9}, 1));
    bytes[0] ^= 1;
    ck_assert(!ps_journal_head_is_of((struct ps_bytes){bytes, 9}, 2));
}
END_TEST

START_TEST(a_head_comes_back)
{
    struct ps_record record = push_of("layer/w", "client");
    struct ps_journal_head head;
    size_t size = ps_journal_head_write(&record, &life, 99, 0xaabbccdd, bytes);

    ck_assert_int_eq(ps_journal_head_read((struct ps_bytes){bytes, sizeof bytes}, &life, &head),
                     PS_JOURNAL_GOOD);

    ck_assert_int_eq(head.record.type, PS_RECORD_PUSH);
    ck_assert_int_eq(head.record.dtype, PS_F64);
    ck_assert_uint_eq(head.record.position, record.position);
    ck_assert_uint_eq(head.record.epoch, record.epoch);
    ck_assert_uint_eq(head.record.version, record.version);
    ck_assert_uint_eq(head.record.session, record.session);
    ck_assert_uint_eq(head.record.sequence, record.sequence);
    ck_assert(ps_bytes_equal(head.record.name, record.name));
    ck_assert(ps_bytes_equal(head.record.client_id, record.client_id));
    ck_assert_uint_eq(head.durable, 99);
    ck_assert_uint_eq(head.content_bytes, 0x0102030405);
    ck_assert_uint_eq(head.content_crc32c, 0xaabbccdd);
    ck_assert_uint_eq(head.head_bytes, size);
    ck_assert_uint_eq(head.record_bytes, size + 0x0102030408);
}
END_TEST

START_TEST(the_encoding_of_a_content_stands_in_byte_14)
{
    struct ps_record record = push_of("w", "id");
    struct ps_journal_head head;
    record.encoding = (enum ps_encoding)_i;

    size_t size = ps_journal_head_write(&record, &life, 0, 0, bytes);

    ck_assert_uint_eq(bytes[14], (unsigned)_i);
    ck_assert_uint_eq(bytes[15], 0);
    ck_assert_int_eq(ps_journal_head_read((struct ps_bytes){bytes, size}, &life, &head),
                     PS_JOURNAL_GOOD);
    ck_assert_int_eq(head.record.encoding, record.encoding);
}
END_TEST

START_TEST(the_longest_names_have_room)
{
    char name[PS_NAME_BYTES_MAX + 1] = {0};
    char client_id[PS_CLIENT_ID_BYTES_MAX + 1] = {0};
    memset(name, 'n', sizeof name - 1);
    memset(client_id, 'c', sizeof client_id - 1);
    struct ps_record record = push_of(name, client_id);
    struct ps_journal_head head;

    ck_assert_uint_eq(ps_journal_head_write(&record, &life, 0, 0, bytes), sizeof bytes);

    ck_assert_int_eq(ps_journal_head_read((struct ps_bytes){bytes, sizeof bytes}, &life, &head),
                     PS_JOURNAL_GOOD);
    ck_assert(ps_bytes_equal(head.record.name, record.name));
}
END_TEST

START_TEST(a_name_that_is_too_long_aborts)
{
    char name[PS_NAME_BYTES_MAX + 2] = {0};
    memset(name, 'n', sizeof name - 1);
    struct ps_record record = push_of(name, "");

    (void)ps_journal_head_write(&record, &life, 0, 0, bytes);
}
END_TEST

START_TEST(every_truncation_and_every_flipped_bit_is_bad)
{
    struct ps_record record = push_of("layer/w", "client");
    struct ps_journal_head head;
    size_t size = ps_journal_head_write(&record, &life, 99, 7, bytes);
    for (size_t cut = 0; cut < size; cut++)
        ck_assert_int_eq(ps_journal_head_read((struct ps_bytes){bytes, cut}, &life, &head),
                         PS_JOURNAL_BAD);
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);

        ck_assert_int_eq(ps_journal_head_read((struct ps_bytes){bytes, sizeof bytes}, &life, &head),
                         PS_JOURNAL_BAD);

        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}
END_TEST

/* Changes one byte of a good head of format 1 and puts its checksum right. */
static enum ps_journal_verdict verdict_with(size_t at, uint8_t value)
{
    struct ps_record record = push_of("layer/w", "client");
    struct ps_journal_head head;
    size_t size = ps_journal_head_write(&record, &old, 99, 7, bytes);
    bytes[at] = value;
    uint32_t crc32c = ps_checksum_crc32c(0, (struct ps_bytes){bytes + 8, size - 8});
    for (size_t i = 0; i < 4; i++)
        bytes[4 + i] = (uint8_t)(crc32c >> (8 * i));
    return ps_journal_head_read((struct ps_bytes){bytes, sizeof bytes}, &old, &head);
}

START_TEST(what_a_later_version_wrote_is_unknown_not_bad)
{
    ck_assert_int_eq(verdict_with(8, 1), PS_JOURNAL_GOOD);
    ck_assert_int_eq(verdict_with(8, 2), PS_JOURNAL_BAD); /* of no segment of format 1 */
    ck_assert_int_eq(verdict_with(8, 3), PS_JOURNAL_UNKNOWN);
    ck_assert_int_eq(verdict_with(9, 0), PS_JOURNAL_UNKNOWN);
    ck_assert_int_eq(verdict_with(9, PS_RECORD_TYPE_LAST + 1), PS_JOURNAL_UNKNOWN);
    ck_assert_int_eq(verdict_with(10, PS_DTYPE_COUNT), PS_JOURNAL_UNKNOWN);
    ck_assert_int_eq(verdict_with(14, PS_ENCODING_TOP_K), PS_JOURNAL_GOOD);
    ck_assert_int_eq(verdict_with(14, PS_ENCODING_COUNT), PS_JOURNAL_UNKNOWN);
    ck_assert_int_eq(verdict_with(14, 0xff), PS_JOURNAL_UNKNOWN);
    ck_assert_int_eq(verdict_with(15, 1), PS_JOURNAL_UNKNOWN);
}
END_TEST

START_TEST(bounds_hold_behind_a_right_checksum)
{
    ck_assert_int_eq(verdict_with(31, 0x80), PS_JOURNAL_BAD); /* content of 2^63 bytes */
    ck_assert_int_eq(verdict_with(9, PS_RECORD_SEGMENT), PS_JOURNAL_BAD); /* of another size */
}
END_TEST

START_TEST(a_push_without_a_name_is_bad)
{
    struct ps_record record = push_of("", "client");
    struct ps_journal_head head;
    (void)ps_journal_head_write(&record, &life, 99, 7, bytes);

    ck_assert_int_eq(ps_journal_head_read((struct ps_bytes){bytes, sizeof bytes}, &life, &head),
                     PS_JOURNAL_BAD);
}
END_TEST

START_TEST(facts_of_a_segment_come_back)
{
    static const uint8_t expected[] = {4, 0, 0, 0, 9, 0, 0, 0, 8,    7,    6,    5,    4, 3, 2, 1,
                                       6, 0, 0, 0, 0, 0, 0, 0, 0xd4, 0xc3, 0xb2, 0xa1, 0, 0, 0, 0};
    const struct ps_journal_life *wanted = _i == 1 ? &old : &life;
    struct ps_journal_facts facts = {
        .index = 4, .shard_count = 9, .position = 0x0102030405060708, .previous_epoch = 6};
    struct ps_journal_facts read = {0};
    struct ps_journal_life found = {0};
    uint8_t content[PS_JOURNAL_SEGMENT_CONTENT_BYTES];

    size_t size = ps_journal_segment_write(&facts, wanted, content);
    struct ps_journal_head head = {.format = wanted->format, .content_bytes = size};
    ps_journal_segment_read(&head, content, &read, &found);

    ck_assert_uint_eq(size, _i == 1 ? 24 : 32);
    ck_assert_mem_eq(content, expected, size);
    ck_assert_uint_eq(read.index, 4);
    ck_assert_uint_eq(read.shard_count, 9);
    ck_assert_uint_eq(read.position, facts.position);
    ck_assert_uint_eq(read.previous_epoch, 6);
    ck_assert_uint_eq(found.format, wanted->format);
    ck_assert_uint_eq(found.salt, wanted->salt);
}
END_TEST

/* Where other records have a request id, of which programs from before there were histories ask
 * nothing in a first record: its size is what they demand. */
START_TEST(the_history_of_a_segment_stands_in_its_head)
{
    struct ps_journal_facts facts = {.index = 4, .shard_count = 9, .position = 5};
    struct ps_journal_facts read = {0};
    struct ps_journal_life found = {0};
    struct ps_journal_head head;
    uint8_t content[PS_JOURNAL_SEGMENT_CONTENT_BYTES];
    for (uint8_t i = 0; i < PS_HISTORY_BYTES; i++)
        facts.history.bytes[i] = (uint8_t)(0xa0 + i);
    struct ps_bytes written = {content, ps_journal_segment_write(&facts, &life, content)};
    struct ps_record record = {
        .type = PS_RECORD_SEGMENT, .position = 6, .epoch = 2, .content = ps_view_of(&written)};
    ps_journal_segment_history(&facts, &record);

    size_t size = ps_journal_head_write(&record, &life, 5, 7, bytes);

    ck_assert_uint_eq(size, PS_JOURNAL_HEAD_BYTES);
    ck_assert_mem_eq(bytes + 64, facts.history.bytes, PS_HISTORY_BYTES);
    ck_assert_int_eq(ps_journal_head_read((struct ps_bytes){bytes, size}, NULL, &head),
                     PS_JOURNAL_GOOD);
    ps_journal_segment_read(&head, content, &read, &found);
    ck_assert_mem_eq(&read.history, &facts.history, sizeof read.history);
    ck_assert_uint_eq(written.size, PS_JOURNAL_SEGMENT_CONTENT_BYTES);
}
END_TEST

START_TEST(padding_fills_up_to_eight)
{
    ck_assert_uint_eq(ps_journal_padding(0), 0);
    ck_assert_uint_eq(ps_journal_padding(1), 7);
    ck_assert_uint_eq(ps_journal_padding(7), 1);
    ck_assert_uint_eq(ps_journal_padding(8), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_record");
    TCase *tests = tcase_create("journal_record");
    tcase_add_test(tests, a_head_is_exactly_these_bytes);
    tcase_add_test(tests, a_head_of_format_1_differs_in_the_format_and_has_no_salt);
    tcase_add_test(tests, the_first_record_of_a_segment_has_no_salt);
    tcase_add_test(tests, a_head_of_another_life_is_bad);
    tcase_add_test(tests, a_first_record_within_a_segment_of_a_known_life_is_bad);
    tcase_add_test(tests, what_begins_like_a_head_need_not_be_good);
    tcase_add_test(tests, a_head_comes_back);
    tcase_add_loop_test(tests, the_encoding_of_a_content_stands_in_byte_14, 0, PS_ENCODING_COUNT);
    tcase_add_test(tests, the_longest_names_have_room);
    tcase_add_test_raise_signal(tests, a_name_that_is_too_long_aborts, SIGABRT);
    tcase_add_test(tests, every_truncation_and_every_flipped_bit_is_bad);
    tcase_add_test(tests, what_a_later_version_wrote_is_unknown_not_bad);
    tcase_add_test(tests, bounds_hold_behind_a_right_checksum);
    tcase_add_test(tests, a_push_without_a_name_is_bad);
    tcase_add_loop_test(tests, facts_of_a_segment_come_back, 1, 3);
    tcase_add_test(tests, the_history_of_a_segment_stands_in_its_head);
    tcase_add_test(tests, padding_fills_up_to_eight);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
