/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/journal_queue.c: what a record keeps, what the bounds are. */
#include "server/core/values/journal_queue.h"

#include "tests/unit/core/core_world.h"

#include <string.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_journal_queue queue;
static struct ps_error error;
static int kept;
static bool keeps;

static void begin_test(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    kept = 0;
    keeps = true;
    ps_journal_queue_init(&queue, &memory, true, 20000);
}

static void end_test(void)
{
    ps_journal_queue_check(&queue);
    ps_journal_queue_fini(&queue);
    ck_assert_int_eq(heap.live, 0);
    ck_assert_int_eq(kept, 0);
}

static void *keep(void *self)
{
    if (!keeps)
        return NULL;
    kept++;
    return self;
}

static void drop(void *handle)
{
    ck_assert_ptr_eq(handle, &queue);
    kept--;
}

static uint8_t letters[30000];

static enum ps_status put(size_t size, uint64_t version)
{
    /* Three pieces, one of them empty. */
    const struct ps_bytes pieces[] = {
        {letters, size / 2}, {NULL, 0}, {letters + size / 2, size - size / 2}};
    const struct ps_push_request request = {.name = text("w"),
                                            .content = {pieces, 3, size},
                                            .hold = {.keep = keep, .drop = drop, .self = &queue}};
    struct ps_journal_place place;
    PS_TRY(ps_journal_place_init(&place, &queue, &request, 0, 5, &error));
    enum ps_status status = ps_journal_queue_put(&place, version, &error);
    ps_journal_place_release(&place);
    return status;
}

static void expect_letters(const struct ps_record *record, size_t size)
{
    static uint8_t content[sizeof letters];
    ck_assert_uint_eq(record->content.size, size);
    ps_view_copy(record->content, 0, content, size);
    ck_assert_mem_eq(content, letters, size);
}

START_TEST(large_content_is_held_where_it_is)
{
    struct ps_record record;
    ck_assert_int_eq(put(PS_JOURNAL_HOLD_BYTES, 1), PS_OK);
    ck_assert_int_eq(kept, 1);

    ck_assert_uint_eq(ps_journal_queue_take(&queue, &record, 1), 1);

    ck_assert_ptr_eq(record.content.pieces[0].data, letters);
    ck_assert_uint_eq(record.content.piece_count, 3);
    ck_assert_int_eq(kept, 1);
    ps_journal_queue_written(&queue, UINT64_MAX, PS_OK, NULL);
    ck_assert_int_eq(kept, 0);
}
END_TEST

START_TEST(content_that_is_small_or_cannot_be_held_is_copied)
{
    struct ps_record record;
    size_t size = _i == 0 ? PS_JOURNAL_HOLD_BYTES - 1 : PS_JOURNAL_HOLD_BYTES + 1;
    keeps = false;
    memset(letters, 7, sizeof letters);
    ck_assert_int_eq(put(size, 1), PS_OK);
    ck_assert_int_eq(kept, 0);

    ck_assert_uint_eq(ps_journal_queue_take(&queue, &record, 1), 1);

    ck_assert_ptr_ne(record.content.pieces[0].data, letters);
    expect_letters(&record, size);
    ps_journal_queue_written(&queue, UINT64_MAX, PS_OK, NULL);
}
END_TEST

START_TEST(few_bytes_are_taken_at_once_but_always_a_record)
{
    static struct ps_record records[512];
    const size_t most = PS_JOURNAL_BATCH_BYTES / sizeof letters;
    ps_journal_queue_fini(&queue);
    ps_journal_queue_init(&queue, &memory, true, 4 * PS_JOURNAL_BATCH_BYTES);
    for (uint64_t version = 1; version <= 2 * most; version++)
        ck_assert_int_eq(put(sizeof letters, version), PS_OK);

    size_t first = ps_journal_queue_take(&queue, records, 512);

    ck_assert_uint_ge(first, most - 2);
    ck_assert_uint_le(first, most);
    ck_assert_uint_eq(ps_journal_queue_take(&queue, records, 512), first);
    ck_assert_uint_eq(records[0].position, first + 1);
    ps_journal_queue_check(&queue);
    ps_journal_queue_written(&queue, UINT64_MAX, PS_OK, NULL);
}
END_TEST

