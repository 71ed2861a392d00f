/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a folder: checkpoint, journal, damage, and what the disk or the heap refuses. */
#include "tools/psckpt/recovery.h"

#include "checkpoint/journal.h"
#include "checkpoint/journal_segments.h"
#include "run_suite.h"
#include "shard_fixture.h"
#include "tests/support/checkpoint/journal_maker.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"
#include "tools/psckpt/state_digest.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "data/shard-0"
#define BEGIN 12 /* the fixture's versions: 3 + 4 + 5 */
#define LAST 16

static struct memory_files *disk;
static const struct ps_files *files;
static struct progress progress;
static struct toolbox box;
static struct recovery recovery;
static struct ps_error error;
static char segment[128];
static uint32_t format;    /* of the journal */
static size_t segment_end; /* where its last record ends */

/* A checkpoint at BEGIN, and pushes to "a" up to LAST in one segment. */
static void set_up(void)
{
    struct shard_fixture fixture;
    struct journal_maker maker;
    const struct ps_journal_facts facts = {.shard_count = 1, .epoch = 7, .position = BEGIN};
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    progress_init(&progress, ps_clock_real(), false);
    box = (struct toolbox){files, ps_allocator_heap(), &progress};
    shard_fixture_init(&fixture, 0);
    fixture.facts.position = BEGIN;
    (void)shard_fixture_write(&fixture, files, FOLDER);
    ck_assert_int_eq(
        journal_maker_begin(&maker, files, FOLDER, &facts, format, PS_JOURNAL_SEGMENT_BYTES, NULL),
        PS_OK);
    for (uint64_t position = BEGIN + 1; position <= LAST; position++) {
        static const float ones[4] = {1, 1, 1, 1};
        const struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
        const struct ps_record record = {.type = PS_RECORD_PUSH,
                                         .position = position,
                                         .epoch = 7,
                                         .name = ps_bytes_of_text("a"),
                                         .dtype = PS_F32,
                                         .version = position - BEGIN + 3,
                                         .client_id = ps_bytes_of_text("client"),
                                         .session = 1,
                                         .sequence = position,
                                         .content = ps_view_of(&piece)};
        ck_assert_int_eq(journal_maker_write(&maker, &record, 1, NULL), PS_OK);
    }
    segment_end = maker.end;
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
    (void)snprintf(segment, sizeof segment, FOLDER "/%016x-%016x.journal", 7, BEGIN + 1);
}

static void set_up_format_1(void)
{
    format = PS_JOURNAL_FORMAT_1;
    set_up();
}

static void set_up_format_2(void)
{
    format = PS_JOURNAL_FORMAT;
    set_up();
}

/* Segments of format 2 are mostly zeros: some of their bits and lengths will do. */
static size_t step(void)
{
    return format == PS_JOURNAL_FORMAT ? 59 : 1;
}

static void tear_down(void)
{
    recovery_fini(&recovery);
    memory_files_destroy(disk);
}

static enum ps_status load(uint64_t to, bool salvage)
{
    const struct recovery_wish wish = {.box = &box, .to = to, .journal = true, .salvage = salvage};
    error = (struct ps_error){0};
    recovery_fini(&recovery);
    return recovery_load(&recovery, &wish, FOLDER, &error);
}

static float first_of_a(void)
{
    float value;
    ps_view_copy(recovery.state.parameters[0].values, 0, &value, sizeof value);
    return value;
}

START_TEST(the_journal_is_replayed_to_its_end)
{
    ck_assert_msg(load(RECOVERY_TO_END, false) == PS_OK, "%s", error.text);

    ck_assert_uint_eq(recovery.replayed, LAST - BEGIN);
    ck_assert_uint_eq(recovery.state.facts.position, LAST);
    ck_assert_uint_eq(recovery.state.parameters[0].version, 3 + LAST - BEGIN);
    ck_assert(first_of_a() == -4.0f);
    ck_assert_uint_gt(recovery.state.facts.sessions.size, 0);
}
END_TEST

START_TEST(a_position_stops_it)
{
    ck_assert_int_eq(load(14, false), PS_OK);

    ck_assert(first_of_a() == -2.0f);
}
END_TEST

