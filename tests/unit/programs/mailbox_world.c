/* SPDX-License-Identifier: Apache-2.0 */
/* What every test of the mailbox does with it, with the invariants looked at behind each step. */
#include "mailbox_world.h"

#include <string.h>

struct ps_mailbox world;
struct ps_error world_error;
struct ps_mailbox_now world_now;
static uint64_t turn;

struct ps_mailbox_bounds world_bounds(void)
{
    return (struct ps_mailbox_bounds){.bytes_max = 1 << 20,
                                      .kept_bytes_max = 1 << 18,
                                      .kept_max = 1000,
                                      .kept_ms = 1000,
                                      .apps_max = 10,
                                      .requests_max = 1000,
                                      .parties_max = 10,
                                      .lease_ms = 100,
                                      .hold_ms = 50};
}

void world_begin_with(const struct ps_allocator *memory, const struct ps_mailbox_bounds *bounds)
{
    world_now = (struct ps_mailbox_now){1000, 1000000};
    turn = 0;
    ps_mailbox_init(&world, memory, bounds, WORLD_LIFE);
}

void world_begin(void)
{
    const struct ps_mailbox_bounds bounds = world_bounds();
    world_begin_with(ps_allocator_heap(), &bounds);
}

void world_end(void)
{
    ps_mailbox_check(&world);
    ps_mailbox_fini(&world);
}

void world_pass(uint64_t ms)
{
    world_now.ms += ms;
    world_now.unix_ns += ms * 1000000;
}

struct ps_ask_request world_request(uint32_t worker, int32_t command)
{
    return (struct ps_ask_request){
        .asked = {.app = WORLD_APP, .worker = worker, .command = command}};
}

struct ps_parcel *world_parcel(const char *text)
{
    const struct ps_bytes piece = ps_bytes_of_text(text);
    const struct ps_program_tensor tensor = {.size = piece.size};
    const struct ps_program_payload payload = {
        .tensors = &tensor, .tensor_count = 1, .content = ps_view_of(&piece)};
    struct ps_parcel *parcel = ps_parcel_create(ps_allocator_heap(), &payload, NULL);
    ck_assert_ptr_nonnull(parcel);
    return parcel;
}

enum ps_status world_ask(const struct ps_ask_request *request, const char *text,
                         struct ps_asking *asking)
{
    const struct ps_program_room room = {.size = 0};
    bool wakes;
    enum ps_status status = ps_mailbox_ask(&world, request, world_parcel(text), &room, world_now,
                                           asking, &wakes, &world_error);
    ps_mailbox_check(&world);
    return status;
}

struct ps_asking world_asked(uint32_t worker, int32_t command)
{
    const struct ps_ask_request request = world_request(worker, command);
    struct ps_asking asking;
    ck_assert_int_eq(world_ask(&request, "", &asking), PS_OK);
    return asking;
}

enum ps_status world_look(struct ps_asking *asking, char text[64])
{
    struct ps_ask_reply reply;
    struct ps_parcel *parcel;
    enum ps_status status = ps_mailbox_await(&world, asking, world_now, false, &world_error);
    if (status == PS_OK) {
        ps_asking_answer(asking, &reply, &parcel);
        size_t size = reply.payload.content.size;
        ck_assert_uint_lt(size, 64);
        ps_view_copy(reply.payload.content, 0, text, size);
        text[size] = '\0';
    }
    return status;
}

void world_stop(struct ps_asking *asking)
{
    (void)ps_mailbox_stop_asking(&world, asking, world_now);
    ps_mailbox_check(&world);
}

static size_t collect(const struct ps_take_request *take, bool is_last, int32_t *commands,
                      uint64_t *handles)
{
    struct ps_taking taking;
    bool wakes;
    ck_assert_int_eq(ps_mailbox_take(&world, take, world_now, &taking, &wakes, &world_error),
                     PS_OK);
    enum ps_status status =
        ps_mailbox_collect(&world, &taking, 1 << 20, is_last, world_now, &world_error);
    ck_assert(status == PS_OK || status == PS_ERR_NOT_READY);
    size_t count = taking.row_count;
    for (size_t i = 0; i < count; i++) {
        if (commands != NULL)
            commands[i] = taking.rows[i].asked.command;
        if (handles != NULL)
            handles[i] = taking.rows[i].handle;
    }
    ps_mailbox_stop_taking(&world, &taking, world_now);
    ps_mailbox_check(&world);
    return count;
}

size_t world_take(uint64_t taker, uint32_t max, int32_t *commands, uint64_t *handles)
{
    const struct ps_take_request take = {
        .app = WORLD_APP, .taker = taker, .turn = ++turn, .max = max};
    return collect(&take, false, commands, handles);
}

size_t world_take_gang(uint64_t taker, const uint32_t *workers, size_t count, bool partial,
                       bool is_last, int32_t *commands, uint64_t *handles)
{
    const struct ps_take_request take = {.app = WORLD_APP,
                                         .taker = taker,
                                         .turn = ++turn,
                                         .workers = workers,
                                         .worker_count = count,
                                         .partial = partial};
    return collect(&take, is_last, commands, handles);
}

enum ps_status world_answer(uint64_t taker, uint64_t handle, const char *text, uint64_t token)
{
    const struct ps_mailbox_answer answer = {
        .handle = handle, .taker = taker, .token = token, .parcel = world_parcel(text)};
    bool wakes;
    enum ps_status status = ps_mailbox_answer(&world, &answer, world_now, &wakes);
    ps_mailbox_check(&world);
    return status;
}
