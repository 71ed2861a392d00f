/* server/core/sessions.c: what is a repeat, what is too old, who is forgotten. */
#include "server/core/sessions.h"

#include "base/random.h"
#include "tests/unit/core/core_world.h"

#include <stdio.h>
#include <string.h>

#define CLIENTS_MAX 4
#define IDLE_MS 1000

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_sessions sessions;
static struct ps_error error;

static void begin_test(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_sessions_init(&sessions, &memory, CLIENTS_MAX, IDLE_MS);
}

static void end_test(void)
{
    ps_sessions_check(&sessions);
    ps_sessions_fini(&sessions);
    ck_assert_int_eq(heap.live, 0);
}

static struct ps_request_id id_of(const char *client, uint64_t session, uint64_t sequence)
{
    return (struct ps_request_id){
        .present = true, .client_id = text(client), .session = session, .sequence = sequence};
}

static enum ps_status begin(const char *client, uint64_t session, uint64_t sequence,
                            uint64_t now_ms, struct ps_session_call *call)
{
    struct ps_request_id id = id_of(client, session, sequence);
    return ps_sessions_begin(&sessions, &id, now_ms, call, &error);
}

/* Begins and commits; the answer's version is the sequence times 10. */
static enum ps_status apply(const char *client, uint64_t session, uint64_t sequence,
                            uint64_t now_ms)
{
    struct ps_session_call call;
    enum ps_status status = begin(client, session, sequence, now_ms, &call);
    if (status != PS_OK)
        return status;
    ck_assert(!call.is_repeat);
    ps_sessions_commit(&sessions, &call, (struct ps_session_answer){.version = sequence * 10});
    return PS_OK;
}

static bool is_repeat(const char *client, uint64_t session, uint64_t sequence)
{
    struct ps_session_call call;
    enum ps_status status = begin(client, session, sequence, 0, &call);
    if (status == PS_OK && !call.is_repeat)
        ps_sessions_abort(&sessions, &call);
    return status == PS_OK && call.is_repeat && call.answer.version == sequence * 10;
}

START_TEST(p2_a_repeat_gets_the_first_answer)
{
    ck_assert_int_eq(apply("a", 1, 1, 0), PS_OK);

    ck_assert(is_repeat("a", 1, 1));
    ck_assert(is_repeat("a", 1, 1));
    ck_assert(!is_repeat("a", 1, 2));
    ck_assert(!is_repeat("b", 1, 1));
}
END_TEST

START_TEST(requests_may_arrive_in_any_order_within_the_window)
{
    for (uint64_t sequence = PS_SESSION_SLOTS; sequence >= 1; sequence--)
        ck_assert_int_eq(apply("a", 1, sequence, 0), PS_OK);

    for (uint64_t sequence = 1; sequence <= PS_SESSION_SLOTS; sequence++)
        ck_assert(is_repeat("a", 1, sequence));
}
END_TEST

START_TEST(a_sequence_that_another_has_overtaken_is_too_old)
{
    for (uint64_t sequence = 1; sequence <= PS_SESSION_SLOTS + 1; sequence++)
        ck_assert_int_eq(apply("a", 1, sequence, 0), PS_OK);

    ck_assert_int_eq(apply("a", 1, 1, 0), PS_ERR_STALE_SESSION);

    ck_assert_ptr_nonnull(strstr(error.text, "too old"));
    ck_assert(is_repeat("a", 1, 2));
}
END_TEST

START_TEST(a_missing_sequence_within_the_window_is_still_new)
{
    for (uint64_t sequence = 1; sequence <= PS_SESSION_SLOTS; sequence++)
        if (sequence != 7)
            ck_assert_int_eq(apply("a", 1, sequence, 0), PS_OK);

    ck_assert_int_eq(apply("a", 1, 7, 0), PS_OK);
    ck_assert(is_repeat("a", 1, 7));
}
END_TEST

START_TEST(while_nobody_was_forgotten_an_unknown_client_is_new)
{
    ck_assert_int_eq(apply("a", 3, 100000, 0), PS_OK);

    ck_assert(is_repeat("a", 3, 100000));
}
END_TEST

