/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/frame_inspector.c: what a peer may make gRPC hold, frame by frame. */
#include "server/front/frame_inspector.h"

#include "frame_maker.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>

enum { STREAMS_MAX = 8, BYTES_MAX = 100000, PATIENCE_S = 30 };

static struct ps_frame_inspector inspector;
static struct frames in;
static struct frames out;
static uint64_t now_ms;

static const struct ps_frame_limits limits = {
    .streams_max = STREAMS_MAX, .unfinished_bytes_max = BYTES_MAX, .patience_s = PATIENCE_S};

static void begin(void)
{
    now_ms = 1000;
    ps_frame_inspector_init(&inspector, &limits, ps_allocator_heap());
    frames_begin(&in);
    out.size = 0;
}

static void end(void)
{
    ps_frame_inspector_check(&inspector);
    ps_frame_inspector_fini(&inspector);
}

/* What was added since the last time goes in. */
static enum ps_front_reason read_in(void)
{
    enum ps_front_reason reason = ps_frame_inspector_in(&inspector, in.bytes, in.size, now_ms);
    in.size = 0;
    return reason;
}

static enum ps_front_reason comes(uint8_t type, uint8_t flags, uint32_t stream, uint32_t size)
{
    frames_add(&in, type, flags, stream, size);
    return read_in();
}

static void goes(uint8_t type, uint8_t flags, uint32_t stream, uint32_t size)
{
    out.size = 0;
    frames_add(&out, type, flags, stream, size);
    ps_frame_inspector_out(&inspector, out.bytes, out.size);
}

static enum ps_front_reason seconds(int count)
{
    enum ps_front_reason reason = PS_FRONT_FINE;
    for (int i = 0; i < count && reason == PS_FRONT_FINE; i++)
        reason = ps_frame_inspector_second(&inspector);
    return reason;
}

START_TEST(a_call_is_open_from_its_headers_to_the_end_of_its_answer)
{
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 1, 50), PS_FRONT_FINE);
    ck_assert_uint_eq(inspector.streams.count, 1);
    ck_assert_int_eq(comes(DATA, END_STREAM, 1, 500), PS_FRONT_FINE);
    ck_assert_uint_eq(inspector.streams.count, 1);

    goes(HEADERS, END_HEADERS, 1, 20);
    goes(DATA, 0, 1, 100);
    ck_assert_uint_eq(inspector.streams.count, 1);
    goes(HEADERS, END_HEADERS | END_STREAM, 1, 20);

    ck_assert_uint_eq(inspector.streams.count, 0);
}
END_TEST

START_TEST(calls_of_which_the_answer_is_not_written_are_bounded)
{
    for (uint32_t i = 0; i < STREAMS_MAX; i++)
        ck_assert_int_eq(comes(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, 50), PS_FRONT_FINE);

    ck_assert_int_eq(comes(HEADERS, END_HEADERS | END_STREAM, 99, 50), PS_FRONT_STREAMS);
}
END_TEST

START_TEST(an_answered_call_makes_room_for_another)
{
    for (uint32_t i = 0; i < 1000; i++) {
        ck_assert_int_eq(comes(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, 50), PS_FRONT_FINE);
        if (i >= STREAMS_MAX - 1)
            goes(HEADERS, END_STREAM, 2 * (i - STREAMS_MAX + 1) + 1, 10);
    }
}
END_TEST

START_TEST(trailers_and_late_headers_open_nothing)
{
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 5, 50), PS_FRONT_FINE);
    ck_assert_int_eq(comes(HEADERS, END_HEADERS | END_STREAM, 5, 50), PS_FRONT_FINE);
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 3, 50), PS_FRONT_FINE);

    ck_assert_uint_eq(inspector.streams.count, 1);
}
END_TEST

