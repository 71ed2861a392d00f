/* SPDX-License-Identifier: Apache-2.0 */
/* The one file that talks to libcurl: its types and options appear nowhere else.
 *
 * All transfers of a store (a question, the watch, the watch's heartbeat) run on one multi handle,
 * driven by whichever call is waiting; there is no thread. Besides the reply, a transfer reports
 * one fact that decides everything above it: whether any byte of the request has left this
 * process. */
#include "etcd/etcd_transport.h"

#include "base/assert.h"
#include "etcd/etcd_reply.h"
#include "etcd/etcd_request.h"

#include <stdio.h>
#include <string.h>

/* One wait of curl's, which takes an int; longer ones are cut into several by the callers'
 * loops. */
#define WAIT_MS_MAX 60000

static size_t give_request(char *buffer, size_t size, size_t count, void *context);
static size_t take_reply(char *data, size_t size, size_t count, void *context);
static enum ps_status set_headers(struct ps_etcd_transfer *transfer,
                                  const struct ps_etcd_post *post);
static bool add_header(struct ps_etcd_transfer *transfer, const char *line);
static enum ps_status set_options(struct ps_etcd_transfer *transfer,
                                  const struct ps_etcd_post *post);
static enum ps_status set_security(struct ps_etcd_transfer *transfer,
                                   const struct ps_etcd_access *access);
static void finish(struct ps_etcd_transfer *transfer, CURLcode code);
static bool was_sent(const struct ps_etcd_transfer *transfer);

enum ps_status ps_etcd_transport_init(struct ps_etcd_transport *transport,
                                      const struct ps_etcd_access *access, struct ps_error *error)
{
    transport->multi = NULL;
    transport->access = access;
    /* Counted by curl, so each store may call it. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return ps_fail(error, PS_ERR_NO_MEMORY, "libcurl does not start");
    transport->multi = curl_multi_init();
    if (transport->multi == NULL) {
        curl_global_cleanup();
        return ps_fail(error, PS_ERR_NO_MEMORY, "libcurl gives no multi handle");
    }
    /* Connections are kept for the next question. The bound is for a list of endpoints some of
     * which come and go; failing to set it changes nothing that matters. */
    (void)curl_multi_setopt(transport->multi, CURLMOPT_MAXCONNECTS, 8L);
    return PS_OK;
}

/* A zeroed transport never started curl, and must not end it for other stores. */
void ps_etcd_transport_fini(struct ps_etcd_transport *transport)
{
    if (transport->multi == NULL)
        return;
    (void)curl_multi_cleanup(transport->multi);
    curl_global_cleanup();
    transport->multi = NULL;
}

/* The handle and the buffers live as long as the store and are used for every question in turn, so
 * asking allocates next to nothing. */
enum ps_status ps_etcd_transfer_init(struct ps_etcd_transfer *transfer,
                                     const struct ps_allocator *memory, struct ps_error *error)
{
    *transfer = (struct ps_etcd_transfer){0};
    ps_buffer_init(&transfer->request, memory, PS_ETCD_REQUEST_BYTES_MAX);
    ps_buffer_init(&transfer->reply, memory, PS_ETCD_REPLY_BYTES_MAX);
    transfer->easy = curl_easy_init();
    if (transfer->easy == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "libcurl gives no easy handle");
    return PS_OK;
}

/* A transfer that was zeroed and never made has no allocator in its buffers. */
void ps_etcd_transfer_fini(struct ps_etcd_transfer *transfer)
{
    PS_ASSERT(transfer->state == PS_ETCD_IDLE);
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    if (transfer->request.memory != NULL) {
        ps_buffer_fini(&transfer->request);
        ps_buffer_fini(&transfer->reply);
    }
    *transfer = (struct ps_etcd_transfer){0};
}

