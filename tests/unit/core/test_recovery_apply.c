/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_apply.c: replayed bits are those of the run that never stopped, and
 * records that do not fit are refused. */
#include "base/thread.h"
#include "core_crash.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/snapshot.h"
#include "tests/unit/core/core_encoded.h"
#include "tests/unit/core/core_kinds.h"

#include <string.h>

/* Pushes three gradients to "p", as client "client" in session 1. */
static void push_three(const struct kind *kind, uint64_t first)
{
    static uint64_t elements[ELEMENTS];
    for (uint64_t i = first; i < first + 3; i++) {
        struct ps_bytes piece = {(const uint8_t *)elements,
                                 make_elements(kind->dtype, i, elements)};
        struct ps_push_request request = {
            .name = text("p"),
            .dtype = gradient_of(kind),
            .content = ps_view_of(&piece),
            .request = {.present = true, .client_id = text("client"), .session = 1, .sequence = i}};
        struct ps_push_reply reply;
        ck_assert_int_eq(ps_service_push(before.service, &request, &reply, NULL, &before.error),
                         PS_OK);
        ck_assert_int_eq(disk_write_journal(&before, writer, 2), PS_OK);
    }
}

static void init_kind(const struct kind *kind)
{
    static uint64_t elements[ELEMENTS];
    size_t size = make_elements(kind->dtype, 99, elements);
    ck_assert_int_eq(world_init_param(&before, "p", kind->dtype, elements, size, kind_config(kind)),
                     PS_OK);
    ck_assert_int_eq(world_finish(&before), PS_OK);
}

START_TEST(p5_a_checkpoint_and_its_journal_give_the_original_bits)
{
    const struct kind *kind = &kinds[_i];
    init_kind(kind);
    push_three(kind, 1);
    disk_save(&before, disk, NULL);
    push_three(kind, 4);
    push_three(kind, 7);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    ck_assert_int_eq(disk_recover(&after, disk, 2, &writer_after, &loaded), PS_OK);

    ck_assert_uint_eq(loaded.place.position, 3);
    ck_assert_uint_eq(loaded.position, 9);
    ck_assert_uint_eq(loaded.replayed_count, 6);
    ck_assert_uint_eq(loaded.epoch, 1);
    disk_expect_equal(&before, &after);
}
END_TEST

/* The journal has the bytes that came, and they are decoded again. */
static void push_encoded(const struct kind *kind, enum ps_encoding encoding)
{
    static struct encoded encoded;
    encoded_make(&encoded, encoding, kind->dtype, ELEMENTS, 50, (uint64_t)encoding);
    struct ps_push_request request = {.name = text("p"),
                                      .dtype = kind->dtype,
                                      .encoding = encoding,
                                      .content = encoded_whole(&encoded).content};
    struct ps_push_reply reply;
    ck_assert_int_eq(ps_service_push(before.service, &request, &reply, NULL, &before.error), PS_OK);
    ck_assert_int_eq(disk_write_journal(&before, writer, 2), PS_OK);
}

START_TEST(p5_encoded_pushes_are_replayed_to_the_same_bits)
{
    const struct kind *kind = &kinds[_i];
    if (!ps_dtype_is_float(kind->dtype))
        return;
    init_kind(kind);
    disk_save(&before, disk, NULL);
    for (enum ps_encoding encoding = 0; encoding < PS_ENCODING_COUNT; encoding++)
        push_encoded(kind, encoding);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    ck_assert_int_eq(disk_recover(&after, disk, 2, &writer_after, &loaded), PS_OK);

    ck_assert_uint_eq(loaded.replayed_count, PS_ENCODING_COUNT);
    disk_expect_equal(&before, &after);
}
END_TEST

