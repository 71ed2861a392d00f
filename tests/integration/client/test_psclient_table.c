/* SPDX-License-Identifier: Apache-2.0 */
/* Tables against servers that do as they are told: what goes out, and what is made of the
 * answers. */
#include "client/psclient.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "client/table_state.h"
#include "proto/codec.h"
#include "run_suite.h"
#include "tests/integration/client/psclient_rig.h"

#include <check.h>
#include <string.h>

static struct psclient_table *table;
static struct ps_buffer list_bytes;
static char config_room[256];

/* Keys below 4 are server 0's, the others server 1's. */
static const uint64_t bound = 4;
static const struct psclient_table_options options = {.name = "emb",
                                                      .type = PSCLIENT_FLOAT32,
                                                      .width = 2,
                                                      .partition = PSCLIENT_ROWS_GIVEN,
                                                      .bounds = &bound,
                                                      .bound_count = 1};

/* Both servers list a parameter of this name, with the table's configuration or with none. */
static void list(const char *name, bool is_table)
{
    struct ps_buffer config;
    ps_buffer_init_fixed(&config, config_room, sizeof config_room);
    if (is_table)
        ps_table_wish_encode(&options, &config);
    const struct ps_param_info row = {.name = ps_bytes_of_text(name),
                                      .dtype = PS_F32,
                                      .rule = "sgd",
                                      .config = {(const uint8_t *)config.text, config.size}};
    const struct ps_list_reply reply = {.params = &row, .param_count = 1};
    ps_buffer_clear(&list_bytes);
    ps_encode_list_reply(&reply, &list_bytes);
    for (uint32_t i = 0; i < 2; i++)
        fake_server_answer(
            servers[i], PS_METHOD_LIST,
            (struct fake_answer){.kind = FAKE_REPLY,
                                 .bytes = {(const uint8_t *)list_bytes.text, list_bytes.size}});
}

static void begin(void)
{
    open_client(2, "ready");
    ps_buffer_init(&list_bytes, ps_allocator_heap(), 4000);
    list("emb", true);
    table = NULL;
}

static void end(void)
{
    psclient_table_close(table);
    close_client();
    ps_buffer_fini(&list_bytes);
}

static void open_table(void)
{
    int status = psclient_table_open(client, "emb", LONG_MS, &table, &error);
    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
}

/* The n-th request of the method ends with these bytes. */
static void expect_end(uint32_t server, enum ps_method method, uint32_t n, const void *expected,
                       size_t size)
{
    uint8_t bytes[FAKE_REQUEST_BYTES];
    size_t count = fake_server_request(servers[server], method, n, bytes);
    ck_assert_uint_ge(count, size);
    ck_assert_mem_eq(bytes + count - size, expected, size);
}

START_TEST(a_table_that_is_opened_is_what_the_server_says)
{
    open_table();

    ck_assert_uint_eq(psclient_table_width(table), 2);
    ck_assert_int_eq(psclient_table_type(table), PSCLIENT_FLOAT32);
    ck_assert_uint_eq(psclient_table_shard(table, 3), 0);
    ck_assert_uint_eq(psclient_table_shard(table, 4), 1);
}
END_TEST

START_TEST(what_is_not_there_or_not_a_table_is_not_opened)
{
    ck_assert_int_eq(psclient_table_open(client, "", LONG_MS, &table, &error), PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_table_open(client, "em", LONG_MS, &table, &error),
                     PSCLIENT_NOT_FOUND);
    list("emb", false);
    ck_assert_int_eq(psclient_table_open(client, "emb", LONG_MS, &table, &error), PSCLIENT_INVALID);
    ck_assert_ptr_null(table);
}
END_TEST

START_TEST(every_server_gets_the_definition)
{
    int status = psclient_table_define(client, &options, LONG_MS, &table, &error);

    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_uint_eq(fake_server_calls(servers[i], PS_METHOD_DEFINE), 1);
    ck_assert_uint_eq(psclient_table_shard(table, 4), 1);
}
END_TEST

START_TEST(a_definition_that_makes_no_sense_is_not_sent)
{
    struct psclient_table_options wrong = options;

    wrong.bound_count = 0;
    ck_assert_int_eq(psclient_table_define(client, &wrong, LONG_MS, &table, &error),
                     PSCLIENT_INVALID);
    wrong.bound_count = 64;
    ck_assert_int_eq(psclient_table_define(client, &wrong, LONG_MS, &table, &error),
                     PSCLIENT_INVALID);
    wrong = (struct psclient_table_options){.name = "emb"};
    ck_assert_int_eq(psclient_table_define(client, &wrong, LONG_MS, &table, &error),
                     PSCLIENT_INVALID);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_DEFINE), 0);
    ck_assert_ptr_null(table);
}
END_TEST

