/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP port for people and machines that watch: /metrics, /livez, /readyz and an index. The
 * home of libmicrohttpd.
 *
 * Threads:  one of its own, from create to destroy; it calls the source.
 * Blocking: create resolves the address; destroy waits for the request in progress.
 * Errors:   create: PS_ERR_BAD_INPUT for an address that is none, PS_ERR_IO when it cannot be
 *           bound, PS_ERR_NO_MEMORY.
 * Memory:   everything in the options is borrowed and outlives the port.
 */
#ifndef PS_SERVER_HTTP_H
#define PS_SERVER_HTTP_H

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/log.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_http;
struct ps_http_tls; /* http_tls.h */

/* What the pages are made of. Called from the port's thread, one call at a time; must not block. */
struct ps_http_source {
    /* The process works; when false, it is to be killed. Appends the reason to `reason`. */
    bool (*is_live)(void *self, struct ps_buffer *reason);
    /* Requests are welcome. Appends the reason, or the state, to `reason`. */
    bool (*is_ready)(void *self, struct ps_buffer *reason);
    /* Appends the page of metrics. */
    void (*render)(void *self, struct ps_buffer *page);
    void *self;
};

struct ps_http_options {
    const char *listen; /* "HOST:PORT", "[::1]:PORT" or ":PORT"; port 0 picks a free one */
    const struct ps_http_source *source;
    const struct ps_allocator *memory;
    const struct ps_log *log; /* may be NULL */
    const char *title;        /* for the index: "pserver" */
    uint32_t connections_max; /* 0: 64 */
    struct ps_http_tls *tls;  /* NULL: plaintext; outlives the port */
    uint32_t idle_s;          /* a connection that is silent this long is closed; 0: 10 */
};

/* Answers requests from here on. */
PS_MUST_USE enum ps_status ps_http_create(const struct ps_http_options *options,
                                          struct ps_http **http, struct ps_error *error);

/* The port that was bound. */
uint16_t ps_http_port(const struct ps_http *http);

void ps_http_destroy(struct ps_http *http);

#endif
