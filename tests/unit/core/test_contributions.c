/* SPDX-License-Identifier: Apache-2.0 */
/* core/rounds/contributions.c: what is held, for how long, and what it may take. */
#include "server/core/rounds/contributions.h"

#include "core_world.h"

static void hold(struct ps_contributions *contributions, uint32_t rank,
                 struct ps_parameter_spec *spec, uint64_t now_ms)
{
    const struct ps_contribution one = {.values = ps_blocks_create(spec), .weight = 1};
    ps_contributions_hold(contributions, rank, &one, now_ms);
}

static struct ps_parameter_spec *make_spec(const struct ps_allocator *memory, uint32_t workers,
                                           uint64_t count)
{
    const struct ps_optimizer_settings settings = {.rounds = {.workers = workers}};
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(memory, text("m"), PS_F32, count, (struct ps_bytes){0}, &settings);
    ck_assert_ptr_nonnull(spec);
    return spec;
}

START_TEST(a_round_that_ends_gives_back_what_was_held)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    static const uint8_t nobody[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)];
    struct ps_parameter_spec *spec = make_spec(&memory, 3, 4);
    struct ps_contributions *contributions = ps_contributions_create(&memory, 3);
    int64_t before = heap.live;
    hold(contributions, 1, spec, 7);
    ps_contributions_check(contributions);
    ck_assert_uint_eq(contributions->round.first_ms, 7);
    ck_assert_uint_eq(ps_contributions_held_bytes(contributions), 16);

    ps_contributions_next(contributions, nobody);

    ps_contributions_check(contributions);
    ck_assert_int_eq(heap.live, before);
    hold(contributions, 2, spec, 8);
    ps_contributions_destroy(contributions);
    ps_contributions_destroy(NULL);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(every_worker_may_have_one_contribution_and_the_product_never_wraps)
{
    struct ps_parameter_spec *spec = make_spec(ps_allocator_heap(), 3, 4);
    ck_assert_uint_eq(ps_contributions_bytes_max(spec), 48);
    ps_parameter_spec_release(spec);
    spec = make_spec(ps_allocator_heap(), 0, 4);
    ck_assert_uint_eq(ps_contributions_bytes_max(spec), 0);
    ps_parameter_spec_release(spec);
    spec = make_spec(ps_allocator_heap(), PS_ROUND_WORKERS_MAX, UINT64_C(1) << 57);
    ck_assert_uint_eq(ps_contributions_bytes_max(spec), UINT64_MAX / 2);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(rows_take_what_came_and_nothing_is_reserved_for_them)
{
    static const uint8_t nobody[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)];
    const struct ps_optimizer_settings settings = {.rounds.workers = 2, .table.width = 4};
    struct ps_row_room room = {.bytes_max = 1000};
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        ps_allocator_heap(), text("t"), PS_F32, 4, (struct ps_bytes){0}, &settings);
    spec->row_room = &room;
    struct ps_contributions *contributions = ps_contributions_create(ps_allocator_heap(), 2);
    const struct ps_contribution one = {.rows = ps_held_rows_create(spec, 3), .weight = 1};
    ps_contributions_hold(contributions, 0, &one, 1);

    ps_contributions_check(contributions);
    ck_assert_uint_eq(ps_contributions_bytes_max(spec), 0);
    ck_assert_uint_eq(ps_contributions_held_bytes(contributions), 3 * (8 + 16));
    ck_assert_uint_ge(atomic_load(&room.bytes), 3 * (8 + 16));
    ps_contributions_next(contributions, nobody);
    ck_assert_uint_eq(atomic_load(&room.bytes), 0);

    ps_contributions_destroy(contributions);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(without_memory_there_are_none)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    ck_assert_ptr_null(ps_contributions_create(&memory, 3));
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("contributions");
    tcase_add_test(tests, a_round_that_ends_gives_back_what_was_held);
    tcase_add_test(tests, every_worker_may_have_one_contribution_and_the_product_never_wraps);
    tcase_add_test(tests, rows_take_what_came_and_nothing_is_reserved_for_them);
    tcase_add_test(tests, without_memory_there_are_none);
    return run_tests("contributions", tests);
}
