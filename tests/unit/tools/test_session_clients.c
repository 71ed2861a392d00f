/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/session_clients.c: one order, whatever the table's was, and nothing is left. */
#include "tools/psckpt/session_clients.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <string.h>

static uint8_t *bytes;
static struct ps_checkpoint_facts facts;

/* What a checkpoint says of clients that came in this order. */
static void remember(const char *const *ids, size_t count)
{
    struct ps_sessions table;
    size_t size = 0;
    ps_sessions_init(&table, ps_allocator_heap(), 100, 0);
    for (size_t i = 0; i < count; i++) {
        const struct ps_request_id id = {
            .present = true, .client_id = ps_bytes_of_text(ids[i]), .session = 3, .sequence = 1};
        ck_assert_int_eq(
            ps_sessions_remember(&table, &id, 0, 10 + i, (struct ps_session_answer){1, i}, NULL),
            PS_OK);
    }
    ck_assert_int_eq(ps_sessions_encode(&table, ps_allocator_heap(), &bytes, &size, NULL), PS_OK);
    ps_sessions_fini(&table);
    facts = (struct ps_checkpoint_facts){.sessions = {bytes, size}};
}

static void tear_down(void)
{
    ps_release(ps_allocator_heap(), bytes);
    bytes = NULL;
}

START_TEST(clients_stand_in_the_order_of_their_ids)
{
    static const char *const ids[] = {"c", "a", "bb", "b"};
    static const char *const sorted[] = {"a", "b", "bb", "c"};
    struct session_clients clients;
    remember(ids, 4);

    ck_assert_int_eq(session_clients_init(&clients, &facts, ps_allocator_heap(), NULL), PS_OK);

    ck_assert_uint_eq(clients.count, 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(clients.rows[i]->id_size, strlen(sorted[i]));
        ck_assert_mem_eq(clients.rows[i]->id, sorted[i], strlen(sorted[i]));
    }
    session_clients_fini(&clients);
}
END_TEST

START_TEST(a_checkpoint_that_remembers_nobody_has_no_clients)
{
    struct session_clients clients;
    remember(NULL, 0);
    ck_assert_int_eq(session_clients_init(&clients, &facts, ps_allocator_heap(), NULL), PS_OK);
    ck_assert_uint_eq(clients.count, 0);
    session_clients_fini(&clients);
}
END_TEST

START_TEST(bytes_that_no_server_wrote_are_refused)
{
    static const char *const ids[] = {"a"};
    struct session_clients clients;
    remember(ids, 1);
    facts.sessions.size--;
    ck_assert_int_eq(session_clients_init(&clients, &facts, ps_allocator_heap(), NULL),
                     PS_ERR_CORRUPT);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing)
{
    static const char *const ids[] = {"a", "b"};
    remember(ids, 2);
    enum ps_status status = PS_ERR_NO_MEMORY;
    for (int refused = 0; status != PS_OK; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        const struct ps_allocator memory = fault_heap_allocator(&heap);
        struct session_clients clients;
        ck_assert_int_lt(refused, 20);

        status = session_clients_init(&clients, &facts, &memory, NULL);

        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        if (status == PS_OK)
            session_clients_fini(&clients);
        ck_assert_int_eq(heap.live, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session_clients");
    TCase *tests = tcase_create("session_clients");
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_test(tests, clients_stand_in_the_order_of_their_ids);
    tcase_add_test(tests, a_checkpoint_that_remembers_nobody_has_no_clients);
    tcase_add_test(tests, bytes_that_no_server_wrote_are_refused);
    tcase_add_test(tests, a_refused_allocation_leaves_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
