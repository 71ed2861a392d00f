/* SPDX-License-Identifier: Apache-2.0 */
/* One call that goes in ranges: which range leaves next, what each answer says of the whole, and
 * when the whole is over. It only decides: no thread, no network, no clock.
 *
 *     ps_ranges_begin(ranges, options, request);
 *     while (ps_ranges_next(ranges, &action, &range))  ... send or cancel that range
 *     if (ps_ranges_took(ranges, range, outcome))      its content waits: see below
 *         ... send what leaves now ...  ps_ranges_keep(ranges, range, &outcome->reply);
 *     if (ps_ranges_is_over(ranges))  ranges->outcome is the outcome of the call
 *
 * The ranges of a gradient or of an initialisation go first, a window of them at a time, all under
 * the request id of the call: while one is on the network, the server looks at the one before.
 * Every answer but one is "staged"; the other one is the answer to the whole. Then come the ranges
 * of the pull, all of one version. Where a pull follows a push, each range of the push asks for the
 * values that it makes (early_values.h), so that mostly nothing is left to pull.
 *
 * A range goes through
 *
 *   FREE ──► TO_SEND ──► SENT ──answered──► (KEEPS ──content moved──►) FREE
 *                          └──the call fails or stops──► TO_CANCEL ──► CANCELLED ──answered──► FREE
 *
 * Repeating the call repeats all ranges, which is harmless: the server applies a request id once.
 * The ranges do so by themselves when the server has let go of what it had staged, because another
 * client's push came first.
 *
 * Threads:  one at a time.
 * Blocking: never.
 * Errors:   none; the first failure of a range is the call's.
 * Memory:   in place; requests and content are borrowed until the call is over.
 */
#ifndef PS_CLIENT_RANGES_CALL_H
#define PS_CLIENT_RANGES_CALL_H

#include "client/calls/call.h"
#include "client/ranges/early_values.h"
#include "client/ranges/range_cut.h"

/* Ranges of one call that are out at once: what is out together stays in a processor's cache from
 * the network to the update and back. */
#define PS_RANGES_WINDOW 4

/* So often all ranges leave while the server only lets go of them; then the call has failed. */
#define PS_RANGES_ROUNDS_MAX 3

/* After so many versions that went before all of their ranges were read, a pull comes whole. */
#define PS_RANGES_VERSIONS_MAX 3

struct ps_ranges_options {
    size_t above_bytes;   /* larger content goes in ranges */
    size_t range_bytes;   /* of the larger content of each range but the last */
    bool no_early_values; /* ranges of a push never ask for what they make */
};

enum ps_range_state {
    PS_RANGE_FREE,
    PS_RANGE_TO_SEND,
    PS_RANGE_SENT,
    PS_RANGE_TO_CANCEL,
    PS_RANGE_CANCELLED, /* its outcome should come soon */
    PS_RANGE_KEEPS      /* answered; its content is not moved yet */
};

struct ps_range_slot {
    enum ps_range_state state;
    struct ps_call_request request;
    struct ps_bytes pieces[PS_RANGE_PIECES_MAX]; /* of its content */
};

/* How far the pull is. */
struct ps_ranges_pull {
    const struct ps_pull_request *wish; /* borrowed with the request; NULL: there is no pull */
    uint64_t total;                     /* elements that are wanted */
    uint64_t next;                      /* those of them that were asked for */
    uint64_t version;                   /* 1 + that of the first range; 0: not known yet */
    uint64_t life;                      /* of the shard, with that range */
    bool in_ranges;                     /* what came first was the range that was asked for */
    bool is_stale;                      /* that version has gone */
    uint32_t versions;                  /* that have gone so far */
};

