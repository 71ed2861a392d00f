/* SPDX-License-Identifier: Apache-2.0 */
/* The misbehaving server. */
#include "tests/support/etcd/fake_gateway.h"

#include "base/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64
#define REQUESTS_MAX 256
#define REQUEST_BYTES 8192

struct connection {
    struct fake_gateway *gateway;
    struct ps_thread thread;
    int socket;
};

struct request {
    char head[REQUEST_BYTES];
    char body[REQUEST_BYTES];
};

struct fake_gateway {
    const struct gateway_step *steps; /* borrowed */
    size_t step_count;
    uint16_t real_port;
    char url[64];
    int listener;
    int stopping; /* eventfd: readable for ever once it stops */
    struct ps_thread acceptor;
    struct ps_mutex mutex; /* guards what follows */
    struct connection connections[CONNECTIONS_MAX];
    size_t connection_count;
    struct request requests[REQUESTS_MAX];
    size_t request_count;
};

static void need(bool fine, const char *what)
{
    if (fine)
        return;
    (void)fprintf(stderr, "fake_gateway: %s: %s\n", what, strerror(errno));
    abort();
}

/* False when the gateway stops. */
static bool wait_readable(const struct fake_gateway *gateway, int descriptor)
{
    struct pollfd either[] = {{descriptor, POLLIN, 0}, {gateway->stopping, POLLIN, 0}};
    int count;
    do
        count = poll(either, 2, -1);
    while (count < 0 && errno == EINTR);
    need(count > 0, "poll");
    return either[1].revents == 0;
}

