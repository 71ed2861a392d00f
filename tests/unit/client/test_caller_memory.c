/* Memory made for the caller and, at the other end of a real local socket, servers that take it,
 * refuse it, let go of it, or stand still. */
#include "client/caller_memory.h"

#include "base/local_socket.h"
#include "base/random.h"
#include "base/shared_segment.h"
#include "proto/shared_range.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE PS_CALLER_PAGE_BYTES
#define SIZE (64 * PAGE)
#define NUMBER 77

static char text[64];
static struct ps_bytes name;
static int listener;
static struct ps_caller_memories *memories;
static uint8_t *bytes;
static struct ps_caller_place place;
static const char first_link, second_link; /* known by their addresses */

/* What one server has been handed. */
struct taker {
    int peer;
    struct ps_shared_segment segment;
};
static struct taker server;

static void begin(int wait_ms)
{
    uint64_t number;
    ps_random_system(&number, sizeof number);
    snprintf(text, sizeof text, "pserver-test-%016llx", (unsigned long long)number);
    name = ps_bytes_of_text(text);
    ck_assert_int_eq(ps_local_socket_listen(name, &listener, NULL), PS_OK);
    server = (struct taker){.peer = PS_NO_DESCRIPTOR};
    memories = ps_caller_memories_create(ps_allocator_heap(), true, wait_ms);
    ck_assert_ptr_nonnull(memories);
    ck_assert_int_eq(ps_caller_memory_acquire(memories, SIZE, &bytes, NULL), PS_OK);
}

/* Who lets go is waited for however slow it is, who does not not for long. */
static void set_up(void)
{
    begin(30000);
}

static void set_up_impatient(void)
{
    begin(1);
}

static void hang_up(struct taker *taker)
{
    ps_shared_segment_close(&taker->segment);
    close(taker->peer);
    taker->peer = PS_NO_DESCRIPTOR;
}

static void tear_down(void)
{
    ps_caller_memories_destroy(memories);
    hang_up(&server);
    close(listener);
}

static bool acquire(const void *content, size_t size)
{
    return ps_caller_place_acquire(memories, &first_link, name, content, size, &place);
}

/* The server takes what was handed over at its socket. */
static void take_over(struct taker *taker, uint64_t number)
{
    uint8_t message[PS_SHARED_HELLO_BYTES], welcome[PS_SHARED_WELCOME_BYTES];
    size_t size;
    int descriptor;
    uint64_t said;
    ck_assert_int_eq(ps_local_socket_accept(listener, &taker->peer, NULL), PS_OK);
    ck_assert_int_eq(
        ps_local_socket_receive(taker->peer, message, sizeof message, &size, &descriptor, NULL),
        PS_OK);
    ck_assert(ps_shared_hello_read((struct ps_bytes){message, size}, &said));
    ck_assert_int_eq(ps_shared_segment_open(descriptor, said, &taker->segment, NULL), PS_OK);
    close(descriptor);
    ps_shared_welcome_write(number, welcome);
    ck_assert_int_eq(ps_local_socket_send(taker->peer, (struct ps_bytes){welcome, sizeof welcome},
                                          PS_NO_DESCRIPTOR, NULL),
                     PS_OK);
}

/* A place at `offset` of a server that has taken the memory as `number`. */
static void open_place(size_t offset, size_t size, uint64_t number)
{
    ck_assert(!acquire(bytes + offset, size)); /* it is on its way */
    take_over(&server, number);
    ck_assert(acquire(bytes + offset, size));
    ck_assert_uint_eq(place.range.segment, number);
}

/* Lets go of the memory once the client says that it is to, as a server does between two calls. */
static void *let_go(void *argument)
{
    struct taker *taker = argument;
    struct pollfd readable = {.fd = taker->peer, .events = POLLIN};
    (void)poll(&readable, 1, -1);
    hang_up(taker);
    return NULL;
}

