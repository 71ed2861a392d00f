/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong in a random world: processes, the network, the store, disks. Each fault is one
 * function, and ends by itself after a while or with the healing. */
#include "tests/sim/sim_random_life.h"

#include "tests/sim/sim_checker.h"
#include "tests/sim/sim_server.h"

#define FAULTS_MS 60000 /* how long things go wrong */

typedef void (*fault_fn)(struct sim_life *life);

static void resume_server(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    (void)world;
    (void)b;
    if (server->running && server->paused && server->generation == generation)
        sim_server_resume(server);
}

static struct sim_server *any_server(struct sim_life *life)
{
    struct sim_world *world = life->world;
    return &world->servers[sim_between(world, 0, world->options.server_count - 1)];
}

static struct sim_client *any_client(struct sim_life *life)
{
    struct sim_world *world = life->world;
    return &world->clients[sim_between(world, 0, world->options.client_count - 1)];
}

static void join(struct sim_world *world, void *subject, uint64_t a, uint64_t b)
{
    (void)subject;
    world->cut[a][b] = false;
}

static void cut_for_a_while(struct sim_life *life, uint32_t a, uint32_t b)
{
    struct sim_world *world = life->world;
    uint64_t span_ms = sim_between(world, 200, 10000);
    uint64_t ways = sim_between(world, 1, 3);
    sim_trace(world, "net", "cuts node %u and node %u, ways %d", a, b, (int)ways);
    world->cut[a][b] = world->cut[a][b] || (ways & 1) != 0;
    world->cut[b][a] = world->cut[b][a] || (ways & 2) != 0;
    sim_post(world, span_ms, join, world, a, b);
    sim_post(world, span_ms, join, world, b, a);
}

static void cut_from_store(struct sim_life *life)
{
    uint32_t server = any_server(life)->number;
    cut_for_a_while(life, sim_node_of_server(life->world, server), SIM_NODE_STORE);
}

static void cut_client_from_store(struct sim_life *life)
{
    uint32_t client = any_client(life)->number;
    cut_for_a_while(life, sim_node_of_client(life->world, client), SIM_NODE_STORE);
}

static void cut_client_from_server(struct sim_life *life)
{
    uint32_t client = any_client(life)->number;
    cut_for_a_while(life, sim_node_of_client(life->world, client),
                    sim_node_of_server(life->world, any_server(life)->number));
}

static void store_up(struct sim_world *world, void *subject, uint64_t a, uint64_t b)
{
    (void)subject;
    (void)a;
    (void)b;
    world->store_down = false;
}

static void store_goes_down(struct sim_life *life)
{
    struct sim_world *world = life->world;
    sim_trace(world, "etcd", "is down");
    world->store_down = true;
    sim_post(world, sim_between(world, 200, 8000), store_up, world, 0, 0);
}

static void crash(struct sim_life *life)
{
    struct sim_world *world = life->world;
    struct sim_server *server = any_server(life);
    if (!server->running)
        return;
    sim_server_crash(server, sim_chance(world, 500));
    sim_post(world, sim_between(world, 100, 8000), sim_life_start_server, server, 0, 0);
}

static void crash_server(struct sim_world *world, void *subject, uint64_t generation, uint64_t b)
{
    struct sim_server *server = subject;
    (void)b;
    if (!server->running || server->generation != generation)
        return;
    sim_server_crash(server, sim_chance(world, 500));
    sim_post(world, sim_between(world, 100, 3000), sim_life_start_server, server, 0, 0);
}

/* A trainer does not hear what became of its push, the others go on, and the server dies before the
 * repeat comes: what it knew of the trainer has to come out of its checkpoint and journal. */
static void answers_are_lost(struct sim_life *life)
{
    struct sim_world *world = life->world;
    struct sim_server *server = any_server(life);
    if (!server->running)
        return;
    uint32_t from = sim_node_of_server(world, server->number);
    uint32_t to = sim_node_of_client(world, any_client(life)->number);
    world->drop_next[from][to] += (uint32_t)sim_between(world, 1, 3);
    sim_post(world, sim_between(world, 50, 3000), crash_server, server, server->generation, 0);
}

static void die_in_save(struct sim_life *life)
{
    struct sim_server *server = any_server(life);
    if (server->running)
        server->die_at_operation = (int64_t)sim_between(life->world, 0, 12);
}

static void journal_goes_wrong(struct sim_life *life)
{
    struct sim_world *world = life->world;
    struct sim_server *server = any_server(life);
    if (!server->running || !world->options.journals)
        return;
    server->journal.fate =
        (enum sim_journal_fate)sim_between(world, SIM_JOURNAL_FAILS, SIM_JOURNAL_DIES_AFTER);
    /* In the midst of the sync most is in doubt. */
    server->journal.operation = sim_chance(world, 500) ? 1 : (int64_t)sim_between(world, 0, 2);
    server->journal.keeps_power = sim_chance(world, 300);
}

