/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that bring memory which could hurt, too much of it, none at all; and one that changes its
 * memory while the server reads. */
#include "sharer.h"

#include "base/local_socket.h"
#include "base/random.h"
#include "expect_each.h"
#include "proto/codec.h"
#include "proto/optimizer_config.h"
#include "proto/shared_range.h"
#include "proto/status_codes.h"
#include "run_suite.h"
#include "server/rpc/shared_memory.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void expect_hung_up(int socket)
{
    ck_assert_uint_eq(await_answer(socket), 0);
    close(socket);
}

static int memory_file(int seals)
{
    int made = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(made, 0);
    ck_assert_int_eq(ftruncate(made, SEGMENT_BYTES), 0);
    ck_assert_int_eq(fcntl(made, F_ADD_SEALS, seals), 0);
    return made;
}

static void offer(int descriptor, uint64_t size)
{
    int socket = connect_socket();
    say_hello(socket, size, descriptor);
    if (descriptor != PS_NO_DESCRIPTOR)
        close(descriptor);
    expect_hung_up(socket);
}

START_TEST(memory_that_could_hurt_is_not_taken)
{
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    offer(memory_file(0), SEGMENT_BYTES);
    offer(memory_file(F_SEAL_GROW), SEGMENT_BYTES);
    offer(memory_file(sealed), SEGMENT_BYTES + 4096);
    offer(memory_file(sealed), SEGMENT_BYTES - 4096);
    offer(memory_file(sealed), UINT64_MAX);
    offer(memory_file(sealed), LIMIT_BYTES + 4096);
    offer(memory_file(sealed | F_SEAL_WRITE), SEGMENT_BYTES);
    offer(open("/dev/zero", O_RDWR | O_CLOEXEC), SEGMENT_BYTES);
    offer(PS_NO_DESCRIPTOR, SEGMENT_BYTES);
    fill(0, -1);
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 0), "");
    expect_values(1, 1);
}
END_TEST

START_TEST(words_that_are_no_hello_end_the_connection)
{
    static const char *const words[] = {"x", "PSSHARE1", "PSTAKEN1aaaaaaaa", "PSSHARE1aaaaaaaaa"};
    for (size_t i = 0; i < 4; i++) {
        int socket = connect_socket();
        int descriptor = memory_file(F_SEAL_SHRINK | F_SEAL_GROW);
        ck_assert_int_eq(ps_local_socket_send(socket, ps_bytes_of_text(words[i]), descriptor, NULL),
                         PS_OK);
        close(descriptor);
        expect_hung_up(socket);
    }
    say_hello(mine.socket, SEGMENT_BYTES, PS_NO_DESCRIPTOR);
    ck_assert_uint_eq(await_answer(mine.socket), 0);
}
END_TEST

START_TEST(all_clients_together_share_no_more_than_the_limit)
{
    struct sharer others[8];
    for (size_t i = 0; i < 8; i++)
        share(&others[i], SEGMENT_BYTES);
    for (size_t i = 0; i < 7; i++)
        ck_assert_uint_ne(others[i].number, 0);
    ck_assert_uint_eq(others[7].number, 0);
    for (size_t i = 0; i < 8; i++)
        leave(&others[i]);
}
END_TEST

START_TEST(there_is_room_for_so_many_clients_and_those_who_say_nothing_lose_it)
{
    static int sockets[PS_SHARED_CLIENTS_MAX];
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX - 1; i++)
        sockets[i] = connect_socket();
    expect_hung_up(connect_socket());
    for (size_t i = 0; i < PS_SHARED_CLIENTS_MAX - 1; i++)
        expect_hung_up(sockets[i]);
    struct sharer late;
    share(&late, SEGMENT_BYTES);
    ck_assert_uint_ne(late.number, 0);
    leave(&late);
}
END_TEST

/* A client that has shut its end down may use its memory for something else when the server has
 * closed the other: not while a call is reading there. */
