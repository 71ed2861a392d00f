/* SPDX-License-Identifier: Apache-2.0 */
/* Damage of every kind is found, and named. */
#include "tools/psckpt/checkpoint_survey.h"

#include "run_suite.h"
#include "shard_fixture.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct memory_files *disk;
static const struct ps_files *files;
static struct progress progress;
static struct toolbox box;
static char path[1024];
static uint8_t *bytes;
static size_t size;

static void set_up(void)
{
    struct shard_fixture fixture;
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    progress_init(&progress, ps_clock_real(), false);
    box = (struct toolbox){files, ps_allocator_heap(), &progress};
    shard_fixture_init(&fixture, 0);
    strcpy(path, shard_fixture_write(&fixture, files, "data/shard-0").path);
    ck_assert_int_eq(
        ps_file_read_all(files, path, 1 << 20, ps_allocator_heap(), &bytes, &size, NULL), PS_OK);
}

static void tear_down(void)
{
    ps_release(ps_allocator_heap(), bytes);
    memory_files_destroy(disk);
}

static void put(size_t length)
{
    struct ps_file file;
    ck_assert_int_eq(files->remove(files->self, path, NULL), PS_OK);
    ck_assert_int_eq(files->open(files->self, path, PS_FILE_CREATE_NEW, &file, NULL), PS_OK);
    ck_assert_int_eq(files->write(files->self, file, (struct ps_bytes){bytes, length}, NULL),
                     PS_OK);
    files->close(files->self, file);
}

static struct checkpoint_survey survey_it(void)
{
    struct checkpoint_survey survey;
    struct ps_error error = {0};
    ck_assert_msg(checkpoint_survey_init(&survey, &box, path, true, &error) == PS_OK, "%s",
                  error.text);
    return survey;
}

START_TEST(a_whole_file_has_no_damage)
{
    struct checkpoint_survey survey = survey_it();

    ck_assert_uint_eq(survey.damage_count, 0);
    ck_assert(survey.has_header);
    ck_assert_uint_eq(survey.bytes, size);
    ck_assert_uint_eq(survey.header.count, FIXTURE_PARAMETERS);
    checkpoint_survey_fini(&survey);
}
END_TEST

static size_t head_size(void)
{
    uint64_t length = 0;
    for (size_t i = 0; i < 8; i++)
        length |= (uint64_t)bytes[i] << 8 * i;
    return 8 + (size_t)length;
}

START_TEST(every_flipped_bit_of_the_header_is_named_as_header)
{
    size_t end = head_size();
    for (size_t bit = 0; bit < end * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        put(size);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);

        struct checkpoint_survey survey = survey_it();

        ck_assert_uint_eq(survey.damage_count, 1);
        ck_assert(!survey.has_header);
        ck_assert_str_eq(survey.damages[0].tensor, "");
        ck_assert_uint_gt(strlen(survey.why.text), 0);
        checkpoint_survey_fini(&survey);
    }
}
END_TEST

START_TEST(every_flipped_bit_behind_it_is_named_with_its_tensor_and_range)
{
    for (size_t bit = head_size() * 8; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        put(size);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);

        struct checkpoint_survey survey = survey_it();

        ck_assert_uint_eq(survey.damage_count, 1);
        ck_assert_uint_gt(strlen(survey.damages[0].tensor), 0);
        ck_assert_uint_le(survey.damages[0].begin, bit / 8);
        ck_assert_uint_gt(survey.damages[0].end, bit / 8);
        checkpoint_survey_fini(&survey);
    }
}
END_TEST

START_TEST(every_truncation_is_damage)
{
    for (size_t length = 0; length < size; length++) {
        put(length);

        struct checkpoint_survey survey = survey_it();

        ck_assert_uint_ge(survey.damage_count, 1);
        ck_assert_str_eq(survey.damages[0].tensor, "");
        ck_assert(survey.has_header == (length >= head_size()));
        /* What stands behind the end is named, and nothing else. */
        for (size_t i = 1; i < survey.damage_count; i++)
            ck_assert_uint_gt(survey.damages[i].end, length);
        if (survey.has_header)
            ck_assert_uint_ge(survey.damage_count, 2);
        checkpoint_survey_fini(&survey);
    }
}
END_TEST

