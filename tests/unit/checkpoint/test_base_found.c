/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/checkpoint_base.c: what comes out of the base for a parameter that is all the base's,
 * states that look alike and are not, and a base that goes or fails while it is opened. */
#include "checkpoint/checkpoint.h"
#include "run_suite.h"
#include "sample_increment.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <string.h>

static struct memory_files *disk;
static struct ps_files failing; /* the disk, but for one file */
static enum ps_status fate;     /* of opening it */
static struct ps_checkpoint_facts base_facts, own_facts;
static struct ps_checkpoint_reader *reader;
static struct ps_error error;
static char base_path[1024], own_path[1024];

static enum ps_status open_or_fail(void *self, const char *path, enum ps_file_mode mode,
                                   struct ps_file *file, struct ps_error *why)
{
    if (fate != PS_OK && strcmp(path, base_path) == 0)
        return ps_fail(why, fate, "as the test has it");
    return memory_files_files(disk)->open(self, path, mode, file, why);
}

static void set_up(void)
{
    disk = memory_files_create(1);
    failing = *memory_files_files(disk);
    failing.open = open_or_fail;
    fate = PS_OK;
    base_facts = sample_base_facts();
    own_facts = sample_own_facts();
}

static void tear_down(void)
{
    ps_checkpoint_close(reader);
    reader = NULL;
    memory_files_destroy(disk);
}

static void write_both(const struct ps_checkpoint_parameter *base,
                       const struct ps_checkpoint_parameter *own)
{
    sample_increment_write(&failing, "ck", &base_facts, base, 1, base_path);
    sample_increment_write(&failing, "ck", &own_facts, own, 1, own_path);
}

static enum ps_status open_own(void)
{
    return ps_checkpoint_open(&failing, own_path, ps_allocator_heap(), &reader, &error);
}

START_TEST(a_parameter_that_is_the_bases_has_its_shape)
{
    static const double numbers[] = {1, 2, 3, 4, 5, 6};
    const struct ps_bytes run = {(const uint8_t *)numbers, sizeof numbers};
    const uint64_t lengths[] = {2, 3};
    struct ps_checkpoint_parameter parameter = {.name = ps_bytes_of_text("a"),
                                                .dtype = PS_F64,
                                                .count = 6,
                                                .version = 1,
                                                .id = 8,
                                                .values = ps_view_of(&run)};
    ck_assert_int_eq(ps_shape_make(&parameter.shape, lengths, 2, NULL), PS_OK);
    struct ps_checkpoint_parameter own = parameter;
    own.carry = PS_CARRY_AS_BASE;
    write_both(&parameter, &own);

    ck_assert_msg(open_own() == PS_OK, "%s", error.text);

    const struct ps_shape *shape = &ps_checkpoint_parameter(reader, 0)->shape;
    ck_assert(shape->is_given && shape->rank == 2);
    ck_assert_uint_eq(shape->lengths[0], 2);
    ck_assert_uint_eq(shape->lengths[1], 3);
}
END_TEST

static const struct sample_row list[] = {{1, 1}, {2, 1}, {3, 1}};

/* As many states in both, of which another one has an element for a row. */
START_TEST(states_of_other_widths_are_another_table)
{
    struct sample_rows base, own;
    sample_rows_init(&base, "t", PS_F32, 3, list, 3);
    sample_rows_init(&own, "t", PS_F32, 3, list, 1);
    sample_rows_remove(&own, &list[2].key, 1);
    struct ps_checkpoint_parameter swapped = base.parameter;
    swapped.states[0] = base.parameter.states[1];
    swapped.states[1] = base.parameter.states[0];
    swapped.state_is_one[0] = true;
    swapped.state_is_one[1] = false;
    write_both(&swapped, &own.parameter);

    ck_assert_int_eq(open_own(), PS_ERR_CORRUPT);

    ck_assert_msg(strstr(error.text, "has another t") != NULL, "%s", error.text);
    sample_rows_fini(&base);
    sample_rows_fini(&own);
}
END_TEST

static void write_tables(void)
{
    struct sample_rows base, own;
    sample_rows_init(&base, "t", PS_F32, 3, list, 3);
    sample_rows_init(&own, "t", PS_F32, 3, list, 1);
    sample_rows_remove(&own, &list[2].key, 1);
    write_both(&base.parameter, &own.parameter);
    sample_rows_fini(&base);
    sample_rows_fini(&own);
}

/* Swept between the look at the folder and the opening: the file is as good as one whose base was
 * never there, and the loader goes on to an older one. */
START_TEST(a_base_that_goes_meanwhile_is_damage)
{
    write_tables();
    fate = PS_ERR_NOT_FOUND;

    ck_assert_int_eq(open_own(), PS_ERR_CORRUPT);
    ck_assert_msg(strstr(error.text, "in its base " SAMPLE_BASE) != NULL, "%s", error.text);
}
END_TEST

/* Of a disk that fails nobody knows what could be had: it is not saved without the base, either. */
START_TEST(a_disk_that_fails_is_no_damage)
{
    bool whole = false;
    write_tables();
    fate = PS_ERR_IO;

    ck_assert_int_eq(open_own(), PS_ERR_IO);
    ck_assert_int_eq(ps_checkpoint_open_damaged(&failing, own_path, ps_allocator_heap(), &reader,
                                                &whole, &error),
                     PS_ERR_IO);
    fate = PS_ERR_CORRUPT;
    ck_assert_int_eq(ps_checkpoint_open_damaged(&failing, own_path, ps_allocator_heap(), &reader,
                                                &whole, &error),
                     PS_OK);
    ck_assert_uint_eq(ps_checkpoint_parameter_count(reader), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base_found");
    TCase *tests = tcase_create("base_found");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_parameter_that_is_the_bases_has_its_shape);
    tcase_add_test(tests, states_of_other_widths_are_another_table);
    tcase_add_test(tests, a_base_that_goes_meanwhile_is_damage);
    tcase_add_test(tests, a_disk_that_fails_is_no_damage);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
