/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP server that misbehaves by a script: each request, in the order of their coming over all
 * connections, gets the next step; the last step repeats.
 *
 * Threads:  one of its own for accepting and one per connection; the functions here from the test's
 *           thread.
 * Blocking: start and stop only for a moment.
 * Errors:   whatever fails ends the test.
 * Memory:   the script is borrowed until the stop.
 */
#ifndef PS_TESTS_SUPPORT_ETCD_FAKE_GATEWAY_H
#define PS_TESTS_SUPPORT_ETCD_FAKE_GATEWAY_H

#include <stddef.h>
#include <stdint.h>

enum gateway_act {
    GATEWAY_REPLY,         /* `status` and `body`, whole */
    GATEWAY_SILENT,        /* reads the request and never answers */
    GATEWAY_CLOSE,         /* reads the request and closes */
    GATEWAY_TRUNCATE,      /* promises more than `body` and closes */
    GATEWAY_STREAM,        /* `body` as the begin of a reply that does not end */
    GATEWAY_FLOOD,         /* `body` again and again, without end */
    GATEWAY_FORWARD,       /* asks the real etcd and passes its answer on */
    GATEWAY_FORWARD_CLOSE, /* asks the real etcd, waits for its answer, closes instead */
    GATEWAY_FORWARD_SILENT /* asks the real etcd, waits for its answer, says nothing */
};

struct gateway_step {
    enum gateway_act act;
    int status;
    const char *body;
};

struct fake_gateway;

/* `real_port` is the port of a real etcd on 127.0.0.1; 0: none. */
struct fake_gateway *fake_gateway_start(const struct gateway_step *steps, size_t count,
                                        uint16_t real_port);
void fake_gateway_stop(struct fake_gateway *gateway);

/* "http://127.0.0.1:PORT". */
const char *fake_gateway_url(const struct fake_gateway *gateway);

/* Requests received so far; connections accepted so far. */
size_t fake_gateway_requests(struct fake_gateway *gateway);
size_t fake_gateway_connections(struct fake_gateway *gateway);

/* The first line and headers of request `i`, e.g. "POST /v3/kv/range HTTP/1.1...". */
const char *fake_gateway_head(struct fake_gateway *gateway, size_t i);

/* What request `i` carried. */
const char *fake_gateway_body(struct fake_gateway *gateway, size_t i);

#endif