START_TEST(resets_beyond_a_burst_and_a_rate_are_too_many)
{
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        ck_assert_int_eq(comes(HEADERS, END_HEADERS, 2 * i + 1, 50), PS_FRONT_FINE);
        ck_assert_int_eq(comes(RST_STREAM, 0, 2 * i + 1, 4), PS_FRONT_FINE);
    }
    now_ms += 4 * 1000 / PS_FRAME_RESETS_PER_S;
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq(comes(RST_STREAM, 0, 2 * i + 1, 4), PS_FRONT_FINE);

    ck_assert_int_eq(comes(RST_STREAM, 0, 1, 4), PS_FRONT_RESETS);
    ck_assert_uint_eq(inspector.streams.count, 0);
}
END_TEST

START_TEST(resets_at_the_rate_go_on_for_ever)
{
    for (uint32_t i = 0; i < 10000; i++) {
        now_ms += 1000 / PS_FRAME_RESETS_PER_S;
        ck_assert_int_eq(comes(RST_STREAM, 0, 1, 4), PS_FRONT_FINE);
    }
}
END_TEST

START_TEST(a_host_that_was_turned_away_begins_with_few_resets)
{
    const struct ps_frame_limits many = {.streams_max = 512, .unfinished_bytes_max = BYTES_MAX};
    struct ps_frame_inspector other;
    ps_frame_inspector_init(&other, &many, ps_allocator_heap());
    ps_frame_inspector_distrust(&other, now_ms);
    for (uint32_t i = 0; i < PS_FRAME_RESETS_DISTRUSTED; i++)
        frames_add(&in, RST_STREAM, 0, 1, 4);
    ck_assert_int_eq(ps_frame_inspector_in(&other, in.bytes, in.size, now_ms), PS_FRONT_FINE);

    in.size = 0;
    frames_add(&in, RST_STREAM, 0, 1, 4);
    ck_assert_int_eq(ps_frame_inspector_in(&other, in.bytes, in.size, now_ms), PS_FRONT_RESETS);

    ps_frame_inspector_fini(&other);
}
END_TEST

START_TEST(a_clock_that_goes_back_gives_no_tokens)
{
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        now_ms -= i % 2;
        ck_assert_int_eq(comes(RST_STREAM, 0, 1, 4), PS_FRONT_FINE);
    }

    now_ms = 0;
    ck_assert_int_eq(comes(RST_STREAM, 0, 1, 4), PS_FRONT_RESETS);
}
END_TEST

START_TEST(each_kind_of_control_frame_is_bounded)
{
    static const struct {
        uint8_t type;
        uint32_t stream;
        uint32_t size;
    } kinds[] = {{SETTINGS, 0, 0}, {PING, 0, 8}, {PRIORITY, 9, 5}, {DATA, 1, 0}};

    for (uint32_t i = 0; i < PS_FRAME_CONTROL_BURST; i++)
        ck_assert_int_eq(comes(kinds[_i].type, 0, kinds[_i].stream, kinds[_i].size), PS_FRONT_FINE);

    ck_assert_int_eq(comes(kinds[_i].type, 0, kinds[_i].stream, kinds[_i].size), PS_FRONT_CONTROL);
}
END_TEST

START_TEST(acknowledgements_are_free)
{
    for (uint32_t i = 0; i < 2 * PS_FRAME_CONTROL_BURST; i++) {
        ck_assert_int_eq(comes(SETTINGS, ACK, 0, 0), PS_FRONT_FINE);
        ck_assert_int_eq(comes(PING, ACK, 0, 8), PS_FRONT_FINE);
    }
}
END_TEST

START_TEST(a_header_block_ends_within_its_bound)
{
    ck_assert_int_eq(comes(HEADERS, 0, 1, 16384), PS_FRONT_FINE);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(comes(CONTINUATION, 0, 1, 16384), PS_FRONT_FINE);

    ck_assert_int_eq(comes(CONTINUATION, END_HEADERS, 1, 1), PS_FRONT_HEADERS);
}
END_TEST

