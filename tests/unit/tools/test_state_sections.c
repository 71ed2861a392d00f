/* SPDX-License-Identifier: Apache-2.0 */
/* Open rounds and clocks travel with a shard's state, and say what they are. */
#include "tools/psckpt/state_sections.h"

#include "checkpoint/journal_clocks.h"
#include "checkpoint/journal_held.h"
#include "checkpoint/journal_round.h"
#include "run_suite.h"
#include "shard_fixture.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"
#include "tools/psckpt/section_summary.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_MAX 64
#define CONTENT_BYTES 32

/* What the fixture's file holds. */
static struct {
    struct ps_record records[PS_CHECKPOINT_SECTION_COUNT][RECORDS_MAX];
    uint8_t contents[PS_CHECKPOINT_SECTION_COUNT][RECORDS_MAX][CONTENT_BYTES];
    struct ps_bytes pieces[PS_CHECKPOINT_SECTION_COUNT][RECORDS_MAX];
    size_t counts[PS_CHECKPOINT_SECTION_COUNT];
} kept;

static struct memory_files *disk;
static const struct ps_files *files;
static struct progress progress;
static struct shard_fixture fixture;
static struct ps_error error;

static void set_up(void)
{
    memset(&kept, 0, sizeof kept);
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    progress_init(&progress, ps_clock_real(), false);
    shard_fixture_init(&fixture, 0);
}

static void tear_down(void)
{
    memory_files_destroy(disk);
}

static uint8_t *add(enum ps_checkpoint_section section, enum ps_record_type type, const char *name,
                    uint64_t version, size_t size)
{
    size_t at = kept.counts[section]++;
    ck_assert_uint_lt(at, RECORDS_MAX);
    kept.pieces[section][at] = (struct ps_bytes){kept.contents[section][at], size};
    kept.records[section][at] =
        (struct ps_record){.type = type,
                           .name = ps_bytes_of_text(name),
                           .version = version,
                           .content = ps_view_of(&kept.pieces[section][at])};
    return kept.contents[section][at];
}

static void add_held(const char *name, uint64_t version, uint32_t worker)
{
    uint8_t *to = add(PS_CHECKPOINT_ROUNDS, PS_RECORD_HELD, name, version, PS_HELD_HEAD_BYTES + 16);
    ps_held_head_write(&(struct ps_held_head){worker, 1}, to);
}

static void add_evicted(const char *name, uint64_t version)
{
    static const uint8_t nobody[1] = {0};
    static const uint8_t two[1] = {5};
    uint8_t *to = add(PS_CHECKPOINT_ROUNDS, PS_RECORD_ROUND, name, version, 6);
    (void)ps_round_record_write(&(struct ps_round_record){4, nobody, two}, to);
}

static void add_clocks(const char *name, uint32_t workers)
{
    uint8_t *to = add(PS_CHECKPOINT_CLOCKS, PS_RECORD_CLOCKS, name, 0, PS_CLOCKS_RECORD_BYTES);
    ps_clocks_record_write(
        &(struct ps_clocks_record){.workers = workers, .consistency = 1, .staleness = 3}, to);
}

static void add_clock(const char *name, uint32_t worker, bool evicted, uint64_t clock)
{
    uint8_t *to = add(PS_CHECKPOINT_CLOCKS, PS_RECORD_CLOCK, name, 0, PS_CLOCK_RECORD_BYTES);
    ps_clock_record_write(&(struct ps_clock_record){worker, evicted, clock}, to);
}

static void give(void *self, size_t i, struct ps_record *record)
{
    *record = ((const struct ps_record *)self)[i];
}

/* Writes the fixture with what was added, and reads it into `state`. Nothing is added then. */
static enum ps_status through_a_file(struct shard_state *state, const char *folder,
                                     const struct ps_allocator *memory)
{
    const struct toolbox box = {files, memory, &progress};
    for (size_t i = 0; i < PS_CHECKPOINT_SECTION_COUNT; i++)
        fixture.facts.sections[i] =
            (struct ps_checkpoint_records){kept.counts[i], give, kept.records[i]};
    struct ps_checkpoint_place place = shard_fixture_write(&fixture, files, folder);
    memset(kept.counts, 0, sizeof kept.counts);
    shard_state_init(state, memory);
    return shard_state_read(state, &box, place.path, &error);
}

static void load(struct shard_state *state, const char *folder)
{
    ck_assert_msg(through_a_file(state, folder, ps_allocator_heap()) == PS_OK, "%s", error.text);
}

