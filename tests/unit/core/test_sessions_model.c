/* SPDX-License-Identifier: Apache-2.0 */
/* core/sessions/sessions.c against a model that remembers everything of every client. */
#include "server/core/sessions/sessions.h"

#include "base/random.h"
#include "tests/unit/core/core_world.h"

#include <string.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_sessions sessions;
static struct ps_error error;

static void begin_test(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_sessions_init(&sessions, &memory, 4, 1000);
}

static void end_test(void)
{
    ps_sessions_check(&sessions);
    ps_sessions_fini(&sessions);
    ck_assert_int_eq(heap.live, 0);
}

static enum ps_status begin(const char *client, uint64_t session, uint64_t sequence,
                            struct ps_session_call *call)
{
    const struct ps_request_id id = {
        .present = true, .client_id = text(client), .session = session, .sequence = sequence};
    return ps_sessions_begin(&sessions, &id, 0, 0, call, &error);
}

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

        enum ps_status status = begin(names[client], session, sequence, &call);

        ck_assert_msg(status == expected, "seed %d step %d: %s", _i, step, error.text);
        if (status != PS_OK)
            continue;
        ck_assert_msg(call.is_repeat == repeat, "seed %d step %d", _i, step);
        bool is_aborted = !call.is_repeat && ps_random_below(&random, 5) == 0;
        bool is_known = model[client].session > 0;
        if (session > model[client].session && (is_known || !is_aborted)) {
            memset(&model[client], 0, sizeof model[client]);
            model[client].session = session;
        }
        if (is_aborted) {
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

/* Clients come and go beyond clients_max, the table is saved and what came since is replayed: what
 * was applied once is never begun again. */
#define COMERS 12
#define COMER_SEQUENCES 40

static bool applied[COMERS][COMER_SEQUENCES];

static void recover(const struct ps_request_id *since, size_t count, const uint8_t *saved,
                    size_t size)
{
    ps_sessions_clear(&sessions);
    ck_assert_int_eq(ps_sessions_decode(&sessions, (struct ps_bytes){saved, size}, 0, 1, &error),
                     PS_OK);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(
            ps_sessions_remember(&sessions, &since[i], 0, 1, (struct ps_session_answer){0}, &error),
            PS_OK);
    ps_sessions_check(&sessions);
}

START_TEST(a1_whoever_was_forgotten_or_recovered_nothing_is_applied_twice)
{
    static const char *const names[COMERS] = {"a", "b", "c", "d", "e", "f",
                                              "g", "h", "i", "j", "k", "l"};
    static struct ps_request_id since[2000];
    struct ps_random random;
    uint8_t *saved = NULL;
    size_t size = 0, count = 0;
    ps_random_init(&random, 0xa1a10000 + (uint64_t)_i);
    memset(applied, 0, sizeof applied);
    ck_assert_int_eq(ps_sessions_encode(&sessions, &memory, &saved, &size, NULL), PS_OK);
    for (int step = 0; step < 1500; step++) {
        size_t comer = (size_t)ps_random_below(&random, COMERS);
        uint64_t sequence = 1 + ps_random_below(&random, COMER_SEQUENCES - 1);
        struct ps_session_call call;
        if (ps_random_below(&random, 60) == 0) {
            recover(since, count, saved, size);
        } else if (ps_random_below(&random, 40) == 0) {
            ps_release(&memory, saved);
            ck_assert_int_eq(ps_sessions_encode(&sessions, &memory, &saved, &size, NULL), PS_OK);
            count = 0;
        }
        /* Client i begins as the i-th: whoever is unknown then was forgotten. */
        enum ps_status status = begin(names[comer], 1 + comer, sequence, &call);
        if (status == PS_ERR_STALE_SESSION)
            continue;
        ck_assert_int_eq(status, PS_OK);
        ck_assert_msg(call.is_repeat == applied[comer][sequence], "seed %d step %d", _i, step);
        if (call.is_repeat)
            continue;
        ps_sessions_commit(&sessions, &call, (struct ps_session_answer){0});
        applied[comer][sequence] = true;
        since[count++] = (struct ps_request_id){.present = true,
                                                .client_id = text(names[comer]),
                                                .session = 1 + comer,
                                                .sequence = sequence};
    }
    ps_release(&memory, saved);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sessions_model");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_loop_test(tests, p2_random_sequences_are_what_the_model_says, 0, 20);
    tcase_add_loop_test(tests, a1_whoever_was_forgotten_or_recovered_nothing_is_applied_twice, 0,
                        20);
    return run_tests("sessions_model", tests);
}
