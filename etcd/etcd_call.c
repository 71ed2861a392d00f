/* SPDX-License-Identifier: Apache-2.0 */
/* One question to etcd: endpoints in turn, a token when one is wanted, and what is known about the
 * request when no answer came.
 *
 * What a failed call must tell its caller is whether the write may have happened. The rule is kept
 * in struct course: as soon as one byte of one attempt has left this process and no definite answer
 * came, the outcome is unknown (PS_ERR_TIMEOUT), whatever later attempts say; as long as none has,
 * nothing was done (PS_ERR_UNAVAILABLE). Hence a write that is not repeatable is sent at most once,
 * and tried at another endpoint only while no connection was made. */
#include "etcd/etcd_store.h"

#include "base/assert.h"
#include "etcd/etcd_request.h"

#include <stdio.h>
#include <string.h>

/* How one attempt at one endpoint ended. The order is from certain to uncertain. */
enum outcome {
    ANSWERED,    /* the reply is there */
    REFUSED,     /* a definite no */
    NEEDS_TOKEN, /* nothing was done: the token is missing or stale */
    NOT_SENT,    /* nothing was done: no connection */
    UNSURE       /* sent, and no definite answer */
};

/* What one call has gone through so far. */
struct course {
    bool sent;           /* some attempt may have been heard */
    bool authenticated;  /* a new token was fetched for this call already */
    size_t unreached;    /* attempts that found no connection */
    size_t unsure;       /* attempts that failed fast, without a definite answer */
    struct ps_error why; /* of the last failed attempt */
};

static enum outcome attempt(struct ps_etcd_store *store, const struct ps_etcd_call *call,
                            bool with_token, struct course *course);
static enum outcome judge_reply(struct ps_etcd_store *store, struct course *course);
static bool next_attempt(struct ps_etcd_store *store, const struct ps_etcd_call *call,
                         enum outcome outcome, struct course *course);
static enum ps_status give_up(const struct ps_etcd_store *store, const struct ps_etcd_call *call,
                              const struct course *course, struct ps_error *error);
static enum ps_status call_with(struct ps_etcd_store *store, const struct ps_etcd_call *call,
                                bool with_token, struct ps_error *error);
static enum ps_status authenticate(struct ps_etcd_store *store, uint64_t deadline_ms,
                                   struct ps_error *error);

/* The token is fetched by a call of its own, which must not want one; the flag ends that circle. */
enum ps_status ps_etcd_call(struct ps_etcd_store *store, const struct ps_etcd_call *call,
                            struct ps_error *error)
{
    return call_with(store, call, true, error);
}

/* The loop ends by a definite answer, by next_attempt (which counts), or by the deadline, which is
 * looked at before each attempt and never restarted. */
static enum ps_status call_with(struct ps_etcd_store *store, const struct ps_etcd_call *call,
                                bool with_token, struct ps_error *error)
{
    struct course course = {0};
    enum outcome outcome = NOT_SENT;
    do {
        if (ps_time_left_ms(store->clock, call->deadline_ms) == 0)
            break;
        if (with_token) {
            enum ps_status status = ps_etcd_settle_token(store, call->deadline_ms, error);
            /* Asking for a token changes nothing in etcd, so its timeout leaves nothing unknown. */
            if (status == PS_ERR_TIMEOUT && !course.sent)
                return ps_fail(error, PS_ERR_UNAVAILABLE, "no token in time; nothing was asked");
            if (status != PS_OK)
                return course.sent ? ps_fail(error, PS_ERR_TIMEOUT, "%s", course.why.text) : status;
        }
        outcome = attempt(store, call, with_token, &course);
        if (outcome == ANSWERED)
            return PS_OK;
        if (outcome == REFUSED)
            return ps_fail(error, course.why.status, "%s", course.why.text);
    } while (next_attempt(store, call, outcome, &course));
    return give_up(store, call, &course, error);
}

static enum outcome attempt(struct ps_etcd_store *store, const struct ps_etcd_call *call,
                            bool with_token, struct course *course)
{
    const struct ps_etcd_post post = {
        .endpoint = store->endpoints[store->endpoint],
        .path = call->path,
        .token = with_token ? store->token : NULL,
        .body = call->body,
    };
    struct ps_etcd_transfer *transfer = &store->request;
    if (ps_etcd_transfer_start(&store->transport, transfer, &post, &course->why) != PS_OK)
        return REFUSED;

    /* One silent endpoint must not use up the time for all of them: each attempt has a limit of its
     * own besides the call's deadline. */
    uint64_t until = ps_deadline_after(store->clock, store->request_ms);
    if (until > call->deadline_ms)
        until = call->deadline_ms;
    uint64_t left = ps_time_left_ms(store->clock, until);
    while (transfer->state == PS_ETCD_RUNNING && left > 0) {
        ps_etcd_run(store, left);
        left = ps_time_left_ms(store->clock, until);
    }
    const char *reason =
        transfer->state == PS_ETCD_RUNNING ? "no answer in time" : transfer->reason;
    /* Stopped in any case, and the state is asked for only now: a reply that came in the last
     * moment counts. */
    enum ps_etcd_transfer_state state = ps_etcd_transfer_stop(&store->transport, transfer);
    if (state == PS_ETCD_ENDED)
        return judge_reply(store, course);
    (void)ps_fail(&course->why, PS_ERR_UNAVAILABLE, "%s: %s", post.endpoint, reason);
    if (state == PS_ETCD_NOT_SENT)
        return NOT_SENT;
    /* A slow failure has cost time already; only fast ones are counted against endless turns. */
    if (left > 0)
        course->unsure++;
    return UNSURE;
}