START_TEST(a_state_that_is_read_and_written_keeps_its_rounds_and_clocks)
{
    struct shard_state state;
    struct ps_checkpoint_place place;
    add_evicted("a", 0);
    add_held("a", 0, 1);
    add_held("c/d", 0, 3);
    add_clocks("main", 2);
    add_clock("main", 0, false, 7);
    load(&state, "first");
    ck_assert_uint_eq(state_sections_held(&state.facts), 2);

    ck_assert_int_eq(shard_state_write(&state, files, "second", &place, &error), PS_OK);

    struct shard_state again;
    const struct toolbox box = {files, ps_allocator_heap(), &progress};
    shard_state_init(&again, ps_allocator_heap());
    ck_assert_int_eq(shard_state_read(&again, &box, place.path, &error), PS_OK);
    ck_assert_uint_eq(again.facts.sections[PS_CHECKPOINT_ROUNDS].count, 3);
    ck_assert_uint_eq(again.facts.sections[PS_CHECKPOINT_CLOCKS].count, 2);
    for (size_t i = 0; i < 3; i++) {
        struct ps_record first, second;
        give(kept.records[PS_CHECKPOINT_ROUNDS], i, &first);
        again.facts.sections[PS_CHECKPOINT_ROUNDS].give(
            again.facts.sections[PS_CHECKPOINT_ROUNDS].self, i, &second);
        ck_assert_int_eq(first.type, second.type);
        ck_assert(ps_bytes_equal(first.name, second.name));
        ck_assert(ps_bytes_equal(first.content.pieces[0], second.content.pieces[0]));
    }
    shard_state_fini(&state);
    shard_state_fini(&again);
}
END_TEST

/* Or a file with a contribution would have the name of one without. */
START_TEST(the_uuid_of_a_state_is_of_its_rounds_too)
{
    char uuids[2][37];
    for (size_t i = 0; i < 2; i++) {
        struct shard_state state;
        struct ps_checkpoint_place place;
        add_held("a", 0, (uint32_t)i);
        load(&state, i == 0 ? "first" : "second");
        ck_assert_int_eq(
            shard_state_write(&state, files, i == 0 ? "third" : "fourth", &place, &error), PS_OK);
        memcpy(uuids[i], place.uuid, sizeof place.uuid);
        shard_state_fini(&state);
    }
    ck_assert_str_ne(uuids[0], uuids[1]);
}
END_TEST

/* Of files 0 (the newest) and 1: "a" was taken from the first, "b" from the second, and "gone" from
 * none. What "b" has in the first is left out and counted, what "a" has in the second is over. */
START_TEST(each_parameter_has_what_the_file_holds_that_it_was_taken_from)
{
    struct shard_state state;
    struct shard_state other[2];
    struct ps_checkpoint_reader *readers[2];
    static const size_t files_of[3] = {0, 1, 1};
    for (size_t i = 0; i < 2; i++) {
        add_evicted("a", fixture.parameters[0].version);
        add_held("a", fixture.parameters[0].version, (uint32_t)i);
        add_held("b", fixture.parameters[1].version, (uint32_t)(2 + i));
        add_held("b", 99, 3);
        add_held("gone", 0, 1);
        add(PS_CHECKPOINT_CANDIDATES, PS_RECORD_CANDIDATES, "a", fixture.parameters[0].version, 16);
        add(PS_CHECKPOINT_CANDIDATES, PS_RECORD_CANDIDATES, "b", fixture.parameters[1].version, 32);
        add_clocks(i == 0 ? "newer" : "older", 2);
        load(&other[i], i == 0 ? "first" : "second");
        struct ps_checkpoint_place place;
        ck_assert_int_eq(
            shard_state_write(&other[i], files, i == 0 ? "third" : "fourth", &place, &error),
            PS_OK);
        ck_assert_int_eq(
            ps_checkpoint_open(files, place.path, ps_allocator_heap(), &readers[i], &error), PS_OK);
    }
    load(&state, "fifth");

    struct section_choice choice = {.files = files_of};
    for (size_t i = 0; i < 2; i++)
        for (enum ps_checkpoint_section k = 0; k < PS_CHECKPOINT_SECTION_COUNT; k++) {
            choice.file = i;
            choice.clocks = i == 1;
            ck_assert_int_eq(state_sections_read_chosen(&state, readers[i], k, &choice, &error),
                             PS_OK);
        }

    struct section_summary summary;
    ck_assert_int_eq(section_summary_make(&summary, &state, &error), PS_OK);
    ck_assert_uint_eq(summary.round_count, 2);
    ck_assert_str_eq(summary.rounds[0].ranks, "0");
    ck_assert_uint_eq(summary.rounds[0].evicted, 2);
    ck_assert_str_eq(summary.rounds[1].ranks, "3");
    ck_assert_uint_eq(summary.candidates_count, 2);
    ck_assert_uint_eq(summary.candidates[1].keys, 2);
    ck_assert_uint_eq(summary.clocks_count, 1);
    ck_assert(ps_bytes_equal(summary.clocks[0].name, ps_bytes_of_text("older")));
    /* Both of "b" in the first, that of no version in the second, and "gone" of both. */
    ck_assert_uint_eq(choice.contributions, 5);
    ck_assert_uint_eq(choice.tables, 1);
    for (size_t i = 0; i < 2; i++) {
        ps_checkpoint_close(readers[i]);
        shard_state_fini(&other[i]);
    }
    shard_state_fini(&state);
}
END_TEST