START_TEST(content_is_where_the_server_sees_it)
{
    open_place(2 * PAGE, 3 * PAGE, NUMBER);

    ck_assert(place.range.offset == 2 * PAGE && place.range.size == 3 * PAGE);
    ck_assert_ptr_eq(place.bytes, bytes + 2 * PAGE);
    ck_assert(ps_caller_memories_hold(memories, &first_link, bytes, SIZE));
    ck_assert(!ps_caller_memories_hold(memories, &first_link, bytes + 1, PAGE));
    ck_assert(!ps_caller_memories_hold(memories, &second_link, bytes, SIZE));
    ck_assert(!ps_caller_memories_hold(NULL, &first_link, bytes, SIZE));
    memset(bytes + 2 * PAGE, 5, 3 * PAGE);
    server.segment.bytes[0] = 9;

    ck_assert_uint_eq(server.segment.bytes[2 * PAGE], 5);
    ck_assert_uint_eq(server.segment.bytes[5 * PAGE - 1], 5);
    ck_assert_uint_eq(server.segment.bytes[5 * PAGE], 0);
    ck_assert_uint_eq(bytes[0], 9);
    ps_caller_place_release(&place, true);
    ps_caller_place_release(&place, true);
}
END_TEST

START_TEST(what_was_handed_over_once_serves_every_later_place)
{
    struct ps_caller_place other;
    int second;
    open_place(0, SIZE, NUMBER);
    ck_assert(ps_caller_place_acquire(memories, &first_link, name, bytes + PAGE, 1, &other));
    ps_caller_place_release(&place, true);
    ck_assert(acquire(bytes, SIZE));
    ps_caller_place_release(&place, true);
    ps_caller_place_release(&other, true);
    ck_assert_int_eq(ps_local_socket_accept(listener, &second, NULL), PS_ERR_NOT_READY);
}
END_TEST

START_TEST(content_that_lies_elsewhere_has_no_place)
{
    static uint8_t elsewhere[SIZE];
    uint8_t *other;
    int peer;
    ck_assert_int_eq(ps_caller_memory_acquire(memories, SIZE, &other, NULL), PS_OK);
    ck_assert(!acquire(elsewhere, SIZE));
    ck_assert(!acquire(bytes + 4, PAGE)); /* not at the beginning of a page */
    ck_assert(!acquire(bytes + PAGE, SIZE));
    ck_assert(!acquire(bytes + SIZE, 1));
    ck_assert(!acquire(bytes, SIZE + 1));
    ck_assert(!acquire(bytes, SIZE_MAX));
    ck_assert(!acquire(bytes, 0));
    ck_assert(!ps_caller_place_acquire(NULL, &first_link, name, bytes, SIZE, &place));
    ck_assert_int_eq(ps_local_socket_accept(listener, &peer, NULL), PS_ERR_NOT_READY);
    ck_assert(ps_caller_memory_release(memories, other));
    ck_assert(!ps_caller_memory_release(memories, other));
    ck_assert(!ps_caller_memory_release(memories, elsewhere));
    ps_caller_place_release(&place, true);
}
END_TEST

START_TEST(each_server_gets_it_under_a_number_of_its_own)
{
    struct taker another;
    struct ps_caller_place there;
    open_place(0, SIZE, NUMBER);
    ck_assert(!ps_caller_place_acquire(memories, &second_link, name, bytes, SIZE, &there));
    take_over(&another, 5);
    ck_assert(ps_caller_place_acquire(memories, &second_link, name, bytes, SIZE, &there));
    ck_assert_uint_eq(there.range.segment, 5);
    bytes[1] = 3;
    ck_assert(server.segment.bytes[1] == 3 && another.segment.bytes[1] == 3);
    ps_caller_place_release(&there, true);
    ps_caller_place_release(&place, true);
    hang_up(&another);
}
END_TEST

/* ---- Servers that do not want it, or go ---- */

