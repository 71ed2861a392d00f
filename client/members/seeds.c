/* SPDX-License-Identifier: Apache-2.0 */
/* All seeds are asked at once in the beginning, so that a dead one costs no time; then one server
 * at a time, with a question that waits there until something has changed. When that one does not
 * answer, the next is asked: first with a short question, because a message that waits for a
 * connection looks like one that waits for a change. Beside a silent one the next is asked soon.
 *
 * A server that was reached at an address of the list is called there as long as it is the owner of
 * its shard: the address that it publishes may be one of another network. */
#include "client/members/seeds.h"

#include "base/assert.h"
#include "client/calls/retry.h"
#include "proto/wire.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Most for a question that is answered at once, its connection included. */
#define ASK_MS 2000
/* A question waits so long for a change: as long as a server that is cut off may go unnoticed. */
#define FOLLOW_MS 10000
/* The first answer waits so long for those of the other seeds: they say at which address of the
 * list each shard is. As long is waited for one that is silent. */
#define GRACE_MS 250
/* Between two rounds that nobody has answered. */
#define PAUSE_MS 200

#define NOBODY UINT32_MAX
enum place_state { UNKNOWN, GOOD, BAD };

/* An address at which a server is, or was. */
struct place {
    char address[PS_ADDRESS_BYTES_MAX];
    enum place_state state;
    uint64_t call;        /* in flight; 0: none */
    uint64_t deadline_ms; /* of that */
    bool is_routed;
    bool is_left;   /* the call was given up by us: its failure says nothing */
    uint32_t shard; /* that its server has, under `epoch` */
    uint64_t epoch; /* 0: not known */
    enum ps_status last;
    struct ps_call_request request;
    char bytes[256]; /* of the request */
};

struct ps_seeds {
    const struct ps_allocator *memory; /* borrowed */
    const struct ps_clock *clock;      /* borrowed */
    struct ps_channel channel;         /* owned */
    char job[PS_JOB_BYTES_MAX + 1];
    uint64_t last_call;
    uint32_t seed_count;
    uint32_t place_count; /* seeds, then what was learned */
    uint32_t followed;    /* the place whose question waits for a change */
    uint64_t silent_ms;   /* while none is followed: when to ask another beside those asked */
    bool fresh;           /* `known` or a place's shard has changed since it was told */
    enum ps_seeds_verdict verdict;
    uint64_t revision;             /* of what is known; 0: any is newer */
    struct ps_cluster_reply known; /* owned */
    struct ps_error why;           /* of the last failure */
    atomic_bool interrupted;
    struct place places[];
};

static void ask(struct ps_seeds *seeds, uint32_t index, uint64_t known_revision, uint64_t wait_ms);
static void take_answers(struct ps_seeds *seeds);
static void accept(struct ps_seeds *seeds, uint32_t index, struct ps_cluster_reply *reply);
static void learn(struct ps_seeds *seeds);
static bool unroute(struct ps_seeds *seeds, uint32_t index);
static void give_up(struct ps_seeds *seeds);
static uint32_t in_flight(const struct ps_seeds *seeds);
static void poll(struct ps_seeds *seeds, uint64_t until_ms);
static enum ps_status tell(struct ps_seeds *seeds, struct ps_members *members,
                           struct ps_error *error);