START_TEST(the_server_hangs_up_when_no_call_uses_the_memory_any_more)
{
    struct ps_shared_memory *shared;
    struct ps_shared_hold hold, another;
    const struct ps_shared_memory_options options = {
        .memory = ps_allocator_heap(), .clock = ps_clock_real(), .bytes_max = LIMIT_BYTES};
    ck_assert_int_eq(ps_shared_memory_create(&options, &shared, NULL), PS_OK);
    strcpy(name, ps_shared_memory_name(shared));
    struct sharer sharer;
    share(&sharer, SEGMENT_BYTES);
    const struct ps_shared_range range = {.segment = sharer.number, .size = 1};
    ck_assert_int_eq(ps_shared_memory_find(shared, &range, &hold, NULL), PS_OK);

    ck_assert_int_eq(shutdown(sharer.socket, SHUT_WR), 0);

    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), SHARER_WAIT_MS);
    while (ps_shared_memory_find(shared, &range, &another, NULL) == PS_OK) {
        ps_shared_memory_release(&another);
        ck_assert_uint_gt(ps_time_left_ms(ps_clock_real(), deadline_ms), 0);
    }
    struct pollfd end = {.fd = sharer.socket, .events = POLLIN};
    ck_assert_int_eq(poll(&end, 1, 0), 0);
    hold.bytes[0] = 1; /* still there */
    ps_shared_memory_release(&hold);
    ck_assert_uint_eq(await_answer(sharer.socket), 0);
    leave(&sharer);
    ps_shared_memory_destroy(shared);
}
END_TEST

/* ---- The one that changes its memory while the server reads ---- */

static atomic_bool scribbling;

static void *scribble(void *argument)
{
    atomic_uint *words = (atomic_uint *)(void *)mine.segment.bytes;
    struct ps_random random;
    ps_random_init(&random, 20260602);
    (void)argument;
    while (atomic_load(&scribbling)) {
        uint64_t number = ps_random_next(&random);
        /* Floats near 1, of every sign: always finite. */
        atomic_store_explicit(&words[(number >> 32) % COUNT],
                              (uint32_t)(number & 0x807fffff) | 0x3f800000, memory_order_relaxed);
    }
    return NULL;
}

/* Takes one record and applies it to `values` as a replay would. */
static void replay_into(float *values)
{
    static float content[COUNT];
    struct ps_record record;
    ck_assert_uint_eq(ps_service_journal_take(rig.service, &record, 1), 1);
    ck_assert_uint_eq(record.content.size, CONTENT_BYTES);
    ps_view_copy(record.content, 0, content, CONTENT_BYTES);
    ps_service_journal_written(rig.service, UINT64_MAX, PS_OK, NULL);
    for (size_t i = 0; i < COUNT; i++)
        values[i] -= content[i];
}

START_TEST(the_journal_gets_what_was_applied_whatever_the_client_does_meanwhile)
{
    static float zeros[COUNT], replayed[COUNT], values[COUNT];
    rig_start(&rig, &(struct rig_options){
                        .shared_memory_bytes = LIMIT_BYTES, .saves = true, .journals = true});
    struct ps_bytes start = {(const uint8_t *)zeros, sizeof zeros};
    call_expect(PS_METHOD_INIT, rig_init("w", PS_F32, start, (struct ps_bytes){NULL, 0}), "");
    rig_finish(&rig);
    learn_name();
    share(&mine, SEGMENT_BYTES);
    fill(0, 0);
    pthread_t thread;
    atomic_store(&scribbling, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, scribble, NULL), 0);

    for (uint64_t turn = 1; turn <= 300; turn++) {
        call_expect(PS_METHOD_PUSH, push_of(range_at(0), turn), "");
        replay_into(replayed);
    }

    atomic_store(&scribbling, false);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(pull_values(values), 300);
    ck_assert_int_eq(memcmp(values, replayed, sizeof values), 0);
    leave(&mine);
    rig_stop(&rig);
}
END_TEST

