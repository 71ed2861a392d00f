/* SPDX-License-Identifier: Apache-2.0 */
/* One rendezvous in a test, and calls that wait: what a server has around it, with a condition in
 * the place of parked calls.
 *
 * Threads:  send, abort and the waits are safe from any thread; the rest belongs to the test.
 * Blocking: world_receive, and what is built on it, until it is answered.
 * Errors:   statuses as the rendezvous says; the rest asserts.
 * Memory:   the world's, until world_end.
 */
#ifndef PS_TESTS_UNIT_RENDEZVOUS_WORLD_H
#define PS_TESTS_UNIT_RENDEZVOUS_WORLD_H

#include "server/core/rendezvous/rendezvous.h"

#include <check.h>

enum { WORLD_TEXT_BYTES = 64, WORLD_STEP = 123 };

extern struct ps_rendezvous world;
extern struct ps_error world_error;
extern uint64_t world_now_ms;

/* As fixtures: a rendezvous with bounds that no test reaches, and its end with nothing left. */
void world_begin(void);
void world_end(void);

/* The same over other bounds, or another heap. */
void world_begin_with(const struct ps_allocator *memory, const struct ps_rendezvous_bounds *bounds);

/* The bounds of world_begin. */
struct ps_rendezvous_bounds world_bounds(void);

/* A value whose content is this text. */
struct ps_held_value *world_value(const char *text);

/* Sends a whole value, which it takes; nobody is told. */
enum ps_status world_send_value(const struct ps_rendezvous_of *of, const char *key, uint64_t token,
                                struct ps_held_value *value, uint64_t *epoch, bool *wakes,
                                struct ps_error *error);

/* Sends the text under the key, with this token, and tells who waits. */
enum ps_status world_send_to(uint64_t step, const char *key, const char *text, uint64_t token);

/* To WORLD_STEP, without a token. */
enum ps_status world_send(const char *key, const char *text);

/* The receive of one key under this id, asked once: `receiving` is the call's. */
enum ps_status world_ask(uint64_t step, uint64_t id, const char *key,
                         struct ps_receiving *receiving);

/* One look of that call; PS_OK: `text` is what came, and the receive still has it. The status of
 * the row if that failed. The call stays when it is PS_ERR_NOT_READY. */
enum ps_status world_look(struct ps_receiving *receiving, char text[WORLD_TEXT_BYTES]);

/* Asks and looks once, gives up waiting, and is done with what came. */
enum ps_status world_poll(uint64_t step, const char *key, char text[WORLD_TEXT_BYTES]);

/* Waits until the key is sent, or the step ends, or world_cancel names this id. Is done with what
 * came. */
enum ps_status world_receive_of(uint64_t step, uint64_t id, const char *key,
                                char text[WORLD_TEXT_BYTES]);
enum ps_status world_receive(const char *key, char text[WORLD_TEXT_BYTES]);

/* A number that no receive had. */
uint64_t world_new_id(void);

/* Gives the receive back, and tells who waits. */
void world_give_back(uint64_t step, uint64_t id);
void world_done(uint64_t step, uint64_t id);

/* Aborts the step with PS_ERR_ABORTED and this text, or cleans up, and tells who waits. */
void world_abort(uint64_t step, const char *text);
void world_cleanup(uint64_t step);
void world_cleanup_all(void);

/* PS_OK when the session begins the step. */
enum ps_status world_step_begin(uint64_t step, const char *session, bool is_strict);

/* Returns when so many calls of world_receive wait. */
void world_await_waiting(size_t count);

#endif
