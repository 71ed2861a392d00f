/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle in a test. */
#include "tests/unit/core/core_serve.h"

#include <string.h>

static const float four[] = {1, 1, 1, 1};

const struct ps_serve_turn turn = {.may_wait = true};
const struct ps_serve_turn hurried = {.may_wait = false};
const struct ps_serve_turn leaving = {.may_leave = true, .may_wait = true};
const struct ps_bytes ones = {(const uint8_t *)four, sizeof four};

struct core_world world;
struct ps_serve serve;
struct ps_error error;
struct ps_push_result pushes[ITEMS_MAX];
struct ps_served_pull pulls[ITEMS_MAX];

static struct ps_arena texts;
static struct ps_push_request push_requests[ITEMS_MAX];
static struct ps_pull_request pull_requests[ITEMS_MAX];
static bool begun;

void serve_begin(void)
{
    memset(pushes, 0, sizeof pushes);
    memset(pulls, 0, sizeof pulls);
    begun = false;
    serve = (struct ps_serve){.service = world.service,
                              .request = {.pushes = push_requests, .pulls = pull_requests},
                              .pushes = pushes,
                              .pulls = pulls,
                              .texts = &texts,
                              .error = &error};
    ps_arena_init(&texts, &world.memory, ITEMS_MAX * sizeof error.text);
}

void serve_begin_ready(void)
{
    world_init_ready(&world);
    serve_begin();
}

void serve_begin_journal(void)
{
    world_init_journal(&world);
    serve_begin();
}

void serve_end(void)
{
    ps_serve_release_pulls(&serve);
    ps_arena_release(&texts);
    world_fini(&world);
}

struct ps_push_request *serve_add_push(const char *name)
{
    struct ps_push_request *push = &push_requests[serve.request.push_count++];
    *push =
        (struct ps_push_request){.name = text(name), .dtype = PS_F32, .content = ps_view_of(&ones)};
    return push;
}

struct ps_pull_request *serve_add_pull(const char *name)
{
    struct ps_pull_request *pull = &pull_requests[serve.request.pull_count++];
    *pull = (struct ps_pull_request){.name = text(name)};
    return pull;
}

enum ps_serve_progress serve_step(struct ps_serve_turn allowed)
{
    if (!begun)
        ps_serve_begin(&serve);
    begun = true;
    return ps_serve_step(&serve, allowed);
}

void serve_expect_pulled(float first)
{
    float got[4];
    ck_assert_int_eq(pulls[0].status.status, PS_OK);
    ck_assert_uint_eq(pulls[0].pull.reply.content.size, sizeof got);
    ps_view_copy(pulls[0].pull.reply.content, 0, got, sizeof got);
    ck_assert_float_eq(got[0], first);
}
