/* SPDX-License-Identifier: Apache-2.0 */
/* Any server can go on with what another one began, since everything lies in the store under the
 * client's number. Of a list the first has the right for all. */
#include "client/init_by_servers.h"

#include "base/random.h"
#include "client/answers.h"
#include "client/any_server.h"
#include "proto/wire.h"

/* One server is asked for so long, beyond what it is asked to wait. */
#define TRY_MS 2000

/* As in BeginInitResponse. */
enum { TURN = 1, RIGHT, LOST, PLACEMENT };

struct servers_way {
    struct psclient *client; /* borrowed */
    uint64_t number;         /* of this client, for the servers */
    uint64_t ttl_ms;
    uint64_t right;     /* 0: none */
    uint64_t lost;      /* as prepared */
    uint64_t placement; /* as told last; 0: nothing is decided, or the server does not know of it */
    struct ps_any_server server;
};

static enum ps_status turn(void *self, uint64_t deadline_ms, enum ps_init_turn *out,
                           struct ps_error *error);
static enum ps_status keep(void *self, uint64_t deadline_ms, struct ps_error *error);
/* The right is kept by the same question that tells what was lost so far: between the two nothing
 * can come that finish would not notice. */
static enum ps_status prepare(void *self, uint64_t deadline_ms, struct ps_error *error);
static enum ps_status decide(void *self, uint64_t proposal, uint64_t deadline_ms, uint64_t *decided,
                             struct ps_error *error);
static enum ps_status finish(void *self, uint64_t deadline_ms, struct ps_error *error);
static void abandon(void *self, uint64_t deadline_ms);
static void interrupt(void *self);
static void destroy(void *self);

/* The number is random and not the client's id of requests: a trainer that opens a second client,
 * or comes back under an id that it chose, must not find a place that it left behind. */
