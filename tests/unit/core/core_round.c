/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of a test are clients of the service like any other, each with an id of its own. */
#include "core_round.h"

#include <stdio.h>

struct ps_bytes round_config(const struct ps_round_settings *rounds)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    config.rounds = (struct ps_config_rounds){rounds->workers, rounds->quorum, rounds->grace_ms,
                                              (int32_t)rounds->combine, (int32_t)rounds->late};
    return config_bytes(&config);
}

void round_begin(struct core_world *world, const struct ps_round_settings *rounds)
{
    static const float zeros[4] = {0};
    ck_assert_int_eq(
        world_init_param(world, "m", PS_F32, zeros, sizeof zeros, round_config(rounds)), PS_OK);
    ck_assert_int_eq(world_finish(world), PS_OK);
}

enum ps_status round_push(struct core_world *world, uint32_t rank, uint64_t round, float value,
                          uint64_t sequence)
{
    char client[16];
    snprintf(client, sizeof client, "worker-%u", (unsigned)rank);
    const float values[4] = {value, value, value, value};
    const struct ps_bytes piece = {(const uint8_t *)values, sizeof values};
    const struct ps_push_request request = {
        .name = text("m"),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .worker = 1 + rank,
        .round = round,
        .request = {
            .present = true, .client_id = text(client), .session = 1, .sequence = sequence}};
    world->reply = (struct ps_push_reply){0};
    return ps_service_push(world->service, &request, &world->reply, &world->wait, &world->error);
}

enum ps_status round_pull(struct core_world *world, uint64_t version, struct ps_pull_wait *wait)
{
    const struct ps_pull_request request = {.name = text("m"), .at_least_version = version};
    struct ps_pull pull = {0};
    enum ps_status status =
        ps_service_pull_or_wait(world->service, &request, &pull, wait, &world->error);
    ps_pull_release(&pull);
    return status;
}

void round_expect(struct core_world *world, float value, uint64_t version)
{
    float values[4];
    size_t size;
    uint64_t present;
    ck_assert_int_eq(world_pull(world, "m", values, sizeof values, &size, &present), PS_OK);
    ck_assert_uint_eq(present, version);
    for (size_t i = 0; i < 4; i++)
        ck_assert_float_eq(values[i], value);
}
