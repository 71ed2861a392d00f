/* SPDX-License-Identifier: Apache-2.0 */
/* Promises 1 and 2 through the whole loop: service, journal, checkpoints, a disk that loses its
 * power at every single call, and recovery. What was acknowledged is there afterwards, and whatever
 * is repeated is applied once. */
#include "base/random.h"
#include "tests/unit/core/core_disk.h"

#include <stdio.h>
#include <string.h>

#define PUSHES 15
#define CLIENTS 3

/* Everything that the clients know: each sends PUSHES pushes of {1, 1}, and this is what came. */
static bool acknowledged[CLIENTS][PUSHES + 1];
static uint64_t versions[CLIENTS][PUSHES + 1];
static bool finished; /* FinishInitParams was acknowledged: its checkpoint is durable */

static struct memory_files *disk;
static struct core_world world;
static struct ps_journal_writer *writer;
static const float zeros[] = {0, 0};
static const float ones[] = {1, 1};

/* One push that waits for its reply. */
struct parked {
    size_t client;
    uint64_t sequence;
    struct ps_push_reply reply;
    struct ps_push_wait wait;
};
static struct parked parked[CLIENTS * PUSHES];
static size_t parked_count;

static struct ps_request_id request_id(size_t client, uint64_t sequence)
{
    static const char *const names[CLIENTS] = {"a", "b", "c"};
    return (struct ps_request_id){
        .present = true, .client_id = text(names[client]), .session = 1, .sequence = sequence};
}

static enum ps_status push(size_t client, uint64_t sequence, struct ps_push_reply *reply,
                           struct ps_push_wait *wait)
{
    const struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
    const struct ps_push_request request = {.name = text("w"),
                                            .dtype = PS_F32,
                                            .content = ps_view_of(&piece),
                                            .request = request_id(client, sequence)};
    return ps_service_push(world.service, &request, reply, wait, &world.error);
}

static void send(size_t client, uint64_t sequence)
{
    struct parked *call = &parked[parked_count];
    *call = (struct parked){.client = client, .sequence = sequence};
    if (push(client, sequence, &call->reply, &call->wait) == PS_OK)
        parked_count++;
}

/* Asks every parked call whether it may be answered. */
static void acknowledge_all(void)
{
    for (size_t i = 0; i < parked_count; i++) {
        struct parked *call = &parked[i];
        if (ps_service_acknowledge(world.service, &call->wait, &call->reply, NULL) != PS_OK)
            continue;
        acknowledged[call->client][call->sequence] = true;
        versions[call->client][call->sequence] = call->reply.version;
    }
}

static void save(void)
{
    struct ps_saver saver = disk_saver(&world, disk);
    struct ps_checkpoint_place place;
    struct ps_ticket ticket;
    if (ps_service_want_checkpoint(world.service, &ticket, NULL) != PS_OK)
        return;
    (void)!ps_saver_save(&saver, PS_DEADLINE_NEVER, &place, NULL);
}

/* The disk works again after one failed call: another file, everything again that failed. */
static void heal(void)
{
    if (ps_journal_writer_revive(writer, NULL) == PS_OK)
        (void)!disk_write_journal(&world, writer, 2);
}

/* The first owner's life, up to wherever the disk ends it. */
static void live(void)
{
    struct ps_recovered loaded;
    struct ps_ticket ticket;
    const struct ps_bytes piece = {(const uint8_t *)zeros, sizeof zeros};
    const struct ps_init_request init = {.name = text("w"),
                                         .dtype = PS_F32,
                                         .content = ps_view_of(&piece),
                                         .config = config_of("add", 1),
                                         .request = request_id(0, 254)};
    const struct ps_finish_request finish = {.request = request_id(0, 255)};
    if (disk_recover(&world, disk, 1, &writer, &loaded) != PS_OK)
        return;
    ck_assert_int_eq(ps_service_init(world.service, &init, NULL, &world.error), PS_OK);
    ck_assert_int_eq(ps_service_finish(world.service, &finish, &ticket, &world.error), PS_OK);
    for (uint64_t sequence = 1; sequence <= PUSHES; sequence++) {
        /* The first pushes come before the first checkpoint. */
        for (size_t client = 0; client < CLIENTS; client++)
            send(client, (sequence - 1) / 3 * 3 + 3 - (sequence - 1) % 3);
        if (disk_write_journal(&world, writer, 2) != PS_OK)
            heal();
        if (sequence % 5 == 2)
            save();
        finished = finished || ps_service_satisfied(world.service, ticket);
        acknowledge_all();
        ps_service_check(world.service);
    }
}

