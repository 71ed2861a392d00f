/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks under real threads that say them, read by them and hold them in snapshots; meant to run
 * under the thread sanitizer, too. Whoever waits is asked again by the listener alone: one wake-up
 * that is lost, and the test never ends. */
#include "core_clocks.h"
#include "server/core/recovery/snapshot.h"

#include <stdlib.h>

enum { WORKERS = 4, ITERATIONS = 300, STALENESS = 2 };

static struct core_world shard;
static struct ps_mutex lock; /* guards the next two */
static struct ps_condition changed;
static uint64_t changes;
static _Atomic uint64_t ended[WORKERS]; /* iterations, before their clocks are said */
static _Atomic int running;

static void note_change(void *self, uint64_t topics)
{
    (void)self;
    (void)topics;
    ps_mutex_lock(&lock);
    changes++;
    ps_condition_signal_all(&changed);
    ps_mutex_unlock(&lock);
}

static uint64_t changes_so_far(void)
{
    ps_mutex_lock(&lock);
    uint64_t count = changes;
    ps_mutex_unlock(&lock);
    return count;
}

static void await_change(uint64_t since)
{
    ps_mutex_lock(&lock);
    while (changes == since)
        (void)ps_condition_wait(&changed, &lock, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&lock);
}

/* A read at clock c that is answered has every worker at c - STALENESS. */
static void read_at(uint32_t rank, uint64_t clock)
{
    const struct ps_pull_request request = {
        .name = text("w"), .worker = 1 + rank, .clock = clock, .clocks = text("c")};
    enum ps_status status = PS_ERR_NOT_READY;
    while (status == PS_ERR_NOT_READY) {
        struct ps_pull pull = {0};
        struct ps_pull_wait wait;
        uint64_t since = changes_so_far();
        status = ps_service_pull_or_wait(shard.service, &request, &pull, &wait, NULL);
        ps_pull_release(&pull);
        if (status == PS_ERR_NOT_READY)
            await_change(since);
    }
    ck_assert_int_eq(status, PS_OK);
    for (uint32_t other = 0; other < WORKERS; other++)
        ck_assert_uint_ge(atomic_load(&ended[other]) + STALENESS, clock);
}

static void train(void *argument)
{
    uint32_t rank = *(const uint32_t *)argument;
    ps_service_enter_thread();
    for (uint64_t clock = 0; clock < ITERATIONS; clock++) {
        struct ps_clocks_reply reply;
        const struct ps_clock_request request = {
            .name = text("c"), .worker = 1 + rank, .clock = clock + 1};
        read_at(rank, clock);
        atomic_store(&ended[rank], clock + 1);
        ck_assert_int_eq(ps_service_clock(shard.service, &request, &reply, NULL, NULL), PS_OK);
    }
    atomic_fetch_sub(&running, 1);
    note_change(NULL, 0);
}

START_TEST(no_read_is_staler_than_it_may_be_and_no_wake_up_is_lost)
{
    static const uint32_t ranks[WORKERS] = {0, 1, 2, 3};
    const struct ps_service_listener listener = {.changed = note_change};
    struct ps_thread threads[WORKERS] = {0};
    ps_mutex_init(&lock, PS_RANK_LEAF);
    ps_condition_init(&changed);
    world_init_ready(&shard);
    ps_service_listen(shard.service, &listener);
    ck_assert_int_eq(clocks_set(&shard, WORKERS, STALENESS, 0, 0), PS_OK);
    atomic_store(&running, WORKERS);
    for (size_t i = 0; i < WORKERS; i++)
        ck_assert_int_eq(
            ps_thread_start(&threads[i], "worker", train, (void *)(uintptr_t)&ranks[i], NULL),
            PS_OK);

    while (atomic_load(&running) > 0) {
        struct ps_clock_view view;
        struct ps_pull_wait wait;
        const struct ps_progress_request request = {.name = text("c")};
        ps_service_check(shard.service);
        ck_assert_int_eq(ps_service_progress(shard.service, &request, true, &view, &wait, NULL),
                         PS_OK);
        for (size_t i = 0; i < view.reply.worker_count; i++)
            ck_assert_uint_ge(view.workers[i].clock, view.reply.minimum);
        ps_clock_view_release(shard.service, &view);
    }
    for (size_t i = 0; i < WORKERS; i++)
        ps_thread_join(&threads[i]);
    ck_assert_uint_eq(clocks_of(&shard, 0), ITERATIONS);
    world_fini(&shard);
    ps_condition_fini(&changed);
    ps_mutex_fini(&lock);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("clock_threads");
    tcase_add_test(tests, no_read_is_staler_than_it_may_be_and_no_wake_up_is_lost);
    return run_tests("clock_threads", tests);
}
