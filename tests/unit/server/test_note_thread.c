/* SPDX-License-Identifier: Apache-2.0 */
/* server/note_thread.c: notes follow what is durable, and the thread ends when it is told to. */
#include "server/note_thread.h"

#include "base/thread.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/core/core_disk.h"

static const float ones[] = {1, 1, 1, 1};

static struct core_world world;
static struct disk_store store;
static struct temp_folder folder;
static struct ps_note_thread *notes;

static void setup(void)
{
    temp_folder_init(&folder);
    world_init_journal(&world);
    disk_store_init(&store, &world);
    const struct ps_note_thread_options options = {.files = ps_files_real(),
                                                   .memory = ps_allocator_heap(),
                                                   .clock = ps_clock_real(),
                                                   .service = world.service,
                                                   .registry = &store.registry};
    ck_assert_int_eq(ps_note_thread_create(&options, &notes, NULL), PS_OK);
}

static void teardown(void)
{
    ps_note_thread_destroy(notes);
    disk_store_fini(&store);
    world_fini(&world);
    temp_folder_fini(&folder);
}

static void push_durably(void)
{
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_uint_eq(world_write_journal(&world), 1);
    ps_note_thread_wake(notes);
}

static uint64_t noted(void)
{
    struct ps_journal_notes found;
    ck_assert_int_eq(ps_journal_notes_read(ps_files_real(), folder.path, UINT64_MAX, &found, NULL),
                     PS_OK);
    return found.highest.position;
}

/* For up to twenty times the pace; nobody signals a change of a folder. */
static void expect_noted(uint64_t position)
{
    struct ps_mutex mutex;
    struct ps_condition never;
    ps_mutex_init(&mutex, PS_RANK_LEAF);
    ps_condition_init(&never);
    ps_mutex_lock(&mutex);
    uint64_t until_ms = ps_deadline_after(ps_clock_real(), 20 * PS_NOTE_FOLDER_MS);
    while (noted() != position && ps_time_left_ms(ps_clock_real(), until_ms) > 0)
        (void)ps_condition_wait(&never, &mutex, 10);
    ps_mutex_unlock(&mutex);
    ps_condition_fini(&never);
    ps_mutex_fini(&mutex);
    ck_assert_uint_eq(noted(), position);
}

START_TEST(what_is_durable_is_noted_and_then_what_came_after)
{
    push_durably();
    ps_note_thread_begin(notes, folder.path, &store.claim, 1);
    expect_noted(1);
    push_durably();
    push_durably();
    expect_noted(3);
}
END_TEST

START_TEST(without_a_journal_that_began_nothing_is_noted)
{
    push_durably();
    ps_note_thread_wake(notes);
    ps_note_thread_wake(NULL);
    ps_note_thread_destroy(notes);
    notes = NULL;
    ck_assert_uint_eq(noted(), 0);
}
END_TEST

/* It waits for its pace, and does not make whoever ends the server wait. */
START_TEST(it_ends_at_once_while_a_note_is_due)
{
    push_durably();
    ps_note_thread_begin(notes, folder.path, &store.claim, 1);
    expect_noted(1);
    push_durably();
    uint64_t start_ms = ps_now_ms(ps_clock_real());
    ps_note_thread_destroy(notes);
    notes = NULL;
    ck_assert_uint_lt(ps_now_ms(ps_clock_real()) - start_ms, PS_NOTE_STORE_MS / 2);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("note_thread");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_is_durable_is_noted_and_then_what_came_after);
    tcase_add_test(tests, without_a_journal_that_began_nothing_is_noted);
    tcase_add_test(tests, it_ends_at_once_while_a_note_is_due);
    return run_tests("note_thread", tests);
}