/* Every client repeats everything to the next owner. */
static void expect_kept(void)
{
    for (size_t client = 0; client < CLIENTS; client++) {
        for (uint64_t sequence = 1; sequence <= PUSHES; sequence++) {
            struct ps_push_reply reply;
            ck_assert_int_eq(push(client, sequence, &reply, NULL), PS_OK);
            if (!acknowledged[client][sequence])
                continue;
            ck_assert_msg(reply.duplicate, "client %zu, %d: acknowledged and lost", client,
                          (int)sequence);
            ck_assert_uint_eq(reply.version, versions[client][sequence]);
        }
        ck_assert_int_eq(disk_write_journal(&world, writer, 8), PS_OK);
    }
    const float expected[] = {CLIENTS * PUSHES, CLIENTS * PUSHES};
    world_expect_f32(&world, "w", expected, 2);
}

static size_t count_acknowledged(void)
{
    size_t count = 0;
    for (size_t client = 0; client < CLIENTS; client++)
        for (uint64_t sequence = 1; sequence <= PUSHES; sequence++)
            count += acknowledged[client][sequence];
    return count;
}

static void next_owner(uint64_t epoch, enum memory_crash mode)
{
    struct ps_recovered loaded;
    memory_files_crash(disk, mode);
    ps_journal_writer_close(writer);
    writer = NULL;
    world_fini(&world);
    disk_journal_world_init(&world, epoch);
    enum ps_status status = disk_recover(&world, disk, epoch, &writer, &loaded);
    ck_assert_msg(status == PS_OK, "%s", world.error.text);
}

/* True when the life ended before the call that was to fail. */
static bool lose_power_at(int64_t call, bool for_good, enum memory_crash mode)
{
    memset(acknowledged, 0, sizeof acknowledged);
    parked_count = 0;
    finished = false;
    writer = NULL;
    disk = memory_files_create((uint64_t)call + 1);
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    *(for_good ? &knobs->fail_from : &knobs->fail_at) = call;
    disk_journal_world_init(&world, 1);
    live();
    bool reached = knobs->seen > call;
    knobs->fail_at = -1;
    knobs->fail_from = -1;
    ck_assert(reached || count_acknowledged() == (size_t)CLIENTS * PUSHES);

    next_owner(2, mode);
    if (strcmp(ps_service_state_name(world.service), "uninitialized") == 0) {
        ck_assert(!finished);
        ck_assert_uint_eq(count_acknowledged(), 0);
    } else {
        expect_kept();
        /* And once more: what was applied again is remembered, too. */
        next_owner(3, mode == MEMORY_CRASH_PROCESS ? MEMORY_CRASH_LOSES_ALL : mode);
        expect_kept();
    }
    ps_journal_writer_close(writer);
    world_fini(&world);
    memory_files_destroy(disk);
    return !reached;
}

static void sweep(bool for_good, enum memory_crash mode)
{
    int64_t call = 0;
    while (!lose_power_at(call, for_good, mode))
        call++;
    /* Long enough for segments, checkpoints and sweeps to be among the calls. */
    ck_assert_int_gt(call, 100);
}

static const enum memory_crash modes[] = {MEMORY_CRASH_LOSES_ALL, MEMORY_CRASH_KEEPS_ALL,
                                          MEMORY_CRASH_SEEDED, MEMORY_CRASH_PROCESS};

START_TEST(p1_p2_hold_when_the_power_goes_at_any_call_of_the_disk)
{
    sweep(true, modes[_i]);
}
END_TEST

START_TEST(p1_p2_hold_when_any_one_call_of_the_disk_fails_and_the_power_goes_later)
{
    sweep(false, modes[_i]);
}
END_TEST

