/* SPDX-License-Identifier: Apache-2.0 */
/* The servers answer to the store as real ones do; what a process would do besides (load, save,
 * drain, listen) is counted, and answered as the test has said. */
#include "tests/unit/core/driver_rig.h"

#include <check.h>

struct fault_heap heap;
struct ps_allocator memory;
struct fake_clock fake;
struct ps_clock ticking;
struct ps_kv_hub *hub;
struct server servers[SERVERS];

/* ---- Hooks ---- */

static void load(void *self, const struct ps_claim *claim, uint32_t shard_count)
{
    struct server *server = self;
    const struct ps_error why = {.status = server->load_status, .text = "none is whole"};
    ck_assert_uint_lt(claim->index, shard_count);
    server->loads++;
    if (!server->load_waits)
        ps_coordinator_driver_tell_loaded(server->driver, server->load_status, &why);
}

static void save(void *self, const struct ps_claim *claim, bool publish)
{
    struct server *server = self;
    ck_assert_uint_ne(claim->epoch, 0);
    server->saves++;
    server->published_saves += publish;
    if (!server->save_waits)
        ps_coordinator_driver_tell_saved(server->driver, PS_OK, NULL);
}

static void drain(void *self, uint64_t deadline_ms)
{
    struct server *server = self;
    ck_assert_uint_gt(deadline_ms, fake.now_ms);
    ck_assert_str_eq(ps_service_state_name(server->service), "draining");
    server->drains++;
    ps_coordinator_driver_tell_drained(server->driver);
}

void read_members(struct server *server, struct ps_members *members)
{
    struct ps_error error = {0};
    enum ps_status status =
        ps_registry_read_members(&server->registry, &memory, PS_DEADLINE_NEVER, members, &error);
    ck_assert_msg(status == PS_OK, "%s", error.text);
}

static enum ps_status begin_listening(void *self, struct ps_error *error)
{
    struct server *server = self;
    struct ps_members members = {0};
    (void)error;
    read_members(server, &members);
    for (uint32_t i = 0; i < members.shard_count; i++)
        server->address_was_there |= members.rows[i].address[0] != '\0';
    ps_members_release(&members);
    server->listens++;
    return PS_OK;
}

/* ---- A world of two servers ---- */

struct ps_coordinator_driver_options options_of(struct server *server)
{
    return (struct ps_coordinator_driver_options){
        .coordinator = {.ttl_ms = TTL_MS,
                        .index_wish = PS_INDEX_ANY,
                        .saves = true,
                        .save_interval_ms = 60000,
                        .drain_ms = 1000,
                        .seed = 1},
        .shard_count_wish = 1,
        .address = "127.0.0.1:7000",
        .registry = &server->registry,
        .service = server->service,
        .memory = &memory,
        .clock = &ticking,
        .hooks = {load, save, drain, begin_listening, server}};
}

void open_server(struct server *server, struct ps_kv *kv)
{
    const struct ps_service_options options = {
        .memory = &memory, .clock = &ticking, .saves = true, .device = "cpu", .job = ""};
    *server = (struct server){.kv = kv, .load_status = PS_ERR_NOT_FOUND};
    ck_assert_int_eq(ps_registry_init(&server->registry, kv, "", NULL), PS_OK);
    ck_assert_int_eq(ps_service_create(&options, &server->service, NULL), PS_OK);
    struct ps_coordinator_driver_options driver_options = options_of(server);
    ck_assert_int_eq(ps_coordinator_driver_create(&driver_options, &server->driver, NULL), PS_OK);
}

void close_server(struct server *server)
{
    ps_coordinator_driver_destroy(server->driver);
    ps_service_destroy(server->service);
    ps_kv_destroy(server->kv);
}

void driver_rig_setup(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    fake = (struct fake_clock){.now_ms = 1000};
    ticking = fake_clock_clock(&fake);
    ck_assert_int_eq(ps_kv_hub_create(&ticking, &memory, &hub), PS_OK);
    for (int i = 0; i < SERVERS; i++) {
        struct ps_kv *kv;
        ck_assert_int_eq(ps_kv_memory_open(hub, &kv), PS_OK);
        open_server(&servers[i], kv);
    }
}

void driver_rig_teardown(void)
{
    for (int i = 0; i < SERVERS; i++)
        close_server(&servers[i]);
    ps_kv_hub_destroy(hub);
    ck_assert_int_eq(heap.live, 0);
}

enum ps_coordinator_state state_of(const struct server *server)
{
    return ps_coordinator_driver_coordinator(server->driver)->state;
}

/* Turns, without letting time pass, until nothing is due. */
void settle(struct server *server)
{
    ps_coordinator_driver_wait(server->driver, fake.now_ms);
    for (int i = 0; i < 50; i++) {
        server->next_ms = ps_coordinator_driver_turn(server->driver);
        if (server->next_ms > fake.now_ms)
            return;
    }
    ck_abort_msg("the driver never comes to rest");
}
