/* SPDX-License-Identifier: Apache-2.0 */
/* What is whole is taken, whatever is not. */
#include "tools/psckpt/salvage.h"

#include "checkpoint/journal.h"
#include "run_suite.h"
#include "shard_fixture.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"
#include "tools/psckpt/session_summary.h"
#include "tools/psckpt/state_digest.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "data/shard-0"

static struct memory_files *disk;
static const struct ps_files *files;
static struct progress progress;
static struct salvage salvage;
static FILE *report;
static char *said;
static size_t said_size;
static struct ps_error error;
static struct ps_record held[2]; /* what the files hold of open rounds, where a test says so */
static size_t held_count;
static struct ps_checkpoint_place older;
static struct ps_checkpoint_place newer;

static void give(void *self, size_t i, struct ps_record *record)
{
    *record = ((const struct ps_record *)self)[i];
}

/* Three parameters "a", "b" (Adam) and "c/d"; values of the older one are 1000 higher. */
static struct ps_checkpoint_place write_one(int base, uint64_t position, const char *uuid)
{
    struct shard_fixture fixture;
    struct shard_state nobody;
    shard_fixture_init(&fixture, base);
    shard_state_init(&nobody, ps_allocator_heap());
    ck_assert_int_eq(session_summary_forget(&nobody, NULL), PS_OK);
    fixture.facts.sessions = nobody.facts.sessions;
    fixture.facts.position = position;
    fixture.facts.sections[PS_CHECKPOINT_ROUNDS] =
        (struct ps_checkpoint_records){held_count, give, held};
    (void)snprintf(fixture.facts.uuid, sizeof fixture.facts.uuid, "%s", uuid);
    struct ps_checkpoint_place place = shard_fixture_write(&fixture, files, FOLDER);
    shard_state_fini(&nobody);
    return place;
}

static void set_up(void)
{
    held_count = 0;
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    progress_init(&progress, ps_clock_real(), false);
    report = open_memstream(&said, &said_size);
    older = write_one(1000, 12, "older");
    newer = write_one(0, 20, "newer");
}

static void tear_down(void)
{
    shard_state_fini(&salvage.state);
    (void)fclose(report);
    free(said);
    memory_files_destroy(disk);
}

static enum ps_status load_with(const struct ps_files *from, const struct ps_allocator *memory,
                                const char *path)
{
    const struct toolbox box = {from, memory, &progress};
    const struct salvage_wish wish = {&box, report};
    shard_state_fini(&salvage.state);
    enum ps_status status = salvage_load(&salvage, &wish, path, &error);
    (void)fflush(report);
    return status;
}

static enum ps_status load(void)
{
    return load_with(files, ps_allocator_heap(), FOLDER);
}

/* Flips a bit in the array (-1: the values) of a parameter, or in the sessions. */
static void damage(const struct ps_checkpoint_place *place, const char *name, int state)
{
    struct ps_bytes content;
    char tensor[64];
    char key[80];
    ck_assert(memory_files_get(disk, place->path, &content));
    if (state < 0)
        (void)snprintf(tensor, sizeof tensor, "%s", name);
    else
        (void)snprintf(tensor, sizeof tensor, "ps.state/%d/%s", state, name);
    (void)snprintf(key, sizeof key, "\"%s\":{\"dtype\"", tensor);
    const char *text = (const char *)content.data + 8;
    const char *at = strstr(text, key);
    ck_assert_msg(at != NULL, "no %s", key);
    at = strstr(at, "data_offsets\":[");
    uint64_t header = 0;
    memcpy(&header, content.data, sizeof header);
    uint64_t begin = strtoull(at + strlen("data_offsets\":["), NULL, 10);
    memory_files_flip(disk, place->path, 8 * (8 + header + begin) + 3);
}

static float first_of(size_t parameter)
{
    float value;
    ps_view_copy(salvage.state.parameters[parameter].values, 0, &value, sizeof value);
    return value;
}

/* The bytes from within the last parameter's values on. */
static size_t salvage_tail(void)
{
    struct ps_bytes content;
    uint64_t header = 0;
    ck_assert(memory_files_get(disk, newer.path, &content));
    const char *at = strstr((const char *)content.data + 8, "\"c/d\":{\"dtype\"");
    ck_assert_ptr_nonnull(at);
    at = strstr(at, "data_offsets\":[");
    memcpy(&header, content.data, sizeof header);
    return content.size - 8 - (size_t)header -
           (size_t)strtoull(at + strlen("data_offsets\":["), NULL, 10) - 1;
}

