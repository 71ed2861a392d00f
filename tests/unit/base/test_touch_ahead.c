/* SPDX-License-Identifier: Apache-2.0 */
/* base/touch_ahead.c: memory that is there before somebody writes it, bytes that stay what they
 * are, and wishes that are forgotten. Whether a page is there the system says (mincore). */
#include "base/touch_ahead.h"

#include "base/slab.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define SLABS 3
#define BYTES (SLABS * (size_t)PS_SLAB_BYTES)

static struct ps_touch_ahead ahead;
static uint8_t *memory;
static int wakes;

static void note_wake(void *self)
{
    ck_assert_ptr_eq(self, &wakes);
    wakes++;
}

static void open(void)
{
    wakes = 0;
    ps_touch_ahead_init(&ahead, note_wake, &wakes);
    memory = ps_slabs_take(SLABS);
    ck_assert_ptr_nonnull(memory);
}

static void close(void)
{
    ps_touch_ahead_forget(&ahead, memory, BYTES);
    ps_slabs_give(memory, SLABS);
    ps_touch_ahead_fini(&ahead);
}

/* Pages of so many bytes that are in memory. */
static size_t pages_there(const uint8_t *begin, size_t bytes)
{
    static unsigned char there[BYTES / 4096];
    size_t count = 0;
    ck_assert_int_eq(mincore((void *)(uintptr_t)begin, bytes, there), 0);
    for (size_t i = 0; i < bytes / PAGE; i++)
        count += there[i] & 1;
    return count;
}

static void touch_all(void)
{
    while (ps_touch_ahead_turn(&ahead)) {
    }
}

START_TEST(wanted_memory_is_there_and_no_other)
{
    ck_assert_uint_eq(pages_there(memory, BYTES), 0);

    ps_touch_ahead_want(&ahead, memory, PS_SLAB_BYTES);
    ck_assert_int_eq(wakes, 1);
    ck_assert(ps_touch_ahead_turn(&ahead));

    /* A kernel before 5.14 has no word for it: then nothing is there, and nothing is wrong. */
    size_t there = pages_there(memory, PS_SLAB_BYTES);
    ck_assert(there == PS_SLAB_BYTES / PAGE || there == 0);
    ck_assert_uint_eq(pages_there(memory + PS_SLAB_BYTES, BYTES - PS_SLAB_BYTES), 0);
    ck_assert(!ps_touch_ahead_turn(&ahead));
}
END_TEST

START_TEST(bytes_that_were_written_stay)
{
    memory[17] = 4;
    memory[PS_SLAB_BYTES + 5] = 9;

    ps_touch_ahead_want(&ahead, memory, BYTES);
    touch_all();

    ck_assert_uint_eq(memory[17], 4);
    ck_assert_uint_eq(memory[PS_SLAB_BYTES + 5], 9);
    ck_assert_uint_eq(memory[BYTES - 1], 0);
}
END_TEST

START_TEST(only_whole_pages_are_touched)
{
    ps_touch_ahead_want(&ahead, memory + 1, PAGE);
    ck_assert(!ps_touch_ahead_turn(&ahead));
    ck_assert_int_eq(wakes, 0);

    ps_touch_ahead_want(&ahead, memory + 1, 2 * PAGE);
    ck_assert(ps_touch_ahead_turn(&ahead));
}
END_TEST

START_TEST(a_large_wish_takes_a_turn_for_each_slab)
{
    ps_touch_ahead_want(&ahead, memory, BYTES);

    for (int i = 0; i < SLABS; i++)
        ck_assert(ps_touch_ahead_turn(&ahead));
    ck_assert(!ps_touch_ahead_turn(&ahead));
}
END_TEST

