/* SPDX-License-Identifier: Apache-2.0 */
/* What a value is, there and back, and how many bytes it has. */
#include "proto/value_facts_codec.h"

#include "run_suite.h"

#include <check.h>
#include <string.h>

static struct ps_error error;

START_TEST(facts_come_back)
{
    char room[256];
    struct ps_buffer bytes;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    /* Static: compared with their padding. */
    static struct ps_value_facts read;
    static const struct ps_value_facts facts = {.dtype = UINT32_MAX,
                                         .element_size = 8,
                                         .rank = PS_VALUE_RANK_MAX,
                                         .extents = {1, 0, UINT64_MAX, 300, 5, 6, 7, 8},
                                         .dead = true};
    ps_buffer_init_fixed(&bytes, room, sizeof room);
    ps_value_facts_put(&facts, &bytes);
    ps_wire_put_uint(&bytes, 1, 77);
    const struct ps_bytes message = {(const uint8_t *)room, bytes.size};
    ps_wire_reader_init(&reader, ps_view_of(&message), &error);
    bool was_other = false;
    while (ps_wire_next(&reader, &field))
        was_other = !ps_value_facts_read(&reader, &field, &read);
    ck_assert_int_eq(reader.status, PS_OK);
    ck_assert(was_other);
    ck_assert_mem_eq(&read, &facts, sizeof facts);
}
END_TEST

START_TEST(a_ninth_dimension_is_refused)
{
    char room[64];
    struct ps_buffer bytes;
    struct ps_wire_reader reader;
    struct ps_wire_field field;
    struct ps_value_facts read = {0};
    ps_buffer_init_fixed(&bytes, room, sizeof room);
    for (uint64_t i = 1; i <= PS_VALUE_RANK_MAX + 1; i++)
        ps_wire_put_uint(&bytes, 7, i);
    const struct ps_bytes message = {(const uint8_t *)room, bytes.size};
    ps_wire_reader_init(&reader, ps_view_of(&message), &error);
    while (ps_wire_next(&reader, &field))
        (void)ps_value_facts_read(&reader, &field, &read);
    ck_assert_int_eq(reader.status, PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_value_has_as_many_bytes_as_its_shape_says)
{
    struct ps_value_facts facts = {.element_size = 4, .rank = 2, .extents = {3, 5}};
    ck_assert_int_eq(ps_value_facts_check(&facts, 60, &error), PS_OK);
    ck_assert_int_eq(ps_value_facts_check(&facts, 59, &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_value_facts_check(&facts, 0, &error), PS_ERR_BAD_INPUT);
    facts.dead = true;
    ck_assert_int_eq(ps_value_facts_check(&facts, 0, &error), PS_OK);
    facts.element_size = 0;
    ck_assert_int_eq(ps_value_facts_check(&facts, 7, &error), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("value_facts_codec");
    TCase *tests = tcase_create("value_facts_codec");
    tcase_add_test(tests, facts_come_back);
    tcase_add_test(tests, a_ninth_dimension_is_refused);
    tcase_add_test(tests, a_value_has_as_many_bytes_as_its_shape_says);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
