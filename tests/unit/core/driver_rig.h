/* SPDX-License-Identifier: Apache-2.0 */
/* Two servers' coordinators on a store in memory and real services, with hooks that the test
 * answers. One test process has one of it.
 *
 * Threads:  one, but for what a test starts.
 * Blocking: never.
 * Errors:   failed assertions.
 * Memory:   from driver_rig_setup to driver_rig_teardown.
 */
#ifndef PS_TESTS_UNIT_CORE_DRIVER_RIG_H
#define PS_TESTS_UNIT_CORE_DRIVER_RIG_H

#include "server/core/ownership/coordinator_driver.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"

#define SERVERS 2
#define TTL_MS 10000

/* One server of the test. */
struct server {
    struct ps_kv *kv;
    struct ps_registry registry;
    struct ps_service *service;
    struct ps_coordinator_driver *driver;
    enum ps_status load_status;
    bool load_waits; /* the hook answers nothing: the test does */
    bool save_waits;
    uint32_t loads, saves, published_saves, drains, listens;
    bool address_was_there; /* before listening */
    uint64_t next_ms;
};

extern struct fault_heap heap;
extern struct ps_allocator memory;
extern struct fake_clock fake;
extern struct ps_clock ticking;
extern struct ps_kv_hub *hub;
extern struct server servers[SERVERS];

void driver_rig_setup(void);
void driver_rig_teardown(void);

/* What the driver of a server is made with. */
struct ps_coordinator_driver_options options_of(struct server *server);

/* A server over its own connection to the store, which it takes. */
void open_server(struct server *server, struct ps_kv *kv);
void close_server(struct server *server);

/* What the store says of the servers; the caller releases it. */
void read_members(struct server *server, struct ps_members *members);

enum ps_coordinator_state state_of(const struct server *server);

/* Turns, without letting time pass, until nothing is due. */
void settle(struct server *server);

#endif
