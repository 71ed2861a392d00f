/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that come, come again, and are given up. */
#include "mailbox_world.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <string.h>

START_TEST(there_and_back)
{
    char text[64];
    uint64_t handle;
    int32_t command;
    struct ps_asking asking = world_asked(3, -4);
    ck_assert_int_eq(world_look(&asking, text), PS_ERR_NOT_READY);
    ck_assert_uint_eq(world_take(1, 9, &command, &handle), 1);
    ck_assert_int_eq(command, -4);
    ck_assert_int_eq(world_answer(1, handle, "yes", 1), PS_OK);
    ck_assert_int_eq(world_look(&asking, text), PS_OK);
    ck_assert_str_eq(text, "yes");
    world_stop(&asking);
}
END_TEST

START_TEST(a_repeat_joins_what_is_there)
{
    char text[64];
    uint64_t handle;
    struct ps_ask_request request = world_request(0, 1);
    struct ps_asking first, second, third;
    request.token = 8;
    ck_assert_int_eq(world_ask(&request, "a", &first), PS_OK);
    ck_assert_int_eq(world_ask(&request, "a", &second), PS_OK);
    world_stop(&first);
    ck_assert_uint_eq(world_take(1, 9, NULL, &handle), 1);
    ck_assert_int_eq(world_answer(1, handle, "once", 1), PS_OK);
    ck_assert_int_eq(world_ask(&request, "a", &third), PS_OK);
    ck_assert_int_eq(world_look(&second, text), PS_OK);
    ck_assert_int_eq(world_look(&third, text), PS_OK);
    ck_assert_str_eq(text, "once");
    world_stop(&second);
    world_stop(&third);
    /* The same token of another app is another request. */
    request.asked.app = 6;
    ck_assert_int_eq(world_ask(&request, "a", &first), PS_OK);
    ck_assert_int_eq(world_look(&first, text), PS_ERR_NOT_READY);
    world_stop(&first);
}
END_TEST

START_TEST(bounds_name_the_app)
{
    static char large[300000];
    struct ps_asking asking[4];
    const struct ps_ask_request request = world_request(0, 1);
    memset(large, 'x', sizeof large - 1);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(world_ask(&request, large, &asking[i]), PS_OK);
    ck_assert_int_eq(world_ask(&request, large, &asking[3]), PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(world_error.text, "app 5: 9"));
    world_stop(&asking[0]);
    ck_assert_int_eq(world_ask(&request, large, &asking[3]), PS_OK);
    for (int i = 1; i < 4; i++)
        world_stop(&asking[i]);
}
END_TEST

START_TEST(what_waits_too_long_says_where_it_stands)
{
    struct ps_asking taken = world_asked(0, 1);
    ck_assert_uint_eq(world_take(1, 1, NULL, NULL), 1);
    struct ps_asking waits = world_asked(0, 2);
    world_pass(77);
    ck_assert_int_eq(ps_mailbox_await(&world, &taken, world_now, true, &world_error),
                     PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(world_error.text, "the program has the request"));
    ck_assert_ptr_nonnull(strstr(world_error.text, "77 ms"));
    ck_assert_int_eq(ps_mailbox_await(&world, &waits, world_now, true, &world_error),
                     PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(world_error.text, "nobody has taken the request"));
    world_stop(&waits);
    world_stop(&taken);
    ck_assert_uint_eq(world_take(1, 1, NULL, NULL), 0);
}
END_TEST

START_TEST(refused_memory_refuses_whole_requests)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_mailbox_bounds bounds = world_bounds();
    struct ps_ask_request request = world_request(0, 1);
    request.token = 5;
    request.sender = 6;
    request.order = 1;
    for (int64_t at = 0; at < 12; at++) {
        struct ps_asking asking;
        ps_mailbox_fini(&world);
        heap = (struct fault_heap){.refuse_at = at};
        world_begin_with(&memory, &bounds);
        enum ps_status status = world_ask(&request, "a", &asking);
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        world_stop(&asking);
    }
    ps_mailbox_fini(&world);
    ck_assert_int_eq(heap.live, 0);
    world_begin();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mailbox_ask");
    TCase *tests = tcase_create("mailbox_ask");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, there_and_back);
    tcase_add_test(tests, a_repeat_joins_what_is_there);
    tcase_add_test(tests, bounds_name_the_app);
    tcase_add_test(tests, what_waits_too_long_says_where_it_stands);
    tcase_add_test(tests, refused_memory_refuses_whole_requests);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
