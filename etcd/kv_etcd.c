/* SPDX-License-Identifier: Apache-2.0 */
/* etcd's HTTP/JSON gateway behind the store interface: one function per method, each made of a
 * request (etcd_request.c), a call (etcd_call.c) and a reply (etcd_reply.c).
 *
 * Each method names the effect of its question, by which the call knows whether it may ask again. A
 * read changes nothing; granting, keeping and revoking a lease may be repeated, because the lease's
 * id is chosen here; a transaction is sent once, and its caller reads back when the answer is
 * lost. */
#include "etcd/etcd_store.h"

#include "base/assert.h"
#include "base/random.h"
#include "etcd/etcd_request.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* An endpoint that is silent for so long is left for the next one. Leases last several times as
 * long, so there is time for all of them. */
#define REQUEST_MS_DEFAULT 2000

static enum ps_status parse_endpoints(struct ps_etcd_store *store, const char *endpoints,
                                      struct ps_error *error);
static enum ps_status add_endpoint(struct ps_etcd_store *store, struct ps_bytes text,
                                   struct ps_error *error);
static enum ps_status copy_credentials(struct ps_etcd_store *store,
                                       const struct ps_kv_etcd_options *options,
                                       struct ps_error *error);
static enum ps_status start(struct ps_etcd_store *store, const struct ps_kv_etcd_options *options,
                            struct ps_error *error);
static enum ps_status ask(struct ps_etcd_store *store, const char *path, struct ps_buffer *body,
                          enum ps_etcd_effect effect, uint64_t deadline_ms, struct ps_error *error);
static enum ps_status etcd_read(struct ps_kv *kv, const char *key, bool prefix,
                                uint64_t deadline_ms, struct ps_kv_entries *entries,
                                struct ps_error *error);
static enum ps_status etcd_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                  uint64_t deadline_ms, bool *done, int64_t *revision,
                                  struct ps_error *error);
static enum ps_status etcd_grant(struct ps_kv *kv, uint64_t ttl_ms, uint64_t deadline_ms,
                                 struct ps_kv_lease *lease, struct ps_error *error);
static enum ps_status etcd_keep(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                struct ps_error *error);
static enum ps_status etcd_revoke(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                  struct ps_error *error);
static enum ps_status etcd_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                      uint64_t deadline_ms, struct ps_error *error);
static enum ps_status etcd_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                      struct ps_error *error);
static void etcd_interrupt(struct ps_kv *kv);
static void etcd_destroy(struct ps_kv *kv);

/* The table by which kv.c finds these functions; every method of the interface has its row. */
static const struct ps_kv_methods etcd_methods = {
    .read = etcd_read,
    .commit = etcd_commit,
    .lease_grant = etcd_grant,
    .lease_keep = etcd_keep,
    .lease_revoke = etcd_revoke,
    .watch_open = etcd_watch_open,
    .watch_wait = etcd_watch_wait,
    .interrupt = etcd_interrupt,
    .destroy = etcd_destroy,
};

