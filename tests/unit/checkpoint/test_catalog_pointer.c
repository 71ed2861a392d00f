/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/catalog_pointer.c: the JSON of /checkpoints/<i>. */
#include "checkpoint/catalog.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define UUID "0f47ac10-58cc-4372-a567-0e02b2c3d479"

static struct ps_checkpoint_place place;
static struct ps_error error;

static enum ps_status read_text(const char *json)
{
    return ps_catalog_pointer_read(ps_bytes_of_text(json), ps_allocator_heap(), &place, &error);
}

START_TEST(a_pointer_comes_back)
{
    struct ps_checkpoint_place written = {.uuid = UUID,
                                          .path = "/data/\"ck\"/a.safetensors",
                                          .crc32 = 0xfedcba98,
                                          .bytes = 1234567,
                                          .position = UINT64_MAX,
                                          .epoch = UINT64_MAX - 1,
                                          .unix_ns = 1799999999000000000};
    struct ps_buffer json;
    ps_buffer_init(&json, ps_allocator_heap(), 10000);

    ps_catalog_pointer_write(&written, &json);
    ck_assert_int_eq(ps_buffer_status(&json, NULL), PS_OK);
    ck_assert_int_eq(read_text(json.text), PS_OK);

    ck_assert_str_eq(place.uuid, written.uuid);
    ck_assert_str_eq(place.path, written.path);
    ck_assert_uint_eq(place.crc32, written.crc32);
    ck_assert_uint_eq(place.bytes, written.bytes);
    ck_assert_uint_eq(place.position, written.position);
    ck_assert_uint_eq(place.epoch, written.epoch);
    ck_assert_int_le(llabs((long long)(place.unix_ns - written.unix_ns)), 256);
    ps_buffer_fini(&json);
}
END_TEST

START_TEST(the_old_systems_members_have_their_names_and_types)
{
    struct ps_checkpoint_place written = {
        .uuid = UUID, .path = "/p", .crc32 = 17, .unix_ns = 1500000000123456789};
    struct ps_buffer json;
    ps_buffer_init(&json, ps_allocator_heap(), 10000);

    ps_catalog_pointer_write(&written, &json);

    ck_assert_str_eq(json.text, "{\"uuid\":\"" UUID "\",\"path\":\"/p\",\"crc32\":17,"
                                "\"timestamp\":1500000000123456789,\"position\":\"0\","
                                "\"epoch\":\"0\",\"bytes\":\"0\"}");
    ps_buffer_fini(&json);
}
END_TEST

START_TEST(what_is_known_of_the_journal_and_what_was_given_up_comes_back)
{
    struct ps_checkpoint_place written = {.uuid = UUID,
                                          .path = "/p",
                                          .journal = (enum ps_checkpoint_journal)_i,
                                          .reached = _i == 0 ? 0 : UINT64_MAX};
    struct ps_buffer json;
    ps_buffer_init(&json, ps_allocator_heap(), 10000);

    ps_catalog_pointer_write(&written, &json);

    ck_assert_int_eq(read_text(json.text), PS_OK);
    ck_assert_int_eq(place.journal, written.journal);
    ck_assert_uint_eq(place.reached, written.reached);
    ps_buffer_fini(&json);
}
END_TEST

START_TEST(a_history_comes_back_and_a_malformed_one_is_corrupt)
{
    struct ps_checkpoint_place written = {.uuid = UUID, .path = "/p", .history = {{3}}};
    struct ps_buffer json;
    ps_buffer_init(&json, ps_allocator_heap(), 10000);

    ps_catalog_pointer_write(&written, &json);

    ck_assert_ptr_nonnull(
        strstr(json.text, "\"history\":\"03000000-0000-0000-0000-000000000000\""));
    ck_assert_int_eq(read_text(json.text), PS_OK);
    ck_assert_mem_eq(&place.history, &written.history, sizeof place.history);
    ck_assert_int_eq(read_text("{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2,"
                               "\"history\":\"none\"}"),
                     PS_ERR_CORRUPT);
    ps_buffer_fini(&json);
}
END_TEST

