/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of server programs: what goes wrong, and the accounts at the end. */
#include "tests/sim/sim_programs.h"

#include "base/assert.h"

#include <inttypes.h>

enum { TURNS_MAX = 500, HEAL_MS = 60000, ASK_MS_MAX = 3000 };

/* ---- Requests ---- */

void sim_prg_fill(uint8_t *content, size_t size, uint64_t number, bool is_answer)
{
    for (size_t i = 0; i < size; i++)
        content[i] = (uint8_t)(number * 131 + i + i / 200 + (is_answer ? 7 : 0));
}

/* The heart of the checks: a request is begun once, unless its program says that others may have
 * begun it; and nobody begins what its worker was told that nobody would. */
struct prg_request *sim_prg_run(struct prg_world *world, uint64_t number, bool again)
{
    if (number == 0 || number > world->request_count) {
        sim_small_fail(&world->small, "somebody has request %" PRIu64 ", which there is not",
                       number);
        return NULL;
    }
    struct prg_request *request = &world->requests[number - 1];
    sim_small_trace(&world->small, "request %" PRIu64 " is begun%s", number, again ? " again" : "");
    request->runs++;
    world->small.result.counts[PRG_RUNS]++;
    world->small.result.counts[PRG_TAKEN_AGAIN] += again;
    if (request->runs > 1 && !again)
        sim_small_fail(&world->small, "request %" PRIu64 " is carried out twice", number);
    if (again && request->app != PRG_AGAIN)
        sim_small_fail(&world->small, "request %" PRIu64 " is given out again", number);
    if (request->is_untaken)
        sim_small_fail(&world->small,
                       "request %" PRIu64 " is begun, and nobody was said to take it", number);
    return request;
}

/* ---- What happens ---- */

static void crash_or_lose(struct sim_small *small)
{
    struct sim_small_server *server = sim_small_any_server(small);
    if (server->service != NULL && sim_small_chance(small, 300))
        sim_prg_server_lose(server);
    else
        sim_small_server_dies(server, 1500);
}

static struct sim_small_client *any_program(struct sim_small *small)
{
    return &small->clients[sim_small_between(small, small->worker_count, small->client_count - 1)];
}

/* Programs take whenever they have nothing else to do. */
static void programs_take(struct prg_world *world)
{
    struct sim_small *small = &world->small;
    for (uint32_t i = small->worker_count; i < small->client_count; i++)
        if (small->is_healed || small->is_calm || sim_small_chance(small, 700))
            sim_prg_take(&world->clients[i], sim_small_between(small, 50, 1000));
}

static void do_something(struct sim_small *small)
{
    uint64_t what = sim_small_between(small, 0, 999);
    uint32_t shard = (uint32_t)sim_small_between(small, 0, small->shard_count - 1);
    enum prg_app app = (enum prg_app)sim_small_between(small, 0, PRG_APPS - 1);
    programs_take(sim_prg_world(small));
    if (what < 750)
        sim_prg_ask(sim_prg_client(sim_small_any_worker(small)), shard, app,
                    small->is_calm ? 60000 : sim_small_between(small, 20, ASK_MS_MAX));
    else if (what < 950 || small->is_calm)
        sim_prg_meet(sim_prg_client(sim_small_any_worker(small)),
                     (uint32_t)sim_small_between(small, 0, PRG_BARRIERS - 1),
                     small->is_calm ? 60000 : sim_small_between(small, 50, ASK_MS_MAX));
    else if (what < 975)
        crash_or_lose(small);
    else
        sim_small_client_dies(
            sim_small_chance(small, 500) ? sim_small_any_worker(small) : any_program(small), 800);
}

/* ---- The end ---- */

/* Every barrier has let everybody go who came to the last round that anybody has come to. */
static bool has_met(const struct prg_world *world, uint32_t barrier)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < world->small.worker_count; i++)
        last = world->clients[i].rounds[barrier] > last ? world->clients[i].rounds[barrier] : last;
    for (uint32_t i = 0; i < world->small.worker_count; i++)
        if (world->clients[i].passed[barrier] < last)
            return false;
    return true;
}

