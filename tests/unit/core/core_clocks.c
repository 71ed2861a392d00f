/* SPDX-License-Identifier: Apache-2.0 */
/* As the calls do, without their messages. */
#include "core_clocks.h"

struct ps_clocks_reply clocks_reply;
struct ps_pull_wait clocks_wait;

static struct ps_request_id numbered(uint64_t sequence)
{
    return (struct ps_request_id){
        .present = sequence > 0, .client_id = text("client"), .session = 1, .sequence = sequence};
}

enum ps_status clocks_set(struct core_world *world, uint32_t workers, uint32_t staleness,
                          uint64_t ttl_ms, uint64_t sequence)
{
    const struct ps_set_clocks_request request = {.name = text("c"),
                                                  .workers = workers,
                                                  .consistency = PS_CONSISTENCY_SSP,
                                                  .staleness = staleness,
                                                  .straggler = ttl_ms > 0,
                                                  .ttl_ms = ttl_ms,
                                                  .request = numbered(sequence)};
    return ps_service_set_clocks(world->service, &request, &clocks_reply, &world->wait,
                                 &world->error);
}

enum ps_status clocks_say(struct core_world *world, uint32_t rank, uint64_t clock,
                          uint64_t sequence)
{
    const struct ps_clock_request request = {
        .name = text("c"), .worker = 1 + rank, .clock = clock, .request = numbered(sequence)};
    return ps_service_clock(world->service, &request, &clocks_reply, &world->wait, &world->error);
}

enum ps_status clocks_remove(struct core_world *world, uint64_t sequence)
{
    const struct ps_set_clocks_request request = {
        .name = text("c"), .removes = true, .request = numbered(sequence)};
    return ps_service_set_clocks(world->service, &request, &clocks_reply, &world->wait,
                                 &world->error);
}

enum ps_status clocks_begin(struct core_world *world, uint64_t task, uint64_t clock, char ranks,
                            uint64_t sequence)
{
    const struct ps_set_clocks_request request = {
        .name = text("c"),
        .workers = 3,
        .consistency = PS_CONSISTENCY_SSP,
        .staleness = 1,
        .task = task,
        .clock = clock,
        .ranks = {(const uint8_t *)&ranks, ranks != 0 ? 1 : 0},
        .request = numbered(sequence)};
    return ps_service_set_clocks(world->service, &request, &clocks_reply, &world->wait,
                                 &world->error);
}

enum ps_status clocks_say_in(struct core_world *world, uint64_t task, uint32_t rank, uint64_t clock)
{
    const struct ps_clock_request request = {
        .name = text("c"), .worker = 1 + rank, .clock = clock, .task = task};
    return ps_service_clock(world->service, &request, &clocks_reply, &world->wait, &world->error);
}

enum ps_status clocks_read(struct core_world *world, uint32_t rank, uint64_t clock)
{
    const struct ps_pull_request request = {
        .name = text("w"), .worker = 1 + rank, .clock = clock, .clocks = text("c")};
    struct ps_pull pull = {0};
    enum ps_status status =
        ps_service_pull_or_wait(world->service, &request, &pull, &clocks_wait, &world->error);
    ps_pull_release(&pull);
    return status;
}

static const struct ps_clock_group *group_of(struct core_world *world)
{
    const struct ps_clock_group *group = ps_clocks_find(&world->service->clocks, text("c"));
    ck_assert_ptr_nonnull(group);
    return group;
}

uint64_t clocks_of(struct core_world *world, uint32_t rank)
{
    return ps_clock_group_clock(group_of(world), rank);
}

bool clocks_evicted(struct core_world *world, uint32_t rank)
{
    return group_of(world)->workers[rank].is_evicted;
}
