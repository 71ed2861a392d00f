/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/client_applied.c: a client's pushes by the names of parameters. */
#include "server/core/requests/client_applied.h"

#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

static const float ones[4] = {1, 1, 1, 1};
static struct ps_client_applied applied;

static enum ps_status push_as(struct core_world *world, const char *client, const char *name,
                              uint64_t sequence)
{
    const struct ps_bytes content = {(const uint8_t *)ones, sizeof ones};
    const struct ps_push_request request = {
        .name = text(name),
        .dtype = PS_F32,
        .content = ps_view_of(&content),
        .request = {
            .present = true, .client_id = text(client), .session = 1, .sequence = sequence}};
    return ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error);
}

static enum ps_status ask(struct core_world *world, struct ps_applied_request request)
{
    request.id.present = true;
    request.id.client_id = text("@a#0");
    return ps_service_applied(world->service, &request, &applied, &world->error);
}

static void init_named(struct core_world *world)
{
    static const char *const names[] = {"c", "a", "b"};
    world_init_empty(world);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(
            world_init_param(world, names[i], PS_F32, ones, sizeof ones, config_of("sgd", 1)),
            PS_OK);
    ck_assert_int_eq(world_finish(world), PS_OK);
}

START_TEST(rows_are_sorted_and_go_page_by_page)
{
    struct core_world world;
    init_named(&world);
    ck_assert_int_eq(push_as(&world, "@a#0", "c", 1), PS_OK);
    ck_assert_int_eq(push_as(&world, "@a#0", "a", 2), PS_OK);
    ck_assert_int_eq(push_as(&world, "@a#0", "c", 3), PS_OK);
    ck_assert_int_eq(push_as(&world, "@b#0", "b", 1), PS_OK);

    ck_assert_int_eq(ask(&world, (struct ps_applied_request){.limit = 1}), PS_OK);
    ck_assert_uint_eq(applied.reply.row_count, 1);
    ck_assert(applied.reply.more && applied.reply.is_known && applied.reply.is_whole);
    ck_assert(ps_bytes_equal(applied.reply.rows[0].name, text("a")));
    ck_assert_uint_eq(applied.reply.rows[0].pushes, 1);
    ck_assert_uint_eq(applied.reply.sequence, 3);
    ps_service_release_applied(world.service, &applied);

    ck_assert_int_eq(ask(&world, (struct ps_applied_request){.after = text("a")}), PS_OK);
    ck_assert_uint_eq(applied.reply.row_count, 1);
    ck_assert(!applied.reply.more);
    ck_assert(ps_bytes_equal(applied.reply.rows[0].name, text("c")));
    ck_assert_uint_eq(applied.reply.rows[0].pushes, 2);
    ck_assert_uint_eq(applied.reply.rows[0].version, 2);
    ps_service_release_applied(world.service, &applied);
    ps_service_release_applied(world.service, &applied);
    world_fini(&world);
}
END_TEST

START_TEST(an_answer_waits_until_the_journal_has_what_it_says)
{
    struct core_world world;
    world_init_journal(&world);
    ck_assert_int_eq(push_as(&world, "@a#0", "w", 1), PS_OK);

    ck_assert_int_eq(ask(&world, (struct ps_applied_request){.begins = true}), PS_OK);

    world.wait = applied.wait;
    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_NOT_READY);
    (void)world_write_journal(&world);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
    ck_assert_uint_eq(applied.reply.rows[0].pushes, 1);
    ck_assert_int_eq(push_as(&world, "@a#0", "w", 2), PS_ERR_STALE_SESSION);
    ps_service_release_applied(world.service, &applied);
    world_fini(&world);
}
END_TEST

START_TEST(an_answer_keeps_its_names_when_the_shard_is_lost)
{
    struct core_world world;
    init_named(&world);
    ck_assert_int_eq(push_as(&world, "@a#0", "c", 1), PS_OK);
    ck_assert_int_eq(ask(&world, (struct ps_applied_request){.begins = false}), PS_OK);

    ps_service_reset(world.service);

    ck_assert(ps_bytes_equal(applied.reply.rows[0].name, text("c")));
    ps_service_release_applied(world.service, &applied);
    ck_assert_int_eq(ask(&world, (struct ps_applied_request){.begins = true}), PS_ERR_UNAVAILABLE);
    world_fini(&world);
}
END_TEST

START_TEST(the_server_of_another_shard_does_not_answer)
{
    struct core_world world;
    init_named(&world);

    ck_assert_int_eq(ask(&world, (struct ps_applied_request){.shard = 2}), PS_ERR_NOT_OWNER);

    ck_assert_ptr_null(applied.specs);
    world_fini(&world);
}
END_TEST

START_TEST(any_refused_allocation_leaves_nothing)
{
    struct core_world world;
    init_named(&world);
    ck_assert_int_eq(push_as(&world, "@a#0", "c", 1), PS_OK);
    int64_t live = world.heap.live;
    world.heap.refuse_at = world.heap.seen + _i;

    enum ps_status status = ask(&world, (struct ps_applied_request){.begins = true});

    ck_assert_int_eq(status, _i < 3 ? PS_ERR_NO_MEMORY : PS_OK);
    ps_service_release_applied(world.service, &applied);
    ck_assert_int_eq(world.heap.live, live);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("client_applied");
    tcase_add_test(tests, rows_are_sorted_and_go_page_by_page);
    tcase_add_test(tests, an_answer_waits_until_the_journal_has_what_it_says);
    tcase_add_test(tests, an_answer_keeps_its_names_when_the_shard_is_lost);
    tcase_add_test(tests, the_server_of_another_shard_does_not_answer);
    tcase_add_loop_test(tests, any_refused_allocation_leaves_nothing, 0, 4);
    return run_tests("client_applied", tests);
}
