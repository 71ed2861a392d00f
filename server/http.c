/* SPDX-License-Identifier: Apache-2.0 */
/* A table of pages behind libmicrohttpd. The port is for people and machines that watch, perhaps on
 * an open network: it reads nothing but a path, keeps few connections, gives each little memory and
 * closes those that are silent. */
#include "server/http.h"

#include "base/assert.h"
#include "server/front/front.h"
#include "server/http_tls.h"

#include <microhttpd.h>

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* What visitors can cost at most: bytes of a page, bytes of memory for one connection, connections,
 * and seconds of silence before a connection is closed. */
#define PAGE_BYTES_MAX (8 * 1024 * 1024)
#define CONNECTION_BYTES_MAX (32 * 1024)
#define CONNECTIONS_DEFAULT 64
#define IDLE_S_DEFAULT 10

struct ps_http {
    const struct ps_allocator *memory;   /* borrowed; outlives this */
    const struct ps_http_source *source; /* borrowed; outlives this */
    const struct ps_log *log;            /* borrowed; may be NULL */
    const char *title;                   /* borrowed; outlives this */
    const struct ps_http_tls *tls;       /* borrowed; NULL: plaintext */
    struct MHD_Daemon *daemon;           /* owned */
    int listener;                        /* the daemon's; -1: none */
    uint16_t port;
};

/* One row of the table below. Another page is a row and a function, and nothing else. */
struct page {
    const char *path;
    const char *content_type;
    /* Fills the page; the status to answer with. */
    unsigned (*fill)(const struct ps_http *http, struct ps_buffer *page);
    bool open; /* also to visitors without a certificate, where one is required */
};

static unsigned fill_index(const struct ps_http *http, struct ps_buffer *page);
static unsigned fill_metrics(const struct ps_http *http, struct ps_buffer *page);
static unsigned fill_live(const struct ps_http *http, struct ps_buffer *page);
static unsigned fill_ready(const struct ps_http *http, struct ps_buffer *page);

#define PLAIN "text/plain; charset=utf-8"

/* The version in the metrics' content type is that of the text format that Prometheus scrapes.
 * Health is plain text, since people ask for it with curl. */
static const struct page pages[] = {
    {"/", "text/html; charset=utf-8", fill_index, false},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", fill_metrics, false},
    {"/livez", PLAIN, fill_live, true},
    {"/readyz", PLAIN, fill_ready, true},
};

static enum ps_status resolve(const char *listen, struct addrinfo **found, struct ps_error *error);
static enum ps_status start(struct ps_http *http, const struct ps_http_options *options,
                            const struct sockaddr *address, struct ps_error *error);
static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request);

/* Requests are answered from here on, before the server has a shard: that is what /readyz is asked
 * for. */
enum ps_status ps_http_create(const struct ps_http_options *options, struct ps_http **http,
                              struct ps_error *error)
{
    PS_ASSERT(options != NULL && http != NULL);
    PS_ASSERT(options->source != NULL && options->memory != NULL && options->listen != NULL);
    struct addrinfo *found = NULL;
    PS_TRY(resolve(options->listen, &found, error));
    struct ps_http *created = ps_zeroed(options->memory, sizeof *created);
    if (created == NULL) {
        freeaddrinfo(found);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for the HTTP port");
    }
    /* All fields are set before the daemon starts: its thread may ask for a page at once. */
    created->memory = options->memory;
    created->source = options->source;
    created->log = options->log;
    created->tls = options->tls;
    created->title = options->title != NULL ? options->title : "pserver";
    enum ps_status status = start(created, options, found->ai_addr, error);
    freeaddrinfo(found);
    if (status != PS_OK) {
        ps_http_destroy(created);
        return status;
    }
    *http = created;
    return PS_OK;
}

/* Known when the port was bound, also for port 0. */
uint16_t ps_http_port(const struct ps_http *http)
{
    PS_ASSERT(http != NULL);
    return http->port;
}

/* The library waits for the request at work, so that the source may go afterwards. */
void ps_http_destroy(struct ps_http *http)
{
    if (http == NULL)
        return;
    /* After a start that failed there is no daemon. */
    if (http->daemon != NULL) {
        /* The socket's number may be another's as soon as the daemon has closed it. */
        ps_front_release_http(http->listener);
        MHD_stop_daemon(http->daemon);
    }
    ps_release(http->memory, http);
}

/* The system's resolver would cut a larger number down. Only digits are taken, since strtoul would
 * accept a sign or a blank in front of them. */
