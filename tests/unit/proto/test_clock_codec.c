/* SPDX-License-Identifier: Apache-2.0 */
/* proto/clock_codec.c: SetClocks, Clock and Progress there and back, and what is not one. */
#include "proto/clock_codec.h"

#include "base/alloc.h"
#include "base/bounds.h"
#include "proto/change_codec.h"
#include "proto/wire.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static char room[4 * PS_CLOCK_WORKERS_MAX];
static struct ps_buffer message;
static struct ps_bytes written;

/* What came of a reply's rows. */
static struct {
    struct ps_worker_clock workers[4];
    size_t worker_count;
    char names[2][PS_CLOCKS_NAME_BYTES_MAX + 1];
    size_t name_count;
} taken;

static void take_worker(void *self, const struct ps_worker_clock *worker)
{
    (void)self;
    if (taken.worker_count < 4)
        taken.workers[taken.worker_count] = *worker;
    taken.worker_count++;
}

static void take_name(void *self, struct ps_bytes name)
{
    (void)self;
    if (taken.name_count < 2)
        memcpy(taken.names[taken.name_count], name.data, name.size);
    taken.name_count++;
}

static const struct ps_progress_rows rows = {take_worker, take_name, NULL};

static void begin_test(void)
{
    ps_buffer_init_fixed(&message, room, sizeof room);
    memset(&taken, 0, sizeof taken);
}

static struct ps_view view(void)
{
    written = (struct ps_bytes){(const uint8_t *)message.text, message.size};
    return ps_view_of(&written);
}

static struct ps_request_id id(void)
{
    return (struct ps_request_id){
        .present = true, .client_id = ps_bytes_of_text("id"), .session = 7, .sequence = 8};
}