START_TEST(empty_pieces_of_a_header_block_count)
{
    enum ps_front_reason reason = comes(HEADERS, 0, 1, 0);
    int pieces = 1;
    while (reason == PS_FRONT_FINE && pieces < 10000) {
        reason = comes(CONTINUATION, 0, 1, 0);
        pieces++;
    }

    ck_assert_int_eq(reason, PS_FRONT_HEADERS);
    ck_assert_int_eq(pieces, PS_FRAME_HEADER_BYTES_MAX / PS_FRAME_BYTES_MIN + 1);
}
END_TEST

START_TEST(each_header_block_has_the_bound_to_itself)
{
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_int_eq(comes(HEADERS, END_STREAM, 2 * i + 1, 30000), PS_FRONT_FINE);
        ck_assert_int_eq(comes(CONTINUATION, END_HEADERS, 2 * i + 1, 30000), PS_FRONT_FINE);
        goes(RST_STREAM, 0, 2 * i + 1, 4);
    }
}
END_TEST

START_TEST(bytes_of_requests_that_are_not_whole_are_bounded)
{
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 1, 50), PS_FRONT_FINE);
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 3, 50), PS_FRONT_FINE);
    ck_assert_int_eq(comes(DATA, 0, 1, BYTES_MAX / 2), PS_FRONT_FINE);
    ck_assert_int_eq(comes(DATA, 0, 3, BYTES_MAX / 2), PS_FRONT_FINE);
    ck_assert_uint_eq(inspector.unfinished_bytes, BYTES_MAX);

    ck_assert_int_eq(comes(DATA, 0, 1, 1), PS_FRONT_UNFINISHED);
}
END_TEST

START_TEST(a_request_that_becomes_whole_holds_nothing_any_more)
{
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t stream = 2 * i + 1;
        now_ms += 1000;
        ck_assert_int_eq(comes(HEADERS, END_HEADERS, stream, 50), PS_FRONT_FINE);
        ck_assert_int_eq(comes(DATA, 0, stream, BYTES_MAX / 2), PS_FRONT_FINE);
        switch (_i) {
        case 0:
            (void)comes(DATA, END_STREAM, stream, 1);
            break;
        case 1:
            (void)comes(RST_STREAM, 0, stream, 4);
            break;
        case 2:
            goes(RST_STREAM, 0, stream, 4);
            break;
        default:
            (void)comes(HEADERS, END_HEADERS | END_STREAM, stream, 9);
            break;
        }
        ck_assert_uint_eq(inspector.unfinished_bytes, 0);
        goes(HEADERS, END_STREAM, stream, 10);
    }
}
END_TEST

START_TEST(data_in_the_smallest_pieces_counts_for_what_they_cost)
{
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 1, 50), PS_FRONT_FINE);

    ck_assert_int_eq(comes(DATA, 0, 1, 1), PS_FRONT_FINE);

    ck_assert_uint_eq(inspector.unfinished_bytes, PS_FRAME_BYTES_MIN);
}
END_TEST

START_TEST(data_of_no_call_is_not_counted)
{
    ck_assert_int_eq(comes(DATA, 0, 7, 1000), PS_FRONT_FINE);

    ck_assert_uint_eq(inspector.unfinished_bytes, 0);
}
END_TEST

START_TEST(an_answer_shows_that_a_stream_of_requests_was_read)
{
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 1, 50), PS_FRONT_FINE);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(comes(DATA, 0, 1, BYTES_MAX / 2), PS_FRONT_FINE);
        goes(DATA, 0, 1, 30);
    }

    ck_assert_uint_eq(inspector.unfinished_bytes, 0);
    ck_assert_int_eq(seconds(10 * PATIENCE_S), PS_FRONT_FINE);
}
END_TEST

START_TEST(a_request_that_stands_still_is_noticed)
{
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 1, 50), PS_FRONT_FINE);
    if (_i == 1)
        ck_assert_int_eq(comes(DATA, 0, 1, 5000), PS_FRONT_FINE);

    ck_assert_int_eq(seconds(PATIENCE_S), PS_FRONT_FINE);
    ck_assert_int_eq(seconds(1), PS_FRONT_STALLED);
}
END_TEST