/* Two rows of two ones from each server, as the rig answers every pull. */
START_TEST(keys_go_to_the_servers_that_have_them)
{
    static const uint64_t keys[] = {9, 3, 4, 1}, first[] = {3, 1}, second[] = {9, 4};
    float rows[8] = {0};
    open_table();

    int status = psclient_table_get(table, keys, 4, rows, LONG_MS, &error);

    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    expect_end(0, PS_METHOD_PULL, 0, first, sizeof first);
    expect_end(1, PS_METHOD_PULL, 0, second, sizeof second);
    for (size_t i = 0; i < 8; i++)
        ck_assert_float_eq(rows[i], 1);
}
END_TEST

START_TEST(an_answer_of_another_length_is_refused)
{
    static const uint64_t keys[] = {1, 2, 3};
    float rows[6];
    open_table();

    ck_assert_int_eq(psclient_table_get(table, keys, 3, rows, LONG_MS, &error), PSCLIENT_INVALID);
}
END_TEST

START_TEST(a_push_that_was_lost_is_sent_again_as_it_was)
{
    static const uint64_t keys[] = {7, 1};
    static const float gradients[] = {1, 2, 3, 4};
    uint8_t first[FAKE_REQUEST_BYTES], second[FAKE_REQUEST_BYTES];
    struct {
        uint64_t key;
        float row[2];
    } sent = {7, {1, 2}};
    open_table();
    fake_server_next(servers[1], PS_METHOD_PUSH, 1, (struct fake_answer){.kind = FAKE_BREAK});

    int status = psclient_table_add(table, keys, 2, gradients, LONG_MS, &error);

    ck_assert_msg(status == PSCLIENT_OK, "%s", error.text);
    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PUSH), 1);
    ck_assert_uint_eq(fake_server_calls(servers[1], PS_METHOD_PUSH), 2);
    size_t size = fake_server_request(servers[1], PS_METHOD_PUSH, 0, first);
    ck_assert_uint_eq(fake_server_request(servers[1], PS_METHOD_PUSH, 1, second), size);
    ck_assert_mem_eq(first, second, size);
    expect_end(1, PS_METHOD_PUSH, 0, &sent, sizeof sent);
}
END_TEST

START_TEST(a_refusal_says_which_table)
{
    static const uint64_t key = 5;
    static const float gradients[] = {1, 2};
    open_table();
    fake_server_answer(servers[1], PS_METHOD_PUSH, refuse(PS_ERR_OUT_OF_RANGE));

    ck_assert_int_eq(psclient_table_add(table, &key, 1, gradients, LONG_MS, &error),
                     PSCLIENT_INVALID);

    ck_assert_ptr_nonnull(strstr(error.text, "emb"));
}
END_TEST

START_TEST(a_call_without_keys_asks_nobody)
{
    open_table();

    ck_assert_int_eq(psclient_table_get(table, NULL, 0, NULL, 0, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_table_add(table, NULL, 0, NULL, 0, &error), PSCLIENT_OK);

    ck_assert_uint_eq(fake_server_calls(servers[0], PS_METHOD_PULL), 0);
}
END_TEST

START_TEST(a_read_at_a_clock_says_so)
{
    static const uint64_t keys[] = {1, 2};
    float rows[4];
    uint8_t bytes[FAKE_REQUEST_BYTES];
    open_table();
    ck_assert_int_eq(psclient_table_at(table, "epoch", 3, 9, &error), PSCLIENT_OK);

    ck_assert_int_eq(psclient_table_get(table, keys, 2, rows, LONG_MS, &error), PSCLIENT_OK);

    size_t size = fake_server_request(servers[0], PS_METHOD_PULL, 0, bytes);
    ck_assert_ptr_nonnull(memmem(bytes, size, "epoch", 5));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient table");
    TCase *tests = tcase_create("table");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_table_that_is_opened_is_what_the_server_says);
    tcase_add_test(tests, what_is_not_there_or_not_a_table_is_not_opened);
    tcase_add_test(tests, every_server_gets_the_definition);
    tcase_add_test(tests, a_definition_that_makes_no_sense_is_not_sent);
    tcase_add_test(tests, keys_go_to_the_servers_that_have_them);
    tcase_add_test(tests, an_answer_of_another_length_is_refused);
    tcase_add_test(tests, a_push_that_was_lost_is_sent_again_as_it_was);
    tcase_add_test(tests, a_refusal_says_which_table);
    tcase_add_test(tests, a_call_without_keys_asks_nobody);
    tcase_add_test(tests, a_read_at_a_clock_says_so);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
