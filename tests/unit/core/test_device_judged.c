/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/device_store.c: pushes whose gradient the device looks at. Whatever becomes of one,
 * status, text, version, sessions, journal and bits are those of a shard on the host. */
#include "tests/unit/core/core_device.h"
#include "tests/unit/core/core_disk.h"
#include "tests/unit/core/core_encoded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than is gathered, in half of the ring. */
#define COUNT 30011

static struct core_device device;
static struct core_world resident; /* on the device */
static struct core_world host;
static struct memory_files *disk;      /* of the resident */
static struct memory_files *host_disk; /* of the host */

static void begin(const char *fail, int32_t nonfinite, double clip_norm)
{
    static float values[COUNT];
    struct core_world *worlds[] = {&resident, &host};
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    (void)ps_optimizer_config_choose(&config, "adam");
    config.nonfinite = nonfinite;
    config.clip_norm = clip_norm;
    disk = memory_files_create(1);
    host_disk = memory_files_create(2);
    core_device_open(&device, 0, fail);
    core_device_world(&resident, &device, 1, true, 0);
    core_device_world(&host, NULL, 1, true, 0);
    for (size_t i = 0; i < 2; i++) {
        ps_service_begin_empty(worlds[i]->service);
        ck_assert_int_eq(
            world_init_param(worlds[i], "p", PS_F32, values, sizeof values, config_bytes(&config)),
            PS_OK);
        ck_assert_int_eq(world_finish(worlds[i]), PS_OK);
    }
    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 1);
}

static void end(void)
{
    world_fini(&resident);
    world_fini(&host);
    core_device_close(&device);
    memory_files_destroy(disk);
    memory_files_destroy(host_disk);
}

/* Element `strange` is `value`; COUNT: none is. */
static enum ps_status push(struct core_world *world, uint64_t sequence, size_t strange, float value)
{
    static float elements[COUNT];
    const struct ps_bytes piece = {(const uint8_t *)elements, sizeof elements};
    const struct ps_push_request request = {
        .name = text("p"),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .request = {
            .present = true, .client_id = text("client"), .session = 1, .sequence = sequence}};
    for (size_t i = 0; i < COUNT; i++)
        elements[i] = sinf((float)(i + sequence)) * 2;
    if (strange < COUNT)
        elements[strange] = value;
    memset(&world->error, 0, sizeof world->error);
    return ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error);
}

/* To both, and both say the same. */
static enum ps_status push_both(uint64_t sequence, size_t strange, float value)
{
    enum ps_status status = push(&host, sequence, strange, value);
    ck_assert_int_eq(push(&resident, sequence, strange, value), status);
    ck_assert_str_eq(resident.error.text, host.error.text);
    if (status == PS_OK) {
        ck_assert_uint_eq(resident.reply.version, host.reply.version);
        ck_assert_uint_eq(resident.reply.position, host.reply.position);
        ck_assert_int_eq(resident.reply.duplicate, host.reply.duplicate);
    }
    ck_assert_uint_eq(world_write_journal(&resident), world_write_journal(&host));
    return status;
}

static void load_host(struct core_world *world, struct memory_files *from)
{
    struct ps_recovered loaded;
    core_device_world(world, NULL, 2, true, 0);
    enum ps_status status = disk_load(world, from, NULL, &loaded);
    ck_assert_msg(status == PS_OK, "%s", world->error.text);
}

/* Values, states, versions and sessions, as a checkpoint has them. */
static void expect_equal(void)
{
    struct core_world left;
    struct core_world right;
    disk_save(&resident, disk, NULL);
    disk_save(&host, host_disk, NULL);
    load_host(&left, disk);
    load_host(&right, host_disk);
    disk_expect_equal(&left, &right);
    world_fini(&left);
    world_fini(&right);
}

START_TEST(a_refused_gradient_changes_neither_version_nor_sessions_nor_journal)
{
    static const float strange[] = {NAN, INFINITY};
    begin(NULL, 0, _i == 0 ? 0 : 3);
    ck_assert_int_eq(push_both(1, COUNT, 0), PS_OK);
    uint64_t before = core_device_stats(&device).push_count;

    ck_assert_int_eq(push_both(2, COUNT - 1, strange[_i]), PS_ERR_BAD_INPUT);

    ck_assert_str_eq(resident.error.text, "gradient element 30010 is not finite");
    ck_assert_uint_eq(core_device_stats(&device).push_count, before);
    /* The same request again, mended: it is not a repeat, and the second that counts. */
    ck_assert_int_eq(push_both(2, COUNT, 0), PS_OK);
    ck_assert_uint_eq(resident.reply.version, 2);
    ck_assert(!resident.reply.duplicate);
    ck_assert_int_eq(push_both(2, COUNT, 0), PS_OK);
    ck_assert(resident.reply.duplicate);
    ck_assert_int_eq(push_both(3, COUNT, 0), PS_OK);
    ck_assert_uint_eq(resident.reply.position, 3);
    expect_equal();
    end();
}
END_TEST

/* A version, a record, and no step of the optimizer. */
START_TEST(a_skipped_gradient_is_a_version_without_a_step)
{
    begin(NULL, 1, 0);
    ck_assert_int_eq(push_both(1, 4096, NAN), PS_OK);
    ck_assert_int_eq(push_both(2, COUNT, 0), PS_OK);
    ck_assert_int_eq(push_both(3, 0, -INFINITY), PS_OK);
    ck_assert_int_eq(push_both(4, COUNT, 0), PS_OK);
    ck_assert_uint_eq(resident.reply.version, 4);
    expect_equal();
    end();
}
END_TEST

