/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes and initialisations in ranges beside whole ones: what an id stands for, what is left of it
 * when the other came first, and what a claimed length may keep others from. */
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

#include <semaphore.h>
#include <string.h>

/* Three ranges of the smallest size. */
enum { PART = PS_STAGING_PART_BYTES / 4, COUNT = 3 * PART };

static float values[COUNT];
static struct core_world world;
static bool is_overtaken; /* the next range: by the whole, just before it is staged */

static void begin(uint64_t memory_bytes)
{
    struct ps_service_options options = {.bytes_max = memory_bytes, .staging_bytes = 1 << 20};
    is_overtaken = false;
    for (size_t i = 0; i < COUNT; i++)
        values[i] = 1;
    world_init_with(&world, &options);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
}

static void make(const char *name)
{
    ck_assert_int_eq(
        world_init_param(&world, name, PS_F32, values, sizeof values, config_of("sgd", 1)), PS_OK);
}

static void begin_ready(void)
{
    begin(0);
    make("w");
    make("v");
    ck_assert_int_eq(world_finish(&world), PS_OK);
}

static struct ps_request_id id_of(const char *client)
{
    return (struct ps_request_id){
        .present = true, .client_id = text(client), .session = 1, .sequence = 1};
}

/* `count` elements from `first` on; count 0: all. */
static enum ps_status push_bare(const char *name, uint64_t first, uint64_t count)
{
    uint64_t present = count > 0 ? count : COUNT;
    struct ps_bytes piece = {(const uint8_t *)(values + first), present * sizeof(float)};
    const struct ps_push_request request = {.name = text(name),
                                            .dtype = PS_F32,
                                            .content = ps_view_of(&piece),
                                            .range = {first, count},
                                            .request = id_of("a")};
    return ps_service_push(world.service, &request, &world.reply, &world.wait, &world.error);
}

static enum ps_status push(const char *name, uint64_t first, uint64_t count)
{
    enum ps_status status = push_bare(name, first, count);
    ps_service_check(world.service);
    return status;
}

static enum ps_status init_part(const char *client, const char *name, uint64_t total)
{
    struct ps_bytes piece = {(const uint8_t *)values, PART * sizeof(float)};
    const struct ps_init_request request = {.name = text(name),
                                            .dtype = PS_F32,
                                            .content = ps_view_of(&piece),
                                            .total = total,
                                            .range = {0, PART},
                                            .request = id_of(client)};
    return ps_service_init(world.service, &request, NULL, &world.error);
}

/* The linker calls these for the ones of the core. */
enum ps_status __real_ps_staging_add(struct ps_staging *staging, const struct ps_part *part,
                                     uint64_t now_ms, struct ps_added *added,
                                     struct ps_error *error);
enum ps_status __wrap_ps_staging_add(struct ps_staging *staging, const struct ps_part *part,
                                     uint64_t now_ms, struct ps_added *added,
                                     struct ps_error *error);

static void overtake(void *unused)
{
    (void)unused;
    ps_service_enter_thread();
    ck_assert_int_eq(push_bare("w", 0, 0), PS_OK);
}

enum ps_status __wrap_ps_staging_add(struct ps_staging *staging, const struct ps_part *part,
                                     uint64_t now_ms, struct ps_added *added,
                                     struct ps_error *error)
{
    struct ps_thread other;
    if (is_overtaken) {
        is_overtaken = false;
        ck_assert_int_eq(ps_thread_start(&other, "other", overtake, NULL, NULL), PS_OK);
        ps_thread_join(&other);
    }
    return __real_ps_staging_add(staging, part, now_ms, added, error);
}

START_TEST(a_range_of_what_was_applied_meanwhile_leaves_nothing_staged)
{
    begin_ready();
    is_overtaken = true;

    ck_assert_int_eq(push("w", PART, PART), PS_OK);

    ck_assert(world.reply.duplicate && !world.reply.staged);
    ck_assert_uint_eq(world.reply.version, 1);
    ck_assert_uint_eq(world.service->staging.count, 0);
    ck_assert_uint_eq(world.service->staging.bytes, 0);
    world_fini(&world);
}
END_TEST

