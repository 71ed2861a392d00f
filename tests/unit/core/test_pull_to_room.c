/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/pull_to_room.c: values that the device copies to another process. */
#include "core_lender.h"
#include "server/core/requests/pull_to_room.h"

#include "expect_each.h"
#include "server/core/requests/service_state.h"

#include <string.h>

#define COUNT 30011
#define BYTES (COUNT * sizeof(float))

static void begin(void)
{
    static float values[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)(i % 1000);
    core_lender_begin(values, COUNT, false, config_of("sgd", 1));
}

static struct ps_pull_request wish(void)
{
    return (struct ps_pull_request){
        .name = text("p"), .room = memory, .room_size = BYTES, .with_shape = true};
}

static void push(float value)
{
    static float gradient[COUNT];
    const struct ps_bytes piece = {(const uint8_t *)gradient, sizeof gradient};
    const struct ps_push_request request = {
        .name = text("p"), .dtype = PS_F32, .content = ps_view_of(&piece)};
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = value;
    ck_assert_int_eq(ps_service_push(resident.service, &request, &resident.reply, &resident.wait,
                                     &resident.error),
                     PS_OK);
}

START_TEST(values_are_copied_on_the_device_and_none_comes_to_the_host)
{
    begin();
    for (int turn = 1; turn <= 3; turn++) {
        const struct ps_pull_request request = wish();
        struct ps_pull pull = {0};
        push(-2);
        uint64_t out = core_device_stats(&device).bytes_out;
        ck_assert_int_eq(ps_service_pull(resident.service, &request, &pull, &resident.error),
                         PS_OK);
        ck_assert_uint_eq(pull.reply.shared_size, BYTES);
        ck_assert_uint_eq(pull.reply.content.size, 0);
        ck_assert_uint_eq(pull.reply.version, (uint64_t)turn);
        ck_assert_int_eq(pull.reply.dtype, PS_F32);
        ck_assert_ptr_nonnull(pull.reply.shape);
        ck_assert(ps_bytes_equal(pull.reply.name, text("p")));
        ps_pull_release(&pull);
        ck_assert_uint_eq(core_device_stats(&device).bytes_out, out);
        lender_load(&lender);
        expect_each(i, COUNT, lender.window[i] == (float)(i % 1000) + 2.0F * (float)turn);
    }
    core_lender_end();
}
END_TEST

/* Such a pull has its content on the host as ever, and the room is not written to. */
static void expect_host(struct core_world *world, const struct ps_pull_request *request)
{
    struct ps_pull pull = {0};
    enum ps_status status = ps_service_pull(world->service, request, &pull, &world->error);
    ck_assert_msg(status == PS_OK, "%s", world->error.text);
    ck_assert_uint_eq(pull.reply.shared_size, 0);
    ck_assert_uint_gt(pull.reply.content.size, 0);
    ps_pull_release(&pull);
    lender_load(&lender);
    expect_each(i, COUNT, lender.window[i] == -1);
}

START_TEST(whatever_else_is_asked_for_is_made_on_the_host)
{
    begin();
    for (size_t i = 0; i < COUNT; i++)
        lender.window[i] = -1;
    lender_store(&lender);
    struct ps_pull_request request = wish();
    request.room_size--;
    expect_host(&resident, &request);
    request = wish();
    request.room = NULL;
    request.room_size = 0;
    expect_host(&resident, &request);
    request = wish();
    expect_host(&host, &request);
    request.range = (struct ps_elements){4096, 4096};
    expect_host(&resident, &request);
    request = wish();
    request.encoding = PS_ENCODING_BFLOAT16;
    expect_host(&resident, &request);
    request = wish();
    request.version = 1;
    expect_host(&resident, &request);
    request = wish();
    request.held = (struct ps_held){.present = true};
    expect_host(&resident, &request);
    core_lender_end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("pull_to_room");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, values_are_copied_on_the_device_and_none_comes_to_the_host);
    tcase_add_test(tests, whatever_else_is_asked_for_is_made_on_the_host);
    return run_tests("pull_to_room", tests);
}
