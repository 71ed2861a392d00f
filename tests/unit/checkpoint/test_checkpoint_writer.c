/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/checkpoint_writer.c: order of calls, failures, limits. */
#include "checkpoint/checkpoint.h"

#include "base/clock.h"
#include "checkpoint/checksum.h"
#include "run_suite.h"
#include "sample_checkpoint.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_files *disk;
static const struct ps_files *files;
static struct memory_files_knobs *knobs;
static struct sample sample;
static struct ps_checkpoint_place place;
static struct ps_error error;

static void set_up(void)
{
    disk = memory_files_create(5);
    files = memory_files_files(disk);
    knobs = memory_files_knobs(disk);
    sample_init(&sample, 18, 50, 4);
}

static void tear_down(void)
{
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
    sample_fini(&sample);
}

static enum ps_status write_with(const struct ps_allocator *memory)
{
    return ps_checkpoint_write(files, "data/ck", &sample.facts, sample.parameters, sample.count,
                               memory, &place, &error);
}

/* Writes one parameter called `name`. */
static enum ps_status write_named(struct ps_bytes name)
{
    struct ps_checkpoint_parameter parameter = sample.parameters[0];
    parameter.name = name;
    return ps_checkpoint_write(files, "data/ck", &sample.facts, &parameter, 1, ps_allocator_heap(),
                               &place, &error);
}

START_TEST(the_place_describes_the_file)
{
    struct ps_bytes content;

    ck_assert_int_eq(write_with(ps_allocator_heap()), PS_OK);

    ck_assert(memory_files_get(disk, place.path, &content));
    ck_assert_uint_eq(place.bytes, content.size);
    ck_assert_uint_eq(place.crc32, ps_checksum_crc32(0, content));
    ck_assert_str_eq(place.uuid, sample.facts.uuid);
    ck_assert_uint_eq(place.epoch, sample.facts.epoch);
    ck_assert_uint_eq(place.position, sample.facts.position);
    ck_assert_uint_eq(place.unix_ns, sample.facts.unix_ns);
    ck_assert_str_eq(place.path, "data/ck/fedcba9876543210-ffffffffffffffff-"
                                 "0f47ac10-58cc-4372-a567-0e02b2c3d479.safetensors");
}
END_TEST

/* Operations with repeated writes told once. */
struct trace {
    char text[1024];
    enum memory_files_operation last;
};

static void trace_operation(void *context, enum memory_files_operation operation, const char *path)
{
    struct trace *trace = context;
    if (operation == MEMORY_WRITE && trace->last == MEMORY_WRITE)
        return;
    trace->last = operation;
    const char *kind = strstr(path, ".tmp") != NULL           ? "temporary"
                       : strstr(path, ".safetensors") != NULL ? "final"
                                                              : "folder";
    size_t used = strlen(trace->text);
    (void)snprintf(trace->text + used, sizeof trace->text - used, "%s %s, ",
                   memory_files_word(operation), kind);
}

/* The old system renamed and synced nothing. */
START_TEST(b5_write_comes_before_sync_before_rename_before_sync_of_the_folder)
{
    struct trace trace = {.last = MEMORY_LIST};
    knobs->observer = trace_operation;
    knobs->observer_context = &trace;

    ck_assert_int_eq(write_with(ps_allocator_heap()), PS_OK);

    ck_assert_str_eq(trace.text, "make_folder folder, open temporary, write temporary, "
                                 "sync temporary, close temporary, rename final, "
                                 "sync_folder folder, ");
}
END_TEST

START_TEST(small_pieces_go_out_in_few_writes)
{
    sample_fini(&sample);
    sample_init(&sample, 2000, 50, 4);

    ck_assert_int_eq(write_with(ps_allocator_heap()), PS_OK);

    ck_assert_uint_le(knobs->count[MEMORY_WRITE], 2 + place.bytes / (512 * 1024));
}
END_TEST

