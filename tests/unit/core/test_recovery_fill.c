/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_fill.c: what was saved comes back, bit for bit, or not at all. */
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/recovery_fill.h"
#include "tests/unit/core/core_disk.h"
#include "tests/unit/core/core_kinds.h"

#include <string.h>

static const float ones[] = {1, 1, 1, 1};
static const struct ps_bytes no_config = {NULL, 0};

/* Loads `place` into a fresh world. */
static enum ps_status load_place(struct core_world *world, struct memory_files *disk,
                                 const struct ps_checkpoint_place *place)
{
    struct ps_checkpoint_reader *reader;
    ck_assert_int_eq(ps_checkpoint_open(memory_files_files(disk), place->path, &world->memory,
                                        &reader, &world->error),
                     PS_OK);
    enum ps_status status = ps_recovery_fill(world->service, reader, NULL, &world->error);
    ps_checkpoint_close(reader);
    if (status == PS_OK)
        ps_recovery_finish(world->service, place->position);
    return status;
}

static void push_some(struct core_world *world, const struct kind *kind, uint64_t seed)
{
    static uint64_t elements[ELEMENTS];
    for (uint64_t i = 0; i < 3; i++) {
        size_t size = make_elements(kind->dtype, seed + i, elements);
        ck_assert_int_eq(world_push(world, "p", gradient_of(kind), elements, size, NULL), PS_OK);
    }
}

START_TEST(p5_loaded_bits_are_the_saved_ones_and_go_on_alike)
{
    const struct kind *kind = &kinds[_i];
    static uint64_t elements[ELEMENTS];
    struct core_world saved;
    struct core_world loaded;
    struct memory_files *disk = memory_files_create(1);
    struct ps_checkpoint_place place;
    disk_world_init(&saved, 1);
    ps_service_begin_empty(saved.service);
    size_t size = make_elements(kind->dtype, 99, elements);
    ck_assert_msg(world_init_param(&saved, "p", kind->dtype, elements, size, kind_config(kind)) ==
                      PS_OK,
                  "%s", saved.error.text);
    ck_assert_int_eq(world_finish(&saved), PS_OK);
    push_some(&saved, kind, 7);
    disk_save(&saved, disk, &place);

    disk_world_init(&loaded, 2);
    ck_assert_msg(load_place(&loaded, disk, &place) == PS_OK, "%s", loaded.error.text);

    disk_expect_equal(&saved, &loaded);
    push_some(&saved, kind, 70);
    push_some(&loaded, kind, 70);
    disk_expect_equal(&saved, &loaded);
    world_fini(&saved);
    world_fini(&loaded);
    memory_files_destroy(disk);
}
END_TEST