struct ps_ranges_call {
    const struct ps_ranges_options *options; /* borrowed; outlives the call */
    const struct ps_call_request *request;   /* borrowed until the call is over */
    struct ps_range_cut cut;                 /* the push or the initialisation; empty: a pull */
    bool failed;
    bool is_stopped;    /* the call is given up: no further range leaves */
    bool has_reply;     /* a range was not only staged: the whole is done */
    bool was_overtaken; /* another client's push came first; for the engine, which resets it */
    uint32_t rounds;    /* that are over: all ranges have left, and came to nothing */
    struct ps_ranges_pull pull;
    struct ps_early_values early; /* of the round under way */
    struct ps_bytes whole;        /* of the reply: where the ranges of the pull lie together */
    struct ps_call_outcome outcome;
    struct ps_range_slot slots[PS_RANGES_WINDOW];
};

/* Bytes of a message that the larger content of the call takes, if the call can go in ranges; else
 * 0. The request needs no id yet; without one it cannot be begun. */
size_t ps_ranges_bytes(const struct ps_call_request *request);

/* Begins the call anew, whatever it was before. Some range is to be sent now. */
void ps_ranges_begin(struct ps_ranges_call *ranges, const struct ps_ranges_options *options,
                     const struct ps_call_request *request);

enum ps_ranges_action { PS_RANGES_SEND, PS_RANGES_CANCEL };

/* The next thing to do, and with which range; false when there is nothing. */
bool ps_ranges_next(struct ps_ranges_call *ranges, enum ps_ranges_action *action, uint32_t *range);

/* What became of a range that was sent. True: its content waits in `outcome`. Whatever leaves now
 * should leave first; then the content is to be moved with ps_ranges_keep. */
bool ps_ranges_took(struct ps_ranges_call *ranges, uint32_t range,
                    const struct ps_call_outcome *outcome);
void ps_ranges_keep(struct ps_ranges_call *ranges, uint32_t range,
                    const struct ps_call_reply *reply);

/* The call's time is over: no further range leaves, and those that are out are cancelled. */
void ps_ranges_stop(struct ps_ranges_call *ranges);

/* No range is out, and none follows: `outcome` holds. */
bool ps_ranges_is_over(const struct ps_ranges_call *ranges);

/* Asserts every invariant. */
void ps_ranges_check(const struct ps_ranges_call *ranges);

/* ---- Between the files of this room ---- */

/* Ranges that are out, or are about to be. */
size_t ps_ranges_out(const struct ps_ranges_call *ranges);

/* The first failure is the call's; all that are out are cancelled. The call was refused only if
 * every failure was a refusal: another range may have completed what an earlier attempt had
 * begun. */
void ps_ranges_fail(struct ps_ranges_call *ranges, const struct ps_call_outcome *outcome);
void ps_ranges_fail_with(struct ps_ranges_call *ranges, enum ps_status status, const char *text);

/* The pull's part of the reply to the whole. */
struct ps_pull_reply *ps_ranges_pull_reply(struct ps_ranges_call *ranges);

/* ranges_pull.c: bytes of the pull's content, if it can come in ranges, else 0; makes a range out
 * of the request for all; fills free slots; what an answer says; makes what came one reply. */
uint64_t ps_ranges_pull_bytes(const struct ps_pull_request *pull);
void ps_ranges_pull_cut(struct ps_pull_request *pull, struct ps_elements range);
void ps_ranges_pull_begin(struct ps_ranges_call *ranges);
void ps_ranges_pull_fill(struct ps_ranges_call *ranges);
bool ps_ranges_pull_took(struct ps_ranges_call *ranges, const struct ps_pull_request *request,
                         const struct ps_call_outcome *outcome);
bool ps_ranges_pull_is_asked_for(const struct ps_pull_request *request,
                                 const struct ps_pull_reply *reply);
void ps_ranges_pull_end(struct ps_ranges_call *ranges);

/* ranges_early.c: may ranges ask; makes a range of the push ask; what an answer says; all ranges of
 * the push are back: what they brought is the pull's, or nothing. */
void ps_ranges_early_begin(struct ps_ranges_call *ranges);
void ps_ranges_early_ask(struct ps_ranges_call *ranges, struct ps_call_request *request);
bool ps_ranges_early_took(struct ps_ranges_call *ranges, const struct ps_pull_request *request,
                          const struct ps_call_outcome *outcome);
void ps_ranges_early_settle(struct ps_ranges_call *ranges);

#endif
