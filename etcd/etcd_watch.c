/* SPDX-License-Identifier: Apache-2.0 */
/* The watch of kv_etcd.c: a POST whose reply never ends, and the heartbeat beside it.
 *
 * A stream that is silent may be idle or dead, and TCP takes minutes to tell. So after a while
 * without a line a small question is sent to the same endpoint; if that is not answered in time,
 * the watch is broken and the caller opens another one elsewhere. Lines only say that something
 * under the prefix changed: the caller reads the keys again, so nothing is lost by joining several
 * changes into one. */
#include "etcd/etcd_store.h"

#include "base/assert.h"
#include "etcd/etcd_request.h"

#include <stdio.h>
#include <string.h>

static enum ps_status start_stream(struct ps_etcd_store *store, const char *prefix,
                                   int64_t revision, struct ps_error *error);
static void wait_created(struct ps_etcd_store *store, uint64_t deadline_ms);
static void take_lines(struct ps_etcd_watch *watch);
static void take_line(struct ps_etcd_watch *watch, struct ps_bytes line);
static void break_watch(struct ps_etcd_watch *watch, enum ps_status status, const char *reason);
static void check_heartbeat(struct ps_etcd_store *store);
static void start_heartbeat(struct ps_etcd_store *store);
static void end_heartbeat(struct ps_etcd_store *store);
static uint64_t next_check_ms(const struct ps_etcd_store *store);

/* Two transfers of their own, so that a question may be asked while the watch is open. */
enum ps_status ps_etcd_watch_init(struct ps_etcd_watch *watch, const struct ps_allocator *memory,
                                  struct ps_error *error)
{
    PS_TRY(ps_etcd_transfer_init(&watch->stream, memory, error));
    return ps_etcd_transfer_init(&watch->heartbeat, memory, error);
}

void ps_etcd_watch_fini(struct ps_etcd_store *store)
{
    ps_etcd_watch_close(store);
    ps_etcd_transfer_fini(&store->watch.stream);
    ps_etcd_transfer_fini(&store->watch.heartbeat);
}

/* Also the way in which every attempt to open begins: the flags of the former watch must not be
 * taken for those of the new one. */
void ps_etcd_watch_close(struct ps_etcd_store *store)
{
    struct ps_etcd_watch *watch = &store->watch;
    (void)ps_etcd_transfer_stop(&store->transport, &watch->stream);
    (void)ps_etcd_transfer_stop(&store->transport, &watch->heartbeat);
    watch->open = false;
    watch->created = false;
    watch->changed = false;
    watch->wants_token = false;
    watch->broken = PS_OK;
}

/* Tries each endpoint once, and once more where a new token is wanted. Returns when etcd has
 * confirmed the watch: only from then on is no change missed. A compacted revision ends the
 * attempts, since every endpoint would say the same; the caller has to read everything anew. */
enum ps_status ps_etcd_watch_open(struct ps_etcd_store *store, const char *prefix, int64_t revision,
                                  uint64_t deadline_ms, struct ps_error *error)
{
    struct ps_etcd_watch *watch = &store->watch;
    bool authenticated = false;
    size_t failed = 0;
    while (failed < store->endpoint_count) {
        ps_etcd_watch_close(store);
        if (ps_time_left_ms(store->clock, deadline_ms) == 0)
            return ps_fail(error, PS_ERR_UNAVAILABLE, "no time for a watch on %s", prefix);
        /* A watch takes the token with its request; it cannot be given another one later. */
        PS_TRY(ps_etcd_settle_token(store, deadline_ms, error));
        PS_TRY(start_stream(store, prefix, revision, error));
        wait_created(store, deadline_ms);
        /* Both: an endpoint may confirm the watch and end it in the same moment. */
        if (watch->broken == PS_OK && watch->created) {
            watch->open = true;
            return PS_OK;
        }
        (void)ps_fail(error, watch->broken == PS_OK ? PS_ERR_UNAVAILABLE : watch->broken,
                      "watch on %s at %s: %s", prefix, store->endpoints[store->endpoint],
                      watch->broken == PS_OK ? "no answer in time" : watch->reason);
        if (watch->broken == PS_ERR_CONFLICT)
            break;
        /* A stale token is not counted as a failure of the endpoint. */
        if (watch->wants_token && store->access.user != NULL && !authenticated) {
            authenticated = true;
            ps_etcd_forget_token(store);
            continue;
        }
        if (watch->broken == PS_ERR_DENIED)
            break;
        store->endpoint = (store->endpoint + 1) % store->endpoint_count;
        failed++;
    }
    /* Closing resets the reason, so it is read before. */
    enum ps_status status = watch->broken == PS_OK ? PS_ERR_UNAVAILABLE : watch->broken;
    ps_etcd_watch_close(store);
    return status;
}

