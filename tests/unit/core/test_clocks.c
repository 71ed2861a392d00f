/* SPDX-License-Identifier: Apache-2.0 */
/* clocks/clocks.c: groups under their names, and how many there may be. */
#include "server/core/clocks/clocks.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_clocks clocks;
static struct ps_clock_group *group;
static struct ps_error error;

static void begin(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_clocks_init(&clocks, &memory);
}

static void end(void)
{
    ps_clocks_check(&clocks);
    ps_clocks_fini(&clocks);
    ck_assert_int_eq(heap.live, 0);
}

static enum ps_status make(const char *name)
{
    const struct ps_clocks_record settings = {.workers = 2};
    enum ps_status status = ps_clocks_prepare(&clocks, ps_bytes_of_text(name), 2, &group, &error);
    if (status != PS_OK)
        return status;
    ps_clock_group_configure(group, &settings, 0);
    ps_clocks_keep(&clocks, group);
    return PS_OK;
}

START_TEST(a_name_finds_its_clocks)
{
    ck_assert_int_eq(make("a"), PS_OK);
    struct ps_clock_group *first = group;
    ck_assert_int_eq(make("b"), PS_OK);
    ck_assert_int_eq(make("a"), PS_OK);

    ck_assert_ptr_eq(group, first);
    ck_assert_uint_eq(clocks.count, 2);
    ck_assert_int_eq(ps_clocks_get(&clocks, ps_bytes_of_text("c"), &group, &error),
                     PS_ERR_NOT_FOUND);
    ck_assert_str_eq(error.text, "clocks c are not set at this server: call SetClocks");
    ps_clocks_clear(&clocks);
    ck_assert_ptr_null(ps_clocks_find(&clocks, ps_bytes_of_text("a")));
}
END_TEST

START_TEST(what_is_given_up_leaves_nothing_and_harms_nobody_who_is_there)
{
    ck_assert_int_eq(make("a"), PS_OK);
    ck_assert_int_eq(ps_clocks_prepare(&clocks, ps_bytes_of_text("a"), 9, &group, &error), PS_OK);
    ps_clocks_give_up(&clocks, group);
    ck_assert_uint_eq(ps_clocks_find(&clocks, ps_bytes_of_text("a"))->settings.workers, 2);
    ck_assert_int_eq(ps_clocks_prepare(&clocks, ps_bytes_of_text("b"), 9, &group, &error), PS_OK);
    ps_clocks_give_up(&clocks, group);
    ck_assert_uint_eq(clocks.count, 1);
}
END_TEST

START_TEST(names_and_their_number_are_bounded)
{
    char name[PS_CLOCKS_NAME_BYTES_MAX + 2] = "";
    ck_assert_int_eq(make(""), PS_ERR_BAD_INPUT);
    memset(name, 'n', PS_CLOCKS_NAME_BYTES_MAX + 1);
    ck_assert_int_eq(make(name), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_clocks_get(&clocks, ps_bytes_of_text(name), &group, &error),
                     PS_ERR_BAD_INPUT);
    for (int i = 0; i < PS_CLOCKS_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        ck_assert_int_eq(make(name), PS_OK);
    }
    ck_assert_int_eq(make("more"), PS_ERR_BUSY);
    ck_assert_str_eq(error.text, "this server has 64 clocks, as many as it may: remove one "
                                 "(psctl drop-clocks NAME)");
    ck_assert_int_eq(make("7"), PS_OK);
}
END_TEST

/* The newest, the oldest and one between them: each of the others stays as it is. */
START_TEST(a_removal_makes_room_and_leaves_the_others)
{
    static const char *const names[] = {"0", "31", "63"};
    char name[8];
    for (int i = 0; i < PS_CLOCKS_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        ck_assert_int_eq(make(name), PS_OK);
    }
    struct ps_clock_group *other = ps_clocks_find(&clocks, ps_bytes_of_text("5"));
    group = ps_clocks_find(&clocks, ps_bytes_of_text(names[_i]));

    ps_clocks_remove(&clocks, group, 9);

    ck_assert_uint_eq(clocks.count, PS_CLOCKS_MAX - 1);
    ck_assert_uint_eq(clocks.removed_at, 9);
    ck_assert_ptr_null(ps_clocks_find(&clocks, ps_bytes_of_text(names[_i])));
    ck_assert_ptr_eq(ps_clocks_find(&clocks, ps_bytes_of_text("5")), other);
    ps_clocks_check(&clocks);
    ck_assert_int_eq(make("more"), PS_OK);
    ck_assert_int_eq(make("another"), PS_ERR_BUSY);
    ps_clocks_clear(&clocks);
    ck_assert_uint_eq(clocks.removed_at, 0);
}
END_TEST