static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 5 && text[digits] == '\0' && strtoul(text, NULL, 10) <= 65535;
}

/* "HOST:PORT" as an address to bind; the result is given back with freeaddrinfo. Here without
 * brackets as well as with them, and a missing host is every interface of IPv4. */
static enum ps_status resolve(const char *listen, struct addrinfo **found, struct ps_error *error)
{
    /* The last colon is the one before the port: an IPv6 address has colons of its own. */
    const char *colon = strrchr(listen, ':');
    if (colon == NULL)
        return ps_fail(error, PS_ERR_BAD_INPUT, "HTTP address %.100s has no port", listen);
    if (!is_port(colon + 1))
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "HTTP address %.100s: the port is not a number up to "
                       "65535",
                       listen);
    char host[256];
    size_t size = (size_t)(colon - listen);
    bool bracketed = size >= 2 && listen[0] == '[' && listen[size - 1] == ']';
    const char *from = bracketed ? listen + 1 : listen;
    size = bracketed ? size - 2 : size;
    if (size >= sizeof host)
        return ps_fail(error, PS_ERR_BAD_INPUT, "HTTP address %.100s... is too long", listen);
    memcpy(host, from, size);
    host[size] = '\0';
    /* Without a host the family is fixed: which one the resolver names first differs between
     * machines. */
    const struct addrinfo wanted = {.ai_family = size == 0 ? AF_INET : AF_UNSPEC,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    /* The resolver may wait for a name server, which only the start of the program can afford. */
    int failed = getaddrinfo(size > 0 ? host : NULL, colon + 1, &wanted, found);
    if (failed != 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "HTTP address %.100s: %s", listen,
                       gai_strerror(failed));
    return PS_OK;
}

/* libmicrohttpd's own complaints. They become lines of the log: on standard error no log parser
 * would know them. */
__attribute__((format(printf, 2, 0))) static void hear(void *context, const char *format,
                                                       va_list arguments)
{
    const struct ps_http *http = context;
    char text[256];
    (void)vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    PS_LOG(http->log, PS_LOG_WARN, "http", "library complains", PS_FIELD_TEXT("text", text));
}

/* The library stops accepting when it has so many connections, and a health probe would then wait
 * behind visitors that say nothing. So the front door keeps fewer, and closes the oldest for the
 * newest: the quarter between is for closed ones that the library has still to see. */
static enum ps_status bound_connections(struct ps_http *http, unsigned connections,
                                        struct ps_error *error)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    if (info == NULL)
        return ps_fail(error, PS_ERR_IO, "the HTTP port does not know its listener");
    PS_ASSERT(info->listen_fd >= 0);
    http->listener = info->listen_fd;
    ps_front_claim_http(http->listener, connections - connections / 4);
    return PS_OK;
}

/* The library's own thread answers, one call of the source at a time, so that the source needs no
 * lock of its own for its pages. */
static enum ps_status start(struct ps_http *http, const struct ps_http_options *options,
                            const struct sockaddr *address, struct ps_error *error)
{
    PS_ASSERT(http->daemon == NULL);
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem items[PS_HTTP_TLS_ITEMS] = {{MHD_OPTION_END, 0, NULL}};
    if (options->tls != NULL) {
        flags |= MHD_USE_TLS;
        ps_http_tls_items(options->tls, items);
    }
    /* The library wants to be told. */
    if (address->sa_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    /* Whoever scrapes needs one; the bound is for those who open many. */
    unsigned connections =
        options->connections_max > 0 ? options->connections_max : CONNECTIONS_DEFAULT;
    unsigned idle_s = options->idle_s > 0 ? options->idle_s : IDLE_S_DEFAULT;
    /* The library says nothing about why; the system's last word does, when there is one. */
    errno = 0;
    http->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, answer, http, MHD_OPTION_EXTERNAL_LOGGER, hear, http,
                         MHD_OPTION_SOCK_ADDR, address, MHD_OPTION_CONNECTION_LIMIT, connections,
                         MHD_OPTION_CONNECTION_TIMEOUT, idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)CONNECTION_BYTES_MAX, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
    if (http->daemon == NULL)
        return ps_fail(error, PS_ERR_IO, "listen for HTTP on %.100s: %s", options->listen,
                       errno != 0 ? strerror(errno) : "the library refused");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (info == NULL)
        return ps_fail(error, PS_ERR_IO, "the HTTP port does not know its number");
    http->port = info->port;
    return bound_connections(http, connections, error);
}