/* The disk is given one half while the other is copied, and not half of little. */
START_TEST(half_of_what_waits_is_taken_while_nothing_is_written)
{
    static struct ps_record records[512];
    const size_t many = (768u << 10) / sizeof letters;
    const size_t few = (384u << 10) / sizeof letters;
    uint64_t version = 0;
    ps_journal_queue_fini(&queue);
    ps_journal_queue_init(&queue, &memory, true, 4 * PS_JOURNAL_BATCH_BYTES);
    for (size_t i = 0; i < many; i++)
        ck_assert_int_eq(put(sizeof letters, ++version), PS_OK);

    ck_assert_uint_eq(ps_journal_queue_take(&queue, records, 512), many / 2);
    ck_assert_uint_eq(ps_journal_queue_take(&queue, records, 512), many - many / 2);
    ps_journal_queue_written(&queue, UINT64_MAX, PS_OK, NULL);

    for (size_t i = 0; i < few; i++)
        ck_assert_int_eq(put(sizeof letters, ++version), PS_OK);
    ck_assert_uint_eq(ps_journal_queue_take(&queue, records, 512), few);
    ps_journal_queue_written(&queue, UINT64_MAX, PS_OK, NULL);
}
END_TEST

START_TEST(records_are_taken_in_order_and_in_parts)
{
    struct ps_record records[3];
    for (uint64_t version = 1; version <= 5; version++)
        ck_assert_int_eq(put(10, version), PS_OK);

    ck_assert_uint_eq(ps_journal_queue_take(&queue, records, 3), 3);
    ps_journal_queue_check(&queue);
    ck_assert_uint_eq(records[0].position, 1);
    ck_assert_uint_eq(records[2].position, 3);
    ck_assert_int_eq(put(10, 6), PS_OK);
    ps_journal_queue_written(&queue, UINT64_MAX, PS_OK, NULL);
    ck_assert_uint_eq(queue.written, 3);
    ck_assert_uint_eq(ps_journal_queue_take(&queue, records, 3), 3);
    ck_assert_uint_eq(records[2].position, 6);
    ck_assert_uint_eq(records[2].version, 6);
    ck_assert_uint_eq(records[2].epoch, 5);
    ps_journal_queue_written(&queue, UINT64_MAX, PS_OK, NULL);
    ck_assert_uint_eq(ps_journal_queue_take(&queue, records, 3), 0);
}
END_TEST

START_TEST(a_large_record_need_not_wait_for_an_empty_queue)
{
    ck_assert_int_eq(put(1, 1), PS_OK);

    ck_assert_int_eq(put(sizeof letters, 2), PS_OK);

    ck_assert_int_eq(put(1, 3), PS_ERR_BUSY);
}
END_TEST

START_TEST(p6_held_content_counts_and_one_record_always_fits)
{
    ck_assert_int_eq(put(sizeof letters, 1), PS_OK);

    ck_assert_int_eq(put(1, 2), PS_ERR_BUSY);

    ck_assert_uint_eq(queue.position, 1);
    ck_assert_int_eq(kept, 1);
}
END_TEST

START_TEST(what_the_writer_has_taken_still_counts)
{
    struct ps_record record;
    ck_assert_int_eq(put(sizeof letters, 1), PS_OK);
    ck_assert_uint_eq(ps_journal_queue_take(&queue, &record, 1), 1);
    ck_assert_int_eq(put(1, 2), PS_ERR_BUSY);

    ps_journal_queue_written(&queue, UINT64_MAX, PS_OK, NULL);

    ck_assert_int_eq(put(1, 2), PS_OK);
}
END_TEST

START_TEST(a_refused_allocation_drops_what_was_held)
{
    heap.refuse_at = heap.seen;

    ck_assert_int_eq(put(sizeof letters, 1), PS_ERR_NO_MEMORY);

    heap.refuse_at = -1;
    ck_assert_int_eq(kept, 0);
    ck_assert_uint_eq(queue.position, 0);
}
END_TEST

