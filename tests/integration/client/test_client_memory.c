/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient when memory runs out: nothing leaks, nothing hangs, and the caller is told. */
#include "client/client_state.h"

#include "run_suite.h"
#include "tests/support/client/fake_server.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_MS 120000
#define SWEEP_MAX 40

static const float ones[4] = {1, 1, 1, 1};

START_TEST(open_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct fake_server *server = fake_server_start(0);
    char list[64];
    snprintf(list, sizeof list, "%s,127.0.0.1:2", fake_server_address(server));
    const struct psclient_options options = {.servers = list, .open_timeout_ms = LONG_MS};
    struct psclient *client = NULL;

    enum ps_status status = ps_client_open(&options, &memory, &client, NULL);

    /* A question to a server that met no memory is put again. */
    ck_assert(status == PS_OK || (status == PS_ERR_NO_MEMORY && heap.seen > _i));
    ck_assert(_i < SWEEP_MAX - 1 || status == PS_OK);
    psclient_close(client);
    ck_assert_int_eq(heap.live, 0);
    fake_server_stop(server);
}
END_TEST

/* The n-th allocation after opening is refused once: within the batch the call is sent again. */
START_TEST(a_batch_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct fake_server *server = fake_server_start(0);
    const struct psclient_options options = {.servers = fake_server_address(server)};
    struct psclient_gradient gradients[] = {
        {.name = "a", .type = PSCLIENT_FLOAT32, .content = ones, .content_size = sizeof ones},
        {.name = "b", .type = PSCLIENT_FLOAT32, .content = ones, .content_size = sizeof ones}};
    struct psclient_result results[2];
    struct psclient *client = NULL;
    ck_assert_int_eq(ps_client_open(&options, &memory, &client, NULL), PS_OK);
    heap.refuse_at = heap.seen + _i;

    int status = psclient_push(client, gradients, 2, LONG_MS, results, NULL);

    /* The batch itself was refused, or a call was, or a reply could not be read: then it was sent
     * again. */
    ck_assert(status == PSCLIENT_OK || status == PSCLIENT_EXHAUSTED);
    ck_assert(_i < SWEEP_MAX - 1 || (status == PSCLIENT_OK && heap.seen <= heap.refuse_at));
    for (int i = 0; i < 2; i++)
        ck_assert(status != PSCLIENT_OK || results[i].status == PSCLIENT_OK);
    heap.refuse_at = -1;
    ck_assert_int_eq(psclient_push(client, gradients, 2, LONG_MS, NULL, NULL), PSCLIENT_OK);
    psclient_close(client);
    ck_assert_int_eq(heap.live, 0);
    fake_server_stop(server);
}
END_TEST

START_TEST(beginning_an_operation_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = -1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct fake_server *server = fake_server_start(0);
    const struct psclient_options options = {.servers = fake_server_address(server)};
    struct psclient_gradient gradient = {
        .name = "a", .type = PSCLIENT_FLOAT32, .content = ones, .content_size = sizeof ones};
    struct psclient_operation *operation = NULL;
    struct psclient *client = NULL;
    ck_assert_int_eq(ps_client_open(&options, &memory, &client, NULL), PS_OK);
    heap.refuse_at = heap.seen + _i;

    int status = psclient_push_begin(client, &gradient, 1, LONG_MS, NULL, &operation, NULL);
    if (status == PSCLIENT_OK)
        ck_assert_int_eq(psclient_end(operation, NULL, NULL), PSCLIENT_OK);
    else
        ck_assert_int_eq(status, PSCLIENT_EXHAUSTED);

    ck_assert(_i < SWEEP_MAX - 1 || status == PSCLIENT_OK);
    psclient_close(client);
    ck_assert_int_eq(heap.live, 0);
    fake_server_stop(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_memory");
    TCase *tests = tcase_create("client_memory");
    tcase_add_loop_test(tests, open_survives_any_refused_allocation, 0, SWEEP_MAX);
    tcase_add_loop_test(tests, a_batch_survives_any_refused_allocation, 0, SWEEP_MAX);
    tcase_add_loop_test(tests, beginning_an_operation_survives_any_refused_allocation, 0,
                        SWEEP_MAX);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
