/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a test and the table that remembers them. */
#include "tests/unit/core/core_sessions.h"

struct fault_heap heap;
struct ps_allocator memory;
struct ps_sessions sessions;
struct ps_error error;

void begin_test(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_sessions_init(&sessions, &memory, CLIENTS_MAX, IDLE_MS);
}

void end_test(void)
{
    ps_sessions_check(&sessions);
    ps_sessions_fini(&sessions);
    ck_assert_int_eq(heap.live, 0);
}

struct ps_request_id id_of(const char *client, uint64_t session, uint64_t sequence)
{
    return (struct ps_request_id){
        .present = true, .client_id = text(client), .session = session, .sequence = sequence};
}

enum ps_status begin(const char *client, uint64_t session, uint64_t sequence, uint64_t now_ms,
                     struct ps_session_call *call)
{
    struct ps_request_id id = id_of(client, session, sequence);
    return ps_sessions_begin(&sessions, &id, 0, now_ms * 1000, call, &error);
}

enum ps_status apply(const char *client, uint64_t session, uint64_t sequence, uint64_t now_ms)
{
    struct ps_session_call call;
    enum ps_status status = begin(client, session, sequence, now_ms, &call);
    if (status != PS_OK)
        return status;
    ck_assert(!call.is_repeat);
    ps_sessions_commit(&sessions, &call, (struct ps_session_answer){.version = sequence * 10});
    return PS_OK;
}

bool is_repeat(const char *client, uint64_t session, uint64_t sequence)
{
    struct ps_session_call call;
    enum ps_status status = begin(client, session, sequence, 0, &call);
    if (status == PS_OK && !call.is_repeat)
        ps_sessions_abort(&sessions, &call);
    return status == PS_OK && call.is_repeat && call.answer.version == sequence * 10;
}