/* The whole push has looked at the staging and not begun its session; then the range asks whether
 * the request was applied; then the whole push commits; then the range is let in. */
static sem_t whole_has_looked, range_has_asked, whole_has_committed;
static bool is_racing;

enum ps_status __real_ps_sessions_begin(struct ps_sessions *sessions,
                                        const struct ps_request_id *request, uint32_t fingerprint,
                                        uint64_t now_us, struct ps_session_call *call,
                                        struct ps_error *error);
enum ps_status __wrap_ps_sessions_begin(struct ps_sessions *sessions,
                                        const struct ps_request_id *request, uint32_t fingerprint,
                                        uint64_t now_us, struct ps_session_call *call,
                                        struct ps_error *error);
enum ps_status __real_ps_sessions_look(struct ps_sessions *sessions,
                                       const struct ps_request_id *request, uint32_t fingerprint,
                                       uint64_t now_us, bool *is_repeat,
                                       struct ps_session_answer *answer, struct ps_error *error);
enum ps_status __wrap_ps_sessions_look(struct ps_sessions *sessions,
                                       const struct ps_request_id *request, uint32_t fingerprint,
                                       uint64_t now_us, bool *is_repeat,
                                       struct ps_session_answer *answer, struct ps_error *error);
void __real_ps_sessions_commit(struct ps_sessions *sessions, struct ps_session_call *call,
                               struct ps_session_answer answer);
void __wrap_ps_sessions_commit(struct ps_sessions *sessions, struct ps_session_call *call,
                               struct ps_session_answer answer);

enum ps_status __wrap_ps_sessions_begin(struct ps_sessions *sessions,
                                        const struct ps_request_id *request, uint32_t fingerprint,
                                        uint64_t now_us, struct ps_session_call *call,
                                        struct ps_error *error)
{
    if (is_racing) {
        sem_post(&whole_has_looked);
        sem_wait(&range_has_asked);
    }
    return __real_ps_sessions_begin(sessions, request, fingerprint, now_us, call, error);
}

enum ps_status __wrap_ps_sessions_look(struct ps_sessions *sessions,
                                       const struct ps_request_id *request, uint32_t fingerprint,
                                       uint64_t now_us, bool *is_repeat,
                                       struct ps_session_answer *answer, struct ps_error *error)
{
    enum ps_status status =
        __real_ps_sessions_look(sessions, request, fingerprint, now_us, is_repeat, answer, error);
    if (is_racing) {
        sem_post(&range_has_asked);
        sem_wait(&whole_has_committed);
    }
    return status;
}

void __wrap_ps_sessions_commit(struct ps_sessions *sessions, struct ps_session_call *call,
                               struct ps_session_answer answer)
{
    __real_ps_sessions_commit(sessions, call, answer);
    if (is_racing)
        sem_post(&whole_has_committed);
}

START_TEST(a_range_that_asked_just_before_the_whole_was_applied_leaves_nothing_staged)
{
    struct ps_thread whole;
    begin_ready();
    ck_assert_int_eq(sem_init(&whole_has_looked, 0, 0), 0);
    ck_assert_int_eq(sem_init(&range_has_asked, 0, 0), 0);
    ck_assert_int_eq(sem_init(&whole_has_committed, 0, 0), 0);
    is_racing = true;
    ck_assert_int_eq(ps_thread_start(&whole, "whole", overtake, NULL, NULL), PS_OK);
    sem_wait(&whole_has_looked);

    struct ps_bytes piece = {(const uint8_t *)values, PART * sizeof(float)};
    const struct ps_push_request request = {.name = text("w"),
                                            .dtype = PS_F32,
                                            .content = ps_view_of(&piece),
                                            .range = {0, PART},
                                            .request = id_of("a")};
    struct ps_push_reply reply;
    ck_assert_int_eq(ps_service_push(world.service, &request, &reply, NULL, NULL), PS_OK);

    ck_assert(reply.staged);
    ps_thread_join(&whole);
    is_racing = false;
    ck_assert_uint_eq(world.service->staging.count, 0);
    ck_assert_uint_eq(world.service->staging.bytes, 0);
    ck_assert_int_eq(push("w", 0, PART), PS_OK);
    ck_assert(world.reply.duplicate);
    world_fini(&world);
}
END_TEST

