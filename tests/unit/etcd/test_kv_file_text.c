/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/kv_file_text.c: a table as text and back, and every way in which the text can be damaged. */
#include "etcd/kv_file_text.h"

#include "base/hash.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_kv_table table;
static struct ps_kv_table copy;
static struct ps_buffer text;

static void put(const char *key, struct ps_bytes value, struct ps_kv_lease lease)
{
    const struct ps_kv_change change = {PS_KV_PUT, key, value, lease};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    bool done = false;
    int64_t revision = 0;
    ck_assert_int_eq(ps_kv_table_commit(&table, &transaction, &done, &revision, NULL), PS_OK);
}

static void setup(void)
{
    struct ps_kv_lease lease;
    ps_kv_table_init(&table, ps_allocator_heap());
    ps_kv_table_init(&copy, ps_allocator_heap());
    ck_assert_int_eq(ps_kv_table_grant(&table, 100, 5, &lease, NULL), PS_OK);
    put("/text", ps_bytes_of_text("host:1 \"\xc3\xa4\"\n"), lease);
    put("/bytes", (struct ps_bytes){(const uint8_t *)"\0\xff\x80", 3}, (struct ps_kv_lease){0});
    put("/empty", (struct ps_bytes){NULL, 0}, (struct ps_kv_lease){0});
    ps_buffer_init(&text, ps_allocator_heap(), PS_KV_FILE_BYTES_MAX);
    ps_kv_file_write(&table, &text);
    ck_assert_int_eq(ps_buffer_status(&text, NULL), PS_OK);
}

static void teardown(void)
{
    ps_buffer_fini(&text);
    ps_kv_table_fini(&copy);
    ps_kv_table_fini(&table);
}

static struct ps_bytes bytes_of_text(void)
{
    return (struct ps_bytes){(const uint8_t *)text.text, text.size};
}

START_TEST(a_table_reads_back_as_written)
{
    ck_assert_int_eq(ps_kv_file_read(bytes_of_text(), &copy, NULL), PS_OK);

    ps_kv_table_check(&copy);
    struct ps_buffer again;
    ps_buffer_init(&again, ps_allocator_heap(), PS_KV_FILE_BYTES_MAX);
    ps_kv_file_write(&copy, &again);
    ck_assert_str_eq(again.text, text.text);
    ps_buffer_fini(&again);
    ck_assert_uint_eq(copy.entry_count, 3);
    ck_assert_uint_eq(copy.entries[0].value_size, 3);
    ck_assert_mem_eq(copy.entries[0].value, "\0\xff\x80", 3);
    ck_assert_int_eq(copy.last_lease, 1);
    bool changed = false;
    ck_assert_int_eq(ps_kv_table_changed(&copy, "/text", 1, &changed, NULL), PS_OK);
    ck_assert(changed);
}
END_TEST

START_TEST(every_bit_that_turns_over_is_noticed)
{
    for (size_t i = 0; i < text.size * 8; i++) {
        text.text[i / 8] = (char)(text.text[i / 8] ^ (1 << i % 8));
        struct ps_kv_table damaged;
        ps_kv_table_init(&damaged, ps_allocator_heap());
        ck_assert_int_eq(ps_kv_file_read(bytes_of_text(), &damaged, NULL), PS_ERR_CORRUPT);
        ps_kv_table_fini(&damaged);
        text.text[i / 8] = (char)(text.text[i / 8] ^ (1 << i % 8));
    }
}
END_TEST

START_TEST(every_length_that_is_cut_is_noticed)
{
    for (size_t size = 0; size < text.size; size++) {
        struct ps_kv_table damaged;
        ps_kv_table_init(&damaged, ps_allocator_heap());
        struct ps_bytes cut = {(const uint8_t *)text.text, size};
        ck_assert_int_eq(ps_kv_file_read(cut, &damaged, NULL), PS_ERR_CORRUPT);
        ps_kv_table_fini(&damaged);
    }
}
END_TEST

/* Documents with a right checksum and wrong content. */
static const char *const documents[] = {
    "[]\n",
    "{}\n",
    "{\"revision\":0,\"compacted_revision\":0,\"last_lease\":0}\n",
    "{\"revision\":5,\"compacted_revision\":6,\"last_lease\":0}\n",
    "{\"revision\":5,\"compacted_revision\":0,\"last_lease\":1,"
    "\"leases\":[{\"id\":2,\"ttl_ms\":1,\"expires_ms\":1}]}\n",
    "{\"revision\":5,\"compacted_revision\":0,\"last_lease\":0,"
    "\"keys\":[{\"key\":\"/a\",\"value\":\"\",\"create_revision\":3,\"modify_revision\":2,"
    "\"lease\":0}]}\n",
    "{\"revision\":5,\"compacted_revision\":0,\"last_lease\":0,"
    "\"keys\":[{\"key\":\"/a\",\"value\":\"\",\"create_revision\":2,\"modify_revision\":2,"
    "\"lease\":9}]}\n",
    "{\"revision\":5,\"compacted_revision\":0,\"last_lease\":0,"
    "\"keys\":[{\"key\":\"/b\",\"value\":\"\",\"create_revision\":2,\"modify_revision\":2,"
    "\"lease\":0},{\"key\":\"/a\",\"value\":\"\",\"create_revision\":2,\"modify_revision\":2,"
    "\"lease\":0}]}\n",
    "{\"revision\":5,\"compacted_revision\":0,\"last_lease\":0,"
    "\"keys\":[{\"key\":\"/a\",\"value_base64\":\"?\",\"create_revision\":2,"
    "\"modify_revision\":2,\"lease\":0}]}\n",
    "{\"revision\":5,\"compacted_revision\":0,\"last_lease\":0,"
    "\"history\":[{\"key\":\"/a\",\"revision\":6}]}\n",
};

START_TEST(content_that_does_not_fit_together_is_refused)
{
    ps_buffer_clear(&text);
    ps_buffer_append_format(&text, "pserver-store 1 %08x\n%s",
                            ps_hash_fnv1a32(ps_bytes_of_text(documents[_i])), documents[_i]);

    ck_assert_int_eq(ps_kv_file_read(bytes_of_text(), &copy, NULL), PS_ERR_CORRUPT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kv_file_text");
    TCase *tests = tcase_create("kv_file_text");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_table_reads_back_as_written);
    tcase_add_test(tests, every_bit_that_turns_over_is_noticed);
    tcase_add_test(tests, every_length_that_is_cut_is_noticed);
    tcase_add_loop_test(tests, content_that_does_not_fit_together_is_refused, 0,
                        (int)(sizeof documents / sizeof documents[0]));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
