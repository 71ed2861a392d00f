/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/checkpoint_reader.c: what was written comes back, or is refused. */
#include "checkpoint/checkpoint.h"

#include "base/random.h"
#include "run_suite.h"
#include "sample_checkpoint.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct memory_files *disk;
static const struct ps_files *files;
static struct sample sample;

static void set_up(void)
{
    disk = memory_files_create(11);
    files = memory_files_files(disk);
}

static void tear_down(void)
{
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
    sample_fini(&sample);
}

/* Opens, reads and verifies: both readers must agree. */
static enum ps_status read_twice(const char *path)
{
    enum ps_status status = sample_read(&sample, files, path, ps_allocator_heap());
    ck_assert_int_eq(ps_checkpoint_verify(files, path, ps_allocator_heap(), NULL), status);
    return status;
}

START_TEST(every_type_and_number_of_states_comes_back)
{
    sample_init(&sample, 6 * 3, 1000, 1);

    struct ps_checkpoint_place place = sample_write(&sample, files);

    sample_assert_equal(&sample, files, place.path);
    ck_assert_int_eq(ps_checkpoint_verify(files, place.path, ps_allocator_heap(), NULL), PS_OK);
}
END_TEST

START_TEST(a_checkpoint_without_parameters_comes_back)
{
    sample_init(&sample, 0, 1, 1);

    struct ps_checkpoint_place place = sample_write(&sample, files);

    ck_assert_int_eq(read_twice(place.path), PS_OK);
}
END_TEST

START_TEST(ten_thousand_parameters_come_back)
{
    sample_init(&sample, 10000, 20, 1);

    struct ps_checkpoint_place place = sample_write(&sample, files);

    sample_assert_equal(&sample, files, place.path);
}
END_TEST

START_TEST(arrays_larger_than_one_write_come_back)
{
    sample_init(&sample, 15, 300000, 1);

    struct ps_checkpoint_place place = sample_write(&sample, files);

    ck_assert_int_eq(read_twice(place.path), PS_OK);
}
END_TEST

START_TEST(a_parameter_of_no_elements_comes_back)
{
    struct ps_checkpoint_parameter empty = {.name = ps_bytes_of_text("e"), .dtype = PS_I64};
    sample_init(&sample, 0, 1, 1);
    struct ps_checkpoint_place place;
    ck_assert_int_eq(ps_checkpoint_write(files, "ck", &sample.facts, &empty, 1, ps_allocator_heap(),
                                         &place, NULL),
                     PS_OK);
    struct ps_checkpoint_reader *reader = NULL;

    ck_assert_int_eq(ps_checkpoint_open(files, place.path, ps_allocator_heap(), &reader, NULL),
                     PS_OK);

    ck_assert_uint_eq(ps_checkpoint_parameter(reader, 0)->count, 0);
    ck_assert_int_eq(ps_checkpoint_read_array(reader, 0, -1, NULL, 0, NULL), PS_OK);
    ps_checkpoint_close(reader);
}
END_TEST

/* The old system saved optimizer state as decimal text. */
START_TEST(b14_state_comes_back_bit_by_bit)
{
    static const float odd[] = {0.1f, -0.0f, 1e-45f, 3.4028235e38f, INFINITY, 16777217.0f};
    float state[6];
    memcpy(state, odd, sizeof odd);
    uint32_t quiet_nan_with_payload = 0x7fc12345;
    memcpy(&state[1], &quiet_nan_with_payload, sizeof state[1]);
    struct ps_bytes values = {(const uint8_t *)odd, sizeof odd};
    struct ps_bytes states = {(const uint8_t *)state, sizeof state};
    struct ps_checkpoint_parameter parameter = {.name = ps_bytes_of_text("w"),
                                                .dtype = PS_F32,
                                                .count = 6,
                                                .state_count = 1,
                                                .values = ps_view_of(&values),
                                                .states = {ps_view_of(&states)}};
    sample_init(&sample, 0, 1, 1);
    struct ps_checkpoint_place place;
    ck_assert_int_eq(ps_checkpoint_write(files, "ck", &sample.facts, &parameter, 1,
                                         ps_allocator_heap(), &place, NULL),
                     PS_OK);
    struct ps_checkpoint_reader *reader = NULL;
    float back[6];
    struct ps_checkpoint_piece piece = {back, sizeof back};

    ck_assert_int_eq(ps_checkpoint_open(files, place.path, ps_allocator_heap(), &reader, NULL),
                     PS_OK);
    ck_assert_int_eq(ps_checkpoint_read_array(reader, 0, -1, &piece, 1, NULL), PS_OK);
    ck_assert_mem_eq(back, odd, sizeof odd);
    ck_assert_int_eq(ps_checkpoint_read_array(reader, 0, 0, &piece, 1, NULL), PS_OK);
    ck_assert_mem_eq(back, state, sizeof state);
    ps_checkpoint_close(reader);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_not_found)
{
    struct ps_checkpoint_reader *reader = NULL;

    ck_assert_int_eq(ps_checkpoint_open(files, "ck/no", ps_allocator_heap(), &reader, NULL),
                     PS_ERR_NOT_FOUND);
    ck_assert_ptr_null(reader);
}
END_TEST