/* ---- A former owner that does not know it yet ---- */

static uint64_t next_sequence;

/* A few pushes to `to`, some of which stay in its queue. */
static void go_on(struct core_world *to, struct ps_journal_writer *its_writer,
                  struct ps_random *random)
{
    for (uint64_t count = ps_random_below(random, 6); count > 0; count--) {
        const struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
        const struct ps_push_request request = {.name = text("w"),
                                                .dtype = PS_F32,
                                                .content = ps_view_of(&piece),
                                                .request = request_id(1, next_sequence)};
        struct ps_push_reply reply;
        struct ps_push_wait wait;
        next_sequence += ps_service_push(to->service, &request, &reply, &wait, NULL) == PS_OK;
        if (ps_random_below(random, 3) > 0)
            ck_assert_int_eq(disk_write_journal(to, its_writer, 3), PS_OK);
    }
}

/* What a former owner still does after it lost the shard: it writes what it had queued, and a
 * checkpoint that it cannot publish. */
static void go_on_blindly(struct core_world *former, struct ps_journal_writer *its_writer,
                          struct ps_random *random)
{
    struct ps_saver saver = disk_saver(former, disk);
    struct ps_saving saving;
    ck_assert_int_eq(disk_write_journal(former, its_writer, 1), PS_OK);
    if (ps_random_below(random, 2) == 0) {
        ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);
        ck_assert_int_eq(ps_saver_write(&saver, &saving, NULL), PS_OK);
    }
}

START_TEST(p4_whatever_a_former_owner_writes_is_never_read_as_current)
{
    struct core_world former;
    struct core_world third;
    struct ps_journal_writer *writers[3] = {NULL};
    struct ps_recovered loaded;
    struct ps_random random;
    ps_random_init(&random, 0xf0f0 + (uint64_t)_i);
    next_sequence = 1;
    disk = memory_files_create((uint64_t)_i);
    disk_journal_world_init(&former, 1);
    ck_assert_int_eq(disk_recover(&former, disk, 1, &writers[0], &loaded), PS_OK);
    ck_assert_int_eq(
        world_init_param(&former, "w", PS_F32, zeros, sizeof zeros, config_of("add", 1)), PS_OK);
    ck_assert_int_eq(world_finish(&former), PS_OK);
    disk_save(&former, disk, NULL);
    go_on(&former, writers[0], &random);
    /* It was stopped with something in its queue. */
    ck_assert_int_eq(world_push(&former, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    disk_journal_world_init(&world, 2);
    ck_assert_int_eq(disk_recover(&world, disk, 2, &writers[1], &loaded), PS_OK);
    if (ps_random_below(&random, 2) == 0)
        go_on_blindly(&former, writers[0], &random);
    go_on(&world, writers[1], &random);
    if (ps_random_below(&random, 3) == 0) {
        ck_assert_int_eq(disk_write_journal(&world, writers[1], 8), PS_OK);
        disk_save(&world, disk, NULL);
    }
    go_on_blindly(&former, writers[0], &random);
    go_on(&world, writers[1], &random);
    ck_assert_int_eq(disk_write_journal(&world, writers[1], 8), PS_OK);

    memory_files_crash(disk, MEMORY_CRASH_KEEPS_ALL);
    disk_journal_world_init(&third, 3);
    enum ps_status status = disk_recover(&third, disk, 3, &writers[2], &loaded);
    ck_assert_msg(status == PS_OK, "seed %d: %s", _i, third.error.text);
    disk_expect_equal(&world, &third);

    for (size_t i = 0; i < 3; i++)
        ps_journal_writer_close(writers[i]);
    world_fini(&former);
    world_fini(&world);
    world_fini(&third);
    memory_files_destroy(disk);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("core_crash");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, p1_p2_hold_when_the_power_goes_at_any_call_of_the_disk, 0, 4);
    tcase_add_loop_test(
        tests, p1_p2_hold_when_any_one_call_of_the_disk_fails_and_the_power_goes_later, 0, 4);
    tcase_add_loop_test(tests, p4_whatever_a_former_owner_writes_is_never_read_as_current, 0, 200);
    return run_tests("core_crash", tests);
}