START_TEST(bytes_behind_the_arrays_are_damage_of_none_of_them)
{
    bytes = realloc(bytes, size + 1);
    bytes[size] = 0;
    put(size + 1);

    struct checkpoint_survey survey = survey_it();

    ck_assert_uint_eq(survey.damage_count, 1);
    ck_assert_str_eq(survey.damages[0].tensor, "");
    ck_assert_ptr_nonnull(strstr(survey.why.text, "longer or shorter"));
    checkpoint_survey_fini(&survey);
}
END_TEST

START_TEST(two_damaged_tensors_are_both_named)
{
    bytes[head_size()] ^= 1;
    bytes[size - 1] ^= 1;
    put(size);

    struct checkpoint_survey survey = survey_it();

    ck_assert_uint_eq(survey.damage_count, 2);
    ck_assert_str_eq(survey.damages[0].tensor, "b");
    ck_assert_str_eq(survey.damages[1].tensor, "c/d");
    checkpoint_survey_fini(&survey);
}
END_TEST

START_TEST(damage_of_a_state_is_told_from_damage_of_values)
{
    bytes[head_size() + 24] ^= 1;
    put(size);

    struct checkpoint_survey survey = survey_it();

    ck_assert_str_eq(survey.damages[0].tensor, "ps.state/0/b");
    checkpoint_survey_fini(&survey);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_no_damage)
{
    struct checkpoint_survey survey;
    ck_assert_int_eq(checkpoint_survey_init(&survey, &box, "data/none", true, NULL),
                     PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(any_failed_read_is_reported_and_closes_the_file)
{
    for (int64_t n = 0;; n++) {
        struct fault_files fault = {.under = files, .calls = FAULT_ANY, .fail_at = n};
        struct ps_files failing = fault_files_files(&fault);
        struct checkpoint_survey survey;

        const struct toolbox broken = {&failing, ps_allocator_heap(), &progress};
        enum ps_status status = checkpoint_survey_init(&survey, &broken, path, true, NULL);

        ck_assert_int_eq(status, fault.fired ? PS_ERR_IO : PS_OK);
        ck_assert_int_eq(fault.open, 0);
        if (status == PS_OK) {
            checkpoint_survey_fini(&survey);
            break;
        }
    }
}
END_TEST

START_TEST(any_refused_allocation_is_reported_and_leaves_nothing)
{
    for (int64_t n = 0;; n++) {
        struct fault_heap heap = {.refuse_at = n};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct checkpoint_survey survey;

        const struct toolbox poor = {files, &memory, &progress};
        enum ps_status status = checkpoint_survey_init(&survey, &poor, path, true, NULL);

        ck_assert_int_eq(status, heap.seen > n ? PS_ERR_NO_MEMORY : PS_OK);
        if (status == PS_OK)
            checkpoint_survey_fini(&survey);
        ck_assert_int_eq(heap.live, 0);
        if (status == PS_OK)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint_survey");
    TCase *tcase = tcase_create("survey");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_whole_file_has_no_damage);
    tcase_add_test(tcase, every_flipped_bit_of_the_header_is_named_as_header);
    tcase_add_test(tcase, every_flipped_bit_behind_it_is_named_with_its_tensor_and_range);
    tcase_add_test(tcase, every_truncation_is_damage);
    tcase_add_test(tcase, bytes_behind_the_arrays_are_damage_of_none_of_them);
    tcase_add_test(tcase, two_damaged_tensors_are_both_named);
    tcase_add_test(tcase, damage_of_a_state_is_told_from_damage_of_values);
    tcase_add_test(tcase, a_file_that_is_not_there_is_no_damage);
    tcase_add_test(tcase, any_failed_read_is_reported_and_closes_the_file);
    tcase_add_test(tcase, any_refused_allocation_is_reported_and_leaves_nothing);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
