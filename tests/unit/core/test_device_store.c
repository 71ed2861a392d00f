/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/device_store.c, and all that goes another way when a parameter lives on a device: the
 * same bits as on the host, by every way in and out. */
#include "server/core/recovery/snapshot.h"
#include "tests/unit/core/core_device.h"
#include "tests/unit/core/core_disk.h"
#include "tests/unit/core/core_encoded.h"
#include "tests/unit/core/core_kinds.h"

#include <string.h>

static struct core_device device;
static struct core_world resident; /* on the device */
static struct core_world host;
static struct memory_files *disk;      /* of the resident */
static struct memory_files *host_disk; /* of the host */

static void begin(uint64_t budget, const char *fail, uint64_t bytes_max)
{
    disk = memory_files_create(1);
    host_disk = memory_files_create(2);
    core_device_open(&device, budget, fail);
    core_device_world(&resident, &device, 1, true, bytes_max);
    core_device_world(&host, NULL, 1, true, 0);
    ps_service_begin_empty(resident.service);
    ps_service_begin_empty(host.service);
}

static void end(void)
{
    world_fini(&resident);
    world_fini(&host);
    core_device_close(&device);
    memory_files_destroy(disk);
    memory_files_destroy(host_disk);
}

static void init_both(const struct kind *kind)
{
    static uint64_t elements[ELEMENTS];
    size_t size = make_elements(kind->dtype, 99, elements);
    struct core_world *worlds[] = {&resident, &host};
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(
            world_init_param(worlds[i], "p", kind->dtype, elements, size, kind_config(kind)),
            PS_OK);
        ck_assert_int_eq(world_finish(worlds[i]), PS_OK);
    }
}

static void push(struct core_world *world, const struct kind *kind, uint64_t number)
{
    static uint64_t elements[ELEMENTS];
    struct ps_bytes piece = {(const uint8_t *)elements,
                             make_elements(kind->dtype, number, elements)};
    struct ps_push_request request = {
        .name = text("p"),
        .dtype = gradient_of(kind),
        .content = ps_view_of(&piece),
        .request = {
            .present = true, .client_id = text("client"), .session = 1, .sequence = number}};
    enum ps_status status =
        ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error);
    ck_assert_msg(status == PS_OK, "%s", world->error.text);
    world_write_journal(world);
}

static void push_encoded(struct core_world *world, const struct kind *kind,
                         enum ps_encoding encoding)
{
    static struct encoded encoded;
    encoded_make(&encoded, encoding, kind->dtype, ELEMENTS, 50, (uint64_t)encoding);
    struct ps_push_request request = {.name = text("p"),
                                      .dtype = kind->dtype,
                                      .encoding = encoding,
                                      .content = encoded_cut(&encoded, 7).content};
    ck_assert_int_eq(
        ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error),
        PS_OK);
    world_write_journal(world);
}

/* A shard on the host with what the disk has. */
static void load_host(struct core_world *world, struct memory_files *from, uint64_t epoch)
{
    struct ps_recovered loaded;
    core_device_world(world, NULL, epoch, true, 0);
    enum ps_status status = disk_load(world, from, NULL, &loaded);
    ck_assert_msg(status == PS_OK, "%s", world->error.text);
}

/* Both as a checkpoint says. */
static void expect_equal(void)
{
    struct core_world left;
    struct core_world right;
    disk_save(&resident, disk, NULL);
    disk_save(&host, host_disk, NULL);
    load_host(&left, disk, 2);
    load_host(&right, host_disk, 2);
    disk_expect_equal(&left, &right);
    world_fini(&left);
    world_fini(&right);
}

START_TEST(every_rule_and_type_has_the_bits_of_the_host)
{
    const struct kind *kind = &kinds[_i];
    begin(0, NULL, 0);
    init_both(kind);
    for (uint64_t i = 1; i <= 3; i++) {
        push(&resident, kind, i);
        push(&host, kind, i);
    }

    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 1);
    expect_equal();
    ck_assert_uint_eq(core_device_stats(&device).push_count, 4); /* the probe's is one */
    end();
}
END_TEST

START_TEST(every_encoding_has_the_bits_of_the_host)
{
    const struct kind *kind = &kinds[_i];
    if (!ps_dtype_is_float(kind->dtype))
        return;
    begin(0, NULL, 0);
    init_both(kind);
    for (enum ps_encoding encoding = 0; encoding < PS_ENCODING_COUNT; encoding++) {
        push_encoded(&resident, kind, encoding);
        push_encoded(&host, kind, encoding);
    }

    ck_assert_uint_gt(resident.wait.due.gather, 0);
    expect_equal();
    end();
}
END_TEST