enum ps_status ps_etcd_transfer_start(struct ps_etcd_transport *transport,
                                      struct ps_etcd_transfer *transfer,
                                      const struct ps_etcd_post *post, struct ps_error *error)
{
    PS_ASSERT(transfer->state == PS_ETCD_IDLE);
    /* The body is copied: curl may ask for it again after a connection that was kept turned out to
     * be dead. */
    transfer->request_offset = 0;
    transfer->http_status = 0;
    transfer->reason[0] = '\0';
    ps_buffer_clear(&transfer->reply);
    ps_buffer_clear(&transfer->request);
    ps_buffer_append(&transfer->request, post->body);
    PS_TRY(ps_buffer_status(&transfer->request, error));
    if (set_headers(transfer, post) != PS_OK || set_options(transfer, post) != PS_OK ||
        set_security(transfer, transport->access) != PS_OK ||
        curl_multi_add_handle(transport->multi, transfer->easy) != CURLM_OK)
        return ps_fail(error, PS_ERR_NO_MEMORY, "libcurl takes no request");
    transfer->state = PS_ETCD_RUNNING;
    return PS_OK;
}

/* "Expect:" without a value turns off curl's habit of asking first whether a body is welcome, which
 * costs a second with servers that do not answer the question. "hasleader" makes etcd end a watch
 * on a member that has lost its quorum, instead of keeping it silent. */
static enum ps_status set_headers(struct ps_etcd_transfer *transfer,
                                  const struct ps_etcd_post *post)
{
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    bool added =
        add_header(transfer, "Content-Type: application/json") && add_header(transfer, "Expect:");
    if (added && post->stream)
        added = add_header(transfer, "Grpc-Metadata-hasleader: true");
    if (added && post->token != NULL) {
        /* Tokens of etcd are short (simple ones) or a signed JSON of some hundred bytes. */
        char line[4096];
        int size = snprintf(line, sizeof line, "Authorization: %s", post->token);
        added = size > 0 && (size_t)size < sizeof line && add_header(transfer, line);
    }
    return added ? PS_OK : PS_ERR_NO_MEMORY;
}

static bool add_header(struct ps_etcd_transfer *transfer, const char *line)
{
    /* On failure the list is unchanged and still ours to free. */
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);
    if (longer == NULL)
        return false;
    transfer->headers = longer;
    return true;
}

/* No proxy from the environment, no redirects, no signals: the endpoint given is the one that is
 * asked. An HTTP proxy meant for other programs would see the password. HTTP/1.1 keeps the watch's
 * stream and the questions on connections of their own, so that a question is not queued behind the
 * stream. Keep-alive probes notice a peer that vanished without closing. */
static enum ps_status set_options(struct ps_etcd_transfer *transfer,
                                  const struct ps_etcd_post *post)
{
    char url[512];
    int size = snprintf(url, sizeof url, "%s%s", post->endpoint, post->path);
    PS_ASSERT(size > 0 && (size_t)size < sizeof url);
    CURL *easy = transfer->easy;
    /* Resetting options keeps connections, DNS answers and TLS sessions. */
    curl_easy_reset(easy);
    bool failed = false;
    failed |= curl_easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_PROXY, "") != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 5L) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 2L) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_POST, 1L) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)transfer->request.size) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_request) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_READDATA, transfer) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_reply) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->reason) != CURLE_OK;
    return failed ? PS_ERR_NO_MEMORY : PS_OK;
}

/* The name and the issuer of etcd's certificate are checked by default, and TLS 1.2 is the least.
 * Where a CA is named, no other is believed: the system's folder of them is beside the file. Files
 * are read at each new connection, and none of them is kept, so that new ones are seen. */
static enum ps_status set_security(struct ps_etcd_transfer *transfer,
                                   const struct ps_etcd_access *access)
{
    CURL *easy = transfer->easy;
    bool failed = false;
    failed |= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) != CURLE_OK;
    failed |= curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L) != CURLE_OK;
    if (access->ca != NULL) {
        failed |= curl_easy_setopt(easy, CURLOPT_CAINFO, access->ca) != CURLE_OK;
        failed |= curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) != CURLE_OK;
    }
    if (access->certificate != NULL) {
        failed |= curl_easy_setopt(easy, CURLOPT_SSLCERT, access->certificate) != CURLE_OK;
        failed |= curl_easy_setopt(easy, CURLOPT_SSLKEY, access->key) != CURLE_OK;
    }
    return failed ? PS_ERR_NO_MEMORY : PS_OK;
}