/* Places for what will be learned are there from the beginning: a channel cannot grow. */
enum ps_status ps_seeds_create(char (*addresses)[PS_ADDRESS_BYTES_MAX], uint32_t seed_count,
                               const char *job, const struct ps_channel *channel,
                               const struct ps_clock *clock, const struct ps_allocator *memory,
                               struct ps_seeds **out, struct ps_error *error)
{
    size_t count = (size_t)seed_count + PS_SEEDS_LEARNED;
    struct ps_seeds *seeds = ps_zeroed(memory, sizeof *seeds + count * sizeof(struct place));
    PS_ASSERT(seed_count > 0);
    if (seeds == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to find the servers");
    seeds->memory = memory;
    seeds->clock = clock;
    seeds->seed_count = seed_count;
    seeds->place_count = seed_count;
    seeds->followed = NOBODY;
    (void)snprintf(seeds->job, sizeof seeds->job, "%s", job);
    for (uint32_t i = 0; i < seed_count; i++)
        memcpy(seeds->places[i].address, addresses[i], sizeof seeds->places[i].address);
    ps_fail(&seeds->why, PS_ERR_UNAVAILABLE, "no server has answered");
    seeds->channel = *channel;
    *out = seeds;
    return PS_OK;
}

/* Every call has an outcome, and the channel ends when all were taken. */
void ps_seeds_destroy(struct ps_seeds *seeds)
{
    if (seeds == NULL)
        return;
    give_up(seeds);
    seeds->channel.destroy(seeds->channel.self);
    ps_cluster_reply_release(&seeds->known);
    ps_release(seeds->memory, seeds);
}

/* The outcome of a question that is given up says why it could not be answered. */
static void give_up(struct ps_seeds *seeds)
{
    for (uint32_t i = 0; i < seeds->place_count; i++)
        if (seeds->places[i].call != 0)
            seeds->channel.cancel(seeds->channel.self, seeds->places[i].call);
    for (take_answers(seeds); in_flight(seeds) > 0; take_answers(seeds))
        seeds->channel.poll(seeds->channel.self, ASK_MS);
}

/* With the reason of the last one: "no such host" helps more than "not in time". */
static enum ps_status no_answer(const struct ps_seeds *seeds, struct ps_error *error)
{
    return ps_fail(error, PS_ERR_UNAVAILABLE, "no server has answered: %.200s", seeds->why.text);
}

/* A failure that repeating cannot mend, if every seed has one. */
static bool is_hopeless(const struct ps_seeds *seeds)
{
    for (uint32_t i = 0; i < seeds->seed_count; i++) {
        const struct place *place = &seeds->places[i];
        if (place->state != BAD || ps_status_remedy(place->last) != PS_REMEDY_REJECT)
            return false;
    }
    return true;
}

/* A first answer of a cluster is not the end: the other seeds may say at which address of the list
 * their shards are, and a route that changes right after the opening would break the first calls.
 * Rounds follow each other after a pause, because servers may only be starting. */
enum ps_status ps_seeds_find(struct ps_seeds *seeds, uint64_t deadline_ms,
                             enum ps_seeds_verdict *verdict, struct ps_members *members,
                             struct ps_error *error)
{
    uint64_t grace_ms = PS_DEADLINE_NEVER;
    uint64_t round_ms = 0;
    for (;;) {
        take_answers(seeds);
        uint32_t asked = in_flight(seeds);
        *verdict = seeds->verdict;
        members->placement = seeds->known.placement;
        if (*verdict == PS_SEEDS_LIST)
            return PS_OK;
        if (*verdict == PS_SEEDS_CLUSTER && grace_ms == PS_DEADLINE_NEVER)
            grace_ms = ps_deadline_after(seeds->clock, GRACE_MS);
        if (*verdict == PS_SEEDS_CLUSTER &&
            (asked == 0 || ps_time_left_ms(seeds->clock, grace_ms) == 0))
            return tell(seeds, members, error);
        if (seeds->why.status == PS_ERR_NO_MEMORY || (asked == 0 && is_hopeless(seeds)))
            return ps_fail(error, seeds->why.status, "%s", seeds->why.text);
        if (ps_time_left_ms(seeds->clock, deadline_ms) == 0) {
            give_up(seeds);
            return no_answer(seeds, error);
        }
        if (asked == 0 && ps_time_left_ms(seeds->clock, round_ms) == 0) {
            round_ms = ps_deadline_after(seeds->clock, PAUSE_MS);
            for (uint32_t i = 0; i < seeds->seed_count; i++)
                ask(seeds, i, 0, 0);
            continue;
        }
        uint64_t until_ms = grace_ms < deadline_ms ? grace_ms : deadline_ms;
        poll(seeds, asked == 0 && round_ms < until_ms ? round_ms : until_ms);
    }
}

/* ---- As a source ---- */

/* The next to be asked. Without any that may answer, all are asked anew after a pause. */
static uint32_t choose(const struct ps_seeds *seeds, enum place_state state)
{
    for (uint32_t i = 0; i < seeds->place_count; i++)
        if (seeds->places[i].state == state && seeds->places[i].call == 0)
            return i;
    return NOBODY;
}

/* False when nobody is left to ask. */
static bool follow_somebody(struct ps_seeds *seeds)
{
    uint32_t index = choose(seeds, GOOD);
    if (index != NOBODY) {
        /* Other connections would be ones that each server has for each client. */
        for (uint32_t i = 0; i < seeds->place_count; i++)
            if (i != index && seeds->places[i].call == 0)
                (void)unroute(seeds, i);
        seeds->followed = index;
        ask(seeds, index, seeds->revision, FOLLOW_MS);
        return true;
    }
    bool waits = in_flight(seeds) > 0;
    if (!waits || ps_time_left_ms(seeds->clock, seeds->silent_ms) == 0)
        index = choose(seeds, UNKNOWN);
    if (index != NOBODY) {
        seeds->silent_ms = ps_deadline_after(seeds->clock, GRACE_MS);
        ask(seeds, index, 0, 0);
    }
    for (uint32_t i = 0; !waits && index == NOBODY && i < seeds->place_count; i++)
        seeds->places[i].state = UNKNOWN;
    return waits || index != NOBODY;
}

/* The server that is followed may be cut off from the others, and not know it. */
static void leave_followed(struct ps_seeds *seeds)
{
    if (seeds->followed == NOBODY)
        return;
    struct place *place = &seeds->places[seeds->followed];
    place->state = UNKNOWN;
    place->is_left = place->call != 0;
    if (place->is_left)
        seeds->channel.cancel(seeds->channel.self, place->call);
    seeds->followed = NOBODY;
    seeds->revision = 0;
}

/* Answers first, since they may be there already; then the interrupt, so that whoever wants to end
 * is not kept by news; and only then a wait. */
static enum ps_status next(void *self, struct ps_members *members, struct ps_error *error)
{
    struct ps_seeds *seeds = self;
    for (;;) {
        take_answers(seeds);
        if (atomic_exchange(&seeds->interrupted, false)) {
            leave_followed(seeds);
            return PS_OK;
        }
        if (seeds->fresh)
            return tell(seeds, members, error);
        if (seeds->followed == NOBODY && !follow_somebody(seeds))
            return no_answer(seeds, error);
        bool may_ask = seeds->followed == NOBODY && choose(seeds, UNKNOWN) != NOBODY;
        if (in_flight(seeds) > 0)
            poll(seeds, may_ask ? seeds->silent_ms : PS_DEADLINE_NEVER);
    }
}

/* The flag comes before the wake-up: the thread that is woken looks for it. */
static void interrupt(void *self)
{
    struct ps_seeds *seeds = self;
    atomic_store(&seeds->interrupted, true);
    seeds->channel.interrupt(seeds->channel.self);
}

static void destroy(void *self)
{
    ps_seeds_destroy(self);
}

struct ps_member_source ps_seeds_source(struct ps_seeds *seeds)
{
    return (struct ps_member_source){next, interrupt, destroy, seeds};
}

/* ---- Questions and answers ---- */

/* A connection is made for the first question, and kept only where one waits. */
static void ask(struct ps_seeds *seeds, uint32_t index, uint64_t known_revision, uint64_t wait_ms)
{
    struct place *place = &seeds->places[index];
    struct ps_channel *channel = &seeds->channel;
    struct ps_buffer message;
    PS_ASSERT(place->call == 0);
    ps_buffer_init_fixed(&message, place->bytes, sizeof place->bytes);
    ps_wire_put_text(&message, 1, seeds->job);
    ps_wire_put_uint(&message, 2, known_revision);
    ps_wire_put_uint(&message, 3, wait_ms);
    PS_ASSERT(!message.failed);
    place->request = (struct ps_call_request){.method = PS_METHOD_CLUSTER,
                                              .ask = {(const uint8_t *)place->bytes, message.size}};
    place->state = UNKNOWN;
    place->call = ++seeds->last_call;
    place->deadline_ms = ps_deadline_after(seeds->clock, wait_ms + ASK_MS);
    const struct ps_call_part part = {place->call, &place->request};
    bool is_sent = place->is_routed || channel->route(channel->self, index, place->address);
    place->is_routed = is_sent;
    if (is_sent && channel->submit(channel->self, index, &part, 1, place->deadline_ms) == PS_OK)
        return;
    place->call = 0;
    place->state = BAD;
    place->last = PS_ERR_NO_MEMORY;
    ps_fail(&seeds->why, PS_ERR_NO_MEMORY, "no memory to ask a server");
    if (seeds->followed == index)
        seeds->followed = NOBODY;
}

static uint32_t in_flight(const struct ps_seeds *seeds)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < seeds->place_count; i++)
        count += seeds->places[i].call != 0;
    return count;
}

