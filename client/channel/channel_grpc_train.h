/* A call that goes in several messages, and the way of its parts. Private to channel_grpc_train*.c.
 *
 * Threads:  as the channel's take: one at a time.
 * Blocking: never.
 * Errors:   the first failure is the call's.
 * Memory:   a train lives from its start until its last flight was taken.
 */
#ifndef PS_CLIENT_CHANNEL_GRPC_TRAIN_H
#define PS_CLIENT_CHANNEL_GRPC_TRAIN_H

#include "client/channel/channel_grpc.h"
#include "client/ranges/early_values.h"
#include "client/ranges/range_cut.h"

/* Ranges of one call that are out at once, how often all are sent when the server lets go of them
 * (another client's push was first), and their size on the network, the way on which it is larger:
 * what is out together stays in a processor's cache from the network to the update and back; and a
 * multiple of a block. */
#define PS_TRAIN_WINDOW 4
#define PS_TRAIN_ROUNDS_MAX 3
#define PS_TRAIN_PART_BYTES ((size_t)512 * 1024)

struct ps_train_slot {
    struct ps_call_request request;
    struct ps_bytes pieces[PS_RANGE_PIECES_MAX]; /* of its content */
    bool busy;
};

struct ps_train_pull {
    const struct ps_pull_request *wish; /* borrowed with the request; NULL: there is no pull */
    uint64_t total;                     /* elements that are wanted */
    uint64_t next;                      /* those of them that were asked for */
    uint64_t version;                   /* 1 + that of the first range; 0: not known yet */
    uint64_t life;                      /* of the shard, with that range */
    bool in_ranges;                     /* what came first was the range that was asked for */
    bool is_stale;                      /* that version has gone */
    uint32_t begins;                    /* how often that has happened */
};

struct ps_train {
    struct ps_grpc_side *side; /* borrowed */
    uint64_t id;
    uint32_t shard;
    uint64_t deadline_ms;
    const struct ps_call_request *request; /* borrowed until the outcome */
    struct ps_range_cut cut;               /* the push or the initialisation; empty: a pull */
    size_t running;                        /* flights */
    bool failed;
    bool has_reply;  /* a range was not only staged: the whole is done */
    uint32_t rounds; /* that are over: all ranges have left, and come to nothing */
    struct ps_train_pull pull;
    struct ps_early_values made; /* of the round under way: channel_grpc_train_made.c */
    struct ps_call_outcome outcome;
    struct ps_train_slot slots[PS_TRAIN_WINDOW];
};

/* Sends the range in `slot`. */
void ps_train_launch(struct ps_train *train, struct ps_train_slot *slot);

/* The first failure is the call's. It was refused only if every failure was a refusal: another
 * range may have completed what an earlier attempt had begun. */
void ps_train_fail(struct ps_train *train, enum ps_status status, bool refused, const char *text);
void ps_train_fail_as(struct ps_train *train, const struct ps_call_outcome *outcome);

/* ---- The pull: channel_grpc_train_pull.c ---- */

/* Bytes of its content, if it can come in ranges; else 0. */
uint64_t ps_train_pull_bytes(const struct ps_pull_request *pull);

/* Makes a range of it out of the request for all of it. */
void ps_train_pull_cut(struct ps_pull_request *pull, struct ps_elements range);

/* Sends what may be sent now; the push is done. */
void ps_train_pull_go_on(struct ps_train *train);

/* What an outcome says of the pull. */
void ps_train_pull_note(struct ps_train *train, const struct ps_pull_request *request,
                        const struct ps_call_outcome *outcome);

/* Does a range that was noted belong to what is wanted? */
bool ps_train_pull_keeps(const struct ps_train *train);

/* Makes what came in ranges one reply, whose content is `piece`, which the caller lends it. */
void ps_train_pull_end(struct ps_train *train, struct ps_bytes *piece);

/* Is a reply what was asked for? */
bool ps_train_pull_is_asked_for(const struct ps_pull_request *request,
                                const struct ps_pull_reply *reply);

/* ---- The pull that comes with the push: channel_grpc_train_made.c ---- */

/* Finds out whether ranges may ask for it. */
void ps_train_made_begin(struct ps_train *train);

/* Makes the request for a range of the push ask for it, too. */
void ps_train_made_ask(struct ps_train *train, struct ps_call_request *request);

/* The outcome of the push of such a range. True: it holds, and there is a reply to the pull. */
bool ps_train_made_outcome(struct ps_train *train, struct ps_flight *flight,
                           struct ps_call_outcome *outcome);

/* What the reply says. True: its content may be kept. */
bool ps_train_made_note(struct ps_train *train, const struct ps_pull_request *request,
                        const struct ps_pull_reply *reply);

/* The push has its reply, and all ranges are back: what they brought is the pull's, or nothing. */
void ps_train_made_settle(struct ps_train *train);

#endif