/* The endpoint is remembered, since the store may move on to another one for its questions while
 * the stream stays. */
static enum ps_status start_stream(struct ps_etcd_store *store, const char *prefix,
                                   int64_t revision, struct ps_error *error)
{
    struct ps_etcd_watch *watch = &store->watch;
    size_t prefix_size = strlen(prefix);
    /* The prefix is kept for the heartbeat, which reads what is watched. */
    PS_ASSERT(prefix_size < sizeof watch->prefix);
    memcpy(watch->prefix, prefix, prefix_size + 1);
    watch->endpoint = store->endpoint;
    watch->heard_ms = ps_now_ms(store->clock);

    struct ps_buffer body;
    ps_buffer_init(&body, store->memory, PS_ETCD_REQUEST_BYTES_MAX);
    ps_etcd_request_watch(&body, prefix, revision);
    enum ps_status status = ps_buffer_status(&body, error);
    if (status == PS_OK) {
        const struct ps_etcd_post post = {
            .endpoint = store->endpoints[store->endpoint],
            .path = "/v3/watch",
            .token = store->token,
            .body = {(const uint8_t *)body.text, body.size},
            .stream = true,
        };
        status = ps_etcd_transfer_start(&store->transport, &watch->stream, &post, error);
    }
    ps_buffer_fini(&body);
    return status;
}

/* An endpoint that takes the request and says nothing gets as long as any other question. */
static void wait_created(struct ps_etcd_store *store, uint64_t deadline_ms)
{
    struct ps_etcd_watch *watch = &store->watch;
    uint64_t until = ps_deadline_after(store->clock, store->request_ms);
    if (until > deadline_ms)
        until = deadline_ms;
    uint64_t left = ps_time_left_ms(store->clock, until);
    while (!watch->created && watch->broken == PS_OK && left > 0) {
        ps_etcd_run(store, left);
        left = ps_time_left_ms(store->clock, until);
    }
}

/* Takes what has come, whoever waited for it (ps_etcd_run). When the stream has ended, what it left
 * tells whether etcd refused the watch or merely closed it. */
void ps_etcd_watch_scan(struct ps_etcd_store *store)
{
    struct ps_etcd_watch *watch = &store->watch;
    struct ps_etcd_transfer *stream = &watch->stream;
    if (stream->state == PS_ETCD_IDLE)
        return;
    /* Anything that comes is a sign of life, also half a line. */
    if (stream->reply.size > 0)
        watch->heard_ms = ps_now_ms(store->clock);
    take_lines(watch);
    if (stream->state == PS_ETCD_RUNNING || watch->broken != PS_OK)
        return;
    /* An error within a running stream has no line end: it is what is left when the stream ends. */
    struct ps_etcd_error last = {.meaning = PS_ETCD_UNKNOWN};
    if (stream->state == PS_ETCD_ENDED && stream->reply.size > 0)
        ps_etcd_reply_error(ps_etcd_reply_of(stream), stream->http_status, &last);
    watch->wants_token = last.meaning == PS_ETCD_AUTHENTICATE;
    /* Only a definite refusal is passed on as such; everything else is worth another endpoint. */
    bool refused = last.meaning == PS_ETCD_REFUSED || watch->wants_token;
    break_watch(watch, refused ? last.status : PS_ERR_UNAVAILABLE,
                last.text[0] != '\0' ? last.text : "the stream ended");
}