/* etcd answers errors in several forms (etcd_reply_error.c). A definite no ends the call. One that
 * leaves open what happened ("request timed out" may be committed) is UNSURE like silence. */
static enum outcome judge_reply(struct ps_etcd_store *store, struct course *course)
{
    struct ps_etcd_error answer;
    ps_etcd_reply_error(ps_etcd_reply_of(&store->request), store->request.http_status, &answer);
    if (answer.meaning == PS_ETCD_FINE)
        return ANSWERED;
    enum ps_status status = answer.meaning == PS_ETCD_UNKNOWN ? PS_ERR_UNAVAILABLE : answer.status;
    (void)ps_fail(&course->why, status, "%s: %s", store->endpoints[store->endpoint], answer.text);
    /* A token expires or etcd restarts: one new token for each call. A second refusal is about the
     * user. */
    if (answer.meaning == PS_ETCD_AUTHENTICATE)
        return store->access.user == NULL || course->authenticated ? REFUSED : NEEDS_TOKEN;
    if (answer.meaning != PS_ETCD_UNKNOWN)
        return REFUSED;
    course->unsure++;
    return UNSURE;
}

/* Notes how an attempt ended and says whether there is another one. The endpoint moves on after
 * every failure and stays where it is otherwise, so later calls begin at the one that answered
 * last. Endpoints that refuse connections are each tried once; repeatable questions go round twice
 * at most when they fail fast, so that a broken cluster is not asked in a busy loop until the
 * deadline. */
static bool next_attempt(struct ps_etcd_store *store, const struct ps_etcd_call *call,
                         enum outcome outcome, struct course *course)
{
    if (outcome == NEEDS_TOKEN) {
        course->authenticated = true;
        ps_etcd_forget_token(store);
        return true;
    }
    store->endpoint = (store->endpoint + 1) % store->endpoint_count;
    if (outcome == NOT_SENT)
        return ++course->unreached < store->endpoint_count;
    course->sent = true;
    return call->effect != PS_ETCD_ONCE && course->unsure < 2 * store->endpoint_count;
}

/* A read has no effect that could be unknown: with time left it is "unavailable", and TIMEOUT only
 * says that the time is over. */
static enum ps_status give_up(const struct ps_etcd_store *store, const struct ps_etcd_call *call,
                              const struct course *course, struct ps_error *error)
{
    const char *why = course->why.text[0] == '\0' ? "the deadline has passed" : course->why.text;
    bool in_time = ps_time_left_ms(store->clock, call->deadline_ms) > 0;
    if (!course->sent || (call->effect == PS_ETCD_READS && in_time))
        return ps_fail(error, PS_ERR_UNAVAILABLE, "%s", why);
    return ps_fail(error, PS_ERR_TIMEOUT, "%s", why);
}

enum ps_status ps_etcd_settle_token(struct ps_etcd_store *store, uint64_t deadline_ms,
                                    struct ps_error *error)
{
    if (store->access.user == NULL || store->token_settled)
        return PS_OK;
    return authenticate(store, deadline_ms, error);
}

/* An etcd without authentication says so: then no token is wanted until it asks for one, and a user
 * given in the options does no harm. The password is wiped from every buffer that it went
 * through. */
static enum ps_status authenticate(struct ps_etcd_store *store, uint64_t deadline_ms,
                                   struct ps_error *error)
{
    char *password = NULL;
    struct ps_error unread = {0};
    /* As a refused password: the file may be put right while we wait. */
    if (ps_etcd_password(&store->access, store->memory, &password, &unread) != PS_OK)
        return ps_fail(error, PS_ERR_DENIED, "etcd's password: %s", unread.text);
    struct ps_buffer body;
    ps_buffer_init(&body, store->memory, PS_ETCD_REQUEST_BYTES_MAX);
    ps_etcd_request_authenticate(&body, store->access.user, password);
    ps_etcd_password_release(password, store->memory);
    enum ps_status status = ps_buffer_status(&body, error);
    struct ps_error why = {0};
    if (status == PS_OK) {
        const struct ps_etcd_call call = {
            .path = "/v3/auth/authenticate",
            .body = {(const uint8_t *)body.text, body.size},
            .effect = PS_ETCD_READS,
            .deadline_ms = deadline_ms,
        };
        status = call_with(store, &call, false, &why);
    }
    if (body.text != NULL)
        explicit_bzero(body.text, body.size);
    ps_buffer_fini(&body);
    if (store->request.request.text != NULL)
        explicit_bzero(store->request.request.text, store->request.request.size);

    if (status == PS_OK)
        status = ps_etcd_reply_token(ps_etcd_reply_of(&store->request), store->memory,
                                     &store->token, &why);
    if (status == PS_ERR_UNSUPPORTED && strstr(why.text, "authentication is not enabled") != NULL)
        status = PS_OK;
    store->token_settled = status == PS_OK;
    return status == PS_OK ? PS_OK : ps_fail(error, status, "%s", why.text);
}

/* The next call fetches another token. */
void ps_etcd_forget_token(struct ps_etcd_store *store)
{
    ps_release(store->memory, store->token);
    store->token = NULL;
    store->token_settled = false;
}

struct ps_bytes ps_etcd_reply_of(const struct ps_etcd_transfer *transfer)
{
    return (struct ps_bytes){(const uint8_t *)transfer->reply.text, transfer->reply.size};
}

void ps_etcd_run(struct ps_etcd_store *store, uint64_t wait_ms)
{
    /* Every wait also serves the watch: its lines are taken as they come, whichever call is
     * waiting, so that its buffer stays small. */
    ps_etcd_transport_run(&store->transport, wait_ms);
    ps_etcd_watch_scan(store);
}