START_TEST(p5_skipped_pushes_are_replayed_as_skipped)
{
    const float start[] = {1, 2};
    const float good[] = {1, 1};
    float bad[] = {1, 0};
    bad[1] /= bad[1] - bad[1];
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    config.nonfinite = 1;
    ck_assert_int_eq(
        world_init_param(&before, "p", PS_F32, start, sizeof start, config_bytes(&config)), PS_OK);
    ck_assert_int_eq(world_finish(&before), PS_OK);
    disk_save(&before, disk, NULL);
    ck_assert_int_eq(world_push(&before, "p", PS_F32, good, sizeof good, NULL), PS_OK);
    ck_assert_int_eq(world_push(&before, "p", PS_F32, bad, sizeof bad, NULL), PS_OK);
    ck_assert_int_eq(world_push(&before, "p", PS_F32, good, sizeof good, NULL), PS_OK);
    ck_assert_int_eq(disk_write_journal(&before, writer, 8), PS_OK);

    ck_assert_int_eq(disk_recover(&after, disk, 2, &writer_after, &loaded), PS_OK);

    ck_assert_uint_eq(loaded.position, 3);
    disk_expect_equal(&before, &after);
}
END_TEST

START_TEST(p2_repeats_are_known_after_replay)
{
    struct ps_push_reply reply;
    init_kind(&kinds[0]);
    disk_save(&before, disk, NULL);
    push_three(&kinds[0], 1);
    ck_assert_int_eq(disk_recover(&after, disk, 2, &writer_after, &loaded), PS_OK);

    static uint64_t elements[ELEMENTS];
    struct ps_bytes piece = {(const uint8_t *)elements, make_elements(kinds[0].dtype, 2, elements)};
    struct ps_push_request request = {
        .name = text("p"),
        .dtype = kinds[0].dtype,
        .content = ps_view_of(&piece),
        .request = {.present = true, .client_id = text("client"), .session = 1, .sequence = 2}};
    struct ps_push_wait wait;
    ck_assert_int_eq(ps_service_push(after.service, &request, &reply, &wait, &after.error), PS_OK);

    ck_assert(reply.duplicate);
    ck_assert_uint_eq(reply.version, 2);
    ck_assert_uint_eq(reply.position, 2);
    ck_assert_int_eq(ps_service_acknowledge(after.service, &wait, &reply, &after.error), PS_OK);
    disk_expect_equal(&before, &after);
}
END_TEST

START_TEST(p2_repeats_of_init_and_finish_are_known_after_a_restart)
{
    const float values[] = {1, 2};
    struct ps_bytes piece = {(const uint8_t *)values, sizeof values};
    struct ps_init_request init = {
        .name = text("p"),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .request = {.present = true, .client_id = text("client"), .session = 1, .sequence = 1}};
    const struct ps_finish_request finish = {
        .request = {.present = true, .client_id = text("client"), .session = 1, .sequence = 2}};
    struct ps_ticket ticket;
    ck_assert_int_eq(ps_service_init(before.service, &init, NULL, NULL), PS_OK);
    ck_assert_int_eq(ps_service_finish(before.service, &finish, &ticket, NULL), PS_OK);
    disk_save(&before, disk, NULL);

    ck_assert_int_eq(disk_recover(&after, disk, 2, &writer_after, &loaded), PS_OK);

    ck_assert_int_eq(ps_service_init(after.service, &init, NULL, NULL), PS_OK);
    ck_assert_int_eq(ps_service_finish(after.service, &finish, &ticket, NULL), PS_OK);
    ck_assert(ps_service_satisfied(after.service, ticket));
    init.request.sequence = 3;
    ck_assert_int_eq(ps_service_init(after.service, &init, NULL, NULL), PS_ERR_EXISTS);
}
END_TEST