START_TEST(a_server_that_refuses_is_asked_again_only_when_there_is_another)
{
    int peer;
    ck_assert(!acquire(bytes, SIZE));
    ck_assert_int_eq(ps_local_socket_accept(listener, &peer, NULL), PS_OK);
    close(peer);
    ck_assert(!acquire(bytes, SIZE));
    ck_assert(!acquire(bytes, SIZE));
    ck_assert_int_eq(ps_local_socket_accept(listener, &peer, NULL), PS_ERR_NOT_READY);

    ps_caller_memories_forget(memories, &second_link);
    ck_assert(!acquire(bytes, SIZE));
    ck_assert_int_eq(ps_local_socket_accept(listener, &peer, NULL), PS_ERR_NOT_READY);
    ps_caller_memories_forget(memories, &first_link);
    open_place(0, SIZE, NUMBER);
    ps_caller_place_release(&place, true);
    ps_caller_memories_forget(NULL, &first_link);
}
END_TEST

START_TEST(a_server_that_answers_nonsense_is_left_alone)
{
    ck_assert(!acquire(bytes, SIZE));
    ck_assert_int_eq(ps_local_socket_accept(listener, &server.peer, NULL), PS_OK);
    ck_assert_int_eq(
        ps_local_socket_send(server.peer, ps_bytes_of_text("PSTAKEN1"), PS_NO_DESCRIPTOR, NULL),
        PS_OK);
    ck_assert(!acquire(bytes, SIZE));
    ck_assert(!acquire(bytes, SIZE));
}
END_TEST

START_TEST(nobody_at_the_socket_means_no_place)
{
    const struct ps_bytes nobody = ps_bytes_of_text("pserver-test-nobody");
    ck_assert(!ps_caller_place_acquire(memories, &first_link, nobody, bytes, SIZE, &place));
    ck_assert(!acquire(bytes, SIZE)); /* remembered until the link is forgotten */
}
END_TEST

START_TEST(a_server_that_has_gone_is_noticed_before_a_place_is_given_out)
{
    open_place(0, SIZE, NUMBER);
    ps_caller_place_release(&place, true);
    hang_up(&server);
    ck_assert(!acquire(bytes, SIZE));
}
END_TEST

/* ---- Calls without an answer ---- */

START_TEST(after_a_call_without_an_answer_the_server_has_let_go)
{
    pthread_t thread;
    open_place(0, SIZE, NUMBER);
    memset(bytes, 6, SIZE);
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, &server), 0);

    ps_caller_place_release(&place, false); /* returns when the server has hung up */

    pthread_join(thread, NULL);
    ck_assert(bytes[0] == 6 && bytes[SIZE - 1] == 6);
    open_place(0, SIZE, NUMBER + 1);
    ck_assert_uint_eq(server.segment.bytes[SIZE - 1], 6);
    bytes[0] = 7;
    ck_assert_uint_eq(server.segment.bytes[0], 7);
    ps_caller_place_release(&place, true);
}
END_TEST

START_TEST(a_dead_server_is_not_waited_for)
{
    open_place(0, SIZE, NUMBER);
    memset(bytes, 6, SIZE);
    hang_up(&server);
    ps_caller_place_release(&place, false);
    ck_assert_uint_eq(bytes[SIZE - 1], 6);
    open_place(0, SIZE, NUMBER + 1);
    ps_caller_place_release(&place, true);
}
END_TEST