enum ps_status ps_kv_etcd_open(const struct ps_kv_etcd_options *options, struct ps_kv **kv,
                               struct ps_error *error)
{
    PS_ASSERT(options != NULL && options->clock != NULL && options->memory != NULL);
    struct ps_etcd_store *store = ps_zeroed(options->memory, sizeof *store);
    if (store == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no room for a store");
    store->base.methods = &etcd_methods;
    store->memory = options->memory;
    store->clock = options->clock;
    /* Only tests ask for another time. */
    store->request_ms = options->request_ms > 0 ? options->request_ms : REQUEST_MS_DEFAULT;
    /* The one member that another thread touches. */
    atomic_init(&store->interrupted, false);
    /* etcd_destroy copes with any part that was not made: the struct is zeroed. */
    enum ps_status status = start(store, options, error);
    if (status != PS_OK) {
        etcd_destroy(&store->base);
        return status;
    }
    *kv = &store->base;
    return PS_OK;
}

/* Nothing is asked yet: a store is open although no endpoint answers, and the first call says
 * so. */
static enum ps_status start(struct ps_etcd_store *store, const struct ps_kv_etcd_options *options,
                            struct ps_error *error)
{
    PS_TRY(parse_endpoints(store, options->endpoints, error));
    PS_TRY(copy_credentials(store, options, error));
    PS_TRY(ps_etcd_transport_init(&store->transport, &store->access, error));
    PS_TRY(ps_etcd_transfer_init(&store->request, store->memory, error));
    return ps_etcd_watch_init(&store->watch, store->memory, error);
}

/* The watch first: its transfers run on the transport that ends last. */
static void etcd_destroy(struct ps_kv *kv)
{
    struct ps_etcd_store *store = (struct ps_etcd_store *)kv;
    ps_etcd_watch_fini(store);
    ps_etcd_transfer_fini(&store->request);
    ps_etcd_transport_fini(&store->transport);
    ps_etcd_access_release(&store->access, store->memory);
    ps_release(store->memory, store->token);
    ps_release(store->memory, store);
}

/* "host:port,host:port": spaces and empty entries are tolerated, since such lists are written by
 * hand and by templates. */
static enum ps_status parse_endpoints(struct ps_etcd_store *store, const char *endpoints,
                                      struct ps_error *error)
{
    const char *rest = endpoints == NULL ? "" : endpoints;
    while (*rest != '\0') {
        size_t size = strcspn(rest, ",");
        size_t skipped = strspn(rest, " ");
        struct ps_bytes text = {(const uint8_t *)rest, size};
        if (skipped < size)
            text = (struct ps_bytes){(const uint8_t *)rest + skipped, size - skipped};
        PS_TRY(add_endpoint(store, text, error));
        /* An entry ends at its comma; the last one ends with the text. */
        rest += size;
        if (*rest == ',')
            rest++;
    }
    if (store->endpoint_count == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "no etcd endpoint is given");
    return PS_OK;
}

/* "host:port" is taken for "http://host:port"; slashes and spaces at the end are dropped. Only
 * characters of a host, a port and an IPv6 address are let through: a path, a query or a user in it
 * would change what is asked of whom. */
static enum ps_status add_endpoint(struct ps_etcd_store *store, struct ps_bytes text,
                                   struct ps_error *error)
{
    const char *begin = (const char *)text.data;
    /* Only what stands before "://" is a scheme: an IPv6 address has colons, too. */
    const char *mark = memmem(begin, text.size, "://", 3);
    size_t scheme_size = mark == NULL ? 0 : (size_t)(mark - begin) + 3;
    bool known = scheme_size == 0 || (scheme_size == 7 && strncmp(begin, "http://", 7) == 0) ||
                 (scheme_size == 8 && strncmp(begin, "https://", 8) == 0);
    /* A slash at the end would make "//v3" of every path. */
    while (text.size > scheme_size && strchr("/ ", begin[text.size - 1]) != NULL)
        text.size--;
    if (!known || text.size == scheme_size)
        return ps_fail(error, PS_ERR_BAD_INPUT, "\"%.*s\": an etcd endpoint is http(s)://host:port",
                       (int)text.size, begin);
    for (size_t i = 0; i < text.size; i++)
        if (!isalnum(text.data[i]) && strchr(".-_:/[]%", begin[i]) == NULL)
            return ps_fail(error, PS_ERR_BAD_INPUT, "\"%.*s\" is not an etcd endpoint",
                           (int)text.size, begin);
    /* Room for the scheme that is put in front and for the NUL. */
    if (text.size > PS_ETCD_ENDPOINT_BYTES - sizeof "https://")
        return ps_fail(error, PS_ERR_BAD_INPUT, "an etcd endpoint of %zu characters", text.size);
    /* Clusters of etcd have three or five members. */
    if (store->endpoint_count == PS_ETCD_ENDPOINTS_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "more than %d etcd endpoints",
                       PS_ETCD_ENDPOINTS_MAX);
    char *endpoint = store->endpoints[store->endpoint_count++];
    (void)snprintf(endpoint, PS_ETCD_ENDPOINT_BYTES, "%s%.*s", scheme_size == 0 ? "http://" : "",
                   (int)text.size, begin);
    return PS_OK;
}

/* Copied, because a token may have to be fetched again at any later time. A password whose file is
 * not there is told now, and not by a server that waits for etcd. */
static enum ps_status copy_credentials(struct ps_etcd_store *store,
                                       const struct ps_kv_etcd_options *options,
                                       struct ps_error *error)
{
    bool plain = false;
    for (size_t i = 0; i < store->endpoint_count; i++)
        plain |= strncmp(store->endpoints[i], "https://", 8) != 0;
    PS_TRY(ps_etcd_access_check(&options->access, plain, error));
    char *password = NULL;
    PS_TRY(ps_etcd_password(&options->access, store->memory, &password, error));
    ps_etcd_password_release(password, store->memory);
    return ps_etcd_access_copy(&options->access, store->memory, &store->access, error);
}

/* Asks, and releases the body whatever comes of it. The reply stays in the store's transfer until
 * the next question. */
static enum ps_status ask(struct ps_etcd_store *store, const char *path, struct ps_buffer *body,
                          enum ps_etcd_effect effect, uint64_t deadline_ms, struct ps_error *error)
{
    enum ps_status status = ps_buffer_status(body, error);
    if (status == PS_OK) {
        const struct ps_etcd_call call = {
            .path = path,
            .body = {(const uint8_t *)body->text, body->size},
            .effect = effect,
            .deadline_ms = deadline_ms,
        };
        status = ps_etcd_call(store, &call, error);
    }
    ps_buffer_fini(body);
    return status;
}

/* A reply that makes no sense says nothing about what was done, so the status depends on what was
 * asked: "unavailable" for a read, "unknown" for a write. */
static enum ps_status nonsense(enum ps_status status, struct ps_error *error)
{
    return ps_fail(error, status, "an answer that is not etcd's");
}

/* A read may go to any endpoint and as often as it likes, so a reply that makes no sense is the
 * same as none. */
static enum ps_status etcd_read(struct ps_kv *kv, const char *key, bool prefix,
                                uint64_t deadline_ms, struct ps_kv_entries *entries,
                                struct ps_error *error)
{
    struct ps_etcd_store *store = (struct ps_etcd_store *)kv;
    struct ps_buffer body;
    ps_buffer_init(&body, store->memory, PS_ETCD_REQUEST_BYTES_MAX);
    /* A body that did not fit is noticed by `ask`, for all of these functions. */
    ps_etcd_request_range(&body, key, prefix);
    PS_TRY(ask(store, "/v3/kv/range", &body, PS_ETCD_READS, deadline_ms, error));
    enum ps_status status =
        ps_etcd_reply_range(ps_etcd_reply_of(&store->request), store->memory, entries, error);
    return status == PS_ERR_BAD_INPUT ? nonsense(PS_ERR_UNAVAILABLE, error) : status;
}

/* Sent once: a transaction that is repeated after a lost answer would see its own first effect and
 * report that the compares do not hold. */
static enum ps_status etcd_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                  uint64_t deadline_ms, bool *done, int64_t *revision,
                                  struct ps_error *error)
{
    struct ps_etcd_store *store = (struct ps_etcd_store *)kv;
    struct ps_buffer body;
    ps_buffer_init(&body, store->memory, PS_ETCD_REQUEST_BYTES_MAX);
    ps_etcd_request_transaction(&body, transaction);
    PS_TRY(ask(store, "/v3/kv/txn", &body, PS_ETCD_ONCE, deadline_ms, error));
    enum ps_status status =
        ps_etcd_reply_transaction(ps_etcd_reply_of(&store->request), done, revision, error);
    return status == PS_OK ? PS_OK : nonsense(PS_ERR_TIMEOUT, error);
}

