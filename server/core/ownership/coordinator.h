/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what this server owns, when it must stop, and when a checkpoint is due. It only decides:
 * an event and the time come in, a list of actions goes out.
 *
 *   LEARNING ─► GRANTING ─► CLAIMING ─► LOADING ─► FORGETTING ─► LISTENING ─► PUBLISHING ─► SERVING
 *      ▲                     ▲    ▼         └── state was loaded ──►┘                          │
 *      │                     SPARE                                                             │
 *      ├── RELEASING ◄── LOSING ◄───────── the lease or the claim is gone ─────────────────────┤
 *      │       ▲                                                                               │
 *      ▼       └── SAVING_LAST ◄── DRAINING ◄───────────── told to stop ───────────────────────┘
 *    ENDED
 *
 * Ownership is proved from the START of the last grant or keepalive that succeeded, for ttl -
 * margin, where margin = max(ttl / 5, 500 ms): whatever the network did to the answer, the store
 * counts the lease from a later moment, so the server stops before anybody else can begin (P4). A
 * keepalive without a clear answer changes nothing: the proof runs out by itself, the service
 * fences itself by its clock, and a keepalive that succeeds later goes on with the same epoch.
 *
 * An index is never claimed while an earlier lease of this server may live: a claim of unknown fate
 * ends with that lease revoked, or outwaited, before the next grant (B12).
 *
 * Threads:  none inside; the caller serialises calls.
 * Blocking: never. Reads no clock, opens nothing.
 * Errors:   none; a step cannot fail.
 * Memory:   fixed size, in place; nothing is allocated.
 */
#ifndef PS_SERVER_CORE_COORDINATOR_H
#define PS_SERVER_CORE_COORDINATOR_H

#include "base/random.h"
#include "etcd/registry.h"

/* Shortest lease that leaves room for a margin and for a second keepalive. */
#define PS_LEASE_TTL_MS_MIN 1000

/* Any index will do. */
#define PS_INDEX_ANY UINT32_MAX

struct ps_coordinator_options {
    uint64_t ttl_ms;           /* PS_LEASE_TTL_MS_MIN or more */
    uint32_t index_wish;       /* PS_INDEX_ANY, or the one index to claim */
    bool saves;                /* checkpoints are written */
    uint64_t save_interval_ms; /* between checkpoints; 0: only when wanted */
    uint64_t drain_ms;         /* calls in flight may take this long after a stop */
    uint64_t seed;             /* of the back-off's jitter */
};

/* X(TAG, word) */
#define PS_COORDINATOR_STATE_TABLE(X)            \
    X(PS_COORDINATOR_LEARNING, "learning")       \
    X(PS_COORDINATOR_GRANTING, "granting")       \
    X(PS_COORDINATOR_CLAIMING, "claiming")       \
    X(PS_COORDINATOR_SPARE, "spare")             \
    X(PS_COORDINATOR_LOADING, "loading")         \
    X(PS_COORDINATOR_FORGETTING, "forgetting")   \
    X(PS_COORDINATOR_LISTENING, "listening")     \
    X(PS_COORDINATOR_PUBLISHING, "publishing")   \
    X(PS_COORDINATOR_SERVING, "serving")         \
    X(PS_COORDINATOR_DRAINING, "draining")       \
    X(PS_COORDINATOR_SAVING_LAST, "saving_last") \
    X(PS_COORDINATOR_LOSING, "losing")           \
    X(PS_COORDINATOR_RELEASING, "releasing")     \
    X(PS_COORDINATOR_ENDED, "ended")

#define PS_COORDINATOR_STATE_ENUM(TAG, word) TAG,
enum ps_coordinator_state {
    PS_COORDINATOR_STATE_TABLE(PS_COORDINATOR_STATE_ENUM) PS_COORDINATOR_STATE_COUNT
};
#undef PS_COORDINATOR_STATE_ENUM

/* What to do. Those marked `asks` are answered by exactly one event before the next of them is
 * given; `starts` are answered later, while other actions go on; the rest needs no answer.
 *
 * X(TAG, word) */
#define PS_ACTION_TABLE(X)                                                                      \
    X(PS_ACTION_NONE, "none")                                                                   \
    X(PS_ACTION_LEARN,                                                                          \
      "learn") /* asks: LEARNED, the number of shards; OUT_OF_RANGE: no such index */           \
    X(PS_ACTION_GRANT, "grant")             /* asks: GRANTED, a lease */                        \
    X(PS_ACTION_CLAIM, "claim")             /* asks: CLAIMED, an index */                       \
    X(PS_ACTION_WATCH, "watch")             /* asks: WATCHED; changes under /ps/ from now on */ \
    X(PS_ACTION_KEEP, "keep")               /* asks: KEPT, lease and claim */                   \
    X(PS_ACTION_FORGET, "forget")           /* asks: FORGOTTEN, /init_ps/done (B6) */           \
    X(PS_ACTION_LISTEN, "listen")           /* asks: LISTENING; calls are answered */           \
    X(PS_ACTION_PUBLISH, "publish")         /* asks: PUBLISHED, the address */                  \
    X(PS_ACTION_REVOKE, "revoke")           /* asks: REVOKED, the lease */                      \
    X(PS_ACTION_LOAD, "load")               /* starts: LOADED, the newest checkpoint */         \
    X(PS_ACTION_SAVE, "save")               /* starts: SAVED, a checkpoint */                   \
    X(PS_ACTION_DRAIN, "drain")             /* starts: DRAINED; no new calls */                 \
    X(PS_ACTION_OWN, "own")                 /* tell the service what it is */                   \
    X(PS_ACTION_BEGIN_EMPTY, "begin_empty") /* tell the service that nothing is to load */      \
    X(PS_ACTION_PROVE, "prove")             /* ownership holds until `until_ms` */              \
    X(PS_ACTION_RESET, "reset")             /* ownership is gone: drop every parameter */       \
    X(PS_ACTION_END, "end")                 /* the last action of all */

