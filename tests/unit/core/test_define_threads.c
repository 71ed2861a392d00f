/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter that comes, is configured and goes under real threads that push to it, read it and
 * hold it in snapshots; meant to run under the thread sanitizer, too. */
#include "core_change.h"
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service_state.h"

#include <stdlib.h>
#include <string.h>

/* A bit more than one block. */
enum { COUNT = PS_BLOCK_BYTES / 4 + 1000, CHANGES = 200 };

static struct ps_service *service;
static float *ones;
static _Atomic int changers; /* the others go on until these have done their work */

static struct ps_view content_of(struct ps_bytes *piece)
{
    *piece = (struct ps_bytes){(const uint8_t *)ones, COUNT * sizeof *ones};
    return ps_view_of(piece);
}

/* Whatever the other one does at this moment: only what may be answered is. */
static void change(void *unused)
{
    (void)unused;
    struct ps_bytes piece;
    ps_service_enter_thread();
    for (int i = 0; i < CHANGES; i++) {
        const struct ps_init_request define = {
            .name = text("x"), .dtype = PS_F32, .content = content_of(&piece)};
        /* learning_rate 0.5 or 1 of const_lr: field 12, a message of 9 bytes. */
        const uint8_t rate[] = {0x62, 9, 9, 0, 0, 0, 0, 0, 0, i % 2 ? 0xe0 : 0xf0, 0x3f};
        const struct ps_change_request configure = {.name = text("x"),
                                                    .change = {rate, sizeof rate}};
        const struct ps_change_request drop = {.name = text("x")};
        struct ps_init_reply reply;
        struct ps_changed changed = {0};
        enum ps_status status = PS_OK;
        if (i % 3 == 0)
            status = ps_service_define(service, &define, &reply, NULL, NULL);
        else if (i % 3 == 1)
            status = ps_service_configure(service, &configure, &changed, NULL, NULL);
        else
            status = ps_service_drop(service, &drop, &changed, NULL, NULL);
        ps_changed_release(&changed);
        ck_assert(status == PS_OK || status == PS_ERR_NOT_FOUND || status == PS_ERR_EXISTS);
    }
    atomic_fetch_sub(&changers, 1);
}

static void push(void *unused)
{
    (void)unused;
    struct ps_bytes piece;
    ps_service_enter_thread();
    while (atomic_load(&changers) > 0) {
        const struct ps_push_request request = {
            .name = text("x"), .dtype = PS_F32, .content = content_of(&piece)};
        struct ps_push_reply reply;
        enum ps_status status = ps_service_push(service, &request, &reply, NULL, NULL);
        ck_assert(status == PS_OK || status == PS_ERR_NOT_FOUND);
    }
}

/* All elements are equal in every version of every parameter of the name. */
static void expect_even(struct ps_view content)
{
    float first;
    struct ps_view_cursor cursor = {.view = content};
    memcpy(&first, content.pieces[0].data, sizeof first);
    for (;;) {
        struct ps_bytes run = ps_view_next(&cursor, SIZE_MAX);
        if (run.size == 0)
            return;
        for (size_t at = 0; at < run.size; at += sizeof first)
            ck_assert(memcmp(run.data + at, &first, sizeof first) == 0);
    }
}

static void pull(void *unused)
{
    (void)unused;
    const struct ps_pull_request request = {.name = text("x")};
    while (atomic_load(&changers) > 0) {
        struct ps_pull got = {0};
        if (ps_service_pull(service, &request, &got, NULL) == PS_OK)
            expect_even(got.reply.content);
        ps_pull_release(&got);
    }
}

static void hold(void *unused)
{
    (void)unused;
    while (atomic_load(&changers) > 0) {
        struct ps_snapshot snapshot;
        ck_assert_int_eq(ps_snapshot_take(service, &snapshot, NULL), PS_OK);
        for (size_t i = 0; i < snapshot.parameter_count; i++)
            expect_even(snapshot.parameters[i].values);
        ps_snapshot_release(&snapshot);
    }
}

START_TEST(no_reader_sees_a_half_of_a_change)
{
    static const ps_thread_fn functions[] = {change, change, push, push, pull, hold};
    const struct ps_service_options options = {
        .memory = ps_allocator_heap(), .clock = ps_clock_real(), .saves = true};
    struct ps_thread threads[PS_ARRAY_COUNT(functions)] = {0};
    struct ps_ticket ticket;
    ones = malloc(COUNT * sizeof *ones);
    for (size_t i = 0; i < COUNT; i++)
        ones[i] = 1;
    ck_assert_int_eq(ps_service_create(&options, &service, NULL), PS_OK);
    ps_service_own(service, 0, 1, 1, "");
    ps_service_prove(service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(service);
    ck_assert_int_eq(ps_service_finish(service, NULL, &ticket, NULL), PS_OK);
    changers = 2;

    for (size_t i = 0; i < PS_ARRAY_COUNT(functions); i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "test", functions[i], NULL, NULL), PS_OK);
    for (size_t i = 0; i < PS_ARRAY_COUNT(functions); i++)
        ps_thread_join(&threads[i]);

    ps_service_check(service);
    ps_service_destroy(service);
    free(ones);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("define_threads");
    tcase_add_test(tests, no_reader_sees_a_half_of_a_change);
    return run_tests("define_threads", tests);
}
