/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of the rendezvous: what goes wrong, and the accounts at the end. */
#include "tests/sim/sim_rendezvous.h"

#include "base/assert.h"

#include <inttypes.h>

enum { TURNS_MAX = 600, HEAL_MS = 30000 };

const char *sim_rdv_key(uint32_t key)
{
    static const char *const texts[RDV_KEYS] = {"a", "b", "c;d", "e"};
    PS_ASSERT(key < RDV_KEYS);
    return texts[key];
}

/* ---- What happens ---- */

/* In a calm world a key has one sender and one receiver at a time, so that there is an order. */
static bool is_taken(const struct rdv_world *world, enum rdv_kind kind, uint32_t step, uint32_t key)
{
    for (uint32_t i = 0; world->small.is_calm && i < world->small.worker_count; i++) {
        for (size_t k = 0; k < RDV_OPS_MAX; k++) {
            const struct rdv_op *op = &world->clients[i].ops[k];
            if (op->kind != kind || op->step != step)
                continue;
            if (kind == RDV_SEND && op->key == key)
                return true;
            for (size_t n = 0; kind == RDV_RECEIVE && n < op->wish_count; n++)
                if (op->key_numbers[n] == key)
                    return true;
        }
    }
    return false;
}

static void send_or_receive(struct rdv_world *world, struct rdv_op *op)
{
    uint32_t step = (uint32_t)sim_small_between(&world->small, 0, RDV_STEPS - 1);
    uint32_t keys[RDV_WISHES_MAX];
    size_t count = (size_t)sim_small_between(&world->small, 1, RDV_WISHES_MAX);
    bool sends = sim_small_chance(&world->small, 500);
    for (size_t i = 0; i < RDV_WISHES_MAX; i++) {
        keys[i] = (uint32_t)sim_small_between(&world->small, 0, RDV_KEYS - 1);
        /* Two wishes of one key in one receive have the order of their ids. */
        if (is_taken(world, sends ? RDV_SEND : RDV_RECEIVE, step, keys[i]) || i >= count)
            count = i < count ? i : count;
    }
    if (sends && count > 0 && world->value_count < RDV_VALUES_MAX)
        sim_rdv_send(op, step, keys[0]);
    else if (!sends && count > 0)
        sim_rdv_receive(op, step, keys, world->small.is_calm ? 1 : count,
                        sim_small_between(&world->small, 1, 3000));
}

static void do_something(struct sim_small *small)
{
    struct rdv_world *world = sim_rdv_world(small);
    static const enum ps_step_act acts[] = {PS_STEP_BEGIN, PS_STEP_ABORT, PS_STEP_CLEANUP};
    struct rdv_client *client = sim_rdv_client(sim_small_any_worker(small));
    struct rdv_op *op = sim_rdv_client_place(client);
    uint64_t what = sim_small_between(small, 0, 999);
    uint32_t step = (uint32_t)sim_small_between(small, 0, RDV_STEPS - 1);
    if (op == NULL)
        return;
    if (what < 850 || small->is_calm)
        send_or_receive(world, op);
    else if (what < 900)
        sim_rdv_control(op, step, acts[sim_small_between(small, 0, 2)]);
    else if (what < 940)
        (void)sim_rdv_flush(op, step);
    else if (what < 970)
        sim_rdv_cancel(op, step);
    else if (what < 985)
        sim_small_server_dies(sim_small_any_server(small), 1500);
    else
        sim_small_client_dies(sim_small_any_worker(small), 500);
}

/* ---- The end ---- */

static void run_until_quiet(struct rdv_world *world)
{
    uint64_t end_ms = world->small.fake.now_ms + HEAL_MS;
    do {
        sim_small_run(&world->small, 100);
    } while (!world->small.result.failed && !sim_small_is_quiet(&world->small) &&
             world->small.fake.now_ms < end_ms);
    if (!sim_small_is_quiet(&world->small))
        sim_small_fail(&world->small, "somebody still waits %d ms after the healing", HEAL_MS);
}