/* Device, host, device, and each time some pushes. */
START_TEST(a_state_moves_between_device_and_host_with_the_same_bits)
{
    const struct kind *kind = &kinds[_i];
    struct core_world again;
    struct core_world on_host;
    struct ps_recovered loaded;
    begin(0, NULL, 0);
    init_both(kind);
    push(&resident, kind, 1);
    push(&host, kind, 1);
    disk_save(&resident, disk, NULL);
    load_host(&on_host, disk, 2);
    push(&on_host, kind, 2);
    push(&host, kind, 2);
    disk_save(&on_host, disk, NULL);

    core_device_world(&again, &device, 3, true, 0);
    ck_assert_int_eq(disk_load(&again, disk, NULL, &loaded), PS_OK);
    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 2);
    push(&again, kind, 3);
    push(&host, kind, 3);
    disk_save(&again, disk, NULL);

    world_fini(&on_host);
    load_host(&on_host, disk, 4);
    disk_expect_equal(&on_host, &host);
    world_fini(&again);
    world_fini(&on_host);
    end();
}
END_TEST

static const struct kind adam = {"adam", PS_F32, false};

START_TEST(a_reply_waits_for_the_device_and_so_does_that_to_a_repeat)
{
    begin(0, NULL, 0);
    init_both(&adam);
    push(&resident, &adam, 1);
    uint64_t ticket = resident.wait.due.gather;
    ck_assert_uint_gt(ticket, 0);

    push(&resident, &adam, 1);

    ck_assert(resident.reply.duplicate);
    ck_assert_uint_eq(resident.wait.due.gather, ticket);
    const struct ps_checkpoint_place place = {.epoch = 1, .position = 1};
    ps_service_saved(resident.service, (struct ps_ticket){0}, &place);
    ck_assert_int_eq(world_acknowledge(&resident), PS_OK);
    ck_assert_uint_eq(core_device_stats(&device).push_count, 2);
    end();
}
END_TEST

START_TEST(what_has_no_room_on_the_device_lives_on_the_host)
{
    static float large[100000];
    static const float small[4] = {1, 2, 3, 4};
    begin(256 << 10, NULL, 0);

    ck_assert_int_eq(
        world_init_param(&resident, "large", PS_F32, large, sizeof large, config_of("adam", 1)),
        PS_OK);
    ck_assert_int_eq(
        world_init_param(&resident, "small", PS_F32, small, sizeof small, config_of("sgd", 1)),
        PS_OK);

    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 1);
    ck_assert_int_eq(world_finish(&resident), PS_OK);
    ck_assert_int_eq(world_push(&resident, "large", PS_F32, large, sizeof large, NULL), PS_OK);
    ck_assert_int_eq(world_push(&resident, "small", PS_F32, small, sizeof small, NULL), PS_OK);
    world_expect_f32(&resident, "small", (const float[]){0, 0, 0, 0}, 4);
    world_expect_f32(&resident, "large", large, 100000);
    end();
}
END_TEST

START_TEST(what_has_room_nowhere_is_refused_with_both_reasons)
{
    static float large[100000];
    begin(256 << 10, NULL, 1 << 20);

    ck_assert_int_eq(
        world_init_param(&resident, "large", PS_F32, large, sizeof large, config_of("adam", 1)),
        PS_ERR_BUSY);

    ck_assert_ptr_nonnull(strstr(resident.error.text, "memory limit: 1200000 bytes needed"));
    ck_assert_ptr_nonnull(strstr(resident.error.text, "device memory: "));
    ck_assert_uint_eq(core_device_stats(&device).used_bytes, 0);
    end();
}
END_TEST

/* Its states are on the device: only the values count here. */
START_TEST(a_resident_counts_its_values_on_the_host)
{
    static float values[100000];
    begin(0, NULL, 500000);

    ck_assert_int_eq(
        world_init_param(&resident, "a", PS_F32, values, sizeof values, config_of("adam", 1)),
        PS_OK);
    ck_assert_int_eq(
        world_init_param(&resident, "b", PS_F32, values, sizeof values, config_of("adam", 1)),
        PS_ERR_BUSY);

    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 1);
    end();
}
END_TEST

START_TEST(what_is_smaller_than_the_least_lives_on_the_host)
{
    static float values[1000];
    begin(0, NULL, 0);
    device.store.min_bytes = sizeof values;

    ck_assert_int_eq(
        world_init_param(&resident, "a", PS_F32, values, sizeof values - 4, config_of("adam", 1)),
        PS_OK);
    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 0);
    ck_assert_int_eq(
        world_init_param(&resident, "b", PS_F32, values, sizeof values, config_of("adam", 1)),
        PS_OK);
    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 1);

    end();
}
END_TEST

START_TEST(what_must_see_the_values_first_lives_on_the_host)
{
    static const int32_t most[] = {INT32_MAX, 0};
    static const int32_t one[] = {1, 1};
    struct ps_optimizer_config config;
    begin(0, NULL, 0);
    ps_optimizer_config_defaults(&config);
    (void)ps_optimizer_config_choose(&config, "add");
    config.add_overflow = 2;
    ck_assert_int_eq(
        world_init_param(&resident, "sum", PS_I32, most, sizeof most, config_bytes(&config)),
        PS_OK);
    ck_assert_int_eq(world_finish(&resident), PS_OK);

    ck_assert_int_eq(world_push(&resident, "sum", PS_I32, one, sizeof one, NULL),
                     PS_ERR_OUT_OF_RANGE);

    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 0);
    end();
}
END_TEST