static void stop(struct sim_life *life)
{
    struct sim_world *world = life->world;
    struct sim_server *server = any_server(life);
    if (!server->running || server->paused)
        return;
    sim_server_stop(server);
    sim_post(world, sim_between(world, 5000, 15000), sim_life_start_server, server, 0, 0);
}

static void pause_server(struct sim_life *life)
{
    struct sim_world *world = life->world;
    struct sim_server *server = any_server(life);
    if (!server->running || server->paused)
        return;
    sim_server_pause(server);
    sim_post(world, sim_between(world, 100, 12000), resume_server, server, server->generation, 0);
}

/* A server sleeps until another one has its shard, and wakes up with a checkpoint that it has
 * begun; the other one dies in its first, so that files of both are what is left. */
static void sleep_too_long(struct sim_life *life)
{
    struct sim_world *world = life->world;
    struct sim_server *server = any_server(life);
    uint64_t span_ms = world->options.ttl_ms + sim_between(world, 0, 3000);
    if (!server->running || server->paused || server->claim.epoch == 0)
        return;
    for (uint32_t i = 0; i < world->options.server_count; i++) {
        struct sim_server *spare = &world->servers[i];
        if (spare->running && spare->claim.epoch == 0)
            spare->die_at_operation = (int64_t)sim_between(world, 0, 6);
    }
    sim_server_pause(server);
    sim_post(world, span_ms, resume_server, server, server->generation, 0);
}

static void unclear_commit(struct sim_life *life)
{
    struct sim_world *world = life->world;
    struct sim_server *server = any_server(life);
    enum sim_fate fate = (enum sim_fate)sim_between(world, SIM_FATE_BEFORE, SIM_FATE_LATE);
    if (!server->running)
        return;
    if (sim_chance(world, 500))
        server->kv->next_commit = fate;
    else
        server->job_kv->next_commit = fate;
}

/* One damaged file at a time: two generations survive no more, and more is not asked for. Before
 * the first pointer there is one generation, whatever attempts lie beside it: the first publication
 * sweeps those. */
static void damage(struct sim_life *life)
{
    struct sim_files_view view;
    struct ps_bytes content;
    struct sim_world *world = life->world;
    uint32_t shard = (uint32_t)sim_between(world, 0, world->options.shard_count - 1);
    sim_checker_look_at_files(world, shard, &view);
    if (!view.is_published || view.usable_count < 2 || view.damaged_count > 0 ||
        world->brittle[shard] || world->failing[shard] ||
        !memory_files_get(world->disks[shard], view.newest, &content))
        return;
    memory_files_flip(world->disks[shard], view.newest,
                      sim_between(world, 0, content.size * 8 - 1));
    world->brittle[shard] = world->options.journals;
    sim_trace(world, "disk", "the newest checkpoint of shard %u is damaged", shard);
}

static void disk_fine(struct sim_world *world, void *subject, uint64_t shard, uint64_t b)
{
    (void)subject;
    (void)b;
    memory_files_knobs(world->disks[shard])->bytes_max = 0;
}

static void disk_full(struct sim_life *life)
{
    struct sim_world *world = life->world;
    uint32_t shard = (uint32_t)sim_between(world, 0, world->options.shard_count - 1);
    struct memory_files *disk = world->disks[shard];
    sim_trace(world, "disk", "of shard %u is full", shard);
    memory_files_knobs(disk)->bytes_max = memory_files_bytes(disk) + sim_between(world, 1, 2000);
    sim_post(world, sim_between(world, 500, 8000), disk_fine, world, shard, 0);
}

static void client_dies(struct sim_life *life)
{
    struct sim_client *client = any_client(life);
    if (client->running)
        sim_client_crash(client);
    sim_life_start_client(life, client);
}

static void client_pauses(struct sim_life *life)
{
    struct sim_client *client = any_client(life);
    if (client->running)
        sim_client_pause(client, sim_between(life->world, 100, 12000));
}

void sim_life_go_wrong(struct sim_life *life)
{
    static const fault_fn faults[] = {
        crash,
        crash,
        answers_are_lost,
        answers_are_lost,
        die_in_save,
        stop,
        damage,
        pause_server,
        pause_server,
        sleep_too_long,
        cut_from_store,
        disk_full,
        cut_from_store,
        unclear_commit,
        cut_client_from_server,
        store_goes_down,
        client_dies,
        client_pauses,
        cut_client_from_store,
        journal_goes_wrong,
        journal_goes_wrong,
    };
    struct sim_world *world = life->world;
    uint64_t end_ms = sim_now(world) + FAULTS_MS;
    uint64_t calm_ms = sim_between(world, 300, 4000);
    while (!world->failed && sim_now(world) < end_ms) {
        faults[sim_between(world, 0, sizeof faults / sizeof faults[0] - 1)](life);
        life->faults++;
        sim_run(world, sim_between(world, 1, 2 * calm_ms));
    }
}
