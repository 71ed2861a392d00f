/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of several pushes of one parameter, each brought by two threads and again and again until
 * its push is done, while others read; meant to run under the thread sanitizer, too. No test
 * depends on how fast anything is. */
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

#include <stdlib.h>

enum { COUNT = PS_BLOCK_BYTES / 4 * 2 + 1000, RANGES = 6, PUSHES = 12 };

static struct ps_service *service;
static float *ones;
static _Atomic int pushing;
static _Atomic uint64_t committed; /* pushes that made a version */

static void create(bool journals)
{
    const struct ps_service_options options = {.memory = ps_allocator_heap(),
                                               .clock = ps_clock_real(),
                                               .saves = true,
                                               .journals = journals,
                                               .ack = PS_ACK_MEMORY,
                                               .journal_queue_bytes = UINT64_C(1) << 30};
    ck_assert_int_eq(ps_service_create(&options, &service, NULL), PS_OK);
    ps_service_own(service, 0, 1, 1, "");
    ps_service_prove(service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(service);
    ones = calloc(COUNT, sizeof *ones);
    ck_assert_ptr_nonnull(ones);
    struct ps_bytes piece = {(const uint8_t *)ones, COUNT * sizeof *ones};
    const struct ps_init_request request = {.name = text("w"),
                                            .dtype = PS_F32,
                                            .content = ps_view_of(&piece),
                                            .config = config_of("add", 1)};
    struct ps_ticket ticket;
    ck_assert_int_eq(ps_service_init(service, &request, NULL, NULL), PS_OK);
    ck_assert_int_eq(ps_service_finish(service, NULL, &ticket, NULL), PS_OK);
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = 1;
}

/* True once the push is done, whoever of the two has done it. */
static bool push_range(const char *client, uint64_t sequence, uint64_t i)
{
    const uint64_t width = COUNT / RANGES;
    const struct ps_elements range = {i * width, i + 1 < RANGES ? width : COUNT - i * width};
    struct ps_bytes piece = {(const uint8_t *)(ones + range.first), range.count * sizeof *ones};
    const struct ps_push_request request = {
        .name = text("w"),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .range = range,
        .request = {
            .present = true, .client_id = text(client), .session = 1, .sequence = sequence}};
    struct ps_push_reply reply;
    enum ps_status status = ps_service_push(service, &request, &reply, NULL, NULL);
    ck_assert(status == PS_OK || status == PS_ERR_BUSY);
    bool is_done = status == PS_OK && !reply.staged;
    if (is_done && !reply.duplicate)
        atomic_fetch_add(&committed, 1);
    return is_done;
}

static void push_all(const char *client, uint64_t parity)
{
    ps_service_enter_thread();
    for (uint64_t sequence = 1; sequence <= PUSHES; sequence++) {
        bool is_done = false;
        while (!is_done)
            for (uint64_t i = parity; i < RANGES; i += 2)
                is_done = push_range(client, sequence, i) || is_done;
    }
    atomic_fetch_sub(&pushing, 1);
}

static void push_even_of_a(void *unused)
{
    (void)unused;
    push_all("a", 0);
}

static void push_odd_of_a(void *unused)
{
    (void)unused;
    push_all("a", 1);
}

static void push_even_of_b(void *unused)
{
    (void)unused;
    push_all("b", 0);
}

static void push_odd_of_b(void *unused)
{
    (void)unused;
    push_all("b", 1);
}

/* Every element has the value that its version says. */
static void expect_one_version(void)
{
    const struct ps_pull_request request = {.name = text("w")};
    struct ps_pull pull = {0};
    ck_assert_int_eq(ps_service_pull(service, &request, &pull, NULL), PS_OK);
    struct ps_view_cursor cursor = {.view = pull.reply.content};
    size_t wrong = 0;
    for (;;) {
        struct ps_bytes run = ps_view_next(&cursor, SIZE_MAX);
        if (run.size == 0)
            break;
        const float *values = (const float *)run.data;
        for (size_t i = 0; i < run.size / sizeof *values; i++)
            wrong += values[i] != (float)pull.reply.version;
    }
    ck_assert_uint_eq(wrong, 0);
    ps_pull_release(&pull);
}

static void read_all(void *unused)
{
    (void)unused;
    while (atomic_load(&pushing) > 0) {
        expect_one_version();
        ps_service_check(service);
    }
}

static void run(const ps_thread_fn *functions, size_t count)
{
    struct ps_thread threads[5] = {0};
    pushing = (int)count - 1;
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "test", functions[i], NULL, NULL), PS_OK);
    for (size_t i = 0; i < count; i++)
        ps_thread_join(&threads[i]);
    expect_one_version();
    ps_service_check(service);
    ck_assert_uint_eq(service->staging.bytes, 0);
    ck_assert_uint_eq(atomic_load(&committed), PUSHES * (count - 1) / 2);
    ps_service_destroy(service);
    free(ones);
}

START_TEST(ranges_that_two_threads_bring_are_applied_once)
{
    const ps_thread_fn functions[] = {push_even_of_a, push_odd_of_a, read_all};
    create(_i == 1);
    run(functions, 3);
}
END_TEST

START_TEST(two_clients_who_overtake_each_other_are_both_applied_once)
{
    const ps_thread_fn functions[] = {push_even_of_a, push_odd_of_b, push_odd_of_a, push_even_of_b,
                                      read_all};
    create(_i == 1);
    run(functions, 5);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("update_threads");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, ranges_that_two_threads_bring_are_applied_once, 0, 2);
    tcase_add_loop_test(t, two_clients_who_overtake_each_other_are_both_applied_once, 0, 2);
    return run_tests("update_threads", t);
}