START_TEST(a_pointer_of_the_old_system_is_read)
{
    ck_assert_int_eq(read_text("{\"uuid\":\"" UUID "\",\"path\":\"/checkpoints/" UUID "\","
                               "\"crc32\":4294967295,\"timestamp\":1500000000000000000}"),
                     PS_OK);

    ck_assert_str_eq(place.path, "/checkpoints/" UUID);
    ck_assert_uint_eq(place.crc32, UINT32_MAX);
    ck_assert_uint_eq(place.unix_ns, 1500000000000000000);
    ck_assert_uint_eq(place.position + place.epoch + place.bytes, 0);
}
END_TEST

START_TEST(unknown_members_are_passed_over)
{
    ck_assert_int_eq(read_text("{\"md5\":\"x\",\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,"
                               "\"timestamp\":2,\"more\":{\"a\":[1]}}"),
                     PS_OK);
}
END_TEST

START_TEST(anything_else_is_corrupt_and_changes_nothing)
{
    static const char *const wrong[] = {
        "",
        "7",
        "[]",
        "{}",
        "{\"uuid\":\"u\"",
        "{\"uuid\":7,\"path\":\"/p\",\"crc32\":1,\"timestamp\":2}",
        "{\"uuid\":\"\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2}",
        "{\"uuid\":\"../u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2}",
        "{\"uuid\":\"" UUID "0\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2}",
        "{\"uuid\":\"u\",\"crc32\":1,\"timestamp\":2}",
        "{\"uuid\":\"u\",\"path\":\"\",\"crc32\":1,\"timestamp\":2}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"timestamp\":2}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":4294967296,\"timestamp\":2}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":-1,\"timestamp\":2}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1.5,\"timestamp\":2}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":-2}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":1e300}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2,\"epoch\":-1}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2,\"epoch\":null}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2,\"position\":\"x\"}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2,\"bytes\":[]}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2,\"journal\":1}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2,\"reached\":true}",
        "{\"uuid\":\"u\",\"path\":\"/p\",\"crc32\":1,\"timestamp\":2} x",
    };
    place = (struct ps_checkpoint_place){.uuid = "kept"};
    for (size_t i = 0; i < PS_ARRAY_COUNT(wrong); i++) {
        ck_assert_msg(read_text(wrong[i]) == PS_ERR_CORRUPT, "%s", wrong[i]);
        ck_assert_str_eq(place.uuid, "kept");
        ck_assert_ptr_nonnull(strstr(error.text, "checkpoint pointer: "));
    }
}
END_TEST

START_TEST(a_path_that_is_too_long_is_corrupt)
{
    char json[2000] = "{\"uuid\":\"u\",\"crc32\":1,\"timestamp\":2,\"path\":\"";
    size_t used = strlen(json);
    memset(json + used, 'p', sizeof place.path);
    (void)strcpy(json + used + sizeof place.path, "\"}");

    ck_assert_int_eq(read_text(json), PS_ERR_CORRUPT);

    (void)strcpy(json + used + sizeof place.path - 1, "\"}");
    ck_assert_int_eq(read_text(json), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("catalog_pointer");
    TCase *tests = tcase_create("catalog_pointer");
    tcase_add_test(tests, a_pointer_comes_back);
    tcase_add_test(tests, a_history_comes_back_and_a_malformed_one_is_corrupt);
    tcase_add_test(tests, the_old_systems_members_have_their_names_and_types);
    tcase_add_loop_test(tests, what_is_known_of_the_journal_and_what_was_given_up_comes_back, 0, 3);
    tcase_add_test(tests, a_pointer_of_the_old_system_is_read);
    tcase_add_test(tests, unknown_members_are_passed_over);
    tcase_add_test(tests, anything_else_is_corrupt_and_changes_nothing);
    tcase_add_test(tests, a_path_that_is_too_long_is_corrupt);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