START_TEST(a_slow_request_may_take_its_time)
{
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 1, 50), PS_FRONT_FINE);
    for (int i = 0; i < 90; i++) {
        ck_assert_int_eq(comes(DATA, 0, 1, PS_FRAME_BYTES_PER_S), PS_FRONT_FINE);
        ck_assert_int_eq(seconds(1), PS_FRONT_FINE);
    }
}
END_TEST

START_TEST(a_byte_now_and_then_is_not_progress)
{
    enum ps_front_reason reason = comes(HEADERS, END_HEADERS, 1, 50);
    int passed = 0;
    while (reason == PS_FRONT_FINE && passed < 1000) {
        ck_assert_int_eq(comes(DATA, 0, 1, 1), PS_FRONT_FINE);
        reason = seconds(1);
        passed++;
    }

    ck_assert_int_eq(reason, PS_FRONT_STALLED);
    ck_assert_int_le(passed, PATIENCE_S + 2);
}
END_TEST

START_TEST(a_whole_request_may_wait_for_its_answer)
{
    ck_assert_int_eq(comes(HEADERS, END_HEADERS, 1, 50), PS_FRONT_FINE);
    ck_assert_int_eq(comes(DATA, END_STREAM, 1, 5000), PS_FRONT_FINE);

    ck_assert_int_eq(seconds(100 * PATIENCE_S), PS_FRONT_FINE);
}
END_TEST

/* Everything that one call has, in both directions, in pieces of each size. */
START_TEST(frames_may_be_cut_anywhere)
{
    frames_add(&in, SETTINGS, 0, 0, 6);
    frames_add(&in, HEADERS, END_HEADERS, 1, 70);
    frames_add(&in, DATA, 0, 1, 300);
    frames_add(&in, HEADERS, 0, 3, 20);
    frames_add(&in, CONTINUATION, END_HEADERS, 3, 20);
    frames_add(&in, DATA, 0, 3, 200);
    frames_add(&in, DATA, END_STREAM, 1, 10);
    frames_add(&out, SETTINGS, ACK, 0, 0);
    frames_add(&out, DATA, 0, 1, 40);
    frames_add(&out, HEADERS, END_STREAM, 1, 40);
    size_t piece = (size_t)_i;

    for (size_t at = 0; at < in.size; at += piece)
        ck_assert_int_eq(ps_frame_inspector_in(&inspector, in.bytes + at,
                                               in.size - at < piece ? in.size - at : piece, now_ms),
                         PS_FRONT_FINE);
    ck_assert_uint_eq(inspector.streams.count, 2);
    ck_assert_uint_eq(inspector.unfinished_bytes, 200);
    for (size_t at = 0; at < out.size; at += piece) {
        ps_frame_inspector_out(&inspector, out.bytes + at,
                               out.size - at < piece ? out.size - at : piece);
        ps_frame_inspector_check(&inspector);
    }

    ck_assert_uint_eq(inspector.streams.count, 1);
    ck_assert(ps_frame_inspector_between_frames(&inspector));
}
END_TEST

START_TEST(the_middle_of_a_frame_is_known)
{
    frames_add(&out, DATA, 0, 1, 40);

    ps_frame_inspector_out(&inspector, out.bytes, 5);
    ck_assert(!ps_frame_inspector_between_frames(&inspector));
    ps_frame_inspector_out(&inspector, out.bytes + 5, 20);
    ck_assert(!ps_frame_inspector_between_frames(&inspector));
    ps_frame_inspector_out(&inspector, out.bytes + 25, out.size - 25);
    ck_assert(ps_frame_inspector_between_frames(&inspector));
}
END_TEST