enum ps_status ps_init_by_servers(struct psclient *client, uint64_t ttl_ms, struct ps_init_way *out,
                                  struct ps_error *error)
{
    struct servers_way *way = ps_zeroed(client->memory, sizeof *way);
    if (way == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory to initialise");
    way->client = client;
    way->server = (struct ps_any_server){.client = client, .is_cancelled = &client->init_cancelled};
    way->ttl_ms = ttl_ms;
    /* 0 is nobody's. */
    while (way->number == 0)
        ps_random_system(&way->number, sizeof way->number);
    *out =
        (struct ps_init_way){turn, keep, prepare, decide, finish, abandon, interrupt, destroy, way};
    return PS_OK;
}

static enum ps_status ask(struct servers_way *way, enum ps_method method,
                          const struct ps_buffer *message, uint64_t wait_ms, uint64_t deadline_ms,
                          struct ps_fields *fields, struct ps_error *error)
{
    return ps_any_server_ask(&way->server, method, message, wait_ms, deadline_ms,
                             ps_answer_fields(fields), error);
}

/* The same message asks for the right, keeps a place and keeps the right: what a server finds under
 * the number decides. */
static enum ps_status begin(struct servers_way *way, uint64_t proposal, uint64_t wait_ms,
                            uint64_t deadline_ms, struct ps_fields *fields, struct ps_error *error)
{
    char bytes[PS_JOB_BYTES_MAX + 64];
    struct ps_buffer message;
    ps_buffer_init_fixed(&message, bytes, sizeof bytes);
    ps_wire_put_uint(&message, 1, way->number);
    ps_wire_put_uint(&message, 2, way->ttl_ms);
    ps_wire_put_uint(&message, 3, wait_ms);
    ps_wire_put_uint(&message, 4, way->right);
    ps_wire_put_text(&message, 5, way->client->job);
    ps_wire_put_uint(&message, 6, proposal);
    PS_TRY(ask(way, PS_METHOD_BEGIN_INIT, &message, wait_ms, deadline_ms, fields, error));
    /* A server whose store has just come back may not know what another has told. */
    if (fields->number[PLACEMENT] != 0)
        way->placement = fields->number[PLACEMENT];
    return PS_OK;
}

/* A right that was lost is a place that was lost: the next turn asks for another. */
static enum ps_status turn(void *self, uint64_t deadline_ms, enum ps_init_turn *out,
                           struct ps_error *error)
{
    struct servers_way *way = self;
    struct ps_fields fields;
    /* The server answers when its wait is over; the call's deadline leaves it time for that. */
    uint64_t left_ms = ps_time_left_ms(way->client->clock, deadline_ms);
    uint64_t third_ms = way->ttl_ms / 3;
    enum ps_status status =
        begin(way, 0, left_ms < third_ms ? left_ms : third_ms,
              ps_deadline_after(way->client->clock, left_ms + TRY_MS), &fields, error);
    if (status == PS_ERR_STALE_EPOCH) {
        way->right = 0;
        return ps_fail(error, PS_ERR_LEASE_LOST, "our place in the queue is gone");
    }
    if (status != PS_OK)
        return status;
    if (fields.number[TURN] > PS_INIT_DONE)
        return ps_fail(error, PS_ERR_BAD_INPUT, "a server says turn %u",
                       (unsigned)fields.number[TURN]);
    *out = (enum ps_init_turn)fields.number[TURN];
    way->right = *out == PS_INIT_DONE ? 0 : fields.number[RIGHT];
    return PS_OK;
}

/* What was lost counts from prepare on, and stays as it was told there. */
static enum ps_status keep(void *self, uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_fields fields;
    enum ps_status status = begin(self, 0, 0, deadline_ms, &fields, error);
    bool is_lost = status == PS_ERR_STALE_EPOCH ||
                   (status == PS_OK && fields.number[TURN] != PS_INIT_SELECTED);
    return is_lost ? ps_fail(error, PS_ERR_LEASE_LOST, "the lock was lost") : status;
}

static enum ps_status prepare(void *self, uint64_t deadline_ms, struct ps_error *error)
{
    struct servers_way *way = self;
    struct ps_fields fields;
    PS_TRY(begin(way, 0, 0, deadline_ms, &fields, error));
    if (fields.number[TURN] != PS_INIT_SELECTED)
        return ps_fail(error, PS_ERR_STALE_EPOCH, "no longer the owner of the lock");
    way->lost = fields.number[LOST];
    return PS_OK;
}

/* The question that keeps the right carries the proposal, and its answer what holds. A server that
 * is older than placements decides nothing: then the answer is 0, and the job has the classic
 * rule. */
static enum ps_status decide(void *self, uint64_t proposal, uint64_t deadline_ms, uint64_t *decided,
                             struct ps_error *error)
{
    struct servers_way *way = self;
    struct ps_fields fields;
    if (proposal != 0)
        PS_TRY(begin(way, proposal, 0, deadline_ms, &fields, error));
    if (proposal != 0 && fields.number[TURN] != PS_INIT_SELECTED)
        return ps_fail(error, PS_ERR_STALE_EPOCH, "no longer the owner of the lock");
    *decided = way->placement;
    return PS_OK;
}

/* After an answer the right is over, taken or lost. Without one it is asked for again, by whoever
 * called. */
static enum ps_status end(struct servers_way *way, bool abandons, uint64_t deadline_ms,
                          struct ps_error *error)
{
    char bytes[PS_JOB_BYTES_MAX + 64];
    struct ps_buffer message;
    struct ps_fields fields;
    ps_buffer_init_fixed(&message, bytes, sizeof bytes);
    ps_wire_put_uint(&message, 1, way->number);
    ps_wire_put_uint(&message, 2, way->right);
    ps_wire_put_uint(&message, 3, way->lost);
    ps_wire_put_uint(&message, 4, abandons ? 1 : 0);
    ps_wire_put_text(&message, 5, way->client->job);
    enum ps_status status = ask(way, PS_METHOD_END_INIT, &message, 0, deadline_ms, &fields, error);
    if (status == PS_OK || status == PS_ERR_STALE_EPOCH)
        way->right = 0;
    return status;
}

static enum ps_status finish(void *self, uint64_t deadline_ms, struct ps_error *error)
{
    return end(self, false, deadline_ms, error);
}

/* Best effort: without it the right passes on when the client has been silent for its time. */
static void abandon(void *self, uint64_t deadline_ms)
{
    struct servers_way *way = self;
    /* Without a right there is nothing that another trainer would wait for. */
    if (way->right == 0)
        return;
    enum ps_status ignored = end(way, true, deadline_ms, NULL);
    (void)ignored;
    way->right = 0;
}

/* A question is out for two seconds at most, and is waited for. */
static void interrupt(void *self)
{
    (void)self;
}

static void destroy(void *self)
{
    /* The way owns nothing but itself: what the servers know was given up before. */
    struct servers_way *way = self;
    ps_release(way->client->memory, way);
}
