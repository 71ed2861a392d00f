/* SPDX-License-Identifier: Apache-2.0 */
/* proto/worker_codec.c: who takes part, there and back. */
#include "proto/worker_codec.h"

#include "proto/wire.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ps_buffer message;
static struct ps_worker_list list;
static struct ps_error error;

static void setup(void)
{
    ps_buffer_init(&message, ps_allocator_heap(), 4 << 20);
    memset(&list, 0, sizeof list);
}

static void teardown(void)
{
    ps_worker_list_release(&list);
    ps_buffer_fini(&message);
}

static enum ps_status decode_with(const struct ps_allocator *memory)
{
    const struct ps_bytes bytes = {(const uint8_t *)message.text, message.size};
    return ps_decode_workers(ps_view_of(&bytes), memory, &list, &error);
}

static enum ps_status decode(void)
{
    return decode_with(ps_allocator_heap());
}

START_TEST(what_was_said_is_read)
{
    const struct ps_worker_info first = {.rank = 3,
                                         .name = "trainer-3",
                                         .role = "trainer",
                                         .host = "node-1",
                                         .group = "workers",
                                         .joined_unix_ms = 1700000000000,
                                         .is_heard = true,
                                         .silent_ms = 12,
                                         .ttl_ms = 10000,
                                         .incarnation = 77};
    const struct ps_worker_info second = {.group = "other", .silent_ms = 5};
    ps_encode_worker(&first, &message);
    ps_encode_worker_group("workers", 8, &message);
    ps_encode_worker(&second, &message);
    ps_wire_put_uint(&message, 2, 99);
    ps_wire_put_uint(&message, 4, 1);

    ck_assert_int_eq(decode(), PS_OK);

    ck_assert_uint_eq(list.count, 2);
    ck_assert_uint_eq(list.revision, 99);
    ck_assert(list.more);
    ck_assert_uint_eq(list.rows[0].rank, 3);
    ck_assert_str_eq(list.rows[0].name, "trainer-3");
    ck_assert_str_eq(list.rows[0].role, "trainer");
    ck_assert_str_eq(list.rows[0].host, "node-1");
    ck_assert_str_eq(list.rows[0].group, "workers");
    ck_assert_uint_eq(list.rows[0].joined_unix_ms, 1700000000000);
    ck_assert(list.rows[0].is_heard);
    ck_assert_uint_eq(list.rows[0].silent_ms, 12);
    ck_assert_uint_eq(list.rows[0].ttl_ms, 10000);
    ck_assert_uint_eq(list.rows[0].incarnation, 77);
    ck_assert_str_eq(list.rows[1].name, "");
    ck_assert(!list.rows[1].is_heard);
    /* Of a worker that was not heard nothing is said. */
    ck_assert_uint_eq(list.rows[1].silent_ms, 0);
    ck_assert_uint_eq(list.group_count, 1);
    ck_assert_str_eq(list.groups[0].name, "workers");
    ck_assert_uint_eq(list.groups[0].size, 8);
}
END_TEST

START_TEST(nothing_is_an_empty_list)
{
    ck_assert_int_eq(decode(), PS_OK);
    ck_assert_uint_eq(list.count, 0);
}
END_TEST

START_TEST(more_rows_than_any_server_sends_are_refused)
{
    const struct ps_worker_info nobody = {0};
    for (int i = 0; i <= 2 * PS_WORKERS_LISTED_MAX; i++)
        ps_encode_worker(&nobody, &message);
    ck_assert_int_eq(decode(), PS_ERR_BAD_INPUT);
    ck_assert_ptr_null(list.rows);
}
END_TEST

START_TEST(a_row_that_makes_no_sense_is_refused)
{
    char row[400];
    struct ps_buffer bytes;
    ps_buffer_init_fixed(&bytes, row, sizeof row);
    switch (_i) {
    case 0: /* too long a text */
        for (int i = 0; i < PS_WORKER_TEXT_BYTES; i++)
            ps_buffer_append_text(&bytes, "x");
        break;
    case 1: /* not UTF-8 */
        ps_buffer_append_text(&bytes, "\xff");
        break;
    default:
        break;
    }
    ps_wire_put_head(&message, 1, bytes.size + (bytes.size > 127 ? 3 : 2));
    ps_wire_put_head(&message, 2, bytes.size);
    ps_buffer_append(&message, (struct ps_bytes){(const uint8_t *)row, bytes.size});
    ck_assert_int_eq(decode(), _i < 2 ? PS_ERR_BAD_INPUT : PS_OK);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing)
{
    const struct ps_worker_info info = {.rank = 1, .group = "workers"};
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    ps_encode_worker(&info, &message);

    enum ps_status status = decode_with(&memory);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_worker_list_release(&list);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker codec");
    TCase *tests = tcase_create("codec");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_said_is_read);
    tcase_add_test(tests, nothing_is_an_empty_list);
    tcase_add_test(tests, more_rows_than_any_server_sends_are_refused);
    tcase_add_loop_test(tests, a_row_that_makes_no_sense_is_refused, 0, 3);
    tcase_add_loop_test(tests, a_refused_allocation_leaves_nothing, 0, 3);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
