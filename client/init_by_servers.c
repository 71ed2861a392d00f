/* SPDX-License-Identifier: Apache-2.0 */
/* Any server can go on with what another one began, since everything lies in the store under the
 * client's number: a server that does not answer is left for the next. Servers of a list do not
 * know each other, so that the first of them has the right for all. */
#include "client/init_by_servers.h"

#include "base/assert.h"
#include "base/random.h"
#include "client/answers.h"
#include "proto/wire.h"

/* One server is asked for so long, beyond what it is asked to wait. */
#define TRY_MS 2000

/* As in BeginInitResponse. */
enum { TURN = 1, RIGHT, LOST };

struct servers_way {
    struct psclient *client; /* borrowed */
    uint64_t number;         /* of this client, for the servers */
    uint64_t ttl_ms;
    uint64_t right; /* 0: none */
    uint64_t lost;  /* as prepared */
    uint32_t shard; /* that is asked next */
};

static enum ps_status turn(void *self, uint64_t deadline_ms, enum ps_init_turn *out,
                           struct ps_error *error);
static enum ps_status keep(void *self, uint64_t deadline_ms, struct ps_error *error);
/* The right is kept by the same question that tells what was lost so far: between the two nothing
 * can come that finish would not notice. */
static enum ps_status prepare(void *self, uint64_t deadline_ms, struct ps_error *error);
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
    way->ttl_ms = ttl_ms;
    /* 0 is nobody's. */
    while (way->number == 0)
        ps_random_system(&way->number, sizeof way->number);
    *out = (struct ps_init_way){turn, keep, prepare, finish, abandon, interrupt, destroy, way};
    return PS_OK;
}

/* Asks one server once; the engine repeats what was lost on the way. */
static enum ps_status ask_one(struct servers_way *way, enum ps_method method,
                              const struct ps_buffer *message, uint64_t deadline_ms,
                              struct ps_fields *fields, struct ps_error *error)
{
    struct ps_item item = {.shard = way->shard,
                           .ask = {(const uint8_t *)message->text, message->size},
                           .answer = ps_answer_fields(fields)};
    const struct ps_batch_request request = {
        .method = method, .items = &item, .item_count = 1, .deadline_ms = deadline_ms};
    /* The buffers are made for the longest job's name. */
    PS_ASSERT(!message->failed);
    PS_TRY(ps_client_run(way->client, &request, error));
    return item.status == PS_OK ? PS_OK : ps_fail(error, item.status, "%s", item.text);
}

/* A server without a route would be waited for. Where none has one, whichever comes first. */
static void choose_next(struct servers_way *way)
{
    /* Servers of a list know nothing of each other: the first has the lock for all. */
    struct psclient *client = way->client;
    if (client->is_list)
        return;
    ps_mutex_lock(&client->mutex);
    for (uint32_t i = 0; i < client->shard_count; i++) {
        way->shard = (way->shard + 1) % client->shard_count;
        if (client->routes[way->shard].epoch != 0)
            break;
    }
    ps_mutex_unlock(&client->mutex);
}

/* A refusal is final, whoever says so: all servers would find the same in the store. What was lost
 * on the way is asked at the next server, which goes on with what the first may have begun. */
static enum ps_status ask(struct servers_way *way, enum ps_method method,
                          const struct ps_buffer *message, uint64_t wait_ms, uint64_t deadline_ms,
                          struct ps_fields *fields, struct ps_error *error)
{
    const struct ps_clock *clock = way->client->clock;
    for (;;) {
        uint64_t until_ms = ps_deadline_after(clock, wait_ms + TRY_MS);
        enum ps_status status = ask_one(
            way, method, message, until_ms < deadline_ms ? until_ms : deadline_ms, fields, error);
        enum ps_remedy remedy = ps_status_remedy(status);
        bool is_away = remedy == PS_REMEDY_RETRY || remedy == PS_REMEDY_UNKNOWN;
        if (!is_away || status == PS_ERR_NO_MEMORY)
            return status;
        choose_next(way);
        if (ps_time_left_ms(clock, deadline_ms) == 0 || atomic_load(&way->client->init_cancelled))
            return status;
    }
}

/* The same message asks for the right, keeps a place and keeps the right: what a server finds under
 * the number decides. */
static enum ps_status begin(struct servers_way *way, uint64_t wait_ms, uint64_t deadline_ms,
                            struct ps_fields *fields, struct ps_error *error)
{
    char bytes[PS_JOB_BYTES_MAX + 64];
    struct ps_buffer message;
    ps_buffer_init_fixed(&message, bytes, sizeof bytes);
    ps_wire_put_uint(&message, 1, way->number);
    ps_wire_put_uint(&message, 2, way->ttl_ms);
    ps_wire_put_uint(&message, 3, wait_ms);
    ps_wire_put_uint(&message, 4, way->right);
    ps_wire_put_text(&message, 5, way->client->job);
    return ask(way, PS_METHOD_BEGIN_INIT, &message, wait_ms, deadline_ms, fields, error);
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
        begin(way, left_ms < third_ms ? left_ms : third_ms,
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
    enum ps_status status = begin(self, 0, deadline_ms, &fields, error);
    bool is_lost = status == PS_ERR_STALE_EPOCH ||
                   (status == PS_OK && fields.number[TURN] != PS_INIT_SELECTED);
    return is_lost ? ps_fail(error, PS_ERR_LEASE_LOST, "the lock was lost") : status;
}

static enum ps_status prepare(void *self, uint64_t deadline_ms, struct ps_error *error)
{
    struct servers_way *way = self;
    struct ps_fields fields;
    PS_TRY(begin(way, 0, deadline_ms, &fields, error));
    if (fields.number[TURN] != PS_INIT_SELECTED)
        return ps_fail(error, PS_ERR_STALE_EPOCH, "no longer the owner of the lock");
    way->lost = fields.number[LOST];
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