/* Whole lines are taken; the beginning of the next one stays, moved to the front, so that the
 * buffer's bound applies to a line and not to the life of the watch. */
static void take_lines(struct ps_etcd_watch *watch)
{
    struct ps_buffer *reply = &watch->stream.reply;
    size_t taken = 0;
    while (watch->broken == PS_OK && taken < reply->size) {
        const char *begin = reply->text + taken;
        const char *end = memchr(begin, '\n', reply->size - taken);
        /* The rest of the line is still to come. */
        if (end == NULL)
            break;
        size_t size = (size_t)(end - begin);
        if (size > 0)
            take_line(watch, (struct ps_bytes){(const uint8_t *)begin, size});
        taken += size + 1;
    }
    if (taken == 0)
        return;
    size_t rest = reply->size - taken;
    memmove(reply->text, reply->text + taken, rest);
    ps_buffer_rewind(reply, rest);
}

/* A line that cannot be read breaks the watch: it may have been the one that announced a change. */
static void take_line(struct ps_etcd_watch *watch, struct ps_bytes text)
{
    struct ps_etcd_watch_line line;
    struct ps_error error = {0};
    if (ps_etcd_reply_watch(text, &line, &error) != PS_OK) {
        break_watch(watch, PS_ERR_UNAVAILABLE, error.text);
        return;
    }
    /* The revision to begin at is forgotten by etcd. Waiting would miss what happened in between,
     * so the caller has to read everything and begin at a later one. */
    if (line.compact_revision > 0) {
        break_watch(watch, PS_ERR_CONFLICT, "the revision is compacted");
        return;
    }
    if (line.cancelled || line.error.meaning != PS_ETCD_FINE) {
        bool refused =
            line.error.meaning == PS_ETCD_REFUSED || line.error.meaning == PS_ETCD_AUTHENTICATE;
        /* A watch that is cancelled at once says "permission denied" for a stale token as well. */
        watch->wants_token = refused && line.error.status == PS_ERR_DENIED;
        break_watch(watch, refused ? line.error.status : PS_ERR_UNAVAILABLE, line.error.text);
        return;
    }
    /* Both only ever rise here; ps_etcd_watch_wait takes `changed` down when it has reported it. */
    watch->created = watch->created || line.created;
    watch->changed = watch->changed || line.changed;
}

/* The watch is closed later, by whoever waits for it: a transfer must not be stopped from within
 * the scanning of its own reply. */
static void break_watch(struct ps_etcd_watch *watch, enum ps_status status, const char *reason)
{
    watch->broken = status;
    (void)snprintf(watch->reason, sizeof watch->reason, "%.*s", (int)sizeof watch->reason - 1,
                   reason);
}

/* Returns at the first of: a change, the end of the watch, an interruption, the deadline. The last
 * two are no failure and leave the watch open. */
enum ps_status ps_etcd_watch_wait(struct ps_etcd_store *store, uint64_t deadline_ms, bool *changed,
                                  struct ps_error *error)
{
    struct ps_etcd_watch *watch = &store->watch;
    if (!watch->open)
        return ps_fail(error, PS_ERR_UNAVAILABLE, "no watch is open");
    /* First what is there already: an old change is reported before anything is waited for. */
    ps_etcd_run(store, 0);
    /* A change wins over a break: lines that came before the stream ended still count. */
    for (;;) {
        check_heartbeat(store);
        if (watch->changed) {
            watch->changed = false;
            *changed = true;
            return PS_OK;
        }
        if (watch->broken != PS_OK) {
            /* A broken watch is closed before it is reported, so that the next call of this
             * function says "no watch is open" instead of waiting on a dead stream. */
            enum ps_status status =
                ps_fail(error, watch->broken, "watch on %s: %s", watch->prefix, watch->reason);
            ps_etcd_watch_close(store);
            return status;
        }
        uint64_t left = ps_time_left_ms(store->clock, deadline_ms);
        /* Taken and cleared in one step: an interruption from another thread counts exactly
         * once. */
        if (atomic_exchange(&store->interrupted, false) || left == 0) {
            *changed = false;
            return PS_OK;
        }
        uint64_t check = ps_time_left_ms(store->clock, next_check_ms(store));
        ps_etcd_run(store, left < check ? left : check);
    }
}

