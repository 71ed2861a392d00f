/* SPDX-License-Identifier: Apache-2.0 */
/* A shard on a device with many threads at work: small gradients, large ones that the device looks
 * at and some of which it refuses, readers, and snapshots in between; also with a ring in which one
 * of the large ones leaves no room for another, and without room for copies on the device. */
#include "base/thread.h"
#include "server/core/recovery/snapshot.h"
#include "tests/unit/core/core_device.h"

#include <math.h>
#include <string.h>

#define SMALL 100   /* elements: gathered */
#define LARGE 20011 /* looked at by the device, in two slots */
#define NARROW (((LARGE + 255) / 256) * sizeof(float) + LARGE) /* bytes of it: gathered again */
#define TRAINERS 4
#define ROUNDS 14
#define SNAPSHOTS 8

static struct core_device device;
static struct fake_clock fake;
static struct ps_clock world_clock;
static struct ps_service *service;

static struct ps_bytes of(const float *elements, bool large)
{
    return (struct ps_bytes){(const uint8_t *)elements, (large ? LARGE : SMALL) * sizeof(float)};
}

/* SGD with rate 1 and gradients of ones: whatever the version is, every element is minus that. */
/* So much, and there is no room for a copy of the large one. */
#define TIGHT (144u << 10)

static void begin(uint64_t slots, uint64_t budget)
{
    static float zeros[LARGE];
    struct ps_ticket ticket;
    core_device_open_ring(&device, budget, NULL, slots * (64u << 10));
    fake = (struct fake_clock){.now_ms = 1000};
    world_clock = fake_clock_clock(&fake);
    struct ps_service_options options = {.memory = ps_allocator_heap(),
                                         .clock = &world_clock,
                                         .device_store = &device.store,
                                         .journals = true,
                                         .saves = true};
    ck_assert_int_eq(ps_service_create(&options, &service, NULL), PS_OK);
    ps_service_own(service, 0, 1, 1, "");
    ps_service_prove(service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(service);
    for (int large = 0; large < 2; large++) {
        const struct ps_bytes piece = of(zeros, large);
        const struct ps_init_request request = {.name = text(large ? "large" : "small"),
                                                .dtype = PS_F32,
                                                .content = ps_view_of(&piece),
                                                .config = config_of("sgd", 1)};
        ck_assert_int_eq(ps_service_init(service, &request, NULL, NULL), PS_OK);
    }
    ck_assert_int_eq(ps_service_finish(service, NULL, &ticket, NULL), PS_OK);
    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 2);
}

static void end(void)
{
    ps_service_check(service);
    ps_service_destroy(service);
    core_device_close(&device);
}

static void expect_all(const float *values, size_t count, uint64_t version)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_float_eq(values[i], -(float)version);
}

/* ---- What the threads do ---- */

static enum ps_status push(const float *elements, bool large)
{
    struct ps_push_reply reply;
    struct ps_push_wait wait;
    const struct ps_bytes piece = of(elements, large);
    const struct ps_push_request request = {.name = text(large ? "large" : "small"),
                                            .dtype = PS_F32,
                                            .content = ps_view_of(&piece),
                                            .ack = PS_ACK_MEMORY};
    PS_TRY(ps_service_push(service, &request, &reply, &wait, NULL));
    return ps_device_store_wait(&device.store, wait.due, NULL);
}

/* Ones as well: every scale is 1, and so is every factor. */
static enum ps_status push_narrow(void)
{
    uint8_t content[NARROW];
    const size_t scales = NARROW - LARGE;
    const float one = 1;
    struct ps_push_reply reply;
    struct ps_push_wait wait;
    const struct ps_bytes piece = {content, sizeof content};
    const struct ps_push_request request = {.name = text("large"),
                                            .dtype = PS_F32,
                                            .encoding = PS_ENCODING_INT8,
                                            .content = ps_view_of(&piece),
                                            .ack = PS_ACK_MEMORY};
    for (size_t i = 0; i < scales; i += sizeof one)
        memcpy(content + i, &one, sizeof one);
    memset(content + scales, 1, LARGE);
    PS_TRY(ps_service_push(service, &request, &reply, &wait, NULL));
    return reply.version % 2 == 0 ? PS_OK : ps_device_store_wait(&device.store, wait.due, NULL);
}

