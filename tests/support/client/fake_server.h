/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC server inside the test that misbehaves as told: answers, refuses, stays silent, breaks
 * calls, or goes away.
 *
 * Threads:  one of its own; the functions may be called from any other, one at a time.
 * Blocking: stop, until the thread has ended.
 * Errors:   asserts with Check.
 * Memory:   owned by the fake until stopped.
 */
#ifndef PS_TESTS_SUPPORT_CLIENT_FAKE_SERVER_H
#define PS_TESTS_SUPPORT_CLIENT_FAKE_SERVER_H

#include "base/bytes.h"
#include "base/status.h"
#include "proto/messages.h"

struct fake_server;

enum fake_answer_kind {
    FAKE_REPLY,  /* with `bytes` as the message */
    FAKE_REFUSE, /* with `status`, as a server of ours does */
    FAKE_BREAK,  /* end the stream without a status of ours */
    FAKE_HOLD    /* never answer */
};

struct fake_answer {
    enum fake_answer_kind kind;
    enum ps_status status;
    struct ps_bytes bytes; /* borrowed while the server runs */
};

/* Listens on 127.0.0.1:`port`; 0: a free one. */
struct fake_server *fake_server_start(int port);
int fake_server_port(const struct fake_server *server);
const char *fake_server_address(const struct fake_server *server);

/* How calls of this method are answered from now on. At first: an empty reply; but
 * GetCluster, BeginInit and EndInit are unknown to it. */
void fake_server_answer(struct fake_server *server, enum ps_method method,
                        struct fake_answer answer);
/* The next `count` calls of the method get this, then the rule above holds again. */
void fake_server_next(struct fake_server *server, enum ps_method method, uint32_t count,
                      struct fake_answer answer);

/* Calls of this method that came in, and the size of the last request. */
uint32_t fake_server_calls(struct fake_server *server, enum ps_method method);
size_t fake_server_last_size(struct fake_server *server, enum ps_method method);
/* The first FAKE_REQUEST_BYTES bytes of the n-th request of the method (from 0, at most the first
 * FAKE_REQUESTS_MAX are kept); their count is returned. */
#define FAKE_REQUESTS_MAX 8
#define FAKE_REQUEST_BYTES 256
size_t fake_server_request(struct fake_server *server, enum ps_method method, uint32_t n,
                           uint8_t bytes[FAKE_REQUEST_BYTES]);
/* Waits until that many came in. */
void fake_server_await(struct fake_server *server, enum ps_method method, uint32_t calls);

/* Cuts every connection at once. */
void fake_server_stop(struct fake_server *server);

#endif