/* A disk with one checkpoint of world_init_ready's parameter and one of Adam over two blocks. */
static struct memory_files *create_disk(struct core_world *world, struct ps_checkpoint_place *place)
{
    static float many[PS_BLOCK_BYTES / 4 + 3];
    struct memory_files *disk = memory_files_create(1);
    disk_world_init(world, 1);
    ps_service_begin_empty(world->service);
    ck_assert_int_eq(world_init_param(world, "w", PS_F32, ones, sizeof ones, no_config), PS_OK);
    ck_assert_int_eq(
        world_init_param(world, "many", PS_F32, many, sizeof many, config_of("adam", 0.1)), PS_OK);
    ck_assert_int_eq(world_finish(world), PS_OK);
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
        many[i] = (float)i;
    ck_assert_int_eq(world_push(world, "many", PS_F32, many, sizeof many, NULL), PS_OK);
    ck_assert_int_eq(world_push(world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    disk_save(world, disk, place);
    return disk;
}

START_TEST(arrays_of_several_blocks_come_back)
{
    struct core_world saved;
    struct core_world loaded;
    struct ps_checkpoint_place place;
    struct memory_files *disk = create_disk(&saved, &place);
    disk_world_init(&loaded, 2);

    ck_assert_int_eq(load_place(&loaded, disk, &place), PS_OK);

    disk_expect_equal(&saved, &loaded);
    world_fini(&saved);
    world_fini(&loaded);
    memory_files_destroy(disk);
}
END_TEST

START_TEST(a_loaded_shard_is_ready_and_initialised)
{
    struct core_world saved;
    struct core_world loaded;
    struct ps_checkpoint_place place;
    struct memory_files *disk = create_disk(&saved, &place);
    struct ps_ticket ticket;
    disk_world_init(&loaded, 2);
    int told = loaded.changed_count;

    ck_assert_int_eq(load_place(&loaded, disk, &place), PS_OK);

    ck_assert_int_gt(loaded.changed_count, told);
    ck_assert_str_eq(ps_service_state_name(loaded.service), "ready");
    ck_assert_int_eq(world_init_param(&loaded, "x", PS_F32, ones, sizeof ones, no_config),
                     PS_ERR_EXISTS);
    ck_assert_int_eq(ps_service_finish(loaded.service, NULL, &ticket, NULL), PS_ERR_EXISTS);
    ck_assert(ps_service_satisfied(loaded.service, ticket));
    world_fini(&saved);
    world_fini(&loaded);
    memory_files_destroy(disk);
}
END_TEST

START_TEST(the_position_goes_on_where_it_was)
{
    struct core_world saved;
    struct core_world loaded;
    struct ps_checkpoint_place place;
    struct memory_files *disk = create_disk(&saved, &place);
    struct ps_status_reply reply;
    char uuid[37];
    uint64_t version;
    disk_world_init(&loaded, 2);
    ck_assert_int_eq(load_place(&loaded, disk, &place), PS_OK);

    ck_assert_int_eq(world_push(&loaded, "w", PS_F32, ones, sizeof ones, &version), PS_OK);

    ps_service_status(loaded.service, &reply, uuid);
    ck_assert_uint_eq(reply.position, 3);
    ck_assert_uint_eq(reply.push_count, 1);
    ck_assert_uint_eq(version, 2);
    world_fini(&saved);
    world_fini(&loaded);
    memory_files_destroy(disk);
}
END_TEST

/* As saved, and as the job's key has it; 0: nothing is said. */
static const struct {
    uint64_t saved, job;
    enum ps_status status;
} placements[] = {{17, 17, PS_OK}, {17, 0, PS_OK}, {0, 17, PS_OK}, {17, 18, PS_ERR_UNSUPPORTED}};

START_TEST(a_checkpoint_of_another_placement_is_refused_and_one_that_is_loaded_keeps_it)
{
    struct core_world saved;
    struct core_world other;
    struct ps_checkpoint_place place;
    struct memory_files *disk = memory_files_create(1);
    const struct ps_finish_request finish = {.placement = placements[_i].saved};
    struct ps_ticket ticket;
    disk_world_init(&saved, 1);
    ps_service_begin_empty(saved.service);
    ck_assert_uint_eq(ps_service_placement(saved.service), 0);
    ck_assert_int_eq(ps_service_finish(saved.service, &finish, &ticket, NULL), PS_OK);
    disk_save(&saved, disk, &place);
    uint64_t kept = placements[_i].saved != 0 ? placements[_i].saved : 1;
    ck_assert_uint_eq(ps_service_placement(saved.service), kept);

    disk_world_init(&other, 2);
    ps_service_expect_placement(other.service, placements[_i].job);
    ck_assert_int_eq(load_place(&other, disk, &place), placements[_i].status);

    bool is_loaded = placements[_i].status == PS_OK;
    ck_assert_uint_eq(ps_service_placement(other.service), is_loaded ? kept : 0);
    ck_assert(is_loaded || strstr(other.error.text, "placement 17") != NULL);
    world_fini(&saved);
    world_fini(&other);
    memory_files_destroy(disk);
}
END_TEST

START_TEST(a_checkpoint_of_another_shard_is_refused)
{
    struct core_world saved;
    struct core_world other;
    struct ps_checkpoint_place place;
    struct memory_files *disk = create_disk(&saved, &place);
    world_init(&other, true, 0);
    ps_service_own(other.service, _i == 0 ? 0 : 1, 2, 2, "");

    enum ps_status status = load_place(&other, disk, &place);

    ck_assert_int_eq(status, PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(other.error.text, "shard 0 of 1"));
    ck_assert_str_eq(ps_service_state_name(other.service), "starting");
    world_fini(&saved);
    world_fini(&other);
    memory_files_destroy(disk);
}
END_TEST

START_TEST(a_checkpoint_beyond_the_memory_limit_is_refused)
{
    struct core_world saved;
    struct core_world small;
    struct ps_checkpoint_place place;
    struct memory_files *disk = create_disk(&saved, &place);
    world_init(&small, true, 100000);
    world_own(&small, 2);

    enum ps_status status = load_place(&small, disk, &place);

    ck_assert_int_eq(status, PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(small.error.text, "memory limit"));
    world_fini(&saved);
    world_fini(&small);
    memory_files_destroy(disk);
}
END_TEST

START_TEST(a_damaged_array_leaves_the_service_empty)
{
    struct core_world saved;
    struct core_world loaded;
    struct ps_checkpoint_place place;
    struct memory_files *disk = create_disk(&saved, &place);
    disk_damage(disk, place.path);
    disk_world_init(&loaded, 2);
    int64_t live = loaded.heap.live;

    enum ps_status status = load_place(&loaded, disk, &place);

    ck_assert_int_eq(status, PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(loaded.error.text, "checkpoint file checksum validation failed"));
    ck_assert_int_eq(loaded.heap.live, live);
    ck_assert_str_eq(ps_service_state_name(loaded.service), "starting");
    world_fini(&saved);
    world_fini(&loaded);
    memory_files_destroy(disk);
}
END_TEST

START_TEST(loading_survives_any_refused_allocation)
{
    struct core_world saved;
    struct core_world loaded;
    struct ps_checkpoint_place place;
    struct ps_checkpoint_reader *reader;
    struct memory_files *disk = create_disk(&saved, &place);
    disk_world_init(&loaded, 2);
    ck_assert_int_eq(ps_checkpoint_open(memory_files_files(disk), place.path, ps_allocator_heap(),
                                        &reader, NULL),
                     PS_OK);
    int64_t live = loaded.heap.live;
    enum ps_status status = PS_ERR_NO_MEMORY;

    for (int64_t refuse = 0; status != PS_OK; refuse++) {
        ck_assert_int_lt(refuse, 100);
        ck_assert_int_eq(loaded.heap.live, live);
        loaded.heap.refuse_at = loaded.heap.seen + refuse;
        status = ps_recovery_fill(loaded.service, reader, NULL, &loaded.error);
        loaded.heap.refuse_at = -1;
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        ps_service_check(loaded.service);
    }

    ps_checkpoint_close(reader);
    ps_recovery_finish(loaded.service, place.position);
    disk_expect_equal(&saved, &loaded);
    world_fini(&saved);
    world_fini(&loaded);
    memory_files_destroy(disk);
}
END_TEST

/* A crew of several calls, one behind the other. */
static void run_thrice(void *self, void (*work)(void *argument), void *argument)
{
    for (int i = 0; i < 3; i++)
        work(argument);
    *(bool *)self = true;
}

START_TEST(a_crew_loads_the_same)
{
    struct core_world saved;
    struct core_world loaded;
    struct ps_checkpoint_place place;
    struct ps_checkpoint_reader *reader;
    struct memory_files *disk = create_disk(&saved, &place);
    bool asked = false;
    const struct ps_crew crew = {run_thrice, &asked};
    disk_world_init(&loaded, 2);
    ck_assert_int_eq(
        ps_checkpoint_open(memory_files_files(disk), place.path, &loaded.memory, &reader, NULL),
        PS_OK);

    ck_assert_int_eq(ps_recovery_fill(loaded.service, reader, &crew, NULL), PS_OK);

    ps_checkpoint_close(reader);
    ps_recovery_finish(loaded.service, place.position);
    disk_expect_equal(&saved, &loaded);
    ck_assert(asked);
    world_fini(&saved);
    world_fini(&loaded);
    memory_files_destroy(disk);
}
END_TEST

/* Files with good checksums that no InitParam could have made. */
struct forged {
    const char *config; /* of config_size bytes */
    size_t config_size;
    uint32_t state_count;
    uint64_t version;
    uint64_t step;
    enum ps_dtype dtype;
};
static const struct forged forgeries[] = {
    {"\xff\xff", 2, 0, 1, 1, PS_F32}, /* no configuration */
    {"", 0, 1, 1, 1, PS_F32},         /* a state too many for sgd */
    {"\x08\x04", 2, 1, 1, 1, PS_F32}, /* a state too few for adam */
    {"\x08\x04", 2, 2, 1, 1, PS_I32}, /* adam on whole numbers */
    {"", 0, 0, 1, 2, PS_F32},         /* more steps than pushes */
};

START_TEST(a_forged_parameter_is_refused)
{
    const struct forged *forged = &forgeries[_i];
    struct core_world world;
    struct memory_files *disk = memory_files_create(1);
    struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
    struct ps_checkpoint_place place;
    struct ps_checkpoint_facts facts = {
        .uuid = "00000000-0000-4000-8000-000000000000", .shard_count = 1, .epoch = 1, .job = ""};
    struct ps_checkpoint_parameter parameter = {
        .name = text("w"),
        .dtype = forged->dtype,
        .count = 4,
        .config = {(const uint8_t *)forged->config, forged->config_size},
        .version = forged->version,
        .step = forged->step,
        .state_count = forged->state_count,
        .values = ps_view_of(&piece),
        .states = {ps_view_of(&piece), ps_view_of(&piece)}};
    ck_assert_int_eq(ps_checkpoint_write(memory_files_files(disk), DISK_FOLDER, &facts, &parameter,
                                         1, ps_allocator_heap(), &place, NULL),
                     PS_OK);
    disk_world_init(&world, 2);

    enum ps_status status = load_place(&world, disk, &place);

    ck_assert_int_eq(status, PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(world.error.text, "checkpoint: Name: w"));
    world_fini(&world);
    memory_files_destroy(disk);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("load");
    tcase_add_loop_test(tests, p5_loaded_bits_are_the_saved_ones_and_go_on_alike, 0, KIND_COUNT);
    tcase_add_test(tests, arrays_of_several_blocks_come_back);
    tcase_add_test(tests, a_loaded_shard_is_ready_and_initialised);
    tcase_add_test(tests, the_position_goes_on_where_it_was);
    tcase_add_loop_test(
        tests, a_checkpoint_of_another_placement_is_refused_and_one_that_is_loaded_keeps_it, 0, 4);
    tcase_add_loop_test(tests, a_checkpoint_of_another_shard_is_refused, 0, 2);
    tcase_add_test(tests, a_checkpoint_beyond_the_memory_limit_is_refused);
    tcase_add_test(tests, a_damaged_array_leaves_the_service_empty);
    tcase_add_test(tests, loading_survives_any_refused_allocation);
    tcase_add_test(tests, a_crew_loads_the_same);
    tcase_add_loop_test(tests, a_forged_parameter_is_refused, 0, (int)PS_ARRAY_COUNT(forgeries));
    return run_tests("load", tests);
}