START_TEST(other_protocols_are_left_alone)
{
    static const char *const beginnings[] = {"POST /v3/kv/range HTTP/1.1\r\n\r\n",
                                             "PRI * HTTP/1.1\r\n", "\x16\x03\x01\x02",
                                             "PRI * HTTP/2.0\r\n\r\nSM\r\n\r!"};
    const char *text = beginnings[_i];

    ck_assert_int_eq(ps_frame_inspector_in(&inspector, (const uint8_t *)text, strlen(text), now_ms),
                     PS_FRONT_FINE);
    ck_assert(inspector.foreign);
    ck_assert_int_eq(ps_frame_inspector_in(&inspector, in.bytes, in.size, now_ms), PS_FRONT_FINE);
    ck_assert(!ps_frame_inspector_between_frames(&inspector));
}
END_TEST

START_TEST(a_refused_allocation_ends_the_connection)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_frame_inspector poor;
    ps_frame_inspector_init(&poor, &limits, &memory);
    frames_add(&in, HEADERS, END_HEADERS, 1, 50);

    ck_assert_int_eq(ps_frame_inspector_in(&poor, in.bytes, in.size, now_ms), PS_FRONT_MEMORY);

    ps_frame_inspector_fini(&poor);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(without_patience_requests_wait_for_ever)
{
    const struct ps_frame_limits patient = {.streams_max = 4, .unfinished_bytes_max = BYTES_MAX};
    struct ps_frame_inspector other;
    ps_frame_inspector_init(&other, &patient, ps_allocator_heap());
    frames_add(&in, HEADERS, END_HEADERS, 1, 50);
    frames_add(&in, DATA, 0, 1, 50);
    ck_assert_int_eq(ps_frame_inspector_in(&other, in.bytes, in.size, now_ms), PS_FRONT_FINE);

    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(ps_frame_inspector_second(&other), PS_FRONT_FINE);

    ps_frame_inspector_fini(&other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frame inspector");
    TCase *tests = tcase_create("frame inspector");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_call_is_open_from_its_headers_to_the_end_of_its_answer);
    tcase_add_test(tests, calls_of_which_the_answer_is_not_written_are_bounded);
    tcase_add_test(tests, an_answered_call_makes_room_for_another);
    tcase_add_test(tests, trailers_and_late_headers_open_nothing);
    tcase_add_test(tests, resets_beyond_a_burst_and_a_rate_are_too_many);
    tcase_add_test(tests, resets_at_the_rate_go_on_for_ever);
    tcase_add_test(tests, a_host_that_was_turned_away_begins_with_few_resets);
    tcase_add_test(tests, a_clock_that_goes_back_gives_no_tokens);
    tcase_add_loop_test(tests, each_kind_of_control_frame_is_bounded, 0, 4);
    tcase_add_test(tests, acknowledgements_are_free);
    tcase_add_test(tests, a_header_block_ends_within_its_bound);
    tcase_add_test(tests, empty_pieces_of_a_header_block_count);
    tcase_add_test(tests, each_header_block_has_the_bound_to_itself);
    tcase_add_test(tests, bytes_of_requests_that_are_not_whole_are_bounded);
    tcase_add_loop_test(tests, a_request_that_becomes_whole_holds_nothing_any_more, 0, 4);
    tcase_add_test(tests, data_in_the_smallest_pieces_counts_for_what_they_cost);
    tcase_add_test(tests, data_of_no_call_is_not_counted);
    tcase_add_test(tests, an_answer_shows_that_a_stream_of_requests_was_read);
    tcase_add_loop_test(tests, a_request_that_stands_still_is_noticed, 0, 2);
    tcase_add_test(tests, a_slow_request_may_take_its_time);
    tcase_add_test(tests, a_byte_now_and_then_is_not_progress);
    tcase_add_test(tests, a_whole_request_may_wait_for_its_answer);
    tcase_add_loop_test(tests, frames_may_be_cut_anywhere, 1, 40);
    tcase_add_test(tests, the_middle_of_a_frame_is_known);
    tcase_add_loop_test(tests, other_protocols_are_left_alone, 0, 4);
    tcase_add_test(tests, a_refused_allocation_ends_the_connection);
    tcase_add_test(tests, without_patience_requests_wait_for_ever);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