START_TEST(of_whole_checkpoints_the_newest_is_taken)
{
    ck_assert_int_eq(load(), PS_OK);

    ck_assert_uint_eq(salvage.taken_count, 3);
    ck_assert_uint_eq(salvage.state.facts.position, 20);
    ck_assert(!salvage.is_mixed);
    ck_assert(first_of(0) == 0.0f);
    ck_assert_uint_gt(salvage.state.facts.sessions.size, 0);
    ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(what_is_damaged_in_the_newest_is_taken_from_the_one_before)
{
    damage(&newer, "a", -1);

    ck_assert_int_eq(load(), PS_OK);

    ck_assert_uint_eq(salvage.taken_count, 3);
    ck_assert(salvage.is_mixed);
    ck_assert_uint_eq(salvage.newest, 20);
    ck_assert_uint_eq(salvage.state.facts.position, 12);
    ck_assert(first_of(0) == 1000.0f);
    ck_assert_ptr_nonnull(strstr(said, "a: taken from " FOLDER));
    /* The journal is applied from 12 on: to the others nothing of before 20. */
    ck_assert_uint_eq(salvage.state.parameters[0].birth, 0);
    ck_assert_uint_eq(salvage.state.parameters[1].birth, 20);
    salvage_end(&salvage, &salvage.state);
    ck_assert_uint_eq(salvage.state.parameters[1].birth, 0);
}
END_TEST

/* Both files again, with contributions to "b" at its version in them, and at one before. */
static void write_with_rounds(void)
{
    for (uint64_t i = 0; i < 2; i++)
        held[i] = (struct ps_record){
            .type = PS_RECORD_HELD, .name = ps_bytes_of_text("b"), .version = 3 + i};
    held_count = 2;
    older = write_one(1000, 12, "older");
    newer = write_one(0, 20, "newer");
}

START_TEST(contributions_that_fit_what_was_taken_are_kept)
{
    write_with_rounds();
    damage(&newer, "a", -1);

    ck_assert_int_eq(load(), PS_OK);

    ck_assert_uint_eq(salvage.state.facts.sections[PS_CHECKPOINT_ROUNDS].count, 1);
    ck_assert_ptr_nonnull(strstr(said, "1 contributions to rounds are left out"));
}
END_TEST

START_TEST(damaged_rounds_are_given_up_with_a_word)
{
    write_with_rounds();
    damage(&newer, "ps.rounds", -1);

    ck_assert_int_eq(load(), PS_OK);

    ck_assert_uint_eq(salvage.taken_count, 3);
    ck_assert_uint_eq(salvage.state.facts.position, 20);
    ck_assert_uint_eq(salvage.state.facts.sections[PS_CHECKPOINT_ROUNDS].count, 0);
    ck_assert_ptr_nonnull(strstr(said, "open rounds are not whole"));
}
END_TEST

START_TEST(a_tensor_that_is_whole_nowhere_is_left_out_and_named)
{
    damage(&newer, "a", -1);
    damage(&older, "a", -1);

    ck_assert_int_eq(load(), PS_OK);

    ck_assert_uint_eq(salvage.parameter_count, 3);
    ck_assert_uint_eq(salvage.taken_count, 2);
    ck_assert(!salvage.is_mixed);
    ck_assert_ptr_nonnull(strstr(said, "a: left out: it is whole nowhere"));
}
END_TEST

START_TEST(values_without_a_whole_optimizer_state_begin_anew)
{
    damage(&newer, "b", 0);
    damage(&older, "b", 1);

    ck_assert_int_eq(load(), PS_OK);

    const struct ps_checkpoint_parameter *b = &salvage.state.parameters[1];
    double state = 1;
    ck_assert_uint_eq(salvage.taken_count, 3);
    ck_assert_uint_eq(salvage.fresh_count, 1);
    ck_assert_uint_eq(b->step, 0);
    ck_assert_uint_eq(b->version, 4);
    ps_view_copy(b->states[0], 0, &state, sizeof state);
    ck_assert(state == 0);
    ck_assert_uint_eq(salvage.state.facts.position, 20);
    ck_assert_ptr_nonnull(strstr(said, "b: its optimizer begins anew"));
}
END_TEST

START_TEST(damaged_sessions_cost_no_tensor)
{
    damage(&newer, "ps.sessions", -1);

    ck_assert_int_eq(load(), PS_OK);

    ck_assert_uint_eq(salvage.taken_count, 3);
    ck_assert_uint_eq(salvage.state.facts.position, 20);
    ck_assert_uint_gt(salvage.state.facts.sessions.size, 0);
    ck_assert_ptr_nonnull(strstr(said, "all begin new sessions"));
}
END_TEST

START_TEST(one_file_is_taken_as_it_is)
{
    ck_assert_int_eq(load_with(files, ps_allocator_heap(), older.path), PS_OK);

    ck_assert_uint_eq(salvage.state.facts.position, 12);
    ck_assert_uint_eq(salvage.taken_count, 3);
}
END_TEST

START_TEST(a_damaged_header_is_passed_over_and_alone_is_corrupt)
{
    memory_files_flip(disk, newer.path, 8 * 20);
    ck_assert_int_eq(load(), PS_OK);
    ck_assert_uint_eq(salvage.state.facts.position, 12);
    ck_assert_int_eq(load_with(files, ps_allocator_heap(), newer.path), PS_ERR_CORRUPT);

    memory_files_flip(disk, older.path, 8 * 20);
    ck_assert_int_eq(load(), PS_ERR_CORRUPT);
}
END_TEST

/* A copy that was broken off: its header says what was to come. */
START_TEST(a_file_that_was_cut_off_has_what_stands_before_the_cut)
{
    struct ps_bytes content;
    static uint8_t bytes[1 << 16];
    ck_assert_int_eq(files->remove(files->self, older.path, NULL), PS_OK);
    ck_assert(memory_files_get(disk, newer.path, &content));
    size_t size = content.size - salvage_tail();
    ck_assert_uint_lt(size, sizeof bytes);
    memcpy(bytes, content.data, size);
    memory_files_put(disk, newer.path, (struct ps_bytes){bytes, size});

    ck_assert_msg(load() == PS_OK, "%s", error.text);

    ck_assert_uint_eq(salvage.taken_count, 2);
    ck_assert_ptr_nonnull(strstr(said, "c/d: left out: it is whole nowhere"));
    ck_assert_ptr_nonnull(strstr(said, "all begin new sessions"));
    ck_assert(first_of(0) == 0.0f);
}
END_TEST

START_TEST(a_folder_without_checkpoints_has_nothing)
{
    ck_assert_int_eq(load_with(files, ps_allocator_heap(), "data/none"), PS_ERR_NOT_FOUND);
}
END_TEST

/* Whatever bit is wrong: each tensor is the newest one, or that of the one before. */
START_TEST(any_flipped_bit_of_the_newest_gives_all_tensors)
{
    struct ps_bytes content;
    ck_assert(memory_files_get(disk, newer.path, &content));
    for (uint64_t bit = 0; bit < content.size * 8; bit += 7) {
        memory_files_flip(disk, newer.path, bit);

        enum ps_status status = load();

        ck_assert_msg(status == PS_OK || status == PS_ERR_UNSUPPORTED, "bit %llu: %s",
                      (unsigned long long)bit, error.text);
        if (status == PS_OK)
            ck_assert_uint_eq(salvage.taken_count, 3);
        memory_files_flip(disk, newer.path, bit);
    }
}
END_TEST

START_TEST(any_refused_allocation_is_reported_and_leaves_nothing)
{
    damage(&newer, "a", -1);
    for (int64_t n = 0;; n++) {
        struct fault_heap heap = {.refuse_at = n};
        struct ps_allocator memory = fault_heap_allocator(&heap);

        enum ps_status status = load_with(files, &memory, FOLDER);

        ck_assert_int_eq(status, heap.seen > n ? PS_ERR_NO_MEMORY : PS_OK);
        shard_state_fini(&salvage.state);
        ck_assert_int_eq(heap.live, 0);
        if (status == PS_OK)
            break;
    }
}
END_TEST

START_TEST(any_failed_call_of_the_disk_closes_its_files)
{
    for (int64_t n = 0;; n++) {
        struct fault_files fault = {.under = files, .calls = FAULT_ANY, .fail_at = n};
        struct ps_files failing = fault_files_files(&fault);

        (void)load_with(&failing, ps_allocator_heap(), FOLDER);

        ck_assert_int_eq(fault.open, 0);
        if (!fault.fired)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("salvage");
    TCase *tcase = tcase_create("salvage");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, of_whole_checkpoints_the_newest_is_taken);
    tcase_add_test(tcase, what_is_damaged_in_the_newest_is_taken_from_the_one_before);
    tcase_add_test(tcase, a_tensor_that_is_whole_nowhere_is_left_out_and_named);
    tcase_add_test(tcase, contributions_that_fit_what_was_taken_are_kept);
    tcase_add_test(tcase, damaged_rounds_are_given_up_with_a_word);
    tcase_add_test(tcase, values_without_a_whole_optimizer_state_begin_anew);
    tcase_add_test(tcase, damaged_sessions_cost_no_tensor);
    tcase_add_test(tcase, one_file_is_taken_as_it_is);
    tcase_add_test(tcase, a_damaged_header_is_passed_over_and_alone_is_corrupt);
    tcase_add_test(tcase, a_file_that_was_cut_off_has_what_stands_before_the_cut);
    tcase_add_test(tcase, a_folder_without_checkpoints_has_nothing);
    tcase_add_test(tcase, any_flipped_bit_of_the_newest_gives_all_tensors);
    tcase_add_test(tcase, any_refused_allocation_is_reported_and_leaves_nothing);
    tcase_add_test(tcase, any_failed_call_of_the_disk_closes_its_files);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
