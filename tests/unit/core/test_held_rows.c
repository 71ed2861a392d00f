/* SPDX-License-Identifier: Apache-2.0 */
/* core/rounds/held_rows.c: what waits counts for as long as somebody has it. */
#include "server/core/rounds/held_rows.h"

#include "core_world.h"

static struct ps_parameter_spec *make_spec(const struct ps_allocator *memory)
{
    const struct ps_optimizer_settings settings = {.table.width = 2};
    struct ps_parameter_spec *spec =
        ps_parameter_spec_create(memory, text("t"), PS_F64, 2, (struct ps_bytes){0}, &settings);
    ck_assert_ptr_nonnull(spec);
    return spec;
}

START_TEST(rows_count_until_the_last_reference_goes)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_row_room room = {.bytes_max = UINT64_MAX};
    struct ps_parameter_spec *spec = make_spec(&memory);
    spec->row_room = &room;
    struct ps_held_rows *held = ps_held_rows_create(spec, 5);
    ck_assert_uint_eq(held->content.size, 5 * (8 + 16));
    ck_assert_ptr_eq(held->content.data, held->bytes);
    uint64_t own = atomic_load(&room.bytes);
    ck_assert_uint_ge(own, held->content.size);

    ps_held_rows_count(held, 1000);
    ck_assert_uint_eq(atomic_load(&room.bytes), own + 1000);
    ck_assert_ptr_eq(ps_held_rows_acquire(held), held);
    ps_held_rows_release(held);
    ck_assert_uint_eq(atomic_load(&room.bytes), own + 1000);
    /* The spec lives as long as what was made for it. */
    ps_parameter_spec_release(spec);
    ps_held_rows_release(held);

    ck_assert_uint_eq(atomic_load(&room.bytes), 0);
    ck_assert_int_eq(heap.live, 0);
    ps_held_rows_release(NULL);
}
END_TEST

START_TEST(without_room_nothing_is_counted_and_without_memory_nothing_is_made)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = make_spec(&memory);
    struct ps_held_rows *held = ps_held_rows_create(spec, 0);
    ck_assert_uint_eq(held->content.size, 0);
    ps_held_rows_count(held, 10);
    ck_assert_uint_eq(held->counted, 0);
    ps_held_rows_release(held);

    heap.refuse_at = heap.seen;
    ck_assert_ptr_null(ps_held_rows_create(spec, 5));
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("held_rows");
    tcase_add_test(tests, rows_count_until_the_last_reference_goes);
    tcase_add_test(tests, without_room_nothing_is_counted_and_without_memory_nothing_is_made);
    return run_tests("held_rows", tests);
}