START_TEST(without_a_journal_only_positions_are_given)
{
    struct ps_record record;
    ps_journal_queue_fini(&queue);
    ps_journal_queue_init(&queue, &memory, false, 10);

    for (uint64_t version = 1; version <= 3; version++)
        ck_assert_int_eq(put(sizeof letters, version), PS_OK);

    ck_assert_uint_eq(queue.position, 3);
    ck_assert_int_eq(kept, 0);
    ck_assert_uint_eq(ps_journal_queue_take(&queue, &record, 1), 0);
}
END_TEST

START_TEST(destroying_a_queue_gives_everything_back)
{
    struct ps_record record;
    ck_assert_int_eq(put(5000, 1), PS_OK);
    ck_assert_int_eq(put(5000, 2), PS_OK);
    ck_assert_uint_eq(ps_journal_queue_take(&queue, &record, 1), 1);
    ck_assert_int_eq(kept, 2);
}
END_TEST

START_TEST(a_checkpoint_of_another_life_says_nothing)
{
    ck_assert_int_eq(put(1, 1), PS_OK);
    ps_journal_queue_reset(&queue);

    ps_journal_queue_saved(&queue, 1, 0);

    ck_assert(!queue.has_base);
    ps_journal_queue_saved(&queue, 2, 0);
    ck_assert(queue.has_base);
}
END_TEST

/* Takes and writes what waits. */
static void write_all(void)
{
    struct ps_record records[16];
    while (ps_journal_queue_take(&queue, records, 16) > 0)
        ps_journal_queue_written(&queue, UINT64_MAX, PS_OK, NULL);
}

START_TEST(b6_what_is_behind_a_snapshot_counts_until_a_later_one_is_saved)
{
    struct ps_journal_state state;
    ck_assert_int_eq(put(9000, 1), PS_OK);
    write_all();
    ck_assert(!ps_journal_queue_grew(&queue, 12289));
    ck_assert(ps_journal_queue_grew(&queue, 12288));
    ck_assert(!ps_journal_queue_grew(&queue, 12288)); /* once */
    ps_journal_queue_mark(&queue);
    ck_assert_int_eq(put(1, 2), PS_OK);
    write_all();

    ps_journal_queue_saved(&queue, 1, 1);

    ps_journal_queue_look(&queue, &state);
    ck_assert_uint_eq(state.behind_bytes, 4096);
    ck_assert(!ps_journal_queue_grew(&queue, 4097));
    ck_assert(ps_journal_queue_grew(&queue, 4096));
    ps_journal_queue_reset(&queue);
    ps_journal_queue_look(&queue, &state);
    ck_assert_uint_eq(state.behind_bytes, 0);
}
END_TEST

START_TEST(b6_what_could_not_be_written_does_not_count)
{
    struct ps_journal_state state;
    struct ps_record record;
    ck_assert_int_eq(put(9000, 1), PS_OK);
    ck_assert_uint_eq(ps_journal_queue_take(&queue, &record, 1), 1);

    ps_journal_queue_written(&queue, UINT64_MAX, PS_ERR_IO, NULL);

    ps_journal_queue_look(&queue, &state);
    ck_assert_uint_eq(state.behind_bytes, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("journal_queue");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, large_content_is_held_where_it_is);
    tcase_add_loop_test(tests, content_that_is_small_or_cannot_be_held_is_copied, 0, 2);
    tcase_add_test(tests, few_bytes_are_taken_at_once_but_always_a_record);
    tcase_add_test(tests, half_of_what_waits_is_taken_while_nothing_is_written);
    tcase_add_test(tests, records_are_taken_in_order_and_in_parts);
    tcase_add_test(tests, a_large_record_need_not_wait_for_an_empty_queue);
    tcase_add_test(tests, b6_what_is_behind_a_snapshot_counts_until_a_later_one_is_saved);
    tcase_add_test(tests, b6_what_could_not_be_written_does_not_count);
    tcase_add_test(tests, p6_held_content_counts_and_one_record_always_fits);
    tcase_add_test(tests, what_the_writer_has_taken_still_counts);
    tcase_add_test(tests, a_refused_allocation_drops_what_was_held);
    tcase_add_test(tests, without_a_journal_only_positions_are_given);
    tcase_add_test(tests, destroying_a_queue_gives_everything_back);
    tcase_add_test(tests, a_checkpoint_of_another_life_says_nothing);
    return run_tests("journal_queue", tests);
}