static bool have_all_met(const struct prg_world *world)
{
    for (uint32_t i = 0; i < PRG_BARRIERS; i++)
        if (!has_met(world, i))
            return false;
    return true;
}

/* Of two that come in different rounds the second hears of the first one's. Whoever is behind comes
 * when those ahead of it are there, and hears that its round is over; two that are behind could
 * otherwise keep one that is ahead away for good. */
static bool comes(struct prg_world *world, uint32_t worker, uint32_t barrier)
{
    for (uint32_t i = 0; i < world->small.worker_count; i++)
        if (world->clients[i].passed[barrier] > world->clients[worker].passed[barrier] &&
            !sim_prg_is_meeting(&world->clients[i], barrier))
            return false;
    return world->small.clients[worker].engine != NULL && sim_small_chance(&world->small, 300);
}

/* Nothing goes wrong any more: all who wait are answered, and whoever has not met comes. */
static void settle(struct prg_world *world)
{
    struct sim_small *small = &world->small;
    uint64_t end_ms = small->fake.now_ms + HEAL_MS;
    do {
        programs_take(world);
        for (uint32_t barrier = 0; barrier < PRG_BARRIERS; barrier++)
            for (uint32_t i = 0; !has_met(world, barrier) && i < small->worker_count; i++)
                if (comes(world, i, barrier))
                    sim_prg_meet(&world->clients[i], barrier, sim_small_between(small, 100, 2000));
        sim_small_run(small, 20);
    } while (!small->result.failed && !(sim_small_is_quiet(small) && have_all_met(world)) &&
             small->fake.now_ms < end_ms);
    if (!sim_small_is_quiet(small))
        sim_small_fail(small, "somebody still waits %d ms after the healing", HEAL_MS);
    if (!have_all_met(world))
        sim_small_fail(small, "somebody is still at a barrier %d ms after the healing", HEAL_MS);
}

/* What a new request gets behind all that: an answer, of every app at every server. Behind the
 * leases of programs that have died just before, which may be given a request yet. */
static void ask_all(struct prg_world *world)
{
    struct sim_small *small = &world->small;
    sim_small_run(small, 2000);
    uint64_t before = small->result.counts[PRG_ANSWERED], asked = 0;
    for (uint32_t shard = 0; shard < small->shard_count; shard++) {
        for (int app = 0; app < PRG_APPS && !small->result.failed; app++) {
            sim_prg_ask(&world->clients[0], shard, (enum prg_app)app, 20000);
            asked++;
            settle(world);
        }
    }
    if (!small->result.failed && world->request_count < PRG_REQUESTS_MAX &&
        small->result.counts[PRG_ANSWERED] != before + asked)
        sim_small_fail(small, "requests behind the healing are not answered");
}

static void finish(struct sim_small *small)
{
    settle(sim_prg_world(small));
    if (!small->result.failed)
        ask_all(sim_prg_world(small));
}

/* ---- The kind ---- */

const struct sim_small_kind sim_small_kind = {
    .counted = {"requests", "begun", "begun again", "answered", "aborted", "that nobody took",
                "members let go at barriers", "late there"},
    .mutations = SIM_PROGRAMS_MUTATIONS,
    .world_bytes = sizeof(struct prg_world),
    .shards_max = PRG_SHARDS_MAX,
    .workers_max = PRG_WORKERS_MAX,
    .beside = PRG_BESIDE,
    .turns_max = TURNS_MAX,
    .repeats = true,
    .start_server = sim_prg_server_start,
    .start_client = sim_prg_client_start,
    .end_client = sim_prg_client_end,
    .is_idle = sim_prg_client_is_idle,
    .go_on = sim_prg_client_go_on,
    .serve = sim_prg_serve,
    .write_reply = sim_prg_write_reply,
    .act = do_something,
    .finish = finish};