START_TEST(what_is_wanted_is_due_until_it_was_touched)
{
    ps_touch_ahead_want(&ahead, memory + PS_SLAB_BYTES, 2 * (size_t)PS_SLAB_BYTES);
    ck_assert(!ps_touch_ahead_is_due(&ahead, memory, PS_SLAB_BYTES));
    ck_assert(ps_touch_ahead_is_due(&ahead, memory, BYTES));

    ck_assert(ps_touch_ahead_turn(&ahead));
    ck_assert(!ps_touch_ahead_is_due(&ahead, memory + PS_SLAB_BYTES, PS_SLAB_BYTES));
    ck_assert(ps_touch_ahead_is_due(&ahead, memory + 2 * (size_t)PS_SLAB_BYTES, PAGE));

    ck_assert(ps_touch_ahead_turn(&ahead));
    ck_assert(!ps_touch_ahead_is_due(&ahead, memory, BYTES));
    ck_assert(!ps_touch_ahead_is_due(NULL, memory, BYTES));
}
END_TEST

START_TEST(what_is_forgotten_is_not_touched)
{
    ps_touch_ahead_want(&ahead, memory, PS_SLAB_BYTES);
    ps_touch_ahead_want(&ahead, memory + PS_SLAB_BYTES, PS_SLAB_BYTES);

    ps_touch_ahead_forget(&ahead, memory + PAGE, PAGE);
    touch_all();

    ck_assert_uint_eq(pages_there(memory, PS_SLAB_BYTES), 0);
    ck_assert_uint_eq(ahead.count, 0);
}
END_TEST

START_TEST(too_many_wishes_leave_the_newest)
{
    for (size_t i = 0; i < PS_TOUCH_AHEAD_MAX + 5; i++)
        ps_touch_ahead_want(&ahead, memory + i * PAGE, PAGE);

    ck_assert_uint_eq(ahead.count, PS_TOUCH_AHEAD_MAX);
    ck_assert_ptr_eq(ahead.wishes[0].begin, memory + 5 * PAGE);
    touch_all();
}
END_TEST

/* Another thread touches while this one writes and gives memory back: under the thread sanitizer a
 * race, and without it a crash, would show. */
static _Atomic bool ending;

static void touch_until_the_end(void *argument)
{
    (void)argument;
    while (!ending)
        (void)ps_touch_ahead_turn(&ahead);
}

START_TEST(memory_goes_while_another_thread_touches)
{
    struct ps_thread thread;
    ending = false;
    ck_assert_int_eq(ps_thread_start(&thread, "touch", touch_until_the_end, NULL, NULL), PS_OK);

    for (int i = 0; i < 200; i++) {
        uint8_t *slab = ps_slab_take();
        ps_touch_ahead_want(&ahead, slab, PS_SLAB_BYTES);
        slab[i] = 1;
        ck_assert_uint_eq(slab[i], 1);
        ps_touch_ahead_forget(&ahead, slab, PS_SLAB_BYTES);
        ps_slab_give(slab);
    }

    ending = true;
    ps_thread_join(&thread);
}
END_TEST

START_TEST(nobody_who_touches_is_no_fault)
{
    ps_touch_ahead_want(NULL, memory, BYTES);
    ps_touch_ahead_forget(NULL, memory, BYTES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("touch_ahead");
    TCase *tests = tcase_create("touch_ahead");
    tcase_add_checked_fixture(tests, open, close);
    tcase_add_test(tests, wanted_memory_is_there_and_no_other);
    tcase_add_test(tests, bytes_that_were_written_stay);
    tcase_add_test(tests, only_whole_pages_are_touched);
    tcase_add_test(tests, a_large_wish_takes_a_turn_for_each_slab);
    tcase_add_test(tests, what_is_wanted_is_due_until_it_was_touched);
    tcase_add_test(tests, what_is_forgotten_is_not_touched);
    tcase_add_test(tests, too_many_wishes_leave_the_newest);
    tcase_add_test(tests, memory_goes_while_another_thread_touches);
    tcase_add_test(tests, nobody_who_touches_is_no_fault);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
