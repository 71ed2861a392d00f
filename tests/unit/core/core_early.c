/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes in ranges, and the same in one piece beside them. */
#include "core_early.h"

#include "core_kinds.h"
#include "server/core/recovery/snapshot.h"

#include <stdlib.h>
#include <string.h>

/* Cuts at no block's end, each range but the last of 64 KiB at least. */
const struct ps_elements ranges[RANGES] = {
    {0, 20001}, {20001, 50000}, {70001, 16384}, {86385, 55001}, {141386, COUNT - 141386}};

struct core_world world; /* gets ranges */
struct core_world twin;  /* gets the same in one piece */
uint8_t *content;        /* COUNT elements, of any type */
uint8_t *got[2];

void early_fill(enum ps_dtype dtype, uint64_t seed)
{
    uint8_t part[ELEMENTS * 8];
    size_t element_size = ps_dtype_size(dtype);
    for (size_t first = 0; first < COUNT; first += ELEMENTS) {
        size_t rest = COUNT - first;
        (void)make_elements(dtype, seed + first, part);
        memcpy(content + first * element_size, part,
               (rest < ELEMENTS ? rest : ELEMENTS) * element_size);
    }
}

static void begin_one(struct core_world *one, struct ps_service_options options,
                      enum ps_dtype dtype, struct ps_bytes config)
{
    world_init_with(one, &options);
    world_own(one, 1);
    ps_service_begin_empty(one->service);
    ck_assert_int_eq(
        world_init_param(one, "w", dtype, content, COUNT * ps_dtype_size(dtype), config), PS_OK);
    ck_assert_int_eq(world_finish(one), PS_OK);
    if (options.journals) {
        const struct ps_checkpoint_place place = {.epoch = 1};
        ps_service_saved(one->service, (struct ps_ticket){0}, &place);
    }
}

/* Both worlds have "w" with the same content. */
void early_begin_with(bool journals, uint64_t staging_bytes, enum ps_dtype dtype,
                      struct ps_bytes config)
{
    const struct ps_service_options options = {
        .saves = journals, .journals = journals, .staging_bytes = staging_bytes};
    content = malloc(COUNT * 8);
    got[0] = malloc(COUNT * 8);
    got[1] = malloc(COUNT * 8);
    ck_assert(content != NULL && got[0] != NULL && got[1] != NULL);
    early_fill(dtype, 1);
    begin_one(&world, options, dtype, config);
    begin_one(&twin, options, dtype, config);
    early_fill(dtype, 2);
}

void early_begin(bool journals)
{
    early_begin_with(journals, 0, PS_F32, config_of("adam", 0.1));
}

void early_end(void)
{
    ck_assert_uint_eq(world.service->staging.bytes, 0);
    world_fini(&world);
    world_fini(&twin);
    free(content);
    free(got[0]);
    free(got[1]);
}

enum ps_status early_push(struct core_world *to, const char *client, uint64_t sequence,
                          enum ps_dtype dtype, struct ps_elements range)
{
    size_t element_size = ps_dtype_size(dtype);
    struct ps_elements all = {0, COUNT};
    struct ps_elements sent = range.count == 0 ? all : range;
    struct ps_bytes piece = {content + sent.first * element_size, sent.count * element_size};
    struct ps_push_request request = {
        .name = text("w"),
        .dtype = dtype,
        .content = ps_view_of(&piece),
        .range = range,
        .request = {
            .present = true, .client_id = text(client), .session = 1, .sequence = sequence}};
    enum ps_status status =
        ps_service_push(to->service, &request, &to->reply, &to->wait, &to->error);
    ps_service_check(to->service);
    return status;
}

enum ps_status early_push_range(uint64_t sequence, size_t i)
{
    return early_push(&world, "a", sequence, PS_F32, ranges[i]);
}

void early_push_ranges(uint64_t sequence, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        ck_assert_int_eq(early_push_range(sequence, i), PS_OK);
}

void early_push_whole(struct core_world *to, const char *client, uint64_t sequence)
{
    ck_assert_int_eq(early_push(to, client, sequence, PS_F32, (struct ps_elements){0, 0}), PS_OK);
}

enum ps_staging_way early_way_of(const char *client, uint64_t sequence)
{
    const struct ps_request_id id = {
        .present = true, .client_id = text(client), .session = 1, .sequence = sequence};
    return ps_staging_way(&world.service->staging, &id, NULL);
}

/* The values, and through a snapshot the states, are the twin's. */
void early_expect_same(uint64_t version)
{
    struct core_world *const both[2] = {&world, &twin};
    struct ps_snapshot snapshots[2];
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        uint64_t pulled;
        ck_assert_int_eq(world_pull(both[i], "w", got[i], COUNT * 8, &size, &pulled), PS_OK);
        ck_assert_uint_eq(pulled, version);
        ck_assert_int_eq(ps_snapshot_take(both[i]->service, &snapshots[i], NULL), PS_OK);
    }
    const struct ps_checkpoint_parameter *of[2] = {snapshots[0].parameters,
                                                   snapshots[1].parameters};
    ck_assert_uint_eq(of[0]->step, of[1]->step);
    size_t bytes = COUNT * ps_dtype_size(of[0]->dtype);
    for (uint32_t array = 0; array < 1 + of[0]->state_count; array++) {
        for (size_t i = 0; i < 2; i++)
            ps_view_copy(array == 0 ? of[i]->values : of[i]->states[array - 1], 0, got[i], bytes);
        ck_assert_msg(memcmp(got[0], got[1], bytes) == 0, "array %u differs", array);
    }
    for (size_t i = 0; i < 2; i++)
        ps_snapshot_release(&snapshots[i]);
}

/* A push of a range that asks for what it makes. */
void early_push_asking(uint64_t sequence, size_t i, struct ps_pull *made)
{
    struct ps_bytes piece = {content + ranges[i].first * sizeof(float),
                             ranges[i].count * sizeof(float)};
    const struct ps_push_request request = {
        .name = text("w"),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .range = ranges[i],
        .request = {.present = true, .client_id = text("a"), .session = 1, .sequence = sequence}};
    *made = (struct ps_pull){0};
    ck_assert_int_eq(ps_service_push_range(world.service, &request, &world.reply, &world.wait, made,
                                           &world.error),
                     PS_OK);
}