/* A replay looks for itself, too: it must see what was seen. */
START_TEST(a_server_that_keeps_a_journal_looks_for_itself)
{
    static const float zeros[COUNT];
    rig_start(&rig, &(struct rig_options){
                        .shared_memory_bytes = LIMIT_BYTES, .saves = true, .journals = true});
    struct ps_bytes start = {(const uint8_t *)zeros, sizeof zeros};
    call_expect(PS_METHOD_INIT, rig_init("w", PS_F32, start, (struct ps_bytes){NULL, 0}), "");
    rig_finish(&rig);
    learn_name();
    share(&mine, SEGMENT_BYTES);
    fill(0, 1);
    ((float *)(void *)mine.segment.bytes)[COUNT - 1] = 1.0f / 0.0f;
    call_expect(PS_METHOD_PUSH, push_of(range_at(0), 0), "bad_input");
    leave(&mine);
    rig_stop(&rig);
}
END_TEST

/* Indices that change after they were looked at would lead anywhere. */
START_TEST(encoded_content_is_judged_and_used_as_one_copy)
{
    enum { PAIRS = 1000 };
    static float values[COUNT];
    atomic_uint *indices = (atomic_uint *)(void *)mine.segment.bytes;
    pthread_t thread;
    uint64_t applied = 0;
    for (uint32_t i = 0; i < PAIRS; i++)
        indices[i] = i * 2;
    atomic_store(&scribbling, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, scribble, NULL), 0);
    for (uint64_t turn = 1; turn <= 300; turn++) {
        const struct ps_push_request fields = {.name = ps_bytes_of_text("w"),
                                               .dtype = PS_F32,
                                               .encoding = PS_ENCODING_TOP_K,
                                               .shared = {mine.number, 0, PAIRS * 8}};
        struct ps_buffer request;
        ps_buffer_init(&request, ps_allocator_heap(), 4096);
        ps_encode_push(&fields, &request);
        for (uint32_t i = 0; i < PAIRS; i++)
            atomic_store_explicit(&indices[i], i * 2, memory_order_relaxed);
        struct raw_answer answer = rig_call(&rig, PS_METHOD_PUSH, request);
        ck_assert(strcmp(answer.word, "") == 0 || strcmp(answer.word, "bad_input") == 0);
        applied += answer.code == PS_RPC_OK;
        raw_answer_release(&answer);
    }
    atomic_store(&scribbling, false);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(pull_values(values), applied);
    ps_service_check(rig.service);
}
END_TEST

/* Without a journal the values are whatever was read, but each push counts once. */
START_TEST(without_a_journal_a_scribbler_harms_only_the_values)
{
    static float values[COUNT];
    pthread_t thread;
    fill(0, 0);
    atomic_store(&scribbling, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, scribble, NULL), 0);
    for (uint64_t turn = 1; turn <= 300; turn++)
        call_expect(PS_METHOD_PUSH, push_of(range_at(0), turn), "");
    atomic_store(&scribbling, false);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(pull_values(values), 300);
    expect_each(i, COUNT, values[i] >= -600 && values[i] <= 600);
    ps_service_check(rig.service);
}
END_TEST

/* ---- Rows of a table ---- */

enum { ROWS = 16, WIDTH = 1500, ROW_CONTENT_BYTES = ROWS * (8 + WIDTH * 4) };

/* Of keys below ROWS, so that any key that was changed is refused. */
static void define_table(void)
{
    struct ps_optimizer_config config;
    struct ps_buffer bytes;
    ps_optimizer_config_defaults(&config);
    config.table = (struct ps_table_settings){
        .width = WIDTH, .partition = PS_TABLE_RANGE, .keys_max = ROWS, .chunk = 1};
    ps_buffer_init(&bytes, ps_allocator_heap(), 4096);
    ps_optimizer_config_encode(&config, &bytes);
    const struct ps_bytes encoded = {(const uint8_t *)bytes.text, bytes.size};
    call_expect(PS_METHOD_INIT, rig_init("t", PS_F32, (struct ps_bytes){NULL, 0}, encoded), "");
    ps_buffer_fini(&bytes);
}

