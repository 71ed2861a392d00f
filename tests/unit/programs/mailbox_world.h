/* SPDX-License-Identifier: Apache-2.0 */
/* One mailbox in a test, with time that the test moves.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   statuses as the mailbox says; the rest asserts.
 * Memory:   the world's, until world_end.
 */
#ifndef PS_TESTS_UNIT_PROGRAMS_MAILBOX_WORLD_H
#define PS_TESTS_UNIT_PROGRAMS_MAILBOX_WORLD_H

#include "server/core/programs/mailbox.h"

#include <check.h>

enum { WORLD_APP = 5, WORLD_LIFE = 9 };

extern struct ps_mailbox world;
extern struct ps_error world_error;
extern struct ps_mailbox_now world_now;

/* As fixtures: a mailbox with bounds that no test reaches, and its end with nothing left. */
void world_begin(void);
void world_end(void);

/* The same over other bounds, or another heap. */
void world_begin_with(const struct ps_allocator *memory, const struct ps_mailbox_bounds *bounds);
struct ps_mailbox_bounds world_bounds(void);
void world_pass(uint64_t ms);

/* A request of this worker, with its command's number as what is told of it. */
struct ps_ask_request world_request(uint32_t worker, int32_t command);
struct ps_parcel *world_parcel(const char *text);

/* Asks with this content. */
enum ps_status world_ask(const struct ps_ask_request *request, const char *text,
                         struct ps_asking *asking);
/* The same, of which nothing fails. */
struct ps_asking world_asked(uint32_t worker, int32_t command);

/* One look; PS_OK: `text` is the answer. */
enum ps_status world_look(struct ps_asking *asking, char text[64]);
void world_stop(struct ps_asking *asking);

/* The taker takes so many of any worker in its next turn, one look: their commands go to
 * `commands`, their handles to `handles` (either may be NULL). How many there were. */
size_t world_take(uint64_t taker, uint32_t max, int32_t *commands, uint64_t *handles);

/* One of each of these workers, one look; `is_last` as of a call whose time is over. */
size_t world_take_gang(uint64_t taker, const uint32_t *workers, size_t count, bool partial,
                       bool is_last, int32_t *commands, uint64_t *handles);

enum ps_status world_answer(uint64_t taker, uint64_t handle, const char *text, uint64_t token);

#endif
