/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_sections.c: rounds and clocks of a checkpoint, applied or refused. */
#include "checkpoint/journal.h"
#include "server/core/recovery/recovery_fill.h"
#include "server/core/recovery/snapshot.h"
#include "tests/unit/core/core_disk.h"

#include <string.h>

static void give(void *self, size_t i, struct ps_record *record)
{
    *record = ((const struct ps_record *)self)[i];
}

/* Saves a world with one record in that section, and loads the file into another. */
static enum ps_status load_with(enum ps_checkpoint_section section, struct ps_record *record,
                                bool is_damaged)
{
    struct core_world saved;
    struct core_world loaded;
    struct ps_checkpoint_place place;
    struct ps_checkpoint_reader *reader;
    struct ps_snapshot snapshot;
    struct memory_files *disk = memory_files_create(1);
    world_init_ready(&saved);
    ck_assert_int_eq(ps_snapshot_take(saved.service, &snapshot, &saved.error), PS_OK);
    snapshot.facts.sections[section] = (struct ps_checkpoint_records){1, give, record};
    ck_assert_int_eq(ps_checkpoint_write(memory_files_files(disk), "ck", &snapshot.facts,
                                         snapshot.parameters, snapshot.parameter_count,
                                         &saved.memory, &place, &saved.error),
                     PS_OK);
    ps_snapshot_release(&snapshot);
    if (is_damaged)
        memory_files_flip(disk, place.path, 8 * (place.bytes - 1));
    disk_world_init(&loaded, 2);
    ck_assert_int_eq(ps_checkpoint_open(memory_files_files(disk), place.path, &loaded.memory,
                                        &reader, &loaded.error),
                     PS_OK);

    enum ps_status status = ps_recovery_fill(loaded.service, reader, NULL, &loaded.error);

    /* As empty as before. */
    if (status != PS_OK)
        ck_assert_str_eq(ps_service_state_name(loaded.service), "starting");
    ps_checkpoint_close(reader);
    world_fini(&saved);
    world_fini(&loaded);
    memory_files_destroy(disk);
    return status;
}

START_TEST(a_damaged_section_leaves_the_shard_empty)
{
    static const uint8_t content[16] = {0};
    struct ps_bytes piece = {content, sizeof content};
    struct ps_record record = {
        .type = PS_RECORD_CLOCK, .name = ps_bytes_of_text("c"), .content = ps_view_of(&piece)};

    ck_assert_int_eq(load_with(PS_CHECKPOINT_CLOCKS, &record, true), PS_ERR_CORRUPT);
}
END_TEST

/* A contribution of no bytes to nothing, and settings of no clocks. */
START_TEST(a_record_that_cannot_be_applied_leaves_the_shard_empty)
{
    struct ps_record held = {.type = PS_RECORD_HELD, .name = ps_bytes_of_text("nothing")};
    struct ps_record clocks = {.type = PS_RECORD_CLOCKS, .name = ps_bytes_of_text("c")};

    ck_assert_int_ne(load_with(PS_CHECKPOINT_ROUNDS, &held, false), PS_OK);
    ck_assert_int_ne(load_with(PS_CHECKPOINT_CLOCKS, &clocks, false), PS_OK);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_sections");
    tcase_add_test(tests, a_damaged_section_leaves_the_shard_empty);
    tcase_add_test(tests, a_record_that_cannot_be_applied_leaves_the_shard_empty);
    return run_tests("recovery_sections", tests);
}
