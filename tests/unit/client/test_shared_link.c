/* SPDX-License-Identifier: Apache-2.0 */
/* A link and, at the other end of a real local socket, a server that does what each test wants. */
#include "client/local/shared_link.h"

#include "base/local_socket.h"
#include "base/random.h"
#include "base/shared_segment.h"
#include "proto/shared_range.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE PS_SHARED_BYTES_MIN
#define NUMBER 77

static char text[64];
static struct ps_bytes name;
static int listener, peer;
static struct ps_shared_segment theirs;
static struct ps_shared_link *client;
static struct ps_shared_slot slot;

/* Who this process is, and who listens, as the kernel would say. */
static uid_t own_user, listening_user;

uid_t __wrap_geteuid(void);
enum ps_status __wrap_ps_local_socket_peer(int peer_, struct ps_local_peer *who,
                                           struct ps_error *error);

uid_t __wrap_geteuid(void)
{
    return own_user;
}

enum ps_status __wrap_ps_local_socket_peer(int peer_, struct ps_local_peer *who,
                                           struct ps_error *error)
{
    (void)peer_;
    (void)error;
    *who = (struct ps_local_peer){.user = listening_user};
    return PS_OK;
}

static void set_up(void)
{
    uint64_t number;
    own_user = listening_user = 1000;
    ps_random_system(&number, sizeof number);
    snprintf(text, sizeof text, "pserver-test-%016llx", (unsigned long long)number);
    name = ps_bytes_of_text(text);
    ck_assert_int_eq(ps_local_socket_listen(name, &listener, NULL), PS_OK);
    peer = PS_NO_DESCRIPTOR;
    client = ps_shared_link_create(ps_allocator_heap());
    ck_assert_ptr_nonnull(client);
}

static void tear_down(void)
{
    ps_shared_link_destroy(client);
    ps_shared_segment_close(&theirs);
    close(peer);
    close(listener);
}

static bool take(size_t size)
{
    return ps_shared_link_take(client, size, &slot);
}

/* The server takes what was handed over at its socket. */
static void accept_memory(void)
{
    uint8_t message[64];
    size_t size;
    int descriptor;
    uint64_t bytes;
    close(peer);
    ps_shared_segment_close(&theirs);
    ck_assert_int_eq(ps_local_socket_accept(listener, &peer, NULL), PS_OK);
    ck_assert_int_eq(
        ps_local_socket_receive(peer, message, sizeof message, &size, &descriptor, NULL), PS_OK);
    ck_assert(ps_shared_hello_read((struct ps_bytes){message, size}, &bytes));
    ck_assert_uint_eq(bytes, PS_SHARED_SEGMENT_BYTES);
    ck_assert_int_eq(ps_shared_segment_open(descriptor, bytes, &theirs, NULL), PS_OK);
    close(descriptor);
}

static void welcome(uint64_t number)
{
    uint8_t message[PS_SHARED_WELCOME_BYTES];
    ps_shared_welcome_write(number, message);
    ck_assert_int_eq(ps_local_socket_send(peer, (struct ps_bytes){message, sizeof message},
                                          PS_NO_DESCRIPTOR, NULL),
                     PS_OK);
}

static const struct ps_bytes untold = {NULL, 0};

static void answer_with(struct ps_bytes told, struct ps_bytes content_bytes_max)
{
    ps_shared_link_answered(client, ps_shared_link_asks(client), told, content_bytes_max);
}

static void open_link(void)
{
    answer_with(name, untold);
    ck_assert(!take(SIZE)); /* the memory is on its way, the call goes in the message */
    accept_memory();
    welcome(NUMBER);
}

START_TEST(it_knows_what_the_server_takes_as_one_when_it_was_told)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"4194304", 4 << 20}, {"", 0}, {"4MiB", 0}, {"-1", 0}, {"99999999999999999999", 0}};
    ck_assert_uint_eq(ps_shared_link_content_bytes_max(NULL), 0);
    ck_assert_uint_eq(ps_shared_link_content_bytes_max(client), 0);

    answer_with(name, ps_bytes_of_text(cases[_i].text));

    ck_assert_uint_eq(ps_shared_link_content_bytes_max(client), cases[_i].bytes);
    ps_shared_link_lost(client); /* the next server may take less */
    ck_assert_uint_eq(ps_shared_link_content_bytes_max(client), 0);
}
END_TEST