START_TEST(every_truncation_is_noticed)
{
    sample_init(&sample, 7, 20, 2);
    struct ps_checkpoint_place place = sample_write(&sample, files);
    struct ps_bytes whole;
    ck_assert(memory_files_get(disk, place.path, &whole));
    for (size_t size = 0; size < whole.size; size++) {
        memory_files_put(disk, "ck/cut", (struct ps_bytes){whole.data, size});
        ck_assert(memory_files_get(disk, place.path, &whole));

        ck_assert_msg(read_twice("ck/cut") == PS_ERR_CORRUPT, "cut at %zu", size);
    }
}
END_TEST

START_TEST(bytes_behind_the_end_are_noticed)
{
    sample_init(&sample, 3, 20, 2);
    struct ps_checkpoint_place place = sample_write(&sample, files);
    struct ps_file file;
    ck_assert_int_eq(files->open(files->self, place.path, PS_FILE_APPEND, &file, NULL), PS_OK);
    ck_assert_int_eq(files->write(files->self, file, ps_bytes_of_text("x"), NULL), PS_OK);
    files->close(files->self, file);

    ck_assert_int_eq(read_twice(place.path), PS_ERR_CORRUPT);
}
END_TEST

START_TEST(every_flipped_bit_of_the_header_is_noticed)
{
    sample_init(&sample, 2, 20, 2);
    struct ps_checkpoint_place place = sample_write(&sample, files);
    struct ps_bytes whole;
    ck_assert(memory_files_get(disk, place.path, &whole));
    size_t data_bytes = sample.parameters[0].values.size + sample.parameters[1].values.size +
                        sample.facts.sessions.size;
    for (uint64_t bit = 0; bit < (whole.size - data_bytes) * 8; bit++) {
        memory_files_flip(disk, place.path, bit);

        ck_assert_msg(read_twice(place.path) == PS_ERR_CORRUPT, "bit %u", (unsigned)bit);

        memory_files_flip(disk, place.path, bit);
    }
    ck_assert_int_eq(read_twice(place.path), PS_OK);
}
END_TEST

START_TEST(two_thousand_random_flips_of_the_body_are_noticed)
{
    const uint64_t seed = 20260501;
    struct ps_random random;
    ps_random_init(&random, seed);
    sample_init(&sample, 18, 200, 3);
    struct ps_checkpoint_place place = sample_write(&sample, files);
    for (int i = 0; i < 2000; i++) {
        uint64_t bits[3];
        size_t flips = 1 + (size_t)ps_random_below(&random, 3);
        for (size_t k = 0; k < flips; k++) {
            bits[k] = ps_random_below(&random, place.bytes * 8);
            memory_files_flip(disk, place.path, bits[k]);
        }
        struct ps_error error = {0};
        bool same = flips == 2 && bits[0] == bits[1];

        enum ps_status status =
            ps_checkpoint_verify(files, place.path, ps_allocator_heap(), &error);

        ck_assert_msg(status == (same ? PS_OK : PS_ERR_CORRUPT), "seed %u, flip %d: %s",
                      (unsigned)seed, i, error.text);
        if (!same)
            ck_assert_int_eq(
                strncmp(error.text, "checkpoint file checksum validation failed: ", 44), 0);
        for (size_t k = 0; k < flips; k++)
            memory_files_flip(disk, place.path, bits[k]);
    }
    ck_assert_int_eq(read_twice(place.path), PS_OK);
}
END_TEST

START_TEST(the_damaged_array_is_named)
{
    sample_init(&sample, 13, 20, 3);
    struct ps_checkpoint_place place = sample_write(&sample, files);
    struct ps_error error = {0};
    memory_files_flip(disk, place.path, (place.bytes - sample.facts.sessions.size) * 8 - 1);

    ck_assert_int_eq(ps_checkpoint_verify(files, place.path, ps_allocator_heap(), &error),
                     PS_ERR_CORRUPT);

    ck_assert_msg(strstr(error.text, " of layer\n999999.\"ö\\") != NULL, "%s", error.text);
}
END_TEST