/* What clients still had to tell, and calls that came late. */
static void settle(struct rdv_world *world)
{
    run_until_quiet(world);
    sim_small_run(&world->small, 1000);
    for (uint32_t i = 0; i < world->small.worker_count; i++) {
        for (uint32_t step = 0; step < RDV_STEPS && !world->small.result.failed; step++) {
            struct rdv_op *op = sim_rdv_client_place(&world->clients[i]);
            PS_ASSERT(op != NULL);
            if (sim_rdv_flush(op, step))
                run_until_quiet(world);
        }
    }
}

/* One client takes what is left, until there is nothing. */
static void drain(struct rdv_world *world)
{
    struct rdv_client *client = &world->clients[0];
    for (uint32_t step = 0; step < RDV_STEPS; step++) {
        for (uint32_t key = 0; key < RDV_KEYS; key++) {
            int failures = 0;
            do {
                struct rdv_op *op = sim_rdv_client_place(client);
                if (op == NULL || world->small.result.failed)
                    return;
                world->last_delivered[step][key] = 0;
                sim_rdv_receive(op, step, &key, 1, 50);
                run_until_quiet(world);
                failures += world->last_delivered[step][key] == 0;
                /* The first may hear that the step is another one. */
            } while (failures < 3);
        }
    }
}

static void account(struct rdv_world *world)
{
    uint32_t missing[RDV_STEPS][RDV_KEYS] = {0};
    for (size_t i = 0; i < world->value_count; i++) {
        const struct rdv_value *value = &world->values[i];
        world->small.result.counts[RDV_DELIVERED] += value->delivered;
        if (value->delivered > 0 || !value->is_stored)
            continue;
        if (value->is_dropped) {
            world->small.result.counts[RDV_DROPPED]++;
            continue;
        }
        missing[value->step][value->key]++;
        world->small.result.counts[RDV_TAKEN_ALONG]++;
        if (missing[value->step][value->key] > world->dead_receives[value->step][value->key])
            sim_small_fail(&world->small, "value %zu of step %" PRIu32 " is nowhere", i + 1,
                           value->step);
    }
}

static void clean_up(struct rdv_world *world)
{
    for (uint32_t step = 0; step < RDV_STEPS && !world->small.result.failed; step++) {
        struct rdv_op *op = sim_rdv_client_place(&world->clients[0]);
        PS_ASSERT(op != NULL);
        sim_rdv_control(op, step, PS_STEP_CLEANUP);
        run_until_quiet(world);
    }
    for (uint32_t i = 0; i < world->small.shard_count && !world->small.result.failed; i++) {
        ps_service_sweep_rendezvous(world->small.servers[i].service);
    }
}

static void finish(struct sim_small *small)
{
    struct rdv_world *world = sim_rdv_world(small);
    settle(world);
    if (!small->result.failed)
        drain(world);
    if (!small->result.failed)
        account(world);
    clean_up(world);
}

/* ---- The kind ---- */

const struct sim_small_kind sim_small_kind = {.counted = {"values sent", "delivered", "dropped",
                                                          "taken along by receivers that died",
                                                          "operations refused", "timed out"},
                                              .mutations = SIM_RENDEZVOUS_MUTATIONS,
                                              .world_bytes = sizeof(struct rdv_world),
                                              .shards_max = RDV_SHARDS_MAX,
                                              .workers_max = RDV_CLIENTS_MAX,
                                              .turns_max = TURNS_MAX,
                                              .repeats = true,
                                              .start_client = sim_rdv_client_start,
                                              .end_server = sim_rdv_server_end,
                                              .end_client = sim_rdv_client_end,
                                              .is_idle = sim_rdv_client_is_idle,
                                              .go_on = sim_rdv_client_go_on,
                                              .serve = sim_rdv_serve,
                                              .write_reply = sim_rdv_write_reply,
                                              .act = do_something,
                                              .finish = finish};