START_TEST(it_asks_until_it_is_answered)
{
    ck_assert(ps_shared_link_asks(client));
    ck_assert(!take(SIZE));
    ck_assert(ps_shared_link_asks(client));

    answer_with(name, untold);

    ck_assert(!ps_shared_link_asks(client));
    ck_assert(!ps_shared_link_asks(NULL));
}
END_TEST

START_TEST(content_in_a_slot_is_what_the_server_sees_in_the_range)
{
    open_link();

    ck_assert(take(3 * SIZE));
    ck_assert(slot.range.segment == NUMBER && slot.range.size == 3 * SIZE);
    memset(slot.bytes, 5, 3 * SIZE);

    ck_assert_uint_eq(theirs.bytes[slot.range.offset], 5);
    ck_assert_uint_eq(theirs.bytes[slot.range.offset + 3 * SIZE - 1], 5);
    ck_assert_uint_eq(theirs.bytes[slot.range.offset + 3 * SIZE], 0);
    ps_shared_slot_release(&slot, true);
    ps_shared_slot_release(&slot, true);
}
END_TEST

START_TEST(until_the_server_has_taken_it_calls_go_in_the_message)
{
    answer_with(name, untold);
    ck_assert(!take(SIZE));
    ck_assert(!take(SIZE));
    accept_memory();
    ck_assert(!take(SIZE));
    welcome(NUMBER);
    ck_assert(take(SIZE));
    ps_shared_slot_release(&slot, true);
}
END_TEST

START_TEST(small_and_very_large_content_goes_in_the_message)
{
    open_link();
    ck_assert(!take(0));
    ck_assert(!take(SIZE - 1));
    ck_assert(!take(PS_SHARED_SEGMENT_BYTES + 1));
    ck_assert(!ps_shared_link_take(NULL, SIZE, &slot));
    ps_shared_slot_release(&slot, true);
    ck_assert(take(PS_SHARED_SEGMENT_BYTES));
    struct ps_shared_slot other;
    ck_assert(!ps_shared_link_take(client, SIZE, &other));
    ps_shared_slot_release(&slot, true);
}
END_TEST

START_TEST(a_server_without_a_name_is_not_asked_again)
{
    answer_with((struct ps_bytes){NULL, 0}, untold);
    ck_assert(!ps_shared_link_asks(client));
    ck_assert(!take(SIZE));
}
END_TEST

START_TEST(a_name_that_nobody_has_here_is_of_a_server_elsewhere)
{
    answer_with(ps_bytes_of_text("pserver-test-elsewhere"), untold);
    ck_assert(!take(SIZE));
    ck_assert(!take(SIZE));
    ck_assert(!ps_shared_link_asks(client));
    ck_assert_int_eq(ps_local_socket_accept(listener, &peer, NULL), PS_ERR_NOT_READY);
}
END_TEST

START_TEST(a_name_that_is_too_long_is_none)
{
    uint8_t longer[PS_LOCAL_NAME_BYTES_MAX + 1];
    memset(longer, 'x', sizeof longer);
    answer_with((struct ps_bytes){longer, sizeof longer}, untold);
    ck_assert(!take(SIZE));
}
END_TEST

START_TEST(a_server_that_refuses_is_left_alone)
{
    answer_with(name, untold);
    ck_assert(!take(SIZE));
    accept_memory();
    close(peer);
    peer = PS_NO_DESCRIPTOR;
    ck_assert(!take(SIZE));
    ck_assert(!take(SIZE));
    ck_assert_int_eq(ps_local_socket_accept(listener, &peer, NULL), PS_ERR_NOT_READY);
}
END_TEST

START_TEST(an_answer_that_is_no_welcome_ends_it)
{
    answer_with(name, untold);
    ck_assert(!take(SIZE));
    accept_memory();
    ck_assert_int_eq(
        ps_local_socket_send(peer, ps_bytes_of_text("PSTAKEN1but7"), PS_NO_DESCRIPTOR, NULL),
        PS_OK);
    ck_assert(!take(SIZE));
    ck_assert(!take(SIZE));
    ck_assert_int_eq(ps_local_socket_send(peer, ps_bytes_of_text("x"), PS_NO_DESCRIPTOR, NULL),
                     PS_ERR_UNAVAILABLE);
}
END_TEST