START_TEST(damaged_sessions_are_named_before_any_array_is_read)
{
    sample_init(&sample, 13, 20, 3);
    ck_assert_uint_gt(sample.facts.sessions.size, 0);
    struct ps_checkpoint_place place = sample_write(&sample, files);
    struct ps_checkpoint_reader *reader = NULL;
    struct ps_error error = {0};
    memory_files_flip(disk, place.path, place.bytes * 8 - 1);

    ck_assert_int_eq(ps_checkpoint_open(files, place.path, ps_allocator_heap(), &reader, &error),
                     PS_ERR_CORRUPT);

    ck_assert_str_eq(error.text, "checkpoint file checksum validation failed: sessions");
}
END_TEST

START_TEST(a_checkpoint_without_sessions_has_none)
{
    sample_init(&sample, 3, 20, 3);
    ck_assert_uint_eq(sample.facts.sessions.size, 0);

    struct ps_checkpoint_place place = sample_write(&sample, files);

    ck_assert_int_eq(read_twice(place.path), PS_OK);
}
END_TEST

START_TEST(a_tail_of_zeros_is_noticed)
{
    sample_init(&sample, 6, 200, 3);
    struct ps_checkpoint_place place = sample_write(&sample, files);
    struct ps_bytes whole;
    ck_assert(memory_files_get(disk, place.path, &whole));
    uint8_t *zeroed = calloc(1, whole.size);
    ck_assert_ptr_nonnull(zeroed);
    for (size_t kept = 0; kept < whole.size; kept += 97) {
        memset(zeroed, 0, whole.size);
        memcpy(zeroed, whole.data, kept);
        memory_files_put(disk, "ck/zeros", (struct ps_bytes){zeroed, whole.size});
        ck_assert(memory_files_get(disk, place.path, &whole));

        ck_assert_int_eq(read_twice("ck/zeros"), PS_ERR_CORRUPT);
    }
    free(zeroed);
}
END_TEST

START_TEST(a_huge_stated_header_asks_for_no_memory)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    static const uint8_t lie[] = {0, 0, 0, 4, 0, 0, 0, 0, '{'};
    memory_files_put(disk, "ck/lie", (struct ps_bytes){lie, sizeof lie});
    struct ps_checkpoint_reader *reader = NULL;

    ck_assert_int_eq(ps_checkpoint_open(files, "ck/lie", &memory, &reader, NULL), PS_ERR_CORRUPT);

    ck_assert_int_eq(heap.seen, 1);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* Refuses the first allocation, then the second, and so on. */
START_TEST(a_refused_allocation_leaves_nothing_open)
{
    sample_init(&sample, 5, 20, 3);
    struct ps_checkpoint_place place = sample_write(&sample, files);
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);

    enum ps_status status = ps_checkpoint_verify(files, place.path, &memory, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* Fails the first call of the disk, then the second, and so on. */
START_TEST(a_failing_disk_is_an_error_and_leaves_nothing_open)
{
    sample_init(&sample, 5, 20, 3);
    struct ps_checkpoint_place place = sample_write(&sample, files);
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    enum ps_status status = PS_ERR_IO;
    int64_t failures = 0;
    for (; status == PS_ERR_IO; failures++) {
        knobs->seen = 0;
        knobs->fail_at = failures;
        status = sample_read(&sample, files, place.path, ps_allocator_heap());
        ck_assert_uint_eq(memory_files_open_count(disk), 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_gt(failures, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_reader");
    TCase *tests = tcase_create("checkpoint_reader");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, every_type_and_number_of_states_comes_back);
    tcase_add_test(tests, a_checkpoint_without_parameters_comes_back);
    tcase_add_test(tests, ten_thousand_parameters_come_back);
    tcase_add_test(tests, arrays_larger_than_one_write_come_back);
    tcase_add_test(tests, a_parameter_of_no_elements_comes_back);
    tcase_add_test(tests, b14_state_comes_back_bit_by_bit);
    tcase_add_test(tests, a_file_that_is_not_there_is_not_found);
    tcase_add_test(tests, every_truncation_is_noticed);
    tcase_add_test(tests, bytes_behind_the_end_are_noticed);
    tcase_add_test(tests, every_flipped_bit_of_the_header_is_noticed);
    tcase_add_test(tests, two_thousand_random_flips_of_the_body_are_noticed);
    tcase_add_test(tests, the_damaged_array_is_named);
    tcase_add_test(tests, damaged_sessions_are_named_before_any_array_is_read);
    tcase_add_test(tests, a_checkpoint_without_sessions_has_none);
    tcase_add_test(tests, a_tail_of_zeros_is_noticed);
    tcase_add_test(tests, a_huge_stated_header_asks_for_no_memory);
    tcase_add_loop_test(tests, a_refused_allocation_leaves_nothing_open, 0, 6);
    tcase_add_test(tests, a_failing_disk_is_an_error_and_leaves_nothing_open);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
