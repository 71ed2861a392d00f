/* SPDX-License-Identifier: Apache-2.0 */
/* The promises of the core under real threads; meant to run under the thread sanitizer, too. No
 * test depends on how fast anything is: some threads do a fixed amount of work, and the others go
 * on until those have done it. */
#include "base/bounds.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enough for a parameter of more than one block. */
#define ELEMENTS (PS_BLOCK_BYTES / 4 + 1000)
#define PUSHES 60
#define PULLS 60
#define SNAPSHOTS 200

static struct ps_service *service;
static float *ones;
/* Threads that look; those that push go on until the last of them has seen enough. */
static _Atomic int lookers;

static void create_with(const struct ps_service_options *options)
{
    ck_assert_int_eq(ps_service_create(options, &service, NULL), PS_OK);
    ps_service_own(service, 0, 1, 1, "");
    ps_service_prove(service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(service);
    ones = malloc(ELEMENTS * sizeof *ones);
    ck_assert_ptr_nonnull(ones);
    for (size_t i = 0; i < ELEMENTS; i++)
        ones[i] = 1;
}

static void create_service(void)
{
    const struct ps_service_options options = {
        .memory = ps_allocator_heap(), .clock = ps_clock_real(), .saves = true};
    create_with(&options);
}

static void create_journal_service(void)
{
    const struct ps_service_options options = {.memory = ps_allocator_heap(),
                                               .clock = ps_clock_real(),
                                               .saves = true,
                                               .journals = true,
                                               .ack = PS_ACK_LOGGED};
    create_with(&options);
}

static void destroy_service(void)
{
    ps_service_check(service);
    ps_service_destroy(service);
    free(ones);
}

/* A float32 parameter of zeros that adds what is pushed. */
static void init_sum(const char *name, size_t count)
{
    float *zeros = calloc(count, sizeof *zeros);
    struct ps_bytes piece = {(const uint8_t *)zeros, count * sizeof *zeros};
    struct ps_init_request request = {.name = text(name),
                                      .dtype = PS_F32,
                                      .content = ps_view_of(&piece),
                                      .config = config_of("add", 1)};
    ck_assert_int_eq(ps_service_init(service, &request, NULL, NULL), PS_OK);
    free(zeros);
}

static void push_ones(const char *name, size_t count)
{
    struct ps_bytes piece = {(const uint8_t *)ones, count * sizeof *ones};
    struct ps_push_request request = {
        .name = text(name), .dtype = PS_F32, .content = ps_view_of(&piece)};
    struct ps_push_reply reply;
    ck_assert_int_eq(ps_service_push(service, &request, &reply, NULL, NULL), PS_OK);
}

static void finish(void)
{
    struct ps_ticket ticket;
    ck_assert_int_eq(ps_service_finish(service, NULL, &ticket, NULL), PS_OK);
}

static void run_threads(const ps_thread_fn *functions, size_t count)
{
    struct ps_thread threads[8] = {0};
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "test", functions[i], NULL, NULL), PS_OK);
    for (size_t i = 0; i < count; i++)
        ps_thread_join(&threads[i]);
}

static void push_on(void *unused)
{
    (void)unused;
    ps_service_enter_thread();
    while (atomic_load(&lookers) > 0)
        push_ones("w", ELEMENTS);
}

/* Every element of a pull has the value that its version says: nothing is torn. */
static void pull_many(void *unused)
{
    (void)unused;
    struct ps_pull_request request = {.name = text("w")};
    for (int i = 0; i < PULLS; i++) {
        struct ps_pull pull = {0};
        ck_assert_int_eq(ps_service_pull(service, &request, &pull, NULL), PS_OK);
        struct ps_view_cursor cursor = {.view = pull.reply.content};
        for (;;) {
            struct ps_bytes run = ps_view_next(&cursor, SIZE_MAX);
            if (run.size == 0)
                break;
            for (size_t at = 0; at < run.size; at += sizeof(float)) {
                float value;
                memcpy(&value, run.data + at, sizeof value);
                if (value != (float)pull.reply.version)
                    ck_abort_msg("%f in version %llu", (double)value,
                                 (unsigned long long)pull.reply.version);
            }
        }
        ps_pull_release(&pull);
    }
    atomic_fetch_sub(&lookers, 1);
}

START_TEST(b21_no_pull_is_torn_by_pushes)
{
    const ps_thread_fn functions[] = {push_on, pull_many, push_on, pull_many};
    create_service();
    init_sum("w", ELEMENTS);
    finish();
    lookers = 2;

    run_threads(functions, 4);

    destroy_service();
}
END_TEST

static void push_to_many(void *unused)
{
    (void)unused;
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; atomic_load(&lookers) > 0; i++)
        push_ones(names[i % 4], 100);
}