START_TEST(when_clients_were_forgotten_a_new_one_begins_with_one_of_the_first_sequences)
{
    const char *const names[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(apply(names[i], 3, 1000, i * IDLE_MS), PS_OK);

    ck_assert_int_eq(apply("a", 3, 1000, 9 * IDLE_MS), PS_ERR_STALE_SESSION);

    ck_assert_ptr_nonnull(strstr(error.text, "not remembered"));
    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX);
    ck_assert_int_eq(apply("a", 4, PS_SESSION_SLOTS, 9 * IDLE_MS), PS_OK);
}
END_TEST

START_TEST(a_higher_session_begins_anew_and_ends_the_former)
{
    ck_assert_int_eq(apply("a", 1, 5, 0), PS_OK);

    ck_assert_int_eq(apply("a", 2, 5, 0), PS_OK);

    ck_assert_int_eq(apply("a", 1, 6, 0), PS_ERR_STALE_SESSION);
    ck_assert_ptr_nonnull(strstr(error.text, "session 1 is over"));
    ck_assert_int_eq(apply("a", 1, 5, 0), PS_ERR_STALE_SESSION);
    ck_assert(is_repeat("a", 2, 5));
}
END_TEST

START_TEST(a_request_under_way_is_busy_until_it_ends)
{
    struct ps_session_call first;
    struct ps_session_call second;
    ck_assert_int_eq(begin("a", 1, 1, 0, &first), PS_OK);

    ck_assert_int_eq(begin("a", 1, 1, 0, &second), PS_ERR_BUSY);
    ck_assert_int_eq(begin("a", 1, 1 + PS_SESSION_SLOTS, 0, &second), PS_ERR_BUSY);
    ck_assert_int_eq(begin("a", 2, 1, 0, &second), PS_ERR_BUSY);

    ps_sessions_commit(&sessions, &first, (struct ps_session_answer){.version = 10});
    ck_assert(is_repeat("a", 1, 1));
}
END_TEST

START_TEST(a_refused_request_may_come_again)
{
    struct ps_session_call call;
    ck_assert_int_eq(begin("a", 1, 1, 0, &call), PS_OK);
    ps_sessions_abort(&sessions, &call);

    ck_assert_int_eq(apply("a", 1, 1, 0), PS_OK);
}
END_TEST

START_TEST(a_refused_request_does_not_make_its_slot_forget)
{
    struct ps_session_call call;
    ck_assert_int_eq(apply("a", 1, 1, 0), PS_OK);
    ck_assert_int_eq(begin("a", 1, 1 + PS_SESSION_SLOTS, 0, &call), PS_OK);

    ps_sessions_abort(&sessions, &call);

    ck_assert(is_repeat("a", 1, 1));
}
END_TEST

START_TEST(calls_end_in_any_order)
{
    struct ps_session_call calls[3];
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_int_eq(begin("a", 1, i + 1, 0, &calls[i]), PS_OK);

    ps_sessions_commit(&sessions, &calls[1], (struct ps_session_answer){.version = 20});
    ps_sessions_check(&sessions);
    ps_sessions_abort(&sessions, &calls[0]);
    ps_sessions_commit(&sessions, &calls[2], (struct ps_session_answer){.version = 30});

    ck_assert(!is_repeat("a", 1, 1));
    ck_assert(is_repeat("a", 1, 2));
    ck_assert(is_repeat("a", 1, 3));
}
END_TEST

