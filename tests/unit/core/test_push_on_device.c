/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/push_on_device.c: gradients that another process has on the device. Status, text,
 * version, sessions and bits are those of a shard on the host; what the host would have to look at
 * is never taken from there. */
#include "core_lender.h"
#include "server/core/requests/push_on_device.h"

#include "server/core/requests/service_state.h"

#include <math.h>
#include <string.h>

#define COUNT 30011

static void begin(bool journals, const struct ps_optimizer_config *config)
{
    static const float zeros[COUNT];
    core_lender_begin(zeros, COUNT, journals, config_bytes(config));
}

static void begin_adam(bool journals, int32_t nonfinite, double clip_norm)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    (void)ps_optimizer_config_choose(&config, "adam");
    config.nonfinite = nonfinite;
    config.clip_norm = clip_norm;
    begin(journals, &config);
}

static struct ps_push_request request_of(const struct ps_bytes *piece, uint64_t sequence)
{
    return (struct ps_push_request){
        .name = text("p"),
        .dtype = PS_F32,
        .content = ps_view_of(piece),
        .request = {
            .present = true, .client_id = text("client"), .session = 1, .sequence = sequence}};
}

static enum ps_status push(struct core_world *world, const struct ps_push_request *request)
{
    memset(&world->error, 0, sizeof world->error);
    return ps_service_push(world->service, request, &world->reply, &world->wait, &world->error);
}

/* The same gradient to both shards: on the host from the window, on the device from the other
 * process's memory. Both say the same of it. */
static enum ps_status push_both(uint64_t sequence, size_t strange, float value)
{
    const struct ps_bytes here = {(const uint8_t *)lender.window, COUNT * sizeof(float)};
    const struct ps_bytes there = {memory, COUNT * sizeof(float)};
    for (size_t i = 0; i < COUNT; i++)
        lender.window[i] = sinf((float)(i + sequence)) * 2;
    if (strange < COUNT)
        lender.window[strange] = value;
    lender_store(&lender);
    struct ps_push_request request = request_of(&here, sequence);
    enum ps_status status = push(&host, &request);
    request = request_of(&there, sequence);
    request.on_device = true;
    ck_assert(ps_service_reads_device(resident.service, &request));
    ck_assert_int_eq(push(&resident, &request), status);
    ck_assert_str_eq(resident.error.text, host.error.text);
    if (status == PS_OK) {
        ck_assert_uint_eq(resident.reply.version, host.reply.version);
        ck_assert_int_eq(resident.reply.duplicate, host.reply.duplicate);
        /* The memory is read until then. */
        ck_assert_int_eq(world_acknowledge(&resident), PS_OK);
    }
    return status;
}

static void expect_equal(void)
{
    static float left[COUNT], right[COUNT];
    size_t size = 0;
    uint64_t version = 0;
    ck_assert_int_eq(world_pull(&resident, "p", left, sizeof left, &size, &version), PS_OK);
    ck_assert_int_eq(world_pull(&host, "p", right, sizeof right, &size, &version), PS_OK);
    ck_assert_mem_eq(left, right, sizeof left);
}

START_TEST(bits_and_words_are_those_of_the_host)
{
    begin_adam(false, 0, _i == 0 ? 0 : 0.5);
    uint64_t copies = 0;
    for (uint64_t sequence = 1; sequence <= 4; sequence++) {
        ck_assert_int_eq(push_both(sequence, COUNT, 0), PS_OK);
        copies = core_device_stats(&device).bytes_in;
    }
    ck_assert_int_eq(push_both(5, COUNT - 1, NAN), PS_ERR_BAD_INPUT);
    ck_assert_str_eq(resident.error.text, "gradient element 30010 is not finite");
    ck_assert_int_eq(push_both(5, COUNT, 0), PS_OK);
    ck_assert_int_eq(push_both(5, COUNT, 0), PS_OK);
    ck_assert(resident.reply.duplicate);
    ck_assert_uint_eq(core_device_stats(&device).bytes_in, copies);
    ck_assert_uint_ge(core_device_stats(&device).in_place_bytes, 5 * COUNT * sizeof(float));
    expect_equal();
    core_lender_end();
}
END_TEST

/* Nobody has to look at it: it is applied at once. */
START_TEST(what_nobody_looks_at_is_applied_as_well)
{
    begin_adam(false, 2, 0);
    ck_assert_int_eq(push_both(1, COUNT, 0), PS_OK);
    ck_assert_int_eq(push_both(2, COUNT, 0), PS_OK);
    expect_equal();
    core_lender_end();
}
END_TEST

START_TEST(what_the_host_has_to_look_at_is_not_read_there)
{
    begin_adam(_i == 0, 0, 0);
    struct ps_bytes there = {memory, COUNT * sizeof(float)};
    struct ps_push_request request = request_of(&there, 1);
    request.on_device = true;
    bool reads = ps_service_reads_device(resident.service, &request);
    ck_assert_int_eq(reads, _i != 0); /* a journal writes it */
    ck_assert(!ps_service_reads_device(host.service, &request));
    request.range = (struct ps_elements){0, COUNT};
    ck_assert(!ps_service_reads_device(resident.service, &request));
    request = request_of(&there, 1);
    request.on_device = true;
    request.encoding = PS_ENCODING_INT8;
    ck_assert(!ps_service_reads_device(resident.service, &request));
    request.encoding = PS_ENCODING_NATIVE;
    request.name = text("q");
    ck_assert(!ps_service_reads_device(resident.service, &request));
    request.name = text("p");
    there.size -= sizeof(float);
    request.content = ps_view_of(&there);
    ck_assert(!ps_service_reads_device(resident.service, &request));
    there = (struct ps_bytes){memory + sizeof(float), COUNT * sizeof(float)};
    request.content = ps_view_of(&there);
    ck_assert(!ps_service_reads_device(resident.service, &request));
    core_lender_end();
}
END_TEST

/* Between the question and the push the parameter was made again, on the host. */
START_TEST(a_parameter_that_has_changed_meanwhile_refuses_and_nothing_is_applied)
{
    begin_adam(false, 0, 0);
    const struct ps_bytes there = {memory, COUNT * sizeof(float)};
    struct ps_push_request request = request_of(&there, 1);
    request.on_device = true;
    ck_assert_int_eq(push(&host, &request), PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(host.error.text, "send again"));
    ck_assert_uint_eq(core_device_stats(&device).in_place_bytes, 0);
    ck_assert_int_eq(push_both(1, COUNT, 0), PS_OK);
    ck_assert(!host.reply.duplicate);
    core_lender_end();
}
END_TEST

START_TEST(its_fingerprint_agrees_with_any_content_of_the_parameter)
{
    static const float some[100] = {1};
    const struct ps_bytes here = {(const uint8_t *)some, sizeof some};
    struct ps_push_request request = request_of(&here, 1);
    uint32_t known = ps_service_fingerprint(&request);
    request.on_device = true;
    uint32_t unknown = ps_service_fingerprint(&request);
    ck_assert_uint_ne(known, unknown);
    ck_assert_uint_eq(known & 0xffff0000, unknown);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("push_on_device");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, bits_and_words_are_those_of_the_host, 0, 2);
    tcase_add_test(tests, what_nobody_looks_at_is_applied_as_well);
    tcase_add_loop_test(tests, what_the_host_has_to_look_at_is_not_read_there, 0, 2);
    tcase_add_test(tests, a_parameter_that_has_changed_meanwhile_refuses_and_nothing_is_applied);
    tcase_add_test(tests, its_fingerprint_agrees_with_any_content_of_the_parameter);
    return run_tests("push_on_device", tests);
}
