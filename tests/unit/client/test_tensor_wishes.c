/* SPDX-License-Identifier: Apache-2.0 */
/* One wish for many keys, against answers of any kind and order. */
#include "client/tensors/tensor_wishes.h"

#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ID 1000

static struct ps_tensor_wishes wishes;
static struct ps_error error;
static uint8_t *contents[8];

static enum ps_status open_value(void *self, size_t i, const struct ps_value_facts *facts,
                                 uint64_t size, uint8_t **content, struct ps_error *why)
{
    ck_assert_ptr_eq(self, contents);
    ck_assert_uint_eq(facts->dtype, 5);
    if (size == 666)
        return ps_fail(why, PS_ERR_BAD_INPUT, "does not fit");
    contents[i] = calloc(1, size + 1);
    *content = contents[i];
    return PS_OK;
}

static const struct ps_tensor_place place = {open_value, contents};

static void begin_with(const char *const *keys, size_t count, uint32_t shard_count)
{
    ck_assert_int_eq(ps_tensor_wishes_init(&wishes, ps_allocator_heap(), &place, keys, count,
                                           FIRST_ID, shard_count, &error),
                     PS_OK);
}

static void end(void)
{
    ps_tensor_wishes_fini(&wishes);
    for (size_t i = 0; i < 8; i++) {
        free(contents[i]);
        contents[i] = NULL;
    }
}

static enum ps_status answer(uint64_t id, struct ps_bytes content, uint64_t offset, uint64_t total)
{
    const struct ps_received_tensor received = {.id = id,
                                                .facts = {.dtype = 5},
                                                .content = ps_view_of(&content),
                                                .offset = offset,
                                                .total = total};
    return ps_tensor_wishes_take(&wishes, &received, (struct ps_bytes){NULL, 0}, &error);
}

START_TEST(each_server_is_asked_for_its_own_keys)
{
    const char *const keys[] = {"a", "b", "c", "d", "e", "f"};
    struct ps_rendezvous_wish asked[2];
    bool seen[6] = {false};
    begin_with(keys, 6, 2);
    for (uint32_t shard = 0; shard < 2; shard++) {
        size_t count;
        ps_tensor_wishes_rewind(&wishes);
        while ((count = ps_tensor_wishes_next(&wishes, shard, asked, 2)) > 0) {
            for (size_t i = 0; i < count; i++) {
                uint64_t at = asked[i].id - FIRST_ID;
                ck_assert_uint_lt(at, 6);
                ck_assert(!seen[at]);
                seen[at] = true;
                ck_assert(ps_bytes_equal(asked[i].key, ps_bytes_of_text(keys[at])));
                ck_assert_uint_eq(ps_tensor_shard_of(asked[i].key, 2), shard);
            }
        }
    }
    for (size_t i = 0; i < 6; i++)
        ck_assert(seen[i]);
}
END_TEST

START_TEST(whole_and_empty_values_are_there_at_once_and_count_once)
{
    const char *const keys[] = {"a", "b"};
    begin_with(keys, 2, 1);
    ck_assert_int_eq(answer(FIRST_ID, ps_bytes_of_text("hello"), 0, 0), PS_OK);
    ck_assert_int_eq(answer(FIRST_ID, ps_bytes_of_text("other"), 0, 0), PS_OK);
    ck_assert_int_eq(answer(FIRST_ID + 7, ps_bytes_of_text("nobody's"), 0, 0), PS_OK);
    ck_assert_int_eq(answer(FIRST_ID - 1, ps_bytes_of_text("nobody's"), 0, 0), PS_OK);
    ck_assert_uint_eq(wishes.missing, 1);
    ck_assert_str_eq((const char *)contents[0], "hello");
    ck_assert_int_eq(answer(FIRST_ID + 1, (struct ps_bytes){NULL, 0}, 0, 0), PS_OK);
    ck_assert_uint_eq(wishes.missing, 0);
    ck_assert(ps_tensor_wishes_has(&wishes, 1));
}
END_TEST

