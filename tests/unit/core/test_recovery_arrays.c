/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_arrays.c: arrays that are read in several parts, by several threads. */
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/recovery_arrays.h"
#include "server/core/recovery/recovery_fill.h"

#include "base/thread.h"
#include "tests/unit/core/core_disk.h"

#include <string.h>

/* Two parts of 8 MiB and a rest of four bytes: values and one state each. */
#define ELEMENTS ((size_t)4 * 1024 * 1024 + 1)
#define BYTES (ELEMENTS * 4)

static float elements[ELEMENTS];
static struct core_world saved;
static struct core_world loaded;
static struct memory_files *disk;
static struct ps_checkpoint_place place;

static void setup(void)
{
    disk = memory_files_create(1);
    disk_world_init(&saved, 1);
    disk_world_init(&loaded, 2);
    ps_service_begin_empty(saved.service);
    for (size_t i = 0; i < ELEMENTS; i++)
        elements[i] = (float)(i % 1000) - 500;
    ck_assert_int_eq(world_init_param(&saved, "large", PS_F32, elements, sizeof elements,
                                      config_of("adagrad", 0.5)),
                     PS_OK);
    ck_assert_int_eq(world_finish(&saved), PS_OK);
    ck_assert_int_eq(world_push(&saved, "large", PS_F32, elements, sizeof elements, NULL), PS_OK);
    disk_save(&saved, disk, &place);
}

static void teardown(void)
{
    world_fini(&saved);
    world_fini(&loaded);
    memory_files_destroy(disk);
}

static enum ps_status load_by(const struct ps_crew *crew)
{
    struct ps_checkpoint_reader *reader;
    ck_assert_int_eq(ps_checkpoint_open(memory_files_files(disk), place.path, ps_allocator_heap(),
                                        &reader, NULL),
                     PS_OK);
    enum ps_status status = ps_recovery_fill(loaded.service, reader, crew, &loaded.error);
    ps_checkpoint_close(reader);
    if (status == PS_OK)
        ps_recovery_finish(loaded.service, place.position);
    return status;
}

START_TEST(an_array_of_several_parts_comes_back)
{
    ck_assert_msg(load_by(NULL) == PS_OK, "%s", loaded.error.text);

    disk_expect_equal(&saved, &loaded);
}
END_TEST

/* Each call takes what is left: the order of the parts is whatever it is. */
static void run_twice(void *self, void (*work)(void *argument), void *argument)
{
    (void)self;
    work(argument);
    work(argument);
}

START_TEST(a_crew_brings_the_same)
{
    const struct ps_crew crew = {run_twice, NULL};

    ck_assert_msg(load_by(&crew) == PS_OK, "%s", loaded.error.text);

    disk_expect_equal(&saved, &loaded);
}
END_TEST

START_TEST(the_system_may_forget_every_byte_that_was_read)
{
    ck_assert_msg(load_by(NULL) == PS_OK, "%s", loaded.error.text);

    ck_assert_uint_eq(memory_files_knobs(disk)->bytes_forgotten, 2 * BYTES);
}
END_TEST

/* One bit in each part of the values and of the state, near its beginning or its end. */
static const uint64_t damages[] = {0,
                                   BYTES / 2,
                                   BYTES - 5,
                                   BYTES - 1, /* of the values */
                                   BYTES,
                                   2 * BYTES - 1, /* of the state */
                                   BYTES * 3 / 2};

START_TEST(damage_in_any_part_is_found_and_named)
{
    struct ps_bytes content;
    uint64_t header_bytes = 0;
    ck_assert(memory_files_get(disk, place.path, &content));
    memcpy(&header_bytes, content.data, sizeof header_bytes);
    memory_files_flip(disk, place.path, (8 + header_bytes + damages[_i]) * 8 + 3);
    int64_t live = loaded.heap.live;

    ck_assert_int_eq(load_by(NULL), PS_ERR_CORRUPT);

    ck_assert_str_eq(loaded.error.text, damages[_i] < BYTES
                                            ? "checkpoint file checksum validation failed: values "
                                              "of large"
                                            : "checkpoint file checksum validation failed: state "
                                              "0 of large");
    ck_assert_int_eq(loaded.heap.live, live);
}
END_TEST

START_TEST(a_disk_that_fails_in_the_middle_is_told)
{
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    knobs->fail_mask = 1u << MEMORY_READ;
    knobs->fail_at = knobs->seen + 40;

    ck_assert_int_eq(load_by(NULL), PS_ERR_IO);

    ck_assert_str_eq(ps_service_state_name(loaded.service), "starting");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("load_arrays");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_array_of_several_parts_comes_back);
    tcase_add_test(tests, a_crew_brings_the_same);
    tcase_add_test(tests, the_system_may_forget_every_byte_that_was_read);
    tcase_add_loop_test(tests, damage_in_any_part_is_found_and_named, 0,
                        (int)(sizeof damages / sizeof damages[0]));
    tcase_add_test(tests, a_disk_that_fails_in_the_middle_is_told);
    return run_tests("load_arrays", tests);
}