START_TEST(a_server_that_stands_still_keeps_what_was_there_and_sees_nothing_new)
{
    struct ps_caller_place second;
    open_place(PAGE, PAGE + 1, NUMBER);
    ck_assert(ps_caller_place_acquire(memories, &first_link, name, bytes + 8 * PAGE, 1, &second));
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i / PAGE);

    ps_caller_place_release(&place, false);
    ps_caller_place_release(&second, false); /* it is not waited for again */

    for (size_t i = 0; i < SIZE; i++)
        ck_assert_uint_eq(bytes[i], (uint8_t)(i / PAGE));
    memset(bytes, 100, SIZE);
    ck_assert_uint_eq(server.segment.bytes[PAGE], 1);
    ck_assert_uint_eq(server.segment.bytes[3 * PAGE - 1], 2);
    ck_assert_uint_eq(server.segment.bytes[8 * PAGE], 8);
    ck_assert_uint_eq(server.segment.bytes[9 * PAGE], 100); /* was no call's */
    memset(server.segment.bytes + PAGE, 50, 2 * PAGE);
    ck_assert(bytes[PAGE] == 100 && bytes[3 * PAGE - 1] == 100);
    ck_assert(!acquire(bytes, PAGE)); /* ordinary memory now */
    ps_caller_memories_forget(memories, &first_link);
    ck_assert(!acquire(bytes, PAGE));
}
END_TEST

/* The server may not hang up before all calls that it knows of are over: with it ends the wait of
 * each of them. */
START_TEST(two_calls_without_an_answer_wait_for_the_same_end)
{
    struct ps_caller_place second;
    pthread_t thread;
    open_place(0, PAGE, NUMBER);
    ck_assert(ps_caller_place_acquire(memories, &first_link, name, bytes + PAGE, 1, &second));
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, &server), 0);
    ps_caller_place_release(&place, false);
    ps_caller_place_release(&second, false);
    pthread_join(thread, NULL);
    open_place(0, SIZE, NUMBER + 1);
    ps_caller_place_release(&place, true);
}
END_TEST

START_TEST(a_forgotten_link_has_the_memory_handed_over_anew)
{
    struct taker old;
    open_place(0, SIZE, NUMBER);
    old = server;
    ps_caller_memories_forget(memories, &first_link);
    struct ps_caller_place before = place;
    open_place(0, SIZE, NUMBER + 1);
    hang_up(&old); /* the old server was killed */
    ps_caller_place_release(&before, false);
    ps_caller_place_release(&place, true);
    ck_assert(acquire(bytes, SIZE));
    ps_caller_place_release(&place, true);
}
END_TEST

/* ---- Ends and limits ---- */

START_TEST(memory_that_a_call_uses_stays_until_it_is_over)
{
    uint8_t byte;
    size_t size;
    int passed;
    open_place(0, SIZE, NUMBER);
    bytes[3] = 4;
    ck_assert(ps_caller_memory_release(memories, bytes));
    ck_assert_uint_eq(place.bytes[3], 4);
    ck_assert_int_eq(ps_local_socket_receive(server.peer, &byte, 1, &size, &passed, NULL),
                     PS_ERR_NOT_READY);
    ps_caller_place_release(&place, true);
    ck_assert_int_eq(ps_local_socket_receive(server.peer, &byte, 1, &size, &passed, NULL),
                     PS_ERR_UNAVAILABLE);
}
END_TEST

START_TEST(some_are_shared_more_are_ordinary_and_there_is_an_end)
{
    uint8_t *other = NULL;
    struct ps_error error;
    for (int i = 1; i < PS_CALLER_MEMORIES_MAX; i++) {
        ck_assert_int_eq(ps_caller_memory_acquire(memories, PAGE, &other, NULL), PS_OK);
        ck_assert_uint_eq(other[PAGE - 1], 0);
        if (i == PS_CALLER_SHARED_MAX - 1)
            ck_assert_uint_eq((uintptr_t)other % PAGE, 0);
    }
    ck_assert(!acquire(other, PAGE));
    ck_assert_int_eq(ps_local_socket_accept(listener, &server.peer, NULL), PS_ERR_NOT_READY);
    ck_assert_int_eq(ps_caller_memory_acquire(memories, PAGE, &other, &error), PS_ERR_BUSY);
    ck_assert(ps_caller_memory_release(memories, bytes));
    ck_assert_int_eq(ps_caller_memory_acquire(memories, SIZE, &bytes, NULL), PS_OK);
    open_place(0, SIZE, NUMBER); /* the room of the one that was given back */
    ps_caller_place_release(&place, true);
}
END_TEST

