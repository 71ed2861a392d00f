/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of a list do not know each other, so that the first of them answers for all. */
#include "client/any_server.h"

#include "base/assert.h"

/* One server is asked for so long, beyond what it is asked to wait. */
#define TRY_MS 2000

/* Asks one server once; the engine repeats what was lost on the way. */
static enum ps_status ask_one(struct ps_any_server *any, enum ps_method method,
                              const struct ps_buffer *message, uint64_t deadline_ms,
                              struct ps_answer_taker answer, struct ps_error *error)
{
    struct ps_item item = {.shard = any->shard,
                           .ask = {(const uint8_t *)message->text, message->size},
                           .answer = answer};
    const struct ps_batch_request request = {
        .method = method, .items = &item, .item_count = 1, .deadline_ms = deadline_ms};
    /* The buffers are made for the longest texts. */
    PS_ASSERT(!message->failed);
    return ps_client_run_one(any->client, &request, error);
}

/* The next server, or with `stays` the present one if it has a route: one without would be waited
 * for. Where none has one, whichever comes first. */
static void choose(struct ps_any_server *any, bool stays)
{
    struct psclient *client = any->client;
    if (client->is_list)
        return;
    ps_mutex_lock(&client->mutex);
    /* Around once: with a single server it is that one in any case. */
    uint32_t first = any->shard + (stays ? 0 : 1);
    for (uint32_t i = 0; i < client->shard_count; i++) {
        any->shard = (first + i) % client->shard_count;
        if (client->routes[any->shard].epoch != 0)
            break;
    }
    ps_mutex_unlock(&client->mutex);
}

/* Whoever cancels also ends the question that is out, or waits for it. */
static bool is_cancelled(const struct ps_any_server *any)
{
    return any->is_cancelled != NULL && atomic_load(any->is_cancelled);
}

/* What was lost on the way is asked at the next server. A server that says "too many" is left for
 * another, too, since each counts for itself; memory that is refused here would be refused
 * again. */
enum ps_status ps_any_server_ask(struct ps_any_server *any, enum ps_method method,
                                 const struct ps_buffer *message, uint64_t wait_ms,
                                 uint64_t deadline_ms, struct ps_answer_taker answer,
                                 struct ps_error *error)
{
    /* Where the last question went is asked first: a place or a right is known there already. */
    const struct ps_clock *clock = any->client->clock;
    choose(any, true);
    for (;;) {
        /* The server answers when its wait is over; then there is time for the way back. */
        uint64_t until_ms = ps_deadline_after(clock, wait_ms + TRY_MS);
        enum ps_status status = ask_one(
            any, method, message, until_ms < deadline_ms ? until_ms : deadline_ms, answer, error);
        /* By the table of statuses, as every repeat. */
        enum ps_remedy remedy = ps_status_remedy(status);
        bool is_away = remedy == PS_REMEDY_RETRY || remedy == PS_REMEDY_UNKNOWN;
        if (!is_away || status == PS_ERR_NO_MEMORY)
            return status;
        choose(any, false);
        if (ps_time_left_ms(clock, deadline_ms) == 0 || is_cancelled(any))
            return status;
    }
}
