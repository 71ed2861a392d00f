/* SPDX-License-Identifier: Apache-2.0 */
/* A shard in a test. */
#include "tests/unit/core/core_world.h"

#include "base/buffer.h"
#include "expect_each.h"
#include "run_suite.h"

#include <stdlib.h>
#include <string.h>

static void count_changed(void *self, uint64_t topics)
{
    struct core_world *world = self;
    world->changed_count++;
    world->topics |= topics;
}

static void count_wanted(void *self)
{
    struct core_world *world = self;
    world->wanted_count++;
}

static void count_journal_wanted(void *self)
{
    struct core_world *world = self;
    world->journal_wanted_count++;
}

void world_init_with(struct core_world *world, struct ps_service_options *options)
{
    *world = (struct core_world){.heap.refuse_at = -1, .fake.now_ms = 1000};
    world->memory = fault_heap_allocator(&world->heap);
    world->clock = fake_clock_clock(&world->fake);
    options->memory = &world->memory;
    options->clock = &world->clock;
    options->device = "cpu";
    options->job = "test";
    ck_assert_int_eq(ps_service_create(options, &world->service, NULL), PS_OK);
    struct ps_service_listener listener = {.changed = count_changed,
                                           .checkpoint_wanted = count_wanted,
                                           .journal_wanted = count_journal_wanted,
                                           .self = world};
    ps_service_listen(world->service, &listener);
}

void world_init(struct core_world *world, bool saves, uint64_t bytes_max)
{
    struct ps_service_options options = {.bytes_max = bytes_max, .saves = saves};
    world_init_with(world, &options);
}

void world_init_journal_only(struct core_world *world)
{
    struct ps_service_options options = {.saves = true,
                                         .journals = true,
                                         .ack = PS_ACK_LOGGED,
                                         .journal_queue_bytes = 4096,
                                         .clients_max = 8,
                                         .client_idle_ms = 1000};
    world_init_with(world, &options);
}

void world_init_journal_empty(struct core_world *world)
{
    world_init_journal_only(world);
    world_own(world, 1);
    ps_service_begin_empty(world->service);
}

static void init_w(struct core_world *world)
{
    static const float values[] = {1, 2, 3, 4};
    ck_assert_int_eq(
        world_init_param(world, "w", PS_F32, values, sizeof values, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(world_finish(world), PS_OK);
}

void world_init_journal_unsaved(struct core_world *world)
{
    world_init_journal_empty(world);
    init_w(world);
}

void world_init_journal(struct core_world *world)
{
    const struct ps_checkpoint_place place = {.epoch = 1};
    world_init_journal_unsaved(world);
    ps_service_saved(world->service, (struct ps_ticket){0}, &place);
}

void world_fini(struct core_world *world)
{
    ps_service_check(world->service);
    ps_service_destroy(world->service);
    ck_assert_int_eq(world->heap.live, 0);
}

void world_own(struct core_world *world, uint64_t epoch)
{
    ps_service_own(world->service, 0, 1, epoch, "localhost:1");
    ps_service_prove(world->service, PS_DEADLINE_NEVER);
}

void world_init_empty(struct core_world *world)
{
    world_init(world, false, 0);
    world_own(world, 1);
    ps_service_begin_empty(world->service);
}

void world_init_ready(struct core_world *world)
{
    world_init_empty(world);
    init_w(world);
}

struct ps_bytes text(const char *letters)
{
    return ps_bytes_of_text(letters);
}

struct ps_bytes config_bytes(const struct ps_optimizer_config *config)
{
    static uint8_t bytes[4096];
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), sizeof bytes);
    ps_optimizer_config_encode(config, &buffer);
    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_OK);
    size_t size = buffer.size;
    if (size > 0)
        memcpy(bytes, buffer.text, size);
    ps_buffer_fini(&buffer);
    return (struct ps_bytes){bytes, size};
}

struct ps_bytes config_of(const char *optimizer, double rate)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    ck_assert(ps_optimizer_config_choose(&config, optimizer));
    config.learning_rate = rate;
    return config_bytes(&config);
}

enum ps_status world_init_param(struct core_world *world, const char *name, enum ps_dtype dtype,
                                const void *content, size_t size, struct ps_bytes config)
{
    struct ps_bytes piece = {content, size};
    struct ps_init_request request = {
        .name = text(name), .dtype = dtype, .content = ps_view_of(&piece), .config = config};
    return ps_service_init(world->service, &request, NULL, &world->error);
}

