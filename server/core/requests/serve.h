/* SPDX-License-Identifier: Apache-2.0 */
/* The one way to serve: the gradients and pulls of one message, from decoded requests to results.
 * Every push comes first, then one wait until all that was promised of the pushes holds, then every
 * pull. A single SendGrad or GetParam is a bundle of one.
 *
 *   PUSHING ──all pushed──► ACKNOWLEDGING ──durable as promised──► PULLING ──all pulled──► DONE
 *
 * The work is done in steps of bounded size, so that a long bundle does not keep its thread from
 * others. The caller decodes before, makes the reply of the results after, and parks the call
 * meanwhile; the network and the simulator are two such callers.
 *
 * Threads:  a serve belongs to one thread at a time; the next step may be on another.
 * Blocking: as ps_service_push and ps_service_acknowledge do.
 * Errors:   what happens to an item stands in its result.
 * Memory:   everything is borrowed, in place, and outlives the last step. Texts of failures come
 *           from the caller's arena, if there is one.
 */
#ifndef PS_SERVER_CORE_SERVE_H
#define PS_SERVER_CORE_SERVE_H

#include "proto/arena.h"
#include "server/core/requests/service.h"
#include "server/core/requests/topics.h"

/* A request that moves so many bytes keeps its thread for about a millisecond or more. */
#define PS_SERVE_LONG_BYTES ((size_t)8 * 1024 * 1024)

/* Content that does not lie in the message: who serves reaches it through these. */
struct ps_serve_content {
    /* Points the request to its content. A request whose content came in the message stays as it
     * is. `close` follows in any case, once the service has been asked. */
    enum ps_status (*open)(void *self, struct ps_push_request *request, struct ps_error *error);
    void (*close)(void *self);
    /* Where the room is that a pull names, if it is in the device's memory: its address there.
     * NULL: it is not. `close_room` follows in any case, behind `give`. */
    uint8_t *(*open_room)(void *self, const struct ps_shared_range *room);
    void (*close_room)(void *self);
    /* Moves the content of a reply to the room that the request names, if it can: the reply is
     * without content then, and says how much lies there. One that is there already is only
     * counted. */
    enum ps_status (*give)(void *self, const struct ps_shared_range *room,
                           struct ps_pull_reply *reply, struct ps_error *error);
    void *self;
};

/* Who may do what: asked before anything of an item is looked up, so that a refusal does not tell
 * what exists. */
struct ps_serve_guard {
    /* May a parameter of this name be changed, or only read? */
    enum ps_status (*check)(void *self, struct ps_bytes name, bool changes, struct ps_error *error);
    uint64_t owner; /* whose the client ids of all requests have to be; 0: anybody's */
    void *self;
};

/* What became of one pull. */
struct ps_served_pull {
    struct ps_item_status status;
    struct ps_pull pull; /* of a pull that is PS_OK; the caller releases it */
};

enum ps_serve_stage {
    PS_SERVE_STAGE_PUSHING,
    PS_SERVE_STAGE_ACKNOWLEDGING,
    PS_SERVE_STAGE_PULLING,
    PS_SERVE_STAGE_DONE
};

/* The caller sets the first part, the rest zeroed, and begins. */
struct ps_serve {
    struct ps_service *service;
    const struct ps_serve_content *content; /* NULL: all content lies in messages */
    const struct ps_origin *origin;         /* who sent the message; NULL: nobody counts */
    const struct ps_serve_guard *guard;     /* NULL: everything is allowed */
    struct ps_hold hold;                    /* of the bytes in which the contents of pushes lie */
    struct ps_bundle_request request;
    struct ps_push_result *pushes; /* one per push of the request, zeroed */
    struct ps_served_pull *pulls;  /* one per pull of the request, zeroed */
    struct ps_arena *texts;        /* where texts of failures go; NULL: only to `error` */
    struct ps_error *error;        /* why the item that failed last did */

    enum ps_serve_stage stage;
    size_t next;              /* push or pull */
    uint32_t topic;           /* that is waited for, when it waits */
    uint64_t again_ms;        /* step again by then, too; 0: only when the topic has changed */
    bool in_turns;            /* some pull was left for a later step */
    bool applied;             /* some push was: `wait` holds */
    struct ps_push_wait wait; /* of the generation in which the first was applied */
    size_t reply_bytes;
    uint64_t delta_bytes_left; /* of what delta pulls may take of the reply */
};

/* After the caller has filled in the first part, and before the first step. */
void ps_serve_begin(struct ps_serve *serve);

/* What has become of a call. */
enum ps_serve_progress {
    PS_SERVE_DONE,    /* the reply can be made */
    PS_SERVE_WAITS,   /* step again after the service's listener was told that the topic changed */
    PS_SERVE_GOES_ON, /* step again, after others had their turn */
    PS_SERVE_LEAVES   /* step on a thread that nobody else needs: this would take long */
};

/* What the caller allows in this step. */
struct ps_serve_turn {
    bool may_leave; /* there are threads for what takes long; false: PS_SERVE_LEAVES is not said */
    bool may_wait;  /* for initialisation or for other clients; false: such a pull is refused */
    bool is_late;   /* what other clients have not brought by now is waited for no longer */
    const struct ps_error *refusal; /* why a pull may not wait for others; NULL: we go away */
};

/* Bytes that serving will touch beyond those of the message; before the first step. */
uint64_t ps_serve_extra_work(const struct ps_serve *serve);

/* One step of a serve that is not done. */
enum ps_serve_progress ps_serve_step(struct ps_serve *serve, struct ps_serve_turn turn);

/* The pushes that were looked at so far: their results are there, but for what they wait for. */
size_t ps_serve_pushed(const struct ps_serve *serve);

/* The pulls whose results are there. */
size_t ps_serve_pulled(const struct ps_serve *serve);

/* Gives back what the pulls hold. Twice is allowed; so is a serve that is not done. */
void ps_serve_release_pulls(struct ps_serve *serve);

#endif