/* The id of the lease is random and ours, instead of one that etcd chooses: a grant whose answer
 * was lost is repeated with the same id, and "already exists" then means that the first one was
 * made. With etcd's own ids each repetition would leave a lease behind that nobody knows of. */
static enum ps_status etcd_grant(struct ps_kv *kv, uint64_t ttl_ms, uint64_t deadline_ms,
                                 struct ps_kv_lease *lease, struct ps_error *error)
{
    struct ps_etcd_store *store = (struct ps_etcd_store *)kv;
    /* From the system's source and not from a seed: two servers must never choose the same id. */
    uint64_t number = 0;
    ps_random_system(&number, sizeof number);
    /* Positive, as etcd wants it, and never 0, which means "no lease". */
    const struct ps_kv_lease fresh = {(int64_t)(number >> 1 | 1)};
    struct ps_buffer body;
    ps_buffer_init(&body, store->memory, PS_ETCD_REQUEST_BYTES_MAX);
    ps_etcd_request_grant(&body, fresh, ttl_ms);
    enum ps_status status =
        ask(store, "/v3/lease/grant", &body, PS_ETCD_REPEATABLE, deadline_ms, error);
    if (status != PS_OK && status != PS_ERR_EXISTS)
        return status;
    *lease = fresh;
    return PS_OK;
}

