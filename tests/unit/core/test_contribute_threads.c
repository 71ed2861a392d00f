/* SPDX-License-Identifier: Apache-2.0 */
/* Workers under real threads contribute to rounds, while others read, hold the parameter in
 * snapshots and configure it; meant to run under the thread sanitizer, too. */
#include "core_change.h"
#include "core_round.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service_state.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* A bit more than one block. */
enum { COUNT = PS_BLOCK_BYTES / 4 + 1000, WORKERS = 4, ROUNDS = 60 };

static struct ps_service *service;
static float *ones;
static _Atomic uint32_t next_rank;
static _Atomic int workers_left;

static struct ps_view content_of(struct ps_bytes *piece)
{
    *piece = (struct ps_bytes){(const uint8_t *)ones, COUNT * sizeof *ones};
    return ps_view_of(piece);
}

/* The values of the version, every element of which is that number. */
static void await_version(uint64_t version)
{
    const struct ps_pull_request request = {.name = text("m"), .at_least_version = version};
    for (;;) {
        struct ps_pull_wait wait;
        struct ps_pull got = {0};
        enum ps_status status = ps_service_pull_or_wait(service, &request, &got, &wait, NULL);
        ck_assert(status == PS_OK || status == PS_ERR_NOT_READY);
        if (status == PS_OK) {
            float first;
            memcpy(&first, got.reply.content.pieces[0].data, sizeof first);
            ck_assert_float_eq(first, (float)(WORKERS * got.reply.version));
            ps_pull_release(&got);
            return;
        }
        sched_yield();
    }
}

static void work(void *unused)
{
    (void)unused;
    struct ps_bytes piece;
    uint32_t rank = atomic_fetch_add(&next_rank, 1);
    const char client[] = {'c', (char)('0' + rank), '\0'};
    ps_service_enter_thread();
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const struct ps_push_request request = {
            .name = text("m"),
            .dtype = PS_F32,
            .content = content_of(&piece),
            .worker = 1 + rank,
            .round = round,
            .request = {
                .present = true, .client_id = text(client), .session = 1, .sequence = round}};
        struct ps_push_reply reply;
        ck_assert_int_eq(ps_service_push(service, &request, &reply, NULL, NULL), PS_OK);
        ck_assert_uint_eq(reply.version, round);
        await_version(round);
        ck_assert_int_eq(ps_service_push(service, &request, &reply, NULL, NULL), PS_OK);
        ck_assert(reply.duplicate && !reply.held);
    }
    atomic_fetch_sub(&workers_left, 1);
}

static void hold(void *unused)
{
    (void)unused;
    while (atomic_load(&workers_left) > 0) {
        struct ps_snapshot snapshot;
        struct ps_record record;
        ck_assert_int_eq(ps_snapshot_take(service, &snapshot, NULL), PS_OK);
        struct ps_checkpoint_records records = snapshot.facts.sections[PS_CHECKPOINT_ROUNDS];
        ck_assert_uint_le(records.count, 1 + WORKERS);
        for (size_t i = 0; i < records.count; i++) {
            records.give(records.self, i, &record);
            ck_assert_uint_eq(record.version, snapshot.parameters[0].version);
        }
        ps_snapshot_release(&snapshot);
        ps_service_check(service);
    }
}

/* A quorum of all is none; whether a round is open makes no difference to it. */
static void configure(void *unused)
{
    (void)unused;
    for (uint32_t i = 0; atomic_load(&workers_left) > 0; i++) {
        /* OptimizerConfig{rounds{quorum: ...}} */
        const uint8_t quorum[] = {0x92, 0x0d, 2, 0x10, (uint8_t)(i % 2 ? WORKERS : 0)};
        const struct ps_change_request change = {.name = text("m"),
                                                 .change = {quorum, sizeof quorum}};
        struct ps_changed changed = {0};
        ck_assert_int_eq(ps_service_configure(service, &change, &changed, NULL, NULL), PS_OK);
        ps_changed_release(&changed);
        sched_yield();
    }
}

START_TEST(every_round_is_made_of_every_worker_once)
{
    static const ps_thread_fn functions[] = {work, work, work, work, hold, configure};
    const struct ps_service_options options = {
        .memory = ps_allocator_heap(), .clock = ps_clock_real(), .saves = true};
    const struct ps_round_settings rounds = {.workers = WORKERS, .combine = PS_COMBINE_SUM};
    struct ps_thread threads[PS_ARRAY_COUNT(functions)] = {0};
    struct ps_ticket ticket;
    struct ps_bytes piece;
    ones = calloc(COUNT, sizeof *ones);
    ck_assert_int_eq(ps_service_create(&options, &service, NULL), PS_OK);
    ps_service_own(service, 0, 1, 1, "");
    ps_service_prove(service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(service);
    const struct ps_init_request init = {.name = text("m"),
                                         .dtype = PS_F32,
                                         .content = content_of(&piece),
                                         .config = round_config(&rounds)};
    ck_assert_int_eq(ps_service_init(service, &init, NULL, NULL), PS_OK);
    ck_assert_int_eq(ps_service_finish(service, NULL, &ticket, NULL), PS_OK);
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = -1;
    workers_left = WORKERS;

    for (size_t i = 0; i < PS_ARRAY_COUNT(functions); i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "test", functions[i], NULL, NULL), PS_OK);
    for (size_t i = 0; i < PS_ARRAY_COUNT(functions); i++)
        ps_thread_join(&threads[i]);

    await_version(ROUNDS);
    ps_service_check(service);
    ps_service_destroy(service);
    free(ones);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("contribute_threads");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, every_round_is_made_of_every_worker_once);
    return run_tests("contribute_threads", tests);
}