/* Never kept by a proxy: an old answer to "are you ready?" is worse than none. */
static enum MHD_Result send_page(struct MHD_Connection *connection, unsigned status,
                                 const char *content_type, const char *text, size_t size)
{
    PS_ASSERT(text != NULL || size == 0);
    /* Copied: the library sends after the buffer is gone. */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (result == MHD_YES)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    /* HTTP demands the allowed methods beside a 405 (RFC 9110, 15.5.6). */
    if (result == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (result == MHD_YES)
        result = MHD_queue_response(connection, status, response);
    /* A queued response is held by the library, too, so this hold goes in any case. */
    MHD_destroy_response(response);
    return result;
}

/* For answers that are no page. */
static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status,
                                 const char *text)
{
    return send_page(connection, status, PLAIN, text, strlen(text));
}

/* Called with the headers, and before a body: one is not read. A page that found no memory is an
 * error of the server, so that whoever scrapes metrics sees a gap and not half a page. */
static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request)
{
    (void)version;
    (void)upload;
    (void)upload_size;
    (void)request;
    const struct ps_http *http = context;
    /* HEAD takes the same way: the library leaves the body out. */
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    /* The path alone, without what stands behind a question mark: the library has taken that off.
     * */
    for (size_t i = 0; i < PS_ARRAY_COUNT(pages); i++) {
        /* Four pages: a table that is searched is shorter than one that is not. */
        if (strcmp(pages[i].path, path) != 0)
            continue;
        if (http->tls != NULL && !ps_http_tls_admits(http->tls, connection, pages[i].open))
            return send_text(connection, MHD_HTTP_FORBIDDEN,
                             "show a certificate that this server knows\n");
        /* Bounded: a page of metrics that grows without end is a bug, and must not take the memory
         * of the shard. */
        struct ps_buffer page;
        ps_buffer_init(&page, http->memory, PAGE_BYTES_MAX);
        unsigned status = pages[i].fill(http, &page);
        enum MHD_Result result;
        /* Appending goes on after a refusal and does nothing; it is asked for once, here. */
        if (ps_buffer_status(&page, NULL) != PS_OK)
            result = send_text(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
        else
            result = send_page(connection, status, pages[i].content_type, page.text, page.size);
        ps_buffer_fini(&page);
        return result;
    }
    return send_text(connection, MHD_HTTP_NOT_FOUND,
                     "no such page; there are /metrics, /livez and /readyz\n");
}

/* For people who open the port in a browser. The title comes from the program and never from a
 * request, so nothing has to be escaped. */
static unsigned fill_index(const struct ps_http *http, struct ps_buffer *page)
{
    ps_buffer_append_format(page,
                            "<!DOCTYPE html>\n<title>%s</title>\n<h1>%s %s</h1>\n<ul>\n"
                            "<li><a href=\"/metrics\">metrics</a>\n"
                            "<li><a href=\"/livez\">live?</a>\n"
                            "<li><a href=\"/readyz\">ready?</a>\n</ul>\n",
                            http->title, http->title, PS_VERSION);
    return MHD_HTTP_OK;
}

/* Whatever is counted elsewhere is brought up to date by the source. */
static unsigned fill_metrics(const struct ps_http *http, struct ps_buffer *page)
{
    http->source->render(http->source->self, page);
    return MHD_HTTP_OK;
}

/* "ok" or "not ok", the reason when there is one, and a status to match. The reason is for people;
 * machines look at the status. */
static unsigned fill_answer(const struct ps_http *http,
                            bool (*ask)(void *self, struct ps_buffer *reason),
                            struct ps_buffer *page)
{
    PS_ASSERT(ask != NULL);
    /* The reason has a buffer of its own because the verdict stands before it and is known after
     * it. */
    char text[512];
    struct ps_buffer reason;
    ps_buffer_init_fixed(&reason, text, sizeof text);
    bool yes = ask(http->source->self, &reason);
    ps_buffer_append_text(page, yes ? "ok" : "not ok");
    if (reason.size > 0)
        ps_buffer_append_format(page, ": %s", text);
    ps_buffer_append_text(page, "\n");
    return yes ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
}

/* Asked by a supervisor that would kill the process. The answer must not depend on etcd or on
 * clients, whose failures a restart does not cure. */
static unsigned fill_live(const struct ps_http *http, struct ps_buffer *page)
{
    return fill_answer(http, http->source->is_live, page);
}

/* Asked by whoever sends requests here. A 503 takes this server out of the rotation, and leaves the
 * process alone. */
static unsigned fill_ready(const struct ps_http *http, struct ps_buffer *page)
{
    return fill_answer(http, http->source->is_ready, page);
}