/* When check_heartbeat has something to do, if nothing is heard until then. */
static uint64_t next_check_ms(const struct ps_etcd_store *store)
{
    const struct ps_etcd_watch *watch = &store->watch;
    bool asking = watch->heartbeat.state != PS_ETCD_IDLE;
    return (asking ? watch->asked_ms : watch->heard_ms) + store->request_ms;
}

/* One heartbeat at a time, to the endpoint of the watch. Its silence condemns the stream and moves
 * the store on to the next endpoint, since this one would be silent to other questions too. */
static void check_heartbeat(struct ps_etcd_store *store)
{
    struct ps_etcd_watch *watch = &store->watch;
    if (watch->broken != PS_OK)
        return;
    uint64_t now = ps_now_ms(store->clock);
    switch (watch->heartbeat.state) {
    case PS_ETCD_IDLE:
        if (now >= next_check_ms(store))
            start_heartbeat(store);
        return;
    case PS_ETCD_RUNNING:
        if (now < next_check_ms(store))
            return;
        (void)ps_etcd_transfer_stop(&store->transport, &watch->heartbeat);
        break_watch(watch, PS_ERR_UNAVAILABLE, "etcd does not answer");
        store->endpoint = (watch->endpoint + 1) % store->endpoint_count;
        return;
    case PS_ETCD_ENDED:
    case PS_ETCD_NOT_SENT:
    case PS_ETCD_BROKEN:
        end_heartbeat(store);
        return;
    }
}

/* With the token of the store as it is; an answer that refuses it is an answer. */
static void start_heartbeat(struct ps_etcd_store *store)
{
    struct ps_etcd_watch *watch = &store->watch;
    struct ps_buffer body;
    ps_buffer_init(&body, store->memory, PS_ETCD_REQUEST_BYTES_MAX);
    ps_etcd_request_heartbeat(&body, watch->prefix);
    enum ps_status status = ps_buffer_status(&body, NULL);
    if (status == PS_OK) {
        const struct ps_etcd_post post = {
            .endpoint = store->endpoints[watch->endpoint],
            .path = "/v3/kv/range",
            .token = store->token,
            .body = {(const uint8_t *)body.text, body.size},
        };
        status = ps_etcd_transfer_start(&store->transport, &watch->heartbeat, &post, NULL);
    }
    ps_buffer_fini(&body);
    /* Counted from when it was sent, also if it could not be sent. */
    watch->asked_ms = ps_now_ms(store->clock);
    if (status != PS_OK)
        break_watch(watch, status, "no memory for a heartbeat");
}

/* Any answer but a failure of the server itself shows that it is there; a refused token does,
 * too. */
static void end_heartbeat(struct ps_etcd_store *store)
{
    struct ps_etcd_watch *watch = &store->watch;
    /* 500 and above: the gateway answers, and etcd behind it does not. */
    bool there = watch->heartbeat.state == PS_ETCD_ENDED && watch->heartbeat.http_status < 500;
    (void)ps_etcd_transfer_stop(&store->transport, &watch->heartbeat);
    if (there)
        watch->heard_ms = ps_now_ms(store->clock);
    else
        break_watch(watch, PS_ERR_UNAVAILABLE, "etcd does not answer");
}
