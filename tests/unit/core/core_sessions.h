/* SPDX-License-Identifier: Apache-2.0 */
/* A table of sessions in a test: four clients at most, each idle after a second.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   what must not happen ends the test.
 * Memory:   static; end_test looks whether anything is left.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_SESSIONS_H
#define PS_TESTS_UNIT_CORE_CORE_SESSIONS_H

#include "server/core/sessions/sessions.h"
#include "tests/unit/core/core_world.h"

#define CLIENTS_MAX 4
#define IDLE_MS 1000

extern struct fault_heap heap;
extern struct ps_allocator memory; /* of the heap */
extern struct ps_sessions sessions;
extern struct ps_error error; /* of the last call that failed */

/* Before and after each test. */
void begin_test(void);
void end_test(void);

struct ps_request_id id_of(const char *client, uint64_t session, uint64_t sequence);

/* As ps_sessions_begin, at that time; every request has the same fingerprint. */
enum ps_status begin(const char *client, uint64_t session, uint64_t sequence, uint64_t now_ms,
                     struct ps_session_call *call);

/* Begins and commits; the answer's version is the sequence times 10. */
enum ps_status apply(const char *client, uint64_t session, uint64_t sequence, uint64_t now_ms);

/* Was this applied before, and is its first answer still known? A request that is new stays so. */
bool is_repeat(const char *client, uint64_t session, uint64_t sequence);

#endif