/* Until something has come, or a question is too old: then it is cancelled, and its outcome
 * comes. */
static void poll(struct ps_seeds *seeds, uint64_t until_ms)
{
    struct ps_channel *channel = &seeds->channel;
    for (uint32_t i = 0; i < seeds->place_count; i++) {
        struct place *place = &seeds->places[i];
        if (place->call == 0)
            continue;
        if (ps_time_left_ms(seeds->clock, place->deadline_ms) == 0) {
            channel->cancel(channel->self, place->call);
            place->deadline_ms = ps_deadline_after(seeds->clock, ASK_MS);
        }
        until_ms = place->deadline_ms < until_ms ? place->deadline_ms : until_ms;
    }
    uint64_t left_ms =
        until_ms == PS_DEADLINE_NEVER ? ASK_MS : ps_time_left_ms(seeds->clock, until_ms);
    channel->poll(channel->self, left_ms);
}

/* A server that could not say anything is not asked for a while, and then over a new connection;
 * one that was left is as unknown as before. */
static void note_failure(struct ps_seeds *seeds, uint32_t index,
                         const struct ps_call_outcome *outcome)
{
    struct place *place = &seeds->places[index];
    (void)unroute(seeds, index);
    if (place->is_left)
        return;
    place->state = BAD;
    place->last = outcome->status;
    bool says_where = strstr(outcome->text, place->address) != NULL;
    ps_fail(&seeds->why, outcome->status, "%.100s%s%.150s", says_where ? "" : place->address,
            says_where ? "" : ": ", outcome->text);
    if (outcome->status == PS_ERR_UNSUPPORTED && index < seeds->seed_count)
        seeds->verdict = ps_seeds_judge(true, false, 0, seeds->seed_count);
    /* Another server may have the same under a lower revision. */
    if (seeds->followed == index)
        seeds->revision = 0;
}

