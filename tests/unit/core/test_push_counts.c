/* SPDX-License-Identifier: Apache-2.0 */
/* core/sessions/push_counts.c: how many pushes a client made to each name. */
#include "server/core/sessions/push_counts.h"

#include "tests/unit/core/core_world.h"

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_push_count_room room;
static struct ps_push_counts counts;

static void begin_test(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    room = (struct ps_push_count_room){.memory = &memory};
    counts = (struct ps_push_counts){0};
}

static void end_test(void)
{
    ps_push_counts_check(&counts);
    ps_push_counts_release(&counts, &room);
    ck_assert_uint_eq(room.places, 0);
    ck_assert_int_eq(heap.live, 0);
}

static void push(uint64_t name, uint64_t version)
{
    ck_assert_int_eq(ps_push_counts_reserve(&counts, name, &room, NULL), PS_OK);
    ps_push_counts_add(&counts, name, 1, version);
}

START_TEST(ids_that_were_chosen_have_a_mark_at_both_ends)
{
    static const char *const others[] = {"@",    "@a",  "@a#",  "@#1",  "a#1",
                                         "@a#x", "@12", "@123", "@a1#", "a@b#1"};
    ck_assert(ps_client_is_named(text("@a#0")));
    ck_assert(ps_client_is_named(text("@a#b#4095")));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert_msg(!ps_client_is_named(text(others[i])), "%s", others[i]);
    ck_assert(!ps_client_is_named((struct ps_bytes){0}));
}
END_TEST

START_TEST(each_name_has_its_own_count)
{
    for (uint64_t name = 1; name <= 100; name++)
        for (uint64_t i = 1; i <= name; i++)
            push(name, i * 10);

    for (uint64_t name = 1; name <= 100; name++) {
        const struct ps_push_count *count = ps_push_counts_find(&counts, name);
        ck_assert_uint_eq(count->pushes, name);
        ck_assert_uint_eq(count->version, name * 10);
    }
    ck_assert_ptr_null(ps_push_counts_find(&counts, 101));
    ck_assert_uint_eq(ps_push_counts_known(&counts), 100);
}
END_TEST

/* All of these begin at one place of the table. */
START_TEST(names_that_meet_are_told_apart)
{
    for (uint64_t i = 0; i < 50; i++)
        push(7 + (i << 32), i + 1);

    for (uint64_t i = 0; i < 50; i++)
        ck_assert_uint_eq(ps_push_counts_find(&counts, 7 + (i << 32))->version, i + 1);
}
END_TEST

START_TEST(a_later_version_that_was_counted_first_stays)
{
    push(1, 5);
    push(1, 4);

    ck_assert_uint_eq(ps_push_counts_find(&counts, 1)->version, 5);
    ck_assert_uint_eq(ps_push_counts_find(&counts, 1)->pushes, 2);
}
END_TEST

START_TEST(a_place_that_was_reserved_is_there_after_others_came)
{
    ck_assert_int_eq(ps_push_counts_reserve(&counts, 1, &room, NULL), PS_OK);
    ck_assert_ptr_null(ps_push_counts_find(&counts, 1));
    for (uint64_t name = 2; name < 50; name++)
        push(name, 1);

    ps_push_counts_add(&counts, 1, 1, 3);

    ck_assert_uint_eq(ps_push_counts_find(&counts, 1)->version, 3);
}
END_TEST

START_TEST(without_room_the_counts_are_partial_and_pushes_go_on)
{
    push(1, 1);
    room.places += PS_PUSH_COUNT_PLACES_MAX - 8; /* of others */
    for (uint64_t name = 2; name < 20; name++)
        push(name, 1);
    room.places -= PS_PUSH_COUNT_PLACES_MAX - 8;

    ck_assert(counts.is_partial);
    ck_assert_uint_eq(ps_push_counts_known(&counts), 6);
    ck_assert_uint_eq(ps_push_counts_find(&counts, 1)->pushes, 1);
    ck_assert_ptr_null(ps_push_counts_find(&counts, 19));
}
END_TEST

START_TEST(without_memory_nothing_changes)
{
    heap.refuse_at = heap.seen;

    ck_assert_int_eq(ps_push_counts_reserve(&counts, 1, &room, NULL), PS_ERR_NO_MEMORY);

    ck_assert_uint_eq(room.places, 0);
    ck_assert(!counts.is_partial);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("push_counts");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, ids_that_were_chosen_have_a_mark_at_both_ends);
    tcase_add_test(tests, each_name_has_its_own_count);
    tcase_add_test(tests, names_that_meet_are_told_apart);
    tcase_add_test(tests, a_later_version_that_was_counted_first_stays);
    tcase_add_test(tests, a_place_that_was_reserved_is_there_after_others_came);
    tcase_add_test(tests, without_room_the_counts_are_partial_and_pushes_go_on);
    tcase_add_test(tests, without_memory_nothing_changes);
    return run_tests("push_counts", tests);
}