START_TEST(resharding_keeps_each_worker_at_the_highest_clock_that_was_heard)
{
    struct shard_state from[2];
    struct shard_state to[3];
    size_t evicted = 0;
    add_clocks("main", 3);
    add_clock("main", 0, false, 7);
    add_clock("main", 1, true, 4);
    add_clock("main", 2, true, 2);
    add_evicted("a", 0);
    load(&from[0], "first");
    add_clocks("main", 3);
    add_clock("main", 0, false, 6);
    add_clock("main", 1, true, 5);
    add_clock("main", 2, false, 2);
    add_clocks("other", 1);
    add_clock("other", 0, false, 1);
    load(&from[1], "second");
    for (size_t i = 0; i < 3; i++)
        shard_state_init(&to[i], ps_allocator_heap());

    ck_assert_msg(state_sections_merge(from, 2, to, 3, &evicted, &error) == PS_OK, "%s",
                  error.text);

    ck_assert_uint_eq(evicted, 2);
    for (size_t i = 0; i < 3; i++) {
        struct section_summary summary;
        ck_assert_uint_eq(to[i].facts.sections[PS_CHECKPOINT_ROUNDS].count, 0);
        ck_assert_uint_eq(to[i].facts.sections[PS_CHECKPOINT_CLOCKS].count, 6);
        ck_assert_int_eq(section_summary_make(&summary, &to[i], &error), PS_OK);
        ck_assert_uint_eq(summary.clocks_count, 2);
        ck_assert_uint_eq(summary.clocks[0].settings.workers, 3);
        ck_assert_uint_eq(summary.clocks[0].evicted, 1);
        ck_assert_uint_eq(summary.clocks[0].minimum, 2);
        ck_assert_uint_eq(summary.clocks[0].slowest, 2);
        ck_assert_uint_eq(summary.clocks[1].minimum, 1);
        shard_state_fini(&to[i]);
    }
    shard_state_fini(&from[0]);
    shard_state_fini(&from[1]);
}
END_TEST

START_TEST(resharding_refuses_while_a_round_is_open_and_says_which)
{
    struct shard_state from;
    struct shard_state to;
    size_t evicted = 0;
    add_held("c/d", 41, 1);
    load(&from, "first");
    shard_state_init(&to, ps_allocator_heap());

    ck_assert_int_eq(state_sections_merge(&from, 1, &to, 1, &evicted, &error), PS_ERR_UNSUPPORTED);

    ck_assert_ptr_nonnull(strstr(error.text, "round 42 of c/d is open"));
    shard_state_fini(&to);
    shard_state_fini(&from);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing_behind)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    for (int64_t i = 0; status != PS_OK; i++) {
        struct fault_heap heap = {.refuse_at = i};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct shard_state state;
        char folder[16];
        (void)snprintf(folder, sizeof folder, "f%d", (int)i);
        add_held("a", 0, 1);
        add_clocks("main", 1);

        status = through_a_file(&state, folder, &memory);

        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        shard_state_fini(&state);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("state_sections");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_state_that_is_read_and_written_keeps_its_rounds_and_clocks);
    tcase_add_test(tests, the_uuid_of_a_state_is_of_its_rounds_too);
    tcase_add_test(tests, each_parameter_has_what_the_file_holds_that_it_was_taken_from);
    tcase_add_test(tests, resharding_keeps_each_worker_at_the_highest_clock_that_was_heard);
    tcase_add_test(tests, resharding_refuses_while_a_round_is_open_and_says_which);
    tcase_add_test(tests, a_refused_allocation_leaves_nothing_behind);
    Suite *suite = suite_create("state_sections");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