/* Keys are 1 % of what the scribbler writes to: some pushes come through and some do not. */
static struct raw_answer push_rows(void)
{
    atomic_ullong *keys = (atomic_ullong *)(void *)mine.segment.bytes;
    const struct ps_push_request fields = {.name = ps_bytes_of_text("t"),
                                           .dtype = PS_F32,
                                           .encoding = PS_ENCODING_ROWS,
                                           .shared = {mine.number, 0, ROW_CONTENT_BYTES}};
    struct ps_buffer request;
    ps_buffer_init(&request, ps_allocator_heap(), 4096);
    ps_encode_push(&fields, &request);
    for (uint64_t i = 0; i < ROWS; i++)
        atomic_store_explicit(&keys[i], i, memory_order_relaxed);
    return rig_call(&rig, PS_METHOD_PUSH, request);
}

/* Not copied before it is read, and yet no key gets in that was not looked at. */
START_TEST(rows_are_judged_and_used_as_they_were_read)
{
    pthread_t thread;
    uint64_t applied = 0, refused = 0;
    rig_start(&rig, &(struct rig_options){.shared_memory_bytes = LIMIT_BYTES});
    define_table();
    rig_finish(&rig);
    learn_name();
    share(&mine, SEGMENT_BYTES);
    memset(mine.segment.bytes, 0, SEGMENT_BYTES);
    atomic_store(&scribbling, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, scribble, NULL), 0);
    for (int turn = 0; turn < 3000 || applied == 0; turn++) {
        struct raw_answer answer = push_rows();
        ck_assert_msg(strcmp(answer.word, "") == 0 || strcmp(answer.word, "out_of_range") == 0,
                      "%s", answer.word);
        applied += answer.code == PS_RPC_OK;
        refused += answer.code != PS_RPC_OK;
        raw_answer_release(&answer);
    }
    atomic_store(&scribbling, false);
    pthread_join(thread, NULL);
    printf("%llu pushes of rows applied, %llu refused\n", (unsigned long long)applied,
           (unsigned long long)refused);
    ps_service_count(rig.service);
    ck_assert_double_eq(rig_figure(&rig, "ps_table_rows"), ROWS);
    ck_assert_double_eq(rig_figure(&rig, "ps_shared_memory_copied_bytes_total"), 0);
    ps_service_check(rig.service);
    leave(&mine);
    rig_stop(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared_intruders");
    TCase *tests = tcase_create("tests");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, memory_that_could_hurt_is_not_taken);
    tcase_add_test(tests, words_that_are_no_hello_end_the_connection);
    tcase_add_test(tests, all_clients_together_share_no_more_than_the_limit);
    tcase_add_test(tests, there_is_room_for_so_many_clients_and_those_who_say_nothing_lose_it);
    tcase_add_test(tests, encoded_content_is_judged_and_used_as_one_copy);
    tcase_add_test(tests, without_a_journal_a_scribbler_harms_only_the_values);
    suite_add_tcase(suite, tests);
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, rows_are_judged_and_used_as_they_were_read);
    suite_add_tcase(suite, rows);
    TCase *journal = tcase_create("journal");
    tcase_add_test(journal, the_journal_gets_what_was_applied_whatever_the_client_does_meanwhile);
    tcase_add_test(journal, a_server_that_keeps_a_journal_looks_for_itself);
    suite_add_tcase(suite, journal);
    TCase *ends = tcase_create("ends");
    tcase_add_test(ends, the_server_hangs_up_when_no_call_uses_the_memory_any_more);
    suite_add_tcase(suite, ends);
    return run_suite(suite);
}