START_TEST(a_client_that_shares_nothing_has_ordinary_memory)
{
    struct ps_caller_memories *plain = ps_caller_memories_create(ps_allocator_heap(), false, 0);
    uint8_t *other;
    ck_assert_int_eq(ps_caller_memory_acquire(plain, SIZE, &other, NULL), PS_OK);
    memset(other, 1, SIZE);
    ck_assert(!ps_caller_place_acquire(plain, &first_link, name, other, SIZE, &place));
    ps_caller_memories_destroy(plain);
    ps_caller_memories_destroy(NULL);
}
END_TEST

START_TEST(more_than_there_is_is_refused)
{
    uint8_t *other = NULL;
    ck_assert_int_eq(ps_caller_memory_acquire(memories, SIZE_MAX, &other, NULL), PS_ERR_NO_MEMORY);
    ck_assert_int_eq(ps_caller_memory_acquire(memories, SIZE_MAX / 4, &other, NULL),
                     PS_ERR_NO_MEMORY);
    ck_assert_ptr_null(other);
}
END_TEST

START_TEST(refused_allocations_leave_ordinary_calls)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_caller_memories *poor = ps_caller_memories_create(&memory, true, 0);
    uint8_t *other = NULL;
    ck_assert((poor == NULL) == (_i == 0));
    if (poor != NULL) {
        enum ps_status status = ps_caller_memory_acquire(poor, SIZE, &other, NULL);
        ck_assert_int_eq(status, _i == 1 ? PS_ERR_NO_MEMORY : PS_OK);
        if (status == PS_OK) {
            ck_assert(!ps_caller_place_acquire(poor, &first_link, name, other, SIZE, &place));
            int peer;
            ck_assert_int_eq(ps_local_socket_accept(listener, &peer, NULL),
                             _i == 2 ? PS_ERR_NOT_READY : PS_OK);
            if (_i != 2)
                close(peer);
        }
    }
    ps_caller_memories_destroy(poor);
    ck_assert_int_eq(heap.live, 0);
    ck_assert(_i < 3 || heap.seen <= _i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("caller_memory");
    TCase *tests = tcase_create("caller_memory");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, content_is_where_the_server_sees_it);
    tcase_add_test(tests, what_was_handed_over_once_serves_every_later_place);
    tcase_add_test(tests, content_that_lies_elsewhere_has_no_place);
    tcase_add_test(tests, each_server_gets_it_under_a_number_of_its_own);
    tcase_add_test(tests, a_server_that_refuses_is_asked_again_only_when_there_is_another);
    tcase_add_test(tests, a_server_that_answers_nonsense_is_left_alone);
    tcase_add_test(tests, nobody_at_the_socket_means_no_place);
    tcase_add_test(tests, a_server_that_has_gone_is_noticed_before_a_place_is_given_out);
    tcase_add_test(tests, after_a_call_without_an_answer_the_server_has_let_go);
    tcase_add_test(tests, a_dead_server_is_not_waited_for);
    tcase_add_test(tests, two_calls_without_an_answer_wait_for_the_same_end);
    tcase_add_test(tests, a_forgotten_link_has_the_memory_handed_over_anew);
    tcase_add_test(tests, memory_that_a_call_uses_stays_until_it_is_over);
    tcase_add_test(tests, some_are_shared_more_are_ordinary_and_there_is_an_end);
    tcase_add_test(tests, a_client_that_shares_nothing_has_ordinary_memory);
    tcase_add_test(tests, more_than_there_is_is_refused);
    tcase_add_loop_test(tests, refused_allocations_leave_ordinary_calls, 0, 4);
    suite_add_tcase(suite, tests);
    TCase *impatient = tcase_create("impatient");
    tcase_add_checked_fixture(impatient, set_up_impatient, tear_down);
    tcase_add_test(impatient, a_server_that_stands_still_keeps_what_was_there_and_sees_nothing_new);
    suite_add_tcase(suite, impatient);
    return run_suite(suite);
}