START_TEST(a_server_that_has_gone_is_noticed_before_a_slot_is_given_out)
{
    open_link();
    ck_assert(take(SIZE));
    ps_shared_slot_release(&slot, true);
    close(peer);
    peer = PS_NO_DESCRIPTOR;
    ck_assert(!take(SIZE));
}
END_TEST

START_TEST(a_slot_is_used_again_when_the_server_has_answered)
{
    open_link();
    ck_assert(take(SIZE));
    uint64_t offset = slot.range.offset;
    ps_shared_slot_release(&slot, true);
    ck_assert(take(SIZE));
    ck_assert_uint_eq(slot.range.offset, offset);
    ps_shared_slot_release(&slot, true);
}
END_TEST

/* The server may read the old slot at any later time. */
START_TEST(after_a_call_without_the_servers_answer_there_is_another_segment)
{
    struct ps_shared_slot kept;
    open_link();
    ck_assert(ps_shared_link_take(client, SIZE, &kept));
    ck_assert(take(SIZE));
    struct ps_shared_range unanswered = slot.range;
    memset(slot.bytes, 9, SIZE);
    ps_shared_slot_release(&slot, false);
    struct ps_shared_segment old = theirs;
    int old_peer = peer;
    theirs = (struct ps_shared_segment){0};
    peer = PS_NO_DESCRIPTOR;

    ck_assert(!take(SIZE));
    accept_memory();
    welcome(NUMBER + 1);
    ck_assert(take(SIZE));
    memset(slot.bytes, 1, SIZE);

    ck_assert_uint_eq(slot.range.segment, NUMBER + 1);
    ck_assert_uint_eq(old.bytes[unanswered.offset], 9);
    /* What is still under way keeps the old one, and its last slot ends it. */
    uint8_t byte;
    size_t size;
    int passed;
    ck_assert_int_eq(ps_local_socket_receive(old_peer, &byte, 1, &size, &passed, NULL),
                     PS_ERR_NOT_READY);
    ps_shared_slot_release(&kept, true);
    ck_assert_int_eq(ps_local_socket_receive(old_peer, &byte, 1, &size, &passed, NULL),
                     PS_ERR_UNAVAILABLE);
    ck_assert_uint_eq(old.bytes[unanswered.offset], 9);
    ps_shared_slot_release(&slot, true);
    ps_shared_segment_close(&old);
    close(old_peer);
}
END_TEST

START_TEST(after_a_lost_connection_it_asks_anew)
{
    open_link();
    ck_assert(take(SIZE));
    ps_shared_link_lost(client);
    struct ps_shared_slot other;
    ck_assert(!ps_shared_link_take(client, SIZE, &other));
    ck_assert(ps_shared_link_asks(client));

    answer_with(name, untold);

    ck_assert(!ps_shared_link_asks(client));
    ck_assert(!ps_shared_link_take(client, SIZE, &other));
    ps_shared_slot_release(&slot, false);
    accept_memory();
    welcome(5);
    ck_assert(take(SIZE));
    ck_assert_uint_eq(slot.range.segment, 5);
    ps_shared_slot_release(&slot, true);
    ps_shared_link_lost(NULL);
}
END_TEST

/* The answer of a server that was killed right behind it is heard after the loss. */
START_TEST(an_answer_from_before_the_loss_is_not_believed)
{
    uint32_t early = ps_shared_link_asks(client);
    ps_shared_link_lost(client);
    ps_shared_link_answered(client, early, ps_bytes_of_text("pserver-test-gone"), untold);
    ck_assert(ps_shared_link_asks(client));

    open_link();

    ck_assert(!ps_shared_link_asks(client));
    ck_assert(take(SIZE));
    ps_shared_slot_release(&slot, true);
    ps_shared_link_answered(client, early, ps_bytes_of_text("pserver-test-gone"), untold);
    ck_assert(take(SIZE));
    ps_shared_slot_release(&slot, true);
}
END_TEST