/* An answer that cannot be read is no better than none. */
static void take_one(struct ps_seeds *seeds, uint32_t index, const struct ps_call_outcome *outcome)
{
    /* Whatever becomes of the answer, the place is free for the next question. */
    struct place *place = &seeds->places[index];
    struct ps_cluster_reply reply = {0};
    struct ps_call_outcome failed = *outcome;
    struct ps_error error = {0};
    place->call = 0;
    if (outcome->status == PS_OK) {
        failed.status = ps_decode_cluster(outcome->reply.ask, seeds->memory, &reply, &error);
        (void)snprintf(failed.text, sizeof failed.text, "%s", error.text);
    }
    if (failed.status == PS_OK)
        accept(seeds, index, &reply);
    else
        note_failure(seeds, index, &failed);
    ps_cluster_reply_release(&reply);
    place->is_left = false;
    if (seeds->followed == index)
        seeds->followed = NOBODY;
}

/* A delivery is released behind its decoding, which reads from it. */
static void take_answers(struct ps_seeds *seeds)
{
    struct ps_channel *channel = &seeds->channel;
    struct ps_delivery delivery;
    while (channel->take(channel->self, &delivery)) {
        for (uint32_t i = 0; i < seeds->place_count; i++)
            if (seeds->places[i].call == delivery.call)
                take_one(seeds, i, &delivery.outcome);
        channel->release(channel->self, &delivery);
    }
}

/* Ends the connection of a place without a question. */
static bool unroute(struct ps_seeds *seeds, uint32_t index)
{
    struct place *place = &seeds->places[index];
    PS_ASSERT(place->call == 0);
    if (place->is_routed && seeds->channel.route(seeds->channel.self, index, NULL))
        place->is_routed = false;
    return !place->is_routed;
}