/* Values, versions and the position of a snapshot belong to one instant. */
static void snapshot_many(void *unused)
{
    (void)unused;
    for (int i = 0; i < SNAPSHOTS; i++) {
        struct ps_snapshot snapshot;
        ck_assert_int_eq(ps_snapshot_take(service, &snapshot, NULL), PS_OK);
        uint64_t versions = 0;
        for (size_t p = 0; p < snapshot.parameter_count; p++) {
            float values[100];
            versions += snapshot.parameters[p].version;
            ps_view_copy(snapshot.parameters[p].values, 0, values, sizeof values);
            for (size_t e = 0; e < 100; e++)
                ck_assert_float_eq(values[e], (float)snapshot.parameters[p].version);
        }
        ck_assert_uint_eq(versions, snapshot.facts.position);
        ps_snapshot_release(&snapshot);
    }
    atomic_fetch_sub(&lookers, 1);
}

START_TEST(p3_a_snapshot_under_pushes_is_one_instant)
{
    const ps_thread_fn functions[] = {push_to_many, snapshot_many, push_to_many, snapshot_many};
    create_service();
    init_sum("a", 100);
    init_sum("b", 100);
    init_sum("c", 100);
    init_sum("d", 100);
    finish();
    lookers = 2;

    run_threads(functions, 4);

    destroy_service();
}
END_TEST

static void push_once_to_b(void *unused)
{
    (void)unused;
    push_ones("b", 100);
}

START_TEST(b22_a_push_to_one_parameter_does_not_wait_for_another)
{
    const ps_thread_fn functions[] = {push_once_to_b};
    create_service();
    init_sum("a", 100);
    init_sum("b", 100);
    finish();
    struct ps_parameter *a = ps_parameter_table_find(&service->table, text("a"));
    ps_mutex_lock(&a->lock);

    run_threads(functions, 1);

    ps_mutex_unlock(&a->lock);
    struct ps_parameter *b = ps_parameter_table_find(&service->table, text("b"));
    ck_assert_uint_eq(b->version, 1);
    ck_assert_uint_eq(a->version, 0);
    destroy_service();
}
END_TEST

static _Atomic int finished_count;
static _Atomic int refused_count;

static void finish_once(void *unused)
{
    (void)unused;
    struct ps_ticket ticket;
    enum ps_status status = ps_service_finish(service, NULL, &ticket, NULL);
    atomic_fetch_add(status == PS_OK ? &finished_count : &refused_count, 1);
    ck_assert(status == PS_OK || status == PS_ERR_EXISTS);
}

START_TEST(b15_of_concurrent_finishes_one_succeeds)
{
    const ps_thread_fn functions[] = {finish_once, finish_once, finish_once, finish_once};
    create_service();

    run_threads(functions, 4);

    ck_assert_int_eq(finished_count, 1);
    ck_assert_int_eq(refused_count, 3);
    destroy_service();
}
END_TEST

/* Whatever InitParam said, the list of parameters never changes after READY. */
static void init_many(void *unused)
{
    (void)unused;
    const float value = 1;
    struct ps_bytes piece = {(const uint8_t *)&value, sizeof value};
    for (int i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i % 20);
        struct ps_init_request request = {
            .name = text(name), .dtype = PS_F32, .content = ps_view_of(&piece)};
        enum ps_status status = ps_service_init(service, &request, NULL, NULL);
        ck_assert(status == PS_OK || status == PS_ERR_EXISTS);
    }
}

static void finish_and_look(void *unused)
{
    (void)unused;
    struct ps_status_reply before;
    struct ps_status_reply after;
    char uuid[37];
    finish();
    ps_service_status(service, &before, uuid);
    for (int i = 0; i < 100; i++)
        ps_service_status(service, &after, uuid);
    ck_assert_uint_eq(before.parameter_count, after.parameter_count);
}

START_TEST(b15_no_init_slips_in_after_finish)
{
    const ps_thread_fn functions[] = {init_many, init_many, finish_and_look};
    create_service();

    run_threads(functions, 3);

    destroy_service();
}
END_TEST

/* The shard is lost and gained again in the middle of everything. */
static void lose_and_gain(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20; i++) {
        ps_service_reset(service);
        ps_service_own(service, 0, 1, (uint64_t)i + 2, "");
        ps_service_begin_empty(service);
        ps_service_prove(service, PS_DEADLINE_NEVER);
        init_sum("w", ELEMENTS);
        finish();
    }
}

static void push_and_pull_whatever_happens(void *unused)
{
    (void)unused;
    struct ps_bytes piece = {(const uint8_t *)ones, ELEMENTS * sizeof *ones};
    struct ps_push_request push = {
        .name = text("w"), .dtype = PS_F32, .content = ps_view_of(&piece)};
    struct ps_pull_request request = {.name = text("w")};
    for (int i = 0; i < PUSHES; i++) {
        struct ps_push_reply reply;
        struct ps_pull pull = {0};
        struct ps_snapshot snapshot;
        (void)!ps_service_push(service, &push, &reply, NULL, NULL);
        (void)!ps_service_pull(service, &request, &pull, NULL);
        (void)!ps_snapshot_take(service, &snapshot, NULL);
        ps_pull_release(&pull);
        ps_snapshot_release(&snapshot);
    }
}