START_TEST(malformed_ids_are_refused)
{
    char endless[PS_CLIENT_ID_BYTES_MAX + 2];
    memset(endless, 'x', sizeof endless);
    endless[PS_CLIENT_ID_BYTES_MAX + 1] = '\0';

    ck_assert_int_eq(apply("", 1, 1, 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(apply(endless, 1, 1, 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(apply("a", 1, 0, 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(apply(endless + 1, 1, 1, 0), PS_OK);
}
END_TEST

static void fill(uint64_t now_ms)
{
    static const char *const names[CLIENTS_MAX] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        ck_assert_int_eq(apply(names[i], 1, 1, now_ms + i), PS_OK);
}

START_TEST(p6_a_full_table_refuses_another_client_with_numbers)
{
    fill(0);

    ck_assert_int_eq(apply("e", 1, 1, IDLE_MS - 1), PS_ERR_BUSY);

    ck_assert_ptr_nonnull(strstr(error.text, "4 clients are remembered, at most 4"));
    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX);
}
END_TEST

START_TEST(the_longest_idle_client_makes_room)
{
    fill(0);
    ck_assert(is_repeat("a", 1, 1)); /* "b" is the longest idle now */

    ck_assert_int_eq(apply("e", 1, 1, IDLE_MS + 1), PS_OK);

    ck_assert(is_repeat("a", 1, 1));
    ck_assert(!is_repeat("b", 1, 1) || ps_sessions_count(&sessions) > CLIENTS_MAX);
    ck_assert(is_repeat("c", 1, 1));
}
END_TEST

START_TEST(a_client_whose_request_is_under_way_is_not_forgotten)
{
    struct ps_session_call call;
    ck_assert_int_eq(begin("a", 1, 2, 0, &call), PS_OK);
    ck_assert_int_eq(apply("b", 1, 1, 1), PS_OK);
    ck_assert_int_eq(apply("c", 1, 1, 2), PS_OK);
    ck_assert_int_eq(apply("d", 1, 1, 3), PS_OK);

    ck_assert_int_eq(apply("e", 1, 1, 100 * IDLE_MS), PS_OK);

    ps_sessions_commit(&sessions, &call, (struct ps_session_answer){.version = 20});
    ck_assert(is_repeat("a", 1, 2));
}
END_TEST

START_TEST(a_clock_that_lags_between_threads_forgets_nobody)
{
    fill(5000);

    ck_assert_int_eq(apply("e", 1, 1, 4000), PS_ERR_BUSY);
}
END_TEST

START_TEST(looking_changes_nothing)
{
    struct ps_request_id id = id_of("a", 1, 1);
    bool repeat = true;

    ck_assert_int_eq(ps_sessions_look(&sessions, &id, &repeat, &error), PS_OK);
    ck_assert(!repeat);
    ck_assert_uint_eq(ps_sessions_count(&sessions), 0);
    ck_assert_int_eq(apply("a", 1, 1, 0), PS_OK);
    ck_assert_int_eq(ps_sessions_look(&sessions, &id, &repeat, &error), PS_OK);
    ck_assert(repeat);
    id.session = 0;
    ck_assert_int_eq(ps_sessions_look(&sessions, &id, &repeat, &error), PS_ERR_STALE_SESSION);
}
END_TEST

static enum ps_status remember(const char *client, uint64_t session, uint64_t sequence)
{
    struct ps_request_id id = id_of(client, session, sequence);
    struct ps_session_answer answer = {.version = sequence * 10};
    return ps_sessions_remember(&sessions, &id, 0, answer, &error);
}

START_TEST(what_is_replayed_is_remembered_in_any_order)
{
    ck_assert_int_eq(remember("a", 2, 5000), PS_OK);
    ck_assert_int_eq(remember("a", 2, 5000 - PS_SESSION_SLOTS), PS_OK);
    ck_assert_int_eq(remember("a", 1, 5001), PS_OK);
    ck_assert_int_eq(remember("a", 2, 4999), PS_OK);

    ck_assert(is_repeat("a", 2, 5000));
    ck_assert(is_repeat("a", 2, 4999));
    ck_assert(!is_repeat("a", 2, 5001));
    ck_assert_int_eq(apply("a", 2, 5000 - PS_SESSION_SLOTS, 0), PS_ERR_STALE_SESSION);
}
END_TEST

START_TEST(replay_forgets_the_longest_idle_client_when_the_table_is_full)
{
    fill(0);

    ck_assert_int_eq(remember("e", 1, 1), PS_OK);

    ck_assert_uint_eq(ps_sessions_count(&sessions), CLIENTS_MAX);
    ck_assert(is_repeat("e", 1, 1));
    ck_assert(is_repeat("b", 1, 1));
}
END_TEST

START_TEST(replay_of_an_id_that_no_client_had_is_corrupt)
{
    ck_assert_int_eq(remember("a", 1, 0), PS_ERR_CORRUPT);
    ck_assert_int_eq(remember("", 1, 1), PS_ERR_CORRUPT);
}
END_TEST

START_TEST(any_refused_allocation_leaves_the_table_as_it_was)
{
    ck_assert_int_eq(_i % 2 == 0 ? PS_OK : apply("a", 1, 1, 0), PS_OK);
    uint32_t count = ps_sessions_count(&sessions);
    heap.refuse_at = heap.seen + _i / 2;

    enum ps_status status = apply("b", 1, 1, 0);

    bool refused = heap.seen > heap.refuse_at;
    heap.refuse_at = -1;
    ck_assert_int_eq(status, refused ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&sessions), count + (refused ? 0 : 1));
    ck_assert_int_eq(apply("b", 1, 2, 0), PS_OK);
}
END_TEST

/* ---- Against a model that remembers everything ---- */

#define MODEL_SEQUENCES 3000
static struct {
    uint64_t session;
    bool applied[MODEL_SEQUENCES];
} model[3];

static enum ps_status expected_status(size_t client, uint64_t session, uint64_t sequence,
                                      bool *repeat)
{
    *repeat = false;
    if (session < model[client].session)
        return PS_ERR_STALE_SESSION;
    if (session > model[client].session)
        return PS_OK;
    for (uint64_t later = sequence + PS_SESSION_SLOTS; later < MODEL_SEQUENCES;
         later += PS_SESSION_SLOTS)
        if (model[client].applied[later])
            return PS_ERR_STALE_SESSION;
    *repeat = model[client].applied[sequence];
    return PS_OK;
}

START_TEST(p2_random_sequences_are_what_the_model_says)
{
    static const char *const names[] = {"one", "two", "three"};
    struct ps_random random;
    ps_random_init(&random, 0x5e550000 + (uint64_t)_i);
    memset(model, 0, sizeof model);
    uint64_t base = 1;
    for (int step = 0; step < 4000; step++) {
        size_t client = (size_t)ps_random_below(&random, 3);
        uint64_t session = model[client].session + (ps_random_below(&random, 300) == 0);
        session -= session > 1 && ps_random_below(&random, 50) == 0;
        session += session == 0;
        base += base < 2200 && ps_random_below(&random, 3) == 0;
        uint64_t sequence = base + ps_random_below(&random, 600);
        bool repeat = false;
        enum ps_status expected = expected_status(client, session, sequence, &repeat);
        struct ps_session_call call;

        enum ps_status status = begin(names[client], session, sequence, 0, &call);

        ck_assert_msg(status == expected, "seed %d step %d: %s", _i, step, error.text);
        if (status != PS_OK)
            continue;
        ck_assert_msg(call.is_repeat == repeat, "seed %d step %d", _i, step);
        if (session > model[client].session) {
            memset(&model[client], 0, sizeof model[client]);
            model[client].session = session;
        }
        if (!call.is_repeat && ps_random_below(&random, 5) == 0) {
            ps_sessions_abort(&sessions, &call);
        } else if (!call.is_repeat) {
            ps_sessions_commit(&sessions, &call, (struct ps_session_answer){.version = sequence});
            model[client].applied[sequence] = true;
        } else {
            ck_assert_uint_eq(call.answer.version, sequence);
        }
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sessions");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, p2_a_repeat_gets_the_first_answer);
    tcase_add_test(tests, requests_may_arrive_in_any_order_within_the_window);
    tcase_add_test(tests, a_sequence_that_another_has_overtaken_is_too_old);
    tcase_add_test(tests, a_missing_sequence_within_the_window_is_still_new);
    tcase_add_test(tests, while_nobody_was_forgotten_an_unknown_client_is_new);
    tcase_add_test(tests,
                   when_clients_were_forgotten_a_new_one_begins_with_one_of_the_first_sequences);
    tcase_add_test(tests, a_higher_session_begins_anew_and_ends_the_former);
    tcase_add_test(tests, a_request_under_way_is_busy_until_it_ends);
    tcase_add_test(tests, a_refused_request_may_come_again);
    tcase_add_test(tests, a_refused_request_does_not_make_its_slot_forget);
    tcase_add_test(tests, calls_end_in_any_order);
    tcase_add_test(tests, malformed_ids_are_refused);
    tcase_add_test(tests, p6_a_full_table_refuses_another_client_with_numbers);
    tcase_add_test(tests, the_longest_idle_client_makes_room);
    tcase_add_test(tests, a_client_whose_request_is_under_way_is_not_forgotten);
    tcase_add_test(tests, a_clock_that_lags_between_threads_forgets_nobody);
    tcase_add_test(tests, looking_changes_nothing);
    tcase_add_test(tests, what_is_replayed_is_remembered_in_any_order);
    tcase_add_test(tests, replay_forgets_the_longest_idle_client_when_the_table_is_full);
    tcase_add_test(tests, replay_of_an_id_that_no_client_had_is_corrupt);
    tcase_add_loop_test(tests, any_refused_allocation_leaves_the_table_as_it_was, 0, 8);
    tcase_add_loop_test(tests, p2_random_sequences_are_what_the_model_says, 0, 20);
    return run_tests("sessions", tests);
}