START_TEST(a_whole_push_under_the_id_of_anothers_ranges_is_refused)
{
    begin_ready();
    ck_assert_int_eq(push("w", 0, PART), PS_OK);

    ck_assert_int_eq(push("v", 0, 0), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(world.error.text, "Name: v"));
    ck_assert_ptr_nonnull(strstr(world.error.text, "ranges of w"));
    /* What was begun is not disturbed. */
    ck_assert_int_eq(push("w", PART, PART), PS_OK);
    ck_assert(world.reply.staged);
    ck_assert_int_eq(push("w", 2 * PART, PART), PS_OK);
    ck_assert(!world.reply.staged && !world.reply.duplicate);
    world_fini(&world);
}
END_TEST

START_TEST(a_push_that_comes_whole_after_all_takes_the_place_of_its_ranges)
{
    begin_ready();
    ck_assert_int_eq(push("w", 0, PART), PS_OK);

    ck_assert_int_eq(push("w", 0, 0), PS_OK);

    ck_assert(!world.reply.duplicate);
    ck_assert_uint_eq(world.service->staging.count, 0);
    ck_assert_int_eq(push("w", PART, PART), PS_OK);
    ck_assert(world.reply.duplicate);
    world_fini(&world);
}
END_TEST

START_TEST(a_whole_parameter_under_the_id_of_anothers_ranges_is_refused)
{
    struct ps_bytes piece = {(const uint8_t *)values, sizeof values};
    const struct ps_init_request whole = {
        .name = text("v"), .dtype = PS_F32, .content = ps_view_of(&piece), .request = id_of("a")};
    begin(0);
    ck_assert_int_eq(init_part("a", "w", COUNT), PS_OK);

    ck_assert_int_eq(ps_service_init(world.service, &whole, NULL, &world.error), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(world.error.text, "Name: v"));
    ck_assert_ptr_nonnull(strstr(world.error.text, "ranges of w"));
    world_fini(&world);
}
END_TEST

START_TEST(a_parameter_that_does_not_fit_beside_the_others_is_refused_at_its_first_range)
{
    begin(2 * sizeof values);
    make("w");

    ck_assert_int_eq(init_part("a", "v", 2 * COUNT), PS_ERR_BUSY);

    ck_assert_ptr_nonnull(
        strstr(world.error.text, "memory limit: 393216 bytes needed, 196608 used"));
    ck_assert_uint_eq(world.service->staging.count, 0);
    ck_assert_int_eq(init_part("a", "v", COUNT), PS_OK);
    ck_assert_int_eq(init_part("b", "w", 2 * COUNT), PS_OK); /* takes the place of w */
    world_fini(&world);
}
END_TEST

/* Without a limit nobody knows that it is too much. */
START_TEST(a_claimed_length_keeps_nobody_from_initialising)
{
    begin(0);
    ck_assert_int_eq(init_part("liar", "w", (uint64_t)1 << 50), PS_OK);

    ck_assert_int_eq(init_part("a", "v", COUNT), PS_OK);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("push_staged");
    tcase_add_test(t, a_range_of_what_was_applied_meanwhile_leaves_nothing_staged);
    tcase_add_test(t, a_range_that_asked_just_before_the_whole_was_applied_leaves_nothing_staged);
    tcase_add_test(t, a_whole_push_under_the_id_of_anothers_ranges_is_refused);
    tcase_add_test(t, a_push_that_comes_whole_after_all_takes_the_place_of_its_ranges);
    tcase_add_test(t, a_whole_parameter_under_the_id_of_anothers_ranges_is_refused);
    tcase_add_test(t,
                   a_parameter_that_does_not_fit_beside_the_others_is_refused_at_its_first_range);
    tcase_add_test(t, a_claimed_length_keeps_nobody_from_initialising);
    return run_tests("push_staged", t);
}