/* Whose row says that it answers is found there as long as the row's epoch stands. */
static void note_shard(struct ps_seeds *seeds, struct place *place,
                       const struct ps_cluster_reply *reply)
{
    for (uint32_t i = 0; i < reply->shard_count; i++) {
        const struct ps_cluster_member *row = &reply->rows[i];
        if (!row->answers || (place->shard == i && place->epoch == row->epoch))
            continue;
        place->shard = i;
        place->epoch = row->epoch;
        seeds->fresh = true;
    }
}

/* Of several answers the newest counts. A number of shards that differs from the first is another
 * job's, under the address of a server of ours that is gone. */
static void accept(struct ps_seeds *seeds, uint32_t index, struct ps_cluster_reply *reply)
{
    struct place *place = &seeds->places[index];
    if (reply->shard_count == 0 ||
        (seeds->known.shard_count != 0 && reply->shard_count != seeds->known.shard_count)) {
        place->state = BAD;
        place->last = PS_ERR_UNAVAILABLE;
        return;
    }
    place->state = GOOD;
    if (seeds->verdict == PS_SEEDS_OPEN)
        seeds->verdict = ps_seeds_judge(false, reply->alone, reply->shard_count, seeds->seed_count);
    if (index < seeds->seed_count)
        note_shard(seeds, place, reply);
    /* An answer that was on the way while another came. */
    if (reply->revision < seeds->revision)
        return;
    seeds->revision = reply->revision;
    /* Decided for good; a server may not have heard of it yet. */
    if (reply->placement == 0)
        reply->placement = seeds->known.placement;
    seeds->fresh = seeds->fresh || !ps_cluster_reply_is_same(&seeds->known, reply);
    struct ps_cluster_reply old = seeds->known;
    seeds->known = *reply;
    *reply = old;
    learn(seeds);
}

static bool is_known(const struct ps_seeds *seeds, const char *address)
{
    for (uint32_t i = 0; i < seeds->known.shard_count; i++)
        if (strcmp(seeds->known.rows[i].address, address) == 0)
            return true;
    return false;
}

/* For one more server: a place that was never used, or that of a server which is gone. */
static struct place *free_place(struct ps_seeds *seeds)
{
    if (seeds->place_count < seeds->seed_count + PS_SEEDS_LEARNED)
        return &seeds->places[seeds->place_count++];
    for (uint32_t i = seeds->seed_count; i < seeds->place_count; i++) {
        struct place *place = &seeds->places[i];
        if (place->call == 0 && !is_known(seeds, place->address) && unroute(seeds, i))
            return place;
    }
    return NULL;
}

/* Servers beyond the list, so that a client goes on when all seeds have moved. */
static void learn(struct ps_seeds *seeds)
{
    for (uint32_t i = 0; i < seeds->known.shard_count; i++) {
        const char *address = seeds->known.rows[i].address;
        bool is_there = address[0] == '\0';
        for (uint32_t j = 0; j < seeds->place_count && !is_there; j++)
            is_there = strcmp(seeds->places[j].address, address) == 0;
        struct place *place = is_there ? NULL : free_place(seeds);
        if (place == NULL)
            continue;
        *place = (struct place){.state = UNKNOWN};
        memcpy(place->address, address, sizeof place->address);
    }
}

/* Without memory it is told the next time. */
static enum ps_status tell(struct ps_seeds *seeds, struct ps_members *members,
                           struct ps_error *error)
{
    struct ps_members told;
    PS_TRY(ps_seeds_members(&seeds->known, seeds->memory, &told, error));
    for (uint32_t i = 0; i < seeds->seed_count; i++) {
        const struct place *place = &seeds->places[i];
        if (place->epoch == 0 || told.rows[place->shard].epoch != place->epoch)
            continue;
        struct ps_member *row = &told.rows[place->shard];
        memcpy(row->address, place->address, sizeof row->address);
    }
    told.revision = (int64_t)seeds->revision;
    seeds->fresh = false;
    *members = told;
    return PS_OK;
}