START_TEST(the_same_checkpoint_is_the_same_file)
{
    struct ps_bytes first;
    struct ps_bytes second;
    ck_assert_int_eq(write_with(ps_allocator_heap()), PS_OK);
    uint32_t crc32 = place.crc32;
    struct ps_checkpoint_parameter moved = sample.parameters[0];
    sample.parameters[0] = sample.parameters[9];
    sample.parameters[9] = moved;
    struct memory_files *other = memory_files_create(1);

    ck_assert_int_eq(ps_checkpoint_write(memory_files_files(other), "data/ck", &sample.facts,
                                         sample.parameters, sample.count, ps_allocator_heap(),
                                         &place, NULL),
                     PS_OK);

    ck_assert_uint_eq(place.crc32, crc32);
    ck_assert(memory_files_get(disk, place.path, &first));
    ck_assert(memory_files_get(other, place.path, &second));
    ck_assert(ps_bytes_equal(first, second));
    memory_files_destroy(other);
}
END_TEST

START_TEST(names_that_a_file_cannot_hold_are_refused)
{
    char longest[PS_NAME_BYTES_MAX + 1];
    memset(longest, 'n', sizeof longest);

    ck_assert_int_eq(write_named(ps_bytes_of_text("")), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(write_named(ps_bytes_of_text("__metadata__")), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(write_named(ps_bytes_of_text("ps.state/")), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(write_named(ps_bytes_of_text("ps.state/0/w")), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(write_named(ps_bytes_of_text("ps.sessions")), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(write_named(ps_bytes_of_text("\xff")), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(write_named((struct ps_bytes){(const uint8_t *)"a\0b", 3}), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(write_named((struct ps_bytes){(const uint8_t *)longest, sizeof longest}),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(knobs->seen, 0);
    ck_assert_int_eq(write_named((struct ps_bytes){(const uint8_t *)longest, sizeof longest - 1}),
                     PS_OK);
    ck_assert_int_eq(ps_checkpoint_verify(files, place.path, ps_allocator_heap(), NULL), PS_OK);
}
END_TEST

START_TEST(a_job_that_is_no_text_is_refused)
{
    sample.facts.job = "\xff";

    ck_assert_int_eq(write_with(ps_allocator_heap()), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_folder_with_too_long_a_path_is_refused)
{
    char folder[1000];
    memset(folder, 'f', sizeof folder);
    folder[sizeof folder - 1] = '\0';

    ck_assert_int_eq(ps_checkpoint_write(files, folder, &sample.facts, NULL, 0, ps_allocator_heap(),
                                         &place, NULL),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(knobs->seen, 0);
}
END_TEST

START_TEST(the_same_name_twice_aborts)
{
    sample.parameters[6] = sample.parameters[0];

    enum ps_status status = write_with(ps_allocator_heap());

    ck_abort_msg("came back with %s", ps_status_word(status));
}
END_TEST

/* Refuses the first allocation, then the second, and so on. */
START_TEST(a_refused_allocation_writes_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);

    enum ps_status status = write_with(&memory);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_uint_eq(memory_files_file_count(disk), status == PS_OK ? 1 : 0);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* Fails the first call of the disk, then the second, and so on: each is an error and leaves no
 * file at all. */
START_TEST(a_failing_call_leaves_no_file)
{
    sample_fini(&sample);
    sample_init(&sample, 8, 100000, 4);
    enum ps_status status = PS_ERR_IO;
    int64_t failures = 0;
    for (; status == PS_ERR_IO; failures++) {
        knobs->seen = 0;
        knobs->fail_at = failures;

        status = write_with(ps_allocator_heap());

        ck_assert_uint_eq(memory_files_open_count(disk), 0);
        ck_assert_uint_eq(memory_files_file_count(disk), status == PS_OK ? 1 : 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(failures, 7);
    knobs->fail_at = -1;
    sample_assert_equal(&sample, files, place.path);
}
END_TEST

/* The same when even the removal of the temporary file fails: nothing has the final name. */
START_TEST(a_disk_that_dies_leaves_no_file_under_the_final_name)
{
    enum ps_status status = PS_ERR_IO;
    for (int64_t power = 0; status == PS_ERR_IO; power++) {
        struct memory_files *other = memory_files_create((uint64_t)power);
        memory_files_knobs(other)->fail_from = power;

        status =
            ps_checkpoint_write(memory_files_files(other), "ck", &sample.facts, sample.parameters,
                                sample.count, ps_allocator_heap(), &place, NULL);

        bool renamed = memory_files_knobs(other)->count[MEMORY_SYNC_FOLDER] > 0;
        for (size_t i = 0; i < memory_files_file_count(other) && !renamed; i++)
            ck_assert_ptr_nonnull(strstr(memory_files_path(other, i), ".tmp"));
        memory_files_destroy(other);
    }
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

/* Gives the arrays of one of the sample's parameters; fails when `left` pieces were read. */
struct reader {
    const struct ps_checkpoint_parameter *parameter;
    int *left;
};

static enum ps_status read_array(void *self, uint32_t array, uint64_t offset, void *to, size_t size,
                                 struct ps_error *failure)
{
    const struct reader *reader = self;
    const struct ps_checkpoint_parameter *parameter = reader->parameter;
    if ((*reader->left)-- == 0)
        return ps_fail(failure, PS_ERR_UNAVAILABLE, "the device is dead");
    ps_view_copy(array == 0 ? parameter->values : parameter->states[array - 1], (size_t)offset, to,
                 size);
    return PS_OK;
}

/* Every other parameter is read by a source; the file must be the same. */
static enum ps_status write_from_sources(int pieces)
{
    struct ps_checkpoint_parameter *mixed =
        ps_zeroed_array(ps_allocator_heap(), sample.count, sizeof *mixed);
    struct reader *readers = ps_zeroed_array(ps_allocator_heap(), sample.count, sizeof *readers);
    for (size_t i = 0; i < sample.count; i++) {
        mixed[i] = sample.parameters[i];
        readers[i] = (struct reader){&sample.parameters[i], &pieces};
        if (i % 2 == 1)
            continue;
        mixed[i].values = (struct ps_view){0};
        memset(mixed[i].states, 0, sizeof mixed[i].states);
        mixed[i].source = (struct ps_checkpoint_source){read_array, &readers[i]};
    }
    enum ps_status status = ps_checkpoint_write(files, "data/ck", &sample.facts, mixed,
                                                sample.count, ps_allocator_heap(), &place, &error);
    ps_release(ps_allocator_heap(), mixed);
    ps_release(ps_allocator_heap(), readers);
    return status;
}

START_TEST(what_a_source_gives_is_written_as_what_lies_in_memory)
{
    sample_fini(&sample);
    sample_init(&sample, 18, 300000, 4);

    ck_assert_int_eq(write_from_sources(INT_MAX), PS_OK);

    sample_assert_equal(&sample, files, place.path);
}
END_TEST

START_TEST(a_source_that_fails_leaves_no_file)
{
    ck_assert_int_eq(write_from_sources(_i), PS_ERR_UNAVAILABLE);

    ck_assert_str_eq(error.text, "the device is dead");
    ck_assert_uint_eq(memory_files_file_count(disk), 0);
}
END_TEST

START_TEST(a_failed_sync_is_final_for_the_file)
{
    knobs->fail_mask = 1u << MEMORY_SYNC;
    knobs->fail_at = 0;

    ck_assert_int_eq(write_with(ps_allocator_heap()), PS_ERR_IO);

    ck_assert_uint_eq(knobs->count[MEMORY_SYNC], 1);
    ck_assert_uint_eq(knobs->count[MEMORY_RENAME], 0);
    ck_assert_uint_eq(memory_files_file_count(disk), 0);
}
END_TEST

START_TEST(a_full_disk_is_an_error_and_is_given_its_room_back)
{
    memory_files_put(disk, "data/ck/other", ps_bytes_of_text("older"));
    knobs->bytes_max = 1000;

    ck_assert_int_eq(write_with(ps_allocator_heap()), PS_ERR_IO);

    ck_assert_ptr_nonnull(strstr(error.text, "No space left"));
    ck_assert_uint_eq(memory_files_bytes(disk), 5);
    knobs->bytes_max = 0;
    ck_assert_int_eq(write_with(ps_allocator_heap()), PS_OK);
}
END_TEST

/* What the watcher was told last, and whether each call went on where the one before ended. */
struct told {
    uint64_t bytes[32][1 + PS_STATES_MAX];
    size_t calls;
};

/* What is told to be read is turned into something else: nobody may look at it any more. */
static void note_and_spoil(void *self, size_t parameter, uint32_t array, uint64_t bytes)
{
    struct told *told = self;
    const struct ps_checkpoint_parameter *about = &sample.parameters[parameter];
    struct ps_view view = array == 0 ? about->values : about->states[array - 1];
    struct ps_view_cursor cursor = {.view = view};
    ck_assert_uint_gt(bytes, told->bytes[parameter][array]);
    ck_assert_uint_le(bytes, view.size);
    told->bytes[parameter][array] = bytes;
    told->calls++;
    for (uint64_t done = 0; done < bytes;) {
        struct ps_bytes run = ps_view_next(&cursor, bytes - done);
        memset((void *)(uintptr_t)run.data, 0xee, run.size);
        done += run.size;
    }
}

START_TEST(what_the_watcher_is_told_of_is_not_read_again)
{
    struct told told = {0};
    const struct ps_checkpoint_watcher watcher = {note_and_spoil, &told};
    struct sample expected;
    sample_init(&expected, 18, 50, 4);

    const struct ps_checkpoint_setup setup = {.watcher = &watcher};
    ck_assert_int_eq(ps_checkpoint_write_as(files, "data/ck", &sample.facts, sample.parameters,
                                            sample.count, &setup, ps_allocator_heap(), &place,
                                            &error),
                     PS_OK);

    for (size_t i = 0; i < sample.count; i++)
        for (uint32_t array = 0; array <= sample.parameters[i].state_count; array++)
            ck_assert_uint_eq(told.bytes[i][array], sample.parameters[i].values.size);
    sample_assert_equal(&expected, files, place.path);
    sample_fini(&expected);
}
END_TEST

/* Sees what is in the file before the header is written. */
static void look_for_header(void *context, enum memory_files_operation operation, const char *path)
{
    struct ps_bytes content;
    if (operation != MEMORY_WRITE || !memory_files_get(disk, path, &content) || content.size < 8)
        return;
    bool *begins_with_zeros = context;
    static const uint8_t zeros[8] = {0};
    *begins_with_zeros = memcmp(content.data, zeros, 8) == 0;
}

START_TEST(the_header_is_written_last)
{
    bool begins_with_zeros = false;
    knobs->observer = look_for_header;
    knobs->observer_context = &begins_with_zeros;

    ck_assert_int_eq(write_with(ps_allocator_heap()), PS_OK);

    ck_assert(begins_with_zeros);
    ck_assert_int_eq(ps_checkpoint_verify(files, place.path, ps_allocator_heap(), NULL), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_writer");
    TCase *tests = tcase_create("checkpoint_writer");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_place_describes_the_file);
    tcase_add_test(tests, b5_write_comes_before_sync_before_rename_before_sync_of_the_folder);
    tcase_add_test(tests, small_pieces_go_out_in_few_writes);
    tcase_add_test(tests, the_same_checkpoint_is_the_same_file);
    tcase_add_test(tests, names_that_a_file_cannot_hold_are_refused);
    tcase_add_test(tests, a_job_that_is_no_text_is_refused);
    tcase_add_test(tests, a_folder_with_too_long_a_path_is_refused);
    tcase_add_test_raise_signal(tests, the_same_name_twice_aborts, SIGABRT);
    tcase_add_loop_test(tests, a_refused_allocation_writes_nothing, 0, 20);
    tcase_add_test(tests, a_failing_call_leaves_no_file);
    tcase_add_test(tests, a_disk_that_dies_leaves_no_file_under_the_final_name);
    tcase_add_test(tests, a_failed_sync_is_final_for_the_file);
    tcase_add_test(tests, what_a_source_gives_is_written_as_what_lies_in_memory);
    tcase_add_loop_test(tests, a_source_that_fails_leaves_no_file, 0, 3);
    tcase_add_test(tests, a_full_disk_is_an_error_and_is_given_its_room_back);
    tcase_add_test(tests, what_the_watcher_is_told_of_is_not_read_again);
    tcase_add_test(tests, the_header_is_written_last);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