static void pull(bool large)
{
    float values[SMALL];
    struct ps_pull pull = {0};
    const struct ps_pull_request request = {.name = text(large ? "large" : "small")};
    ck_assert_int_eq(ps_service_pull(service, &request, &pull, NULL), PS_OK);
    ps_view_copy(pull.reply.content, pull.reply.content.size - sizeof values, values,
                 sizeof values);
    expect_all(values, SMALL, pull.reply.version);
    ps_pull_release(&pull);
}

/* Every third large gradient is not finite. */
static void train(void *argument)
{
    float *elements = argument;
    ps_service_enter_thread();
    for (size_t i = 0; i < LARGE; i++)
        elements[i] = 1;
    for (size_t i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(push(elements, false), PS_OK);
        elements[LARGE - 1 - i] = i % 3 == 0 ? NAN : 1;
        ck_assert_int_eq(push(elements, true), i % 3 == 0 ? PS_ERR_BAD_INPUT : PS_OK);
        elements[LARGE - 1 - i] = 1;
        ck_assert_int_eq(push_narrow(), PS_OK);
        pull(i % 2 == 0);
    }
}

static void save(void *argument)
{
    static float values[LARGE];
    (void)argument;
    for (size_t i = 0; i < SNAPSHOTS; i++) {
        struct ps_snapshot snapshot;
        struct ps_error error = {0};
        uint64_t versions = 0;
        enum ps_status status = ps_snapshot_take(service, &snapshot, &error);
        ck_assert_msg(status == PS_OK, "%s", error.text);
        for (size_t j = 0; j < snapshot.parameter_count; j++) {
            const struct ps_checkpoint_parameter *row = &snapshot.parameters[j];
            ck_assert_int_eq(row->source.read(row->source.self, 0, 0, values,
                                              (size_t)row->count * sizeof(float), NULL),
                             PS_OK);
            expect_all(values, (size_t)row->count, row->version);
            versions += row->version;
        }
        ck_assert_uint_eq(versions, snapshot.facts.position);
        ps_snapshot_release(&snapshot);
    }
}

START_TEST(whoever_looks_sees_whole_versions_and_no_refused_gradient)
{
    static float elements[TRAINERS][LARGE];
    struct ps_thread trainers[TRAINERS] = {0};
    struct ps_thread saver = {0};
    begin(_i % 2 == 0 ? 8 : 4, _i < 2 ? 0 : TIGHT);

    for (size_t i = 0; i < TRAINERS; i++)
        ck_assert_int_eq(ps_thread_start(&trainers[i], "trainer", train, elements[i], NULL), PS_OK);
    ck_assert_int_eq(ps_thread_start(&saver, "saver", save, NULL, NULL), PS_OK);
    for (size_t i = 0; i < TRAINERS; i++)
        ps_thread_join(&trainers[i]);
    ps_thread_join(&saver);

    struct ps_pull pull = {0};
    const struct ps_pull_request request = {.name = text("large")};
    uint64_t position = 0;
    uint64_t durable = 0;
    uint64_t refused = TRAINERS * ((ROUNDS + 2) / 3);
    ps_service_positions(service, &position, &durable);
    ck_assert_uint_eq(position, 3 * TRAINERS * ROUNDS - refused);
    ck_assert_int_eq(ps_service_pull(service, &request, &pull, NULL), PS_OK);
    ck_assert_uint_eq(pull.reply.version, 2 * TRAINERS * ROUNDS - refused);
    ps_pull_release(&pull);
    ck_assert_uint_eq(core_device_stats(&device).snapshot_count, 0);
    ck_assert_uint_eq(core_device_stats(&device).streamed_count, _i < 2 ? 0 : SNAPSHOTS);
    end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("device_threads");
    tcase_set_timeout(tests, 100);
    tcase_add_loop_test(tests, whoever_looks_sees_whole_versions_and_no_refused_gradient, 0, 4);
    return run_tests("device_threads", tests);
}