START_TEST(positions_outside_are_refused)
{
    ck_assert_int_eq(load(BEGIN - 1, false), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(load(LAST + 1, false), PS_ERR_NOT_FOUND);
}
END_TEST

/* A flip makes one of three things: a named error, or, salvaged, an earlier state; a torn end too
 * gives an earlier state, and nothing gives another one. */
START_TEST(every_flipped_bit_of_the_journal_is_named_or_gives_an_earlier_state)
{
    uint8_t digests[LAST - BEGIN + 1][SHA256_BYTES];
    for (uint64_t to = BEGIN; to <= LAST; to++) {
        ck_assert_int_eq(load(to, false), PS_OK);
        ck_assert_int_eq(state_digest(&recovery.state, 1, true, digests[to - BEGIN], NULL), PS_OK);
    }
    for (uint64_t bit = 0; bit < segment_end * 8; bit += step()) {
        memory_files_flip(disk, segment, bit);
        enum ps_status status = load(RECOVERY_TO_END, false);
        if (status != PS_OK) {
            ck_assert_msg(status == PS_ERR_CORRUPT || status == PS_ERR_UNSUPPORTED, "%s",
                          error.text);
            ck_assert(strstr(error.text, ".journal") != NULL);
            ck_assert_msg(load(RECOVERY_TO_END, true) == PS_OK, "%s", error.text);
            ck_assert_uint_eq(recovery.omission_count, 1);
        }
        uint8_t digest[SHA256_BYTES];
        ck_assert_int_eq(state_digest(&recovery.state, 1, true, digest, NULL), PS_OK);
        ck_assert_mem_eq(digest, digests[recovery.replayed], sizeof digest);
        memory_files_flip(disk, segment, bit);
    }
}
END_TEST

/* But for the first record of format 2, which was durable before the file had its name. */
START_TEST(every_truncation_of_the_journal_gives_an_earlier_state)
{
    struct ps_bytes content;
    static uint8_t copy[32768];
    size_t first_end = PS_JOURNAL_HEAD_BYTES + PS_JOURNAL_SEGMENT_CONTENT_BYTES;
    ck_assert(memory_files_get(disk, segment, &content));
    ck_assert_uint_le(content.size, sizeof copy);
    size_t size = content.size;
    memcpy(copy, content.data, size);
    for (size_t length = format == PS_JOURNAL_FORMAT ? first_end : 0; length <= size;
         length += step()) {
        memory_files_put(disk, segment, (struct ps_bytes){copy, length});

        ck_assert_msg(load(RECOVERY_TO_END, false) == PS_OK, "%s", error.text);

        ck_assert(first_of_a() == -(float)recovery.replayed);
        ck_assert_uint_eq(recovery.replayed == LAST - BEGIN, length >= segment_end);
    }
}
END_TEST

START_TEST(a_checkpoint_of_a_fenced_owner_is_passed_over)
{
    struct shard_fixture fixture;
    shard_fixture_init(&fixture, 500);
    fixture.facts.epoch = 6;
    fixture.facts.position = LAST;
    memcpy(fixture.facts.uuid, "fenced", 7);
    (void)shard_fixture_write(&fixture, files, FOLDER);

    ck_assert_int_eq(load(RECOVERY_TO_END, false), PS_OK);
    ck_assert_uint_eq(recovery.begin, BEGIN);
    ck_assert_int_eq(load(LAST, false), PS_OK);
    ck_assert_uint_eq(recovery.begin, BEGIN);
}
END_TEST

/* An owner without a journal took over at BEGIN; the former one wrote on. */
START_TEST(records_of_a_fenced_owner_behind_a_later_checkpoint_are_not_taken)
{
    struct shard_fixture fixture;
    shard_fixture_init(&fixture, 500);
    fixture.facts.epoch = 8;
    fixture.facts.position = 14;
    memcpy(fixture.facts.uuid, "later", 6);
    (void)shard_fixture_write(&fixture, files, FOLDER);

    ck_assert_msg(load(RECOVERY_TO_END, false) == PS_OK, "%s", error.text);

    ck_assert_uint_eq(recovery.state.facts.position, 14);
    ck_assert_uint_eq(recovery.state.facts.epoch, 8);
    ck_assert(first_of_a() == 500.0f);
}
END_TEST

START_TEST(a_checkpoint_that_lies_about_its_index_is_corrupt)
{
    struct shard_fixture fixture;
    shard_fixture_init(&fixture, 0);
    fixture.facts.epoch = 9;
    fixture.facts.index = 1;
    (void)shard_fixture_write(&fixture, files, "data/shard-1");
    const struct recovery_wish wish = {.box = &box, .to = RECOVERY_TO_END, .journal = true};

    ck_assert_int_eq(recovery_load(&recovery, &wish, "data/shard-1", &error), PS_ERR_CORRUPT);
}
END_TEST

/* But for what is asked of its history alone: a file that refuses that has said nothing, and when
 * it is needed it is read again. */
START_TEST(any_failed_call_of_the_disk_is_reported_and_closes_its_files)
{
    const struct recovery_wish whole = {.box = &box, .to = RECOVERY_TO_END, .journal = true};
    ck_assert_int_eq(recovery_load(&recovery, &whole, FOLDER, &error), PS_OK);
    uint64_t position = recovery.state.facts.position;
    int refused = 0;
    recovery_fini(&recovery);
    for (int64_t n = 0;; n++) {
        struct fault_files fault = {.under = files, .calls = FAULT_ANY, .fail_at = n};
        struct ps_files failing = fault_files_files(&fault);
        const struct toolbox broken = {&failing, ps_allocator_heap(), &progress};
        const struct recovery_wish wish = {.box = &broken, .to = RECOVERY_TO_END, .journal = true};
        enum ps_status status = recovery_load(&recovery, &wish, FOLDER, &error);

        ck_assert_int_eq(fault.open, 0);
        if (status == PS_OK)
            ck_assert_uint_eq(recovery.state.facts.position, position);
        refused += status != PS_OK;
        recovery_fini(&recovery);
        if (!fault.fired)
            break;
    }
    ck_assert_int_gt(refused, 5);
}
END_TEST

/* ---- Beside a server ---- */

static int opens_left; /* of the segment, before it is swept */

/* Whoever opens the segment then finds that a server has just written a newer checkpoint and swept
 * it. */
static enum ps_status open_too_late(void *self, const char *path, enum ps_file_mode mode,
                                    struct ps_file *file, struct ps_error *why)
{
    if (strcmp(path, segment) == 0 && opens_left-- == 0) {
        struct shard_fixture fixture;
        shard_fixture_init(&fixture, 0);
        fixture.facts.position = LAST;
        (void)shard_fixture_write(&fixture, files, FOLDER);
        ck_assert_int_eq(files->remove(files->self, segment, NULL), PS_OK);
    }
    return files->open(self, path, mode, file, why);
}

START_TEST(a_segment_that_a_server_sweeps_meanwhile_is_no_failure)
{
    struct ps_files sweeping = *files;
    const struct toolbox beside = {&sweeping, ps_allocator_heap(), &progress};
    const struct recovery_wish wish = {.box = &beside, .to = RECOVERY_TO_END, .journal = true};
    sweeping.open = open_too_late;
    int opens = 0;
    /* At each time at which the segment is opened, until it has been read without that. */
    for (; opens == 0 || opens_left < 0; opens++) {
        tear_down();
        set_up();
        sweeping.self = files->self;
        opens_left = opens;

        enum ps_status status = recovery_load(&recovery, &wish, FOLDER, &error);

        ck_assert_msg(status == PS_OK, "%d: %s", opens, error.text);
        ck_assert_uint_eq(recovery.state.facts.position, LAST);
    }
    ck_assert_int_gt(opens, 2);
}
END_TEST

START_TEST(any_refused_allocation_is_reported_and_leaves_nothing)
{
    for (int64_t n = 0;; n++) {
        struct fault_heap heap = {.refuse_at = n};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        const struct toolbox poor = {files, &memory, &progress};
        const struct recovery_wish wish = {.box = &poor, .to = RECOVERY_TO_END, .journal = true};
        enum ps_status status = recovery_load(&recovery, &wish, FOLDER, &error);

        ck_assert_int_eq(status, heap.seen > n ? PS_ERR_NO_MEMORY : PS_OK);
        recovery_fini(&recovery);
        ck_assert_int_eq(heap.live, 0);
        if (status == PS_OK)
            break;
    }
}
END_TEST

START_TEST(a_written_state_is_read_back_equal)
{
    struct ps_checkpoint_place place;
    struct shard_state again;
    uint8_t digests[2][SHA256_BYTES];
    ck_assert_int_eq(load(RECOVERY_TO_END, false), PS_OK);

    ck_assert_int_eq(shard_state_write(&recovery.state, files, "new", &place, &error), PS_OK);

    shard_state_init(&again, ps_allocator_heap());
    ck_assert_int_eq(shard_state_read(&again, &box, place.path, &error), PS_OK);
    ck_assert_int_eq(state_digest(&recovery.state, 1, true, digests[0], NULL), PS_OK);
    ck_assert_int_eq(state_digest(&again, 1, true, digests[1], NULL), PS_OK);
    ck_assert_mem_eq(digests[0], digests[1], SHA256_BYTES);
    ck_assert_int_eq(shard_state_write(&recovery.state, files, "new", &place, &error),
                     PS_ERR_EXISTS);
    shard_state_fini(&again);
}
END_TEST

static TCase *make_case(const char *name, SFun set_up_format)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, set_up_format, tear_down);
    tcase_add_test(tcase, the_journal_is_replayed_to_its_end);
    tcase_add_test(tcase, a_position_stops_it);
    tcase_add_test(tcase, positions_outside_are_refused);
    tcase_add_test(tcase, every_flipped_bit_of_the_journal_is_named_or_gives_an_earlier_state);
    tcase_add_test(tcase, every_truncation_of_the_journal_gives_an_earlier_state);
    tcase_add_test(tcase, a_checkpoint_of_a_fenced_owner_is_passed_over);
    tcase_add_test(tcase, records_of_a_fenced_owner_behind_a_later_checkpoint_are_not_taken);
    tcase_add_test(tcase, a_checkpoint_that_lies_about_its_index_is_corrupt);
    tcase_add_test(tcase, any_failed_call_of_the_disk_is_reported_and_closes_its_files);
    tcase_add_test(tcase, any_refused_allocation_is_reported_and_leaves_nothing);
    tcase_add_test(tcase, a_segment_that_a_server_sweeps_meanwhile_is_no_failure);
    tcase_add_test(tcase, a_written_state_is_read_back_equal);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("recovery");
    suite_add_tcase(suite, make_case("format 1", set_up_format_1));
    suite_add_tcase(suite, make_case("format 2", set_up_format_2));
    return run_suite(suite);
}
