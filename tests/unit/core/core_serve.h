/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle of gradients and pulls in a test, served by core/requests/serve.c in the world `world`.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   what happens to an item stands in its result; what must not happen ends the test.
 * Memory:   static; serve_end looks whether anything is left.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_SERVE_H
#define PS_TESTS_UNIT_CORE_CORE_SERVE_H

#include "server/core/requests/serve.h"
#include "tests/unit/core/core_world.h"

enum { ITEMS_MAX = 600 };

extern struct core_world world;
extern struct ps_serve serve;
extern struct ps_error error; /* the serve's */
extern struct ps_push_result pushes[ITEMS_MAX];
extern struct ps_served_pull pulls[ITEMS_MAX];

extern const struct ps_serve_turn turn;    /* may wait for initialisation */
extern const struct ps_serve_turn hurried; /* may not */
extern const struct ps_serve_turn leaving; /* may wait, and may go to another thread */
extern const struct ps_bytes ones;         /* four float32 */

/* A bundle without items in a world that is there already. */
void serve_begin(void);
/* The same in a world of world_init_ready, and of world_init_journal. */
void serve_begin_ready(void);
void serve_begin_journal(void);
/* Ends bundle and world. */
void serve_end(void);

/* Adds a push of four float32 ones, without an id. */
struct ps_push_request *serve_add_push(const char *name);
struct ps_pull_request *serve_add_pull(const char *name);

/* The first step comes after all was added. */
enum ps_serve_progress serve_step(struct ps_serve_turn allowed);

/* The first pull has four float32, the first of them this. */
void serve_expect_pulled(float first);

#endif