START_TEST(a_norm_is_clipped_to_the_same_bits)
{
    begin(NULL, 2, 0.5);
    ck_assert_int_eq(push_both(1, COUNT, 0), PS_OK);
    ck_assert_int_eq(push_both(2, 77, 1e30F), PS_OK);
    ck_assert_int_eq(push_both(3, COUNT, 0), PS_OK);
    expect_equal();
    end();
}
END_TEST

/* A norm needs every element, whatever the encoding. */
START_TEST(encoded_gradients_are_looked_at_by_the_device)
{
    static struct encoded encoded;
    enum ps_encoding encoding = (enum ps_encoding)_i;
    struct core_world *worlds[] = {&resident, &host};
    begin(NULL, 0, 0.5);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        encoded_make(&encoded, encoding, PS_F32, COUNT, 9000, seed);
        struct ps_push_request request = {.name = text("p"),
                                          .dtype = PS_F32,
                                          .encoding = encoding,
                                          .content = encoded_cut(&encoded, seed).content};
        for (size_t i = 0; i < 2; i++) {
            ck_assert_int_eq(ps_service_push(worlds[i]->service, &request, &worlds[i]->reply,
                                             &worlds[i]->wait, &worlds[i]->error),
                             PS_OK);
            world_write_journal(worlds[i]);
        }
    }
    expect_equal();
    end();
}
END_TEST

/* What was refused on the device leaves no record, what was skipped does: the host replays both. */
START_TEST(what_the_device_decided_is_replayed_by_the_host)
{
    struct core_world again;
    begin(NULL, 1, 2);
    disk_save(&resident, disk, NULL);
    for (uint64_t sequence = 1; sequence <= 4; sequence++)
        ck_assert_int_eq(push_both(sequence, sequence == 2 ? 5 : COUNT, NAN), PS_OK);
    load_host(&again, disk);
    for (uint64_t sequence = 1; sequence <= 4; sequence++)
        ck_assert_int_eq(push(&again, sequence, sequence == 2 ? 5 : COUNT, NAN), PS_OK);
    disk_expect_equal(&again, &host);
    world_fini(&again);
    end();
}
END_TEST

START_TEST(a_full_journal_refuses_before_the_device_changes_anything)
{
    static float values[COUNT];
    struct ps_service_options options = {.device_store = &device.store,
                                         .journals = true,
                                         .saves = true,
                                         .journal_queue_bytes = 5 * sizeof values};
    begin(NULL, 0, 0);
    world_fini(&resident);
    world_init_with(&resident, &options);
    world_own(&resident, 1);
    ps_service_begin_empty(resident.service);
    ck_assert_int_eq(
        world_init_param(&resident, "p", PS_F32, values, sizeof values, config_of("sgd", 1)),
        PS_OK);
    ck_assert_int_eq(world_finish(&resident), PS_OK);
    enum ps_status status = PS_OK;
    uint64_t sequence = 0;
    uint64_t pushes = 0;
    while (status == PS_OK) {
        pushes = core_device_stats(&device).push_count;
        status = push(&resident, ++sequence, COUNT, 0);
    }

    ck_assert_int_eq(status, PS_ERR_BUSY);
    ck_assert_uint_eq(core_device_stats(&device).push_count, pushes);
    ck_assert_uint_eq(world_write_journal(&resident), sequence - 1);
    ck_assert_int_eq(push(&resident, sequence, COUNT, 0), PS_OK);
    ck_assert_uint_eq(resident.reply.version, sequence);
    end();
}
END_TEST

/* The probe launches one kernel; the push an opening, two scans, a verdict, two updates. Nothing of
 * it is acknowledged, and where the push failed there is no record. */
START_TEST(a_device_that_breaks_under_a_push_leaves_nothing_to_acknowledge)
{
    char fail[32];
    (void)snprintf(fail, sizeof fail, "launch:%d:700", 2 + _i);
    begin(fail, 0, 0);

    enum ps_status status = push(&resident, 1, COUNT, 0);

    size_t records = world_write_journal(&resident);
    ck_assert_uint_eq(records, status == PS_OK ? 1 : 0);
    if (status == PS_OK)
        status = world_acknowledge(&resident);
    ck_assert_int_eq(status, PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(device.deaths, 1);
    end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("device_judged");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_refused_gradient_changes_neither_version_nor_sessions_nor_journal,
                        0, 2);
    tcase_add_test(tests, a_skipped_gradient_is_a_version_without_a_step);
    tcase_add_test(tests, a_norm_is_clipped_to_the_same_bits);
    tcase_add_loop_test(tests, encoded_gradients_are_looked_at_by_the_device, 0, PS_ENCODING_COUNT);
    tcase_add_test(tests, what_the_device_decided_is_replayed_by_the_host);
    tcase_add_test(tests, a_full_journal_refuses_before_the_device_changes_anything);
    tcase_add_loop_test(tests, a_device_that_breaks_under_a_push_leaves_nothing_to_acknowledge, 0,
                        6);
    return run_tests("device_judged", tests);
}
