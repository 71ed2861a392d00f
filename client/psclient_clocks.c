/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient: clocks. Each server has its own, so that every call is a batch with an item for each
 * server, and what they say is put together: a worker is as far as it is at the server that has
 * heard least of it. */
#include "client/psclient.h"

#include "base/buffer.h"
#include "client/client_state.h"
#include "client/status_map.h"
#include "proto/clock_codec.h"

#include <string.h>

/* The server says how far the workers are before the call's own deadline. */
enum { MARGIN_MS = 2000 };

/* What the servers have said so far. */
struct told {
    uint64_t minimum, clock;
    struct psclient_worker_clock *rows;
    size_t count_max, count;
    size_t row; /* of the answer that is read */
};

static int ask_all(struct psclient *client, enum ps_method method, const struct ps_item *wish,
                   uint64_t timeout_ms, struct psclient_error *error);
static enum ps_status take_clocks(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error);
static enum ps_status take_progress(void *self, const struct ps_call_reply *reply,
                                    struct ps_error *error);
static void take_row(void *self, const struct ps_worker_clock *row);
static void take_name(void *self, struct ps_bytes name);

/* The public numbers are the wire's. Numbers that are none are refused by the servers, in words; a
 * rank beyond what a list can say is refused here. */
PS_EXPORT int psclient_set_clocks(struct psclient *client, const char *name,
                                  const struct psclient_clocks *clocks, uint64_t timeout_ms,
                                  struct psclient_error *error)
{
    uint8_t ranks[PS_CLOCK_RANKS_BYTES] = {0};
    struct ps_set_clocks_request request = {.name = ps_bytes_of_text(name),
                                            .workers = clocks->workers,
                                            .consistency = (uint32_t)clocks->consistency,
                                            .staleness = clocks->staleness,
                                            .straggler = (uint32_t)clocks->straggler,
                                            .ttl_ms = clocks->ttl_ms,
                                            .speculation = clocks->speculation,
                                            .task = clocks->task,
                                            .clock = clocks->clock};
    for (uint32_t i = 0; clocks->ranks != NULL && i < clocks->rank_count; i++) {
        uint32_t rank = clocks->ranks[i];
        if (rank >= PS_CLOCK_WORKERS_MAX)
            return ps_client_fail(error, PS_ERR_BAD_INPUT, "a rank of clocks is below 4096");
        ranks[rank / 8] |= (uint8_t)(1u << (rank % 8));
        /* So many bytes as the highest of them needs. */
        if (request.ranks.size < rank / 8 + 1)
            request.ranks = (struct ps_bytes){ranks, rank / 8 + 1};
    }
    /* Equal at every server; which one an item goes to is written into its own copy. */
    const struct ps_item wish = {.name = request.name, .set_clocks = &request};
    return ask_all(client, PS_METHOD_SET_CLOCKS, &wish, timeout_ms, error);
}

/* Of their settings nothing is said, so that no server can take the one for the other. */
PS_EXPORT int psclient_remove_clocks(struct psclient *client, const char *name, uint64_t timeout_ms,
                                     struct psclient_error *error)
{
    struct ps_set_clocks_request request = {.name = ps_bytes_of_text(name), .removes = true};
    const struct ps_item wish = {.name = request.name, .set_clocks = &request};
    return ask_all(client, PS_METHOD_SET_CLOCKS, &wish, timeout_ms, error);
}

/* Where it stands may differ from server to server after one was away: the worker goes on from the
 * highest, since no server would let it fall behind its own. */
PS_EXPORT int psclient_clock(struct psclient *client, const char *name, uint32_t worker,
                             uint64_t clock, uint64_t timeout_ms, uint64_t *now,
                             struct psclient_error *error)
{
    return psclient_clock_in_task(client, name, 0, worker, clock, timeout_ms, now, error);
}

PS_EXPORT int psclient_clock_in_task(struct psclient *client, const char *name, uint64_t task,
                                     uint32_t worker, uint64_t clock, uint64_t timeout_ms,
                                     uint64_t *now, struct psclient_error *error)
{
    /* Below every clock, so that the first server's is taken. */
    struct told told = {.clock = 0};
    const struct ps_clock_request request = {
        .name = ps_bytes_of_text(name), .worker = worker, .clock = clock, .task = task};
    const struct ps_item wish = {
        .name = request.name, .told_clock = &request, .answer = {take_clocks, &told}};
    int status = ask_all(client, PS_METHOD_CLOCK, &wish, timeout_ms, error);
    if (status == PSCLIENT_OK && now != NULL)
        *now = told.clock;
    return status;
}