START_TEST(a_lost_shard_gives_the_memory_of_the_device_back)
{
    begin(0, NULL, 0);
    init_both(&adam);
    ck_assert_uint_gt(core_device_stats(&device).used_bytes, 0);

    ps_service_reset(resident.service);

    ck_assert_uint_eq(core_device_stats(&device).used_bytes, 0);
    end();
}
END_TEST

START_TEST(a_second_init_takes_the_place_of_the_first)
{
    static const float first[4] = {1, 2, 3, 4};
    static const float second[4] = {5, 6, 7, 8};
    begin(0, NULL, 0);

    ck_assert_int_eq(
        world_init_param(&resident, "w", PS_F32, first, sizeof first, config_of("sgd", 1)), PS_OK);
    ck_assert_int_eq(
        world_init_param(&resident, "w", PS_F32, second, sizeof second, config_of("sgd", 1)),
        PS_OK);
    ck_assert_int_eq(world_finish(&resident), PS_OK);

    ck_assert_uint_eq(core_device_stats(&device).parameter_count, 1);
    world_expect_f32(&resident, "w", second, 4);
    end();
}
END_TEST

/* ---- What goes wrong ---- */

START_TEST(init_survives_any_refused_allocation)
{
    static const float values[4] = {1, 2, 3, 4};
    begin(0, NULL, 0);
    resident.heap.refuse_at = resident.heap.seen + _i;

    enum ps_status status =
        world_init_param(&resident, "w", PS_F32, values, sizeof values, config_of("adam", 1));

    resident.heap.refuse_at = -1;
    ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
    ck_assert_uint_eq(core_device_stats(&device).parameter_count, status == PS_OK ? 1 : 0);
    ck_assert(_i < 36 || status == PS_OK);
    end();
}
END_TEST

START_TEST(a_save_and_a_load_survive_any_refused_allocation)
{
    struct core_world loaded_world;
    struct ps_recovered loaded;
    struct ps_checkpoint_place place;
    begin(0, NULL, 0);
    init_both(&adam);
    push(&resident, &adam, 1);
    resident.heap.refuse_at = resident.heap.seen + _i;
    struct ps_saver saver = disk_saver(&resident, disk);

    enum ps_status status = ps_saver_save(&saver, PS_DEADLINE_NEVER, &place, &resident.error);

    resident.heap.refuse_at = -1;
    ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
    ck_assert_uint_eq(core_device_stats(&device).snapshot_count, 0);
    disk_save(&resident, disk, NULL);
    core_device_world(&loaded_world, &device, 2, true, 0);
    loaded_world.heap.refuse_at = loaded_world.heap.seen + _i;
    status = disk_load(&loaded_world, disk, NULL, &loaded);
    loaded_world.heap.refuse_at = -1;
    ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
    ck_assert_uint_eq(core_device_stats(&device).parameter_count, status == PS_OK ? 2 : 1);
    world_fini(&loaded_world);
    end();
}
END_TEST

/* The probe launches one kernel, our push the second. */
START_TEST(after_the_device_died_nothing_is_acknowledged_read_or_saved)
{
    static float values[ELEMENTS];
    size_t size = 0;
    struct ps_snapshot snapshot;
    begin(0, "launch:2:700", 0);
    init_both(&adam);

    push(&resident, &adam, 1);

    ck_assert_int_eq(world_acknowledge(&resident), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(world_acknowledge(&resident), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(device.deaths, 1);
    ck_assert_int_eq(world_push_as(&resident, "p", 1, 2, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world_pull(&resident, "p", values, sizeof values, &size, NULL),
                     PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(ps_snapshot_take(resident.service, &snapshot, &resident.error),
                     PS_ERR_UNAVAILABLE);
    end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("device_store");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, every_rule_and_type_has_the_bits_of_the_host, 0, KIND_COUNT);
    tcase_add_loop_test(tests, every_encoding_has_the_bits_of_the_host, 0, KIND_COUNT);
    tcase_add_loop_test(tests, a_state_moves_between_device_and_host_with_the_same_bits, 0,
                        KIND_COUNT);
    tcase_add_test(tests, a_reply_waits_for_the_device_and_so_does_that_to_a_repeat);
    tcase_add_test(tests, what_has_no_room_on_the_device_lives_on_the_host);
    tcase_add_test(tests, what_has_room_nowhere_is_refused_with_both_reasons);
    tcase_add_test(tests, a_resident_counts_its_values_on_the_host);
    tcase_add_test(tests, what_is_smaller_than_the_least_lives_on_the_host);
    tcase_add_test(tests, what_must_see_the_values_first_lives_on_the_host);
    tcase_add_test(tests, a_lost_shard_gives_the_memory_of_the_device_back);
    tcase_add_test(tests, a_second_init_takes_the_place_of_the_first);
    tcase_add_loop_test(tests, init_survives_any_refused_allocation, 0, 40);
    tcase_add_loop_test(tests, a_save_and_a_load_survive_any_refused_allocation, 0, 40);
    tcase_add_test(tests, after_the_device_died_nothing_is_acknowledged_read_or_saved);
    return run_tests("device_store", tests);
}