#define PS_ACTION_ENUM(TAG, word) TAG,
enum ps_action_type { PS_ACTION_TABLE(PS_ACTION_ENUM) PS_ACTION_COUNT };
#undef PS_ACTION_ENUM

struct ps_action {
    enum ps_action_type type;
    uint64_t until_ms; /* PROVE: the proof's end; what asks, and DRAIN: the deadline */
    bool publish;      /* SAVE: put the pointer too; else only the file (the lease is unproved) */
};

#define PS_ACTIONS_MAX 8
struct ps_actions {
    struct ps_action list[PS_ACTIONS_MAX]; /* in the order in which they are to be done */
    size_t count;
    uint64_t wake_ms; /* a TICK is due then; PS_DEADLINE_NEVER: only an event goes on */
};

enum ps_event_type {
    PS_EVENT_TICK,              /* time has passed */
    PS_EVENT_STOP,              /* end cleanly */
    PS_EVENT_BROKEN,            /* status; end at once and save nothing */
    PS_EVENT_LEARNED,           /* status, shard_count */
    PS_EVENT_GRANTED,           /* status, lease, started_ms */
    PS_EVENT_CLAIMED,           /* status, claim */
    PS_EVENT_WATCHED,           /* status */
    PS_EVENT_KEPT,              /* status, started_ms */
    PS_EVENT_FORGOTTEN,         /* status */
    PS_EVENT_LISTENING,         /* status */
    PS_EVENT_PUBLISHED,         /* status */
    PS_EVENT_REVOKED,           /* status */
    PS_EVENT_LOADED,            /* status; NOT_FOUND: there is no state */
    PS_EVENT_SAVED,             /* status; NOT_READY: nothing to save */
    PS_EVENT_DRAINED,           /* no call is in flight */
    PS_EVENT_CHECKPOINT_WANTED, /* somebody waits for one */
    PS_EVENT_MEMBERS_CHANGED,   /* an index may have become free */
    PS_EVENT_WATCH_BROKEN,      /* no more MEMBERS_CHANGED will come */
    PS_EVENT_COUNT
};

struct ps_event {
    enum ps_event_type type;
    enum ps_status status;
    uint64_t now_ms;     /* never less than in the event before */
    uint64_t started_ms; /* when the call was begun */
    bool nothing_new;    /* the checkpoint published last has the state as it is */
    uint32_t shard_count;
    struct ps_kv_lease lease;
    struct ps_claim claim;
};

/* All of it private but for what the functions below give; in place, so that it can be copied. */
struct ps_coordinator {
    struct ps_coordinator_options options;
    struct ps_random random;
    enum ps_coordinator_state state;
    enum ps_action_type asking; /* the question that is out, or NONE */
    enum ps_action_type task;   /* LOAD or SAVE at work, or NONE */
    uint64_t now_ms;            /* of the last event */
    uint64_t retry_ms;          /* the state's next attempt */
    uint32_t failures;          /* of the state's attempts in a row */
    uint32_t short_terms;       /* leases that ended without serving, in a row */

    uint32_t shard_count;
    struct ps_kv_lease lease; /* 0: none that may live */
    uint64_t lease_gone_ms;   /* by then the store has dropped it, if nobody kept it */
    uint64_t keep_ms;         /* the next keepalive */
    uint32_t keep_failures;
    uint64_t proof_ms;     /* ownership is proved until then; 0: not at all */
    struct ps_claim claim; /* epoch 0: none */
    bool watching;
    uint64_t recheck_ms; /* a spare tries again then, whatever the watch says */

    bool begun;          /* the service holds state that could be saved */
    bool wanted;         /* a checkpoint, as soon as possible */
    bool nothing_new;    /* as the last event said: none is due by time alone */
    bool save_publishes; /* the SAVE at work puts the pointer */
    uint64_t save_due_ms;
    uint64_t save_retry_ms;
    uint32_t save_failures;
    bool fence_saving; /* a SAVE began after the proof ran out, and nothing was proved since */
    bool fence_saved;  /* ... and it ended well: all that was acknowledged is on the disk */

    bool stopping;
    bool broken; /* what is in memory is lost: the lease goes back, and nothing else is done */
    bool drained;
    uint64_t drain_until_ms;
    bool last_saving;
    bool last_saved;
    enum ps_status outcome; /* of the whole run */
};

/* The first TICK starts it. */
void ps_coordinator_init(struct ps_coordinator *coordinator,
                         const struct ps_coordinator_options *options);

/* Feeds one event in; writes what to do next, in order, to `*actions`. */
void ps_coordinator_step(struct ps_coordinator *coordinator, const struct ps_event *event,
                         struct ps_actions *actions);

/* True when an acknowledgement given at `now_ms` is covered by the lease. */
bool ps_coordinator_is_proved(const struct ps_coordinator *coordinator, uint64_t now_ms);

/* How long a proof lasts from the start of the call that gave it. */
uint64_t ps_coordinator_proof_span_ms(uint64_t ttl_ms);

/* "learning", "keep", "loaded" ... Static. */
const char *ps_coordinator_state_word(enum ps_coordinator_state state);
const char *ps_action_word(enum ps_action_type type);

/* Asserts every invariant. */
void ps_coordinator_check(const struct ps_coordinator *coordinator);

#endif