/* Waits at all servers at the same time: each of them answers when its own minimum is there. */
PS_EXPORT int psclient_progress(struct psclient *client, const char *name, uint64_t at_least,
                                uint64_t timeout_ms, uint64_t *minimum,
                                struct psclient_worker_clock *rows, size_t count_max, size_t *count,
                                struct psclient_error *error)
{
    struct told told = {.minimum = UINT64_MAX, .rows = rows, .count_max = count_max};
    struct ps_buffer message;
    /* 0 would not wait at all where a minimum is asked for. */
    uint64_t wait_ms = timeout_ms > 0 ? timeout_ms : 1;
    if (name == NULL || name[0] == '\0')
        return ps_client_fail(error, PS_ERR_BAD_INPUT, "clocks without a name");
    ps_buffer_init(&message, client->memory, 1024);
    ps_encode_progress(&(struct ps_progress_request){.name = ps_bytes_of_text(name),
                                                     .at_least = at_least,
                                                     .wait_ms = wait_ms},
                       &message);
    const struct ps_item wish = {.name = ps_bytes_of_text(name),
                                 .ask = {(const uint8_t *)message.text, message.size},
                                 .answer = {take_progress, &told}};
    int status = ask_all(client, PS_METHOD_PROGRESS, &wish, wait_ms + MARGIN_MS, error);
    ps_buffer_fini(&message);
    /* Written on success only: what some servers have said is not how far the workers are. */
    if (status != PSCLIENT_OK)
        return status;
    *minimum = told.minimum;
    *count = told.count;
    return status;
}

/* The same of every server, as one batch: a server that is away holds up none of the others. */
static int ask_all(struct psclient *client, enum ps_method method, const struct ps_item *wish,
                   uint64_t timeout_ms, struct psclient_error *error)
{
    uint32_t count = client->shard_count;
    struct ps_item *items = ps_zeroed_array(client->memory, count, sizeof *items);
    if (items == NULL)
        return ps_client_fail(error, PS_ERR_NO_MEMORY, "no memory for a batch");
    /* Answers are taken under the client's lock, one after the other, so that they share one
     * place. */
    for (uint32_t i = 0; i < count; i++) {
        items[i] = *wish;
        items[i].shard = i;
    }
    int status = ps_client_run_items(client, method, items, count, timeout_ms, NULL, error);
    ps_release(client->memory, items);
    return status;
}

/* Answers are taken one at a time, with the engine. */
static enum ps_status take_clocks(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    (void)error;
    struct told *told = self;
    if (reply->clocks.clock > told->clock)
        told->clock = reply->clocks.clock;
    return PS_OK;
}

/* Decoded here, so that the rows of a thousand workers need no memory of their own. */
static enum ps_status take_progress(void *self, const struct ps_call_reply *reply,
                                    struct ps_error *error)
{
    struct told *told = self;
    struct ps_progress_reply progress;
    const struct ps_progress_rows rows = {take_row, take_name, told};
    /* Rows come by rank, and begin anew with each server. */
    told->row = 0;
    PS_TRY(ps_decode_progress_reply(reply->ask, &rows, &progress, error));
    /* The slowest worker may be another one at each server. */
    if (progress.minimum < told->minimum)
        told->minimum = progress.minimum;
    return PS_OK;
}

/* The first server's row is taken, those behind it make it no better. A server whose clocks have
 * more workers than another one's was told of a change first. */
static void take_row(void *self, const struct ps_worker_clock *row)
{
    struct told *told = self;
    size_t i = told->row++;
    bool is_first = i >= told->count;
    if (is_first)
        told->count = i + 1;
    /* Counted all the same: the caller learns how many rows there would be. */
    if (i >= told->count_max)
        return;
    struct psclient_worker_clock *to = &told->rows[i];
    if (is_first)
        *to = (struct psclient_worker_clock){.clock = row->clock};
    if (row->clock < to->clock)
        to->clock = row->clock;
    if (row->silent_ms > to->silent_ms)
        to->silent_ms = row->silent_ms;
    to->evicted = to->evicted != 0 || row->is_evicted ? 1 : 0;
    to->absent = to->absent != 0 || row->is_absent ? 1 : 0;
}

/* Names come only where none was asked for. */
static void take_name(void *self, struct ps_bytes name)
{
    (void)self;
    (void)name;
}
