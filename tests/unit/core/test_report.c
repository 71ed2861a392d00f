/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/report.c: status and the list of parameters. */
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

#include <stdio.h>
#include <string.h>

static const float ones[] = {1, 1, 1, 1};

START_TEST(status_tells_everything)
{
    struct core_world world;
    struct ps_status_reply reply;
    char uuid[37];
    float values[4];
    size_t size;
    world_init_ready(&world);
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_int_eq(world_pull(&world, "w", values, sizeof values, &size, NULL), PS_OK);
    world.fake.now_ms += 500;

    ps_service_status(world.service, &reply, uuid);

    ck_assert_str_eq(reply.state, "ready");
    ck_assert_uint_eq(reply.index, 0);
    ck_assert_uint_eq(reply.shard_count, 1);
    ck_assert_uint_eq(reply.epoch, 1);
    ck_assert_uint_eq(reply.parameter_count, 1);
    ck_assert_uint_eq(reply.parameter_bytes, 16);
    ck_assert_uint_eq(reply.state_bytes, 0);
    ck_assert_uint_eq(reply.push_count, 1);
    ck_assert_uint_eq(reply.pull_count, 1);
    ck_assert_uint_eq(reply.position, 1);
    ck_assert_uint_eq(reply.uptime_ms, 500);
    ck_assert_str_eq(reply.checkpoint_uuid, "");
    ck_assert_str_eq(reply.device, "cpu");
    ck_assert_str_eq(reply.job, "test");
    ck_assert_str_eq(reply.address, "localhost:1");
    ck_assert_str_ne(reply.program_version, "");
    world_fini(&world);
}
END_TEST

START_TEST(lost_pushes_are_counted_in_status_and_metrics)
{
    struct core_world world;
    struct ps_status_reply reply;
    char uuid[37];
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    world_init_ready(&world);
    ps_core_metrics_init(&world.service->metrics, metrics);

    ps_service_note_lost(world.service, 0);
    ps_service_note_lost(world.service, 2);
    ps_service_note_lost(world.service, 5);

    ps_service_status(world.service, &reply, uuid);
    ck_assert_uint_eq(reply.lost_count, 7);
    ck_assert_uint_eq(ps_counter_value(world.service->metrics.lost_pushes), 7);
    world_fini(&world);
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(status_works_in_every_state)
{
    struct core_world world;
    struct ps_status_reply reply;
    char uuid[37];
    world_init(&world, false, 0);

    ps_service_status(world.service, &reply, uuid);

    ck_assert_str_eq(reply.state, "starting");
    world_fini(&world);
}
END_TEST

static void init_named(struct core_world *world, const char *const *names, size_t count)
{
    world_init_empty(world);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(
            world_init_param(world, names[i], PS_F32, ones, sizeof ones, config_of("adam", 0.25)),
            PS_OK);
    ck_assert_int_eq(world_finish(world), PS_OK);
}

START_TEST(list_is_sorted_and_goes_page_by_page)
{
    static const char *const names[] = {"c", "a", "e", "b", "d"};
    static const char *const sorted[] = {"a", "b", "c", "d", "e"};
    struct core_world world;
    struct ps_list_reply reply;
    char after[8] = "";
    size_t seen = 0;
    init_named(&world, names, 5);

    for (bool more = true; more;) {
        struct ps_list_request request = {.after = text(after), .limit = 2};
        ck_assert_int_eq(ps_service_list(world.service, &request, &reply, NULL), PS_OK);
        for (size_t i = 0; i < reply.param_count; i++)
            ck_assert(ps_bytes_equal(reply.params[i].name, text(sorted[seen++])));
        ck_assert_uint_eq(reply.param_count, seen < 5 ? 2 : 1);
        memcpy(after, reply.params[reply.param_count - 1].name.data, 1);
        more = reply.more;
        ps_service_list_release(world.service, &reply);
    }

    ck_assert_uint_eq(seen, 5);
    world_fini(&world);
}
END_TEST

START_TEST(a_prefix_and_configurations_are_asked_for)
{
    static const char *const names[] = {"a/b", "b", "a", "a/c"};
    struct core_world world;
    struct ps_list_reply reply;
    init_named(&world, names, 4);
    struct ps_list_request request = {.prefix = text("a/"), .with_config = true};

    ck_assert_int_eq(ps_service_list(world.service, &request, &reply, NULL), PS_OK);
    ck_assert_uint_eq(reply.param_count, 2);
    ck_assert(!reply.more);
    ck_assert(ps_bytes_equal(reply.params[0].name, text("a/b")));
    ck_assert(ps_bytes_equal(reply.params[1].config, config_of("adam", 0.25)));
    ps_service_list_release(world.service, &reply);

    request = (struct ps_list_request){.after = text("a/b")};
    ck_assert_int_eq(ps_service_list(world.service, &request, &reply, NULL), PS_OK);
    ck_assert_uint_eq(reply.param_count, 2);
    ck_assert_uint_eq(reply.params[0].config.size, 0);
    ps_service_list_release(world.service, &reply);
    world_fini(&world);
}
END_TEST

/* 20 of 60 KiB: a field that no reader knows, behind the configuration. */
START_TEST(a_page_of_long_configurations_is_shorter)
{
    static uint8_t config[60000] = {0xa2, 0x1f, 0xdb, 0xd4, 0x3};
    struct core_world world;
    struct ps_list_reply reply;
    size_t seen = 0;
    char name[8] = "";
    world_init_empty(&world);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof name, "p%02d", i);
        ck_assert_int_eq(world_init_param(&world, name, PS_F32, ones, sizeof ones,
                                          (struct ps_bytes){config, sizeof config}),
                         PS_OK);
    }
    ck_assert_int_eq(world_finish(&world), PS_OK);
    struct ps_list_request request = {.with_config = true};

    for (bool more = true; more;) {
        ck_assert_int_eq(ps_service_list(world.service, &request, &reply, NULL), PS_OK);
        ck_assert_uint_gt(reply.param_count, 0);
        ck_assert_uint_le(reply.param_count, 17);
        seen += reply.param_count;
        memcpy(name, reply.params[reply.param_count - 1].name.data, 3);
        request.after = text(name);
        more = reply.more;
        ps_service_list_release(world.service, &reply);
    }

    ck_assert_uint_eq(seen, 20);
    world_fini(&world);
}
END_TEST

