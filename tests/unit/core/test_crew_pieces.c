/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/crew_pieces.c: every piece once, by whoever comes, and the first failure. */
#include "server/core/values/crew_pieces.h"

#include "base/thread.h"
#include "tests/unit/core/core_world.h"

#include <stdio.h>
#include <string.h>

#define PIECES 1000
#define THREADS 4
#define NEVER ((size_t)-1)

struct sheet {
    size_t fails_at; /* piece; NEVER: none */
    int done[PIECES];
    int rooms_kept; /* pieces that found in their room what the one before had left */
};

static struct sheet sheet;

static void setup(void)
{
    sheet = (struct sheet){.fails_at = NEVER};
}

static enum ps_status do_one(void *self, size_t piece, void *room, struct ps_error *error)
{
    struct sheet *of = self;
    (void)room;
    of->done[piece]++;
    if (piece == of->fails_at)
        return ps_fail(error, PS_ERR_IO, "piece %zu", piece);
    return PS_OK;
}

/* Needs a room, and counts how often it was there before. */
static enum ps_status do_in_room(void *self, size_t piece, void *room, struct ps_error *error)
{
    struct sheet *of = self;
    size_t *last = room;
    ck_assert_ptr_nonnull(room);
    if (piece > 0 && *last == piece - 1)
        of->rooms_kept++;
    *last = piece;
    return do_one(self, piece, room, error);
}

static void run_in_threads(void *self, void (*work)(void *argument), void *argument)
{
    struct ps_thread threads[THREADS] = {0};
    (void)self;
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "crew", work, argument, NULL), PS_OK);
    for (size_t i = 0; i < THREADS; i++)
        ps_thread_join(&threads[i]);
}

static void run_twice(void *self, void (*work)(void *argument), void *argument)
{
    (void)self;
    work(argument);
    work(argument);
}

static const struct ps_crew threads = {run_in_threads, NULL};
static const struct ps_crew two_turns = {run_twice, NULL};

static int done_count(void)
{
    int count = 0;
    for (size_t i = 0; i < PIECES; i++)
        count += sheet.done[i];
    return count;
}

/* The counts are no atomics: the thread sanitizer sees two threads at one piece, and a read of what
 * a thread left before it has ended. */
START_TEST(threads_do_every_piece_once)
{
    const struct ps_crew_pieces pieces = {do_one, &sheet, PIECES, .room_bytes = 64,
                                          .memory = ps_allocator_heap()};

    ck_assert_int_eq(ps_crew_pieces_run(&pieces, &threads, NULL), PS_OK);

    for (size_t i = 0; i < PIECES; i++)
        ck_assert_int_eq(sheet.done[i], 1);
}
END_TEST

START_TEST(who_has_no_crew_does_it_alone)
{
    const struct ps_crew_pieces pieces = {.work = do_one, .self = &sheet, .count = PIECES};

    ck_assert_int_eq(ps_crew_pieces_run(&pieces, NULL, NULL), PS_OK);

    for (size_t i = 0; i < PIECES; i++)
        ck_assert_int_eq(sheet.done[i], 1);
}
END_TEST

/* The second turn comes too late for a piece: one room was asked for, and it went back. */
START_TEST(a_room_is_kept_from_piece_to_piece)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_crew_pieces pieces = {do_in_room, &sheet, PIECES, .room_bytes = sizeof(size_t),
                                          .memory = &memory};

    ck_assert_int_eq(ps_crew_pieces_run(&pieces, &two_turns, NULL), PS_OK);

    ck_assert_int_eq(sheet.rooms_kept, PIECES - 1);
    ck_assert_int_eq(heap.seen, 1);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(no_pieces_need_no_room)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_crew_pieces pieces = {do_in_room, &sheet, 0, .room_bytes = sizeof(size_t),
                                          .memory = &memory};

    ck_assert_int_eq(ps_crew_pieces_run(&pieces, &two_turns, NULL), PS_OK);

    ck_assert_int_eq(heap.seen, 0);
}
END_TEST

START_TEST(after_a_failure_no_piece_is_begun)
{
    const struct ps_crew_pieces pieces = {.work = do_one, .self = &sheet, .count = PIECES};
    struct ps_error error = {0};
    sheet.fails_at = 7;

    ck_assert_int_eq(ps_crew_pieces_run(&pieces, &two_turns, &error), PS_ERR_IO);

    ck_assert_str_eq(error.text, "piece 7");
    ck_assert_int_eq(done_count(), 8);
}
END_TEST

static enum ps_status fail_piece(void *self, size_t piece, void *room, struct ps_error *error)
{
    struct sheet *of = self;
    (void)room;
    of->done[piece]++;
    return ps_fail(error, PS_ERR_IO, "piece %zu", piece);
}

/* Every piece fails, in all threads at once. The thread sanitizer sees two that tell together. */
START_TEST(of_several_failures_one_is_told)
{
    const struct ps_crew_pieces pieces = {.work = fail_piece, .self = &sheet, .count = PIECES};
    struct ps_error error = {0};
    char text[32];

    ck_assert_int_eq(ps_crew_pieces_run(&pieces, &threads, &error), PS_ERR_IO);

    ck_assert_int_le(done_count(), THREADS);
    for (size_t i = 0; i < PIECES && sheet.done[i] > 0; i++) {
        snprintf(text, sizeof text, "piece %zu", i);
        if (strcmp(error.text, text) == 0)
            return;
    }
    ck_abort_msg("told: %s", error.text);
}
END_TEST

START_TEST(a_thread_without_room_fails_its_piece)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_crew_pieces pieces = {do_in_room, &sheet, PIECES, .room_bytes = sizeof(size_t),
                                          .memory = &memory};
    struct ps_error error = {0};

    ck_assert_int_eq(ps_crew_pieces_run(&pieces, &two_turns, &error), PS_ERR_NO_MEMORY);

    ck_assert_str_eq(error.text, "no memory for a thread: 8 bytes");
    ck_assert_int_eq(done_count(), 0);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("crew_pieces");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, threads_do_every_piece_once);
    tcase_add_test(tests, who_has_no_crew_does_it_alone);
    tcase_add_test(tests, a_room_is_kept_from_piece_to_piece);
    tcase_add_test(tests, no_pieces_need_no_room);
    tcase_add_test(tests, after_a_failure_no_piece_is_begun);
    tcase_add_test(tests, of_several_failures_one_is_told);
    tcase_add_test(tests, a_thread_without_room_fails_its_piece);
    return run_tests("crew_pieces", tests);
}
