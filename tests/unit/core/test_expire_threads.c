/* SPDX-License-Identifier: Apache-2.0 */
/* Rows expire beside pushes of two threads and snapshots of a third; what the journal has of it is
 * what a recovery finds. Meant to run under the thread sanitizer, too. */
#include "base/random.h"
#include "core_disk.h"
#include "core_table.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_sweep.h"

#include <string.h>

enum { PUSHERS = 2, PUSHES = 400, KEYS = 150, IDS = 20000, KEPT = 40 };

static struct core_world before;
static struct core_world after;
static _Atomic int pushers_left;
static _Atomic uint64_t seeds;

/* Random keys, each of which adds one to its row. */
static void push(void *unused)
{
    uint8_t content[KEYS * TABLE_ROW_BYTES];
    const float ones[TABLE_WIDTH] = {1, 1, 1};
    struct ps_random random;
    (void)unused;
    ps_random_init(&random, atomic_fetch_add(&seeds, 1));
    ps_service_enter_thread();
    for (int i = 0; i < PUSHES; i++) {
        for (size_t k = 0; k < KEYS; k++) {
            uint64_t key = ps_random_below(&random, IDS);
            memcpy(content + k * sizeof key, &key, sizeof key);
            memcpy(content + KEYS * sizeof key + k * sizeof ones, ones, sizeof ones);
        }
        const struct ps_bytes piece = {content, sizeof content};
        const struct ps_push_request request = {.name = text("t"),
                                                .dtype = PS_F32,
                                                .encoding = PS_ENCODING_ROWS,
                                                .content = ps_view_of(&piece)};
        struct ps_push_reply reply;
        ck_assert_int_eq(ps_service_push(before.service, &request, &reply, NULL, NULL), PS_OK);
    }
    atomic_fetch_sub(&pushers_left, 1);
}

static void hold(void *unused)
{
    (void)unused;
    while (atomic_load(&pushers_left) > 0) {
        struct ps_snapshot snapshot;
        ck_assert_int_eq(ps_snapshot_take(before.service, &snapshot, NULL), PS_OK);
        ps_snapshot_release(&snapshot);
        ps_service_check(before.service);
    }
}

/* The thread that sweeps says itself what is due, in the place of a clock: what was not pushed to
 * for the last pushes. */
static void sweep_until_all_is_pushed(void)
{
    struct ps_row_expiry *expiry = table_of(&before)->expiry;
    while (atomic_load(&pushers_left) > 0) {
        uint64_t version = ps_parameter_version(table_of(&before));
        /* Held as a sweep holds it: snapshots read what is due. */
        ps_rwlock_read(&before.service->cut);
        if (version > KEPT)
            expiry->due = version - KEPT;
        ps_rwlock_unlock(&before.service->cut);
        (void)ps_service_sweep(before.service);
    }
}

static void ignore(void *unused)
{
    (void)unused;
}

static void ignore_topics(void *unused, uint64_t topics)
{
    (void)unused;
    (void)topics;
}

/* What a world counts, of memory and of what it is told, it counts for one thread. From here on
 * `before` has the memory of everybody, and listens to nothing. */
static void share_before(void)
{
    const struct ps_service_listener listener = {
        .changed = ignore_topics, .checkpoint_wanted = ignore, .journal_wanted = ignore};
    before.memory = *ps_allocator_heap();
    ps_service_listen(before.service, &listener);
    before.service->queue.bytes_max = (uint64_t)64 << 20;
}

START_TEST(a_recovery_finds_the_rows_that_pushes_and_sweeps_have_left)
{
    static const ps_thread_fn functions[] = {push, push, hold};
    static const float two[] = {1, 2};
    struct memory_files *disk = memory_files_create(1);
    struct ps_journal_writer *writer = NULL;
    struct ps_journal_writer *writer_after = NULL;
    struct ps_recovered loaded;
    struct ps_thread threads[PS_ARRAY_COUNT(functions)] = {0};
    disk_journal_world_init(&before, 1);
    disk_journal_world_init(&after, 2);
    ck_assert_int_eq(disk_recover(&before, disk, 1, &writer, &loaded), PS_OK);
    ck_assert_int_eq(world_init_param(&before, "w", PS_F32, two, sizeof two, config_of("sgd", 1)),
                     PS_OK);
    ck_assert_int_eq(world_finish(&before), PS_OK);
    disk_save(&before, disk, NULL);
    /* An hour, which the clock of this test never gets to; and keys that are counted, too. */
    const struct ps_table_settings settings = {.expire_ms = 3600000, .admission = 2};
    ck_assert_int_eq(table_define(&before, table_config("sgd", settings), 0), PS_OK);
    share_before();
    pushers_left = PUSHERS;

    for (size_t i = 0; i < PS_ARRAY_COUNT(functions); i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "test", functions[i], NULL, NULL), PS_OK);
    sweep_until_all_is_pushed();
    for (size_t i = 0; i < PS_ARRAY_COUNT(functions); i++)
        ps_thread_join(&threads[i]);

    ps_service_check(before.service);
    ps_row_table_check(table_of(&before)->rows);
    ck_assert_uint_gt(before.service->row_room.expired, 0);
    ck_assert_uint_eq(table_of(&before)->version, PUSHERS * PUSHES);
    ck_assert_int_eq(disk_write_journal(&before, writer, 64), PS_OK);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    ck_assert_int_eq(disk_recover(&after, disk, 2, &writer_after, &loaded), PS_OK);
    ps_service_check(after.service);
    ck_assert_uint_eq(ps_row_table_digest(table_of(&before)->rows),
                      ps_row_table_digest(table_of(&after)->rows));
    ps_journal_writer_close(writer);
    ps_journal_writer_close(writer_after);
    ps_service_destroy(before.service);
    world_fini(&after);
    memory_files_destroy(disk);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("expire_threads");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_recovery_finds_the_rows_that_pushes_and_sweeps_have_left);
    return run_tests("expire_threads", tests);
}