START_TEST(calls_are_refused_while_recovering)
{
    struct ps_push_reply reply;
    struct ps_pull pull;
    struct ps_pull_request pull_request = {.name = text("p")};
    init_kind(&kinds[0]);
    disk_save(&before, disk, NULL);
    ck_assert_int_eq(disk_load_only(&after, disk, NULL, &loaded), PS_OK);

    ck_assert_str_eq(ps_service_state_name(after.service), "recovering");
    ck_assert(!ps_service_is_serving(after.service));
    ck_assert_int_eq(world_push_as(&after, "p", 1, 1, &reply), PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(after.error.text, "recovering"));
    ck_assert_int_eq(ps_service_pull(after.service, &pull_request, &pull, NULL),
                     PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(world_finish(&after), PS_ERR_UNAVAILABLE);
    struct ps_snapshot snapshot;
    ck_assert_int_eq(ps_snapshot_take(after.service, &snapshot, NULL), PS_ERR_NOT_READY);
    ps_service_check(after.service);

    ps_recovery_finish(after.service, 0);
    ck_assert_str_eq(ps_service_state_name(after.service), "ready");
}
END_TEST

START_TEST(a_recovery_that_is_given_up_leaves_nothing)
{
    init_kind(&kinds[0]);
    push_three(&kinds[0], 1);
    disk_save(&before, disk, NULL);
    ck_assert_int_eq(disk_load_only(&after, disk, NULL, &loaded), PS_OK);

    ps_service_give_up_recovery(after.service);

    ps_service_check(after.service);
    ck_assert_str_eq(ps_service_state_name(after.service), "starting");
    ck_assert_int_eq(disk_recover(&after, disk, 2, &writer_after, &loaded), PS_OK);
    disk_expect_equal(&before, &after);
}
END_TEST

/* ---- Records that do not fit ---- */

struct misfit {
    const char *name;
    enum ps_dtype dtype;
    size_t elements;
    uint64_t version;
    const char *client;
    uint64_t sequence;
    int type;
    enum ps_status status;
    const char *words;
    enum ps_encoding encoding;
};
static const struct misfit misfits[] = {
    {"q", PS_F32, 4, 1, "", 0, PS_RECORD_PUSH, PS_ERR_CORRUPT, "does not exist",
     PS_ENCODING_NATIVE},
    {"w", PS_F64, 2, 1, "", 0, PS_RECORD_PUSH, PS_ERR_CORRUPT, "type not match",
     PS_ENCODING_NATIVE},
    {"w", PS_F32, 3, 1, "", 0, PS_RECORD_PUSH, PS_ERR_CORRUPT, "content len", PS_ENCODING_NATIVE},
    {"w", PS_F32, 4, 0, "", 0, PS_RECORD_PUSH, PS_ERR_CORRUPT, "version", PS_ENCODING_NATIVE},
    {"w", PS_F32, 4, 2, "", 0, PS_RECORD_PUSH, PS_ERR_CORRUPT, "version", PS_ENCODING_NATIVE},
    {"w", PS_F32, 4, 1, "c", 0, PS_RECORD_PUSH, PS_ERR_CORRUPT, "client id", PS_ENCODING_NATIVE},
    {"w", PS_F32, 4, 1, "", 0, PS_RECORD_PUSH, PS_ERR_CORRUPT, "not 16", PS_ENCODING_INT8},
    {"w", PS_F32, 4, 1, "", 0, PS_RECORD_PUSH, PS_ERR_CORRUPT, "index", PS_ENCODING_TOP_K},
    {"w", PS_F32, 4, 1, "", 0, 77, PS_ERR_UNSUPPORTED, "type 77", PS_ENCODING_NATIVE},
};

static void load_w(void)
{
    const float values[] = {1, 2, 3, 4};
    ck_assert_int_eq(
        world_init_param(&before, "w", PS_F32, values, sizeof values, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(world_finish(&before), PS_OK);
    disk_save(&before, disk, NULL);
    ck_assert_int_eq(disk_load_only(&after, disk, NULL, &loaded), PS_OK);
}

START_TEST(a_record_that_does_not_fit_is_refused)
{
    const struct misfit *misfit = &misfits[_i];
    const float ones[] = {1, 1, 1, 1};
    struct ps_bytes piece = {(const uint8_t *)ones,
                             misfit->elements * ps_dtype_size(misfit->dtype)};
    const struct ps_record record = {.type = (enum ps_record_type)misfit->type,
                                     .position = 1,
                                     .epoch = 1,
                                     .name = text(misfit->name),
                                     .dtype = misfit->dtype,
                                     .encoding = misfit->encoding,
                                     .version = misfit->version,
                                     .client_id = text(misfit->client),
                                     .session = 1,
                                     .sequence = misfit->sequence,
                                     .content = ps_view_of(&piece)};
    load_w();

    enum ps_status status = ps_recovery_apply(after.service, &record, &after.error);

    ck_assert_int_eq(status, misfit->status);
    ck_assert_ptr_nonnull(strstr(after.error.text, misfit->words));
    ck_assert_ptr_nonnull(strstr(after.error.text, "position 1"));
    ps_service_give_up_recovery(after.service);
}
END_TEST

START_TEST(a_record_with_an_element_that_was_never_taken_is_corrupt)
{
    float ones[] = {1, 1, 0, 1};
    ones[2] /= ones[2];
    struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
    const struct ps_record record = {.type = PS_RECORD_PUSH,
                                     .position = 1,
                                     .name = text("w"),
                                     .dtype = PS_F32,
                                     .version = 1,
                                     .content = ps_view_of(&piece)};
    load_w();

    ck_assert_int_eq(ps_recovery_apply(after.service, &record, &after.error), PS_ERR_CORRUPT);

    ps_service_check(after.service);
}
END_TEST

/* ---- A sink that applies later, in another order among parameters ---- */

#define ROWS_MAX 16
static struct {
    struct ps_journal_row rows[ROWS_MAX];
    size_t count;
    size_t finished;
} later;

static enum ps_status put_later(void *self, struct ps_journal_row *row, struct ps_error *error)
{
    (void)self;
    if (later.count == ROWS_MAX)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no more rows");
    ps_journal_row_move(&later.rows[later.count++], row);
    return PS_OK;
}

static enum ps_status apply_one_name(const char *name, struct ps_error *error)
{
    for (size_t i = 0; i < later.count; i++)
        if (ps_bytes_equal(later.rows[i].record.name, text(name)))
            PS_TRY(ps_recovery_apply(after.service, &later.rows[i].record, error));
    return PS_OK;
}

static enum ps_status finish_later(void *self, struct ps_error *error)
{
    (void)self;
    later.finished++;
    enum ps_status status = apply_one_name("b", error);
    if (status == PS_OK)
        status = apply_one_name("a", error);
    for (size_t i = 0; i < later.count; i++)
        ps_journal_row_release(&later.rows[i]);
    later.count = 0;
    return status;
}

static const struct ps_replay_sink sink = {put_later, finish_later, NULL};

static void push_to_both(int count)
{
    const float ones[] = {1, 1};
    const char *const names[] = {"a", "b"};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            world_init_param(&before, names[i], PS_F32, ones, sizeof ones, config_of("adam", 0.1)),
            PS_OK);
    ck_assert_int_eq(world_finish(&before), PS_OK);
    disk_save(&before, disk, NULL);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(world_push(&before, names[i % 2], PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_int_eq(disk_write_journal(&before, writer, 8), PS_OK);
}

START_TEST(p5_the_order_among_parameters_does_not_matter)
{
    push_to_both(10);

    ck_assert_int_eq(disk_load_only(&after, disk, &sink, &loaded), PS_OK);

    ck_assert_uint_eq(later.finished, 1);
    ps_recovery_finish(after.service, loaded.position);
    disk_expect_equal(&before, &after);
}
END_TEST

START_TEST(a_sink_that_fails_is_finished_and_nothing_is_left)
{
    push_to_both(ROWS_MAX + 1);

    ck_assert_int_eq(disk_load_only(&after, disk, &sink, &loaded), PS_ERR_NO_MEMORY);

    ck_assert_str_eq(after.error.text, "no more rows");
    ck_assert_uint_eq(later.finished, 1);
    ck_assert_str_eq(ps_service_state_name(after.service), "starting");
    ps_service_check(after.service);
}
END_TEST

static void apply_a(void *error)
{
    ps_service_enter_thread();
    ck_assert_int_eq(apply_one_name("a", error), PS_OK);
}

static void apply_b(void *error)
{
    ps_service_enter_thread();
    ck_assert_int_eq(apply_one_name("b", error), PS_OK);
}

static enum ps_status finish_in_threads(void *self, struct ps_error *error)
{
    (void)self;
    (void)error;
    struct ps_thread threads[2] = {0};
    struct ps_error errors[2] = {0};
    ck_assert_int_eq(ps_thread_start(&threads[0], "a", apply_a, &errors[0], NULL), PS_OK);
    ck_assert_int_eq(ps_thread_start(&threads[1], "b", apply_b, &errors[1], NULL), PS_OK);
    for (size_t i = 0; i < 2; i++)
        ps_thread_join(&threads[i]);
    for (size_t i = 0; i < later.count; i++)
        ps_journal_row_release(&later.rows[i]);
    later.count = 0;
    return PS_OK;
}

START_TEST(p5_parameters_may_be_replayed_by_threads)
{
    const struct ps_replay_sink threaded = {put_later, finish_in_threads, NULL};
    push_to_both(ROWS_MAX);

    ck_assert_int_eq(disk_load_only(&after, disk, &threaded, &loaded), PS_OK);

    ck_assert_uint_eq(loaded.replayed_count, ROWS_MAX);
    ps_recovery_finish(after.service, loaded.position);
    disk_expect_equal(&before, &after);
}
END_TEST

/* ---- Refused allocations ---- */

START_TEST(recovery_survives_any_refused_allocation)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    init_kind(&kinds[0]);
    push_three(&kinds[0], 1);
    disk_save(&before, disk, NULL);
    push_three(&kinds[0], 4);
    int64_t live = after.heap.live;

    for (int64_t refuse = 0; status != PS_OK; refuse++) {
        ck_assert_int_lt(refuse, 500);
        ck_assert_int_eq(after.heap.live, live);
        after.heap.refuse_at = after.heap.seen + refuse;
        status = disk_load_only(&after, disk, NULL, &loaded);
        after.heap.refuse_at = -1;
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        ps_service_check(after.service);
    }

    ps_recovery_finish(after.service, loaded.position);
    disk_expect_equal(&before, &after);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("replay");
    tcase_add_checked_fixture(tests, crash_begin, crash_end);
    tcase_add_loop_test(tests, p5_a_checkpoint_and_its_journal_give_the_original_bits, 0,
                        KIND_COUNT);
    tcase_add_loop_test(tests, p5_encoded_pushes_are_replayed_to_the_same_bits, 0, KIND_COUNT);
    tcase_add_test(tests, p5_skipped_pushes_are_replayed_as_skipped);
    tcase_add_test(tests, p2_repeats_are_known_after_replay);
    tcase_add_test(tests, p2_repeats_of_init_and_finish_are_known_after_a_restart);
    tcase_add_test(tests, calls_are_refused_while_recovering);
    tcase_add_test(tests, a_recovery_that_is_given_up_leaves_nothing);
    tcase_add_loop_test(tests, a_record_that_does_not_fit_is_refused, 0,
                        (int)PS_ARRAY_COUNT(misfits));
    tcase_add_test(tests, a_record_with_an_element_that_was_never_taken_is_corrupt);
    tcase_add_test(tests, p5_the_order_among_parameters_does_not_matter);
    tcase_add_test(tests, p5_parameters_may_be_replayed_by_threads);
    tcase_add_test(tests, a_sink_that_fails_is_finished_and_nothing_is_left);
    tcase_add_test(tests, recovery_survives_any_refused_allocation);
    return run_tests("replay", tests);
}