/* As when it was killed and another one has its address before anybody looked at the connection. */
START_TEST(a_loss_that_nobody_noticed_does_not_end_it_for_ever)
{
    struct ps_shared_slot none;
    answer_with(ps_bytes_of_text("pserver-test-gone"), untold);
    ck_assert(!ps_shared_link_take(client, SIZE, &none));
    unsigned refused[2] = {0};
    for (int i = 0; i < 2; i++) {
        while (ps_shared_link_asks(client) == 0) {
            ck_assert(!ps_shared_link_take(client, SIZE, &none));
            ck_assert_uint_lt(++refused[i], 1000);
        }
        answer_with(i == 0 ? ps_bytes_of_text("pserver-test-gone") : name, untold);
        ck_assert(!ps_shared_link_take(client, SIZE, &none));
    }
    /* The second time it waits longer. */
    ck_assert_uint_gt(refused[1], refused[0]);
    accept_memory();
    welcome(5);
    ck_assert(take(SIZE));
    ck_assert_uint_eq(slot.range.segment, 5);
    ps_shared_slot_release(&slot, true);
}
END_TEST

START_TEST(a_slot_outlives_its_link)
{
    open_link();
    ck_assert(take(SIZE));
    ps_shared_link_destroy(client);
    client = NULL;
    slot.bytes[0] = 3;
    ck_assert_uint_eq(theirs.bytes[slot.range.offset], 3);
    ps_shared_slot_release(&slot, true);
}
END_TEST

START_TEST(a_refused_allocation_leaves_the_message)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_shared_link *poor = ps_shared_link_create(&memory);
    ps_shared_link_answered(poor, ps_shared_link_asks(poor), name, untold);

    bool taken = ps_shared_link_take(poor, SIZE, &slot);

    ck_assert(!taken);
    ck_assert(_i != 0 || poor == NULL);
    ps_shared_link_destroy(poor);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* Once a server has gone, its name is free for any process of the machine. */
START_TEST(memory_is_handed_to_the_same_user_or_to_root_only)
{
    static const struct {
        uid_t own, listening;
        bool is_given;
    } cases[] = {{1000, 1000, true},
                 {1000, 0, true},
                 {1000, 1001, false},
                 {1000, 65534, false},
                 {0, 1001, true}};
    int socket;
    own_user = cases[_i].own;
    listening_user = cases[_i].listening;

    answer_with(name, untold);
    (void)take(SIZE);

    if (cases[_i].is_given) {
        accept_memory();
        return;
    }
    uint8_t message[64];
    size_t size;
    int descriptor = PS_NO_DESCRIPTOR;
    ck_assert_int_eq(ps_local_socket_accept(listener, &socket, NULL), PS_OK);
    ck_assert_int_eq(
        ps_local_socket_receive(socket, message, sizeof message, &size, &descriptor, NULL),
        PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(descriptor, PS_NO_DESCRIPTOR);
    close(socket);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared_link");
    TCase *tests = tcase_create("shared_link");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, it_knows_what_the_server_takes_as_one_when_it_was_told, 0, 5);
    tcase_add_test(tests, it_asks_until_it_is_answered);
    tcase_add_test(tests, content_in_a_slot_is_what_the_server_sees_in_the_range);
    tcase_add_test(tests, until_the_server_has_taken_it_calls_go_in_the_message);
    tcase_add_test(tests, small_and_very_large_content_goes_in_the_message);
    tcase_add_test(tests, a_server_without_a_name_is_not_asked_again);
    tcase_add_test(tests, a_name_that_nobody_has_here_is_of_a_server_elsewhere);
    tcase_add_test(tests, a_name_that_is_too_long_is_none);
    tcase_add_test(tests, a_server_that_refuses_is_left_alone);
    tcase_add_test(tests, an_answer_that_is_no_welcome_ends_it);
    tcase_add_test(tests, a_server_that_has_gone_is_noticed_before_a_slot_is_given_out);
    tcase_add_test(tests, a_slot_is_used_again_when_the_server_has_answered);
    tcase_add_test(tests, after_a_call_without_the_servers_answer_there_is_another_segment);
    tcase_add_test(tests, after_a_lost_connection_it_asks_anew);
    tcase_add_test(tests, an_answer_from_before_the_loss_is_not_believed);
    tcase_add_test(tests, a_loss_that_nobody_noticed_does_not_end_it_for_ever);
    tcase_add_test(tests, a_slot_outlives_its_link);
    tcase_add_loop_test(tests, a_refused_allocation_leaves_the_message, 0, 3);
    tcase_add_loop_test(tests, memory_is_handed_to_the_same_user_or_to_root_only, 0, 5);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
