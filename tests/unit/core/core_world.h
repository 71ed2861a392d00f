/* SPDX-License-Identifier: Apache-2.0 */
/* A shard in a test: a service on a heap that counts, a clock that stands still, and short ways to
 * make the four calls.
 *
 * Threads:  one, but for what a test does with world->service.
 * Blocking: never.
 * Errors:   the calls return the status and leave the text in world->error.
 * Memory:   in place; world_fini checks that nothing is left on the heap.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_WORLD_H
#define PS_TESTS_UNIT_CORE_CORE_WORLD_H

#include "proto/optimizer_config.h"
#include "server/core/requests/service.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"

#include <check.h>

struct core_world {
    struct fault_heap heap;
    struct ps_allocator memory;
    struct fake_clock fake;
    struct ps_clock clock;
    struct ps_service *service;
    int changed_count; /* how often the listener was told, ... */
    uint64_t topics;   /* ... and of which topics */
    int wanted_count;
    int journal_wanted_count;
    struct ps_push_reply reply;
    struct ps_push_wait wait;
    struct ps_error error;
};

/* A service that owns nothing yet. `saves` and `bytes_max` as in ps_service_options. */
void world_init(struct core_world *world, bool saves, uint64_t bytes_max);
/* The same with other options; memory, clock and names are filled in here. */
void world_init_with(struct core_world *world, struct ps_service_options *options);
void world_fini(struct core_world *world);

/* Owns shard 0 of 1 under `epoch`, proved for ever. */
void world_own(struct core_world *world, uint64_t epoch);

/* world_init, world_own and begin_empty: waits for InitParam. */
void world_init_empty(struct core_world *world);

/* The same, with one float32 parameter "w" = {1, 2, 3, 4} under SGD with rate 1, and finished. */
void world_init_ready(struct core_world *world);

struct ps_bytes text(const char *letters);

/* A serialized configuration, valid until the next call. */
struct ps_bytes config_bytes(const struct ps_optimizer_config *config);
/* Rule `optimizer` with learning rate `rate` and defaults else. */
struct ps_bytes config_of(const char *optimizer, double rate);

enum ps_status world_init_param(struct core_world *world, const char *name, enum ps_dtype dtype,
                                const void *content, size_t size, struct ps_bytes config);
enum ps_status world_finish(struct core_world *world);
/* A finish that says under which epoch the parameters were taken. */
enum ps_status world_finish_under(struct core_world *world, uint64_t epoch);
enum ps_status world_push(struct core_world *world, const char *name, enum ps_dtype dtype,
                          const void *content, size_t size, uint64_t *version);
/* Pushes four float32 ones to `name` as the client "client" in `session`. The reply goes to
 * world->reply and what to wait for to world->wait; `reply` may be NULL. */
enum ps_status world_push_as(struct core_world *world, const char *name, uint64_t session,
                             uint64_t sequence, struct ps_push_reply *reply);
/* The same to "w" in session 1 with another acknowledgement level than the server's; sequence 0:
 * without an id. */
enum ps_status world_push_with(struct core_world *world, enum ps_ack ack, uint64_t sequence);
/* Whether the reply to the last of these may go. */
enum ps_status world_acknowledge(struct core_world *world);
/* A service with a journal, acknowledging LOGGED, that owns shard 0 of 1, with "w" as in
 * world_init_ready, and whose first checkpoint is saved. */
void world_init_journal(struct core_world *world);
/* The same kind of service that owns nothing yet. */
void world_init_journal_only(struct core_world *world);
/* Up to that: no InitParam yet, or no checkpoint yet. */
void world_init_journal_empty(struct core_world *world);
void world_init_journal_unsaved(struct core_world *world);
/* Writes as many records as there are, and says that they are durable; how many there were. */
size_t world_write_journal(struct core_world *world);
/* The same, but the disk fails. */
void world_fail_journal(struct core_world *world);

/* Copies the values out; `*size` becomes their size, at most `size_max`. */
enum ps_status world_pull(struct core_world *world, const char *name, void *content,
                          size_t size_max, size_t *size, uint64_t *version);

/* Pulls float32 and asserts that they are these. */
void world_expect_f32(struct core_world *world, const char *name, const float *expected,
                      size_t count);

/* Runs the tests of one file; what main returns. */
int run_tests(const char *name, TCase *tests);

#endif