enum ps_status world_finish(struct core_world *world)
{
    return world_finish_under(world, 0);
}

enum ps_status world_finish_under(struct core_world *world, uint64_t epoch)
{
    const struct ps_finish_request request = {.epoch = epoch};
    struct ps_ticket ticket;
    return ps_service_finish(world->service, &request, &ticket, &world->error);
}

enum ps_status world_push(struct core_world *world, const char *name, enum ps_dtype dtype,
                          const void *content, size_t size, uint64_t *version)
{
    struct ps_bytes piece = {content, size};
    struct ps_push_request request = {
        .name = text(name), .dtype = dtype, .content = ps_view_of(&piece)};
    struct ps_push_reply reply = {0};
    enum ps_status status = ps_service_push(world->service, &request, &reply, NULL, &world->error);
    if (version != NULL)
        *version = reply.version;
    return status;
}

enum ps_status world_push_as(struct core_world *world, const char *name, uint64_t session,
                             uint64_t sequence, struct ps_push_reply *reply)
{
    static const float ones[] = {1, 1, 1, 1};
    struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
    struct ps_push_request request = {.name = text(name),
                                      .dtype = PS_F32,
                                      .content = ps_view_of(&piece),
                                      .request = {.present = true,
                                                  .client_id = text("client"),
                                                  .session = session,
                                                  .sequence = sequence}};
    world->reply = (struct ps_push_reply){0};
    enum ps_status status =
        ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error);
    if (reply != NULL)
        *reply = world->reply;
    return status;
}

enum ps_status world_push_with(struct core_world *world, enum ps_ack ack, uint64_t sequence)
{
    static const float ones[] = {1, 1, 1, 1};
    struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
    const struct ps_push_request request = {.name = text("w"),
                                            .dtype = PS_F32,
                                            .content = ps_view_of(&piece),
                                            .ack = ack,
                                            .request = {.present = sequence > 0,
                                                        .client_id = text("client"),
                                                        .session = 1,
                                                        .sequence = sequence}};
    return ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error);
}

enum ps_status world_acknowledge(struct core_world *world)
{
    return ps_service_acknowledge(world->service, &world->wait, &world->reply, &world->error);
}

size_t world_write_journal(struct core_world *world)
{
    struct ps_record records[4];
    size_t written = 0;
    for (;;) {
        size_t count = ps_service_journal_take(world->service, records, 4);
        if (count == 0)
            return written;
        written += count;
        ps_service_journal_written(world->service, UINT64_MAX, PS_OK, NULL);
    }
}

void world_fail_journal(struct core_world *world)
{
    struct ps_record records[4];
    const struct ps_error why = {.status = PS_ERR_IO, .text = "the disk is gone"};
    ck_assert_uint_gt(ps_service_journal_take(world->service, records, 4), 0);
    ps_service_journal_written(world->service, UINT64_MAX, PS_ERR_IO, &why);
}

enum ps_status world_pull(struct core_world *world, const char *name, void *content,
                          size_t size_max, size_t *size, uint64_t *version)
{
    struct ps_pull_request request = {.name = text(name)};
    struct ps_pull pull = {0};
    enum ps_status status = ps_service_pull(world->service, &request, &pull, &world->error);
    if (status != PS_OK)
        return status;
    ck_assert(ps_bytes_equal(pull.reply.name, request.name));
    ck_assert_uint_le(pull.reply.content.size, size_max);
    *size = pull.reply.content.size;
    ps_view_copy(pull.reply.content, 0, content, *size);
    if (version != NULL)
        *version = pull.reply.version;
    ps_pull_release(&pull);
    return PS_OK;
}

void world_expect_f32(struct core_world *world, const char *name, const float *expected,
                      size_t count)
{
    float *values = malloc(count * sizeof *values);
    size_t size = 0;
    ck_assert_ptr_nonnull(values);

    ck_assert_int_eq(world_pull(world, name, values, count * sizeof *values, &size, NULL), PS_OK);

    ck_assert_uint_eq(size, count * sizeof *values);
    expect_each(i, count, values[i] == expected[i]);
    free(values);
}

int run_tests(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