static bool send_all(int descriptor, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(descriptor, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static size_t promised_size(const char *head)
{
    const char *line = strcasestr(head, "\r\ncontent-length:");
    return line == NULL ? 0 : (size_t)strtoul(line + 17, NULL, 10);
}

/* Reads one whole request; false at the end of the connection. */
static bool read_request(const struct fake_gateway *gateway, int descriptor,
                         struct request *request)
{
    char bytes[2 * REQUEST_BYTES];
    size_t size = 0;
    for (;;) {
        if (size == sizeof bytes - 1 || !wait_readable(gateway, descriptor))
            return false;
        ssize_t got = recv(descriptor, bytes + size, sizeof bytes - 1 - size, 0);
        if (got <= 0)
            return false;
        size += (size_t)got;
        bytes[size] = '\0';
        char *end = strstr(bytes, "\r\n\r\n");
        if (end == NULL)
            continue;
        size_t head_size = (size_t)(end - bytes) + 4;
        if (size < head_size + promised_size(bytes))
            continue;
        (void)snprintf(request->head, sizeof request->head, "%.*s", (int)head_size, bytes);
        (void)snprintf(request->body, sizeof request->body, "%.*s", REQUEST_BYTES - 1,
                       bytes + head_size);
        return true;
    }
}

static bool reply(int descriptor, int status, const char *body, size_t promised)
{
    char head[256];
    int size = snprintf(head, sizeof head,
                        "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        status, promised);
    return send_all(descriptor, head, (size_t)size) && send_all(descriptor, body, strlen(body));
}

static bool stream(int descriptor, const char *body, bool again)
{
    static const char head[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
    if (!send_all(descriptor, head, sizeof head - 1))
        return false;
    do
        if (!send_all(descriptor, body, strlen(body)))
            return false;
    while (again);
    return true;
}

/* Sends the request to the real etcd and reads its answer to the end. */
static size_t ask_real(const struct fake_gateway *gateway, const struct request *request,
                       char *answer, size_t capacity)
{
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(gateway->real_port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    char path[256] = "";
    need(sscanf(request->head, "POST %255s", path) == 1, "request line");
    char head[512];
    int size = snprintf(head, sizeof head,
                        "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                        path, strlen(request->body));
    need(send_all(descriptor, head, (size_t)size), "send");
    need(send_all(descriptor, request->body, strlen(request->body)), "send");
    size_t total = 0;
    ssize_t got = 1;
    while (got > 0 && total < capacity) {
        got = recv(descriptor, answer + total, capacity - total, 0);
        total += got > 0 ? (size_t)got : 0;
    }
    (void)close(descriptor);
    return total;
}

/* Plays one step; false when the connection is to be closed. */
static bool play(struct fake_gateway *gateway, int descriptor, const struct gateway_step *step,
                 const struct request *request)
{
    char answer[65536];
    switch (step->act) {
    case GATEWAY_REPLY:
        return reply(descriptor, step->status, step->body, strlen(step->body));
    case GATEWAY_CLOSE:
        return false;
    case GATEWAY_TRUNCATE:
        (void)reply(descriptor, step->status, step->body, strlen(step->body) + 10);
        return false;
    case GATEWAY_FLOOD:
        return stream(descriptor, step->body, true);
    case GATEWAY_STREAM:
        (void)stream(descriptor, step->body, false);
        break;
    case GATEWAY_FORWARD: {
        size_t size = ask_real(gateway, request, answer, sizeof answer);
        (void)send_all(descriptor, answer, size);
        return false;
    }
    case GATEWAY_FORWARD_CLOSE:
        (void)ask_real(gateway, request, answer, sizeof answer);
        return false;
    case GATEWAY_FORWARD_SILENT:
        (void)ask_real(gateway, request, answer, sizeof answer);
        break;
    case GATEWAY_SILENT:
        break;
    }
    /* Silent until the other side hangs up or the gateway stops. */
    (void)wait_readable(gateway, descriptor);
    return false;
}

static void serve(void *argument)
{
    struct connection *connection = argument;
    struct fake_gateway *gateway = connection->gateway;
    struct request *request = calloc(1, sizeof *request);
    need(request != NULL, "memory");
    while (read_request(gateway, connection->socket, request)) {
        ps_mutex_lock(&gateway->mutex);
        size_t number = gateway->request_count++;
        need(number < REQUESTS_MAX, "too many requests");
        gateway->requests[number] = *request;
        ps_mutex_unlock(&gateway->mutex);
        size_t last = gateway->step_count - 1;
        const struct gateway_step *step = &gateway->steps[number < last ? number : last];
        if (!play(gateway, connection->socket, step, request))
            break;
    }
    (void)shutdown(connection->socket, SHUT_RDWR);
    free(request);
}

static void accept_all(void *argument)
{
    struct fake_gateway *gateway = argument;
    while (wait_readable(gateway, gateway->listener)) {
        int descriptor = accept4(gateway->listener, NULL, NULL, SOCK_CLOEXEC);
        need(descriptor >= 0, "accept");
        ps_mutex_lock(&gateway->mutex);
        need(gateway->connection_count < CONNECTIONS_MAX, "too many connections");
        struct connection *connection = &gateway->connections[gateway->connection_count++];
        ps_mutex_unlock(&gateway->mutex);
        connection->gateway = gateway;
        connection->socket = descriptor;
        need(ps_thread_start(&connection->thread, "gateway", serve, connection, NULL) == PS_OK,
             "thread");
    }
}

struct fake_gateway *fake_gateway_start(const struct gateway_step *steps, size_t count,
                                        uint16_t real_port)
{
    struct fake_gateway *gateway = calloc(1, sizeof *gateway);
    need(gateway != NULL, "memory");
    gateway->steps = steps;
    gateway->step_count = count;
    gateway->real_port = real_port;
    ps_mutex_init(&gateway->mutex, PS_RANK_LEAF);
    gateway->stopping = eventfd(0, EFD_CLOEXEC);
    gateway->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(gateway->stopping >= 0 && gateway->listener >= 0, "socket");
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    need(bind(gateway->listener, (struct sockaddr *)&address, size) == 0, "bind");
    need(listen(gateway->listener, 16) == 0, "listen");
    need(getsockname(gateway->listener, (struct sockaddr *)&address, &size) == 0, "getsockname");
    (void)snprintf(gateway->url, sizeof gateway->url, "http://127.0.0.1:%u",
                   ntohs(address.sin_port));
    need(ps_thread_start(&gateway->acceptor, "acceptor", accept_all, gateway, NULL) == PS_OK,
         "thread");
    return gateway;
}

void fake_gateway_stop(struct fake_gateway *gateway)
{
    uint64_t one = 1;
    need(write(gateway->stopping, &one, sizeof one) == sizeof one, "stop");
    ps_thread_join(&gateway->acceptor);
    for (size_t i = 0; i < gateway->connection_count; i++) {
        /* Ends a flood whose reader has stopped reading. */
        (void)shutdown(gateway->connections[i].socket, SHUT_RDWR);
        ps_thread_join(&gateway->connections[i].thread);
        (void)close(gateway->connections[i].socket);
    }
    (void)close(gateway->listener);
    (void)close(gateway->stopping);
    ps_mutex_fini(&gateway->mutex);
    free(gateway);
}

const char *fake_gateway_url(const struct fake_gateway *gateway)
{
    return gateway->url;
}

size_t fake_gateway_requests(struct fake_gateway *gateway)
{
    ps_mutex_lock(&gateway->mutex);
    size_t count = gateway->request_count;
    ps_mutex_unlock(&gateway->mutex);
    return count;
}

size_t fake_gateway_connections(struct fake_gateway *gateway)
{
    ps_mutex_lock(&gateway->mutex);
    size_t count = gateway->connection_count;
    ps_mutex_unlock(&gateway->mutex);
    return count;
}

const char *fake_gateway_head(struct fake_gateway *gateway, size_t i)
{
    return i < fake_gateway_requests(gateway) ? gateway->requests[i].head : "";
}

const char *fake_gateway_body(struct fake_gateway *gateway, size_t i)
{
    return i < fake_gateway_requests(gateway) ? gateway->requests[i].body : "";
}