/* curl takes the body in pieces of its own size. */
static size_t give_request(char *buffer, size_t size, size_t count, void *context)
{
    struct ps_etcd_transfer *transfer = context;
    size_t left = transfer->request.size - transfer->request_offset;
    size_t part = size * count < left ? size * count : left;
    if (part > 0)
        memcpy(buffer, transfer->request.text + transfer->request_offset, part);
    transfer->request_offset += part;
    return part;
}

/* Taking less than was offered ends the transfer: the reply is too long, or there is no memory for
 * it. */
static size_t take_reply(char *data, size_t size, size_t count, void *context)
{
    struct ps_etcd_transfer *transfer = context;
    ps_buffer_append(&transfer->reply, (struct ps_bytes){(const uint8_t *)data, size * count});
    return transfer->reply.failed ? 0 : size * count;
}

/* A transfer that still runs is broken off: BROKEN when bytes of it were sent, so that what it
 * asked for may have happened, NOT_SENT otherwise. */
enum ps_etcd_transfer_state ps_etcd_transfer_stop(struct ps_etcd_transport *transport,
                                                  struct ps_etcd_transfer *transfer)
{
    enum ps_etcd_transfer_state last = transfer->state;
    if (last == PS_ETCD_IDLE)
        return last;
    if (last == PS_ETCD_RUNNING)
        last = was_sent(transfer) ? PS_ETCD_BROKEN : PS_ETCD_NOT_SENT;
    CURLMcode code = curl_multi_remove_handle(transport->multi, transfer->easy);
    PS_ASSERT(code == CURLM_OK);
    transfer->state = PS_ETCD_IDLE;
    return last;
}

/* Works on what can go on at once and waits only if no transfer has ended by that. One wait at
 * most: the caller looks at its own conditions (deadline, interruption) in between. */
void ps_etcd_transport_run(struct ps_etcd_transport *transport, uint64_t wait_ms)
{
    int running = 0;
    CURLMcode code = curl_multi_perform(transport->multi, &running);
    /* How many more are queued, which curl wants to tell; the loop asks until there is none. */
    int messages = 0;
    CURLMsg *message = curl_multi_info_read(transport->multi, &messages);
    if (message == NULL && code == CURLM_OK && wait_ms > 0) {
        int timeout_ms = wait_ms < WAIT_MS_MAX ? (int)wait_ms : WAIT_MS_MAX;
        (void)curl_multi_poll(transport->multi, NULL, 0, timeout_ms, NULL);
        (void)curl_multi_perform(transport->multi, &running);
        message = curl_multi_info_read(transport->multi, &messages);
    }
    /* Several transfers may have ended by one wait. */
    while (message != NULL) {
        void *transfer = NULL;
        /* The only kind of message that curl has so far. */
        if (message->msg == CURLMSG_DONE &&
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer) == CURLE_OK)
            finish(transfer, message->data.result);
        message = curl_multi_info_read(transport->multi, &messages);
    }
}

/* The HTTP status is kept also with an error: a body that was too long came with one. */
static void finish(struct ps_etcd_transfer *transfer, CURLcode code)
{
    PS_ASSERT(transfer->state == PS_ETCD_RUNNING);
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->http_status);
    if (code == CURLE_OK) {
        transfer->state = PS_ETCD_ENDED;
        return;
    }
    /* Curl's own words have more in them than its code has; there are not always any. */
    if (transfer->reply.failed)
        (void)snprintf(transfer->reason, sizeof transfer->reason, "the reply is too long");
    else if (transfer->reason[0] == '\0')
        (void)snprintf(transfer->reason, sizeof transfer->reason, "%s", curl_easy_strerror(code));
    transfer->state = was_sent(transfer) ? PS_ETCD_BROKEN : PS_ETCD_NOT_SENT;
}

/* Whether a single byte of the request has left us. When curl does not say, the answer is yes: the
 * careful one. */
static bool was_sent(const struct ps_etcd_transfer *transfer)
{
    long request_size = 0;
    if (curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &request_size) != CURLE_OK)
        return true;
    return request_size > 0;
}

/* The one call of this file that other threads may make; curl allows it for this function alone. */
void ps_etcd_transport_wake(struct ps_etcd_transport *transport)
{
    (void)curl_multi_wakeup(transport->multi);
}
