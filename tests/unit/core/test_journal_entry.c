/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/journal_entry.c: a record owns all that it points to. */
#include "server/core/values/journal_entry.h"

#include "tests/unit/core/core_world.h"

#include <string.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static int held;

static void begin_test(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    held = 0;
}

static void drop(void *handle)
{
    ck_assert_ptr_eq(handle, &held);
    held--;
}

/* A push of "w" in two pieces, with the id "client"; all of it lies in `bytes`. */
static struct ps_push_request request_in(uint8_t bytes[32], struct ps_bytes pieces[2])
{
    memcpy(bytes, "wclientabcdefgh", 15);
    pieces[0] = (struct ps_bytes){bytes + 7, 3};
    pieces[1] = (struct ps_bytes){bytes + 10, 5};
    return (struct ps_push_request){
        .name = {bytes, 1},
        .request = {.present = true, .client_id = {bytes + 1, 6}, .session = 3, .sequence = 4},
        .content = {pieces, 2, 8},
        .hold = {.drop = drop}};
}

/* The record of a push. */
static struct ps_journal_entry *make(const struct ps_allocator *from,
                                     const struct ps_push_request *request, void *kept)
{
    const struct ps_journal_draft draft = {.type = PS_RECORD_PUSH,
                                           .name = request->name,
                                           .dtype = request->dtype,
                                           .encoding = request->encoding,
                                           .request = request->request,
                                           .content = request->content,
                                           .hold = request->hold};
    return ps_journal_entry_make(from, &draft, kept);
}

START_TEST(a_copied_record_outlives_its_request)
{
    uint8_t bytes[32];
    struct ps_bytes pieces[2];
    const struct ps_push_request request = request_in(bytes, pieces);

    struct ps_journal_entry *entry = make(&memory, &request, NULL);

    ck_assert_ptr_nonnull(entry);
    memset(bytes, 0, sizeof bytes);
    memset(pieces, 0, sizeof pieces);
    ck_assert(ps_bytes_equal(entry->record.name, text("w")));
    ck_assert(ps_bytes_equal(entry->record.client_id, text("client")));
    ck_assert_uint_eq(entry->record.session, 3);
    ck_assert_uint_eq(entry->record.sequence, 4);
    ck_assert_uint_eq(entry->record.content.piece_count, 1);
    ck_assert(ps_bytes_equal(entry->record.content.pieces[0], text("abcdefgh")));
    ps_journal_entry_release(entry);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* Only the list of pieces is copied; their bytes stay where they were received. */
START_TEST(a_held_record_lets_go_once)
{
    uint8_t bytes[32];
    struct ps_bytes pieces[2];
    const struct ps_push_request request = request_in(bytes, pieces);
    held = 1;

    struct ps_journal_entry *entry = make(&memory, &request, &held);

    ck_assert_ptr_nonnull(entry);
    memset(pieces, 0, sizeof pieces);
    ck_assert_uint_eq(entry->record.content.piece_count, 2);
    ck_assert_ptr_eq(entry->record.content.pieces[1].data, bytes + 10);
    ck_assert_uint_gt(entry->bytes, 8);
    ps_journal_entries_release(entry);
    ck_assert_int_eq(held, 0);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

static bool is_counted;

static uint64_t count(void *handle)
{
    ck_assert_ptr_eq(handle, &held);
    bool was_counted = is_counted;
    is_counted = true;
    return was_counted ? 0 : 1 << 20;
}

static void count_back(void *handle)
{
    ck_assert_ptr_eq(handle, &held);
    ck_assert(is_counted);
    is_counted = false;
}

/* A content of eight bytes holds the whole message, of a mebibyte, in which it came. */
START_TEST(a_held_record_counts_the_message_that_it_holds_once)
{
    uint8_t bytes[32];
    struct ps_bytes pieces[2];
    struct ps_push_request request = request_in(bytes, pieces);
    request.hold.count = count;
    request.hold.count_back = count_back;
    held = 3;

    struct ps_journal_entry *first = make(&memory, &request, &held);
    struct ps_journal_entry *second = make(&memory, &request, &held);

    ck_assert_uint_ge(first->bytes, 1 << 20);
    ck_assert_uint_lt(second->bytes, 1024);
    ps_journal_entry_release(first);
    struct ps_journal_entry *third = make(&memory, &request, &held);
    ck_assert_uint_ge(third->bytes, 1 << 20);
    ps_journal_entry_release(second);
    ps_journal_entry_release(third);
    ck_assert(!is_counted);
    ck_assert_int_eq(held, 0);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(no_memory_leaves_the_content_with_the_caller)
{
    uint8_t bytes[32];
    struct ps_bytes pieces[2];
    const struct ps_push_request request = request_in(bytes, pieces);
    held = 1;
    heap.refuse_at = 0;

    ck_assert_ptr_null(make(&memory, &request, &held));

    ck_assert_int_eq(held, 1);
    ps_journal_entries_release(NULL);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("journal_entry");
    tcase_add_checked_fixture(tests, begin_test, NULL);
    tcase_add_test(tests, a_copied_record_outlives_its_request);
    tcase_add_test(tests, a_held_record_lets_go_once);
    tcase_add_test(tests, a_held_record_counts_the_message_that_it_holds_once);
    tcase_add_test(tests, no_memory_leaves_the_content_with_the_caller);
    return run_tests("journal_entry", tests);
}