/* A stream in etcd's interface, of which this asks for one round. Repeating it is harmless: a lease
 * kept twice is kept. */
static enum ps_status etcd_keep(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                struct ps_error *error)
{
    struct ps_etcd_store *store = (struct ps_etcd_store *)kv;
    struct ps_buffer body;
    ps_buffer_init(&body, store->memory, PS_ETCD_REQUEST_BYTES_MAX);
    ps_etcd_request_lease(&body, lease);
    PS_TRY(ask(store, "/v3/lease/keepalive", &body, PS_ETCD_REPEATABLE, deadline_ms, error));
    /* LEASE_LOST is one of its answers: etcd has said that the lease is gone. */
    enum ps_status status = ps_etcd_reply_keep(ps_etcd_reply_of(&store->request), error);
    return status == PS_ERR_BAD_INPUT ? nonsense(PS_ERR_TIMEOUT, error) : status;
}

/* A lease that is gone is what was wanted. */
static enum ps_status etcd_revoke(struct ps_kv *kv, struct ps_kv_lease lease, uint64_t deadline_ms,
                                  struct ps_error *error)
{
    struct ps_etcd_store *store = (struct ps_etcd_store *)kv;
    struct ps_buffer body;
    ps_buffer_init(&body, store->memory, PS_ETCD_REQUEST_BYTES_MAX);
    ps_etcd_request_lease(&body, lease);
    enum ps_status status =
        ask(store, "/v3/lease/revoke", &body, PS_ETCD_REPEATABLE, deadline_ms, error);
    return status == PS_ERR_LEASE_LOST ? PS_OK : status;
}

/* The watch lives in etcd_watch.c. */
static enum ps_status etcd_watch_open(struct ps_kv *kv, const char *prefix, int64_t revision,
                                      uint64_t deadline_ms, struct ps_error *error)
{
    return ps_etcd_watch_open((struct ps_etcd_store *)kv, prefix, revision, deadline_ms, error);
}

static enum ps_status etcd_watch_wait(struct ps_kv *kv, uint64_t deadline_ms, bool *changed,
                                      struct ps_error *error)
{
    return ps_etcd_watch_wait((struct ps_etcd_store *)kv, deadline_ms, changed, error);
}

/* The flag first, then the wake-up: the waiting thread looks at the flag after every wait. */
static void etcd_interrupt(struct ps_kv *kv)
{
    struct ps_etcd_store *store = (struct ps_etcd_store *)kv;
    atomic_store(&store->interrupted, true);
    ps_etcd_transport_wake(&store->transport);
}