/* Ranges come in any order. */
START_TEST(a_long_value_is_asked_for_by_ranges)
{
    enum { RANGE = (int)PS_TENSOR_RANGE_BYTES, TOTAL = 3 * RANGE + 10 };
    const char *const keys[] = {"a"};
    struct ps_rendezvous_wish asked[4];
    uint32_t shard;
    uint8_t *bytes = malloc(TOTAL);
    for (size_t i = 0; i < TOTAL; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 4096);
    begin_with(keys, 1, 1);
    ck_assert_int_eq(answer(FIRST_ID, (struct ps_bytes){bytes, RANGE}, 0, TOTAL), PS_OK);
    ck_assert_uint_eq(wishes.begun, 1);
    ps_tensor_wishes_rewind(&wishes);
    ck_assert_uint_eq(ps_tensor_wishes_next(&wishes, 0, asked, 4), 0);
    ps_tensor_wishes_rewind(&wishes);
    size_t count = 0;
    while (ps_tensor_wishes_next_range(&wishes, &asked[count], &shard))
        count++;
    ck_assert_uint_eq(count, 3);
    for (size_t i = 0; i < count; i++) {
        const struct ps_rendezvous_wish *wish = &asked[2 - i];
        ck_assert_uint_eq(wish->id, FIRST_ID);
        ck_assert_int_eq(answer(FIRST_ID,
                                (struct ps_bytes){bytes + wish->offset, (size_t)wish->count},
                                wish->offset, TOTAL),
                         PS_OK);
    }
    ck_assert_uint_eq(wishes.missing, 0);
    ck_assert_uint_eq(wishes.begun, 0);
    ck_assert_mem_eq(contents[0], bytes, TOTAL);
    free(bytes);
}
END_TEST

START_TEST(content_may_lie_in_the_calls_room)
{
    const char *const keys[] = {"a"};
    const struct ps_bytes room = ps_bytes_of_text("....hello...");
    struct ps_received_tensor received = {
        .id = FIRST_ID, .facts = {.dtype = 5}, .shared_offset = 4, .shared_size = 9};
    begin_with(keys, 1, 1);
    ck_assert_int_eq(ps_tensor_wishes_take(&wishes, &received, room, &error), PS_ERR_INTERNAL);
    received.shared_size = 5;
    ck_assert_int_eq(ps_tensor_wishes_take(&wishes, &received, room, &error), PS_OK);
    ck_assert_str_eq((const char *)contents[0], "hello");
}
END_TEST

START_TEST(a_server_that_contradicts_itself_is_not_believed)
{
    const char *const keys[] = {"a", "b"};
    const struct ps_bytes hello = ps_bytes_of_text("hello");
    begin_with(keys, 2, 1);
    ck_assert_int_eq(answer(FIRST_ID, hello, 1, 100), PS_ERR_INTERNAL);
    ck_assert_int_eq(answer(FIRST_ID, hello, 0, 4), PS_ERR_INTERNAL);
    ck_assert_int_eq(answer(FIRST_ID, (struct ps_bytes){NULL, 0}, 0, 4), PS_ERR_INTERNAL);
    ck_assert_int_eq(answer(FIRST_ID, hello, 0, 100), PS_OK);
    /* Nothing beyond the first range was asked for yet. */
    ck_assert_int_eq(answer(FIRST_ID, hello, 5, 100), PS_ERR_INTERNAL);
    ck_assert_int_eq(answer(FIRST_ID, hello, UINT64_MAX, 100), PS_ERR_INTERNAL);
    ck_assert_int_eq(answer(FIRST_ID + 1, hello, 0, 666), PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(wishes.missing, 2);
}
END_TEST

START_TEST(the_first_failure_is_told_in_tensorflows_words)
{
    const char *const keys[] = {"foo", "b"};
    begin_with(keys, 2, 1);
    struct ps_received_tensor received = {.id = FIRST_ID, .status = PS_ERR_ABORTED};
    ck_assert_int_eq(ps_tensor_wishes_take(&wishes, &received, (struct ps_bytes){NULL, 0}, &error),
                     PS_OK);
    received.id++;
    received.status = PS_ERR_CANCELLED;
    ck_assert_int_eq(ps_tensor_wishes_take(&wishes, &received, (struct ps_bytes){NULL, 0}, &error),
                     PS_OK);
    ck_assert_int_eq(wishes.why.status, PS_ERR_ABORTED);
    ck_assert_str_eq(wishes.why.text, "Duplicated recv: foo");
    ck_assert_uint_eq(wishes.missing, 2);
}
END_TEST

START_TEST(keys_are_checked)
{
    char longest[PS_RENDEZVOUS_KEY_BYTES_MAX + 2];
    memset(longest, 'k', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    const char *const keys[] = {"a", _i == 0 ? "" : longest};
    ck_assert_int_eq(
        ps_tensor_wishes_init(&wishes, ps_allocator_heap(), &place, keys, 2, 1, 1, &error),
        PS_ERR_BAD_INPUT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensor_wishes");
    TCase *tests = tcase_create("tensor_wishes");
    tcase_add_checked_fixture(tests, NULL, end);
    tcase_add_test(tests, each_server_is_asked_for_its_own_keys);
    tcase_add_test(tests, whole_and_empty_values_are_there_at_once_and_count_once);
    tcase_add_test(tests, a_long_value_is_asked_for_by_ranges);
    tcase_add_test(tests, content_may_lie_in_the_calls_room);
    tcase_add_test(tests, a_server_that_contradicts_itself_is_not_believed);
    tcase_add_test(tests, the_first_failure_is_told_in_tensorflows_words);
    tcase_add_loop_test(tests, keys_are_checked, 0, 2);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