START_TEST(losing_the_shard_under_load_breaks_nothing)
{
    const ps_thread_fn functions[] = {push_and_pull_whatever_happens, lose_and_gain,
                                      push_and_pull_whatever_happens};
    create_service();

    run_threads(functions, 3);

    destroy_service();
}
END_TEST

/* ---- Repeats from several threads, and a journal that is written meanwhile ---- */

#define REPEATED 400
static _Atomic uint64_t applied;
static _Atomic uint64_t acknowledged;
static _Atomic bool writer_stops;

/* Every thread sends every request until it is settled; one of them applies it. */
static void push_the_same(void *unused)
{
    (void)unused;
    ps_service_enter_thread();
    const struct ps_bytes piece = {(const uint8_t *)ones, 100 * sizeof *ones};
    for (uint64_t sequence = 1; sequence <= REPEATED;) {
        const struct ps_push_request request = {
            .name = text("w"),
            .dtype = PS_F32,
            .content = ps_view_of(&piece),
            .request = {
                .present = true, .client_id = text("one"), .session = 1, .sequence = sequence}};
        struct ps_push_reply reply;
        struct ps_push_wait wait;
        enum ps_status status = ps_service_push(service, &request, &reply, &wait, NULL);
        if (status == PS_ERR_BUSY) {
            (void)sched_yield();
            continue;
        }
        if (status == PS_ERR_STALE_SESSION) {
            sequence++; /* The other threads are a whole window ahead. */
            continue;
        }
        ck_assert_int_eq(status, PS_OK);
        atomic_fetch_add(&applied, reply.duplicate ? 0 : 1);
        while ((status = ps_service_acknowledge(service, &wait, &reply, NULL)) == PS_ERR_NOT_READY)
            (void)sched_yield();
        ck_assert_int_eq(status, PS_OK);
        ck_assert_uint_ge(reply.durable_position, wait.position);
        atomic_fetch_add(&acknowledged, reply.duplicate ? 0 : 1);
        sequence++;
    }
    if (atomic_fetch_sub(&lookers, 1) == 1)
        atomic_store(&writer_stops, true);
}

static void write_journal(void *unused)
{
    (void)unused;
    struct ps_record records[8];
    uint64_t before = 0;
    while (!atomic_load(&writer_stops)) {
        size_t count = ps_service_journal_take(service, records, 8);
        for (size_t i = 0; i < count; i++) {
            float content[100];
            ck_assert_uint_eq(records[i].position, ++before);
            ck_assert_uint_eq(records[i].version, before);
            ps_view_copy(records[i].content, 0, content, sizeof content);
            ck_assert_float_eq(content[99], 1);
        }
        if (count > 0)
            ps_service_journal_written(service, UINT64_MAX, PS_OK, NULL);
        else
            (void)sched_yield();
    }
}

static void save_many(void *unused)
{
    (void)unused;
    while (!atomic_load(&writer_stops)) {
        struct ps_snapshot snapshot;
        ck_assert_int_eq(ps_snapshot_take(service, &snapshot, NULL), PS_OK);
        ck_assert_uint_eq(snapshot.parameters[0].version, snapshot.facts.position);
        struct ps_checkpoint_place place = {.position = snapshot.facts.position};
        ps_service_saved(service, snapshot.ticket, &place);
        ps_snapshot_release(&snapshot);
        (void)sched_yield();
    }
}

START_TEST(p2_of_repeats_that_race_one_is_applied)
{
    const ps_thread_fn functions[] = {push_the_same, push_the_same, push_the_same, write_journal,
                                      save_many};
    create_journal_service();
    init_sum("w", 100);
    finish();
    lookers = 3;

    run_threads(functions, 5);

    ck_assert_uint_eq(applied, REPEATED);
    ck_assert_uint_eq(acknowledged, REPEATED);
    destroy_service();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("core_threads");
    tcase_add_test(tests, b21_no_pull_is_torn_by_pushes);
    tcase_add_test(tests, p3_a_snapshot_under_pushes_is_one_instant);
    tcase_add_test(tests, b22_a_push_to_one_parameter_does_not_wait_for_another);
    tcase_add_test(tests, b15_of_concurrent_finishes_one_succeeds);
    tcase_add_test(tests, b15_no_init_slips_in_after_finish);
    tcase_add_test(tests, losing_the_shard_under_load_breaks_nothing);
    tcase_add_test(tests, p2_of_repeats_that_race_one_is_applied);
    return run_tests("core_threads", tests);
}