START_TEST(settings_come_back_as_they_went)
{
    const struct ps_set_clocks_request request = {.name = ps_bytes_of_text("ssp"),
                                                  .workers = 4,
                                                  .consistency = 1,
                                                  .staleness = 3,
                                                  .straggler = 1,
                                                  .ttl_ms = 5000,
                                                  .speculation = 6,
                                                  .task = 7,
                                                  .clock = 8,
                                                  .ranks = ps_bytes_of_text("\5\1"),
                                                  .shard = 2,
                                                  .request = id()};
    struct ps_set_clocks_request read;
    struct ps_decoded decoded;
    ps_encode_set_clocks(&request, &message);

    ck_assert_int_eq(ps_decode_set_clocks(view(), ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    ck_assert(ps_bytes_equal(read.name, request.name));
    ck_assert(read.workers == 4 && read.consistency == 1 && read.staleness == 3);
    ck_assert(read.straggler == 1 && read.ttl_ms == 5000 && read.shard == 2);
    ck_assert(read.speculation == 6 && read.task == 7 && read.clock == 8);
    ck_assert(ps_bytes_equal(read.ranks, request.ranks));
    ck_assert(read.request.present && read.request.session == 7 && read.request.sequence == 8);
    ck_assert(ps_bytes_equal(read.request.client_id, request.request.client_id));
    ps_decoded_release(&decoded);
}
END_TEST

/* A client of before, which knows no such field, removes nothing. */
START_TEST(a_removal_comes_back_as_it_went_and_is_never_meant_by_silence)
{
    const struct ps_set_clocks_request request = {
        .name = ps_bytes_of_text("ssp"), .removes = _i == 1, .request = id()};
    struct ps_set_clocks_request read = {.removes = _i != 1};
    struct ps_decoded decoded;
    ps_encode_set_clocks(&request, &message);
    /* Field 11, a number: 11 << 3. */
    static const uint8_t field[] = {0x58, 1};
    ck_assert((memmem(message.text, message.size, field, sizeof field) != NULL) == (_i == 1));

    ck_assert_int_eq(ps_decode_set_clocks(view(), ps_allocator_heap(), &read, &decoded, NULL),
                     PS_OK);

    ck_assert(read.removes == (_i == 1) && read.workers == 0);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(a_clock_comes_back_as_it_went)
{
    const struct ps_clock_request request = {.name = ps_bytes_of_text("ssp"),
                                             .worker = 3,
                                             .clock = UINT64_C(1) << 40,
                                             .task = 5,
                                             .shard = 1,
                                             .request = id()};
    struct ps_clock_request read;
    struct ps_decoded decoded;
    ps_encode_clock(&request, &message);

    ck_assert_int_eq(ps_decode_clock(view(), ps_allocator_heap(), &read, &decoded, NULL), PS_OK);

    ck_assert(ps_bytes_equal(read.name, request.name));
    ck_assert(read.worker == 3 && read.clock == UINT64_C(1) << 40 && read.shard == 1);
    ck_assert_uint_eq(read.task, 5);
    ck_assert(read.request.present && read.request.sequence == 8);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(a_question_comes_back_as_it_went)
{
    const struct ps_progress_request request = {
        .name = ps_bytes_of_text("ssp"), .at_least = 5, .wait_ms = 100, .shard = 3};
    struct ps_progress_request read;
    struct ps_decoded decoded;
    ps_encode_progress(&request, &message);

    ck_assert_int_eq(ps_decode_progress(view(), ps_allocator_heap(), &read, &decoded, NULL), PS_OK);

    ck_assert(ps_bytes_equal(read.name, request.name));
    ck_assert(read.at_least == 5 && read.wait_ms == 100 && read.shard == 3);
    ps_decoded_release(&decoded);
}
END_TEST

START_TEST(a_reply_comes_back_as_it_went)
{
    const struct ps_clocks_reply reply = {
        .minimum = 4, .duplicate = true, .position = 9, .clock = 6};
    struct ps_clocks_reply read;
    ps_encode_clocks_reply(&reply, &message);
    ps_encode_change_durable(8, &message);

    ck_assert_int_eq(ps_decode_clocks_reply(view(), &read, NULL), PS_OK);

    ck_assert(read.minimum == 4 && read.duplicate && read.position == 9 && read.clock == 6);
    ck_assert_uint_eq(read.durable_position, 8);
}
END_TEST

START_TEST(rows_of_workers_and_names_come_back_in_their_order)
{
    static const struct ps_worker_clock workers[] = {
        {.clock = 0}, {.clock = 7, .is_evicted = true, .silent_ms = 12}};
    const struct ps_bytes names[] = {ps_bytes_of_text("one"), ps_bytes_of_text("other")};
    const struct ps_progress_reply reply = {.minimum = 1,
                                            .workers = workers,
                                            .worker_count = 2,
                                            .consistency = 2,
                                            .staleness = 3,
                                            .straggler = 1,
                                            .ttl_ms = 4,
                                            .names = names,
                                            .name_count = 2,
                                            .evictions = 5};
    struct ps_progress_reply read;
    ps_encode_progress_reply(&reply, &message);

    ck_assert_int_eq(ps_decode_progress_reply(view(), &rows, &read, NULL), PS_OK);

    ck_assert(read.minimum == 1 && read.consistency == 2 && read.staleness == 3);
    ck_assert(read.straggler == 1 && read.ttl_ms == 4 && read.evictions == 5);
    ck_assert(read.worker_count == 2 && taken.worker_count == 2);
    ck_assert(taken.workers[0].clock == 0 && !taken.workers[0].is_evicted);
    ck_assert(taken.workers[1].clock == 7 && taken.workers[1].is_evicted);
    ck_assert_uint_eq(taken.workers[1].silent_ms, 12);
    ck_assert_str_eq(taken.names[0], "one");
    ck_assert_str_eq(taken.names[1], "other");
}
END_TEST

START_TEST(more_workers_than_there_can_be_are_refused)
{
    struct ps_progress_reply read;
    for (int i = 0; i <= PS_CLOCK_WORKERS_MAX; i++)
        ps_wire_put_head(&message, 2, 0);

    ck_assert_int_eq(ps_decode_progress_reply(view(), &rows, &read, NULL), PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(taken.worker_count, PS_CLOCK_WORKERS_MAX);
}
END_TEST

START_TEST(a_name_beyond_its_bound_is_refused)
{
    static const uint8_t many[PS_CLOCKS_NAME_BYTES_MAX + 1] = {'n'};
    struct ps_clock_request read;
    struct ps_decoded decoded;
    ps_wire_put_bytes(&message, 1, (struct ps_bytes){many, sizeof many});

    ck_assert_int_eq(ps_decode_clock(view(), ps_allocator_heap(), &read, &decoded, NULL),
                     PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_name_that_is_not_text_is_refused_in_a_reply)
{
    struct ps_progress_reply read;
    ps_wire_put_bytes(&message, 7, (struct ps_bytes){(const uint8_t *)"\xff", 1});

    ck_assert_int_eq(ps_decode_progress_reply(view(), &rows, &read, NULL), PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(taken.name_count, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("clock_codec");
    tcase_add_checked_fixture(tests, begin_test, NULL);
    tcase_add_test(tests, settings_come_back_as_they_went);
    tcase_add_loop_test(tests, a_removal_comes_back_as_it_went_and_is_never_meant_by_silence, 0, 2);
    tcase_add_test(tests, a_clock_comes_back_as_it_went);
    tcase_add_test(tests, a_question_comes_back_as_it_went);
    tcase_add_test(tests, a_reply_comes_back_as_it_went);
    tcase_add_test(tests, rows_of_workers_and_names_come_back_in_their_order);
    tcase_add_test(tests, more_workers_than_there_can_be_are_refused);
    tcase_add_test(tests, a_name_beyond_its_bound_is_refused);
    tcase_add_test(tests, a_name_that_is_not_text_is_refused_in_a_reply);
    Suite *suite = suite_create("clock_codec");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
