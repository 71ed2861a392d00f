/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/header_bytes.c: no header becomes larger than it was said to become. */
#include "checkpoint/header_bytes.h"

#include "checkpoint/header_writer.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Names that grow when they are quoted, and every number at its widest. */
START_TEST(a7_no_header_is_larger_than_the_shares_of_its_parameters)
{
    const char *names[] = {"w", "\"", "\\\\", "\t\x01", "\xc3\xa9/\x7f"};
    uint8_t config[] = {1, 2, 3, 4, 5};
    struct ps_checkpoint_parameter rows[5];
    struct ps_header_slot slots[5];
    static const struct ps_shape shapes[] = {
        {0},
        {.is_given = true, .rank = 2, .lengths = {UINT64_C(1) << 27, UINT64_C(1) << 27}},
        {.is_given = true, .rank = 2, .lengths = {UINT64_C(1) << 31, UINT64_C(1) << 31}}};
    uint64_t most = 0;
    struct ps_checkpoint_facts facts = {.job = "a-job",
                                        .position = UINT64_MAX,
                                        .epoch = UINT64_MAX,
                                        .unix_ns = UINT64_MAX,
                                        .index = UINT32_MAX,
                                        .shard_count = UINT32_MAX,
                                        .sessions = {config, sizeof config}};
    struct ps_header_section sections[PS_CHECKPOINT_SECTION_COUNT];
    struct ps_buffer head;
    ps_buffer_init(&head, ps_allocator_heap(), PS_HEADER_LENGTH_BYTES + PS_HEADER_BYTES_MAX);
    memset(facts.uuid, 'a', 36);
    for (size_t i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        sections[i] = (struct ps_header_section){UINT64_C(1) << 60, UINT32_MAX};
    ck_assert_int_eq(ps_header_facts_bytes("a-job", ps_allocator_heap(), &most, NULL), PS_OK);
    for (size_t i = 0; i < 5; i++) {
        uint64_t share = 0;
        rows[i] = (struct ps_checkpoint_parameter){.name = ps_bytes_of_text(names[i]),
                                                   .dtype = PS_F64,
                                                   .count = UINT64_C(1) << 54,
                                                   .shape = shapes[i % 3],
                                                   .config = {config, i},
                                                   .state_count = (uint32_t)i % 3};
        ck_assert_int_eq(ps_header_parameter_bytes(&rows[i], ps_allocator_heap(), &share, NULL),
                         PS_OK);
        most += share;
        rows[i].version = rows[i].step = rows[i].id = UINT64_MAX;
        slots[i] = (struct ps_header_slot){.parameter = &rows[i], .crc32c = {UINT32_MAX}};
    }

    ck_assert_int_eq(ps_header_write(&facts, sections, slots, 5, ps_allocator_heap(), &head, NULL),
                     PS_OK);

    ck_assert_uint_le(head.size, most);
    ck_assert_uint_gt(head.size + 500, most);
    ps_buffer_fini(&head);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header_bytes");
    TCase *tests = tcase_create("header_bytes");
    tcase_add_test(tests, a7_no_header_is_larger_than_the_shares_of_its_parameters);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