START_TEST(clocks_that_are_set_again_begin_anew)
{
    ck_assert_int_eq(make("a"), PS_OK);
    ps_clock_group_apply(group, &(struct ps_clock_record){.worker = 0, .clock = 5}, 0);
    ps_clock_group_apply(group, &(struct ps_clock_record){.worker = 1, .evicted = true}, 0);
    ck_assert_uint_eq(ps_clock_group_minimum(group), 5);

    ps_clocks_remove(&clocks, group, 9);

    ck_assert_uint_eq(clocks.count, 0);
    ck_assert_int_eq(make("a"), PS_OK);
    ck_assert_uint_eq(ps_clock_group_clock(group, 0), 0);
    ck_assert(!group->workers[1].is_evicted);
    ck_assert_uint_eq(group->position, 0);
}
END_TEST

/* A worker is not silent since before anybody could have heard of it, nor behind a record of it. */
START_TEST(who_begins_or_is_replayed_was_heard_of)
{
    struct ps_clocks_record settings = {
        .workers = 2, .straggler = PS_STRAGGLER_EVICT, .ttl_ms = 100, .begins = true};
    struct ps_clock_record becomes;
    ck_assert_int_eq(make("a"), PS_OK);
    ps_clock_group_configure(group, &settings, 5000);
    ck_assert(!ps_clock_group_overdue(group, 5099, &becomes));
    ck_assert(ps_clock_group_overdue(group, 5100, &becomes));

    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct ps_clock_record record = {.worker = rank, .clock = 1};
        ps_clock_group_apply(group, &record, 6000);
    }
    ck_assert(!ps_clock_group_overdue(group, 6099, &becomes));
}
END_TEST

/* One bound for all: what one group has announced the others cannot. */
START_TEST(announced_keys_of_all_groups_take_room)
{
    static const char *const names[] = {"a", "b"};
    const uint64_t keys[] = {1, 2, 3};
    const struct ps_bytes piece = {(const uint8_t *)keys, sizeof keys};
    const struct ps_clocks_record settings = {.workers = 2,
                                              .consistency = PS_CONSISTENCY_SPARSE_SSP};
    const struct ps_sparse_read read = {.keys = ps_view_of(&piece), .room = 3};
    bool is_new;
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(make(names[i]), PS_OK);
        ps_clock_group_configure(group, &settings, 0);
        ck_assert_int_eq(ps_sparse_ssp_announce(&group->sparse, 0, &read, &is_new, &error), PS_OK);
    }
    ck_assert_uint_eq(ps_clocks_room(&clocks), PS_CLOCK_ANNOUNCED_KEYS_MAX - 6);
}
END_TEST

START_TEST(making_clocks_survives_any_refused_allocation)
{
    heap = (struct fault_heap){.refuse_at = _i};

    ck_assert_int_eq(make("a"), _i < 4 ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_uint_eq(clocks.count, _i < 4 ? 0 : 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clocks");
    TCase *tests = tcase_create("clocks");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_name_finds_its_clocks);
    tcase_add_test(tests, what_is_given_up_leaves_nothing_and_harms_nobody_who_is_there);
    tcase_add_test(tests, names_and_their_number_are_bounded);
    tcase_add_loop_test(tests, a_removal_makes_room_and_leaves_the_others, 0, 3);
    tcase_add_test(tests, clocks_that_are_set_again_begin_anew);
    tcase_add_test(tests, who_begins_or_is_replayed_was_heard_of);
    tcase_add_test(tests, announced_keys_of_all_groups_take_room);
    tcase_add_loop_test(tests, making_clocks_survives_any_refused_allocation, 0, 5);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