START_TEST(a_row_tells_everything)
{
    static const char *const names[] = {"w"};
    struct core_world world;
    struct ps_list_reply reply;
    struct ps_list_request request = {.limit = 0};
    init_named(&world, names, 1);
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    ck_assert_int_eq(ps_service_list(world.service, &request, &reply, NULL), PS_OK);

    ck_assert_uint_eq(reply.param_count, 1);
    ck_assert(!reply.more);
    ck_assert_int_eq(reply.params[0].dtype, PS_F32);
    ck_assert_uint_eq(reply.params[0].element_count, 4);
    ck_assert_uint_eq(reply.params[0].version, 1);
    ck_assert_str_eq(reply.params[0].rule, "adam");
    ck_assert_double_eq(reply.params[0].learning_rate, 0.25);
    ck_assert_uint_eq(reply.params[0].state_bytes, 32);
    ps_service_list_release(world.service, &reply);
    world_fini(&world);
}
END_TEST

START_TEST(a_list_keeps_its_names_when_the_shard_is_lost)
{
    static const char *const names[] = {"w"};
    struct core_world world;
    struct ps_list_reply reply;
    struct ps_list_request request = {.limit = 0};
    init_named(&world, names, 1);
    ck_assert_int_eq(ps_service_list(world.service, &request, &reply, NULL), PS_OK);

    ps_service_reset(world.service);

    ck_assert(ps_bytes_equal(reply.params[0].name, text("w")));
    ps_service_list_release(world.service, &reply);
    world_fini(&world);
}
END_TEST

START_TEST(an_empty_list_is_a_list)
{
    struct core_world world;
    struct ps_list_reply reply;
    struct ps_list_request request = {.after = text("zzz")};
    world_init_ready(&world);

    ck_assert_int_eq(ps_service_list(world.service, &request, &reply, NULL), PS_OK);

    ck_assert_uint_eq(reply.param_count, 0);
    ck_assert(!reply.more);
    ps_service_list_release(world.service, &reply);
    ps_service_list_release(world.service, &reply);
    world_fini(&world);
}
END_TEST

START_TEST(list_survives_any_refused_allocation)
{
    struct core_world world;
    struct ps_list_reply reply = {0};
    struct ps_list_request request = {.limit = 0};
    world_init_ready(&world);
    int64_t live = world.heap.live;
    world.heap.refuse_at = world.heap.seen + _i;

    enum ps_status status = ps_service_list(world.service, &request, &reply, NULL);

    ck_assert_int_eq(status, _i < 3 ? PS_ERR_NO_MEMORY : PS_OK);
    ps_service_list_release(world.service, &reply);
    ck_assert_int_eq(world.heap.live, live);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("report");
    tcase_add_test(tests, status_tells_everything);
    tcase_add_test(tests, lost_pushes_are_counted_in_status_and_metrics);
    tcase_add_test(tests, status_works_in_every_state);
    tcase_add_test(tests, list_is_sorted_and_goes_page_by_page);
    tcase_add_test(tests, a_prefix_and_configurations_are_asked_for);
    tcase_add_test(tests, a_page_of_long_configurations_is_shorter);
    tcase_add_test(tests, a_row_tells_everything);
    tcase_add_test(tests, a_list_keeps_its_names_when_the_shard_is_lost);
    tcase_add_test(tests, an_empty_list_is_a_list);
    tcase_add_loop_test(tests, list_survives_any_refused_allocation, 0, 4);
    return run_tests("report", tests);
}
