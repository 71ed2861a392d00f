/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the mailbox share. Private to them.
 *
 * Threads:  with the lock of the mailbox held.
 * Blocking: never.
 * Errors:   each function lists its own; what is refused has changed nothing.
 * Memory:   everything is the mailbox's.
 */
#ifndef PS_SERVER_CORE_MAILBOX_PARTS_H
#define PS_SERVER_CORE_MAILBOX_PARTS_H

#include "server/core/programs/program_request.h"

/* NULL: there is none. */
struct ps_app *ps_mailbox_find_app(const struct ps_mailbox *mailbox, uint32_t id);

/* PS_ERR_BUSY, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_mailbox_find_or_add_app(struct ps_mailbox *mailbox, uint32_t id,
                                                      struct ps_app **app, struct ps_error *error);

/* Gives one reference back. */
void ps_mailbox_unref(struct ps_mailbox *mailbox, struct ps_program_request *request);

/* What an open request counts for: its parcel and its own struct, which is most of a small one. */
static inline uint64_t ps_mailbox_counted(const struct ps_parcel *question)
{
    return question->bytes + sizeof(struct ps_program_request);
}

/* ---- Order (mailbox_order.c) ---- */

/* PS_ERR_BUSY, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_mailbox_find_or_add_worker(struct ps_mailbox *mailbox,
                                                         struct ps_app *app, uint32_t rank,
                                                         struct ps_program_worker **worker,
                                                         struct ps_error *error);
PS_MUST_USE enum ps_status ps_mailbox_find_or_add_sender(struct ps_mailbox *mailbox,
                                                         struct ps_app *app, uint64_t id,
                                                         uint64_t first,
                                                         struct ps_program_sender **sender,
                                                         struct ps_error *error);

/* Puts the request where it waits for its turn: with its sender while one before it is missing,
 * else with its worker; and those behind it that it was missing for. */
void ps_mailbox_put_in_order(struct ps_program_request *request);

/* Where it was before, for a request that is given to another taker. */
void ps_mailbox_put_back(struct ps_program_request *request);

/* Takes it out of where it waits or is held. */
void ps_mailbox_pull_out(struct ps_program_request *request);

/* What its sender has done with: answers before `from` go. */
void ps_mailbox_sender_done(struct ps_mailbox *mailbox, struct ps_program_sender *sender,
                            uint64_t from);

/* Gaps that were waited for long enough. True: something waits now that did not. */
bool ps_mailbox_close_gaps(struct ps_mailbox *mailbox, struct ps_app *app, uint64_t now_ms);

/* ---- Ends (mailbox_end.c) ---- */

/* The request ends, and is taken out of where it was; `answer` is taken in any case. */
void ps_mailbox_end(struct ps_mailbox *mailbox, struct ps_program_request *request,
                    enum ps_status status, struct ps_bytes why, struct ps_parcel *answer,
                    struct ps_mailbox_now now);

/* It leaves the tables, and is gone with its last reference. */
void ps_mailbox_forget(struct ps_mailbox *mailbox, struct ps_program_request *request);

/* Kept answers beyond the bounds go, the oldest first. */
void ps_mailbox_trim(struct ps_mailbox *mailbox, uint64_t now_ms);

/* The taker is gone, with `how` for texts; what it had fails or is given again. True: somebody is
 * to be told. */
bool ps_mailbox_end_taker(struct ps_mailbox *mailbox, struct ps_app *app,
                          struct ps_program_taker *taker, const char *how,
                          struct ps_mailbox_now now);

#endif
